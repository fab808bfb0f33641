/* SPDX-License-Identifier: MIT
 *
 * A device as a worker of a kNN join that cores have a part in: batches of the queue become lists of queries, and what
 * the device finds for a list goes into the rows of the table, piece by piece and by all lanes that are free, while the
 * device is at the next list. Host code that knows a device only through a table of functions, so that tests can put
 * another in its place.
 *
 * A device may leave queries without their rows (HybridKNN-Join, section 4.5): the groups of queries that these are of
 * go back to the cores, with those of a group that it did find. Memory for that: 17 bytes a group.
 */
#ifndef ADJI_GPU_HYBRID_KNN_WORKER_H
#define ADJI_GPU_HYBRID_KNN_WORKER_H

#include "gpu/hybrid/list_loop.h"
#include "gpu/knn/knn.h"

/* What the worker asks of a device: see gpu/knn/knn.h and gpu/device/staging.h for what each does. */
typedef struct adji_list_device {
  void *state;
  adj_status (*list)(void *state, const adji_batch *ranges, uint64_t count, uint32_t slot, uint64_t *rows);
  adj_status (*listed)(void *state, uint32_t slot, uint64_t *candidates);
  adj_status (*fetch)(void *state, uint32_t slot, uint64_t first, uint64_t rows, uint32_t buffer);
  adj_status (*wait)(void *state, uint32_t buffer);
  const void *(*buffer)(void *state, uint32_t buffer); /* one a lane, those of devices included */
  void (*settle)(void *state);                         /* after a failure: nothing that was asked for is under way */
  /* Queries of a list that is listed whose rows hold anything: their positions in the cores' order, there until the
   * next list is. NULL: there are none in any list. */
  adj_status (*missed)(void *state, uint32_t slot, const uint32_t **positions, uint64_t *count);
} adji_list_device;

/* A list that is under way. */
typedef struct adji_knn_list {
  struct adji_knn_worker *worker;
  uint32_t slot;
  uint64_t rows, each; /* each: rows a piece */
  uint64_t candidates;
  ADJI_ATOMIC(uint64_t) pairs;
} adji_knn_list;

/* Where in the batches the next list begins. */
typedef struct adji_knn_cursor {
  const adji_batch *batches;
  uint64_t count, at;
  uint32_t done; /* queries of the batch there that are in a list already */
  uint64_t each; /* queries a list                                        */
} adji_knn_cursor;

typedef struct adji_knn_worker {
  const adji_list_device *device;
  const adji_join *join;
  const adji_table *table;
  const uint32_t *order; /* rows of the cores' queries, and how many of these are a group, where some are missed */
  uint32_t group;
  uint64_t list_queries; /* a slot has room for       */
  uint64_t list_ranges;  /* that may be handed over   */
  uint64_t buffer_bytes; /* of each lane's buffer     */
  adji_batch *ranges;    /* of a list; made by begin  */
  adji_knn_cursor next;
  adji_knn_list lists[ADJI_LISTS];
  adji_batch *missed; /* groups to be given back, and of each whether it is one of them; made by begin */
  uint8_t *is_missed;
  uint64_t missed_count;
  uint64_t candidates; /* of all lists that are over */
  adji_list_stats stats;
} adji_knn_worker;

/* Whether a row fits a buffer. */
bool adji_knn_worker_can(const adji_join *join, uint64_t buffer_bytes);

adj_status adji_knn_worker_begin(adji_knn_worker *worker);
void adji_knn_worker_end(adji_knn_worker *worker, adji_device_stats *work);

/* Takes batches, and fills the rows of their queries, as far as they are in the table. */
adj_status adji_knn_worker_drain(adji_knn_worker *worker, adji_help *help);

#endif
