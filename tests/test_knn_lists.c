/* SPDX-License-Identifier: MIT
 *
 * The neighbour lists of the kNN kernels, compared with sorting everything: every instruction set, both types, every
 * width of a list, with sums that are hard to tell apart. And the inner loops that build a tree, compared with plain
 * loops.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "distance/kernels.h"
#include "entries.h"
#include "index/tree_split.h"

enum { MOST = 1200, PATTERNS = 8, BATCH = 64 * ADJI_LEAF };

/* The i-th of count sums, exact in the type. f64 lists first compare sums without their last bits. Sums of patterns 1
 * to 3 differ only in these bits. */
static double sum_of(int pattern, adj_type type, uint32_t i, uint32_t count, uint64_t *state) {
  static const double odd[] = {0.0, 0x1p-149, 0x1p-140, 0x1.8p127, FLT_MAX, 1, 0x1p-126, 2};
  static const double odd_wide[] = {0.0, 0x1p-1074, 0x1p-1070, DBL_MAX, 0x1.fffffffffff01p1023, 1, 0x1p-1022, 2};
  double ulp = type == ADJ_F64 ? DBL_EPSILON : FLT_EPSILON;
  switch (pattern) {
    case 0:
      return (double)(float)((double)(random_of(state) >> 11) * 0x1p-53);
    case 1:
      return 1 + (double)(random_of(state) % 1024) * ulp;
    case 2:
      return 1 + (double)(count - i) * ulp; /* each is better than all before it */
    case 3:
      return (double)(random_of(state) % 8) + (double)(1 + random_of(state) % 3) * 8 * ulp;
    case 4:
      return (double)(count - i);
    case 5:
      return 7; /* all tied */
    case 6:
      return (double)(random_of(state) % 5);
    default:
      return type == ADJ_F64 ? odd_wide[random_of(state) % 8] : odd[random_of(state) % 8];
  }
}

/* The candidates of a query with their sums, in the order of a kernel and in the expected order. */
typedef struct candidates {
  uint32_t count;
  adj_type type;
  entry sorted[MOST];
  uint32_t ids[MOST + ADJI_BOX_LANES];
  double sums[MOST + ADJI_BOX_LANES];
  float narrow[MOST + ADJI_BOX_LANES];
} candidates;

static int by_id(const void *x, const void *y) {
  uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
  return a < b ? -1 : a > b;
}

/* Ids ascend within a leaf, but not over leaves. */
static void make_candidates(candidates *c, int pattern, adj_type type, uint32_t count, bool infinite, uint64_t *state) {
  c->count = count;
  c->type = type;
  for (uint32_t i = 0; i < count; i++)
    c->ids[i] = i * 3571 % 4099; /* a prime modulus: all ids differ */
  for (uint32_t i = 0; i < count; i += ADJI_LEAF)
    qsort(c->ids + i, count - i < ADJI_LEAF ? count - i : ADJI_LEAF, sizeof *c->ids, by_id);
  for (uint32_t i = 0; i < count; i++) {
    double sum = infinite && random_of(state) % 2 ? (double)INFINITY : sum_of(pattern, type, i, count, state);
    c->sums[i] = sum;
    c->narrow[i] = (float)sum;
    c->sorted[i] = (entry){sum, c->ids[i]};
  }
}

static void expect(candidates *c, uint32_t own) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < c->count; i++)
    if (c->sorted[i].id != own) c->sorted[kept++] = c->sorted[i];
  c->count = kept;
  qsort(c->sorted, kept, sizeof *c->sorted, by_sum_then_id);
}

static void check_list(const candidates *c, uint32_t k, const void *list, const char *what) {
  for (uint32_t i = 0; i < k; i++) {
    uint32_t id =
        c->type == ADJ_F64 ? (uint32_t)((const adji_near_f64 *)list)[i].id : (uint32_t)((const uint64_t *)list)[i];
    double sum = c->type == ADJ_F64 ? ((const adji_near_f64 *)list)[i].sum
                                    : (double)adji_near_sum_f32(((const uint64_t *)list)[i]);
    uint32_t expected = i < c->count ? c->sorted[i].id : ADJ_NO_ID;
    if (id != expected) fail_msg("%s: k %u, entry %u is %u, not %u", what, k, i, id, expected);
    if (i < c->count && sum != c->sorted[i].sum) fail_msg("%s: k %u, the sum of entry %u is wrong", what, k, i);
  }
}

static void start_list(void *list, adj_type type, uint32_t k) {
  for (uint32_t i = 0; i < (k + 7) / 8 * 8; i++) {
    if (type == ADJ_F64)
      ((adji_near_f64 *)list)[i] = (adji_near_f64){INFINITY, ADJ_NO_ID};
    else
      ((uint64_t *)list)[i] = adji_near_make_f32(INFINITY, ADJ_NO_ID);
  }
}

