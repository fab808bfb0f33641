/* SPDX-License-Identifier: MIT
 *
 * adj_cuda_select_k, compared with sorting every row: every algorithm, both types, k around every boundary, difficult
 * values, strides, ids, little memory; and every CUDA call fails in turn.
 *
 *   gpu_select [TEXT [N]]    only the cases whose names hold this text, and N selections of each, for slow checkers
 *
 * Needs a GPU, but not cmocka. Exit status 0: passed; 77: no GPU here.
 */
#include <adjoin_cuda.h>
#include <cuda_runtime_api.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/device/device.h"

enum { NO_GPU = 77 };

static void need(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "gpu_select: %s: %s\n", what, adj_last_error());
  exit(1);
}

static void need_cuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "gpu_select: %s\n", cudaGetErrorString(error));
  exit(1);
}

/* ---- Values ------------------------------------------------------------------------------------------------------ */

static uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407u;
  uint64_t x = *state ^ *state >> 29;
  return (x * UINT64_C(0x9e3779b97f4a7c15)) >> 16;
}

static double unit(uint64_t *state) {
  return (double)(next_random(state) & 0xffffff) * 0x1p-24;
}

typedef double value_of(uint64_t column, uint64_t columns, uint64_t *state);

static double uniform(uint64_t c, uint64_t n, uint64_t *state) {
  (void)c, (void)n;
  return unit(state);
}
static double equal(uint64_t c, uint64_t n, uint64_t *state) {
  (void)c, (void)n, (void)state;
  return 3;
}
static double descending(uint64_t c, uint64_t n, uint64_t *state) {
  (void)state;
  return (double)(n - c);
}
static double ascending(uint64_t c, uint64_t n, uint64_t *state) {
  (void)state;
  return (double)c - (double)(n / 2);
}
static double few_values(uint64_t c, uint64_t n, uint64_t *state) {
  (void)c, (void)n;
  return (double)(next_random(state) % 7) - 3;
}
static double zeros(uint64_t c, uint64_t n, uint64_t *state) {
  (void)c, (void)n;
  uint64_t x = next_random(state);
  return x % 50 == 0 ? unit(state) - 0.5 : x % 2 ? -0.0 : 0.0;
}
static double extreme(uint64_t c, uint64_t n, uint64_t *state) {
  (void)c, (void)n;
  uint64_t x = next_random(state) % 6;
  double u = unit(state);
  return x == 0   ? 3e38 * u
         : x == 1 ? -3e38 * u
         : x == 2 ? 1e-44 * u
         : x == 3 ? (u < 0.5 ? (double)INFINITY : -(double)INFINITY)
                  : u;
}
static double some_nan(uint64_t c, uint64_t n, uint64_t *state) {
  (void)c, (void)n;
  return next_random(state) % 10 ? unit(state) : (double)NAN;
}
static double mostly_nan(uint64_t c, uint64_t n, uint64_t *state) {
  (void)c, (void)n;
  return next_random(state) % 100 ? (double)NAN : unit(state);
}
static double in_blocks(uint64_t c, uint64_t n, uint64_t *state) { /* neighbours are alike */
  (void)n, (void)state;
  return (double)((c / 64 * 2654435761u) % 10007) + (double)(c % 64) / 64;
}
static double rare(uint64_t c, uint64_t n, uint64_t *state) {
  (void)n, (void)state;
  return c % 1000 == 7 ? 1 : 2;
}

static double outlier(uint64_t c, uint64_t n, uint64_t *state) { /* one far below, the others close together */
  return c == n / 3 ? 0 : 1000 + unit(state);
}
static double far_below(uint64_t c, uint64_t n, uint64_t *state) { /* many far below */
  (void)n;
  return unit(state) * (c % 97 == 5 ? -1e30 : 1);
}

