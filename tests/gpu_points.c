/* SPDX-License-Identifier: MIT
 *
 * The list of cases with points and results on a device (adjoin_cuda.h), compared with the reference: range joins,
 * counts and kNN joins with every algorithm and metric; every offset, id and bit of the distances. Rows are packed,
 * have gaps, or lie column by column.
 *
 * Random cases follow (random_cases.h), with magnitudes from the whole range of both types.
 *
 *   gpu_points [TEXT]    only the cases whose names hold this text; "random case 17" repeats one of those
 *
 * Needs a GPU, but not cmocka. Exit status 0: passed; 77: no GPU here.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "compare.h"
#include "on_device.h"
#include "random_cases.h"

enum { RANDOM_CASES = 400 };

/* A case, and how it is run. */
typedef struct run {
  adj_ctx *ctx;
  const join_case *c;
  const reference_rows *expected;
  adj_join_spec spec;
  layout how;
  const adj_cuda_points *points, *others; /* others NULL: a self-join */
} run;

static void say_differs(const run *r, const char *call) {
  fprintf(stderr, "%s, %s, %s, algorithm %s, order %d: %s differs\n", r->c->name,
          r->c->left.type == ADJ_F64 ? "f64" : "f32", LAYOUT_NAMES[r->how],
          r->spec.algorithm ? r->spec.algorithm : "none", (int)r->spec.order, call);
  exit(1);
}

static void need_same(const run *r, const char *what, const void *device, const void *host, size_t bytes) {
  void *got = from_device(device, bytes);
  if (bytes && memcmp(got, host, bytes) != 0) say_differs(r, what);
  free(got);
}

/* Returns false if the library does not support the join. */
static bool accepted(const run *r, adj_status status) {
  need(!status || status == ADJ_E_UNSUPPORTED, r->c->name);
  return !status;
}

static bool check_join(const run *r) {
  adj_cuda_result *result = NULL;
  bool knn = r->c->k > 0;
  if (!accepted(r, knn ? adj_cuda_knn_join(r->ctx, &r->spec, r->points, r->others, NULL, &result)
                       : adj_cuda_range_join(r->ctx, &r->spec, r->points, r->others, NULL, &result)))
    return false;
  uint64_t rows = r->expected->rows, entries = r->expected->offsets[rows], pairs = 0;
  for (uint64_t i = 0; i < entries; i++)
    pairs += r->expected->ids[i] != ADJ_NO_ID;
  if (adj_cuda_result_rows(result) != rows) say_differs(r, "the number of rows");
  if (adj_cuda_result_pairs(result) != pairs) say_differs(r, "the number of pairs");
  if (!knn)
    need_same(r, "an offset", adj_cuda_result_offsets(result), r->expected->offsets, (rows + 1) * sizeof(uint64_t));
  need_same(r, "an id", adj_cuda_result_ids(result), r->expected->ids, entries * sizeof(uint32_t));
  if (r->spec.flags & ADJ_WITH_DISTANCE)
    need_same(r, "a distance", adj_cuda_result_distances(result), r->expected->distances,
              entries * type_size(r->c->left.type));
  adj_cuda_result_destroy(result, NULL);
  return true;
}

static bool check_count(const run *r) {
  uint64_t rows = r->expected->rows, total = 0;
  void *device = NULL;
  need_cuda(cudaMalloc(&device, (rows + 1) * sizeof(uint32_t)));
  bool done = accepted(r, adj_cuda_range_count(r->ctx, &r->spec, r->points, r->others, NULL, device, &total));
  uint32_t *degrees = from_device(device, done ? rows * sizeof *degrees : 0);
  if (done && total != r->expected->offsets[rows]) say_differs(r, "the total");
  for (uint64_t row = 0; done && row < rows; row++)
    if (degrees[row] != r->expected->offsets[row + 1] - r->expected->offsets[row]) say_differs(r, "a degree");
  free(degrees);
  need_cuda(cudaFree(device));
  return done;
}

typedef struct tally {
  uint64_t joins, refused;
} tally;

static void add(tally *t, bool done) {
  t->joins += done;
  t->refused += !done;
}

/* Range joins without distances, which can reuse the hits of the count. */
static void check_without_distances(run *r, tally *t) {
  static const char *const tunings[] = {NULL, "test.query_hits=on", "test.query_hits=on,test.device_blocks=3",
                                        "test.query_hits=on,fine=2", "test.tile_hits=on"};
  for (size_t i = 0; i < sizeof tunings / sizeof *tunings; i++) {
    r->spec = case_spec(r->c);
    r->spec.order = ADJ_ORDER_ID;
    r->spec.tuning = tunings[i];
    add(t, check_join(r));
  }
}

/* One layout: all algorithms, in both orders. */
static void check_layout(adj_ctx *ctx, const join_case *c, const join_answer *answer, layout how, tally *t) {
  static const char *const range[] = {NULL, "brute"}, *const nearest[] = {NULL, "kdtree", "grid", "brute"};
  const char *const *algorithms = c->k ? nearest : range;
  void *memory[2] = {NULL, NULL};
  adj_cuda_points left = to_device(&c->left, how, &memory[0]), right = left;
  if (!c->self_join) right = to_device(&c->right, how, &memory[1]);
  run r = {.ctx = ctx, .c = c, .how = how, .points = &left, .others = c->self_join ? NULL : &right};
  for (uint32_t a = 0; a < (c->k ? 4u : 2u); a++)
    for (adj_order order = ADJ_ORDER_ID; order <= ADJ_ORDER_DISTANCE; order++) {
      r.spec = case_spec(c);
      r.spec.flags |= ADJ_WITH_DISTANCE;
      r.spec.order = order;
      r.spec.algorithm = algorithms[a];
      r.expected = order == ADJ_ORDER_DISTANCE && !c->k ? &answer->by_distance : &answer->by_id;
      add(t, check_join(&r));
      if (!c->k && order == ADJ_ORDER_ID) add(t, check_count(&r));
    }
  r.expected = &answer->by_id;
  if (!c->k && how == PACKED) check_without_distances(&r, t);
  need_cuda(cudaFree(memory[0]));
  need_cuda(cudaFree(memory[1]));
}

