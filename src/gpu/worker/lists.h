/* SPDX-License-Identifier: MIT
 *
 * A device beside the cores: batches of the queue become lists of queries. While some lists are computed, or wait for
 * the device, all free lanes put the rows of an earlier list into place. Batches are taken before the device is done
 * with those it has, so that it does not wait for the host. Host and device only take turns where a list cannot be
 * started without an answer from the device (rows so long that CUB sorts them, rows of a part of the result).
 *
 * A placer puts the rows of a list into the result: place_rows.c for range joins, place_knn.c for kNN joins.
 *
 * A kNN search through a grid may miss queries (HybridKNN-Join, section 4.5). A group of queries that has a missed one
 * goes back to the queue. Epsilon grows if too many queries of a take are missed; the device may then get some of the
 * missed queries again. So it takes no batches before those it has are done. Memory for that: 17 bytes per group.
 */
#ifndef ADJI_GPU_WORKER_LISTS_H
#define ADJI_GPU_WORKER_LISTS_H

#include "core/atomic.h"
#include "gpu/knn/knn.h"
#include "gpu/range/range_list.h"
#include "queue/scheduler.h"

/* Transfer statistics of a pass, summed over all lanes: the times of waiting for copies and of placing rows, and the
 * bytes copied. */
typedef struct adji_transfer_stats {
  ADJI_ATOMIC(uint64_t) wait_ns, place_ns, bytes;
  uint64_t place_ns_before[2], bytes_before[2]; /* when the placing of the last list began, and of the one before it */
} adji_transfer_stats;

typedef struct adji_lists adji_lists;

/* A list that was started. */
typedef struct adji_list {
  adji_lists *lists;
  uint32_t slot;
  uint64_t rows;  /* those of its queries that are in the window */
  uint64_t pairs; /* filling: entries of these rows */
  uint64_t each;  /* rows that a lane places at once */
  uint64_t candidates;
  ADJI_ATOMIC(uint64_t) found; /* pairs */
} adji_list;

/* How lists of a kind of join are computed, and how their rows are put into place. */
typedef struct adji_placer {
  /* lists_a_take: a take is cut into this many lists, so that the rows of one are placed while the next is computed.
   * least_queries: the least queries of a list, which keep a device busy. If possible their number is a multiple of
   * `multiple`. */
  uint32_t lists_a_take;
  uint64_t least_queries, multiple;
  /* Starts a list in a slot. *rows: how many of its queries have rows in the window. */
  adj_status (*begin)(adji_lists *lists, const adji_list_ranges *ranges, uint32_t slot, uint64_t *rows);
  /* Waits for a list. *found: the totals of all lists of the pass, up to this one. */
  adj_status (*wait)(adji_lists *lists, uint32_t slot, adji_tally *found);
  /* The number of rows that fit a lane's buffer; 0: the rows need not be placed. */
  uint64_t (*rows_at_once)(const adji_list *list);
  /* Fetches rows of a list and puts them into place. */
  adj_status (*place)(adji_list *list, uint64_t first, uint64_t rows, uint32_t lane);
} adji_placer;

struct adji_lists {
  adji_gpu *gpu;
  adji_gpu_lists *range; /* of a range join */
  adji_gpu_knn *knn;     /* of a kNN join */
  const adji_join *join;
  const adji_placer *placer;
  bool misses;              /* kNN: the device may miss queries */
  uint32_t *missed_queries; /* the missed queries of a list, as positions in the cores' order */
  const adji_pass *pass;
  uint64_t list_queries, list_pairs; /* that a slot has room for */
  uint32_t most; /* the most lists at a time, and each take is one list, if it fits; 0: ADJI_LISTS lists, of any size */
  adji_batch *ranges; /* of the next list */
  /* Where the next list begins in the batches. */
  struct {
    const adji_batch *batches;
    uint64_t count, at;
    uint32_t done;           /* queries of that batch that are in lists already */
    uint64_t queries, pairs; /* the most of a list */
  } next;
  adji_list list[ADJI_LISTS];
  adji_tally found;   /* by all finished lists */
  adji_batch *missed; /* groups to return, and for each group whether it is one of them */
  uint8_t *is_missed;
  uint64_t missed_count;
  uint64_t take_queries, take_missed; /* of the last take: its queries, and those that were missed */
  adji_transfer_stats stats;
};

/* Begins and ends a pass. If queries may be missed, list_queries must be set before. */
adj_status adji_lists_begin(adji_lists *lists, const adji_pass *pass);
void adji_lists_end(adji_lists *lists, adji_device_stats *stats);
/* Takes batches, and counts or fills those rows of their queries that are in the window. */
adj_status adji_lists_drain(adji_lists *lists, adji_feed *feed);

/* For trials: chooses up to `wanted` queries, at least one, in ranges that are spread over an order of `count` queries.
 * A range has about as many queries as a batch. Returns the number of ranges; *queries: the number of queries. */
uint64_t adji_lists_sample(uint64_t count, uint64_t wanted, adji_batch *ranges, uint64_t *queries);

#endif
