/* SPDX-License-Identifier: MIT
 *
 * The body of the range kernels for one instruction set, type and step. steps.h includes it once per step and defines
 * STEP, FINISH and FN(name), the name of a function of this instance. The instruction set's file defines the vectors;
 * see kernels_type.h.
 *
 * A kernel compares a group of up to 4 queries with one vector of candidates at a time. So a group shares the loads of
 * candidates and the loop over the ranges. Counts in few dimensions compare one or two vectors of queries with one
 * candidate at a time instead. Functions that take `wide` and `dim` are inlined where both are constants; wide is 1, 2
 * or 4.
 */

typedef struct FN(group) {
  T x[4][MOST_FIXED];      /* coordinates, in few dimensions */
  T packed[4 * MOST_LONG]; /* in many dimensions: the coordinates of one dimension after those of another */
  const T *query[4];       /* in many dimensions: the first coordinate; others follow at left_stride */
  uint32_t position[4];
  uint64_t left_stride;
  const adji_measure *measure;
  VEC limit;
} FN(group);

/* A group of fewer queries repeats its last one, and the results of the repeats are not used. In many dimensions the
 * queries are copied: in the index every coordinate of a query has its own cache line, which the candidates'
 * coordinates would displace. */
ADJI_INLINE void FN(load_group)(const adji_task *task, uint32_t first, uint32_t many, const uint32_t wide,
                                const uint32_t dim, const bool is_long, FN(group) * g) {
  g->left_stride = task->left->stride;
  g->measure = task->measure;
  g->limit = V_SET1((T)task->limit);
  for (uint32_t k = 0; k < wide; k++) {
    g->position[k] = task->queries[first + (k < many ? k : many - 1)];
    g->query[k] = (const T *)task->left->coords + g->position[k];
    for (uint32_t j = 0; j < dim && !is_long; j++)
      g->x[k][j] = g->query[k][j * g->left_stride];
  }
  if (!is_long || dim > MOST_LONG) return;
  for (uint32_t j = 0; j < dim; j++)
    for (uint32_t k = 0; k < wide; k++)
      g->packed[j * wide + k] = g->query[k][j * g->left_stride];
  for (uint32_t k = 0; k < wide; k++)
    g->query[k] = g->packed + k;
  g->left_stride = wide;
}

/* The dimension up to which sums grow before the next check. Checks become rarer: at most an eighth of the work is done
 * in vain, and where no sum is abandoned, checks cost little. */
ADJI_INLINE uint32_t FN(next_check)(uint32_t j, uint32_t dim) {
  uint32_t step = j < 16 * SHORTC_STEP ? SHORTC_STEP : 2 * SHORTC_STEP;
  return dim - j > step ? j + step : dim;
}

/* The sums of one vector of candidates for each query of the group. In many dimensions (is_long) a growing sum is
 * abandoned once no lane of any query can belong (SHORTC): a lane above the limit stays above it. Returns false
 * then. */
ADJI_INLINE bool FN(sums)(const FN(group) * g, const T *candidate, uint64_t stride, const uint32_t wide,
                          const uint32_t dim, const bool is_long, VEC *s) {
  for (uint32_t k = 0; k < wide; k++)
    s[k] = V_ZERO();
  for (uint32_t j = 0; j < dim;) {
    uint32_t stop = is_long ? FN(next_check)(j, dim) : dim;
    for (; j < stop; j++) {
      VEC c = V_LOAD(candidate + j * stride);
      for (uint32_t k = 0; k < wide; k++) {
        T x = is_long ? g->query[k][j * g->left_stride] : g->x[k][j];
        s[k] = STEP(s[k], V_SET1(x), c, g->measure, j);
      }
    }
    if (is_long && GROWS) {
      uint32_t alive = 0;
      for (uint32_t k = 0; k < wide; k++)
        alive |= V_LE(s[k], g->limit);
      if (!alive) return false;
    }
  }
  for (uint32_t k = 0; k < wide; k++)
    s[k] = FINISH(s[k]);
  return true;
}

/* The lanes of the vector at i whose candidate lies before end and, if `forward`, after the query. */
static inline uint32_t FN(valid)(uint64_t i, uint64_t end, bool forward, uint64_t position) {
  uint32_t lanes = end - i >= LANES ? (UINT32_C(1) << LANES) - 1 : (UINT32_C(1) << (end - i)) - 1;
  if (forward && position >= i) lanes &= position - i >= LANES ? 0 : ~UINT32_C(0) << (position - i) << 1;
  return lanes;
}