static const uint32_t KS[] = {1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 31, 32, 33, 60, 63, 64};
static const uint32_t COUNTS[] = {0, 1, 5, 16, 17, 33, 100, 224, 256, 257, 600, MOST};
#define MANY(a) (sizeof(a) / sizeof *(a))

typedef struct list_memory {
  _Alignas(64) char bytes[ADJI_KNN_MOST_K * sizeof(adji_near_f64)];
} list_memory;

static void select_by(const adji_typed_kernels *kernels, candidates *c, uint32_t k, uint32_t own, const char *what) {
  static list_memory list;
  const adji_measure measure = {.step = ADJI_STEP_L2};
  adji_knn_task task = {.dim = 2,
                        .leaf = ADJI_LEAF,
                        .own = &own,
                        .query_count = 1,
                        .measure = &measure,
                        .k = k,
                        .best = list.bytes,
                        .best_stride = sizeof list,
                        .limit = INFINITY};
  kernels->knn_select(&task, c->ids, c->type == ADJ_F64 ? (const void *)c->sums : c->narrow, c->count);
  expect(c, own);
  check_list(c, k, list.bytes, what);
}

/* A query at 0 in one dimension, where L1 sums are the coordinates. The leaves come in two calls, so that the list is
 * stored and loaded again. */
static void search_by(const adji_typed_kernels *kernels, candidates *c, uint32_t k, uint32_t own, const char *what) {
  static list_memory list;
  static double wide[2 * ADJI_LEAF_ROOM];
  static float narrow[2 * ADJI_LEAF_ROOM];
  static adji_leaves leaves;
  const adji_measure measure = {.step = ADJI_STEP_L1};
  const bool is_wide = c->type == ADJ_F64;
  const double query = 0;
  for (uint32_t i = c->count; i < c->count + ADJI_LEAF; i++) {
    c->sums[i] = NAN;
    c->narrow[i] = NAN;
    c->ids[i] = ADJ_NO_ID;
  }
  adji_knn_task task = {.coords = is_wide ? (const void *)c->sums : c->narrow,
                        .ids = c->ids,
                        .dim = 1,
                        .leaf = ADJI_LEAF,
                        .queries = &query,
                        .own = &own,
                        .query_count = 1,
                        .leaves = &leaves,
                        .measure = &measure,
                        .k = k,
                        .best = list.bytes,
                        .best_stride = sizeof list,
                        .limit = INFINITY};
  start_list(list.bytes, c->type, k);
  for (uint32_t first = 0; first < c->count; first += BATCH) {
    leaves.count = 0;
    leaves.bounds = is_wide ? (void *)wide : narrow;
    for (uint32_t at = first; at < first + BATCH && at < c->count; at += ADJI_LEAF) {
      uint32_t l = leaves.count++;
      double low = INFINITY, high = 0;
      leaves.number[l] = at / ADJI_LEAF;
      leaves.least_ids[l] = ADJ_NO_ID;
      for (uint32_t i = at; i < at + ADJI_LEAF && i < c->count; i++) {
        low = fmin(low, c->sums[i]);
        high = fmax(high, c->sums[i]);
        if (c->ids[i] < leaves.least_ids[l]) leaves.least_ids[l] = c->ids[i];
      }
      wide[l] = low;
      wide[ADJI_LEAF_ROOM + l] = high;
      narrow[l] = (float)low;
      narrow[ADJI_LEAF_ROOM + l] = (float)high;
    }
    kernels->tree[ADJI_STEP_L1].knn(&task);
  }
  expect(c, own);
  check_list(c, k, list.bytes, what);
}

static void lists_hold_the_nearest(void **state) {
  (void)state;
  static candidates c;
  uint64_t random = 88172645463325252;
  for (uint32_t i = 0; adj_isa_name(i); i++) {
    for (uint32_t round = 0; round < (size_t)2 * PATTERNS * MANY(COUNTS) * MANY(KS); round++) {
      adj_type type = round % 2 ? ADJ_F64 : ADJ_F32;
      int pattern = (int)(round / 2 % PATTERNS);
      uint32_t count = COUNTS[round / 2 / PATTERNS % MANY(COUNTS)], k = KS[round / 2 / PATTERNS / MANY(COUNTS)];
      const adji_typed_kernels *kernels = adji_kernels_for(adj_isa_name(i))->typed[type == ADJ_F64];
      char what[96];
      snprintf(what, sizeof what, "%s, %s, pattern %d, %u candidates", adj_isa_name(i), type == ADJ_F64 ? "f64" : "f32",
               pattern, count);
      uint32_t own = count > 9 && round % 3 ? c.ids[count / 2] : ADJ_NO_ID;
      make_candidates(&c, pattern, type, count, round % 5 == 0, &random);
      select_by(kernels, &c, k, own, what);
      make_candidates(&c, pattern, type, count, false, &random);
      search_by(kernels, &c, k, own, what);
    }
  }
}