/* The values that select_sample.cuh samples are far above all others, so that its splitters are wrong. */
static bool is_sampled(uint64_t c, uint64_t n) {
  uint32_t log_size = n < 1 << 17 ? 11 : 12;
  for (uint64_t i = (c << log_size) / n, end = i + 2; i < end; i++) {
    uint32_t hash = (uint32_t)(i + 1) * 0x9e3779b9u;
    hash = (hash ^ hash >> 15) * 0x85ebca6bu;
    hash ^= hash >> 13;
    if ((i * n >> log_size) + ((uint64_t)hash * (n >> log_size) >> 32) == c) return true;
  }
  return false;
}
static double misleading(uint64_t c, uint64_t n, uint64_t *state) {
  return unit(state) + (is_sampled(c, n) ? 1000 : 0);
}

static const struct {
  const char *name;
  value_of *value;
} KINDS[] = {{"uniform", uniform},     {"equal", equal},           {"descending", descending},
             {"ascending", ascending}, {"few values", few_values}, {"zeros", zeros},
             {"extreme", extreme},     {"some nan", some_nan},     {"mostly nan", mostly_nan},
             {"rare", rare},           {"in blocks", in_blocks},   {"outlier", outlier},
             {"far below", far_below}, {"misleading", misleading}};
enum { KIND_COUNT = sizeof KINDS / sizeof *KINDS };

/* ---- Threads ----------------------------------------------------------------------------------------------------- */

typedef void rows_fn(void *user, uint64_t begin, uint64_t end);

typedef struct stretch {
  rows_fn *fn;
  void *user;
  uint64_t begin, end;
} stretch;

static void *do_stretch(void *argument) {
  const stretch *s = argument;
  s->fn(s->user, s->begin, s->end);
  return NULL;
}

/* Shares rows among the cores, as the reference takes longer than the device. */
static void by_all_cores(uint64_t rows, rows_fn *fn, void *user) {
  enum { MOST = 32 };
  pthread_t threads[MOST];
  stretch all[MOST];
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  uint64_t many = cores < 1 ? 1 : cores > MOST ? MOST : (uint64_t)cores;
  for (uint64_t i = 0; i < many; i++) {
    all[i] = (stretch){fn, user, rows * i / many, rows * (i + 1) / many};
    need(!pthread_create(&threads[i], NULL, do_stretch, &all[i]), "a thread");
  }
  for (uint64_t i = 0; i < many; i++)
    pthread_join(threads[i], NULL);
}

/* ---- The reference ----------------------------------------------------------------------------------------------- */

typedef struct entry {
  double value;
  uint32_t column;
} entry;

static int by_column(const entry *a, const entry *b) {
  return a->column < b->column ? -1 : a->column > b->column;
}

static int nan_last(const entry *a, const entry *b) {
  bool x = isnan(a->value), y = isnan(b->value);
  return x != y ? (x ? 1 : -1) : x ? by_column(a, b) : 2;
}

static int ascending_order(const void *x, const void *y) {
  const entry *a = x, *b = y;
  int nan = nan_last(a, b);
  if (nan != 2) return nan;
  return a->value != b->value ? (a->value < b->value ? -1 : 1) : by_column(a, b);
}

static int descending_order(const void *x, const void *y) {
  const entry *a = x, *b = y;
  int nan = nan_last(a, b);
  if (nan != 2) return nan;
  return a->value != b->value ? (a->value > b->value ? -1 : 1) : by_column(a, b);
}

/* ---- One case --------------------------------------------------------------------------------------------------- */

typedef struct problem {
  adj_type type;
  uint64_t rows, columns, stride, shift; /* in values; shift: from aligned memory to the first one */
  int kind;                              /* KIND_COUNT: every row has another kind                */
  bool largest, ids, values;
} problem;

typedef struct data {
  problem p;
  char *host, *device; /* the matrix begins `shift` values in */
  entry *sorted;       /* all rows                            */
  uint32_t *host_ids, *device_ids;
} data;

static size_t size_of(adj_type type) {
  return type == ADJ_F64 ? 8 : 4;
}

