/* SPDX-License-Identifier: MIT
 *
 * adjoin_share.h: shares that are written side by side, here by one process, give the same file as adj_write of the
 * whole join, byte for byte, in every format. Some shares have no rows.
 */
#define _GNU_SOURCE /* memmem */
#include "adjoin_share.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { MOST_SHARES = 9 };

typedef struct whole {
  adj_ctx *ctx;
  adj_dataset *points;
  adj_plan *plan;
  adj_result *result;
  int64_t *ids;
  uint64_t *counts;
} whole;

static void join_all(whole *w, const adj_join_spec *spec, uint64_t count) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "clusters";
  options.count = count;
  options.dim = 2;
  w->ctx = context_of(2, NULL);
  must(adj_dataset_generate(w->ctx, &options, &w->points));
  must(adj_plan_create(w->ctx, spec, w->points, NULL, &w->plan));
  must(adj_collect(w->plan, &w->result, NULL, NULL));
  const uint64_t *offsets = adj_result_offsets(w->result);
  w->ids = malloc((offsets[count] + 1) * sizeof *w->ids);
  w->counts = malloc((count + 1) * sizeof *w->counts);
  assert_true(w->ids && w->counts);
  for (uint64_t i = 0; i < offsets[count]; i++) {
    uint32_t id = adj_result_ids(w->result)[i];
    w->ids[i] = id == ADJ_NO_ID ? -1 : (int64_t)id;
  }
  for (uint64_t i = 0; i < count; i++)
    w->counts[i] = offsets[i + 1] - offsets[i];
}

static void destroy(whole *w) {
  adj_result_destroy(w->result);
  adj_plan_destroy(w->plan);
  adj_dataset_destroy(w->points);
  assert_int_equal(adj_ctx_memory_used(w->ctx), 0);
  adj_ctx_destroy(w->ctx);
  free(w->ids);
  free(w->counts);
}

static char *read_all(const char *path, size_t *bytes) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  assert_int_equal(fseek(file, 0, SEEK_END), 0);
  *bytes = (size_t)ftell(file);
  rewind(file);
  char *text = malloc(*bytes + 1);
  assert_non_null(text);
  assert_int_equal(fread(text, 1, *bytes, file), *bytes);
  fclose(file);
  return text;
}

/* ---- Shares --------------------------------------------------------------------------------------------------- */

typedef struct shares {
  const whole *of;
  bool counts;
  uint32_t many;
  uint64_t first[MOST_SHARES + 1]; /* first row of each share */
  adj_share *share[MOST_SHARES];
  adj_share_size size[MOST_SHARES];
} shares;

static adj_share_rows rows_from(const shares *s, uint64_t first, uint64_t end) {
  adj_share_rows rows = {.first_row = first, .row_count = end - first};
  if (s->counts) {
    rows.counts = s->of->counts + first;
    return rows;
  }
  rows.offsets = adj_result_offsets(s->of->result) + first;
  rows.ids = s->of->ids;
  rows.distances = adj_result_distances(s->of->result);
  return rows;
}

static void place_all(shares *s) {
  adj_share_size all = {0}, before = {0};
  for (uint32_t i = 0; i < s->many; i++) {
    adj_share_rows rows = rows_from(s, s->first[i], s->first[i + 1]);
    if (adj_share_measures(s->share[i])) {
      must(adj_share_measure(s->share[i], &rows, &s->size[i]));
    } else {
      s->size[i].rows = rows.row_count;
      if (!s->counts) s->size[i].entries = rows.offsets[rows.row_count] - rows.offsets[0];
    }
    all.rows += s->size[i].rows;
    all.entries += s->size[i].entries;
    for (int f = 0; f < 2; f++)
      all.bytes[f] += s->size[i].bytes[f];
  }
  for (uint32_t i = 0; i < s->many; i++) {
    must(adj_share_place(s->share[i], i, s->many, &before, &s->size[i], &all));
    before.rows += s->size[i].rows;
    before.entries += s->size[i].entries;
    for (int f = 0; f < 2; f++)
      before.bytes[f] += s->size[i].bytes[f];
  }
}

