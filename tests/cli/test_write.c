/* SPDX-License-Identifier: MIT
 *
 * The internals of the writers: decimals, checksums, large zip files, outputs that must not survive a failure, and
 * memory that runs out at any allocation.
 */
#include <dirent.h>
#include <fcntl.h>
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/context.h"
#include "io/write.h"
#include "io/write_text.h"
#include "io/write_zip.h"

/* ---- Decimals --------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) {
  *state ^= *state << 13;
  *state ^= *state >> 7;
  return *state ^= *state << 17;
}

/* Significant digits of a printed number. */
static int significant_digits(const char *text) {
  int digits = 0, zeros = 0;
  for (; *text && *text != 'e'; text++) {
    if (*text < '0' || *text > '9') continue;
    if (*text == '0') {
      zeros += digits > 0;
    } else {
      digits += zeros + 1;
      zeros = 0;
    }
  }
  return digits;
}

/* The text reads back as the value, and one digit less would not. No other number with as many digits is nearer: it is
 * the C library's rounding to that many digits. */
static void check_double(const adji_decimals *decimals, double value) {
  char text[ADJI_REAL_TEXT + 1], other[64];
  char *end = adji_put_double(decimals, value, text);
  assert_in_range(end - text, 1, ADJI_REAL_TEXT);
  *end = 0;
  double back = strtod(text, NULL);
  assert_memory_equal(&back, &value, sizeof back);
  int digits = significant_digits(text);
  if (digits > 1) {
    snprintf(other, sizeof other, "%.*e", digits - 2, value);
    if (strtod(other, NULL) == value) fail_msg("%s could be %s", text, other);
  }
  snprintf(other, sizeof other, "%.*e", digits - 1, value);
  if (digits && strtod(other, NULL) == value && significant_digits(other) != digits) fail_msg("%s %s", text, other);
}

static void check_float(const adji_decimals *decimals, float value) {
  char text[ADJI_REAL_TEXT + 1], other[64];
  char *end = adji_put_float(decimals, value, text);
  assert_in_range(end - text, 1, ADJI_REAL_TEXT);
  *end = 0;
  float back = strtof(text, NULL);
  assert_memory_equal(&back, &value, sizeof back);
  int digits = significant_digits(text);
  if (digits < 2) return;
  snprintf(other, sizeof other, "%.*e", digits - 2, (double)value);
  if (strtof(other, NULL) == value) fail_msg("%s could be %s", text, other);
}

static void test_decimals_are_shortest(void **unused) {
  (void)unused;
  adji_decimals *decimals = malloc(sizeof *decimals);
  adji_decimals_init(decimals);
  uint64_t state = 88172645463325252u;
  for (int i = 0; i < 200000; i++) {
    uint64_t bits = next_random(&state);
    double value;
    memcpy(&value, &bits, sizeof value);
    if (isfinite(value)) check_double(decimals, value);
    check_double(decimals, (double)(bits >> 11) * 0x1p-53);
    uint32_t half = (uint32_t)(bits >> 32);
    float single;
    memcpy(&single, &half, sizeof single);
    if (isfinite(single)) check_float(decimals, single);
  }
  for (int e = -1074; e < 1024; e++) { /* the interval below a power of two is the narrower one */
    check_double(decimals, ldexp(1, e));
    check_double(decimals, nextafter(ldexp(1, e), 0));
    check_double(decimals, nextafter(ldexp(1, e), INFINITY));
    if (e >= -149 && e < 128) check_float(decimals, ldexpf(1, e));
  }
  for (int e = -323; e <= 308; e++) {
    char text[16];
    snprintf(text, sizeof text, "1e%d", e);
    check_double(decimals, strtod(text, NULL));
  }
  free(decimals);
}

