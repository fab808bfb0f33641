/* SPDX-License-Identifier: MIT
 *
 * In few dimensions a query has a few dozen candidates in a tree, whatever the data. In many dimensions a tree excludes
 * nothing, and its memory and time grow with the dimension, unless the points are in clusters. In between it depends on
 * the points (plan_knn.c).
 */
#include <math.h>
#include <stdio.h>

#include "plan/choose.h"

enum { SURELY_TREE = 8, SURELY_BRUTE = 32 };

bool adji_tree_is_useful(const adji_measure *measure, uint32_t dim) {
  return adji_measure_grows(measure) && dim <= SURELY_BRUTE;
}

bool adji_surely_brute(const adji_join *join) {
  return !adji_tree_is_useful(join->style.measure, join->left->dim);
}

/* For few queries, building a tree takes longer than brute force. */
static bool are_few(const adji_join *join) {
  const adji_costs *costs = &join->ctx->costs;
  double left = (double)join->left->count, right = (double)join->right->count;
  double pair_ns = costs->few_pair_ns + costs->brute_dim_ns * join->left->dim;
  return costs->few_begin_ns + left * right * pair_ns < costs->few_tree_dim_ns * join->left->dim * right;
}

/* Four interleaved sums, one for every fourth dimension, since each addition waits for the one before. */
static double packed_distance_sq(const float *x, const float *y, uint32_t dim) {
  enum { SIDES = 4 };
  double sums[SIDES] = {0};
  uint32_t d = 0;
  for (; d + SIDES <= dim; d += SIDES)
    for (uint32_t i = 0; i < SIDES; i++) {
      double t = (double)x[d + i] - (double)y[d + i];
      sums[i] += t * t;
    }
  for (; d < dim; d++)
    sums[0] += ((double)x[d] - (double)y[d]) * ((double)x[d] - (double)y[d]);
  return sums[0] + sums[1] + sums[2] + sums[3];
}

static double distance_sq(const adj_dataset *a, uint64_t i, const adj_dataset *b, uint64_t j) {
  if (a->type == ADJ_F32 && a->column_stride == sizeof(float) && b->column_stride == sizeof(float))
    return packed_distance_sq((const float *)(const void *)(a->data + i * a->row_stride),
                              (const float *)(const void *)(b->data + j * b->row_stride), a->dim);
  double sum = 0;
  for (uint32_t d = 0; d < a->dim; d++) {
    double t = adji_dataset_at(a, i, d) - adji_dataset_at(b, j, d);
    sum += t * t;
  }
  return sum;
}

/* How many of `queries` queries have a point in a sample whose squared distance is less than `part` of the mean. */
static uint64_t count_near(const adji_join *join, uint64_t queries, uint64_t points, double part) {
  enum { LEAST_POINTS = 4096 };
  uint64_t left = join->left->count, right = join->right->count, near = 0;
  if (right < LEAST_POINTS || left < queries) return 0;
  for (uint64_t q = 0; q < queries; q++) {
    uint64_t row = q * (left / queries), begin = (row + right / 3) % right;
    double nearest = INFINITY, sum = 0;
    for (uint64_t i = 0; i < points; i++) {
      uint64_t other = (begin + i * (right / points)) % right;
      double s = join->self_join && other == row ? INFINITY : distance_sq(join->left, row, join->right, other);
      nearest = fmin(nearest, s);
      sum += isinf(s) ? 0 : s;
    }
    near += nearest < part * sum / (double)points;
  }
  return near;
}

/* Whether the points are in clusters or along few directions. Otherwise, in many dimensions, all points are about
 * equally far from each other, and a tree excludes none. */
static bool are_clustered(const adji_join *join) {
  enum { QUERIES = 16 };
  return count_near(join, QUERIES, 256, 0.25) > QUERIES / 2;
}

/* Half precision resolves distances down to a 7,000th of the usual one; with the rounding of products, a 100th. 10,000
 * x 128 points in clusters took an H200 4.7 ms through tensor cores, and 2.1 without. A third of the queries being so
 * close is enough to decide. */
bool adji_too_near_for_halves(const adji_join *join) {
  enum { QUERIES = 9 };
  static const double PART = 1. / 16;
  return count_near(join, QUERIES, 128, PART * PART) >= QUERIES / 3;
}

