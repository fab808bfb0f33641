/* SPDX-License-Identifier: MIT
 *
 * The reference: joins by nested loops, straight from the definition of the canonical distance. It
 * shares no code with src/, so that a mistake cannot be on both sides.
 */
#ifndef ADJOIN_REFERENCE_H
#define ADJOIN_REFERENCE_H

#include <stdbool.h>
#include <stdint.h>

#include "adjoin.h"

/* Points in memory: row-major and packed. */
typedef struct point_set {
  adj_type type;
  uint32_t dim;
  uint64_t count;
  void *data;
} point_set;

/* Row i holds the entries offsets[i] .. offsets[i + 1] - 1. distances has the type of the points and
 * is always there, whatever the flags say. */
typedef struct reference_rows {
  uint64_t rows;
  uint64_t *offsets;
  uint32_t *ids;
  void *distances;
  uint64_t room; /* for entries */
} reference_rows;

/* Joins left with right, or with itself if right is NULL. Uses the members of spec that say what is joined, and ignores
 * those that say how. A row of a range join has ascending ids in out, and is sorted by (distance, id) in by_distance,
 * which may be NULL. A row of a kNN join has k entries by (distance, id) in both, padded with ADJ_NO_ID and INFINITY
 * (inner products: -INFINITY). Returns false if memory runs out. */
bool reference_join(const point_set *left, const point_set *right, const adj_join_spec *spec, reference_rows *out,
                    reference_rows *by_distance);
void reference_free(reference_rows *rows);

/* The canonical value s of two points with dim coordinates (the squared distance for L2), the threshold R
 * that it is compared with, and the distance that is reported for it. In T, which a double holds exactly. */
enum { REFERENCE_MOST_DIM = 4096 };
double reference_value(const adj_join_spec *spec, adj_type type, const void *a, const void *b, uint32_t dim);
double reference_threshold(const adj_join_spec *spec, adj_type type);
double reference_distance(const adj_join_spec *spec, adj_type type, double value);

/* Cosine distances are measured on vectors of length 1, great circles on points of the sphere. reference_derive makes
 * these derived points for a whole set once (false: out of memory; the caller frees out->data), and
 * reference_measured_value takes them. With other metrics the points are measured as they are. */
bool reference_is_derived(const adj_join_spec *spec);
bool reference_derive(const adj_join_spec *spec, const point_set *set, point_set *out);
double reference_measured_value(const adj_join_spec *spec, adj_type type, const void *a, const void *b, uint32_t dim);

static inline size_t type_size(adj_type type) {
  return type == ADJ_F64 ? sizeof(double) : sizeof(float);
}

/* Row number row of a set. */
static inline const void *row_of(const point_set *set, uint64_t row) {
  return (const char *)set->data + row * set->dim * type_size(set->type);
}

#endif
