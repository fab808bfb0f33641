/* SPDX-License-Identifier: MIT
 *
 * Contexts for the ranks of a host, which share its cores, memory and devices; and adj_mpi_agree, for programs.
 */
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "adjoin_mpi.h"
#include "mpi/group.h"

/* The number of ranks on this host, and this rank's number among them. */
typedef struct host {
  int rank, ranks;
  bool bound; /* each rank is bound to cores of its own */
} host;

#if defined(__linux__)
/* Sets *bound: whether no core is shared by two ranks. */
static int find_binding(MPI_Comm comm, int ranks, bool *bound) {
  cpu_set_t mine;
  *bound = false;
  if (sched_getaffinity(0, sizeof mine, &mine)) return MPI_SUCCESS;
  int counts[CPU_SETSIZE];
  for (int i = 0; i < CPU_SETSIZE; i++)
    counts[i] = CPU_ISSET(i, &mine) ? 1 : 0;
  int code = MPI_Allreduce(MPI_IN_PLACE, counts, CPU_SETSIZE, MPI_INT, MPI_SUM, comm);
  *bound = ranks > 1;
  for (int i = 0; i < CPU_SETSIZE; i++)
    if (counts[i] > 1) *bound = false;
  return code;
}
#else
static int find_binding(MPI_Comm comm, int ranks, bool *bound) {
  (void)comm;
  (void)ranks;
  *bound = false;
  return MPI_SUCCESS;
}
#endif

static int find_host(MPI_Comm comm, host *out) {
  MPI_Comm here = MPI_COMM_NULL;
  int code = MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here);
  if (!code) code = MPI_Comm_rank(here, &out->rank);
  if (!code) code = MPI_Comm_size(here, &out->ranks);
  if (!code) code = find_binding(here, out->ranks, &out->bound);
  if (here != MPI_COMM_NULL) (void)MPI_Comm_free(&here);
  return code;
}

/* The devices of this rank: every ranks-th one, or a single one that ranks share if there are fewer devices than ranks.
 * Returns their number; -1: use the options as they are. */
static int32_t share_devices(const adj_ctx_options *options, const host *h, int32_t *devices, int32_t room) {
  int32_t named = options->device_count, count = 0, found = 0;
  if (named == 0 || h->ranks == 1) return -1;
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (named < 0)
    while (found < room && adj_device_describe((uint32_t)found, &device) == ADJ_OK)
      found++;
  else
    found = named;
  if (!found) return -1;
  for (int32_t i = h->rank % found; i < found && count < room; i += h->ranks)
    devices[count++] = named > 0 ? options->devices[i] : i;
  return count;
}

static adj_status create(MPI_Comm comm, const adj_ctx_options *options, adj_ctx **out) {
  host h = {0, 1, false};
  if (find_host(comm, &h)) return adji_fail(ADJ_E_IO, "the ranks of this host cannot be found");
  adj_ctx_options mine;
  int32_t devices[64];
  adj_ctx_options_init(&mine, sizeof mine);
  adj_status status = options ? adji_take_struct(&mine, sizeof mine, options, "adj_ctx_options") : ADJ_OK;
  bool share_threads = !mine.threads && h.ranks > 1 && !h.bound, share_memory = !mine.memory_limit && h.ranks > 1;
  int32_t shared_count = status ? -1 : share_devices(&mine, &h, devices, 64);
  if (shared_count >= 0) {
    mine.devices = devices;
    mine.device_count = shared_count;
  }
  if (!status && (share_threads || share_memory)) { /* divide what a single process would take */
    adj_ctx *whole = NULL;
    status = adj_ctx_create(&mine, &whole);
    uint32_t threads = status ? 1 : adj_ctx_threads(whole), ranks = (uint32_t)h.ranks;
    if (!status && share_threads)
      mine.threads = threads > ranks ? threads / ranks + ((uint32_t)h.rank < threads % ranks) : 1;
    if (!status && share_memory) mine.memory_limit = adj_ctx_memory_limit(whole) / ranks;
    adj_ctx_destroy(whole);
  }
  return status ? status : adj_ctx_create(&mine, out);
}

adj_status adj_mpi_ctx_create(MPI_Comm comm, const adj_ctx_options *options, adj_ctx **out) {
  if (!out) return adji_fail(ADJ_E_ARGUMENT, "out: may not be NULL");
  adj_ctx *mine = NULL;
  adj_status status = create(comm, options, &mine);
  status = adj_mpi_agree(comm, status, NULL);
  if (status)
    adj_ctx_destroy(mine);
  else
    *out = mine;
  return status;
}

adj_status adj_mpi_agree(MPI_Comm comm, adj_status status, const char *message) {
  int rank = 0, ranks = 1, lowest;
  adji_note note = {.status = status};
  if (status) snprintf(note.text, sizeof note.text, "%s", message ? message : adj_last_error());
  int code = MPI_Comm_rank(comm, &rank);
  if (!code) code = MPI_Comm_size(comm, &ranks);
  lowest = status ? rank : ranks;
  MPI_Request request;
  if (!code) code = MPI_Iallreduce(MPI_IN_PLACE, &lowest, 1, MPI_INT, MPI_MIN, comm, &request);
  if (!code) code = adji_await(&request);
  if (!code && lowest < ranks) {
    code = MPI_Ibcast(&note, sizeof note, MPI_BYTE, lowest, comm, &request);
    if (!code) code = adji_await(&request);
  }
  if (code) return adji_fail(ADJ_E_IO, "rank %d: MPI failed while the ranks agreed", rank);
  if (lowest == ranks) return ADJ_OK;
  return adji_fail((adj_status)note.status, "rank %d: %s", lowest, note.text);
}
