/* SPDX-License-Identifier: MIT
 *
 * A soak test: many small joins in one process, of all kinds, metrics, types, algorithms and backends. Some are
 * cancelled or refused, some are written to files. Every result is compared with that of the reference backend. After a
 * warm-up memory, threads and open descriptors must not grow.
 *
 *   soak JOINS             one thread, several contexts
 *   soak JOINS THREADS     threads that share a context and its points, JOINS each
 */
#include <dirent.h>
#include <malloc.h>
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "software/scene.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

static uint64_t joins = 1000;
static uint32_t sharers;

/* ---- The joins -------------------------------------------------------------------------------------------- */

enum { SETS = 4, KINDS = 160 };

/* The sets. All have places on a sphere, which every metric accepts. */
static const struct {
  uint64_t count;
  uint32_t dim;
  adj_type type;
} SHAPES[SETS] = {{60, 2, ADJ_F32}, {45, 2, ADJ_F64}, {50, 3, ADJ_F32}, {40, 9, ADJ_F64}};

/* What join number i is. */
typedef struct choice {
  adj_join_spec spec;
  int set;
  bool two_sets;
} choice;

static choice choose(uint32_t i) {
  static const adj_metric metrics[] = {ADJ_L2, ADJ_L1, ADJ_LINF, ADJ_LP, ADJ_COSINE, ADJ_DOT, ADJ_HAVERSINE, ADJ_L2};
  static const adj_backend backends[] = {ADJ_BACKEND_CPU, ADJ_BACKEND_GPU, ADJ_BACKEND_HYBRID, ADJ_BACKEND_AUTO,
                                         ADJ_BACKEND_REFERENCE};
  choice c = {.set = (int)(i / 8 % SETS), .two_sets = i / 32 % 2};
  adj_join_spec_init(&c.spec, sizeof c.spec);
  c.spec.metric = metrics[i % 8];
  if (c.spec.metric == ADJ_HAVERSINE) c.set %= 2; /* longitude and latitude */
  c.spec.kind = i / 3 % 2 ? ADJ_KNN : ADJ_RANGE;
  c.spec.backend = backends[i % 5];
  c.spec.k = 1 + i % 7;
  c.spec.p = 1.5;
  c.spec.radius = c.spec.metric == ADJ_HAVERSINE ? 500000 : c.spec.metric == ADJ_COSINE ? 0.05 : 0.2;
  if (c.spec.kind == ADJ_KNN) c.spec.radius = c.spec.metric == ADJ_DOT ? -INFINITY : INFINITY;
  c.spec.flags = i % 2 ? ADJ_WITH_DISTANCE : 0;
  c.spec.order = i % 11 == 3 && c.spec.kind == ADJ_RANGE ? ADJ_ORDER_DISTANCE : ADJ_ORDER_ID;
  static const char *const algorithms[] = {NULL, "grid", "ego", "kdtree", "brute"};
  if (c.spec.backend == ADJ_BACKEND_CPU && c.spec.kind == ADJ_RANGE && c.spec.metric == ADJ_L2)
    c.spec.algorithm = algorithms[i / 5 % 5];
  return c;
}

static adj_dataset *make_points(adj_ctx *ctx, int set, uint64_t seed) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = SHAPES[set].count;
  options.dim = SHAPES[set].dim;
  options.type = SHAPES[set].type;
  options.seed = seed;
  adj_dataset *points = NULL;
  must(adj_dataset_generate(ctx, &options, &points));
  return points;
}

static uint64_t mix(uint64_t sum, const void *bytes, uint64_t count) {
  const unsigned char *b = bytes;
  for (uint64_t i = 0; i < count; i++)
    sum = (sum ^ b[i]) * UINT64_C(0x100000001b3);
  return sum;
}

static uint64_t sum_of(const adj_result *result) {
  uint64_t rows = adj_result_rows(result), entries = adj_result_offsets(result)[rows];
  uint64_t sum = mix(1, adj_result_offsets(result), (rows + 1) * sizeof(uint64_t));
  sum = mix(sum, adj_result_ids(result), entries * sizeof(uint32_t));
  size_t size = adj_result_type(result) == ADJ_F64 ? sizeof(double) : sizeof(float);
  return adj_result_distances(result) ? mix(sum, adj_result_distances(result), entries * size) : sum;
}