/* ---- Splitting ------------------------------------------------------------------------------- */

static double value_of(int pattern, uint64_t *state) {
  double x = (double)(random_of(state) >> 11) * 0x1p-53;
  return pattern == 0   ? (double)(float)x
         : pattern == 1 ? (double)(random_of(state) % 4) - 1
         : pattern == 2 ? (double)(float)exp(20 * x)
         : pattern == 3 ? 1 + x * 0x1p-20      /* f64 only: several have the same f32, */
                        : ldexp(x - 0.5, 900); /* or overflow f32 */
}

enum { POINTS = 300, DIM = 3, STRIDE = POINTS + 32 };

typedef struct columns {
  double wide[DIM * STRIDE];
  float narrow[DIM * STRIDE];
  uint32_t ids[STRIDE];
} columns;

static adji_columns columns_of(columns *c, adj_type type) {
  return (adji_columns){type == ADJ_F64 ? (void *)c->wide : c->narrow, STRIDE, c->ids};
}

static void check_split(const adji_split_kernels *plain, const adji_split_kernels *kernels, adj_type type,
                        columns *from, uint32_t count, double value) {
  static columns left[2], right[2];
  const void *x = columns_of(from, type).coords;
  uint64_t below, not_above;
  plain->count(x, count, value, &below, &not_above);
  memset(left, 0xab, sizeof left);
  memset(right, 0xab, sizeof right);
  for (int i = 0; i < 2; i++) {
    const adji_split_job job = {.from = columns_of(from, type),
                                .left = columns_of(&left[i], type),
                                .right = columns_of(&right[i], type),
                                .dim = DIM,
                                .axis = 0,
                                .begin = 0,
                                .end = count,
                                .left_at = 5,
                                .right_at = 3,
                                .value = value,
                                .equal = (not_above - below + 1) / 2};
    (i ? kernels : plain)->split(&job);
  }
  assert_memory_equal(&left[0], &left[1], sizeof *left); /* also outside of the sides */
  assert_memory_equal(&right[0], &right[1], sizeof *right);
}

static void splits_are_those_of_plain_loops(void **state) {
  (void)state;
  static columns c;
  static double taken[2][POINTS + 32];
  uint64_t random = 88172645463325252;
  for (uint32_t round = 0; round < 3000; round++) {
    adj_type type = round % 2 ? ADJ_F64 : ADJ_F32;
    uint32_t count = 1 + (uint32_t)(random_of(&random) % POINTS);
    for (uint32_t i = 0; i < DIM * STRIDE; i++)
      c.narrow[i] = (float)(c.wide[i] = value_of((int)(round / 2 % (type == ADJ_F64 ? 5 : 3)), &random));
    for (uint32_t i = 0; i < STRIDE; i++)
      c.ids[i] = i;
    const void *x = columns_of(&c, type).coords;
    const adji_split_kernels *plain = adji_split_kernels_for("scalar", type);
    double value = c.wide[random_of(&random) % count], other = c.wide[random_of(&random) % count];
    for (uint32_t i = 0; adj_isa_name(i); i++) {
      const adji_split_kernels *kernels = adji_split_kernels_for(adj_isa_name(i), type);
      double low[2], high[2];
      uint64_t below[2] = {0}, up_to[2], found[2];
      for (int j = 0; j < 2; j++) {
        const adji_split_kernels *by = j ? kernels : plain;
        by->range(x, count, &low[j], &high[j]);
        by->count(x, count, value, &below[j], &up_to[j]);
        found[j] = by->collect(x, count, fmin(value, other), fmax(value, other), taken[j], &below[j]);
      }
      assert_true(low[0] == low[1] && high[0] == high[1] && below[0] == below[1] && up_to[0] == up_to[1]);
      assert_int_equal(found[0], found[1]);
      assert_memory_equal(taken[0], taken[1], found[0] * adji_type_size(type));
      check_split(plain, kernels, type, &c, count, value);
      if (!kernels->pick || count > ADJI_FEW) continue;
      uint32_t rank = (uint32_t)(random_of(&random) % count);
      double picked = kernels->pick(x, count, rank);
      plain->count(x, count, picked, &below[0], &up_to[0]);
      assert_true(below[0] <= rank && rank < up_to[0]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lists_hold_the_nearest),
      cmocka_unit_test(splits_are_those_of_plain_loops),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
