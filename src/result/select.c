/* SPDX-License-Identifier: MIT
 *
 * adj_select_k: the k smallest values of each row of a matrix.
 *
 * Nearly all values of a long row are above the limit of the k best so far. So values are compared with the limit in
 * runs, by vectors, and only a run with a value that is not above it is scanned again.
 */
#include <math.h>
#include <string.h>

#include "data/dataset.h"
#include "result/kbest.h"
#include "result/select.h"

void adj_matrix_init(adj_matrix *matrix, size_t struct_size) {
  adj_matrix defaults = {.type = ADJ_F32};
  adji_init_struct(matrix, struct_size, &defaults, sizeof defaults);
}

enum { RUN = 64, FEWEST_COLUMNS = 1 << 16, ROWS_A_TASK_BYTES = 1 << 20 };

/* The values of a run that are not above the limit. */
typedef struct run {
  uint32_t columns[RUN];
  double values[RUN]; /* room for either type */
  uint32_t count;
} run;

/* Lists those of count <= RUN values, from column `first` on, that are not above the limit. A NaN is above every
 * limit. */
#define RUN_OF(suffix, T)                                                                       \
  static void run_##suffix(const T *values, uint32_t first, uint32_t count, T limit, run *to) { \
    int some = 0;                                                                               \
    for (uint32_t i = 0; i < count; i++) {                                                      \
      some |= values[i] <= limit;                                                               \
    }                                                                                           \
    to->count = 0;                                                                              \
    for (uint32_t i = 0; some && i < count; i++) {                                              \
      to->columns[to->count] = first + i;                                                       \
      ((T *)(void *)to->values)[to->count] = values[i];                                         \
      to->count += values[i] <= limit;                                                          \
    }                                                                                           \
  }
RUN_OF(f32, float)
RUN_OF(f64, double)
#undef RUN_OF

typedef struct selection {
  adj_ctx *ctx;
  adj_matrix matrix;
  uint32_t k;
  adj_order order;
  uint32_t *columns;
  void *values;
  uint32_t parts;        /* parts of a row                                  */
  uint64_t rows_at_once; /* rows of a task, with one part                 */
  adji_kbest *best;      /* one part: per lane; several: per row and part   */
} selection;

/* Adds columns [begin, end) of a row to the k best. */
static void scan_row(const selection *s, uint64_t row, uint64_t begin, uint64_t end, adji_kbest *best) {
  const char *values = (const char *)s->matrix.values + row * s->matrix.row_stride;
  bool f64 = s->matrix.type == ADJ_F64;
  adji_kbest_reset(best, INFINITY);
  for (uint64_t at = begin; at < end; at += RUN) {
    uint32_t count = end - at < RUN ? (uint32_t)(end - at) : RUN, first = (uint32_t)at;
    run some;
    if (f64)
      run_f64((const double *)(const void *)values + at, first, count, best->limit, &some);
    else
      run_f32((const float *)(const void *)values + at, first, count, (float)best->limit, &some);
    if (some.count) adji_kbest_add(best, some.columns, some.values, some.count);
  }
}

/* NaNs come after the numbers of a row. Appends their columns; returns the number of entries, at most k. */
static uint64_t add_nans(const selection *s, uint64_t row, uint64_t found, uint32_t *columns) {
  const char *values = (const char *)s->matrix.values + row * s->matrix.row_stride;
  bool f64 = s->matrix.type == ADJ_F64;
  for (uint64_t c = 0; c < s->matrix.columns && found < s->k; c++)
    if (f64 ? isnan(((const double *)(const void *)values)[c]) : isnan(((const float *)(const void *)values)[c]))
      columns[found++] = (uint32_t)c;
  return found;
}

/* Writes the best of a row. Values are read from the matrix, so that a zero keeps its sign. */
static void place_row(const selection *s, uint64_t row, adji_kbest *best) {
  uint32_t *columns = s->columns + row * s->k;
  uint64_t found = adji_kbest_finish(best, s->order != ADJ_ORDER_ANY, columns, NULL);
  if (found < s->k && found < s->matrix.columns) found = add_nans(s, row, found, columns);
  size_t size = adji_type_size(s->matrix.type);
  const char *from = (const char *)s->matrix.values + row * s->matrix.row_stride;
  char *to = s->values ? (char *)s->values + row * s->k * size : NULL;
  for (uint64_t i = 0; to && i < found; i++)
    memcpy(to + i * size, from + columns[i] * size, size);
  for (uint64_t i = found; i < s->k; i++) {
    columns[i] = ADJ_NO_ID;
    if (to && s->matrix.type == ADJ_F64)
      ((double *)(void *)to)[i] = INFINITY;
    else if (to)
      ((float *)(void *)to)[i] = INFINITY;
  }
}

