/* SPDX-License-Identifier: MIT
 *
 * adj_select_k, compared with sorting every row: both types, strides, ties, infinities, NaNs, rows cut into parts, and
 * wrong arguments.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "check.h"

typedef struct entry {
  double value;
  uint32_t column;
} entry;

static int by_value_then_column(const void *x, const void *y) {
  const entry *a = x, *b = y;
  bool nan_a = isnan(a->value), nan_b = isnan(b->value);
  if (nan_a != nan_b) return nan_a ? 1 : -1;
  if (!nan_a && a->value != b->value) return a->value < b->value ? -1 : 1;
  return a->column < b->column ? -1 : a->column > b->column;
}

static adj_matrix matrix_of(adj_type type, uint64_t rows, uint64_t columns, uint64_t stride, const void *values) {
  adj_matrix m;
  adj_matrix_init(&m, sizeof m);
  m.type = type;
  m.rows = rows;
  m.columns = columns;
  m.row_stride = stride;
  m.values = values;
  return m;
}

static double value_at(const adj_matrix *m, uint64_t row, uint64_t column) {
  size_t size = m->type == ADJ_F64 ? 8 : 4;
  const char *at = (const char *)m->values + row * (m->row_stride ? m->row_stride : m->columns * size) + column * size;
  return m->type == ADJ_F64 ? *(const double *)(const void *)at : (double)*(const float *)(const void *)at;
}

static double entry_at(adj_type type, const void *values, uint64_t i) {
  return type == ADJ_F64 ? ((const double *)values)[i] : (double)((const float *)values)[i];
}

static void check(adj_ctx *ctx, const adj_matrix *m, uint32_t k, adj_order order) {
  entry *row = malloc((m->columns + 1) * sizeof *row), *got = malloc(k * sizeof *got);
  uint32_t *columns = malloc(m->rows * k * sizeof *columns + 1);
  void *values = malloc(m->rows * k * 8 + 1);
  assert_true(row && got && columns && values);
  must(adj_select_k(ctx, m, k, order, columns, values));
  for (uint64_t r = 0; r < m->rows; r++) {
    for (uint64_t c = 0; c < m->columns; c++)
      row[c] = (entry){value_at(m, r, c), (uint32_t)c};
    qsort(row, m->columns, sizeof *row, by_value_then_column);
    for (uint32_t i = 0; i < k; i++)
      got[i] = (entry){entry_at(m->type, values, r * k + i), columns[r * k + i]};
    if (order == ADJ_ORDER_ANY) qsort(got, k < m->columns ? k : m->columns, sizeof *got, by_value_then_column);
    for (uint32_t i = 0; i < k; i++) {
      bool exists = i < m->columns;
      assert_int_equal(got[i].column, exists ? row[i].column : ADJ_NO_ID);
      double expected = exists ? row[i].value : (double)INFINITY;
      assert_true(got[i].value == expected || (isnan(got[i].value) && isnan(expected)));
      if (exists) assert_int_equal(signbit(got[i].value), signbit(value_at(m, r, got[i].column)));
    }
  }
  must(adj_select_k(ctx, m, k, order, columns, NULL));
  free(row);
  free(got);
  free(columns);
  free(values);
}

/* Values of either sign that are exact in f32, with ties, both zeros and infinities; and a few or many NaNs. */
static void fill(adj_type type, void *values, uint64_t count, uint32_t nans) {
  uint64_t state = 12345;
  for (uint64_t i = 0; i < count; i++) {
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
    uint32_t bits = (uint32_t)(state >> 33);
    double v = bits % 100 < nans ? (double)NAN
               : bits % 11 == 0  ? -0.0
               : bits % 13 == 0  ? 0.0
               : bits % 17 == 0  ? (double)INFINITY
               : bits % 3        ? (double)(bits % 1000) - 300
                                 : (double)(float)(bits * 0x1p-20);
    if (type == ADJ_F64)
      ((double *)values)[i] = v;
    else
      ((float *)values)[i] = (float)v;
  }
}

