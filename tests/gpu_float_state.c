/* SPDX-License-Identifier: MIT
 *
 * The caller's floating-point state has no effect on a result, and a call leaves it as it was. Every public function
 * that computes is called in each state (denormal numbers flushed, other rounding modes, traps). The state is set
 * before or after the context is made, in the thread that made it or in another. Whole results must have the same bits
 * as in the default state. Callbacks must find the default state; those of this test then change it.
 *
 * Needs a GPU, but not cmocka. Exit status 0: passed; 77: no GPU here. The same file is test_float_state, which has a
 * device in software.
 */
#define _GNU_SOURCE
#include <fenv.h>
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adjoin_cuda.h"
#ifndef SOFTWARE_DEVICE
#include <cuda_runtime_api.h>
#endif

enum { NO_GPU = 77, POINTS = 48, DIM = 3, COLUMNS = 50, K = 6, MOST_RESULTS = 400 };

__attribute__((format(printf, 1, 2), noreturn)) static void stop(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  /* The analyser loses sight of va_start. NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized) */
  vfprintf(stderr, format, arguments);
  va_end(arguments);
  fprintf(stderr, "\n");
  exit(1);
}

/* ---- States ---------------------------------------------------------------------------------------------- */

/* Control registers with the exception flags, as one number. */
static uint64_t read_state(void) {
#if defined(__x86_64__)
  uint16_t older;
  __asm__ __volatile__("fnstcw %0" : "=m"(older));
  return (uint64_t)__builtin_ia32_stmxcsr() << 16 | older;
#elif defined(__aarch64__)
  uint64_t control, flags;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(control));
  __asm__ __volatile__("mrs %0, fpsr" : "=r"(flags));
  return control << 32 | flags;
#else
  return (uint64_t)fegetround() << 16 | (uint64_t)fetestexcept(FE_ALL_EXCEPT);
#endif
}

/* The control bits, without the exception flags. */
static uint64_t control_of(uint64_t state) {
#if defined(__x86_64__)
  return state & ~((uint64_t)0x3f << 16);
#elif defined(__aarch64__)
  return state >> 32;
#else
  return state >> 16;
#endif
}

typedef enum flushing { KEEP, FLUSH_RESULTS, FLUSH_OPERANDS, FLUSH_BOTH } flushing;

/* Flushes denormal results, or operands, to 0. One bit does both on aarch64. */
static void set_flushing(flushing how) {
#if defined(__x86_64__)
  uint32_t bits = (how & FLUSH_RESULTS ? 0x8000u : 0) | (how & FLUSH_OPERANDS ? 0x0040u : 0);
  __builtin_ia32_ldmxcsr((__builtin_ia32_stmxcsr() & ~0x8040u) | bits);
#elif defined(__aarch64__)
  uint64_t control;
  __asm__ __volatile__("mrs %0, fpcr" : "=r"(control));
  control = how ? control | UINT64_C(1) << 24 : control & ~(UINT64_C(1) << 24);
  __asm__ __volatile__("msr fpcr, %0" : : "r"(control));
#else
  (void)how;
#endif
}

typedef struct float_state {
  const char *name;
  flushing flush;
  int rounding;
  bool traps; /* traps are on; they must not end the process */
} float_state;

static const float_state STATES[] = {
    {"denormal results flushed", FLUSH_RESULTS, FE_TONEAREST, false},
    {"denormal operands flushed", FLUSH_OPERANDS, FE_TONEAREST, false},
    {"denormal numbers flushed", FLUSH_BOTH, FE_TONEAREST, false},
    {"rounding up", KEEP, FE_UPWARD, false},
    {"rounding down", KEEP, FE_DOWNWARD, false},
    {"rounding to zero", KEEP, FE_TOWARDZERO, false},
    {"rounding down, traps", KEEP, FE_DOWNWARD, true},
    {"rounding up, denormal numbers flushed", FLUSH_BOTH, FE_UPWARD, false},
};
enum { STATE_COUNT = sizeof STATES / sizeof *STATES, COMBINED = STATE_COUNT - 2 };