static void test_decimals_look_right(void **unused) {
  (void)unused;
  static const struct {
    double value;
    const char *text;
  } doubles[] = {{0, "0"},
                 {-0.0, "-0"},
                 {1, "1"},
                 {0.1, "0.1"},
                 {-2.5, "-2.5"},
                 {100, "100"},
                 {0.0001, "0.0001"},
                 {0.00012345, "0.00012345"},
                 {0.00001, "1e-5"},
                 {123456789012345680.0, "1.2345678901234568e17"},
                 {12345678901234568.0, "12345678901234568"},
                 {1e17, "1e17"},
                 {1e16, "10000000000000000"},
                 {5e-324, "5e-324"},
                 {DBL_MAX, "1.7976931348623157e308"},
                 {-DBL_MIN, "-2.2250738585072014e-308"},
                 {9007199254740993.0, "9007199254740992"},
                 {2.2250738585072011e-308, "2.225073858507201e-308"},
                 {INFINITY, "inf"}};
  static const struct {
    float value;
    const char *text;
  } floats[] = {{0.1f, "0.1"}, {16777216, "16777216"},     {FLT_MAX, "3.4028235e38"}, {1e-45f, "1e-45"},
                {3.3f, "3.3"}, {FLT_MIN, "1.1754944e-38"}, {33554432, "33554432"},    {-INFINITY, "-inf"}};
  adji_decimals *decimals = malloc(sizeof *decimals);
  adji_decimals_init(decimals);
  char text[ADJI_REAL_TEXT + 1];
  for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
    *adji_put_double(decimals, doubles[i].value, text) = 0;
    assert_string_equal(text, doubles[i].text);
  }
  for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
    *adji_put_float(decimals, floats[i].value, text) = 0;
    assert_string_equal(text, floats[i].text);
  }
  free(decimals);
}

static void test_counts_as_text(void **unused) {
  (void)unused;
  char text[ADJI_COUNT_TEXT + 1], wanted[32];
  uint64_t bound = 1;
  for (int digits = 0; digits < 20; digits++, bound *= 10)
    for (uint64_t value = bound - 1; value <= bound + 1; value++) {
      *adji_put_count(value, text) = 0;
      snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)value);
      assert_string_equal(text, wanted);
    }
  *adji_put_count(UINT64_MAX, text) = 0;
  assert_string_equal(text, "18446744073709551615");
}

/* ---- Checksums and zip files ------------------------------------------------------------------ */

/* The definition, one bit at a time. */
static uint32_t slow_crc(const unsigned char *bytes, size_t count) {
  uint32_t crc = UINT32_MAX;
  for (size_t i = 0; i < count; i++) {
    crc ^= bytes[i];
    for (int bit = 0; bit < 8; bit++)
      crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
  }
  return ~crc;
}

static void test_crc(void **unused) {
  (void)unused;
  adji_crc_tables tables;
  adji_crc_init(&tables);
  assert_int_equal(adji_crc(&tables, "123456789", 9), 0xcbf43926u); /* the published check value */
  unsigned char bytes[300];
  uint64_t state = 1234567;
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = (unsigned char)(next_random(&state) >> 32);
  for (size_t count = 0; count <= sizeof bytes; count += 7) {
    uint32_t whole = slow_crc(bytes, count);
    assert_int_equal(adji_crc(&tables, bytes, count), whole);
    for (size_t cut = 0; cut <= count; cut += 13)
      assert_int_equal(
          adji_crc_join(adji_crc(&tables, bytes, cut), adji_crc(&tables, bytes + cut, count - cut), count - cut),
          whole);
  }
}

static uint64_t little_endian(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--)
    value = value << 8 | at[i];
  return value;
}

/* A member of 5 GiB and one after it: sizes and offsets that need zip64. The file is a hole except at its ends. It is
 * read here by the rules of the format, from the end backwards. */
