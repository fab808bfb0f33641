/* SPDX-License-Identifier: MIT
 *
 * The k nearest neighbours of a group of queries below some nodes of a kd-tree. In many dimensions the leaves near the
 * box of a group are several times as many as those near one of its queries, so that testing them for every query is
 * most of the work. Here a query tests nodes of 16 leaves first.
 */
#ifndef ADJI_KNN_NEAR_H
#define ADJI_KNN_NEAR_H

#include <string.h>

#include "distance/kernels.h"

/* Merges the points below task->leaves, which are nodes of level 1 here, into the lists of all queries. leaves: level 0
 * of the tree, with ADJI_LEAF points a leaf. */
typedef void (*adji_knn_near_fn)(adji_knn_task *task, const adji_tree_level *leaves);

#if defined(__x86_64__)
void adji_knn_near_avx512(adji_knn_task *task, const adji_tree_level *leaves);
/* For k = 1 and 2 to 6 dimensions, where queries exclude no id. */
void adji_knn_near_one_avx512(adji_knn_task *task, const adji_tree_level *leaves);
#endif

/* That of an instruction set of adj_isa_name() and a type; NULL: none. nearest: for k = 1. */
static inline adji_knn_near_fn adji_knn_near_for(const char *isa, adj_type type, bool nearest) {
#if defined(__x86_64__)
  if (type == ADJ_F32 && !strcmp(isa, "avx512")) return nearest ? adji_knn_near_one_avx512 : adji_knn_near_avx512;
#endif
  (void)isa;
  (void)type;
  (void)nearest;
  return NULL;
}

#endif