static void enter(const float_state *s) {
  fesetround(s->rounding);
  set_flushing(s->flush);
#ifdef __GLIBC__
  if (s->traps) feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW | FE_UNDERFLOW | FE_INEXACT);
#endif
}

static void leave(void) {
  fesetenv(FE_DFL_ENV);
}

/* ---- Results --------------------------------------------------------------------------------------------- */

typedef struct record {
  const char *backend;
  struct {
    char name[64];
    uint64_t digest;
  } results[MOST_RESULTS];
  int count;
} record;

typedef struct text {
  char bytes[64];
} text;

static text label(const char *what, const char *which, int number) {
  text t;
  snprintf(t.bytes, sizeof t.bytes, "%s %.40s %d", what, which, number);
  return t;
}

static text part(text whole, const char *of) {
  return label(of, whole.bytes, 0);
}

static uint64_t mix(uint64_t digest, const void *bytes, size_t count) {
  for (size_t i = 0; i < count; i++)
    digest = (digest ^ ((const unsigned char *)bytes)[i]) * UINT64_C(0x100000001b3);
  return digest;
}

static void keep(record *r, text name, uint64_t digest) {
  if (r->count == MOST_RESULTS) stop("too many results");
  memcpy(r->results[r->count].name, name.bytes, sizeof name.bytes);
  r->results[r->count++].digest = digest;
}

static void must_be_same(const record *got, const record *expected, const char *state, const char *mode) {
  if (got->count != expected->count) stop("%s, %s: %d results, not %d", state, mode, got->count, expected->count);
  for (int i = 0; i < got->count; i++)
    if (got->results[i].digest != expected->results[i].digest)
      stop("%s: %s, %s: other bits of: %s", got->backend, state, mode, got->results[i].name);
}

/* Makes a call that must succeed and leave the state as it was, flags included. */
#define CALL(call)                                                                      \
  do {                                                                                  \
    uint64_t before_ = read_state();                                                    \
    adj_status status_ = (call);                                                        \
    if (read_state() != before_) stop("%s changed the state", #call);                   \
    if (status_) stop("%s: %s: %s", #call, adj_status_name(status_), adj_last_error()); \
  } while (0)

/* ---- Points, made in the default state ------------------------------------------------------------------- */

static float narrow[POINTS * DIM], narrow_tiny[POINTS * DIM], narrow_matrix[POINTS * COLUMNS];
static double wide[POINTS * DIM], wide_tiny[POINTS * DIM], wide_matrix[POINTS * COLUMNS];

static double random_unit(void) {
  static uint64_t seed = 7;
  seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (double)(seed >> 11) * 0x1p-53;
}

static void make_points(void) {
  for (int i = 0; i < POINTS * DIM; i++) {
    wide[i] = random_unit();
    narrow[i] = (float)wide[i];
    narrow_tiny[i] = narrow[i] * FLT_MIN;
    wide_tiny[i] = wide[i] * DBL_MIN;
  }
  for (int i = 0; i < POINTS * COLUMNS; i++) {
    narrow_matrix[i] = (float)random_unit() * FLT_MIN;
    wide_matrix[i] = random_unit() * DBL_MIN;
  }
}

/* ---- Callbacks ------------------------------------------------------------------------------------------- */

static uint64_t default_control;

/* A callback finds the default state, and leaves another behind. */
static void disturb(void) {
  if (control_of(read_state()) != default_control) stop("a callback does not run in the default state");
  enter(&STATES[STATE_COUNT - 1]);
}

static void on_log(void *user, adj_log_level level, const char *line) {
  (void)user;
  (void)level;
  (void)line;
  disturb();
}

static void on_trace(void *user, const adj_trace_event *event) {
  (void)user;
  (void)event;
  disturb();
}

static int on_progress(void *user, const adj_progress *where) {
  (void)user;
  (void)where;
  disturb();
  return 0;
}

static adj_status on_begin(void *user, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  (void)degrees;
  *(uint64_t *)user = mix(mix(*(uint64_t *)user, &rows, sizeof rows), &pairs, sizeof pairs);
  disturb();
  return ADJ_OK;
}

static adj_status on_rows(void *user, const adj_rows *rows) {
  uint64_t *digest = user;
  *digest = mix(*digest, rows->ids, (rows->offsets[rows->row_count] - rows->offsets[0]) * sizeof *rows->ids);
  disturb();
  return ADJ_OK;
}

static void on_end(void *user, adj_status outcome) {
  (void)user;
  (void)outcome;
  disturb();
}

/* ---- Datasets -------------------------------------------------------------------------------------------- */

static adj_ctx *make_context(void) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 2;
  options.log = on_log;
  options.trace = on_trace;
  adj_ctx *ctx = NULL;
  CALL(adj_ctx_create(&options, &ctx));
  return ctx;
}

static adj_dataset *make_set(adj_ctx *ctx, adj_type type, const void *data, uint32_t dim) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = type;
  points.data = data;
  points.dim = dim;
  points.count = POINTS;
  adj_dataset *set = NULL;
  CALL(adj_dataset_create(ctx, &points, &set));
  return set;
}