static adj_status stop(void *user, const adj_rows *rows) {
  (void)user, (void)rows;
  return ADJ_CANCELLED;
}

/* Runs the join of this number. Some joins also end early, are refused, or are written. */
static uint64_t join_once(adj_ctx *ctx, adj_dataset *const *left, adj_dataset *const *right, uint32_t number,
                          uint64_t turn) {
  choice c = choose(number);
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  must(adj_plan_create(ctx, &c.spec, left[c.set], c.two_sets ? right[c.set] : NULL, &plan));
  must(adj_collect(plan, &result, NULL, NULL));
  uint64_t sum = sum_of(result);
  adj_result_destroy(result);
  if (turn % 13 == 5) {
    adj_sink sink;
    adj_sink_init(&sink, sizeof sink);
    sink.write = stop;
    adj_status status = adj_stream(plan, &sink, NULL, NULL);
    if (status != ADJ_CANCELLED) fail_msg("cancelled: %s", adj_last_error());
  }
  if (turn % 101 == 7) must(adj_write(plan, turn % 2 ? "out.csv" : "out.npz", NULL, NULL, NULL));
  adj_plan_destroy(plan);
  if (turn % 17 == 3) {
    c.spec.tuning = "no=such";
    must_fail(ADJ_E_ARGUMENT, "no", adj_plan_create(ctx, &c.spec, left[c.set], NULL, &plan));
  }
  return sum;
}

/* ---- What must not grow ----------------------------------------------------------------------------------- */

typedef struct usage {
  int threads, descriptors;
  long resident_kib;
  size_t allocated;
} usage;

static int entries_of(const char *path) {
  DIR *folder = opendir(path);
  int count = 0;
  while (folder && readdir(folder))
    count++;
  if (folder) closedir(folder);
  return count;
}

static usage measure(void) {
  usage now = {.threads = entries_of("/proc/self/task"), .descriptors = entries_of("/proc/self/fd")};
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  struct mallinfo2 info = mallinfo2();
  now.allocated = info.uordblks + info.hblkhd;
#endif
  char line[128];
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fgets(line, sizeof line, file)) { /* all pages, then those in memory */
    char *after;
    assert_true(strtol(line, &after, 10) > 0);
    now.resident_kib = strtol(after, NULL, 10) * (sysconf(_SC_PAGESIZE) / 1024);
  }
  if (file) fclose(file);
  return now;
}

static void must_not_grow(const usage *before, const usage *after) {
  print_message("  %ld to %ld KiB resident, %zu to %zu bytes allocated, %d descriptors, %d threads\n",
                before->resident_kib, after->resident_kib, before->allocated, after->allocated, after->descriptors - 3,
                after->threads - 2);
  assert_int_equal(after->threads, before->threads);
  assert_int_equal(after->descriptors, before->descriptors);
#ifndef SANITIZED
  /* The allocator may keep a few more pages. A leak of 32 bytes per join would show in a long run. */
  assert_true(after->allocated <= before->allocated + (64 << 10));
  assert_true(after->resident_kib <= before->resident_kib + (4 << 10));
#endif
}

/* ---- One thread ------------------------------------------------------------------------------------------- */

typedef struct world {
  adj_ctx *ctx;
  adj_dataset *left[SETS], *right[SETS];
} world;

static void open_world(world *w, uint32_t threads) {
  w->ctx = software_context(threads, 2, 0);
  for (int i = 0; i < SETS; i++) {
    w->left[i] = make_points(w->ctx, i, 1);
    w->right[i] = make_points(w->ctx, i, 2);
  }
}

static void close_world(world *w) {
  for (int i = 0; i < SETS; i++) {
    adj_dataset_destroy(w->left[i]);
    adj_dataset_destroy(w->right[i]);
  }
  assert_int_equal(adj_ctx_memory_used(w->ctx), 0);
  adj_ctx_destroy(w->ctx);
}

static uint32_t draw(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (uint32_t)(*state >> 33) % KINDS;
}

/* The expected result of every number, by the reference backend. */
static void expect(const world *w, uint64_t *expected) {
  for (uint32_t i = 0; i < KINDS; i++) {
    choice c = choose(i);
    c.spec.backend = ADJ_BACKEND_REFERENCE;
    c.spec.algorithm = NULL;
    adj_plan *plan = NULL;
    adj_result *result = NULL;
    must(adj_plan_create(w->ctx, &c.spec, w->left[c.set], c.two_sets ? w->right[c.set] : NULL, &plan));
    must(adj_collect(plan, &result, NULL, NULL));
    expected[i] = sum_of(result);
    adj_result_destroy(result);
    adj_plan_destroy(plan);
  }
}

