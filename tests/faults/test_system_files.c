/* SPDX-License-Identifier: MIT
 *
 * Readers and writers while the system fails: the n-th open, stat, read, mapping, allocation, write, sync, rename or
 * close, for all n. A failed read is an error that names the file. A failed write is an error that leaves the folder as
 * it was: the old file or none, and no temporary file. Short and interrupted reads and writes change nothing.
 */
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "faults/faults.h"

extern char **environ;

static uint64_t mix(uint64_t sum, const void *bytes, uint64_t count) {
  const unsigned char *b = bytes;
  for (uint64_t i = 0; i < count; i++)
    sum = (sum ^ b[i]) * UINT64_C(0x100000001b3);
  return sum;
}

static adj_dataset *points_of(adj_ctx *ctx, uint64_t count, adj_type type) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = count;
  options.dim = 3;
  options.type = type;
  adj_dataset *set = NULL;
  must(adj_dataset_generate(ctx, &options, &set));
  return set;
}

/* ---- Reading ------------------------------------------------------------------------------------------------ */

static adj_status read_points(adj_ctx *ctx, const char *path, adj_type type, uint64_t *sum) {
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  options.type = type;
  options.shape = "f32:3";
  adj_dataset *set = NULL;
  adj_status status = adj_dataset_open(ctx, path, &options, &set);
  *sum = 1;
  for (uint64_t i = 0; set && i < adj_dataset_count(set); i++) {
    double row[3] = {0};
    must(adj_dataset_row(set, i, row));
    *sum = mix(*sum, row, sizeof row);
  }
  adj_dataset_destroy(set);
  return status;
}

typedef struct reading {
  adj_ctx *ctx;
  const char *path;
  adj_type type;
  uint64_t expected;
} reading;

static void check_reading(const reading *r, fault_kind kind, int64_t n, adj_status status, uint64_t sum) {
  const char *what = fault_name(kind);
  if (status && (kind >= FAULT_KINDS || (status != ADJ_E_IO && status != ADJ_E_MEMORY)))
    fail_msg("%s, %s %lld: %s: %s", r->path, what, (long long)n, adj_status_name(status), adj_last_error());
  if (status && strncmp(adj_last_error(), r->path, strlen(r->path)))
    fail_msg("%s, %s %lld: the message is \"%s\"", r->path, what, (long long)n, adj_last_error());
  if (!status && sum != r->expected) fail_msg("%s, %s %lld: other points", r->path, what, (long long)n);
  assert_int_equal(adj_ctx_memory_used(r->ctx), 0);
}

/* Returns how many calls of the kind there are. */
static int64_t try_reading(const reading *r, fault_kind kind) {
  int64_t n = 0, blocks = fault_blocks();
  int descriptors = fault_descriptors();
  for (bool hit = true; hit; n += hit) {
    uint64_t sum = 0;
    fault_begin(kind, n);
    adj_status status = read_points(r->ctx, r->path, r->type, &sum);
    hit = fault_end() > n && kind < FAULT_KINDS;
    check_reading(r, kind, n, status, sum);
    assert_int_equal(fault_blocks(), blocks);
    assert_int_equal(fault_descriptors(), descriptors);
    assert_true(n < 10000);
  }
  return n;
}

static void make_inputs(adj_ctx *ctx) {
  static const char *const paths[] = {"p.npy", "p.csv", "p.tsv", "p.fvecs", "p.fbin", "p.raw"};
  adj_dataset *set = points_of(ctx, 500, ADJ_F32);
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    must(adj_dataset_save(set, paths[i], NULL));
  adj_dataset_destroy(set);
  char *gzip[] = {"gzip", "-k", "p.csv", "p.npy", NULL};
  pid_t child;
  if (posix_spawnp(&child, gzip[0], NULL, NULL, gzip, environ))
    print_message("without gzip: compressed files are left out\n");
  else
    waitpid(child, NULL, 0);
}

