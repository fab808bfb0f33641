/* SPDX-License-Identifier: MIT
 *
 * EGO-Join: see ego_join.h.
 */
#include "cpu/ego_join.h"

#include <math.h>

/* ---- Sums over reordered dimensions ------------------------------------------------------------------------
 *
 * The leaf adds up dimensions in another order than the definition, so its sums round differently. With u half an ulp
 * of 1, e the smallest positive number of the type and n dimensions: both sums have the same differences t = fl(a - b).
 * Let E be the exact sum of their squares (L2) or sizes (L1).
 *
 * - The canonical sum s rounds once a dimension, the leaf's sum q twice (the square, then the addition). All terms are
 *   positive, so each rounding multiplies a sum by 1 - u .. 1 + u, or is off by e / 2 if a number is denormal.
 *   So (E - n e)(1 - u)^(2n) <= q, s <= (E + n e)(1 + u)^(2n); a partial sum of the leaf is at most its full sum.
 * - Dropped: if q > H, then s >= ((1 - u) / (1 + u))^(2n) H - 4 n e >= (1 - 4 n u) H - 4 n e. That is above the limit R
 *   for H >= (R + 4 n e)(1 + 8 n u), as long as 8 n u <= 1.
 * - Accepted: if q <= L, then s <= L / (1 - 4 n u) + 4 n e / (1 - 4 n u), which is at most R for
 *   L <= R (1 - 4 n u) - 4 n e.
 *
 * Below, n is larger by 4 and both error terms are doubled, which covers the roundings here. A sum that overflows is
 * above every finite number, as it would be with unbounded exponents, where all of this holds. Where 8 n u > 1, nothing
 * is dropped or accepted. Maxima (Linf) do not round at all. */

adji_ego_bounds adji_ego_bounds_of(adj_type type, adji_step step, uint32_t dim, double limit) {
  bool wide = type == ADJ_F64;
  double u = wide ? 0x1p-53 : 0x1p-24, e = wide ? 0x1p-1074 : 0x1p-149, n = dim + 4.0;
  if (step == ADJI_STEP_LINF) return (adji_ego_bounds){limit, limit};
  if (16 * n * u > 1) return (adji_ego_bounds){(double)INFINITY, -1};
  adji_ego_bounds bounds = {(limit + 8 * n * e) * (1 + 16 * n * u), limit * (1 - 8 * n * u) - 8 * n * e};
  if (wide) return bounds;
  float most = (float)bounds.most, least = (float)bounds.least;
  if ((double)most < bounds.most) most = nextafterf(most, INFINITY);
  if ((double)least > bounds.least) least = nextafterf(least, -INFINITY);
  return (adji_ego_bounds){(double)most, (double)least};
}

/* ---- Short sequences ------------------------------------------------------------------------------------------ */

/* One left point and the right sequence it is compared with. */
typedef struct scan {
  const adji_ego_job *job;
  const void *query;
  uint32_t begin, end; /* positions in the right set */
  uint32_t row;        /* row of the query in the left set */
  double limit;
  adji_ego_bounds bounds;
} scan;

static bool is_wanted(const adji_row_style *style, uint32_t row, uint32_t id) {
  return style->one_way ? id > row : !style->drop_self || id != row;
}

/* NaiveJoin of Super-EGO: adds dimension by dimension, the most selective first, until the sum is too large. Where the
 * leaf's own sum cannot decide, the canonical sum does. Returns the number of neighbours. */
#define SCAN_STEP(T, suffix, name, ADD)                                                \
  static uint32_t scan_##name##_##suffix(adji_ego_searcher *s, const scan *one) {      \
    const adji_ego_job *job = one->job;                                                \
    const adji_row_style *style = &job->join->style;                                   \
    const T *a = one->query, most = (T)one->bounds.most, least = (T)one->bounds.least; \
    uint32_t dim = job->right->order->dim, found = 0;                                  \
    const T *b = adji_ego_point(job->right, one->begin);                               \
    for (uint32_t i = one->begin; i < one->end; i++, b += dim) {                       \
      T sum = 0;                                                                       \
      for (uint32_t j = 0; j < dim && !(sum > most); j++) {                            \
        T t = a[j] - b[j];                                                             \
        ADD                                                                            \
      }                                                                                \
      uint32_t id = job->right->ids[i];                                                \
      if (sum > most || !is_wanted(style, one->row, id)) continue;                     \
      if (job->sums || sum > least) {                                                  \
        sum = canonical_##suffix(s, a, b);                                             \
        if (!((double)sum <= one->limit)) continue;                                    \
        if (job->sums) ((T *)s->sums)[found] = sum;                                    \
      }                                                                                \
      s->ids[found++] = id;                                                            \
    }                                                                                  \
    return found;                                                                      \
  }

