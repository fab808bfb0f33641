/* SPDX-License-Identifier: MIT
 *
 * The kNN join on cores, through a kd-tree.
 */
#ifndef ADJI_CPU_KNN_H
#define ADJI_CPU_KNN_H

#include "queue/engine.h"

typedef struct adji_knn_options {
  uint64_t batch;   /* queries a batch; 0: 0.5 % of them                   */
  bool round_robin; /* batches dealt out in turns instead of by the queue  */
  bool shared;      /* devices take part                                   */
  uint32_t lanes;   /* threads that will take part; 0: all                 */
} adji_knn_options;

/* An engine with the cores as its worker. right: the adji_tree of the right set. Left points that are about as dense as
 * the right ones, or denser, get a tree too, and the queries of a leaf are searched together. Otherwise queries are
 * searched one by one, in the order of the leaves that they are near. Beside devices, queries come densest first: a
 * device is fastest with queries that are near each other. Memory of a run, per thread: 16 bytes (f64: 32) for each of
 * k for up to 64 queries, and about 128 * (leaf * (4 + sizeof(T)) + 2 * dim * sizeof(T)) bytes. */
adj_status adji_knn_create(const adji_join *join, const adji_lent *right, const adji_knn_options *options,
                           adji_engine *out);

/* How long a query takes a core, and how many candidates it meets, from the queries of some leaves, or of as many
 * queries one by one. */
adj_status adji_knn_try(const adji_engine *engine, uint64_t leaves, double *query_ns, double *candidates);

#endif
