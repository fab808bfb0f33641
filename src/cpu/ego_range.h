/* SPDX-License-Identifier: MIT
 *
 * The range join on cores as Super-EGO and SEGO-New do it: EGO-sort, then EGO-Join (cpu/ego_join.h), for L2, L1 and
 * Linf without a periodic box.
 */
#ifndef ADJI_EGO_RANGE_H
#define ADJI_EGO_RANGE_H

#include "cpu/range_queue.h"
#include "index/ego_order.h"
#include "queue/engine.h"

typedef struct adji_ego_range_options {
  adji_ego_order_options order;
  bool by_qsort;  /* EGO-sort by the C library's qsort in one thread; otherwise in parallel */
  bool unsorted;  /* queries stay in epsilon grid order, because a device will make the queue */
  bool producers; /* threads share pairs of sequences (cpu/ego_tasks.h); otherwise they take batches of queries */
  uint32_t leaf;  /* the longest sequence that is not cut; 0: the default */
  uint64_t batch; /* queries per batch; 0: the default */
} adji_ego_range_options;

/* An engine with the cores as its worker. Devices may be added if there are no producers. Memory: a copy of the points
 * with 4 bytes for each; 8 bytes more per query without producers. A pass that fills rows takes 4 bytes per row, and
 * the sums of their entries if rows are sorted by distance but distances are not wanted. */
adj_status adji_ego_range_create(const adji_join *join, const adji_ego_range_options *options, adji_engine *out);

/* Like adji_range_set_queue(): the cores take queries from a queue that a device has made (HEGJoin 4.2). NULL: they use
 * their own queue again. Not with producers. */
adj_status adji_ego_range_set_queue(adji_engine *engine, adji_range_queue *queue, double *results);

/* Seconds of the steps of adji_ego_range_create(). */
typedef struct adji_ego_seconds {
  double reorder, sort, workload;
} adji_ego_seconds;
adji_ego_seconds adji_ego_range_seconds(const adji_engine *engine);

/* Counts the neighbours and candidates of some queries, scaled up to all queries, and measures the nanoseconds per
 * query. */
typedef struct adji_ego_sample {
  double pairs, candidates, query_ns;
} adji_ego_sample;
adj_status adji_ego_range_try(const adji_engine *engine, uint64_t queries, adji_ego_sample *out);

#endif
