/* SPDX-License-Identifier: MIT
 *
 * A device beside the cores: batches of the queue become lists of queries. Some lists are computed, or wait for the
 * device, while the rows of an earlier one are put into place by all lanes that are free. Batches are taken before the
 * device is done with those it has, so that it does not wait for the host. Only where a list cannot be started without
 * an answer of the device (rows so long that CUB sorts them, rows of a part of the result) do the two take turns.
 *
 * A placer knows how the rows of a list get into the result: place_rows.c for range joins, place_knn.c for kNN joins.
 *
 * A kNN search through a grid may miss queries (HybridKNN-Join, section 4.5). The groups of queries with a missed one
 * go back to the queue. Epsilon grows if too many of the queries of a take are missed; the device may then get some of
 * the missed ones again. So it takes no batches before those it has are done. Memory for that: 17 bytes a group.
 */
#ifndef ADJI_GPU_WORKER_LISTS_H
#define ADJI_GPU_WORKER_LISTS_H

#include "core/atomic.h"
#include "gpu/knn/knn.h"
#include "gpu/range/range_list.h"
#include "queue/scheduler.h"

/* Transfer statistics of a pass, over all lanes: waiting for copies, putting what came into place. */
typedef struct adji_transfer_stats {
  ADJI_ATOMIC(uint64_t) wait_ns, place_ns, bytes;
  uint64_t place_ns_before[2], bytes_before[2]; /* when the last list was submitted, and the one before it */
} adji_transfer_stats;

typedef struct adji_lists adji_lists;

/* A list that is under way. */
typedef struct adji_list {
  adji_lists *lists;
  uint32_t slot;
  uint64_t rows;  /* of its queries, that are in the window */
  uint64_t pairs; /* filling: entries of these rows         */
  uint64_t each;  /* rows that a lane places at once        */
  uint64_t candidates;
  ADJI_ATOMIC(uint64_t) found; /* pairs */
} adji_list;

/* How a kind of join gets lists computed and their rows into place. */
typedef struct adji_placer {
  /* A take is cut into so many lists, so that rows of one are placed while the next is computed. A list has at least so
   * many queries, which keep a device busy, and where it can a multiple of `multiple`. */
  uint32_t lists_a_take;
  uint64_t least_queries, multiple;
  /* Begins a list in a slot. *rows: how many of its queries have rows in the window. */
  adj_status (*begin)(adji_lists *lists, const adji_list_ranges *ranges, uint32_t slot, uint64_t *rows);
  /* Waits for a list. *found: what all lists since the pass began found, up to this one. */
  adj_status (*wait)(adji_lists *lists, uint32_t slot, adji_tally *found);
  /* Rows that fit a lane's buffer; 0: the rows need not be placed. */
  uint64_t (*rows_at_once)(const adji_list *list);
  /* Fetches rows of a list and puts them into place. */
  adj_status (*place)(adji_list *list, uint64_t first, uint64_t rows, uint32_t lane);
} adji_placer;

struct adji_lists {
  adji_gpu *gpu;
  adji_gpu_lists *range; /* of a range join */
  adji_gpu_knn *knn;     /* of a kNN join   */
  const adji_join *join;
  const adji_placer *placer;
  bool misses;           /* kNN: the device may miss queries                                                    */
  uint32_t *missed_room; /* where it does: positions, in the cores' order, of a list's queries without valid rows */
  const adji_pass *pass;
  uint64_t list_queries, list_pairs; /* that a slot has room for            */
  uint32_t most;                     /* lists under way; 0: ADJI_LISTS. Then each take is one list, if it fits */
  adji_batch *ranges;                /* of the next list                    */
  /* Where in the batches the next list begins. */
  struct {
    const adji_batch *batches;
    uint64_t count, at;
    uint32_t done;           /* queries of that batch that are in a list already */
    uint64_t queries, pairs; /* of a list, at most                               */
  } next;
  adji_list list[ADJI_LISTS];
  adji_tally found;   /* by all lists that are over                                  */
  adji_batch *missed; /* groups to be returned, and for each group whether it is one */
  uint8_t *is_missed;
  uint64_t missed_count;
  uint64_t take_queries, take_missed; /* where queries may be missed: of the batches taken last */
  adji_transfer_stats stats;
};

/* A pass: list_queries and list_pairs are set before. */
adj_status adji_lists_begin(adji_lists *lists, const adji_pass *pass);
void adji_lists_end(adji_lists *lists, adji_device_stats *stats);
/* Takes batches, and counts or fills the rows of their queries, as far as they are in the window. */
adj_status adji_lists_drain(adji_lists *lists, adji_feed *feed);

/* For trials: up to `wanted` queries, at least one, in ranges that are spread over an order of `count` queries. In a
 * range so many follow each other as in a batch. Returns how many ranges; *queries: in all. */
uint64_t adji_lists_sample(uint64_t count, uint64_t wanted, adji_batch *ranges, uint64_t *queries);

#endif