static void test_zip64(void **unused) {
  (void)unused;
  const uint64_t large = (uint64_t)5 << 30;
  adj_ctx *ctx;
  adji_output *output;
  assert_int_equal(adj_ctx_create(NULL, &ctx), ADJ_OK);
  assert_int_equal(adji_output_open(ctx, "large.zip", 0, &output), ADJ_OK);
  adji_zip_member members[2] = {{.name = "a.npy", .bytes = large, .crc = 0x11223344}, {.name = "b.npy", .bytes = 3}};
  adji_zip_place(members, 2);
  assert_int_equal(adji_output_write_at(output, members[1].data_at, "end", 3), ADJ_OK);
  assert_int_equal(adji_zip_finish(output, members, 2), ADJ_OK);
  assert_int_equal(adji_output_close(output, ADJ_OK), ADJ_OK);

  int fd = open("large.zip", O_RDONLY);
  unsigned char tail[22 + 20], end64[56], central[128], local[64];
  off_t size = lseek(fd, 0, SEEK_END);
  assert_int_equal(pread(fd, tail, sizeof tail, size - (off_t)sizeof tail), sizeof tail);
  assert_int_equal(little_endian(tail, 4), 0x07064b50);
  assert_int_equal(little_endian(tail + 20, 4), 0x06054b50);
  assert_int_equal(little_endian(tail + 20 + 16, 4), 0xffffffffu);
  uint64_t end64_at = little_endian(tail + 8, 8);
  assert_int_equal(pread(fd, end64, sizeof end64, (off_t)end64_at), sizeof end64);
  assert_int_equal(little_endian(end64, 4), 0x06064b50);
  assert_int_equal(little_endian(end64 + 32, 8), 2);
  uint64_t directory_at = little_endian(end64 + 48, 8);
  assert_int_equal(directory_at, members[1].data_at + 3);
  assert_int_equal(directory_at + little_endian(end64 + 40, 8), end64_at);
  assert_in_range(pread(fd, central, sizeof central, (off_t)directory_at), 46 + 5 + 20, sizeof central);
  assert_int_equal(little_endian(central, 4), 0x02014b50);
  assert_int_equal(little_endian(central + 16, 4), 0x11223344);
  assert_int_equal(little_endian(central + 20, 4), 0xffffffffu);
  assert_int_equal(little_endian(central + 46 + 5 + 4, 8), large);
  assert_int_equal(pread(fd, local, sizeof local, (off_t)members[1].header_at), 30 + 5 + 3 + 26);
  assert_int_equal(little_endian(local, 4), 0x04034b50);
  assert_memory_equal(local + 30 + 5, "end", 3);
  close(fd);
  unlink("large.zip");
  adj_ctx_destroy(ctx);
}

/* Ids that do not fit int32: both index arrays are int64. */
static void test_npz_with_wide_ids(void **unused) {
  (void)unused;
  adj_ctx *ctx;
  assert_int_equal(adj_ctx_create(NULL, &ctx), ADJ_OK);
  const uint32_t ids[] = {7, 2999999999u, 2147483648u};
  const uint64_t offsets[] = {0, 2, 3};
  adji_rows rows = {.row_count = 2, .offsets = offsets, .ids = ids};
  const adji_pair_format *format = &adji_format_npz;
  adji_pair_writer writer = {.format = format,
                             .ctx = ctx,
                             .left_count = 2,
                             .right_count = 3000000000u,
                             .type = ADJ_F32,
                             .rows = 2,
                             .pairs = 3};
  adji_write_whole(&writer);
  assert_int_equal(adji_output_open(ctx, "wide.npz", 0, &writer.output), ADJ_OK);
  assert_int_equal(format->begin(&writer), ADJ_OK);
  assert_int_equal(format->rows(&writer, &rows), ADJ_OK);
  assert_int_equal(format->finish(&writer), ADJ_OK);
  assert_int_equal(format->complete(&writer), ADJ_OK);
  adji_free(&ctx->memory, writer.state);
  assert_int_equal(adji_output_close(writer.output, ADJ_OK), ADJ_OK);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);

  /* Each member has a local header of 30 bytes and a name, a .npy header of 128 bytes, and data. */
  unsigned char file[2048];
  int fd = open("wide.npz", O_RDONLY);
  ssize_t size = read(fd, file, sizeof file);
  close(fd);
  const size_t indptr_at = 30 + 10 + 128 + 3 + 30 + 9 + 128 + 16 + 30 + 10;
  const size_t indices_at = indptr_at + 128 + sizeof offsets + 30 + 11;
  assert_in_range(size, indices_at + 128 + sizeof offsets, sizeof file);
  assert_non_null(strstr((const char *)file + indptr_at + 10, "'<i8'"));
  for (size_t i = 0; i < 3; i++) {
    assert_int_equal(little_endian(file + indptr_at + 128 + 8 * i, 8), offsets[i]);
    assert_int_equal(little_endian(file + indices_at + 128 + 8 * i, 8), ids[i]);
  }
  unlink("wide.npz");
  adj_ctx_destroy(ctx);
}