static uint64_t digest_of_set(const adj_dataset *set) {
  uint64_t digest = 0;
  double row[DIM], bounds[2];
  size_t size = adj_dataset_type(set) == ADJ_F64 ? 8 : 4;
  for (uint64_t i = 0; i < adj_dataset_count(set); i++) {
    CALL(adj_dataset_row(set, i, row));
    digest = mix(digest, row, size * adj_dataset_dim(set));
  }
  for (uint32_t j = 0; j < adj_dataset_dim(set); j++) {
    adj_dataset_bounds(set, j, &bounds[0], &bounds[1]);
    digest = mix(digest, bounds, sizeof bounds);
  }
  return digest;
}

/* The name of a file in the current folder, which belongs to the test. */
static text file_name(const char *ending) {
  text t;
  snprintf(t.bytes, sizeof t.bytes, "float_state_%d.%s", (int)getpid(), ending);
  return t;
}

static uint64_t digest_of_file(const char *path) {
  static char bytes[1 << 16];
  uint64_t digest = 0;
  FILE *file = fopen(path, "rb");
  if (!file) stop("%s: cannot be read", path);
  for (size_t got; (got = fread(bytes, 1, sizeof bytes, file)) > 0;)
    digest = mix(digest, bytes, got);
  fclose(file);
  if (remove(path)) stop("%s: cannot be removed", path);
  return digest;
}

/* Writes points as text and reads them again, with decimals of denormal numbers too. */
static void read_and_write(adj_ctx *ctx, record *r, const adj_dataset *set, const char *which) {
  text path = file_name("csv");
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  options.type = adj_dataset_type(set);
  adj_dataset *again = NULL;
  CALL(adj_dataset_save(set, path.bytes, NULL));
  CALL(adj_dataset_open(ctx, path.bytes, &options, &again));
  keep(r, label("read", which, 0), digest_of_set(again));
  keep(r, label("written", which, 0), digest_of_file(path.bytes));
  if (digest_of_set(again) != digest_of_set(set)) stop("%s: not the points that were written", which);
  adj_dataset_destroy(again);
}