static double value_at(const data *d, uint64_t row, uint64_t column) {
  uint64_t at = d->p.shift + row * d->p.stride + column;
  return d->p.type == ADJ_F64 ? ((const double *)(const void *)d->host)[at]
                              : (double)((const float *)(const void *)d->host)[at];
}

static void make_row(data *d, uint64_t row, uint64_t *state) {
  const problem *p = &d->p;
  value_of *value = KINDS[p->kind == KIND_COUNT ? (int)(row % KIND_COUNT) : p->kind].value;
  for (uint64_t c = 0; c < p->columns; c++) {
    uint64_t at = p->shift + row * p->stride + c;
    double v = value(c, p->columns, state);
    if (p->type == ADJ_F64)
      ((double *)(void *)d->host)[at] = v;
    else
      ((float *)(void *)d->host)[at] = (float)v;
    d->sorted[row * p->columns + c] = (entry){value_at(d, row, c), (uint32_t)c};
  }
}

static void sort_rows(void *user, uint64_t begin, uint64_t end) {
  data *d = user;
  for (uint64_t r = begin; r < end; r++)
    qsort(d->sorted + r * d->p.columns, d->p.columns, sizeof *d->sorted,
          d->p.largest ? descending_order : ascending_order);
}

static data make_data(const problem *p) {
  data d = {.p = *p};
  uint64_t bytes = (p->shift + p->rows * p->stride) * size_of(p->type) + 8, state = 4711 + p->columns;
  d.host = calloc(bytes, 1);
  d.sorted = malloc(p->rows * p->columns * sizeof *d.sorted + 1);
  d.host_ids = malloc(p->columns * sizeof *d.host_ids + 1);
  need(d.host && d.sorted && d.host_ids, "memory");
  for (uint64_t r = 0; r < p->rows; r++)
    make_row(&d, r, &state);
  by_all_cores(p->rows, sort_rows, &d);
  for (uint64_t c = 0; c < p->columns; c++)
    d.host_ids[c] = (uint32_t)next_random(&state);
  need_cuda(cudaMalloc((void **)&d.device, bytes));
  need_cuda(cudaMemcpy(d.device, d.host, bytes, cudaMemcpyHostToDevice));
  need_cuda(cudaMalloc((void **)&d.device_ids, p->columns * 4 + 4));
  need_cuda(cudaMemcpy(d.device_ids, d.host_ids, p->columns * 4, cudaMemcpyHostToDevice));
  return d;
}

static void free_data(data *d) {
  free(d->host);
  free(d->sorted);
  free(d->host_ids);
  cudaFree(d->device);
  cudaFree(d->device_ids);
}

typedef struct answer {
  uint32_t *columns, *device_columns;
  char *values, *device_values;
  uint64_t count;
} answer;

static answer make_answer(const problem *p, uint32_t k) {
  answer a = {.count = p->rows * k};
  a.columns = malloc(a.count * 4 + 1);
  a.values = malloc(a.count * 8 + 1);
  need(a.columns && a.values, "memory");
  need_cuda(cudaMalloc((void **)&a.device_columns, a.count * 4 + 4));
  need_cuda(cudaMalloc((void **)&a.device_values, a.count * 8 + 8));
  need_cuda(cudaMemset(a.device_columns, 0x5a, a.count * 4));
  need_cuda(cudaMemset(a.device_values, 0x5a, a.count * 8));
  return a;
}

static void free_answer(answer *a) {
  free(a->columns);
  free(a->values);
  cudaFree(a->device_columns);
  cudaFree(a->device_values);
}

