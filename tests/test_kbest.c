/* SPDX-License-Identifier: MIT
 *
 * The k best of a query, compared with sorting everything: every instruction set, both types, k from 1 to more than the
 * number of candidates, with difficult orders and values.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "entries.h"
#include "result/kbest.h"

enum { MOST = 5000, PATTERNS = 9 };

/* The i-th of count sums. All are exact in f32. */
static double sum_of(int pattern, uint64_t i, uint64_t count, uint64_t *state) {
  static const double odd[] = {0.0, -0.0, INFINITY, 1e-45, 3e38, -1e-45, 1, -3e38};
  switch (pattern) {
    case 0:
      return (float)((double)(random_of(state) >> 11) * 0x1p-53);
    case 1:
      return (double)i; /* ascending */
    case 2:
      return (double)(count - i); /* descending: each is better than all before it */
    case 3:
      return 7; /* all tied */
    case 4:
      return (double)(random_of(state) % 5);
    case 5:
      return (float)odd[random_of(state) % 8];
    case 6:
      return (float)((double)(random_of(state) >> 11) * 0x1p-53 - 0.5); /* of either sign */
    case 7:
      return INFINITY;
    default: {
      uint64_t tooth = i / 100; /* a sawtooth */
      return (double)(i % 100 * 100 + tooth);
    }
  }
}

typedef struct sums_of_query {
  entry entries[MOST]; /* sorted after all are made */
  uint32_t ids[MOST];
  float f32[MOST];
  double f64[MOST];
} sums_of_query;

static void make_query(sums_of_query *q, int pattern, uint64_t count) {
  uint64_t state = 88172645463325252u + count;
  for (uint64_t i = 0; i < count; i++) {
    q->ids[i] = (uint32_t)(pattern % 2 ? i : count - 1 - i) * 3;
    q->f64[i] = sum_of(pattern, i, count, &state);
    q->f32[i] = (float)q->f64[i];
    q->entries[i] = (entry){q->f64[i], q->ids[i]};
  }
  qsort(q->entries, count, sizeof *q->entries, by_sum_then_id);
}

/* Adds sums in pieces of this size. As in a kernel, sums above the limit are skipped. */
static void add_all(adji_kbest *best, const sums_of_query *q, adj_type type, uint64_t begin, uint64_t end,
                    uint64_t piece) {
  uint32_t ids[MOST];
  float f32[MOST];
  double f64[MOST];
  for (uint64_t i = begin; i < end;) {
    uint64_t many = 0;
    for (; i < end && many < piece; i++) {
      if (q->f64[i] > best->limit) continue;
      ids[many] = q->ids[i];
      f32[many] = q->f32[i];
      f64[many++] = q->f64[i];
    }
    adji_kbest_add(best, ids, type == ADJ_F64 ? (void *)f64 : (void *)f32, many);
  }
}

static void check_answer(adji_kbest *best, const sums_of_query *q, uint64_t count, double limit) {
  uint32_t ids[MOST];
  float f32[MOST];
  double f64[MOST];
  uint64_t expected = 0;
  while (expected < count && expected < best->k && q->entries[expected].sum <= limit)
    expected++;
  assert_int_equal(adji_kbest_finish(best, true, ids, best->type == ADJ_F64 ? (void *)f64 : (void *)f32), expected);
  for (uint64_t i = 0; i < expected; i++) {
    assert_int_equal(ids[i], q->entries[i].id);
    assert_true((best->type == ADJ_F64 ? f64[i] : (double)f32[i]) == q->entries[i].sum);
  }
}