/* Reads values as stored, which may be used in place, and converted. */
static void readers(void **state) {
  (void)state;
  static const char *const paths[] = {"p.npy", "p.csv", "p.tsv", "p.fvecs", "p.fbin", "p.raw", "p.csv.gz", "p.npy.gz"};
  static const fault_kind kinds[] = {FAULT_MEMORY, FAULT_MAP,    FAULT_OPEN,       FAULT_STAT,
                                     FAULT_READ,   FAULT_THREAD, FAULT_READ_SHORT, FAULT_READ_INTERRUPTED};
  adj_ctx *ctx = context_of(2, NULL);
  make_inputs(ctx);
  for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) {
    int64_t calls[FAULT_HARMLESS_END] = {0};
    if (access(paths[p], F_OK)) continue;
    for (int type = ADJ_F32; type <= ADJ_F64; type++) {
      reading r = {ctx, paths[p], (adj_type)type, 0};
      adj_status status = read_points(ctx, paths[p], r.type, &r.expected);
      if (status == ADJ_E_UNSUPPORTED) break; /* no zlib */
      must(status);
      for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        calls[kinds[k]] += try_reading(&r, kinds[k]);
    }
    print_message("%s: failed at %lld allocations, %lld mappings, %lld opens, %lld stats, %lld reads\n", paths[p],
                  (long long)calls[FAULT_MEMORY], (long long)calls[FAULT_MAP], (long long)calls[FAULT_OPEN],
                  (long long)calls[FAULT_STAT], (long long)calls[FAULT_READ]);
  }
  adj_ctx_destroy(ctx);
}

/* Standard input that cannot be mapped: a pipe with the bytes of a file. */
static void pipes(void **state) {
  (void)state;
  static const fault_kind kinds[] = {FAULT_MEMORY, FAULT_READ, FAULT_STAT, FAULT_READ_SHORT, FAULT_READ_INTERRUPTED};
  adj_ctx *ctx = context_of(2, NULL);
  int kept = dup(STDIN_FILENO);
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  options.format = "csv";
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    bool hit = true;
    for (int64_t n = 0; hit; n++) {
      int ends[2];
      assert_int_equal(pipe(ends), 0);
      const char text[] = "1,2,3\n4,5,6\n";
      assert_int_equal(write(ends[1], text, sizeof text - 1), sizeof text - 1);
      close(ends[1]);
      dup2(ends[0], STDIN_FILENO);
      close(ends[0]);
      adj_dataset *set = NULL;
      fault_begin(kinds[k], n);
      adj_status status = adj_dataset_open(ctx, "-", &options, &set);
      hit = fault_end() > n && kinds[k] < FAULT_KINDS;
      if (kinds[k] >= FAULT_KINDS) assert_int_equal(status, ADJ_OK);
      if (status) assert_non_null(strstr(adj_last_error(), "standard input"));
      if (status) assert_true(status == ADJ_E_IO || status == ADJ_E_MEMORY);
      if (!status) assert_int_equal(adj_dataset_count(set), 2);
      adj_dataset_destroy(set);
      assert_int_equal(adj_ctx_memory_used(ctx), 0);
    }
  }
  dup2(kept, STDIN_FILENO);
  close(kept);
  adj_ctx_destroy(ctx);
}

/* ---- Writing ------------------------------------------------------------------------------------------------ */

typedef struct writing {
  adj_plan *plan;
  const adj_dataset *points;
  const char *path, *second; /* second: the file of distances */
  bool counts;
} writing;

static adj_status write_file(const writing *w) {
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.counts = w->counts;
  options.distances = w->second;
  return w->points ? adj_dataset_save(w->points, w->path, NULL) : adj_write(w->plan, w->path, &options, NULL, NULL);
}

/* A sum over the names and contents of the files whose names begin with "out" or hold ".part". */
static uint64_t sum_of_outputs(void) {
  uint64_t all = 0;
  DIR *folder = opendir(".");
  assert_non_null(folder);
  for (struct dirent *entry; (entry = readdir(folder));) {
    if (strncmp(entry->d_name, "out", 3) && !strstr(entry->d_name, ".part")) continue;
    uint64_t sum = mix(7, entry->d_name, strlen(entry->d_name));
    char bytes[4096];
    FILE *file = fopen(entry->d_name, "rb");
    assert_non_null(file);
    for (size_t got; (got = fread(bytes, 1, sizeof bytes, file));)
      sum = mix(sum, bytes, got);
    fclose(file);
    all += sum; /* in any order */
  }
  closedir(folder);
  return all;
}

