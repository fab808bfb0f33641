/* SPDX-License-Identifier: MIT
 *
 * A device as a worker of a range join that cores have a part in: batches of the queue become lists of queries. The
 * device counts the neighbours of a list, or finds them, and what it found goes into the rows of the result, piece by
 * piece and by all lanes that are free, while the device is at the next list. Host code that knows a device only
 * through a table of functions, so that tests can put another in its place.
 */
#ifndef ADJI_GPU_HYBRID_RANGE_WORKER_H
#define ADJI_GPU_HYBRID_RANGE_WORKER_H

#include "gpu/hybrid/list_loop.h"
#include "gpu/range/range_list.h"

/* What the worker asks of a device: see gpu/range/range_list.h and gpu/device/staging.h for what each does. */
typedef struct adji_rows_device {
  void *state;
  adj_status (*list)(void *state, const adji_list_ranges *list, uint32_t slot, uint64_t *rows);
  /* *found: what all lists since the pass began have found, up to this one. */
  adj_status (*listed)(void *state, uint32_t slot, adji_tally *found);
  adj_status (*fetch)(void *state, uint32_t slot, const adji_list_stretch *stretch, uint32_t buffer);
  adj_status (*wait)(void *state, uint32_t buffer);
  void *(*buffer)(void *state, uint32_t buffer); /* one a lane, those of devices included */
  void (*settle)(void *state);                   /* after a failure: nothing that was asked for is under way */
} adji_rows_device;

/* A list that is under way. */
typedef struct adji_range_list {
  struct adji_range_worker *worker;
  uint32_t slot;
  uint64_t rows, pairs;
  uint64_t each; /* rows a piece */
  adji_tally found;
} adji_range_list;

/* Where in the batches the next list begins. */
typedef struct adji_range_cursor {
  const adji_batch *batches;
  uint64_t count, at;
  uint32_t done;           /* of the batch there            */
  uint64_t queries, pairs; /* of a list, at most            */
} adji_range_cursor;

typedef struct adji_range_worker {
  const adji_rows_device *device;
  const adji_join *join;
  const adji_shared_work *work; /* of the pass */
  uint64_t list_queries;        /* a slot has room for               */
  uint64_t list_pairs;          /* the same, of a list that is filled */
  uint64_t list_ranges;         /* that may be handed over           */
  uint64_t buffer_bytes;        /* of each lane's buffer: 272 or more */
  adji_batch *ranges;           /* of a list; made by begin          */
  adji_range_cursor next;
  adji_range_list lists[ADJI_LISTS];
  adji_tally found; /* by all lists that are over */
  adji_list_stats stats;
} adji_range_worker;

adj_status adji_range_worker_begin(adji_range_worker *worker);
void adji_range_worker_end(adji_range_worker *worker, adji_device_stats *work);

/* Takes batches, and counts or fills the rows of their queries, as far as they are in the window. */
adj_status adji_range_worker_drain(adji_range_worker *worker, adji_help *help);

#endif
