/* SPDX-License-Identifier: MIT
 *
 * Which algorithm cores use for a range join if no axis pays. The recursion over boxes (ego) excludes or accepts whole
 * blocks of points if points are in clusters or the radius covers nearly all of them. But its order and boxes take time
 * to make, and rows in another order than that of the points must be sorted.
 */
#include <math.h>

#include "plan/choose.h"

enum { PAIRS = 256, FEW_POINTS = 1024, LEAST_DIM = 10 };

/* Between these shares of pairs many belong, but seldom a whole block. */
static const double MANY_NEAR = 0.15, NEARLY_ALL = 0.9;

static bool belongs(const adji_join *join, const adji_measure *measure, uint64_t l, uint64_t r) {
  const adj_dataset *left = join->left, *right = join->right;
  size_t size = adji_type_size(left->type);
  const char *x = left->data + l * left->row_stride, *y = right->data + r * right->row_stride;
  uint64_t x_stride = left->column_stride / size, y_stride = right->column_stride / size;
  if (left->type == ADJ_F64)
    return adji_sum_f64(measure, (const double *)x, x_stride, (const double *)y, y_stride, left->dim) <= join->limit;
  return (double)adji_sum_f32(measure, (const float *)x, x_stride, (const float *)y, y_stride, left->dim) <=
         join->limit;
}

/* The share of all pairs that belong, by a sample. */
static double near_share(const adji_range_question *q) {
  const adji_join *join = q->join;
  uint64_t left = join->left->count, right = join->right->count, near = 0;
  for (uint64_t i = 0; i < PAIRS; i++) {
    uint64_t hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t l = (hash >> 20) % left, r = ((hash ^ hash >> 31) * UINT64_C(0xbf58476d1ce4e5b9) >> 20) % right;
    near += belongs(join, q->measure, l, r);
  }
  return (double)near / PAIRS;
}

adji_algorithm adji_choose_without_axes(const adji_range_question *q) {
  const adji_join *join = q->join;
  if (!adji_measure_grows(q->measure)) return ADJI_ALGORITHM_BRUTE; /* no gap bounds an inner product */
  if (!join->left->count || !join->right->count || join->left->dim < LEAST_DIM) return ADJI_ALGORITHM_EGO;
  if (join->right->count <= FEW_POINTS) return ADJI_ALGORITHM_BRUTE;
  double share = near_share(q);
  return share > MANY_NEAR && share < NEARLY_ALL ? ADJI_ALGORITHM_BRUTE : ADJI_ALGORITHM_EGO;
}