static adj_status select_rows(void *user, uint64_t task, uint32_t lane) {
  const selection *s = user;
  uint64_t end = (task + 1) * s->rows_at_once;
  for (uint64_t row = task * s->rows_at_once; row < end && row < s->matrix.rows; row++) {
    scan_row(s, row, 0, s->matrix.columns, &s->best[lane]);
    place_row(s, row, &s->best[lane]);
  }
  return ADJ_OK;
}

static adj_status select_part(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const selection *s = user;
  uint64_t begin, end;
  adji_slice(s->matrix.columns, s->parts, task % s->parts, &begin, &end);
  scan_row(s, task / s->parts, begin, end, &s->best[task]);
  return ADJ_OK;
}

static void merge_parts(const selection *s) {
  for (uint64_t row = 0; row < s->matrix.rows; row++) {
    adji_kbest *best = s->best + row * s->parts;
    for (uint32_t part = 1; part < s->parts; part++)
      adji_kbest_merge(best, best + part);
    place_row(s, row, best);
  }
}

/* ---- The call ----------------------------------------------------------------------------------------- */

adj_status adji_check_selection(const adj_matrix *m, uint32_t k, adj_order order) {
  if (m->type != ADJ_F32 && m->type != ADJ_F64)
    return adji_fail(ADJ_E_ARGUMENT, "type: %d is neither ADJ_F32 nor ADJ_F64", (int)m->type);
  if (!k) return adji_fail(ADJ_E_ARGUMENT, "k: must be at least 1");
  if (order < ADJ_ORDER_ID || order > ADJ_ORDER_ANY)
    return adji_fail(ADJ_E_ARGUMENT, "order: %d is not an adj_order", (int)order);
  if (m->columns > ADJ_MAX_COUNT)
    return adji_fail(ADJ_E_ARGUMENT, "columns: %llu are more than %llu", (unsigned long long)m->columns,
                     (unsigned long long)ADJ_MAX_COUNT);
  if (!m->values && m->rows && m->columns) return adji_fail(ADJ_E_ARGUMENT, "values: must not be NULL");
  size_t size = adji_type_size(m->type);
  if (m->row_stride % size || (m->row_stride && m->row_stride < m->columns * size))
    return adji_fail(ADJ_E_ARGUMENT, "row_stride: %llu bytes do not fit rows of %llu values of %zu bytes",
                     (unsigned long long)m->row_stride, (unsigned long long)m->columns, size);
  return ADJ_OK;
}

/* Long rows are cut into parts if there are too few rows for all threads. */
static void cut_rows(selection *s) {
  uint64_t threads = s->ctx->threads, bytes = s->matrix.columns * adji_type_size(s->matrix.type) + 1;
  uint64_t most = s->matrix.columns / FEWEST_COLUMNS, parts = 1;
  if (threads > 1 && s->matrix.rows < 4 * threads && most > 1) {
    parts = (4 * threads + s->matrix.rows - 1) / s->matrix.rows;
    if (parts > most) parts = most;
  }
  s->parts = (uint32_t)parts;
  s->rows_at_once = ROWS_A_TASK_BYTES / bytes + 1;
}

static adj_status run_selection(selection *s) {
  adj_ctx *ctx = s->ctx;
  uint64_t lists = s->parts > 1 ? s->matrix.rows * s->parts : ctx->threads;
  uint64_t k = s->k < s->matrix.columns ? s->k : s->matrix.columns ? s->matrix.columns : 1;
  s->best = adji_alloc(&ctx->memory, adji_kbest_bytes(s->matrix.type, k, lists), 1, "selection");
  if (!s->best) return ADJ_E_MEMORY;
  adji_kbest_init(s->best, ctx->isa, s->matrix.type, k, lists);
  adj_status status;
  if (s->parts > 1)
    status = adji_loop(ctx, lists, select_part, s);
  else
    status = adji_loop(ctx, (s->matrix.rows + s->rows_at_once - 1) / s->rows_at_once, select_rows, s);
  if (!status && s->parts > 1) merge_parts(s);
  adji_free(&ctx->memory, s->best);
  return status;
}

adj_status adj_select_k(adj_ctx *ctx, const adj_matrix *matrix, uint32_t k, adj_order order, uint32_t *columns,
                        void *values) {
  if (!ctx || !matrix || !columns) return adji_fail(ADJ_E_ARGUMENT, "ctx, matrix and columns: none may be NULL");
  selection s = {.ctx = ctx, .k = k, .order = order, .columns = columns, .values = values};
  adj_matrix_init(&s.matrix, sizeof s.matrix);
  adj_status status = adji_take_struct(&s.matrix, sizeof s.matrix, matrix, "adj_matrix");
  if (!status) status = adji_check_selection(&s.matrix, k, order);
  if (status || !s.matrix.rows) return status;
  if (!s.matrix.row_stride) s.matrix.row_stride = s.matrix.columns * adji_type_size(s.matrix.type);
  cut_rows(&s);
  adji_call outer = adji_call_begin(&ctx->cancels);
  status = run_selection(&s);
  adji_call_set(outer);
  return status;
}
