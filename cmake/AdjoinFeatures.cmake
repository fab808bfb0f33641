# SPDX-License-Identifier: MIT
# Optional parts. None is needed to build; a part that is absent costs its feature and nothing else.
#   adjoin_private_libraries     what the library links, never visible to its users
#   adjoin_private_includes      and the headers of those that come without a target
#   adjoin_private_definitions   ADJI_HAVE_..., ADJI_NO_CUDA
#   adjoin_private_link_flags    the same libraries as a user of the static library must name them
#   adjoin_found_<part>          a line for the summary

# Appends libraries given by path to adjoin_private_link_flags, as -L and -l where the name allows it.
function(adjoin_add_link_flags)
  foreach(path IN LISTS ARGN)
    get_filename_component(folder ${path} DIRECTORY)
    get_filename_component(name ${path} NAME)
    if(name MATCHES "^lib(.+)\\.(so|a|dylib)$")
      if(NOT folder IN_LIST CMAKE_C_IMPLICIT_LINK_DIRECTORIES)
        list(APPEND adjoin_private_link_flags -L${folder})
      endif()
      list(APPEND adjoin_private_link_flags -l${CMAKE_MATCH_1})
    else()
      list(APPEND adjoin_private_link_flags ${path})
    endif()
  endforeach()
  set(adjoin_private_link_flags ${adjoin_private_link_flags} PARENT_SCOPE)
endfunction()

find_package(Threads REQUIRED)
set(adjoin_private_libraries Threads::Threads ${CMAKE_DL_LIBS})
set(adjoin_private_link_flags ${CMAKE_THREAD_LIBS_INIT})
foreach(library IN LISTS CMAKE_DL_LIBS)
  list(APPEND adjoin_private_link_flags -l${library})
endforeach()
set(adjoin_private_includes)
set(adjoin_private_definitions)

find_library(ADJOIN_LIBM m)
mark_as_advanced(ADJOIN_LIBM)
if(ADJOIN_LIBM)
  list(APPEND adjoin_private_libraries m)
  list(APPEND adjoin_private_link_flags -lm)
endif()

find_package(ZLIB QUIET)
if(ZLIB_FOUND)
  list(APPEND adjoin_private_libraries ZLIB::ZLIB)
  adjoin_add_link_flags(${ZLIB_LIBRARIES})
  list(APPEND adjoin_private_definitions ADJI_HAVE_ZLIB)
  set(adjoin_found_zlib "yes, ${ZLIB_VERSION_STRING}")
else()
  set(adjoin_found_zlib "no: .gz files are refused")
endif()

# Looked for directly: CMake's own module runs h5cc, which is slow and leaves files where one stands. A shared
# libhdf5 brings its own dependencies along. Debian keeps the one without MPI in a folder of its own.
if(NOT CMAKE_DISABLE_FIND_PACKAGE_HDF5)
  find_path(ADJOIN_HDF5_INCLUDE hdf5.h PATH_SUFFIXES hdf5/serial)
  find_library(ADJOIN_HDF5_LIBRARY NAMES hdf5 hdf5_serial PATH_SUFFIXES hdf5/serial)
  mark_as_advanced(ADJOIN_HDF5_INCLUDE ADJOIN_HDF5_LIBRARY)
endif()
if(ADJOIN_HDF5_INCLUDE AND ADJOIN_HDF5_LIBRARY AND NOT CMAKE_DISABLE_FIND_PACKAGE_HDF5)
  list(APPEND adjoin_private_libraries ${ADJOIN_HDF5_LIBRARY})
  adjoin_add_link_flags(${ADJOIN_HDF5_LIBRARY})
  list(APPEND adjoin_private_includes ${ADJOIN_HDF5_INCLUDE})
  list(APPEND adjoin_private_definitions ADJI_HAVE_HDF5)
  set(adjoin_found_hdf5 "yes, ${ADJOIN_HDF5_LIBRARY}")
else()
  set(adjoin_found_hdf5 "no: .h5 files are refused")
endif()

include(AdjoinCuda)
