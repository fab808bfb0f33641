/* SPDX-License-Identifier: MIT
 *
 * Pools of points within a limit, compared with plain loops: which points are listed, limits that enough points are
 * within, and the k nearest, with sums that are equal or an ulp apart.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "distance/knn_pool.h"
#include "entries.h"

enum {
  LEAVES = 24,
  POINTS = LEAVES * ADJI_LEAF,
  QUERIES = 16,
  MOST = ADJI_PICK_MOST,
  STRIDE = MOST + 2 * ADJI_BOX_LANES
};

static const adji_pool_kernels *kernels_here(void) {
  for (uint32_t i = 0; adj_isa_name(i); i++)
    if (adji_pool_kernels_for(adj_isa_name(i), false)) return adji_pool_kernels_for(adj_isa_name(i), false);
  return NULL;
}

/* ---- Picking ------------------------------------------------------------------------------------------ */

/* Sums of a pattern: spread, on a coarse lattice, an ulp apart, tiny. */
static float sum_of(int pattern, uint64_t *state) {
  uint64_t x = random_of(state);
  switch (pattern) {
    case 0:
      return (float)((double)(x >> 11) * 0x1p-53);
    case 1:
      return (float)(x % 40);
    case 2: {
      float value = 0.25F;
      for (uint64_t i = x % 300; i; i--)
        value = nextafterf(value, 1);
      return value;
    }
    default:
      return (float)(x % 1000) * 0x1p-149F;
  }
}

static void check_pick(const adji_pool_kernels *kernels, uint32_t count, uint32_t k, bool with_own, int pattern) {
  static uint32_t ids[STRIDE], counts[1];
  static float sums[STRIDE];
  entry entries[STRIDE];
  uint64_t state = (uint64_t)count * 1000 + (uint64_t)k * 10 + (uint32_t)pattern + 1;
  uint32_t kept = 0, own = with_own ? 7 * (count / 2) : ADJ_NO_ID;
  for (uint32_t i = 0; i < STRIDE; i++) { /* values after the last must not be found */
    ids[i] = i < count ? 7 * i : 5;
    sums[i] = i < count ? sum_of(pattern, &state) : 0;
    if (i < count && ids[i] != own) entries[kept++] = (entry){(double)sums[i], ids[i]};
  }
  if (kept < k) return;
  qsort(entries, kept, sizeof *entries, by_sum_then_id);
  counts[0] = count;
  adji_pool pool = {.most = MOST, .stride = STRIDE, .counts = counts, .ids = ids, .sums = sums};
  uint32_t found[ADJI_KNN_MOST_K + 1] = {0};
  float values[ADJI_KNN_MOST_K + 1] = {0};
  found[k] = 77;
  values[k] = 77;
  adji_picked to = {.ids = found, .sums = values, .roots = k % 2};
  if (!kernels->pick(&pool, 0, k, own, &to)) {
    assert_true(pattern != 0 || k > 8); /* with sums far apart it rarely fails */
    return;
  }
  for (uint32_t i = 0; i < k; i++) {
    assert_int_equal(found[i], entries[i].id);
    assert_true(values[i] == (to.roots ? sqrtf((float)entries[i].sum) : (float)entries[i].sum));
  }
  assert_true(to.last == entries[k - 1].sum);
  assert_true(found[k] == 77 && values[k] == 77);
}

static void picks_match_sorting(void **unused) {
  (void)unused;
  const adji_pool_kernels *kernels = kernels_here();
  if (!kernels) skip();
  for (uint32_t count = 1; count <= MOST; count++)
    for (uint32_t k = 1; k <= ADJI_KNN_MOST_K; k += k < 18 ? 1 : 7)
      for (int pattern = 0; pattern < 4; pattern++)
        for (int with_own = 0; with_own < 2; with_own++)
          check_pick(kernels, count, k, with_own, pattern);
}

/* ---- Bounds and lists ----------------------------------------------------------------------------------- */

typedef struct points {
  uint32_t dim;
  float coords[POINTS * 5], queries[QUERIES * 5], bounds[2 * 5 * ADJI_LEAF_ROOM];
  uint32_t ids[POINTS], own[QUERIES];
  adji_leaves leaves;
} points;

static float coordinate(const points *p, uint32_t i, uint32_t j) {
  return p->coords[(i / ADJI_LEAF * p->dim + j) * ADJI_LEAF + i % ADJI_LEAF];
}