adji_knn_choice adji_choose_knn(const adji_join *join) {
  uint32_t dim = join->left->dim;
  adji_knn_choice choice = {.algorithm = ADJI_ALGORITHM_BRUTE};
  char *reason = choice.reason;
  size_t room = sizeof choice.reason;
  if (!adji_measure_grows(join->style.measure)) {
    snprintf(reason, room, "inner products have no tree");
  } else if (are_few(join)) {
    snprintf(reason, room, "for %llu queries a tree is not worth building", (unsigned long long)join->left->count);
  } else if (dim > SURELY_BRUTE && !are_clustered(join)) {
    snprintf(reason, room, "in %u dimensions a tree would meet most points", dim);
  } else if (dim > SURELY_TREE) {
    choice.algorithm = ADJI_ALGORITHM_AUTO;
  } else {
    snprintf(reason, room, "in %u dimension%s a tree leaves few candidates", dim, dim > 1 ? "s" : "");
    choice.algorithm = ADJI_ALGORITHM_KDTREE;
  }
  return choice;
}

/* Cuts pay from this many dimensions and queries per right point on: in six dimensions they take 2 ms for 10 million
 * points, and as many queries take 12 to 24 ms less. In three they take 0.8 ms and save 0.8 ms (H200). */
enum { LEAST_CUT_DIMS = 4 };
static const double LEAST_CUT_QUERIES = 0.125;

bool adji_choose_cut(const adji_join *join, const adji_tuning *tuning) {
  if (tuning->cut) return tuning->cut == ADJI_ON;
  return join->right->dim >= LEAST_CUT_DIMS &&
         (double)join->left->count >= LEAST_CUT_QUERIES * (double)join->right->count;
}

static double seconds_of(const adji_join *join, double items, double each_ns) {
  return items * each_ns * 1e-9 / join->ctx->threads;
}

double adji_tree_seconds(const adji_join *join) {
  const adji_costs *costs = &join->ctx->costs;
  double points = (double)join->right->count + (join->self_join ? 0 : (double)join->left->count);
  return seconds_of(join, points, costs->tree_point_ns + costs->tree_dim_ns * join->left->dim);
}

double adji_search_seconds(const adji_join *join) {
  const adji_costs *costs = &join->ctx->costs;
  double ns = costs->search_ns * pow(costs->search_dim, (double)join->left->dim - 2) *
              pow(fmax(join->k, 2) / 8, costs->search_k_power);
  return seconds_of(join, (double)join->left->count, ns);
}

/* In more dimensions it depends on the points: a quarter of what a tree takes for unfavourable ones. Brute force first
 * makes a copy of the points, and a trial. */
double adji_knn_seconds(const adji_join *join, bool few) {
  const adji_costs *costs = &join->ctx->costs;
  double trees = adji_tree_seconds(join) + adji_search_seconds(join);
  double pairs = (double)join->left->count * (double)join->right->count;
  double brute = seconds_of(join, pairs, costs->brute_pair_ns + costs->brute_dim_ns * join->left->dim);
  if (!adji_measure_grows(join->style.measure)) return brute + costs->few_begin_ns * 1e-9; /* has no tree */
  return fmin(few ? trees : trees / 4, brute);
}

double adji_device_step_factor(const adji_costs *costs, const adji_measure *measure) {
  adji_step plain = adji_plain_step(measure->step);
  double box = measure->step == plain ? 1 : 2;
  if (plain == ADJI_STEP_LP) return measure->power.whole ? costs->device_matrix_lp : costs->device_matrix_power;
  if (plain == ADJI_STEP_DOT) return costs->device_matrix_dot;
  return plain == ADJI_STEP_L2 ? box : box * costs->device_matrix_l1;
}

double adji_device_brute_seconds(const adji_join *join, bool tensor) {
  const adji_costs *costs = &join->ctx->costs;
  double queries = (double)join->left->count, points = (double)join->right->count, dim = join->left->dim;
  double size = (double)adji_type_size(join->left->type);
  double pair_ns = tensor ? costs->device_tensor_ns + costs->device_tensor_dim_ns * dim
                          : costs->device_matrix_ns +
                                costs->device_matrix_dim_ns * dim * adji_device_step_factor(costs, join->style.measure);
  double bytes = (points + (join->self_join ? 0 : queries)) * dim * size + queries * join->k * (4 + size);
  return costs->device_brute_s + queries * points * pair_ns * 1e-9 * size / 4 + bytes / costs->copy_rate;
}