/* Ids that do not fit int32 are refused before the first row. */
static void test_ivecs_refuses_large_ids(void **unused) {
  (void)unused;
  adj_ctx *ctx;
  assert_int_equal(adj_ctx_create(NULL, &ctx), ADJ_OK);
  adji_pair_writer writer = {
      .ctx = ctx, .left_count = 2, .right_count = 2147483648u, .type = ADJ_F32, .k = 5, .rows = 2, .pairs = 10};
  adji_write_whole(&writer);
  assert_int_equal(adji_output_open(ctx, "x.ivecs", 0, &writer.output), ADJ_OK);
  assert_int_equal(adji_table_ivecs.begin(&writer), ADJ_OK); /* the largest id is 2147483647 */
  writer.right_count++;
  assert_int_equal(adji_table_ivecs.begin(&writer), ADJ_E_ARGUMENT);
  assert_non_null(strstr(adj_last_error(), "2147483649 points"));
  writer.right_count = 10;
  writer.k = 2147483648u;
  assert_int_equal(adji_table_ivecs.begin(&writer), ADJ_E_ARGUMENT);
  assert_int_equal(adji_distances_fvecs.begin(&writer), ADJ_E_ARGUMENT);
  assert_non_null(strstr(adj_last_error(), "k is 2147483648"));
  assert_int_equal(adji_output_close(writer.output, ADJ_E_ARGUMENT), ADJ_E_ARGUMENT);
  adj_ctx_destroy(ctx);
}

/* ---- Outputs ---------------------------------------------------------------------------------- */

static int files_here(void) {
  DIR *folder = opendir(".");
  int count = 0;
  assert_non_null(folder);
  while (readdir(folder))
    count++;
  closedir(folder);
  return count - 2; /* "." and ".." */
}

static void test_output_vanishes_on_failure(void **unused) {
  (void)unused;
  adj_ctx *ctx;
  adji_output *output;
  assert_int_equal(adj_ctx_create(NULL, &ctx), ADJ_OK);
  assert_int_equal(adji_output_open(ctx, "x", 0, &output), ADJ_OK);
  assert_int_equal(files_here(), 1);
  assert_int_equal(access("x", F_OK), -1);
  assert_int_equal(adji_output_write(output, "abc", 3), ADJ_OK);
  assert_int_equal(adji_output_close(output, ADJ_E_LIMIT), ADJ_E_LIMIT);
  assert_int_equal(files_here(), 0);

  assert_int_equal(adji_output_open(ctx, "x", 0, &output), ADJ_OK);
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_cancel(ctx);
  adj_status status = adji_output_write(output, "abc", 3);
  assert_int_equal(status, ADJ_CANCELLED);
  assert_int_equal(adji_output_close(output, status), ADJ_CANCELLED);
  adji_call_set(outer);
  assert_int_equal(files_here(), 0);
  adj_ctx_destroy(ctx);
}

static void test_two_outputs_to_one_name(void **unused) {
  (void)unused;
  adj_ctx *ctx;
  adji_output *first, *second;
  assert_int_equal(adj_ctx_create(NULL, &ctx), ADJ_OK);
  assert_int_equal(adji_output_open(ctx, "x", 0, &first), ADJ_OK);
  assert_int_equal(adji_output_open(ctx, "x", 0, &second), ADJ_OK);
  assert_int_equal(adji_output_write(first, "first", 5), ADJ_OK);
  assert_int_equal(adji_output_write(second, "2nd", 3), ADJ_OK);
  assert_int_equal(adji_output_close(second, ADJ_OK), ADJ_OK);
  assert_int_equal(adji_output_close(first, ADJ_OK), ADJ_OK);
  struct stat info;
  assert_int_equal(stat("x", &info), 0);
  assert_int_equal(info.st_size, 5); /* the output that finished last, whole */
  assert_int_equal(files_here(), 1);
  unlink("x");
  adj_ctx_destroy(ctx);
}

static void test_bad_paths(void **unused) {
  (void)unused;
  adj_ctx *ctx;
  adji_output *output;
  assert_int_equal(adj_ctx_create(NULL, &ctx), ADJ_OK);
  static const struct {
    const char *path, *words;
    adj_status status;
  } bad[] = {{"", "must not be empty", ADJ_E_ARGUMENT},
             {".", "Is a directory", ADJ_E_IO},
             {"name/", "Is a directory", ADJ_E_IO},
             {"no/such/folder", "its folder does not exist", ADJ_E_IO}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_int_equal(adji_output_open(ctx, bad[i].path, 0, &output), bad[i].status);
    assert_non_null(strstr(adj_last_error(), bad[i].words));
  }
  assert_int_equal(files_here(), 0);
  adj_ctx_destroy(ctx);
}