static adj_status run(adj_ctx *ctx, const data *d, uint32_t k, const char *algorithm, adj_order order, answer *a) {
  const problem *p = &d->p;
  adj_matrix matrix;
  adj_matrix_init(&matrix, sizeof matrix);
  matrix.type = p->type;
  matrix.rows = p->rows;
  matrix.columns = p->columns;
  matrix.row_stride = p->stride * size_of(p->type);
  matrix.values = d->device + p->shift * size_of(p->type);
  adj_cuda_select_options options;
  adj_cuda_select_options_init(&options, sizeof options);
  options.order = order;
  options.largest = p->largest;
  options.ids = p->ids ? d->device_ids : NULL;
  options.algorithm = algorithm;
  adj_status status =
      adj_cuda_select_k(ctx, &matrix, k, &options, NULL, a->device_columns, p->values ? a->device_values : NULL);
  need_cuda(cudaDeviceSynchronize());
  need_cuda(cudaMemcpy(a->columns, a->device_columns, a->count * 4, cudaMemcpyDeviceToHost));
  need_cuda(cudaMemcpy(a->values, a->device_values, a->count * size_of(p->type), cudaMemcpyDeviceToHost));
  return status;
}

/* The bits of the value of entry i, as found or as expected. */
static uint64_t bits_of(const data *d, const answer *a, uint64_t i) {
  uint64_t bits = 0;
  memcpy(&bits, a->values + i * size_of(d->p.type), size_of(d->p.type));
  return bits;
}

static uint64_t expected_bits(const data *d, uint64_t row, uint32_t column) {
  uint64_t bits = 0, size = size_of(d->p.type);
  double padding = d->p.largest ? -(double)INFINITY : (double)INFINITY;
  float narrow = (float)padding;
  const void *from = column != ADJ_NO_ID    ? (const void *)(d->host + (d->p.shift + row * d->p.stride + column) * size)
                     : d->p.type == ADJ_F64 ? (const void *)&padding
                                            : (const void *)&narrow;
  memcpy(&bits, from, size);
  return bits;
}

/* Checks that an unordered row has each column at most once, with its value. Then sorts it for the comparison. */
static bool sort_into_order(const data *d, answer *a, uint64_t row, uint32_t k) {
  uint64_t here = k < d->p.columns ? k : d->p.columns;
  entry *entries = malloc(here * sizeof *entries + 1);
  need(entries != NULL, "memory");
  bool fine = true;
  for (uint64_t i = 0; i < here && fine; i++) {
    uint32_t column = a->columns[row * k + i];
    fine = column < d->p.columns;
    if (!fine) break;
    entries[i] = (entry){value_at(d, row, column), column};
    if (d->p.values) fine = bits_of(d, a, row * k + i) == expected_bits(d, row, column);
  }
  if (fine) qsort(entries, here, sizeof *entries, d->p.largest ? descending_order : ascending_order);
  for (uint64_t i = 0; i < here && fine; i++) {
    a->columns[row * k + i] = entries[i].column;
    uint64_t bits = expected_bits(d, row, entries[i].column);
    memcpy(a->values + (row * k + i) * size_of(d->p.type), &bits, size_of(d->p.type));
  }
  free(entries);
  return fine;
}

static bool check_row(const data *d, answer *a, uint64_t row, uint32_t k, adj_order order) {
  if (order == ADJ_ORDER_ANY && !sort_into_order(d, a, row, k)) return false;
  for (uint64_t i = 0; i < k; i++) {
    uint32_t column = i < d->p.columns ? d->sorted[row * d->p.columns + i].column : ADJ_NO_ID;
    uint32_t reported = column != ADJ_NO_ID && d->p.ids ? d->host_ids[column] : column, got = a->columns[row * k + i];
    if (got != reported || (d->p.values && bits_of(d, a, row * k + i) != expected_bits(d, row, column))) {
      printf("    row %llu, entry %llu: column %u, not %u\n", (unsigned long long)row, (unsigned long long)i, got,
             reported);
      return false;
    }
  }
  return true;
}

typedef struct selection {
  const data *d;
  answer *a;
  uint32_t k;
  adj_order order;
  atomic_bool differs;
} selection;

