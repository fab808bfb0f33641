# SPDX-License-Identifier: MIT
# Optional parts. None is needed to build. Without a part only its feature is missing.
#   adjoin_private_libraries     libraries that libadjoin links, never visible to its users
#   adjoin_private_includes      header folders of those that have no CMake target
#   adjoin_private_definitions   ADJI_HAVE_..., ADJI_NO_CUDA
#   adjoin_private_link_flags    the same libraries, as a user of the static library must name them
#   adjoin_found_<part>          a line for the summary

# Appends libraries given by path to adjoin_private_link_flags, as -L and -l if the name allows it.
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

if(NOT ADJOIN_WHEEL) # the Python package reads no files
  find_package(ZLIB QUIET)
endif()
if(ZLIB_FOUND)
  list(APPEND adjoin_private_libraries ZLIB::ZLIB)
  adjoin_add_link_flags(${ZLIB_LIBRARIES})
  list(APPEND adjoin_private_definitions ADJI_HAVE_ZLIB)
  set(adjoin_found_zlib "yes, ${ZLIB_VERSION_STRING}")
else()
  set(adjoin_found_zlib "no: .gz files are refused")
endif()

# The HDF5 library is loaded at run time, when the first HDF5 file is read. No build needs it.
if(CMAKE_DL_LIBS)
  list(APPEND adjoin_private_libraries ${CMAKE_DL_LIBS})
  list(APPEND adjoin_private_link_flags -l${CMAKE_DL_LIBS})
endif()

include(AdjoinMpi)
include(AdjoinCuda)