static void generate(adj_ctx *ctx, record *r) {
  static const char *const names[] = {"unif",    "expo",       "clusters", "normal", "sphere",
                                      "lattice", "duplicates", "codes",    "repeats"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    for (int type = ADJ_F32; type <= ADJ_F64; type++) {
      adj_generate_options options;
      adj_generate_options_init(&options, sizeof options);
      options.name = names[i];
      options.type = (adj_type)type;
      options.count = POINTS;
      options.dim = DIM;
      adj_dataset *set = NULL;
      CALL(adj_dataset_generate(ctx, &options, &set));
      keep(r, label("generated", names[i], type), digest_of_set(set));
      adj_dataset_destroy(set);
    }
}

/* ---- Joins ----------------------------------------------------------------------------------------------- */

typedef struct join {
  const char *name;
  adj_metric metric;
  double radius, p, box; /* radius and box in units of the points */
  bool tiny;             /* also joined with points of denormal size */
} join;

static const join JOINS[] = {
    {"L2", ADJ_L2, 0.2, 0, 0, true},
    {"L1", ADJ_L1, 0.25, 0, 0, true},
    {"Linf", ADJ_LINF, 0.15, 0, 0, true},
    {"Lp 3", ADJ_LP, 0.2, 3, 0, true},
    {"Lp 2.5", ADJ_LP, 0.2, 2.5, 0, true},
    {"cosine", ADJ_COSINE, 0.05, 0, 0, true},
    {"dot", ADJ_DOT, 0.4, 0, 0, true},
    {"box", ADJ_L2, 0.2, 0, 1, true},
    {"globe", ADJ_HAVERSINE, 8e3, 0, 0, false},
};
enum { JOIN_COUNT = sizeof JOINS / sizeof *JOINS };

/* The size of a set of points: 1, or the smallest normal number of its type. */
typedef enum unit { ONE, NARROW_TINY, WIDE_TINY, UNITS } unit;

/* Computed in the default state, as the points are. */
static double radii[JOIN_COUNT][UNITS], boxes[JOIN_COUNT][UNITS];

static void make_radii(void) {
  static const double units[UNITS] = {1, (double)FLT_MIN, DBL_MIN};
  for (int i = 0; i < JOIN_COUNT; i++)
    for (int u = 0; u < UNITS; u++) {
      bool angle = JOINS[i].metric == ADJ_COSINE || JOINS[i].metric == ADJ_HAVERSINE;
      radii[i][u] = angle ? JOINS[i].radius : JOINS[i].radius * units[u];
      boxes[i][u] = JOINS[i].box * units[u];
      if (JOINS[i].metric == ADJ_DOT && u != ONE) radii[i][u] = 0; /* products of such points are 0 */
    }
}

static uint64_t digest_of_result(const adj_result *result) {
  uint64_t rows = adj_result_rows(result), entries = adj_result_offsets(result)[rows];
  uint64_t digest = mix(0, adj_result_offsets(result), (rows + 1) * sizeof(uint64_t));
  digest = mix(digest, adj_result_ids(result), entries * sizeof(uint32_t));
  if (!adj_result_distances(result)) return digest;
  return mix(digest, adj_result_distances(result), entries * (adj_result_type(result) == ADJ_F64 ? 8 : 4));
}

/* Records what a plan says, and every kind of run. */
static void run_plan(adj_plan *plan, record *r, text name) {
  char words[8192];
  size_t needed;
  adj_estimate estimate;
  adj_estimate_init(&estimate, sizeof estimate);
  CALL(adj_plan_explain(plan, words, sizeof words, &needed));
  const char *time = strstr(words, "time of the join"); /* differs from run to run if queries were timed */
  if (strcmp(r->backend, "hybrid") != 0)                /* the text says how the workers shared the queries */
    keep(r, part(name, "explain"), mix(0, words, time ? (size_t)(time - words) : needed));
  CALL(adj_plan_estimate(plan, &estimate));
  if (strcmp(r->backend, "hybrid") != 0) /* depends on how many queries a device was timed with */
    keep(r, part(name, "estimate"), mix(0, &estimate, offsetof(adj_estimate, seconds)));

  adj_result *result = NULL;
  uint32_t degrees[POINTS];
  uint64_t total = 0, streamed = 0;
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  control.interval_ms = 0;
  control.progress = on_progress;
  CALL(adj_count(plan, degrees, &total, &control, NULL));
  keep(r, part(name, "count"), mix(mix(0, degrees, sizeof degrees), &total, sizeof total));
  CALL(adj_collect(plan, &result, &control, NULL));
  keep(r, part(name, "collect"), digest_of_result(result));
  adj_result_destroy(result);
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = &streamed;
  sink.begin = on_begin;
  sink.write = on_rows;
  sink.end = on_end;
  CALL(adj_stream(plan, &sink, &control, NULL));
  keep(r, part(name, "stream"), streamed);
}

static void write_plan(adj_plan *plan, record *r, text name) {
  text path = file_name("tsv");
  CALL(adj_write(plan, path.bytes, NULL, NULL, NULL));
  keep(r, part(name, "write"), digest_of_file(path.bytes));
}

static adj_join_spec spec_of(int number, adj_backend backend, uint32_t k, unit size) {
  const join *j = &JOINS[number];
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = k ? ADJ_KNN : ADJ_RANGE;
  spec.k = k;
  spec.backend = backend;
  spec.metric = j->metric;
  spec.p = j->p;
  if (!k) spec.radius = radii[number][size];
  if (j->box > 0) {
    spec.box = &boxes[number][size];
    spec.box_count = 1;
  }
  spec.flags = ADJ_WITH_DISTANCE;
  spec.order = ADJ_ORDER_DISTANCE;
  return spec;
}

static void join_set(adj_ctx *ctx, record *r, adj_backend backend, int number, const adj_dataset *set, unit size) {
  for (uint32_t k = 0; k <= K; k += K) {
    text name = label(JOINS[number].name, k ? "kNN" : "range", (int)size);
    adj_join_spec spec = spec_of(number, backend, k, size);
    adj_plan *plan = NULL;
    CALL(adj_plan_create(ctx, &spec, set, NULL, &plan));
    run_plan(plan, r, name);
    if (!number && backend == ADJ_BACKEND_CPU) write_plan(plan, r, name);
    adj_plan_destroy(plan);
  }
}

static void join_all(adj_ctx *ctx, record *r, adj_backend backend) {
  const struct {
    const void *data;
    adj_type type;
    unit size;
  } sets[] = {{narrow, ADJ_F32, ONE},
              {wide, ADJ_F64, ONE},
              {narrow_tiny, ADJ_F32, NARROW_TINY},
              {wide_tiny, ADJ_F64, WIDE_TINY}};
  for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
    adj_dataset *set = make_set(ctx, sets[s].type, sets[s].data, DIM);
    adj_dataset *flat = make_set(ctx, sets[s].type, sets[s].data, 2);
    keep(r, label("points", "", (int)s), digest_of_set(set));
    if (backend == ADJ_BACKEND_CPU) read_and_write(ctx, r, set, "points");
    for (int i = 0; i < JOIN_COUNT; i++)
      if (sets[s].size == ONE || JOINS[i].tiny)
        join_set(ctx, r, backend, i, JOINS[i].metric == ADJ_HAVERSINE ? flat : set, sets[s].size);
    adj_dataset_destroy(set);
    adj_dataset_destroy(flat);
  }
}