static void rows_are_selected(void **state) {
  (void)state;
  static const uint64_t shapes[][2] = {{1, 1}, {3, 63}, {7, 64}, {5, 65}, {40, 700}, {300, 9}, {2, 0}, {0, 5}};
  static const uint32_t ks[] = {1, 2, 8, 64, 500, 705};
  void *values = malloc((size_t)300 * 1000 * 8);
  assert_non_null(values);
  for (uint32_t threads = 1; threads <= 3; threads += 2)
    for (uint32_t isa = 0; adj_isa_name(isa); isa++) {
      adj_ctx *ctx = context_of(threads, adj_isa_name(isa));
      for (adj_type type = ADJ_F32; type <= ADJ_F64; type++) {
        size_t size = type == ADJ_F64 ? 8 : 4;
        fill(type, values, (uint64_t)300 * 1000, isa % 2 ? 2 : 60);
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
          for (size_t i = 0; i < sizeof ks / sizeof *ks; i++) {
            uint64_t stride = i % 2 ? (shapes[s][1] + 3) * size : 0;
            adj_matrix m = matrix_of(type, shapes[s][0], shapes[s][1], stride, values);
            check(ctx, &m, ks[i], (adj_order)(i % 3));
          }
      }
      assert_int_equal(adj_ctx_memory_used(ctx), 0);
      adj_ctx_destroy(ctx);
    }
  free(values);
}

/* Few rows, long enough for every thread to take a part. */
static void long_rows_are_cut(void **state) {
  (void)state;
  const uint64_t columns = 300001;
  float *values = malloc(2 * columns * sizeof *values);
  assert_non_null(values);
  fill(ADJ_F32, values, 2 * columns, 10);
  adj_ctx *ctx = context_of(3, NULL);
  for (uint64_t rows = 1; rows <= 2; rows++) {
    adj_matrix m = matrix_of(ADJ_F32, rows, columns, 0, values);
    check(ctx, &m, 1, ADJ_ORDER_DISTANCE);
    check(ctx, &m, 1000, ADJ_ORDER_DISTANCE);
    check(ctx, &m, 200000, ADJ_ORDER_ANY);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
  free(values);
}

static void wrong_calls_are_refused(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  double values[6] = {3, 1, 2, 6, 5, 4};
  uint32_t columns[6];
  adj_matrix m = matrix_of(ADJ_F64, 2, 3, 0, values);
  must_fail(ADJ_E_ARGUMENT, "k:", adj_select_k(ctx, &m, 0, ADJ_ORDER_ID, columns, NULL));
  must_fail(ADJ_E_ARGUMENT, "order: 7", adj_select_k(ctx, &m, 1, (adj_order)7, columns, NULL));
  must_fail(ADJ_E_ARGUMENT, "NULL", adj_select_k(ctx, &m, 1, ADJ_ORDER_ID, NULL, NULL));
  must_fail(ADJ_E_ARGUMENT, "NULL", adj_select_k(NULL, &m, 1, ADJ_ORDER_ID, columns, NULL));
  m.row_stride = 20;
  must_fail(ADJ_E_ARGUMENT, "row_stride: 20", adj_select_k(ctx, &m, 1, ADJ_ORDER_ID, columns, NULL));
  m.row_stride = 16;
  must_fail(ADJ_E_ARGUMENT, "row_stride: 16", adj_select_k(ctx, &m, 1, ADJ_ORDER_ID, columns, NULL));
  m = matrix_of((adj_type)9, 2, 3, 0, values);
  must_fail(ADJ_E_ARGUMENT, "type: 9", adj_select_k(ctx, &m, 1, ADJ_ORDER_ID, columns, NULL));
  m = matrix_of(ADJ_F64, 2, 3, 0, NULL);
  must_fail(ADJ_E_ARGUMENT, "values", adj_select_k(ctx, &m, 1, ADJ_ORDER_ID, columns, NULL));
  m = matrix_of(ADJ_F64, 1, ADJ_MAX_COUNT + 1, 0, values);
  must_fail(ADJ_E_ARGUMENT, "columns", adj_select_k(ctx, &m, 1, ADJ_ORDER_ID, columns, NULL));
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_are_selected),
      cmocka_unit_test(long_rows_are_cut),
      cmocka_unit_test(wrong_calls_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
