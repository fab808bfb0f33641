/* SPDX-License-Identifier: MIT
 *
 * Opening: how a reader is chosen, gzip, pipes, paths that are no files, cancelling, memory limits, and every
 * allocation failing in turn.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/context.h"
#include "files.h"

static const char text[] = "x,y\n0,1.5\n-2.25,3\n4,-0.5\n";
static const double points[] = {0, 1.5, -2.25, 3, 4, -0.5};

/* The text above, as gzip -9n packs it. */
static const unsigned char packed[] = {0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab,
                                       0xd0, 0xa9, 0xe4, 0x32, 0xd0, 0x31, 0xd4, 0x33, 0xe5, 0xd2, 0x35,
                                       0xd2, 0x33, 0x32, 0xd5, 0x31, 0xe6, 0x32, 0xd1, 0xd1, 0x35, 0x00,
                                       0x72, 0x01, 0xa2, 0xf6, 0x19, 0xc3, 0x19, 0x00, 0x00, 0x00};

static size_t pack(unsigned char *to) {
  memcpy(to, packed, sizeof packed);
  return sizeof packed;
}

static void choosing(void **state) {
  (void)state;
  notes heard;
  adj_ctx *ctx = context_with_notes(&heard);
  adj_open_options options = open_defaults();
  adj_dataset *set = NULL;
  options.format = "csv"; /* overrides the ending of the name */
  must(open_text(ctx, "a.npy", text, &options, &set));
  check_and_destroy(set, ADJ_F64, 3, 2, points);
  options.format = "CSV";
  must_fail(ADJ_E_ARGUMENT,
            "a.csv: format: \"CSV\" is none of npy, csv, tsv, fvecs, bvecs, fbin, u8bin, i8bin, raw, hdf5",
            open_text(ctx, "a.csv", text, &options, &set));
  options = open_defaults();
  must_fail(ADJ_E_FORMAT, "a.x: neither its ending nor its content shows the format; it must be given: npy, csv",
            open_bytes(ctx, "a.x", "\x00\x01\x02", 3, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.npz: is a zip archive", open_bytes(ctx, "a.npz", "PK\3\4\0\0", 6, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.x: the file is empty", open_bytes(ctx, "a.x", "", 0, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.npy: the file is empty", open_bytes(ctx, "a.npy", "", 0, NULL, &set));
  options.columns = "1";
  options.shape = "f32:2";
  options.dataset = "d";
  float rows[2] = {1, 2};
  must(open_bytes(ctx, "a.raw", rows, 8, &options, &set));
  check_and_destroy(set, ADJ_F32, 1, 2, (double[]){1, 2});
  assert_non_null(strstr(heard.text, "a.raw: dataset: has no meaning for raw files and is ignored"));
  assert_non_null(
      strstr(heard.text, "a.raw: columns: has no meaning for raw files and is ignored: every column is a coordinate"));
  /* By content: a .npy file does not need its ending. */
  char path[512];
  snprintf(path, sizeof path, "%s/f32.npy", READERS_DATA);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char bytes[1024];
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  must(open_bytes(ctx, "array", bytes, size, NULL, &set));
  check_and_destroy(set, ADJ_F32, 3, 2, points);
  adj_ctx_destroy(ctx);
}

static void arguments(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *set = NULL;
  adj_open_options options = open_defaults();
  must_fail(ADJ_E_ARGUMENT, "path", adj_dataset_open(ctx, NULL, NULL, &set));
  must_fail(ADJ_E_ARGUMENT, "ctx", adj_dataset_open(NULL, "a.csv", NULL, &set));
  must_fail(ADJ_E_ARGUMENT, "out", adj_dataset_open(ctx, "a.csv", NULL, NULL));
  options.type = (adj_type)3;
  must_fail(ADJ_E_ARGUMENT, "type: 3 is neither", adj_dataset_open(ctx, "a.csv", &options, &set));
  options.struct_size = 3;
  must_fail(ADJ_E_STRUCT, "adj_open_options", adj_dataset_open(ctx, "a.csv", &options, &set));
  must_fail(ADJ_E_IO, "no-such-file.csv: cannot be opened: ", adj_dataset_open(ctx, "no-such-file.csv", NULL, &set));
  must_fail(ADJ_E_IO, "/: is a directory", adj_dataset_open(ctx, "/", NULL, &set));
  must_fail(ADJ_E_FORMAT, "/dev/null: the file is empty", adj_dataset_open(ctx, "/dev/null", NULL, &set));
  adj_ctx_destroy(ctx);
}

static void gzip(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = NULL;
  unsigned char file[256];
  size_t size = pack(file);
  if (!strstr(adj_build_features(), "zlib")) {
    must_fail(ADJ_E_UNSUPPORTED, "has no zlib", open_bytes(ctx, "a.csv.gz", file, size, NULL, &set));
    adj_ctx_destroy(ctx);
    return;
  }
  must(open_bytes(ctx, "a.csv.gz", file, size, NULL, &set));
  check_and_destroy(set, ADJ_F64, 3, 2, points);
  must(open_bytes(ctx, "a.csv", file, size, NULL, &set)); /* the content tells, not the name */
  check_and_destroy(set, ADJ_F64, 3, 2, points);
  must(open_bytes(ctx, "a", file, size, NULL, &set));
  check_and_destroy(set, ADJ_F64, 3, 2, points);
  size += pack(file + size); /* two members: the header line of the second is no row */
  must_fail(ADJ_E_FORMAT, "a.csv.gz: line 5, column 1: \"x\" is not a number",
            open_bytes(ctx, "a.csv.gz", file, size, NULL, &set));
  must(open_golden(ctx, "two_members.csv.gz", NULL, &set)); /* its last bytes have the size of the second member only */
  assert_int_equal(adj_dataset_count(set), 20001);
  double last[2];
  must(adj_dataset_row(set, 20000, last));
  assert_true(last[0] == 3 && last[1] == 4);
  adj_dataset_destroy(set);
  size = pack(file);
  must_fail(ADJ_E_FORMAT, "a.csv.gz: the compressed data ends early",
            open_bytes(ctx, "a.csv.gz", file, size - 1, NULL, &set));
  file[size] = 'x';
  must_fail(ADJ_E_FORMAT, "a.csv.gz: 1 bytes follow the compressed data",
            open_bytes(ctx, "a.csv.gz", file, size + 1, NULL, &set));
  file[15] ^= 0xff;
  must_fail(ADJ_E_FORMAT, "a.csv.gz: the compressed data is damaged",
            open_bytes(ctx, "a.csv.gz", file, size, NULL, &set));
  must_fail(ADJ_E_FORMAT, "a.csv.gz: does not begin like a gzip file", open_text(ctx, "a.csv.gz", text, NULL, &set));
  /* Raw values may begin like a gzip file by chance. They are still values. */
  adj_open_options options = open_defaults();
  options.shape = "u8:1";
  size = pack(file);
  must(open_bytes(ctx, "a.raw", file, size, &options, &set));
  assert_int_equal(adj_dataset_count(set), size);
  adj_dataset_destroy(set);
  must(open_bytes(ctx, "a.raw.gz", file, size, &options, &set));
  assert_int_equal(adj_dataset_count(set), sizeof text - 1);
  adj_dataset_destroy(set);
  if (have_hdf5(ctx)) {
    must(open_golden(ctx, "one.h5.gz", NULL, &set));
    check_and_destroy(set, ADJ_F32, 3, 2, points);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- Standard input ------------------------------------------------------------------------------------------ */

typedef struct feeder {
  int to;
  const char *bytes;
  size_t size;
} feeder;

static void *feed(void *user) {
  feeder *f = user;
  while (f->size) {
    ssize_t done = write(f->to, f->bytes, f->size < 30000 ? f->size : 30000);
    if (done <= 0) break;
    f->bytes += done;
    f->size -= (size_t)done;
  }
  close(f->to);
  return NULL;
}

/* Opens "-" while a thread writes bytes to the pipe that stands in for standard input. */
static adj_status open_piped(adj_ctx *ctx, const char *bytes, size_t size, adj_dataset **out) {
  int ends[2], kept = dup(STDIN_FILENO);
  assert_int_equal(pipe(ends), 0);
  assert_true(dup2(ends[0], STDIN_FILENO) >= 0);
  close(ends[0]);
  feeder f = {ends[1], bytes, size};
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, feed, &f), 0);
  adj_status status = adj_dataset_open(ctx, "-", NULL, out);
  pthread_join(thread, NULL);
  assert_true(dup2(kept, STDIN_FILENO) >= 0);
  close(kept);
  return status;
}

static void standard_input(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = NULL;
  must(open_piped(ctx, text, sizeof text - 1, &set));
  check_and_destroy(set, ADJ_F64, 3, 2, points);
  must_fail(ADJ_E_FORMAT, "standard input: line 2, column 1: \"a\" is not a number",
            open_piped(ctx, "1\na\n", 4, &set));
  must_fail(ADJ_E_FORMAT, "standard input: the file is empty", open_piped(ctx, "", 0, &set));
  const size_t lines = 100000;
  char *large = malloc(lines * 4);
  assert_non_null(large);
  for (size_t i = 0; i < lines; i++)
    memcpy(large + i * 4, "1,2\n", 4);
  must(open_piped(ctx, large, lines * 4, &set));
  assert_int_equal(adj_dataset_count(set), lines);
  adj_dataset_destroy(set);
  free(large);
  /* Redirected files are read as files if they are at the start, and as pipes if not. */
  char name[] = "stdin-XXXXXX";
  int file = mkstemp(name), kept = dup(STDIN_FILENO);
  assert_true(file >= 0);
  assert_int_equal(write(file, text, sizeof text - 1), sizeof text - 1);
  assert_true(dup2(file, STDIN_FILENO) >= 0);
  for (int skipped = 0; skipped <= 4; skipped += 4) {
    assert_int_equal(lseek(STDIN_FILENO, skipped, SEEK_SET), skipped);
    must(adj_dataset_open(ctx, "-", NULL, &set));
    check_and_destroy(set, ADJ_F64, 3, 2, points);
  }
  assert_true(dup2(kept, STDIN_FILENO) >= 0);
  close(kept);
  close(file);
  unlink(name);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void *cancel_soon(void *user) {
  usleep(50000);
  adj_cancel(user);
  return NULL;
}

/* A cancel ends the wait for input that never comes, and ends reading a file. */
static void cancelling(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = NULL;
  int ends[2], kept = dup(STDIN_FILENO);
  assert_int_equal(pipe(ends), 0);
  assert_true(dup2(ends[0], STDIN_FILENO) >= 0);
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, cancel_soon, ctx), 0);
  must_fail(ADJ_CANCELLED, "stopped by the caller", adj_dataset_open(ctx, "-", NULL, &set));
  pthread_join(thread, NULL);
  assert_true(dup2(kept, STDIN_FILENO) >= 0);
  close(kept);
  close(ends[0]);
  close(ends[1]);
  adji_call outer = adji_call_begin(&ctx->cancels); /* opening is a part of this call */
  adj_cancel(ctx);
  must_fail(ADJ_CANCELLED, "stopped by the caller", open_text(ctx, "a.csv", text, NULL, &set));
  adji_call_set(outer);
  must(open_text(ctx, "a.csv", text, NULL, &set));
  check_and_destroy(set, ADJ_F64, 3, 2, points);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- Memory ---------------------------------------------------------------------------------------------------- */

static void memory_limit(void **state) {
  (void)state;
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.memory_limit = 20000; /* enough for the text, not for its points */
  options.threads = 1;
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  adj_dataset *set = NULL;
  static char large[4000 * 4];
  for (size_t i = 0; i < 4000; i++)
    memcpy(large + i * 4, "1,2\n", 4);
  must_fail(ADJ_E_MEMORY, "a.csv: points: needs 62.5 KiB more",
            open_bytes(ctx, "a.csv", large, sizeof large, NULL, &set));
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* Fails the first, second, ... allocation of opening until opening succeeds. Each failure must be reported and leave
 * nothing behind. */
static void fail_each_allocation(adj_ctx *ctx, const char *name, const void *bytes, size_t size,
                                 const adj_open_options *options) {
  for (int64_t at = 0;; at++) {
    adj_dataset *set = NULL;
    atomic_store(&ctx->memory.fail_at, at);
    adj_status status = open_bytes(ctx, name, bytes, size, options, &set);
    bool failed = atomic_load(&ctx->memory.fail_at) < 0;
    atomic_store(&ctx->memory.fail_at, -1);
    if (!failed) {
      must(status);
      assert_true(at >= 1); /* every dataset needs at least its bounds */
      adj_dataset_destroy(set);
      assert_int_equal(adj_ctx_memory_used(ctx), 0);
      return;
    }
    assert_int_equal(status, ADJ_E_MEMORY);
    assert_null(set);
    assert_non_null(strstr(adj_last_error(), "out of memory"));
    assert_int_equal(strncmp(adj_last_error(), name, strlen(name)), 0);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
  }
}

/* The same for a copy in another type. */
static void fail_each_conversion(adj_ctx *ctx, const adj_open_options *options) {
  adj_dataset *set = NULL, *copy = NULL;
  must(open_text(ctx, "a.csv", text, options, &set));
  uint64_t used = adj_ctx_memory_used(ctx);
  for (int64_t at = 0; !copy; at++) {
    atomic_store(&ctx->memory.fail_at, at);
    adj_status status = adj_dataset_convert(set, ADJ_F32, &copy);
    bool failed = atomic_load(&ctx->memory.fail_at) < 0;
    atomic_store(&ctx->memory.fail_at, -1);
    assert_int_equal(status, failed ? ADJ_E_MEMORY : ADJ_OK);
    if (failed) assert_int_equal(adj_ctx_memory_used(ctx), used);
    assert_true(failed || at >= 4); /* points, two of labels, names, bounds */
  }
  adj_dataset_destroy(copy);
  adj_dataset_destroy(set);
}

static size_t load_golden(const char *name, void *bytes, size_t room) {
  char path[512];
  snprintf(path, sizeof path, "%s/%s", READERS_DATA, name);
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  size_t size = fread(bytes, 1, room, file);
  fclose(file);
  return size;
}

static void allocations_fail(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_open_options options = open_defaults();
  static unsigned char bytes[8192];
  fail_each_allocation(ctx, "a.csv", text, sizeof text - 1, NULL);
  options.id_column = "x";
  fail_each_allocation(ctx, "a.csv", text, sizeof text - 1, &options);
  fail_each_conversion(ctx, &options);
  options.normalise = 1;
  fail_each_allocation(ctx, "a.csv", text, sizeof text - 1, &options);
  fail_each_conversion(ctx, &options);
  options = open_defaults();
  static const char *arrays[] = {"f32.npy", "f16.npy", "f64_big_endian.npy"};
  for (int i = 0; i < 3; i++)
    fail_each_allocation(ctx, "a.npy", bytes, load_golden(arrays[i], bytes, sizeof bytes), NULL);
  static const unsigned char bvecs[] = {2, 0, 0, 0, 7, 8};
  fail_each_allocation(ctx, "a.bvecs", bvecs, sizeof bvecs, NULL);
  if (strstr(adj_build_features(), "zlib")) fail_each_allocation(ctx, "a.csv.gz", bytes, pack(bytes), NULL);
  if (have_hdf5(ctx)) {
    fail_each_allocation(ctx, "a.h5", bytes, load_golden("one.h5", bytes, sizeof bytes), NULL);
    options.dataset = "i32";
    fail_each_allocation(ctx, "a.h5", bytes, load_golden("several.h5", bytes, sizeof bytes), &options);
    if (strstr(adj_build_features(), "zlib"))
      fail_each_allocation(ctx, "a.h5.gz", bytes, load_golden("one.h5.gz", bytes, sizeof bytes), NULL);
  }
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(choosing),        cmocka_unit_test(arguments),  cmocka_unit_test(gzip),
      cmocka_unit_test(standard_input),  cmocka_unit_test(cancelling), cmocka_unit_test(memory_limit),
      cmocka_unit_test(allocations_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
