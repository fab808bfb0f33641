/* SPDX-License-Identifier: MIT
 *
 * The kNN join on cores, through a kd-tree.
 */
#ifndef ADJI_CPU_KNN_H
#define ADJI_CPU_KNN_H

#include "queue/engine.h"

/* Which worker gets which queries: the setting paper.queue. */
typedef enum adji_knn_queue {
  ADJI_KNN_QUEUE_ON = 1, /* batches through the queue; the default                                    */
  ADJI_KNN_QUEUE_OFF,    /* batches dealt out in turn */
  ADJI_KNN_QUEUE_POINTS, /* queries dealt out in turn, in the order of the rows (HybridKNN-Join 5.3) */
  ADJI_KNN_QUEUE_CELLS   /* through the queue, in the order of `rows`, queries of full cells first (4.5) */
} adji_knn_queue;

typedef struct adji_knn_options {
  uint64_t batch; /* queries per batch; 0: 0.5 % of them */
  adji_knn_queue queue;
  uint32_t *rows; /* for QUEUE_CELLS, in the context's memory; adji_knn_create() takes it over, even if it fails */
  bool shared;    /* devices take part                   */
  uint32_t lanes; /* threads that will take part; 0: all */
} adji_knn_options;

/* An engine with the cores as its worker. right: the adji_tree of the right set. If the left points are about as dense
 * as the right ones, or denser, they get a tree too, and the queries of a leaf are searched together. Otherwise queries
 * are searched one by one, in the order of the leaves near them. Beside devices, queries come densest first: a device
 * is fastest with queries that are near each other. Memory of a run, per thread: 16 * k bytes (f64: 32 * k) for each of
 * up to 64 queries, and about 128 * (leaf * (4 + sizeof(T)) + 2 * dim * sizeof(T)) bytes. */
adj_status adji_knn_create(const adji_join *join, const adji_lent *right, const adji_knn_options *options,
                           adji_engine *out);

/* Measures how long a core takes for a query, and how many candidates a query meets, with the queries of some leaves,
 * or with as many queries one by one. */
adj_status adji_knn_try(const adji_engine *engine, uint64_t leaves, double *query_ns, double *candidates);

#endif
