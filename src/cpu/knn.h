/* SPDX-License-Identifier: MIT
 *
 * The kNN join on cores: the engine that drains the queue with the tree's candidates.
 */
#ifndef ADJI_CPU_KNN_H
#define ADJI_CPU_KNN_H

#include "index/tree.h"
#include "queue/join.h"

typedef struct adji_knn_options {
  const adji_tree *left, *right; /* the same for a self-join                            */
  uint64_t batch;                /* queries a batch; 0: 0.5 % of them                   */
  bool round_robin;              /* batches dealt out in turns instead of by the queue  */
  /* Devices that take part, copied; they are the engine's from then on. Queries then come densest first, since a device
   * has most of them near each other there. */
  const adji_partner *partners;
  uint32_t partner_count;
  adji_share_options share;
} adji_knn_options;

/* Memory of a run, per thread: 16 bytes (f64: 32) for each of k for up to 64 queries, and about
 * 128 * (leaf * (4 + sizeof(T)) + 2 * dim * sizeof(T)) bytes. */
adj_status adji_knn_create(const adji_join *join, const adji_knn_options *options, adji_engine *out);

/* How long a query takes a core, and how many candidates it meets, from the queries of some leaves. */
adj_status adji_knn_try(const adji_engine *engine, uint64_t leaves, double *query_ns, double *candidates);

#endif