#define SCANS(T, suffix, ABS)                                                                    \
  static void in_input_order_##suffix(const adji_ego_order *order, const T *from, T *to) {       \
    for (uint32_t j = 0; j < order->dim; j++)                                                    \
      to[order->dims[j]] = from[j];                                                              \
  }                                                                                              \
  static T canonical_##suffix(adji_ego_searcher *s, const T *a, const T *b) {                    \
    const adji_ego_order *order = s->job->right->order;                                          \
    if (!s->has_point) in_input_order_##suffix(order, a, s->point);                              \
    s->has_point = true;                                                                         \
    in_input_order_##suffix(order, b, s->other);                                                 \
    return adji_sum_##suffix(s->job->join->style.measure, s->point, 1, s->other, 1, order->dim); \
  }                                                                                              \
  SCAN_STEP(T, suffix, l2, sum += t * t;)                                                        \
  SCAN_STEP(T, suffix, l1, sum += ABS(t);)                                                       \
  SCAN_STEP(T, suffix, linf, sum = ABS(t) > sum ? ABS(t) : sum;)
SCANS(float, f32, fabsf)
SCANS(double, f64, fabs)

typedef uint32_t scan_fn(adji_ego_searcher *s, const scan *one);
static scan_fn *const scans[][2] = {[ADJI_STEP_L2] = {scan_l2_f32, scan_l2_f64},
                                    [ADJI_STEP_L1] = {scan_l1_f32, scan_l1_f64},
                                    [ADJI_STEP_LINF] = {scan_linf_f32, scan_linf_f64}};

static uint32_t position_at(const adji_ego_searcher *s, uint32_t place) {
  return s->queries ? s->queries[place] : place;
}

static adj_status join_points(adji_ego_searcher *s, const adji_ego_pair *pair) {
  const adji_ego_job *job = s->job;
  const adji_join *join = job->join;
  const adji_ego_order *order = job->left->order;
  bool wide = order->type == ADJ_F64;
  adji_step step = join->style.measure->step;
  scan one = {
      .job = job, .begin = pair->right_begin, .end = pair->right_end, .limit = join->limit, .bounds = s->bounds};
  adj_status status = ADJ_OK;
  for (uint32_t i = pair->left_begin; i < pair->left_end && !status; i++) {
    uint32_t position = position_at(s, i);
    one.row = job->left->ids[position];
    one.query = adji_ego_point(job->left, position);
    if (job->window && !adji_window_length(job->window, one.row)) continue;
    if (join->limits) {
      one.limit = adji_join_limit(join, one.row);
      one.bounds = adji_ego_bounds_of(order->type, step, order->dim, one.limit);
    }
    s->has_point = false;
    uint32_t found = scans[step][wide](s, &one);
    s->tally.candidates += one.end - one.begin;
    s->tally.pairs += found;
    if (found) status = job->found(s->user, one.row, s->ids, job->sums ? s->sums : NULL, found);
  }
  return status;
}

/* ---- The recursion ------------------------------------------------------------------------------------------- */

/* EGO-strategy: whether the sequences may have neighbours. The sequences are sorted. So, up to the first axis along
 * which one of them is in several cells, all points of a sequence lie between its first and its last cell. If these
 * cells are not next to the other sequence's, no two points belong (index/slab.h). Sets pair->axis to that axis. */
static bool may_join(const adji_ego_searcher *s, adji_ego_pair *pair) {
  const adji_ego_points *left = s->job->left, *right = s->job->right;
  const adji_ego_order *order = left->order;
  const void *a = adji_ego_point(left, position_at(s, pair->left_begin));
  const void *b = adji_ego_point(left, position_at(s, pair->left_end - 1));
  const void *c = adji_ego_point(right, pair->right_begin), *d = adji_ego_point(right, pair->right_end - 1);
  for (; pair->axis < order->axis_count; pair->axis++) {
    uint64_t left_low = adji_ego_cell(order, a, pair->axis), left_high = adji_ego_cell(order, b, pair->axis);
    uint64_t right_low = adji_ego_cell(order, c, pair->axis), right_high = adji_ego_cell(order, d, pair->axis);
    if (left_low > right_high + 1 || right_low > left_high + 1) return false;
    if (left_low < left_high || right_low < right_high) return true;
  }
  return true;
}

