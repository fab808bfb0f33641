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
  bool by_qsort;  /* EGO-sort by the C library's qsort in one thread; otherwise in parallel                    */
  bool unsorted;  /* queries stay in epsilon grid order: a device will give a queue                            */
  bool producers; /* threads share pairs of sequences (cpu/ego_tasks.h); otherwise batches of queries, by work */
  uint32_t leaf;  /* points of a sequence that is not cut any more; 0: the default                             */
  uint64_t batch; /* queries of a batch; 0: the default                                                        */
} adji_ego_range_options;

/* An engine with the cores as its worker. Devices may be added to one without producers. Memory: a copy of the points
 * with 4 bytes each, 8 bytes a query more without producers; and in a pass that fills rows 4 bytes for each of them,
 * and the sums of their entries if they are sorted by distance and distances are not wanted. */
adj_status adji_ego_range_create(const adji_join *join, const adji_ego_range_options *options, adji_engine *out);

/* As adji_range_set_queue(): the cores take queries from a queue that a device has made (HEGJoin 4.2). NULL: from their
 * own again. Not with producers. */
adj_status adji_ego_range_set_queue(adji_engine *engine, adji_range_queue *queue, double *results);

/* What it took to create. */
typedef struct adji_ego_seconds {
  double reorder, sort, workload;
} adji_ego_seconds;
adji_ego_seconds adji_ego_range_seconds(const adji_engine *engine);

/* Counts the neighbours and candidates of some queries, and scales them up to all; nanoseconds that a query takes. */
typedef struct adji_ego_sample {
  double pairs, candidates, query_ns;
} adji_ego_sample;
adj_status adji_ego_range_try(const adji_engine *engine, uint64_t queries, adji_ego_sample *out);

#endif