/* The first position of a range for the group. Queries are in ascending order, so query 0 decides. */
static inline uint64_t FN(range_begin)(const adji_task *task, const FN(group) * g, uint32_t r) {
  uint64_t begin = task->ranges[r].begin;
  return task->forward && begin <= g->position[0] ? (uint64_t)g->position[0] + 1 : begin;
}

ADJI_INLINE void FN(count_group)(const adji_task *task, uint32_t first, uint32_t many, const uint32_t wide,
                                 const uint32_t dim, const bool is_long, uint32_t *counts) {
  FN(group) g;
  FN(load_group)(task, first, many, wide, dim, is_long, &g);
  const T *coords = task->right->coords;
  uint64_t stride = task->right->stride;
  uint32_t total[4] = {0, 0, 0, 0};
  uint8_t *mirrored = task->mirrored;
  for (uint32_t r = 0; r < task->range_count; r++) {
    uint64_t begin = task->ranges[r].begin, end = task->ranges[r].end;
    for (uint64_t i = FN(range_begin)(task, &g, r); i < end; i += LANES) {
      VEC s[4];
      if (!FN(sums)(&g, coords + i, stride, wide, dim, is_long, s)) continue;
      for (uint32_t k = 0; k < wide; k++) {
        uint32_t mask = V_LE(s[k], g.limit) & FN(valid)(i, end, task->forward, g.position[k]);
        total[k] += (uint32_t)__builtin_popcount(mask);
        for (; mirrored && k < many && mask; mask &= mask - 1)
          mirrored[i - begin + (uint32_t)__builtin_ctz(mask)]++;
      }
    }
    if (mirrored) mirrored += end - begin;
  }
  for (uint32_t k = 0; k < many; k++)
    counts[first + k] += total[k];
}

#ifdef COUNTS
/* Counts with queries in the lanes, `wide` vectors of them, and one candidate after the other: nothing is added up
 * across lanes, and short ranges leave no lane idle. If there are fewer queries than lanes, the counts of the other
 * lanes are not used. If candidates are counted too (`both`), the limit of those lanes is NaN, so that they count
 * nothing. */
ADJI_INLINE void FN(count_lanes)(const adji_task *task, uint32_t first, uint32_t many, const uint32_t wide,
                                 const uint32_t dim, const bool both, uint32_t *counts) {
  const size_t lanes = LANES, all = wide * lanes;
  const uint32_t *positions = task->queries + first;
  const T *x = (const T *)task->left->coords + positions[0], *coords = task->right->coords;
  uint64_t x_stride = task->left->stride, stride = task->right->stride, last = positions[many - 1];
  T copies[2 * LANES * MOST_FIXED], limits[4 * LANES];
  if (last - positions[0] != many - 1) {
    for (uint32_t j = 0; j < dim; j++)
      for (size_t k = 0; k < all; k++)
        copies[j * all + k] = x[j * x_stride + positions[k < many ? k : 0] - positions[0]];
    x = copies;
    x_stride = all;
  }
  VEC queries[2][MOST_FIXED], limit[2] = {V_SET1((T)task->limit), V_SET1((T)task->limit)};
  COUNTS total[2] = {COUNTS_ZERO(), COUNTS_ZERO()};
  for (uint32_t k = 0; k < wide; k++)
    for (uint32_t j = 0; j < dim; j++)
      queries[k][j] = V_LOAD(x + j * x_stride + k * lanes);
  if (task->forward) /* from entry 2 LANES - n on: the limits of n queries, then NaN for other lanes */
    for (uint32_t k = 0; k < 4 * LANES; k++)
      limits[k] = k < 2 * LANES ? (T)task->limit : (T)NAN;
  for (uint32_t k = 0; k < wide && both; k++)
    limit[k] = V_LOAD(limits + (2 + k) * lanes - many);
  uint8_t *mirrored = task->mirrored;
  for (uint32_t r = 0; r < task->range_count; r++) {
    uint64_t i = task->ranges[r].begin, end = task->ranges[r].end;
    for (uint32_t before = 0; task->forward && i < end && i <= last; i++) { /* among the queries */
      while (before < many && positions[before] < i)
        before++;
      uint32_t belong = 0;
      for (uint32_t k = 0; k < wide; k++) {
        VEC s = V_ZERO(), most = V_LOAD(limits + (2 + k) * lanes - before);
        for (uint32_t j = 0; j < dim; j++)
          s = STEP(s, queries[k][j], V_SET1(coords[j * stride + i]), task->measure, j);
        total[k] = COUNTS_ADD(total[k], FINISH(s), most);
        if (both) belong = belong << LANES | V_LE(FINISH(s), most);
      }
      if (both) *mirrored++ += (uint8_t)__builtin_popcount(belong);
    }
    for (; i < end; i++) {
      VEC s[2] = {V_ZERO(), V_ZERO()};
      for (uint32_t j = 0; j < dim; j++) {
        VEC c = V_SET1(coords[j * stride + i]);
        for (uint32_t k = 0; k < wide; k++)
          s[k] = STEP(s[k], queries[k][j], c, task->measure, j);
      }
      uint32_t belong = 0;
      for (uint32_t k = 0; k < wide; k++) {
        total[k] = COUNTS_ADD(total[k], FINISH(s[k]), limit[both ? k : 0]);
        if (both) belong = belong << LANES | V_LE(FINISH(s[k]), limit[k]);
      }
      if (both) *mirrored++ += (uint8_t)__builtin_popcount(belong);
    }
  }
  COUNT_LANE counted[2 * LANES];
  memcpy(counted, total, sizeof total);
  for (uint32_t k = 0; k < many; k++)
    counts[first + k] += (uint32_t)counted[k];
}
#endif