typedef struct canceller {
  adj_ctx *ctx;
  atomic_bool done;
} canceller;

static void *cancel_always(void *user) {
  canceller *c = user;
  while (!atomic_load(&c->done))
    adj_cancel(c->ctx);
  return NULL;
}

/* A range join, a kNN join or a count of four points gives the whole result, or nothing if it is cancelled. */
static bool is_cancelled(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *points, int kind) {
  adj_cuda_result *result = NULL;
  uint64_t total = 17;
  adj_status status = kind == 0   ? adj_cuda_range_join(ctx, spec, points, NULL, NULL, &result)
                      : kind == 1 ? adj_cuda_knn_join(ctx, spec, points, NULL, NULL, &result)
                                  : adj_cuda_range_count(ctx, spec, points, NULL, NULL, NULL, &total);
  if (status == ADJ_CANCELLED) {
    need(!result && total == 17, "nothing from a call that is cancelled");
    return true;
  }
  need(!status, "a call that another thread cancels too late");
  if (result) total = adj_cuda_result_pairs(result);
  need(total == (kind == 1 ? 3 : 6),
       "the whole answer of a call that was not cancelled"); /* the fourth point is too far away */
  adj_cuda_result_destroy(result, NULL);
  return false;
}

/* Another thread cancels all the time. Most calls then do nothing, and none does half of its work. Some calls succeed,
 * because the other thread may wait for its turn longer than a call takes. Later calls run. */
static void check_cancel(adj_ctx *ctx) {
  float values[] = {0, 0, 0.5f, 0, 0, 0.5f, 3, 3};
  point_set set = {ADJ_F32, 2, 4, values};
  void *memory = NULL;
  adj_cuda_points points = to_device(&set, PACKED, &memory);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 1;
  spec.k = 1;
  uint64_t total = 0;
  canceller c = {.ctx = ctx};
  pthread_t thread;
  need(!pthread_create(&thread, NULL, cancel_always, &c), "a thread");
  for (int kind = 0; kind < 3; kind++) {
    int tries = 1;
    while (!is_cancelled(ctx, &spec, &points, kind))
      need(tries++ < 1000, "a call that is cancelled");
  }
  atomic_store(&c.done, true);
  pthread_join(thread, NULL);
  need(!adj_cuda_range_count(ctx, &spec, &points, NULL, NULL, NULL, &total) && total == 6, "a count after that");
  need_cuda(cudaFree(memory));
}

/* The device that was current stays current. With a single device this says little. */
static void check_current(adj_ctx *ctx) {
  float values[] = {0, 0, 0.5f, 0};
  point_set set = {ADJ_F32, 2, 2, values};
  void *memory = NULL;
  adj_cuda_points points = to_device(&set, PACKED, &memory);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 1;
  uint64_t total = 0;
  int count = 0, before = 0, after = -1;
  need_cuda(cudaGetDevice(&before));
  need_cuda(cudaGetDeviceCount(&count));
  need_cuda(cudaSetDevice(count - 1));
  need(!adj_cuda_range_count(ctx, &spec, &points, NULL, NULL, NULL, &total) && total == 2, "a count on device 0");
  need_cuda(cudaGetDevice(&after));
  need(after == count - 1, "the current device is as it was");
  need_cuda(cudaSetDevice(before));
  need_cuda(cudaFree(memory));
}

/* Numbers after those of the list are random cases. */
static void build_case(uint32_t number, join_case *c) {
  dice d;
  if (number < case_count())
    need(case_build(number, c), "memory");
  else
    need(random_case(number - case_count(), &d, c), "memory");
}

/* Checks every `of`-th case, from `first` on. */
static int check_some(const char *text, uint32_t first, uint32_t of) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (adj_device_describe(0, &device)) {
    printf("%s\n", adj_last_error());
    return NO_GPU;
  }
  adj_ctx *ctx = NULL;
  need(!adj_ctx_create(NULL, &ctx), "a context");
  check_cancel(ctx);
  check_current(ctx);
  tally t = {0};
  for (uint32_t i = first; i < case_count() + RANDOM_CASES; i += of) {
    join_case c;
    join_answer answer;
    build_case(i, &c);
    if (!text || strstr(c.name, text)) {
      need(answer_case(&c, &answer), "memory");
      for (layout how = PACKED; how < LAYOUTS; how++)
        check_layout(ctx, &c, &answer, how, &t);
      answer_free(&answer);
    }
    case_free(&c);
  }
  adj_ctx_destroy(ctx);
  printf("%llu joins as the reference's, %llu refused\n", (unsigned long long)t.joins, (unsigned long long)t.refused);
  return 0;
}

/* Several processes share the cases, because the reference takes most of the time and uses one core. */
int main(int argc, char **argv) {
  enum { MOST = 8 };
  long cores = sysconf(_SC_NPROCESSORS_ONLN);
  uint32_t processes = cores < 2 ? 1 : cores > MOST ? MOST : (uint32_t)cores;
  const char *text = argc > 1 ? argv[1] : NULL;
  for (uint32_t i = 0; i < processes; i++) {
    pid_t child = fork();
    need(child >= 0, "fork");
    if (!child) exit(check_some(text, i, processes));
  }
  int worst = 0, status = 0;
  while (wait(&status) > 0) {
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 1;
    if (code && worst != 1) worst = code;
  }
  return worst;
}
