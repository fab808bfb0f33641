/* SPDX-License-Identifier: MIT
 *
 * The peer of bench/index.c: nanoflann, used like a kept index.
 */
#ifndef BENCH_INDEX_H
#define BENCH_INDEX_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* An answer, reused from call to call. Rows of a radius search begin at offsets. Rows of a kNN search have k entries.
 * */
typedef struct peer_answer {
  uint64_t *offsets; /* room for one entry more than queries */
  uint32_t *ids;
  float *distances;
  size_t room; /* entries of ids and distances */
} peer_answer;

typedef struct peer_index peer_index;

/* The points must outlive the index. dim: 2, 3, 6 or 16. leaf: points per leaf. */
peer_index *peer_create(const float *points, size_t count, unsigned dim, size_t leaf);
void peer_destroy(peer_index *index);

/* Finds the k nearest of each query, with all threads unless there is one query. ordered: sorts the queries first. */
void peer_nearest(const peer_index *index, const float *queries, size_t count, unsigned k, int ordered,
                  peer_answer *answer);
/* Finds all points within the radius (closed), with distances. */
void peer_within(const peer_index *index, const float *queries, size_t count, double radius, int ordered,
                 peer_answer *answer);

#ifdef __cplusplus
}
#endif
#endif