ADJI_INLINE void FN(count_dim)(const adji_task *task, uint32_t *counts, const uint32_t dim, const bool is_long) {
  uint32_t first = 0;
#ifdef COUNTS
  for (uint32_t many; !is_long && 2 * (many = task->query_count - first) >= LANES; first += many) {
    many = many < 2 * LANES ? many : 2 * LANES;
    if (task->mirrored && many > LANES)
      FN(count_lanes)(task, first, many, 2, dim, true, counts);
    else if (task->mirrored)
      FN(count_lanes)(task, first, many, 1, dim, true, counts);
    else if (many > LANES)
      FN(count_lanes)(task, first, many, 2, dim, false, counts);
    else
      FN(count_lanes)(task, first, many, 1, dim, false, counts);
  }
#endif
  for (; first < task->query_count; first += 4) {
    uint32_t many = task->query_count - first;
    if (many >= 3)
      FN(count_group)(task, first, many < 4 ? many : 4, 4, dim, is_long, counts);
    else if (many == 2)
      FN(count_group)(task, first, many, 2, dim, is_long, counts);
    else
      FN(count_group)(task, first, many, 1, dim, is_long, counts);
  }
}

static void FN(count)(const adji_task *task, uint32_t *counts){
#define CALL(dim, is_long) FN(count_dim)(task, counts, dim, is_long)
    CALL_FOR(task->right->dim)
#undef CALL
}

ADJI_INLINE void FN(list_group)(const adji_task *task, const uint32_t wide, const uint32_t dim, const bool is_long,
                                uint32_t *const *ids, void *const *sums, uint32_t *found) {
  uint32_t many = task->query_count;
  FN(group) g;
  FN(load_group)(task, 0, many, wide, dim, is_long, &g);
  const T *coords = task->right->coords;
  uint64_t stride = task->right->stride;
  uint64_t at[4] = {0, 0, 0, 0};
  for (uint32_t k = 0; k < many; k++)
    at[k] = found[k];
  for (uint32_t r = 0; r < task->range_count; r++) {
    uint64_t end = task->ranges[r].end;
    for (uint64_t i = FN(range_begin)(task, &g, r); i < end; i += LANES) {
      VEC s[4];
      if (!FN(sums)(&g, coords + i, stride, wide, dim, is_long, s)) continue;
      for (uint32_t k = 0; k < wide && k < many; k++) {
        uint32_t mask = V_LE(s[k], g.limit) & FN(valid)(i, end, task->forward, g.position[k]);
        if (dim > 3 && !mask) continue; /* in few dimensions packing nothing is cheaper than a branch */
        V_PACK_IDS(ids[k] + at[k], task->right->ids + i, mask);
        if (sums) V_PACK((T *)sums[k] + at[k], s[k], mask);
        at[k] += (uint32_t)__builtin_popcount(mask);
      }
    }
  }
  for (uint32_t k = 0; k < many; k++)
    found[k] = (uint32_t)at[k];
}

ADJI_INLINE void FN(list_dim)(const adji_task *task, uint32_t *const *ids, void *const *sums, uint32_t *found,
                              const uint32_t dim, const bool is_long) {
  if (task->query_count >= 3)
    FN(list_group)(task, 4, dim, is_long, ids, sums, found);
  else if (task->query_count == 2)
    FN(list_group)(task, 2, dim, is_long, ids, sums, found);
  else if (task->query_count == 1)
    FN(list_group)(task, 1, dim, is_long, ids, sums, found);
}

static void FN(list)(const adji_task *task, uint32_t *const *ids, void *const *sums, uint32_t *found) {
#define CALL(dim, is_long) FN(list_dim)(task, ids, sums, found, dim, is_long)
  CALL_FOR(task->right->dim)
#undef CALL
}

#undef STEP_NAME
#undef STEP