static void join_simply(record *r) {
  adj_result *result = NULL;
  CALL(adj_range_join(ADJ_F32, narrow_tiny, POINTS, DIM, radii[0][NARROW_TINY], &result));
  keep(r, label("adj_range_join", "", 0), digest_of_result(result));
  adj_result_destroy(result);
  CALL(adj_knn_join(ADJ_F64, wide_tiny, POINTS, DIM, K, &result));
  keep(r, label("adj_knn_join", "", 0), digest_of_result(result));
  adj_result_destroy(result);
}

static adj_matrix matrix_of(adj_type type, const void *values) {
  adj_matrix matrix;
  adj_matrix_init(&matrix, sizeof matrix);
  matrix.type = type;
  matrix.rows = POINTS;
  matrix.columns = COLUMNS;
  matrix.values = values;
  return matrix;
}

static void select_values(adj_ctx *ctx, record *r) {
  uint32_t columns[POINTS * K];
  double values[POINTS * K];
  for (int type = ADJ_F32; type <= ADJ_F64; type++) {
    bool is_wide = type == ADJ_F64;
    adj_matrix matrix = matrix_of((adj_type)type, is_wide ? (const void *)wide_matrix : narrow_matrix);
    memset(values, 0, sizeof values);
    CALL(adj_select_k(ctx, &matrix, K, ADJ_ORDER_ID, columns, values));
    keep(r, label("adj_select_k", "", type), mix(mix(0, columns, sizeof columns), values, sizeof values));
  }
}