/* Writes the last share first, as the order must not matter, and each share in two calls. */
static void write_all(shares *s, const char *path) {
  adj_share_sums sums[MOST_SHARES];
  must(adj_share_begin(s->share[0]));
  for (uint32_t i = s->many; i-- > 0;) {
    uint64_t first = s->first[i], end = s->first[i + 1], middle = first + (end - first) / 3;
    if (i) must(adj_share_join(s->share[i], adj_share_part(s->share[0], 0), adj_share_part(s->share[0], 1)));
    adj_share_rows some = rows_from(s, first, middle), others = rows_from(s, middle, end);
    must(adj_share_write(s->share[i], &some));
    must(adj_share_write(s->share[i], &others));
    must(adj_share_finish(s->share[i], &sums[i]));
  }
  assert_int_equal(access(path, F_OK), -1);
  must(adj_share_complete(s->share[0], sums));
  assert_int_equal(access(path, F_OK), 0);
}

static void check_file(const char *path, const char *expected, size_t expected_bytes) {
  size_t bytes;
  char *text = read_all(path, &bytes);
  assert_int_equal(bytes, expected_bytes);
  assert_memory_equal(text, expected, bytes);
  free(text);
  assert_int_equal(remove(path), 0);
}

static void check_format(const whole *w, const adj_join_spec *spec, const char *path, adj_write_options *write) {
  static const uint32_t many[] = {1, 2, 3, 9};
  size_t bytes[2] = {0};
  char *expected[2] = {NULL, NULL};
  must(adj_write(w->plan, path, write, NULL, NULL));
  expected[0] = read_all(path, &bytes[0]);
  assert_int_equal(remove(path), 0);
  if (write->distances) {
    expected[1] = read_all(write->distances, &bytes[1]);
    assert_int_equal(remove(write->distances), 0);
  }
  uint64_t count = adj_dataset_count(w->points);
  adj_share_options options;
  adj_share_options_init(&options, sizeof options);
  options.kind = spec->kind;
  options.type = adj_dataset_type(w->points);
  options.k = spec->kind == ADJ_KNN ? spec->k : 0;
  options.flags = spec->flags & ADJ_WITH_DISTANCE;
  options.left_count = options.right_count = count;
  for (size_t m = 0; m < sizeof many / sizeof *many; m++) {
    shares s = {.of = w, .counts = write->counts != 0, .many = many[m]};
    for (uint32_t i = 0; i < s.many; i++)
      must(adj_share_create(w->ctx, path, write, &options, &s.share[i]));
    for (uint32_t i = 1; i <= s.many; i++) /* uneven shares, some of them empty */
      s.first[i] = i == s.many ? count : i % 2 ? s.first[i - 1] : count * i / (s.many + 1);
    place_all(&s);
    write_all(&s, path);
    for (uint32_t i = 0; i < s.many; i++)
      adj_share_destroy(s.share[i]);
    check_file(path, expected[0], bytes[0]);
    if (write->distances) check_file(write->distances, expected[1], bytes[1]);
  }
  free(expected[0]);
  free(expected[1]);
}

/* ---- Tests ---------------------------------------------------------------------------------------------------- */

static void pairs(void **state) {
  (void)state;
  static const char *const paths[] = {"share.npz", "share.npy", "share.csv", "share.tsv"};
  for (uint32_t flags = 0; flags <= ADJ_WITH_DISTANCE; flags++) {
    whole w = {0};
    adj_join_spec spec;
    adj_write_options write;
    adj_join_spec_init(&spec, sizeof spec);
    spec.radius = 0.02;
    spec.flags = flags;
    join_all(&w, &spec, 700);
    adj_write_options_init(&write, sizeof write);
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
      check_format(&w, &spec, paths[i], &write);
    write.counts = 1;
    check_format(&w, &spec, "share.npy", &write);
    check_format(&w, &spec, "share.csv", &write);
    destroy(&w);
  }
}

