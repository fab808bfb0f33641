# SPDX-License-Identifier: MIT
# libadjoin_mpi, for joins over many machines. libadjoin itself never links MPI. ADJOIN_MPI says whether to build it:
#   AUTO   if an MPI for C is found
#   ON     it is an error if none is found
#   OFF    no
# Sets adjoin_mpi_found and adjoin_found_mpi, a line for the summary.
string(TOUPPER "${ADJOIN_MPI}" adjoin_mpi)
if(NOT adjoin_mpi MATCHES "^(AUTO|ON|YES|TRUE|1|OFF|NO|FALSE|0)$")
  message(FATAL_ERROR "ADJOIN_MPI is \"${ADJOIN_MPI}\", which is none of AUTO, ON, OFF")
endif()
set(adjoin_mpi_found FALSE)
if(NOT ADJOIN_MPI)
  set(adjoin_found_mpi "left out: ADJOIN_MPI is ${ADJOIN_MPI}")
elseif(adjoin_mpi STREQUAL "AUTO" AND (ADJOIN_WHEEL OR ADJOIN_FUZZ))
  set(adjoin_found_mpi "left out: wheels and fuzzers do without")
else()
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI QUIET COMPONENTS C)
  if(MPI_C_FOUND)
    set(adjoin_mpi_found TRUE)
    set(adjoin_found_mpi "yes, MPI ${MPI_C_VERSION}, ${MPI_C_COMPILER}")
  elseif(adjoin_mpi STREQUAL "AUTO")
    set(adjoin_found_mpi "no: libadjoin_mpi is left out. Debian: libopenmpi-dev openmpi-bin")
  else()
    message(FATAL_ERROR "ADJOIN_MPI is ${ADJOIN_MPI}, but no MPI for C was found. Debian: libopenmpi-dev openmpi-bin")
  endif()
endif()