/* Items of very different length, more than fit a round, come out in order and none is lost. */
static uint64_t format_number(const void *user, uint64_t first, uint64_t count, char *to) {
  const uint64_t *longest = user;
  char *at = to;
  for (uint64_t i = first; i < first + count; i++) {
    at = adji_put_count(i, at);
    uint64_t dots = i % 1000 ? 0 : *longest;
    memset(at, '.', dots);
    at += dots;
    *at++ = '\n';
  }
  return (uint64_t)(at - to);
}

static void test_items_stay_in_order(void **unused) {
  (void)unused;
  static const uint64_t longest_of[] = {0, 100, 5000};
  for (uint32_t threads = 1; threads <= 3; threads++)
    for (size_t l = 0; l < sizeof longest_of / sizeof *longest_of; l++) {
      adj_ctx_options options;
      adj_ctx_options_init(&options, sizeof options);
      options.threads = threads;
      adj_ctx *ctx;
      adji_output *output;
      assert_int_equal(adj_ctx_create(&options, &ctx), ADJ_OK);
      assert_int_equal(adji_output_open(ctx, "items", 0, &output), ADJ_OK);
      const uint64_t count = 123457;
      adji_items items = {count, longest_of[l] + 21, format_number, &longest_of[l]};
      assert_int_equal(adji_output_items(output, &items), ADJ_OK);
      assert_int_equal(adji_output_close(output, ADJ_OK), ADJ_OK);
      assert_int_equal(adj_ctx_memory_used(ctx), 0);
      FILE *file = fopen("items", "r");
      char line[6000];
      for (uint64_t i = 0; i < count; i++) {
        assert_non_null(fgets(line, sizeof line, file));
        char *end;
        assert_int_equal(strtoull(line, &end, 10), i);
        assert_int_equal(strlen(end), 1 + (i % 1000 ? 0 : longest_of[l]));
      }
      assert_null(fgets(line, sizeof line, file));
      fclose(file);
      unlink("items");
      adj_ctx_destroy(ctx);
    }
}

/* ---- Memory that runs out --------------------------------------------------------------------- */

typedef struct fault_world {
  adj_ctx *ctx;
  adj_dataset *points;
  adj_plan *plan;
} fault_world;

static void make_world(fault_world *world, adj_join_kind kind) {
  adj_generate_options generator;
  adj_generate_options_init(&generator, sizeof generator);
  generator.name = "unif";
  generator.count = 500;
  generator.dim = 2;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = kind;
  spec.radius = 0.1;
  spec.k = 30;
  spec.flags = ADJ_WITH_DISTANCE;
  assert_int_equal(adj_ctx_create(NULL, &world->ctx), ADJ_OK);
  assert_int_equal(adj_dataset_generate(world->ctx, &generator, &world->points), ADJ_OK);
  assert_int_equal(adj_plan_create(world->ctx, &spec, world->points, NULL, &world->plan), ADJ_OK);
}

static void end_world(fault_world *world) {
  adj_plan_destroy(world->plan);
  adj_dataset_destroy(world->points);
  assert_int_equal(adj_ctx_memory_used(world->ctx), 0);
  adj_ctx_destroy(world->ctx);
}

/* Fails the n-th allocation, for every n: each time there is an error, no file and no leak. */
static void check_faults(adj_join_kind kind, adj_status (*act)(fault_world *world, const char *path),
                         const char *path) {
  fault_world world;
  make_world(&world, kind);
  uint64_t before = adj_ctx_memory_used(world.ctx);
  adj_status status = ADJ_E_MEMORY;
  for (int64_t n = 0; status; n++) {
    assert_in_range(n, 0, 10000);
    atomic_store(&world.ctx->memory.fail_at, n);
    status = act(&world, path);
    atomic_store(&world.ctx->memory.fail_at, -1);
    assert_true(status == ADJ_OK || status == ADJ_E_MEMORY);
    assert_int_equal(files_here(), status == ADJ_OK);
    assert_int_equal(adj_ctx_memory_used(world.ctx), before);
  }
  unlink(path);
  end_world(&world);
}

static adj_status write_pairs(fault_world *world, const char *path) {
  return adj_write(world->plan, path, NULL, NULL, NULL);
}

static adj_status write_counts(fault_world *world, const char *path) {
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.counts = 1;
  return adj_write(world->plan, path, &options, NULL, NULL);
}

