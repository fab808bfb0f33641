# SPDX-License-Identifier: MIT
# What `cmake --install` installs, and where: headers, libraries, the program, manual pages, and the two files by which
# other projects find the library, a CMake package (adjoin::adjoin) and adjoin.pc.
include(CMakePackageConfigHelpers)

install(FILES ${PROJECT_SOURCE_DIR}/include/adjoin.h ${PROJECT_SOURCE_DIR}/include/adjoin_cuda.h
  ${PROJECT_SOURCE_DIR}/include/adjoin_share.h ${PROJECT_BINARY_DIR}/include/adjoin_version.h
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})

# adjoin::adjoin is the shared library, or the static one if only that was built. adjoin::adjoin_static is always there.
if(NOT BUILD_SHARED_LIBS)
  add_library(adjoin_default INTERFACE)
  set_target_properties(adjoin_default PROPERTIES EXPORT_NAME adjoin)
  target_link_libraries(adjoin_default INTERFACE adjoin_static)
  list(APPEND adjoin_install_targets adjoin_default)
else()
  set_target_properties(adjoin PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
  list(APPEND adjoin_install_targets adjoin)
endif()
install(TARGETS ${adjoin_install_targets} adjoin_static EXPORT adjoin-targets)

set(adjoin_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/adjoin)

# libadjoin_mpi: a component of the package, which looks for MPI, and adjoin_mpi.pc, for users of mpicc.
if(adjoin_mpi_found)
  install(FILES ${PROJECT_SOURCE_DIR}/include/adjoin_mpi.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
  if(BUILD_SHARED_LIBS)
    set_target_properties(adjoin_mpi PROPERTIES BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")
    install(TARGETS adjoin_mpi EXPORT adjoin-mpi-targets)
  endif()
  install(TARGETS adjoin_mpi_static EXPORT adjoin-mpi-targets)
  install(EXPORT adjoin-mpi-targets NAMESPACE adjoin:: DESTINATION ${adjoin_package_dir})
endif()
install(EXPORT adjoin-targets NAMESPACE adjoin:: DESTINATION ${adjoin_package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/adjoin-config.cmake.in
  ${PROJECT_BINARY_DIR}/adjoin-config.cmake INSTALL_DESTINATION ${adjoin_package_dir})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/adjoin-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/adjoin-config.cmake ${PROJECT_BINARY_DIR}/adjoin-config-version.cmake
  DESTINATION ${adjoin_package_dir})

# Without a shared library every user links statically, so the private libraries are always listed.
string(JOIN " " adjoin_pc_private ${adjoin_private_link_flags})
set(adjoin_pc_libs "-L\${libdir} -ladjoin")
if(NOT BUILD_SHARED_LIBS)
  string(APPEND adjoin_pc_libs " ${adjoin_pc_private}")
endif()
file(RELATIVE_PATH adjoin_pc_to_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" adjoin_pc_to_prefix ${adjoin_pc_to_prefix})
configure_file(${PROJECT_SOURCE_DIR}/cmake/adjoin.pc.in ${PROJECT_BINARY_DIR}/adjoin.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/adjoin.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
if(adjoin_mpi_found)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/adjoin_mpi.pc.in ${PROJECT_BINARY_DIR}/adjoin_mpi.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/adjoin_mpi.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endif()

if(ADJOIN_WHEEL)
  install(TARGETS adjoin LIBRARY DESTINATION lib COMPONENT python)
endif()

# All that must be built for an installation, without tests and benchmark drivers.
add_custom_target(installed DEPENDS adjoin adjoin_static)
if(adjoin_mpi_found)
  add_dependencies(installed adjoin_mpi adjoin_mpi_static)
endif()
# adjoin_install_program(TARGET FILE LIBRARIES...): an installed program finds its libraries relative to itself, so an
# installation can be moved as a whole. The program in the build folder finds the libraries of the build. The two
# programs are the same objects, linked once for each place.
function(adjoin_install_program target file)
  add_executable(${target}_installed $<TARGET_OBJECTS:${target}>)
  set_target_properties(${target}_installed PROPERTIES OUTPUT_NAME ${file} LINKER_LANGUAGE C
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/installed BUILD_WITH_INSTALL_RPATH ON)
  if(BUILD_SHARED_LIBS)
    file(RELATIVE_PATH adjoin_bin_to_lib ${CMAKE_INSTALL_FULL_BINDIR} ${CMAKE_INSTALL_FULL_LIBDIR})
    set_target_properties(${target}_installed PROPERTIES INSTALL_RPATH "$ORIGIN/${adjoin_bin_to_lib}")
  endif()
  target_link_libraries(${target}_installed PRIVATE ${ARGN} Threads::Threads m)
  install(TARGETS ${target}_installed)
  add_dependencies(installed ${target} ${target}_installed)
endfunction()
if(TARGET adjoin_program)
  adjoin_install_program(adjoin_program adjoin adjoin)
endif()
if(TARGET adjoin_mpi_program)
  adjoin_install_program(adjoin_mpi_program adjoin-mpi adjoin_mpi adjoin MPI::MPI_C)
endif()

file(GLOB adjoin_manual_pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.1)
install(FILES ${adjoin_manual_pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
file(GLOB adjoin_documents CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
install(FILES ${adjoin_documents} DESTINATION ${CMAKE_INSTALL_DOCDIR})
