# SPDX-License-Identifier: MIT
# Prints all decisions in one place, at the end of the configuration.
set(adjoin_extras "")
if(ADJOIN_SANITIZE)
  string(APPEND adjoin_extras ", sanitizers ${ADJOIN_SANITIZE}")
endif()
if(ADJOIN_COVERAGE)
  string(APPEND adjoin_extras ", coverage")
endif()
if(ADJOIN_FUZZ)
  string(APPEND adjoin_extras ", fuzzers")
endif()
message(STATUS "adjoin ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}${adjoin_extras}, "
  "${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, ${CMAKE_SYSTEM_PROCESSOR}")
foreach(part zlib mpi cuda)
  message(STATUS "  ${part}: ${adjoin_found_${part}}")
endforeach()
string(JOIN ", " adjoin_hardening_list ${adjoin_hardening})
message(STATUS "  protections: ${adjoin_hardening_list}")
