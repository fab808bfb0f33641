/* SPDX-License-Identifier: MIT
 *
 * Files that change after they were opened, or while they are read. FIFOs without a writer. Descriptors. What a mapping
 * saves, and what it risks.
 *
 * The library calls the pread defined here, which changes the file as a test asks.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "files.h"

enum { POINTS = 400000, DIM = 3, HEADER = 8 }; /* more bytes than two huge pages */

/* ---- The library's pread ------------------------------------------------------------------------------------- */

typedef enum happening { NOTHING, SHORTENED, EMPTIED, OVERWRITTEN, GROWN, FAILING, SLOWLY } happening;

static struct {
  happening what;
  int at; /* number of the call at which it happens; call 0 reads the first bytes */
  atomic_int calls, lowest;
} test;

static void set_size(off_t size) {
  assert_int_equal(truncate("points.fbin", size), 0);
}

/* Gives the file a new time of change, even if the clock is coarse. */
static void overwrite(void) {
  int file = open("points.fbin", O_WRONLY);
  struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, {.tv_sec = 1000}};
  assert_true(file >= 0 && syscall(SYS_pwrite64, file, "\0\0\0\0", 4, (off_t)HEADER) == 4);
  assert_int_equal(futimens(file, times), 0);
  close(file);
}

static void let_happen(void) {
  if (test.what == SHORTENED) set_size(1000000);
  if (test.what == EMPTIED) set_size(0);
  if (test.what == OVERWRITTEN) overwrite();
  if (test.what == GROWN) set_size(HEADER + POINTS * DIM * 4 + 100000);
}

ssize_t changing_pread(int file, void *to, size_t bytes, off_t at) __asm__("pread");
ssize_t changing_pread(int file, void *to, size_t bytes, off_t at) {
  int call = atomic_fetch_add(&test.calls, 1);
  if (file < atomic_load(&test.lowest)) atomic_store(&test.lowest, file);
  if (call == test.at) {
    let_happen();
    errno = EIO;
    if (test.what == FAILING) return -1;
  }
  errno = EINTR;
  if (test.what == SLOWLY && call % 3 == 2) return -1;
  if (test.what == SLOWLY && bytes > 100001) bytes = 100001;
  return syscall(SYS_pread64, file, to, bytes, at);
}

static void arrange(happening what, int at) {
  test.what = what;
  test.at = at;
  atomic_store(&test.calls, 0);
  atomic_store(&test.lowest, 1000);
}

/* ---- Points and joins ------------------------------------------------------------------------------------------ */

static float *points;
static uint32_t *wanted; /* counts for the points in memory */

static float *make_points(void) {
  float *made = malloc(sizeof(float) * POINTS * DIM);
  assert_non_null(made);
  uint64_t random = 1;
  for (uint64_t i = 0; i < (uint64_t)POINTS * DIM; i++) {
    random = random * UINT64_C(6364136223846793005) + 1442695040888963407u;
    made[i] = (float)(random >> 40) * 0x1p-24f;
  }
  return made;
}

static void write_points(void) {
  uint32_t header[2] = {POINTS, DIM};
  FILE *file = fopen("points.fbin", "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(header, 1, HEADER, file), HEADER);
  assert_int_equal(fwrite(points, sizeof(float) * DIM, POINTS, file), POINTS);
  assert_int_equal(fclose(file), 0);
}

/* The neighbours of each point. */
static uint32_t *join(adj_ctx *ctx, const adj_dataset *set) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 0.004;
  spec.backend = ADJ_BACKEND_CPU;
  adj_plan *plan = NULL;
  must(adj_plan_create(ctx, &spec, set, NULL, &plan));
  uint32_t *counts = calloc(POINTS, sizeof *counts);
  assert_non_null(counts);
  must(adj_count(plan, counts, NULL, NULL, NULL));
  adj_plan_destroy(plan);
  return counts;
}

static uint32_t *expected(adj_ctx *ctx) {
  adj_points all;
  adj_points_init(&all, sizeof all);
  all.data = points;
  all.count = POINTS;
  all.dim = DIM;
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &all, &set));
  uint32_t *counts = join(ctx, set);
  adj_dataset_destroy(set);
  return counts;
}