/* Short sequences are joined at once: handing them over would take longer. */
static adj_status join_offered(adji_ego_searcher *s, const adji_ego_pair *pair) {
  uint32_t leaf = s->job->leaf;
  bool is_short = pair->left_end - pair->left_begin <= leaf && pair->right_end - pair->right_begin <= leaf;
  if (s->job->offer && !is_short && s->job->offer(s->user, pair)) return ADJ_OK;
  return adji_ego_join(s, *pair);
}

/* Cuts one sequence or both in half, and joins all halves of one with all of the other. */
static adj_status join_halves(adji_ego_searcher *s, const adji_ego_pair *pair, bool cut_left, bool cut_right) {
  uint32_t left_middle = pair->left_begin + (pair->left_end - pair->left_begin) / 2;
  uint32_t right_middle = pair->right_begin + (pair->right_end - pair->right_begin) / 2;
  adj_status status = ADJ_OK;
  for (int i = 0; i < (cut_left ? 2 : 1) && !status; i++)
    for (int j = 0; j < (cut_right ? 2 : 1) && !status; j++) {
      adji_ego_pair part = *pair;
      if (cut_left) *(i ? &part.left_begin : &part.left_end) = left_middle;
      if (cut_right) *(j ? &part.right_begin : &part.right_end) = right_middle;
      status = join_offered(s, &part);
    }
  return status;
}

/* Whether the listed queries are far apart: a few of them can span the whole set. While the right sequence is long,
 * such a list is cut until its queries are as close as the points of a short sequence, down to a single query. */
static bool are_apart(const adji_ego_searcher *s, const adji_ego_pair *pair) {
  return s->queries && s->queries[pair->left_end - 1] - s->queries[pair->left_begin] > s->job->leaf;
}

adj_status adji_ego_join(adji_ego_searcher *s, adji_ego_pair pair) {
  uint32_t left = pair.left_end - pair.left_begin, right = pair.right_end - pair.right_begin, leaf = s->job->leaf;
  double area = (double)left * (double)right;
  if (!left || !right) return ADJ_OK;
  if (!may_join(s, &pair)) {
    s->area += area;
    return ADJ_OK;
  }
  if (left <= leaf && right <= leaf) {
    s->area += area;
    return join_points(s, &pair);
  }
  if (adji_cancelled(s->job->join->ctx)) return adji_check_cancel(s->job->join->ctx);
  return join_halves(s, &pair, left > leaf || (right > leaf && are_apart(s, &pair)), right > leaf);
}

adj_status adji_ego_join_queries(adji_ego_searcher *s, const uint32_t *queries, uint32_t count) {
  s->queries = queries;
  adj_status status = adji_ego_join(s, (adji_ego_pair){.left_end = count, .right_end = s->job->right->count});
  s->queries = NULL;
  return status;
}

/* ---- A lane --------------------------------------------------------------------------------------------------- */

adj_status adji_ego_searcher_init(adji_ego_searcher *s, const adji_ego_job *job, void *user) {
  adji_memory *memory = &job->join->ctx->memory;
  size_t size = adji_type_size(job->left->order->type);
  uint32_t dim = job->left->order->dim;
  *s = (adji_ego_searcher){.job = job, .user = user};
  s->bounds = adji_ego_bounds_of(job->left->order->type, job->join->style.measure->step, dim, job->join->limit);
  s->ids = adji_alloc(memory, job->leaf, sizeof *s->ids, "neighbours");
  s->sums = adji_alloc(memory, job->leaf, size, "neighbours");
  s->point = adji_alloc(memory, dim, size, "query");
  s->other = adji_alloc(memory, dim, size, "candidate");
  return s->ids && s->sums && s->point && s->other ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_ego_searcher_clear(adji_ego_searcher *s) {
  if (!s->job) return;
  adji_memory *memory = &s->job->join->ctx->memory;
  adji_free(memory, s->ids);
  adji_free(memory, s->sums);
  adji_free(memory, s->point);
  adji_free(memory, s->other);
  *s = (adji_ego_searcher){0};
}