static void check_selection(adj_ctx *ctx, adj_type type, uint64_t k, const sums_of_query *q, uint64_t count) {
  adji_kbest *best = adji_alloc(&ctx->memory, adji_kbest_bytes(type, k, 2), 1, "two lists"), *other = best + 1;
  adji_kbest_init(best, ctx->isa, type, k, 2);
  static const uint64_t pieces[] = {1, 16, 700, MOST};
  for (int p = 0; p < 4; p++) {
    double limit = count && p % 2 ? q->entries[count / 2].sum : INFINITY;
    adji_kbest_reset(best, limit);
    add_all(best, q, type, 0, count, pieces[p]);
    check_answer(best, q, count, limit);
    if (count >= k && !(p % 2)) assert_true(best->limit == q->entries[k - 1].sum);

    /* The same from two halves that are merged. */
    adji_kbest_reset(best, limit);
    adji_kbest_reset(other, limit);
    add_all(best, q, type, 0, count / 3, pieces[p]);
    add_all(other, q, type, count / 3, count, pieces[p]);
    adji_kbest_merge(best, other);
    check_answer(best, q, count, limit);
  }
  adji_free(&ctx->memory, best);
}

static void selections_match_sorting(void **unused) {
  (void)unused;
  static const uint64_t ks[] = {1, 2, 7, 8, 9, 31, 32, 33, 64, 65, 100, 255, 1000, 2999, 3000, 3005};
  static const uint64_t counts[] = {0, 1, 7, 64, 65, 300, 3000};
  sums_of_query *q = malloc(sizeof *q);
  assert_non_null(q);
  for (uint32_t isa = 0; adj_isa_name(isa); isa++) {
    adj_ctx *ctx = context_of(1, adj_isa_name(isa));
    for (int pattern = 0; pattern < PATTERNS; pattern++)
      for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
        make_query(q, pattern, counts[c]);
        for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
          check_selection(ctx, ADJ_F32, ks[i], q, counts[c]);
          check_selection(ctx, ADJ_F64, ks[i], q, counts[c]);
        }
      }
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
  free(q);
}

static int by_key(const void *x, const void *y) {
  uint64_t a = *(const uint64_t *)x, b = *(const uint64_t *)y;
  return a < b ? -1 : a > b;
}

/* Lengths around the sizes of the network, and every rank for some of them. */
static void keys_are_sorted_and_selected(void **unused) {
  (void)unused;
  uint64_t state = 42, keys[400], sorted[400], work[400];
  for (uint32_t isa = 0; adj_isa_name(isa); isa++) {
    const adji_key_kernels *kernels = adji_key_kernels_for(adj_isa_name(isa));
    for (uint64_t count = 1; count <= 400; count++) {
      for (uint64_t i = 0; i < count; i++)
        sorted[i] = keys[i] = random_of(&state) << 16 | i; /* all differ */
      qsort(sorted, count, sizeof *sorted, by_key);
      memcpy(work, keys, sizeof work);
      kernels->sort(work, count);
      assert_memory_equal(work, sorted, count * sizeof *work);
      for (uint64_t k = 1; k <= count; k += count < 70 ? 1 : 37) {
        memcpy(work, keys, sizeof work);
        kernels->select(work, count, k);
        assert_true(work[k - 1] == sorted[k - 1]);
        qsort(work, count, sizeof *work, by_key); /* nothing was lost */
        assert_memory_equal(work, sorted, count * sizeof *work);
      }
    }
  }
}

/* A key gives back its sum. A zero loses its sign. */
static void keys_keep_sums(void **unused) {
  (void)unused;
  static const float sums[] = {0, 1, -1, 1e-45f, -1e-45f, 3.4e38f, -3.4e38f, INFINITY, -INFINITY};
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
    assert_true(adji_key_sum_f32(adji_key_f32(sums[i], 5)) == sums[i]);
  assert_true(adji_key_f32(-0.0f, 3) == adji_key_f32(0.0f, 3));
  assert_true(adji_key_f32(-0.0f, 4) > adji_key_f32(0.0f, 3));
  assert_true(adji_key_f32(-1e-45f, 9) < adji_key_f32(0.0f, 3));
  assert_false(signbit(adji_key_sum_f32(adji_key_f32(-0.0f, 3))));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(selections_match_sorting),
      cmocka_unit_test(keys_are_sorted_and_selected),
      cmocka_unit_test(keys_keep_sums),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