static adj_status save_points(fault_world *world, const char *path) {
  return adj_dataset_save(world->points, path, NULL);
}

static adj_status write_graph(fault_world *world, const char *path) {
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.format = "csr";
  return adj_write(world->plan, path, &options, NULL, NULL);
}

/* The second file must come and go with the first. It is removed here, which leaves one file to count. */
static adj_status write_with_distances(fault_world *world, const char *path) {
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.distances = "far.fvecs";
  adj_status status = adj_write(world->plan, path, &options, NULL, NULL);
  assert_int_equal(unlink("far.fvecs"), status ? -1 : 0);
  return status;
}

static void test_memory_faults(void **unused) {
  (void)unused;
  check_faults(ADJ_KNN, write_pairs, "near.npz");
  check_faults(ADJ_KNN, write_pairs, "near.csv");
  check_faults(ADJ_KNN, write_pairs, "near.npy");
  check_faults(ADJ_KNN, write_counts, "counts.csv");
  check_faults(ADJ_KNN, write_graph, "graph.npz");
  check_faults(ADJ_KNN, write_with_distances, "near.ivecs");
  check_faults(ADJ_RANGE, write_pairs, "pairs.npz");
  check_faults(ADJ_RANGE, write_pairs, "pairs.csv");
  check_faults(ADJ_RANGE, write_pairs, "pairs.npy");
  check_faults(ADJ_RANGE, write_counts, "counts.csv");
  check_faults(ADJ_RANGE, write_counts, "counts.npy");
  check_faults(ADJ_RANGE, save_points, "points.csv");
  check_faults(ADJ_RANGE, save_points, "points.npy");
}

static void test_arguments(void **unused) {
  (void)unused;
  fault_world world;
  make_world(&world, ADJ_RANGE);
  assert_int_equal(adj_write(NULL, "x.csv", NULL, NULL, NULL), ADJ_E_ARGUMENT);
  assert_int_equal(adj_write(world.plan, NULL, NULL, NULL, NULL), ADJ_E_ARGUMENT);
  assert_int_equal(adj_dataset_save(NULL, "x.csv", NULL), ADJ_E_ARGUMENT);
  assert_int_equal(adj_dataset_save(world.points, NULL, NULL), ADJ_E_ARGUMENT);
  assert_int_equal(adj_dataset_save(world.points, "x.csv", "npz"), ADJ_E_ARGUMENT);
  adj_write_options options = {0};
  assert_int_equal(adj_write(world.plan, "x.csv", &options, NULL, NULL), ADJ_E_STRUCT);
  adj_stats stats = {0};
  assert_int_equal(adj_write(world.plan, "x.csv", NULL, NULL, &stats), ADJ_E_STRUCT);
  adj_write_options_init(&options, sizeof options);
  options.distances = "y.npy"; /* for kNN joins only */
  assert_int_equal(adj_write(world.plan, "x.csv", &options, NULL, NULL), ADJ_E_ARGUMENT);
  assert_int_equal(files_here(), 0);
  end_world(&world);
}

/* Each test begins and ends in an empty folder. */
static int enter_folder(void **state) {
  const char *parent = getenv("TMPDIR");
  char *folder = malloc(1024);
  snprintf(folder, 1024, "%s/adjoin-write-XXXXXX", parent ? parent : P_tmpdir);
  *state = folder;
  return mkdtemp(folder) && !chdir(folder) ? 0 : -1;
}

static int leave_folder(void **state) {
  int failed = chdir("/") || rmdir(*state);
  free(*state);
  return failed;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_decimals_are_shortest),
      cmocka_unit_test(test_decimals_look_right),
      cmocka_unit_test(test_counts_as_text),
      cmocka_unit_test(test_crc),
      cmocka_unit_test(test_zip64),
      cmocka_unit_test(test_npz_with_wide_ids),
      cmocka_unit_test(test_ivecs_refuses_large_ids),
      cmocka_unit_test(test_output_vanishes_on_failure),
      cmocka_unit_test(test_two_outputs_to_one_name),
      cmocka_unit_test(test_bad_paths),
      cmocka_unit_test(test_items_stay_in_order),
      cmocka_unit_test(test_memory_faults),
      cmocka_unit_test(test_arguments),
  };
  return cmocka_run_group_tests(tests, enter_folder, leave_folder);
}