static void one_after_another(void **state) {
  (void)state;
  if (sharers) skip();
  uint64_t expected[KINDS], seed = 1, warm_up = joins / 10 + KINDS;
  world w;
  open_world(&w, 2);
  expect(&w, expected);
  usage before = {0};
  for (uint64_t turn = 0; turn < joins + warm_up; turn++) {
    if (turn % 500 == 499) { /* threads and devices come and go, too */
      close_world(&w);
      open_world(&w, 1 + (uint32_t)(turn / 500) % 3);
    }
    uint32_t number = draw(&seed);
    if (join_once(w.ctx, w.left, w.right, number, turn) != expected[number])
      fail_msg("join %llu (number %u) has another result", (unsigned long long)turn, number);
    if (turn + 1 == warm_up || turn + 1 == joins + warm_up) {
      close_world(&w);
      open_world(&w, 2);
      usage now = measure();
      if (turn + 1 == warm_up) before = now;
      if (turn + 1 > warm_up) must_not_grow(&before, &now);
    }
  }
  close_world(&w);
  uint64_t all = joins + warm_up;
  print_message("  %llu joins, the same results\n", (unsigned long long)all);
}

/* ---- Many threads ----------------------------------------------------------------------------------------- */

typedef struct sharer {
  pthread_t thread;
  const world *world;
  const uint64_t *expected;
  uint64_t seed;
  uint64_t wrong; /* counted, because cmocka's checks work in the main thread only */
  char message[256];
} sharer;

static adj_status share_one(const sharer *s, uint32_t number, uint64_t *sum) {
  choice c = choose(number);
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  const adj_dataset *right = c.two_sets ? s->world->right[c.set] : NULL;
  adj_status status = adj_plan_create(s->world->ctx, &c.spec, s->world->left[c.set], right, &plan);
  if (!status) status = adj_collect(plan, &result, NULL, NULL);
  if (!status) *sum = sum_of(result);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  return status;
}

static void *share(void *argument) {
  sharer *s = argument;
  for (uint64_t i = 0; i < joins; i++) {
    uint32_t number = draw(&s->seed);
    uint64_t sum = 0;
    adj_status status = share_one(s, number, &sum);
    if (status) snprintf(s->message, sizeof s->message, "%s", adj_last_error());
    s->wrong += status || sum != s->expected[number];
  }
  return NULL;
}

static void sharing_a_context(void **state) {
  (void)state;
  if (!sharers) skip();
  uint64_t expected[KINDS];
  world w;
  open_world(&w, 4);
  expect(&w, expected);
  sharer *all = calloc(sharers, sizeof *all);
  assert_non_null(all);
  for (uint32_t i = 0; i < sharers; i++) {
    all[i] = (sharer){.world = &w, .expected = expected, .seed = i + 1};
    assert_int_equal(pthread_create(&all[i].thread, NULL, share, &all[i]), 0);
  }
  for (uint32_t i = 0; i < sharers; i++)
    pthread_join(all[i].thread, NULL);
  for (uint32_t i = 0; i < sharers; i++)
    if (all[i].wrong) fail_msg("%llu joins went wrong: %s", (unsigned long long)all[i].wrong, all[i].message);
  free(all);
  close_world(&w);
  print_message("  %u threads, %llu joins each, the same results\n", sharers, (unsigned long long)joins);
}

/* Writes outputs to a folder of their own. */
static int enter_folder(void **state) {
  char *folder = malloc(1024);
  const char *parent = getenv("TMPDIR");
  snprintf(folder, 1024, "%s/adjoin-soak-XXXXXX", parent ? parent : P_tmpdir);
  *state = folder;
  return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int leave_folder(void **state) {
  unlink("out.csv");
  unlink("out.npz");
  int failed = chdir("/") || rmdir(*state);
  free(*state);
  return failed;
}

int main(int argc, char **argv) {
  if (argc > 1) joins = strtoull(argv[1], NULL, 10);
  if (argc > 2) sharers = (uint32_t)strtoul(argv[2], NULL, 10);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_after_another),
      cmocka_unit_test(sharing_a_context),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