static void check_join(adj_ctx *ctx, const adj_dataset *set) {
  uint32_t *counts = join(ctx, set);
  if (!wanted) wanted = expected(ctx);
  assert_memory_equal(counts, wanted, POINTS * sizeof *counts);
  free(counts);
}

/* ---- Changes ---------------------------------------------------------------------------------------------------- */

/* A host program opens points; then another program shortens, removes or overwrites the file. */
static void changed_afterwards(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (int how = 0; how < 3; how++) {
    adj_dataset *set = NULL;
    write_points();
    arrange(NOTHING, 0);
    must(adj_dataset_open(ctx, "points.fbin", NULL, &set));
    if (how == 0) set_size(0);
    if (how == 1) assert_int_equal(unlink("points.fbin"), 0);
    if (how == 2) overwrite();
    check_join(ctx, set);
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

/* The file changes at each read. With one thread the order of reads is known. */
static void changed_while_read(void **state) {
  (void)state;
  static const struct {
    happening what;
    const char *says;
  } cases[] = {
      {SHORTENED,
       "points.fbin: was changed while it was read: it had 4800008 bytes when it was opened, and has 1000000"},
      {EMPTIED, "points.fbin: was changed while it was read: it had 4800008 bytes when it was opened, and has 0 now"},
      {OVERWRITTEN,
       "points.fbin: was changed while it was read: it had 4800008 bytes when it was opened, and has 4800008"},
      {FAILING, "points.fbin: cannot be read: Input/output error"}};
  adj_ctx *ctx = context_of(1, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    for (int at = 0; at < 40; at += at < 2 ? 1 : 19) { /* the first bytes, the first read, the last and some between */
      adj_dataset *set = NULL;
      write_points();
      arrange(cases[i].what, at);
      must_fail(ADJ_E_IO, cases[i].says, adj_dataset_open(ctx, "points.fbin", NULL, &set));
      assert_null(set);
      assert_true(atomic_load(&test.calls) > at);
      assert_int_equal(adj_ctx_memory_used(ctx), 0);
    }
  adj_ctx_destroy(ctx);
}

/* The file counts as it was when it was opened. Interrupted and short reads are continued. */
static void grown_and_slow(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (int at = 0; at < 5; at++) {
    adj_dataset *set = NULL;
    write_points();
    arrange(at < 4 ? GROWN : SLOWLY, at);
    must(adj_dataset_open(ctx, "points.fbin", NULL, &set));
    assert_true(at < 4 || atomic_load(&test.calls) > 48);
    arrange(NOTHING, 0);
    check_join(ctx, set);
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

/* ---- Mappings --------------------------------------------------------------------------------------------------- */

static adj_open_options mapped(void) {
  adj_open_options options = open_defaults();
  options.map = 1;
  return options;
}

/* A file larger than the memory limit gives an error that names the way out. If it is mapped, it can be joined. */
static void larger_than_memory(void **state) {
  (void)state;
  adj_ctx_options limited;
  adj_ctx_options_init(&limited, sizeof limited);
  limited.memory_limit = 4000000;
  limited.threads = 2;
  limited.device_count = 0;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&limited, &ctx));
  adj_dataset *set = NULL;
  adj_open_options options = open_defaults();
  write_points();
  must_fail(ADJ_E_MEMORY,
            "points.fbin: the input: needs 4.6 MiB, but the limit is 3.8 MiB; a mapped file takes "
            "none of it (--map, or map in adj_open_options)",
            adj_dataset_open(ctx, "points.fbin", &options, &set));
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  options.map = 1;
  must(adj_dataset_open(ctx, "points.fbin", &options, &set));
  assert_int_equal(adj_dataset_count(set), POINTS);
  assert_int_equal(adj_ctx_memory_used(ctx), 2 * 8 * DIM);
  adj_dataset_destroy(set);
  options.map = 2;
  must_fail(ADJ_E_ARGUMENT, "map: 2 is neither 0 nor 1", adj_dataset_open(ctx, "points.fbin", &options, &set));
  adj_ctx_destroy(ctx);
}

/* The documented risk: another program shortens a mapped file. Tested in a process of its own. */
static void shortened_mapping(void **state) {
  (void)state;
  write_points();
  pid_t child = fork();
  assert_true(child >= 0);
  if (!child) {
    signal(SIGBUS, SIG_DFL); /* cmocka handles it */
    adj_ctx *ctx = context_of(1, NULL);
    adj_dataset *set = NULL;
    adj_open_options options = mapped();
    must(adj_dataset_open(ctx, "points.fbin", &options, &set));
    free(join(ctx, set));
    set_size(0);
    free(join(ctx, set));
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS);
}

/* Text, compressed files and pipes are read, and a note says so. */
static void not_mapped(void **state) {
  (void)state;
  notes heard;
  adj_ctx *ctx = context_with_notes(&heard);
  adj_open_options options = mapped();
  options.type = ADJ_F32;
  adj_dataset *set = NULL;
  must(open_text(ctx, "a.csv", "1,2\n3,4\n", &options, &set));
  check_and_destroy(set, ADJ_F32, 2, 2, (double[]){1, 2, 3, 4});
  assert_non_null(strstr(heard.text, "a.csv: map: is for regular files of binary values; this one is read"));
  adj_ctx_destroy(ctx);
}

/* ---- FIFOs ------------------------------------------------------------------------------------------------------ */

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static void *cancel_soon(void *user) {
  usleep(200000);
  adj_cancel(user);
  return NULL;
}

/* Nobody writes, so adj_cancel ends the wait. The library opens without waiting, so only the read waits. */
static void fifo_without_writer(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = NULL;
  pthread_t thread;
  assert_int_equal(mkfifo("waiting", 0600), 0);
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, ctx), 0);
  double began = seconds();
  must_fail(ADJ_CANCELLED, "stopped by the caller", adj_dataset_open(ctx, "waiting", NULL, &set));
  double took = seconds() - began;
  pthread_join(thread, NULL);
  assert_true(took > 0.1 && took < 5); /* a fifth of a second, or more on a busy machine */
  assert_int_equal(unlink("waiting"), 0);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static const char *to_write;

static void *write_late(void *user) {
  (void)user;
  usleep(200000);
  int file = open("waiting", O_WRONLY);
  if (file < 0) return NULL;
  for (const char *at = to_write; *at; at++) {
    if (write(file, at, 1) != 1) break;
    usleep(1000);
  }
  close(file);
  return NULL;
}

static void fifo_with_late_writer(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = NULL;
  pthread_t thread;
  assert_int_equal(mkfifo("waiting", 0600), 0);
  adj_open_options options = open_defaults();
  options.type = ADJ_F32;
  to_write = "1,2\n3,4\n";
  assert_int_equal(pthread_create(&thread, NULL, write_late, NULL), 0);
  must(adj_dataset_open(ctx, "waiting", &options, &set));
  pthread_join(thread, NULL);
  check_and_destroy(set, ADJ_F32, 2, 2, (double[]){1, 2, 3, 4});
  to_write = "";
  assert_int_equal(pthread_create(&thread, NULL, write_late, NULL), 0);
  must_fail(ADJ_E_FORMAT, "waiting: the file is empty", adj_dataset_open(ctx, "waiting", NULL, &set));
  pthread_join(thread, NULL);
  assert_int_equal(unlink("waiting"), 0);
  adj_ctx_destroy(ctx);
}

/* ---- Descriptors ------------------------------------------------------------------------------------------------ */

/* If a program has closed its standard input, output or error, no file gets these numbers or is left open. */
static void standard_descriptors(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  write_points();
  for (int number = 0; number < 3; number++) {
    adj_dataset *set = NULL;
    int kept = fcntl(number, F_DUPFD_CLOEXEC, 10);
    close(number);
    arrange(NOTHING, 0);
    adj_status status = adj_dataset_open(ctx, "points.fbin", NULL, &set);
    bool reused = fcntl(number, F_GETFD) >= 0;
    if (kept >= 0) {
      dup2(kept, number);
      close(kept);
    }
    must(status);
    assert_false(reused);
    assert_in_range(atomic_load(&test.lowest), 3, 999);
    adj_dataset_destroy(set);
  }
  int next = open("points.fbin", O_RDONLY), again = -1;
  close(next);
  adj_dataset *set = NULL;
  must(adj_dataset_open(ctx, "points.fbin", NULL, &set));
  again = open("points.fbin", O_RDONLY);
  close(again);
  assert_int_equal(again, next);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* ---- Bounds ----------------------------------------------------------------------------------------------------- */

/* Values are checked in strips of packed rows. Tests dimensions around the length of a strip, rows that do not fill the
 * last strips, and a NaN or an infinity in many places. */
static void bounds_and_places(void **state) {
  (void)state;
  static const uint32_t dims[] = {1, 2, 3, 5, 7, 16, 31, 64, 95, 96, 97, 191, 192, 193, 400};
  adj_ctx *ctx = context_of(2, NULL);
  for (size_t t = 0; t < sizeof dims / sizeof *dims; t++)
    for (int wide = 0; wide < 2; wide++) {
      const uint32_t dim = dims[t], rows = 9 * 192 / dim + 3;
      float *narrow = malloc(sizeof(float) * rows * dim);
      double *values = malloc(sizeof(double) * rows * dim), *low = calloc(dim, 2 * sizeof *low), *high = low + dim;
      assert_true(narrow && values && low);
      for (uint32_t i = 0; i < rows * dim; i++)
        values[i] = (double)(narrow[i] = points[i] * (i % 2 ? -1 : 1));
      for (uint32_t j = 0; j < dim; j++) {
        low[j] = high[j] = values[j];
        for (uint32_t i = 1; i < rows; i++) {
          low[j] = fmin(low[j], values[i * dim + j]);
          high[j] = fmax(high[j], values[i * dim + j]);
        }
      }
      adj_points all;
      adj_points_init(&all, sizeof all);
      all.type = wide ? ADJ_F64 : ADJ_F32;
      all.data = wide ? (void *)values : (void *)narrow;
      all.count = rows;
      all.dim = dim;
      adj_dataset *set = NULL;
      must(adj_dataset_create(ctx, &all, &set));
      for (uint32_t j = 0; j < dim; j++) {
        double a, b;
        adj_dataset_bounds(set, j, &a, &b);
        assert_true(a == low[j] && b == high[j]);
      }
      adj_dataset_destroy(set);
      for (uint32_t i = 0; i < rows * dim; i += 11) {
        char place[64];
        float kept = narrow[i];
        values[i] = narrow[i] = i % 2 ? NAN : -INFINITY;
        snprintf(place, sizeof place, "row %u, column %u: %s is not", i / dim + 1, i % dim + 1,
                 i % 2 ? "NaN" : "infinity");
        must_fail(ADJ_E_DATA, place, adj_dataset_create(ctx, &all, &set));
        values[i] = (double)(narrow[i] = kept);
      }
      free(narrow);
      free(values);
      free(low);
    }
  adj_ctx_destroy(ctx);
}

int main(void) {
  char folder[] = "inputs-XXXXXX";
  if (!mkdtemp(folder) || chdir(folder)) return 1;
  points = make_points();
  const struct CMUnitTest tests[] = {cmocka_unit_test(changed_afterwards),   cmocka_unit_test(changed_while_read),
                                     cmocka_unit_test(grown_and_slow),       cmocka_unit_test(larger_than_memory),
                                     cmocka_unit_test(shortened_mapping),    cmocka_unit_test(not_mapped),
                                     cmocka_unit_test(fifo_without_writer),  cmocka_unit_test(fifo_with_late_writer),
                                     cmocka_unit_test(standard_descriptors), cmocka_unit_test(bounds_and_places)};
  int failed = cmocka_run_group_tests(tests, NULL, NULL);
  free(points);
  free(wanted);
  unlink("points.fbin");
  unlink("waiting");
  if (!chdir("..")) rmdir(folder);
  return failed;
}