static void check_rows(void *user, uint64_t begin, uint64_t end) {
  selection *s = user;
  for (uint64_t r = begin; r < end && !atomic_load(&s->differs); r++)
    if (!check_row(s->d, s->a, r, s->k, s->order)) atomic_store(&s->differs, true);
}

static int failures, checks;
static int most_each, stop_at; /* numbers of selections; 0: all */

static void check(adj_ctx *ctx, const data *d, uint32_t k, const char *algorithm, adj_order order) {
  if (stop_at && checks == stop_at) return;
  answer a = make_answer(&d->p, k);
  adj_status status = run(ctx, d, k, algorithm, order, &a);
  selection mine = {.d = d, .a = &a, .k = k, .order = order};
  if (!status) by_all_cores(d->p.rows, check_rows, &mine);
  bool same = !status && !atomic_load(&mine.differs);
  free_answer(&a);
  checks++;
  if (same) return;
  failures++;
  printf("FAILED: %s %s: %llu x %llu, stride %llu, shift %llu, %s, k %u%s%s%s%s: %s\n", algorithm ? algorithm : "auto",
         d->p.type == ADJ_F64 ? "f64" : "f32", (unsigned long long)d->p.rows, (unsigned long long)d->p.columns,
         (unsigned long long)d->p.stride, (unsigned long long)d->p.shift,
         d->p.kind == KIND_COUNT ? "mixed" : KINDS[d->p.kind].name, k, d->p.largest ? ", largest" : "",
         d->p.ids ? ", ids" : "", d->p.values ? "" : ", no values", order == ADJ_ORDER_ANY ? ", any order" : "",
         status ? adj_last_error() : "differs");
}

/* ---- The cases -------------------------------------------------------------------------------------------------- */

static const char *const ALGORITHMS[] = {NULL,         "short",  "bound", "bits",       "bitonic",     "block-bitonic",
                                         "radix",      "sample", "sort",  "block-bits", "block-radix", "block-sample",
                                         "stream-sort"};
enum { ALGORITHM_COUNT = 13, FIRST_FOR_ANY_K = 6 };

/* Checks all algorithms that support k. The other options take turns. */
static void check_all(adj_ctx *ctx, data *d, uint32_t k, uint32_t *turn) {
  for (int a = 0; a < ALGORITHM_COUNT; a++, ++*turn) {
    if (k > 2048 && a > 0 && a < FIRST_FOR_ANY_K) continue;
    d->p.values = *turn % 4 != 3;
    d->p.ids = *turn % 5 == 4;
    adj_order order = *turn % 3 == 2 && !d->p.ids ? ADJ_ORDER_ANY : ADJ_ORDER_DISTANCE;
    check(ctx, d, k, ALGORITHMS[a], order);
  }
  ++*turn; /* so that an algorithm does not always get the same options */
}

static void check_shape(adj_ctx *ctx, const char *only, const char *name, problem p, const uint32_t *ks, int k_count) {
  static uint32_t turn;
  if (only && !strstr(name, only)) return;
  int before = failures, done = checks;
  stop_at = most_each ? checks + most_each : 0;
  for (adj_type type = ADJ_F32; type <= ADJ_F64; type++) {
    p.type = type;
    if (!p.stride) p.stride = p.columns;
    data d = make_data(&p);
    for (int i = 0; i < k_count; i++)
      check_all(ctx, &d, ks[i], &turn);
    free_data(&d);
  }
  printf("%-40s %5d selections %s\n", name, checks - done, failures > before ? "FAILED" : "ok");
  fflush(stdout);
}

/* Row lengths and k around those at which select_short.cu changes its method. There are more rows than the device runs
 * blocks at a time. */