/* ---- Points on a device ---------------------------------------------------------------------------------- */

/* The memory of a device in software is the host's. CUDA, called by a program itself, computes in the program's state,
 * and may not survive traps. */
static void *to_device(const void *from, size_t bytes) {
#ifndef SOFTWARE_DEVICE
  void *to = NULL;
  fenv_t state;
  feholdexcept(&state);
  if (cudaMalloc(&to, bytes) || (from && cudaMemcpy(to, from, bytes, cudaMemcpyHostToDevice))) stop("device memory");
  fesetenv(&state);
#else
  void *to = malloc(bytes);
  if (!to) stop("memory");
  if (from) memcpy(to, from, bytes);
#endif
  return to;
}

static uint64_t mix_device(uint64_t digest, const void *from, size_t bytes) {
#ifndef SOFTWARE_DEVICE
  void *to = malloc(bytes + 1);
  fenv_t state;
  feholdexcept(&state);
  if (!to || (bytes && cudaMemcpy(to, from, bytes, cudaMemcpyDeviceToHost))) stop("from the device");
  fesetenv(&state);
  digest = mix(digest, to, bytes);
  free(to);
  return digest;
#else
  return mix(digest, from, bytes);
#endif
}

static void free_device(void *memory) {
#ifndef SOFTWARE_DEVICE
  fenv_t state;
  feholdexcept(&state);
  cudaFree(memory);
  fesetenv(&state);
#else
  free(memory);
#endif
}

static void keep_on_device(record *r, const char *name, adj_type type, adj_cuda_result *result, uint64_t entries) {
  uint64_t digest = mix_device(0, adj_cuda_result_ids(result), entries * sizeof(uint32_t));
  digest = mix_device(digest, adj_cuda_result_distances(result), entries * (type == ADJ_F64 ? 8 : 4));
  keep(r, label(name, "", type), digest);
  adj_cuda_result_destroy(result, NULL);
}

static void join_on_device(adj_ctx *ctx, record *r, adj_type type, const void *data, unit size) {
  size_t bytes = type == ADJ_F64 ? 8 : 4;
  adj_cuda_points points;
  adj_cuda_points_init(&points, sizeof points);
  points.type = type;
  points.dim = DIM;
  points.count = POINTS;
  void *memory = to_device(data, bytes * POINTS * DIM);
  points.data = memory;
  adj_cuda_result *result = NULL;
  adj_join_spec spec = spec_of(1, ADJ_BACKEND_AUTO, 0, size);
  uint64_t total = 0;
  CALL(adj_cuda_range_join(ctx, &spec, &points, NULL, NULL, &result));
  keep_on_device(r, "adj_cuda_range_join", type, result, adj_cuda_result_pairs(result));
  CALL(adj_cuda_range_count(ctx, &spec, &points, NULL, NULL, NULL, &total));
  keep(r, label("adj_cuda_range_count", "", type), total);
  spec = spec_of(1, ADJ_BACKEND_AUTO, K, size);
  CALL(adj_cuda_knn_join(ctx, &spec, &points, NULL, NULL, &result));
  keep_on_device(r, "adj_cuda_knn_join", type, result, UINT64_C(1) * POINTS * K);
  adj_cuda_times times;
  adj_cuda_times_init(&times, sizeof times);
  CALL(adj_cuda_last_times(ctx, &times)); /* the times differ from run to run */
  free_device(memory);
}

static void select_on_device(adj_ctx *ctx, record *r, adj_type type, const void *data) {
  size_t size = type == ADJ_F64 ? 8 : 4;
  void *values = to_device(data, size * POINTS * COLUMNS), *best = to_device(NULL, size * POINTS * K);
  uint32_t *columns = to_device(NULL, sizeof *columns * POINTS * K);
  adj_matrix matrix = matrix_of(type, values);
  CALL(adj_cuda_select_k(ctx, &matrix, K, NULL, NULL, columns, best));
#ifndef SOFTWARE_DEVICE
  fenv_t state;
  feholdexcept(&state);
  if (cudaDeviceSynchronize()) stop("the device");
  fesetenv(&state);
#endif
  uint64_t digest = mix_device(0, columns, sizeof *columns * POINTS * K);
  keep(r, label("adj_cuda_select_k", "", type), mix_device(digest, best, size * POINTS * K));
  free_device(values);
  free_device(best);
  free_device(columns);
}