static float pair_sum(const points *p, uint32_t q, uint32_t i) {
  float s = 0;
  for (uint32_t j = 0; j < p->dim; j++) {
    float t = p->queries[q * p->dim + j] - coordinate(p, i, j);
    s = fmaf(t, t, s);
  }
  return s;
}

/* lattice: points on a lattice, with many ties. The last leaf has padding. */
static void make_points(points *p, uint32_t dim, bool lattice) {
  uint64_t state = dim + 1;
  p->dim = dim;
  for (uint32_t i = 0; i < POINTS * dim; i++)
    p->coords[i] = lattice ? (float)(random_of(&state) % 4) : (float)(random_of(&state) >> 40) * 0x1p-24F;
  for (uint32_t i = 0; i < QUERIES * dim; i++)
    p->queries[i] = lattice ? (float)(random_of(&state) % 4) : (float)(random_of(&state) >> 40) * 0x1p-24F;
  for (uint32_t i = 0; i < POINTS; i++) {
    bool padding = i >= POINTS - 5;
    p->ids[i] = padding ? ADJ_NO_ID : i;
    for (uint32_t j = 0; j < dim && padding; j++)
      p->coords[(i / ADJI_LEAF * dim + j) * ADJI_LEAF + i % ADJI_LEAF] = NAN;
  }
  p->leaves = (adji_leaves){.count = LEAVES, .bounds = p->bounds};
  for (uint32_t l = 0; l < LEAVES; l++) {
    p->leaves.number[l] = l;
    for (uint32_t j = 0; j < dim; j++) {
      float low = INFINITY, high = -INFINITY;
      for (uint32_t i = l * ADJI_LEAF; i < (l + 1) * ADJI_LEAF; i++) {
        low = fminf(low, coordinate(p, i, j));
        high = fmaxf(high, coordinate(p, i, j));
      }
      p->bounds[2 * j * ADJI_LEAF_ROOM + l] = low;
      p->bounds[(2 * j + 1) * ADJI_LEAF_ROOM + l] = high;
    }
  }
}

static void check_lists(const adji_pool_kernels *kernels, const points *p, uint64_t first, uint32_t needed) {
  static uint32_t ids[QUERIES * STRIDE], counts[QUERIES];
  static float sums[QUERIES * STRIDE];
  double limits[QUERIES];
  adji_pool pool = {.most = MOST, .stride = STRIDE, .limits = limits, .counts = counts, .ids = ids, .sums = sums};
  adji_knn_task task = {.coords = p->coords, .ids = p->ids, .dim = p->dim, .leaf = ADJI_LEAF};
  task.queries = p->queries;
  task.own = p->own;
  task.query_count = QUERIES;
  task.leaves = &p->leaves;
  uint64_t end = first + adji_bound_leaves(needed) < LEAVES ? first + adji_bound_leaves(needed) : LEAVES;
  kernels->bound(&task, first, end, needed, &pool);
  memset(counts, 0, sizeof counts);
  kernels->list(&task, &pool);
  for (uint32_t q = 0; q < QUERIES; q++) {
    uint32_t within = 0, near = 0;
    for (uint32_t i = 0; i < POINTS - 5; i++) {
      bool in = (double)pair_sum(p, q, i) <= limits[q];
      if (in && counts[q] <= MOST) {
        assert_int_equal(ids[q * STRIDE + within], i);
        assert_true(sums[q * STRIDE + within] == pair_sum(p, q, i));
      }
      within += in;
      near += in && i / ADJI_LEAF >= first && i / ADJI_LEAF < end;
    }
    assert_true(counts[q] <= MOST ? counts[q] == within : within > MOST);
    assert_true(limits[q] == (double)INFINITY || near >= needed);
    if ((end - first) * ADJI_LEAF >= 2 * needed + ADJI_LEAF) assert_true(limits[q] < (double)INFINITY);
  }
}

static void lists_match_loops(void **unused) {
  (void)unused;
  static points p;
  const adji_pool_kernels *kernels = kernels_here();
  if (!kernels) skip();
  for (uint32_t dim = 1; dim <= 5; dim++)
    for (int lattice = 0; lattice < 2; lattice++) {
      make_points(&p, dim, lattice);
      for (uint64_t first = 0; first < LEAVES; first++)
        for (uint32_t needed = 1; needed <= ADJI_BOUND_MOST; needed++)
          check_lists(kernels, &p, first, needed);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(picks_match_sorting), cmocka_unit_test(lists_match_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