static void put_before(const writing *w, bool replace) {
  static const char *const names[] = {"out.npz", "out.csv", "out.npy", "out.ivecs", "out.fvecs"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    unlink(names[i]);
  const char *const paths[] = {w->path, w->second};
  for (int i = 0; replace && i < 2; i++) {
    FILE *file = paths[i] ? fopen(paths[i], "w") : NULL;
    if (file) fputs("before", file);
    if (file) fclose(file);
  }
}

/* A failure leaves the folder as it was, with two exceptions. The last sync, that of the folder, comes after the
 * rename: if it fails, the whole new file is there. Of two files, the second may be there already when the first cannot
 * get its name. */
static int64_t try_writing(const writing *w, fault_kind kind, bool replace) {
  put_before(w, replace);
  uint64_t old = sum_of_outputs();
  must(write_file(w));
  uint64_t complete = sum_of_outputs();
  int64_t n = 0, blocks = fault_blocks();
  int descriptors = fault_descriptors();
  for (bool hit = true; hit; n += hit) {
    put_before(w, replace);
    fault_begin(kind, n);
    adj_status status = write_file(w);
    hit = fault_end() > n && kind < FAULT_KINDS;
    uint64_t now = sum_of_outputs();
    if (!status && now != complete) fail_msg("%s, %s %lld: another file", w->path, fault_name(kind), (long long)n);
    if (status && (kind >= FAULT_KINDS || (status != ADJ_E_IO && status != ADJ_E_MEMORY)))
      fail_msg("%s, %s %lld: %s", w->path, fault_name(kind), (long long)n, adj_last_error());
    bool named = kind == FAULT_RENAME || kind == FAULT_SYNC || kind == FAULT_CLOSE || kind == FAULT_OPEN;
    if (status && now != old && !(named && (w->second || now == complete)))
      fail_msg("%s, %s %lld: the folder has changed: %s", w->path, fault_name(kind), (long long)n, adj_last_error());
    assert_int_equal(fault_blocks(), blocks);
    assert_int_equal(fault_descriptors(), descriptors);
    assert_true(n < 10000);
  }
  put_before(w, false);
  return n;
}

static void writers(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = points_of(ctx, 300, ADJ_F32);
  adj_plan *range = NULL, *nearest = NULL;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = 0.2;
  spec.flags = ADJ_WITH_DISTANCE;
  must(adj_plan_create(ctx, &spec, set, NULL, &range));
  spec.kind = ADJ_KNN;
  spec.k = 4;
  spec.radius = INFINITY;
  must(adj_plan_create(ctx, &spec, set, NULL, &nearest));
  const writing all[] = {
      {range, NULL, "out.npz", NULL, false},   {range, NULL, "out.csv", NULL, false},
      {range, NULL, "out.npy", NULL, false},   {range, NULL, "out.npy", NULL, true},
      {nearest, NULL, "out.npz", NULL, false}, {nearest, NULL, "out.ivecs", "out.fvecs", false},
      {NULL, set, "out.npy", NULL, false},     {NULL, set, "out.csv", NULL, false},
  };
  static const fault_kind kinds[] = {
      FAULT_MEMORY, FAULT_MAP,    FAULT_OPEN,  FAULT_STAT,        FAULT_WRITE,
      FAULT_SYNC,   FAULT_RENAME, FAULT_CLOSE, FAULT_WRITE_SHORT, FAULT_READ_INTERRUPTED};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    int64_t calls = 0;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
      for (int replace = 0; replace < 2; replace++)
        calls += try_writing(&all[i], kinds[k], replace);
    print_message("%s%s: %lld calls failed\n", all[i].path,
                  all[i].counts   ? " of counts"
                  : all[i].points ? " of points"
                                  : "",
                  (long long)calls);
  }
  adj_plan_destroy(nearest);
  adj_plan_destroy(range);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* All tests run in an empty folder, which is removed in the end. */
static int enter_folder(void **state) {
  char *folder = malloc(1024);
  const char *parent = getenv("TMPDIR");
  snprintf(folder, 1024, "%s/adjoin-faults-XXXXXX", parent ? parent : access("/dev/shm", W_OK) ? P_tmpdir : "/dev/shm");
  *state = folder;
  return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int leave_folder(void **state) {
  DIR *folder = opendir(".");
  if (!folder) return -1;
  for (struct dirent *entry; (entry = readdir(folder));)
    unlink(entry->d_name);
  closedir(folder);
  int failed = chdir("/") || rmdir(*state);
  free(*state);
  return failed;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(readers),
      cmocka_unit_test(pipes),
      cmocka_unit_test(writers),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
