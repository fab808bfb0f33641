/* SPDX-License-Identifier: MIT
 *
 * Parts of files (adj_open_options.parts). In every format the parts together are the whole file. Messages name rows of
 * the file. A file that can only be read as a whole gives an error that says so.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "files.h"

/* Copies the rows of every part of the file to `rows`, which has room for all of them, and checks that parts follow
 * each other. Returns how many there are. */
static uint64_t read_parts(adj_ctx *ctx, const char *path, adj_open_options options, uint32_t parts, char *rows,
                           size_t row_bytes) {
  uint64_t at = 0;
  options.parts = parts;
  for (options.part = 0; options.part < parts; options.part++) {
    adj_dataset *set = NULL;
    uint64_t first, total;
    must(adj_dataset_open(ctx, path, &options, &set));
    adj_dataset_part(set, &first, &total);
    assert_int_equal(first, at);
    assert_int_equal(adj_dataset_count(set), total / parts + (options.part < total % parts));
    for (uint64_t i = 0; i < adj_dataset_count(set); i++)
      must(adj_dataset_row(set, i, rows + at++ * row_bytes));
    if (options.part + 1 == parts) assert_int_equal(at, total);
    adj_dataset_destroy(set);
  }
  return at;
}

static void check_parts(adj_ctx *ctx, const char *path, const adj_open_options *options) {
  static const uint32_t parts[] = {1, 2, 3, 7, 64};
  adj_dataset *set = NULL;
  must(adj_dataset_open(ctx, path, options, &set));
  uint64_t count = adj_dataset_count(set), total;
  adj_dataset_part(set, NULL, &total);
  assert_int_equal(total, count);
  size_t row_bytes = (size_t)adj_dataset_dim(set) * (adj_dataset_type(set) == ADJ_F64 ? 8 : 4);
  char *whole = malloc(count * row_bytes + 1), *rows = malloc(count * row_bytes + 1);
  assert_true(whole && rows);
  for (uint64_t i = 0; i < count; i++)
    must(adj_dataset_row(set, i, whole + i * row_bytes));
  adj_dataset_destroy(set);
  for (size_t p = 0; p < sizeof parts / sizeof *parts; p++) {
    assert_int_equal(read_parts(ctx, path, *options, parts[p], rows, row_bytes), count);
    assert_memory_equal(rows, whole, count * row_bytes);
  }
  free(whole);
  free(rows);
}

static void save(adj_ctx *ctx, const char *path, adj_type type, uint64_t count, uint32_t dim) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.type = type;
  options.count = count;
  options.dim = dim;
  adj_dataset *set = NULL;
  must(adj_dataset_generate(ctx, &options, &set));
  must(adj_dataset_save(set, path, NULL));
  adj_dataset_destroy(set);
}

/* Sizes around the number of parts, and more than a block of reading. */
static void every_format(void **state) {
  (void)state;
  static const struct {
    const char *path, *shape;
    adj_type type, as;
  } files[] = {{"parts.npy", NULL, ADJ_F32, 0},       {"parts.npy", NULL, ADJ_F64, 0},
               {"parts.npy", NULL, ADJ_F32, ADJ_F64}, {"parts.fbin", NULL, ADJ_F32, 0},
               {"parts.fvecs", NULL, ADJ_F32, 0},     {"parts.fvecs", NULL, ADJ_F32, ADJ_F64},
               {"parts.raw", "f64:3", ADJ_F64, 0},    {"parts.raw", "f64:3", ADJ_F64, ADJ_F32}};
  static const uint64_t counts[] = {1, 2, 65, 5000};
  adj_ctx *ctx = context_of(2, NULL);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++)
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
      adj_open_options options = open_defaults();
      options.shape = files[i].shape;
      options.type = files[i].as;
      save(ctx, files[i].path, files[i].type, counts[c], 3);
      check_parts(ctx, files[i].path, &options);
      options.map = 1;
      check_parts(ctx, files[i].path, &options);
      assert_int_equal(remove(files[i].path), 0);
    }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void hdf5(void **state) {
  (void)state;
  static const char *const names[] = {"group/f64be", "i32", "f16"};
  adj_ctx *ctx = context_of(2, NULL);
  adj_open_options options = open_defaults();
  if (!have_hdf5(ctx)) {
    adj_ctx_destroy(ctx);
    skip();
  }
  check_parts(ctx, READERS_DATA "/one.h5", &options);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    options.dataset = names[i];
    check_parts(ctx, READERS_DATA "/several.h5", &options);
  }
  adj_ctx_destroy(ctx);
}

/* Messages name the bad row by its number in the file. Only the part with this row fails. */
static void messages(void **state) {
  (void)state;
  float rows[10] = {0};
  int32_t vecs[20];
  adj_ctx *ctx = context_of(2, NULL);
  adj_open_options options = open_defaults();
  adj_dataset *set = NULL;
  rows[7] = NAN;
  options.shape = "f32:1";
  options.parts = 3; /* rows 0 to 3, 4 to 6, 7 to 9 */
  must(open_bytes(ctx, "bad.raw", rows, sizeof rows, &options, &set));
  adj_dataset_destroy(set);
  options.part = 2;
  must_fail(ADJ_E_DATA, "row 8, column 1: NaN", open_bytes(ctx, "bad.raw", rows, sizeof rows, &options, &set));
  for (size_t i = 0; i < 10; i++)
    vecs[2 * i] = 1 + (i == 8), vecs[2 * i + 1] = 0;
  must_fail(ADJ_E_FORMAT, "row 9: its dimension is 2", open_bytes(ctx, "bad.fvecs", vecs, sizeof vecs, &options, &set));
  options.part = 3;
  must_fail(ADJ_E_ARGUMENT, "part: 3 is not below the 3 parts",
            open_bytes(ctx, "bad.raw", rows, sizeof rows, &options, &set));
  adj_ctx_destroy(ctx);
}

static void as_a_whole(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_open_options options = open_defaults();
  adj_dataset *set = NULL;
  options.parts = 2;
  must_fail(ADJ_E_UNSUPPORTED, "parts: text can only be read as a whole",
            open_text(ctx, "points.csv", "x,y\n1,2\n", &options, &set));
  must_fail(ADJ_E_UNSUPPORTED, "Fortran", open_golden(ctx, "f64_fortran.npy", &options, &set));
  options.normalise = 1;
  must_fail(ADJ_E_UNSUPPORTED, "parts: normalised", open_golden(ctx, "f32.npy", &options, &set));
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_format), cmocka_unit_test(hdf5), cmocka_unit_test(messages),
                                     cmocka_unit_test(as_a_whole)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
