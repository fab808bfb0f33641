/* SPDX-License-Identifier: MIT
 *
 * See shim.h. These definitions take precedence over those of the MPI library, which has the same functions as PMPI_.
 */
#include "shim.h"

#include <mpi.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

static shim_fault fault;
static long calls_to_go;
static int reached;

void shim_set(shim_fault what, long at) {
  fault = what;
  calls_to_go = at;
  reached = 0;
}

int shim_reached(void) {
  return reached;
}

/* Whether this call fails. */
static int fails_now(void) {
  if (fault == SHIM_NONE || --calls_to_go) return 0;
  struct timespec some = {0, 100000000};
  reached = 1;
  if (fault == SHIM_DELAY) nanosleep(&some, NULL);
  if (fault == SHIM_ABORT) PMPI_Abort(MPI_COMM_WORLD, 3);
  if (fault == SHIM_KILL) kill(getpid(), SIGKILL);
  return fault == SHIM_FAIL;
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, MPI_Request *request) {
  return fails_now() ? MPI_ERR_OTHER : PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm, MPI_Request *request) {
  return fails_now() ? MPI_ERR_OTHER : PMPI_Irecv(data, count, type, from, tag, comm, request);
}

int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm,
                   MPI_Request *request) {
  return fails_now() ? MPI_ERR_OTHER : PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

int MPI_Iallgather(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count, MPI_Datatype out_type,
                   MPI_Comm comm, MPI_Request *request) {
  return fails_now() ? MPI_ERR_OTHER : PMPI_Iallgather(in, in_count, in_type, out, out_count, out_type, comm, request);
}

int MPI_Ialltoall(const void *in, int in_count, MPI_Datatype in_type, void *out, int out_count, MPI_Datatype out_type,
                  MPI_Comm comm, MPI_Request *request) {
  return fails_now() ? MPI_ERR_OTHER : PMPI_Ialltoall(in, in_count, in_type, out, out_count, out_type, comm, request);
}

int MPI_Ibcast(void *data, int count, MPI_Datatype type, int root, MPI_Comm comm, MPI_Request *request) {
  return fails_now() ? MPI_ERR_OTHER : PMPI_Ibcast(data, count, type, root, comm, request);
}