static void check_short_rows(adj_ctx *ctx, const char *only) {
  static const uint32_t lengths[] = {1,    2,    31,   32,   33,   127,   128,   129,   255,   256,
                                     257,  511,  512,  513,  1000, 2047,  2048,  2049,  4095,  4096,
                                     4097, 8191, 8192, 8193, 9999, 12000, 16383, 16384, 16385, 20000};
  static const uint32_t ks[] = {1, 2, 31, 32, 33, 48, 49, 127, 128, 129, 200, 512, 1024, 2047, 2048};
  char name[64];
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    uint32_t n = lengths[i], some[4] = {ks[i % 15], ks[(i + 4) % 15], ks[(i + 8) % 15], ks[(i + 11) % 15]};
    snprintf(name, sizeof name, "short rows of %u", n);
    problem p = {.rows = n < 300 ? 9000 : 120, .columns = n, .stride = n + i % 6, .shift = i % 4, .kind = KIND_COUNT};
    p.largest = i % 3 == 1;
    check_shape(ctx, only, name, p, some, 4);
  }
  for (int kind = 0; kind < KIND_COUNT; kind++) {
    snprintf(name, sizeof name, "short rows, %s", KINDS[kind].name);
    check_shape(ctx, only, name, (problem){.rows = 3, .columns = 5001, .kind = kind, .largest = kind % 2}, ks, 15);
    snprintf(name, sizeof name, "shorter rows, %s", KINDS[kind].name);
    check_shape(ctx, only, name, (problem){.rows = 5, .columns = 1003, .stride = 1007, .kind = kind}, ks, 15);
  }
}

static void check_shapes(adj_ctx *ctx, const char *only) {
  static const uint32_t small[] = {1, 31, 32, 33, 64, 127, 2047, 2048, 2049, 4096};
  static const uint32_t shares[] = {1, 100, 2048, 30000, 99999, 100000, 100001};
  static const uint32_t some[] = {1, 32, 128, 512, 2048, 5000};
  char name[64];
  for (int kind = 0; kind <= KIND_COUNT; kind++) { /* boundaries of k, every kind of values */
    snprintf(name, sizeof name, "k, %s", kind == KIND_COUNT ? "mixed" : KINDS[kind].name);
    check_shape(ctx, only, name, (problem){.rows = 3, .columns = 40001, .kind = kind, .largest = kind % 3 == 1}, small,
                10);
  }
  for (int kind = 0; kind <= KIND_COUNT; kind++) { /* enough rows for lists of failed rows */
    snprintf(name, sizeof name, "many rows, %s", kind == KIND_COUNT ? "mixed" : KINDS[kind].name);
    check_shape(ctx, only, name, (problem){.rows = 150, .columns = 20011, .stride = 20015, .kind = kind}, some, 6);
  }
  check_shape(ctx, only, "shares of the columns", (problem){.rows = 2, .columns = 100000, .kind = KIND_COUNT}, shares,
              7);
  check_shape(ctx, only, "long rows", (problem){.rows = 11, .columns = 1000003, .kind = KIND_COUNT, .largest = true},
              some, 6);
  check_shape(ctx, only, "one row", (problem){.rows = 1, .columns = 5000001, .shift = 1}, some, 6);
  check_shape(ctx, only, "one row, descending", (problem){.rows = 1, .columns = 3000001, .kind = 2}, some, 6);
  for (uint64_t shift = 0; shift < 4; shift++) {
    snprintf(name, sizeof name, "shifted by %d", (int)shift);
    check_shape(ctx, only, name,
                (problem){.rows = 13, .columns = 8192 + shift, .stride = 8197, .shift = shift, .kind = KIND_COUNT},
                some, 6);
  }
  static const uint64_t lengths[] = {1, 2, 31, 33, 100, 1000, 2047, 2048, 2049, 4097, 8191};
  for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
    const uint32_t n = (uint32_t)lengths[i], ks[] = {1, n / 2 + 1, n > 1 ? n - 1 : 1, n, n + 3};
    snprintf(name, sizeof name, "rows of %u", n);
    check_shape(ctx, only, name, (problem){.rows = 500, .columns = n, .kind = KIND_COUNT, .largest = i % 2}, ks, 5);
  }
  check_short_rows(ctx, only);
  check_shape(ctx, only, "no columns", (problem){.rows = 5}, some, 2);
  check_shape(ctx, only, "no rows", (problem){.columns = 5}, some, 2);
}