static void neighbours(void **state) {
  (void)state;
  static const char *const paths[] = {"share.npz", "share.npy", "share.csv", "share.ivecs"};
  whole w = {0};
  adj_join_spec spec;
  adj_write_options write;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.k = 5;
  spec.radius = 0.005; /* some rows are padded */
  spec.flags = ADJ_WITH_DISTANCE;
  join_all(&w, &spec, 700);
  adj_write_options_init(&write, sizeof write);
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    check_format(&w, &spec, paths[i], &write);
  write.distances = "distances.fvecs";
  check_format(&w, &spec, "share.ivecs", &write);
  write.distances = "distances.npy";
  check_format(&w, &spec, "share.npy", &write);
  write.distances = NULL;
  write.format = "csr";
  check_format(&w, &spec, "share.npz", &write);
  destroy(&w);
}

/* With more points than 32 bits can count, ids are int64 and counts uint64. */
static void wide_ids(void **state) {
  (void)state;
  const int64_t ids[] = {5000000000, 7};
  const uint64_t offsets[] = {0, 2}, counts[] = {5000000001};
  adj_ctx *ctx = context_of(1, NULL);
  adj_share_options options;
  adj_share_size size = {1, 2, {0, 0}}, nothing = {0};
  adj_share_sums sums;
  adj_share *share = NULL;
  adj_write_options write;
  adj_write_options_init(&write, sizeof write);
  adj_share_options_init(&options, sizeof options);
  options.left_count = 1;
  options.right_count = 5000000001;
  must(adj_share_create(ctx, "wide.npz", &write, &options, &share));
  must(adj_share_place(share, 0, 1, &nothing, &size, &size));
  must(adj_share_begin(share));
  adj_share_rows rows = {.row_count = 1, .offsets = offsets, .ids = ids};
  must(adj_share_write(share, &rows));
  must(adj_share_finish(share, &sums));
  must(adj_share_complete(share, &sums));
  adj_share_destroy(share);
  size_t bytes;
  char *text = read_all("wide.npz", &bytes);
  assert_non_null(memmem(text, bytes, ids, sizeof ids));
  free(text);
  write.counts = 1;
  size.entries = 0;
  must(adj_share_create(ctx, "wide.npy", &write, &options, &share));
  must(adj_share_place(share, 0, 1, &nothing, &size, &size));
  must(adj_share_begin(share));
  rows = (adj_share_rows){.row_count = 1, .counts = counts};
  must(adj_share_write(share, &rows));
  must(adj_share_finish(share, &sums));
  must(adj_share_complete(share, &sums));
  adj_share_destroy(share);
  text = read_all("wide.npy", &bytes);
  assert_non_null(memmem(text, bytes, "'<u8'", 5));
  assert_memory_equal(text + bytes - 8, counts, 8);
  free(text);
  assert_int_equal(remove("wide.npz"), 0);
  assert_int_equal(remove("wide.npy"), 0);
  adj_ctx_destroy(ctx);
}

/* A share that is destroyed leaves nothing behind, and an older file stays. */
static void given_up(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_share_options options;
  adj_share_size size = {0};
  adj_share *share = NULL;
  adj_share_options_init(&options, sizeof options);
  must(adj_share_create(ctx, "gone.npz", NULL, &options, &share));
  must(adj_share_place(share, 0, 2, &size, &size, &size));
  must(adj_share_begin(share));
  char *part = strdup(adj_share_part(share, 0));
  assert_non_null(part);
  assert_int_equal(access(part, F_OK), 0);
  adj_share_destroy(share);
  assert_int_equal(access(part, F_OK), -1);
  assert_int_equal(access("gone.npz", F_OK), -1);
  free(part);
  must_fail(ADJ_E_ARGUMENT, "standard output", adj_share_create(ctx, "-", NULL, &options, &share));
  must_fail(ADJ_E_ARGUMENT, "not a format", adj_share_create(ctx, "x.xyz", NULL, &options, &share));
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pairs), cmocka_unit_test(neighbours), cmocka_unit_test(wide_ids),
                                     cmocka_unit_test(given_up)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