/* ---- All of it ------------------------------------------------------------------------------------------- */

static const struct {
  const char *name;
  adj_backend backend;
} BACKENDS[] = {{"reference", ADJ_BACKEND_REFERENCE},
                {"cpu", ADJ_BACKEND_CPU},
                {"gpu", ADJ_BACKEND_GPU},
                {"hybrid", ADJ_BACKEND_HYBRID}};
enum { BACKEND_COUNT = sizeof BACKENDS / sizeof *BACKENDS };

/* Calls that do not depend on the backend are made for the cores, and those of adjoin_cuda.h for the GPU. */
static void call_everything(adj_ctx *ctx, int backend, record *r) {
  adj_backend which = BACKENDS[backend].backend;
  r->backend = BACKENDS[backend].name;
  r->count = 0;
  join_all(ctx, r, which);
  if (which == ADJ_BACKEND_CPU) {
    generate(ctx, r);
    select_values(ctx, r);
    join_simply(r);
  }
  if (which == ADJ_BACKEND_GPU) {
    join_on_device(ctx, r, ADJ_F32, narrow_tiny, NARROW_TINY);
    join_on_device(ctx, r, ADJ_F64, wide_tiny, WIDE_TINY);
    select_on_device(ctx, r, ADJ_F32, narrow_matrix);
    select_on_device(ctx, r, ADJ_F64, wide_matrix);
  }
}

/* Who sets the state: the maker of the context, the caller, or both; in one thread or in two. States that combine
 * several settings are tried in every mode, the others in two modes. */
typedef struct mode {
  const char *name;
  bool when_made, when_called, other_thread, every_state;
} mode;

static const mode MODES[] = {
    {"set before the context is made", true, true, false, true},
    {"set after the context is made", false, true, false, false},
    {"set where the context is made, called from another thread", true, false, true, false},
    {"set after the context is made, in another thread", false, true, true, true},
};

typedef struct visit {
  adj_ctx *ctx;
  int backend;
  const float_state *state; /* NULL: the default */
  record *record;
} visit;

static void *call_in_state(void *argument) {
  const visit *v = argument;
  if (v->state) enter(v->state);
  call_everything(v->ctx, v->backend, v->record);
  leave();
  return NULL;
}

static void try_mode(const float_state *state, const mode *how, int backend, record *out) {
  if (how->when_made) enter(state);
  adj_ctx *ctx = make_context();
  visit v = {ctx, backend, how->when_called ? state : NULL, out};
  leave();
  pthread_t thread;
  if (!how->other_thread)
    call_in_state(&v);
  else if (pthread_create(&thread, NULL, call_in_state, &v) || pthread_join(thread, NULL))
    stop("a thread");
  adj_ctx_destroy(ctx);
}

int main(void) {
  static record expected, got;
#ifndef SOFTWARE_DEVICE
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (adj_device_describe(0, &device)) {
    printf("%s\n", adj_last_error());
    return NO_GPU;
  }
#endif
  default_control = control_of(read_state());
  make_points();
  make_radii();
  for (int b = 0; b < BACKEND_COUNT; b++) {
    adj_ctx *ctx = make_context();
    call_everything(ctx, b, &expected);
    adj_ctx_destroy(ctx);
    for (int s = 0; s < STATE_COUNT; s++)
      for (size_t m = 0; m < sizeof MODES / sizeof *MODES; m++) {
        if (!MODES[m].every_state && s < COMBINED) continue;
        try_mode(&STATES[s], &MODES[m], b, &got);
        must_be_same(&got, &expected, STATES[s].name, MODES[m].name);
      }
    printf("%s: %d results, the same bits in %d states\n", BACKENDS[b].name, expected.count, STATE_COUNT);
  }
  return 0;
}