/* Little memory: rows come in many batches, or an error says that memory is short. */
static void check_limits(void) {
  for (uint64_t limit = (uint64_t)1 << 22; limit <= (uint64_t)1 << 28; limit *= 4) {
    adj_ctx_options options;
    adj_ctx_options_init(&options, sizeof options);
    options.device_memory_limit = limit;
    adj_ctx *ctx = NULL;
    need(!adj_ctx_create(&options, &ctx), "a context");
    problem p = {.type = ADJ_F32, .rows = 300, .columns = 20000, .stride = 20000, .values = true};
    data d = make_data(&p);
    for (int a = 0; a < ALGORITHM_COUNT; a++) {
      answer out = make_answer(&p, 1000);
      adj_status status = run(ctx, &d, 1000, ALGORITHMS[a], ADJ_ORDER_DISTANCE, &out);
      bool same = status == ADJ_OK;
      for (uint64_t r = 0; r < p.rows && same; r++)
        same = check_row(&d, &out, r, 1000, ADJ_ORDER_DISTANCE);
      need(same || status == ADJ_E_DEVICE_MEMORY, "a selection within a limit");
      printf("limit %llu KiB, %s: %s\n", (unsigned long long)limit >> 10, ALGORITHMS[a] ? ALGORITHMS[a] : "auto",
             status ? adj_last_error() : "selected");
      free_answer(&out);
    }
    free_data(&d);
    adj_ctx_destroy(ctx);
  }
}

/* Fails the n-th call, for all n. Rows are long enough for algorithms that sample. */
static void check_faults(adj_ctx *ctx, uint64_t rows, uint32_t k, const char *algorithm) {
  adji_gpu *gpu = NULL;
  need(!adji_gpu_of(ctx, &gpu), "the device");
  uint64_t columns = strstr(algorithm, "sample") ? 40000 : 10000;
  problem p = {.type = ADJ_F32, .rows = rows, .columns = columns, .stride = columns, .values = true};
  data d = make_data(&p);
  answer a = make_answer(&p, k);
  uint64_t before = adji_gpu_used(gpu);
  int64_t n = 0;
  for (adj_status status = ADJ_E_DEVICE; status; n++) {
    adji_gpu_fail_at(gpu, n);
    status = run(ctx, &d, k, algorithm, ADJ_ORDER_DISTANCE, &a);
    adji_gpu_fail_at(gpu, -1);
    need(!status || status == ADJ_E_DEVICE, "a failure names the device");
    need(adji_gpu_used(gpu) == before, "device memory is given back");
    need(n < 10000, "an end to the failures");
  }
  for (uint64_t r = 0; r < rows; r++)
    need(check_row(&d, &a, r, k, ADJ_ORDER_DISTANCE), "the selection after failures");
  printf("%s, %llu rows: each of %lld calls failed once\n", algorithm, (unsigned long long)rows, (long long)n - 1);
  free_answer(&a);
  free_data(&d);
}

int main(int argc, char **argv) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (adj_device_describe(0, &device)) {
    printf("%s\n", adj_last_error());
    return NO_GPU;
  }
  adj_ctx *ctx = NULL;
  need(!adj_ctx_create(NULL, &ctx), "a context");
  const char *only = argc > 1 ? argv[1] : NULL;
  if (argc > 2) most_each = atoi(argv[2]);
  check_shapes(ctx, only);
  if (!only) {
    check_limits();
    for (int a = 1; a < ALGORITHM_COUNT; a++) {
      check_faults(ctx, 1, 100, ALGORITHMS[a]);
      check_faults(ctx, 400, 100, ALGORITHMS[a]);
    }
  }
  adj_ctx_destroy(ctx);
  printf("%d selections, %d failed\n", checks, failures);
  return failures > 0;
}
