/* SPDX-License-Identifier: MIT
 *
 * The writers of results. Readers that share no code with the library must find in the files what adj_collect returns.
 * The first byte chooses format and type, the second the kind of join, the third the radius or k. Then come the points.
 * Their coordinates are single bytes, so there are ties and duplicates.
 */
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

/* ---- Reading back -------------------------------------------------------------------------------------- */

typedef struct bytes {
  const char *at;
  size_t size;
} bytes;

static uint64_t little(const char *at, int width) {
  uint64_t value = 0;
  for (int i = width; i-- > 0;)
    value = value << 8 | (unsigned char)at[i];
  return value;
}

static int64_t little_signed(const char *at, int width) {
  return width == 4 ? (int64_t)(int32_t)little(at, 4) : (int64_t)little(at, 8);
}

/* The values of an array. Its header must contain these words. */
static bytes array_of(bytes file, const char *words) {
  require(file.size >= 10 && !memcmp(file.at, "\x93NUMPY\1", 8));
  size_t length = (size_t)little(file.at + 8, 2);
  require(file.size >= 10 + length && (10 + length) % 64 == 0 && file.at[9 + length] == '\n');
  char *header = malloc(length + 1);
  require(header != NULL);
  memcpy(header, file.at + 10, length);
  header[length] = 0;
  require(strstr(header, words) && strstr(header, "'fortran_order': False"));
  free(header);
  return (bytes){file.at + 10 + length, file.size - 10 - length};
}

/* A stored member of a zip file, found by the directory. */
static bytes member_of(bytes file, const char *name) {
  require(file.size >= 22);
  const char *end = file.at + file.size - 22;
  require(little(end, 4) == 0x06054b50);
  const char *at = file.at + little(end + 16, 4);
  for (uint64_t i = little(end + 10, 2); i > 0; i--) {
    require(at + 46 <= end && little(at, 4) == 0x02014b50);
    size_t length = (size_t)little(at + 28, 2);
    if (length == strlen(name) && !memcmp(at + 46, name, length)) {
      const char *local = file.at + little(at + 42, 4);
      require(little(at + 10, 2) == 0 && little(local, 4) == 0x04034b50);
      size_t skip = 30 + (size_t)little(local + 26, 2) + (size_t)little(local + 28, 2),
             size = (size_t)little(at + 24, 4);
      require(local + skip + size <= end);
      return (bytes){local + skip, size};
    }
    at += 46 + length + little(at + 30, 2) + little(at + 32, 2);
  }
  fuzz_stop(__FILE__, __LINE__, name);
}

/* ---- The join ------------------------------------------------------------------------------------------ */

typedef struct job {
  adj_dataset *left, *right;
  adj_join_spec spec;
  adj_type type;
  adj_result *result; /* in the order of the files */
  uint64_t rows, columns;
} job;

static adj_dataset *make(const uint8_t *data, uint64_t count, uint32_t dim, adj_type type) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  double *f64 = malloc((count * dim + 1) * sizeof *f64);
  float *f32 = malloc((count * dim + 1) * sizeof *f32);
  require(f64 && f32);
  for (uint64_t i = 0; i < count * dim; i++)
    f32[i] = (float)(f64[i] = (int8_t)data[i] / 16.0);
  points.data = type == ADJ_F64 ? (void *)f64 : (void *)f32;
  points.type = type;
  points.dim = dim;
  points.count = count;
  adj_dataset *set = NULL;
  require(!adj_dataset_create(fuzz_context(), &points, &set));
  free(f64);
  free(f32);
  return set;
}

/* ---- Comparing ----------------------------------------------------------------------------------------- */

static size_t type_size(const job *j) {
  return j->type == ADJ_F64 ? sizeof(double) : sizeof(float);
}

static uint64_t entries_of(const job *j) {
  return adj_result_offsets(j->result)[j->rows];
}

static void require_distances(const job *j, bytes values) {
  require(values.size == entries_of(j) * type_size(j));
  if (values.size) require(!memcmp(values.at, adj_result_distances(j->result), values.size));
}

/* Checks ids in an array of this width; padding is -1. */
static void require_ids(const job *j, bytes values, int width) {
  const uint32_t *ids = adj_result_ids(j->result);
  require(values.size == entries_of(j) * (size_t)width);
  for (uint64_t i = 0; i < entries_of(j); i++)
    require(little_signed(values.at + i * (size_t)width, width) == (ids[i] == ADJ_NO_ID ? -1 : (int64_t)ids[i]));
}

static void check_npz(const job *j, bytes file) {
  if (j->spec.kind == ADJ_KNN) {
    require_ids(j, array_of(member_of(file, "indices.npy"), "'<i8'"), 8);
    if (j->spec.flags & ADJ_WITH_DISTANCE) require_distances(j, array_of(member_of(file, "distances.npy"), "'<f"));
    return;
  }
  bytes indptr = array_of(member_of(file, "indptr.npy"), "'<i4'"),
        shape = array_of(member_of(file, "shape.npy"), "'<i8'");
  require(indptr.size == 4 * (j->rows + 1));
  for (uint64_t i = 0; i <= j->rows; i++)
    require(little(indptr.at + 4 * i, 4) == adj_result_offsets(j->result)[i]);
  require(little(shape.at, 8) == j->rows && little(shape.at + 8, 8) == j->columns);
  require_ids(j, array_of(member_of(file, "indices.npy"), "'<i4'"), 4);
  bytes data = array_of(member_of(file, "data.npy"), "'descr'");
  if (j->spec.flags & ADJ_WITH_DISTANCE) require_distances(j, data);
}

static void check_npy_pairs(const job *j, bytes file) {
  bool distances = j->spec.flags & ADJ_WITH_DISTANCE;
  bytes values = array_of(file, distances ? "'distance'" : "'<i8'");
  size_t each = 16 + (distances ? type_size(j) : 0);
  require(values.size == entries_of(j) * each);
  const char *at = values.at;
  for (uint64_t row = 0; row < j->rows; row++)
    for (uint64_t i = adj_result_offsets(j->result)[row]; i < adj_result_offsets(j->result)[row + 1]; i++, at += each) {
      require(little(at, 8) == row && little(at + 8, 8) == adj_result_ids(j->result)[i]);
      if (!distances) continue;
      const char *expected = (const char *)adj_result_distances(j->result) + i * type_size(j);
      require(!memcmp(at + 16, expected, type_size(j)));
    }
}

static void check_vecs(const job *j, bytes file) {
  uint64_t k = j->spec.k, each = 4 * (k + 1);
  require(file.size == j->rows * each);
  for (uint64_t row = 0; row < j->rows; row++) {
    require(little(file.at + row * each, 4) == k);
    for (uint64_t i = 0; i < k; i++)
      require(little(file.at + row * each + 4 * (i + 1), 4) == adj_result_ids(j->result)[row * k + i]);
  }
}

/* A number and the separator after it. */
static uint64_t take_count(const char **at, char after) {
  char *end;
  uint64_t value = strtoull(*at, &end, 10);
  require(end > *at && *end == after);
  *at = end + 1;
  return value;
}

static void take_distance(const job *j, const char **at, uint64_t entry) {
  char *end;
  bool wide = j->type == ADJ_F64;
  double f64 = strtod(*at, &end);
  float f32 = strtof(*at, &end);
  const char *expected = (const char *)adj_result_distances(j->result) + entry * type_size(j);
  require(end > *at && *end == '\n');
  require(!memcmp(wide ? (void *)&f64 : (void *)&f32, expected, type_size(j)));
  *at = end + 1;
}

static void check_text(const job *j, bytes file, char separator) {
  bool nearest = j->spec.kind == ADJ_KNN, distances = j->spec.flags & ADJ_WITH_DISTANCE;
  const char *at = strchr(file.at, '\n');
  require(at != NULL);
  at++;
  for (uint64_t row = 0; row < j->rows; row++)
    for (uint64_t i = adj_result_offsets(j->result)[row]; i < adj_result_offsets(j->result)[row + 1]; i++) {
      uint32_t id = adj_result_ids(j->result)[i];
      if (id == ADJ_NO_ID) continue;
      require(take_count(&at, separator) == row);
      if (nearest) require(take_count(&at, separator) == i - adj_result_offsets(j->result)[row] + 1);
      require(take_count(&at, distances ? separator : '\n') == id);
      if (distances) take_distance(j, &at, i);
    }
  require(at == file.at + file.size);
}

static void check_counts(const job *j, bytes file, const char *format) {
  bytes values = !strcmp(format, "npy") ? array_of(file, "'<u4'") : file;
  const char *at = strchr(file.at, '\n');
  for (uint64_t row = 0; row < j->rows; row++) {
    uint64_t count = 0;
    for (uint64_t i = adj_result_offsets(j->result)[row]; i < adj_result_offsets(j->result)[row + 1]; i++)
      count += adj_result_ids(j->result)[i] != ADJ_NO_ID;
    if (!strcmp(format, "npy")) {
      require(values.size == 4 * j->rows && little(values.at + 4 * row, 4) == count);
      continue;
    }
    require(at != NULL);
    at++;
    require(take_count(&at, strcmp(format, "tsv") ? ',' : '\t') == row && take_count(&at, '\n') == count);
    at--;
  }
}

static void check_file(const job *j, const char *format, bool counts) {
  char path[32];
  snprintf(path, sizeof path, "out.%s", format);
  bytes file = {0};
  char *held = fuzz_load(path, &file.size);
  require(held != NULL);
  file.at = held;
  bool nearest = j->spec.kind == ADJ_KNN;
  if (counts)
    check_counts(j, file, format);
  else if (!strcmp(format, "npz"))
    check_npz(j, file);
  else if (!strcmp(format, "ivecs"))
    check_vecs(j, file);
  else if (!strcmp(format, "npy") && nearest)
    require_ids(j, array_of(file, "'<i8'"), 8);
  else if (!strcmp(format, "npy"))
    check_npy_pairs(j, file);
  else
    check_text(j, file, strcmp(format, "tsv") ? ',' : '\t');
  free(held);
}

/* ---- The input ----------------------------------------------------------------------------------------- */

static const char *const FORMATS[] = {"npz", "csv", "tsv", "npy", "ivecs"};

static void run(job *j, const char *format, bool counts) {
  char path[32];
  snprintf(path, sizeof path, "out.%s", format);
  adj_plan *plan = NULL;
  require(!adj_plan_create(fuzz_context(), &j->spec, j->left, j->right, &plan));
  require(!adj_collect(plan, &j->result, NULL, NULL));
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.counts = counts;
  adj_status status = adj_write(plan, path, &options, NULL, NULL);
  if (status) { /* a format that such a result does not have */
    require(status == ADJ_E_ARGUMENT);
    require(counts ? !strcmp(format, "npz") || !strcmp(format, "ivecs") : !strcmp(format, "ivecs"));
  } else {
    check_file(j, format, counts);
  }
  adj_result_destroy(j->result);
  adj_plan_destroy(plan);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 3) return 0;
  fuzz_enter_scratch();
  job j = {.type = data[0] & 1 ? ADJ_F64 : ADJ_F32};
  uint32_t dim = 1 + (data[1] >> 5) % 3;
  uint64_t points = (size - 3) / dim;
  if (points > 200) points = 200;
  bool two_sets = data[1] & 1;
  uint64_t half = two_sets ? points / 2 : points;
  j.left = make(data + 3, half, dim, j.type);
  j.right = two_sets ? make(data + 3 + half * dim, points - half, dim, j.type) : NULL;
  j.rows = half;
  j.columns = two_sets ? points - half : half;
  adj_join_spec_init(&j.spec, sizeof j.spec);
  j.spec.kind = data[1] & 2 ? ADJ_KNN : ADJ_RANGE;
  j.spec.k = 1 + data[2] % 20;
  j.spec.radius = data[1] & 2 && data[1] & 4 ? INFINITY : data[2] / 32.0;
  j.spec.flags = (data[1] & 8 ? ADJ_WITH_DISTANCE : 0u) | (data[1] & 16 && !two_sets ? ADJ_WITH_SELF : 0u);
  if (data[1] & 4 && !(data[1] & 2)) j.spec.order = ADJ_ORDER_DISTANCE;
  run(&j, FORMATS[(data[0] >> 1) % 5], data[0] & 0x80);
  adj_dataset_destroy(j.right);
  adj_dataset_destroy(j.left);
  require(adj_ctx_memory_used(fuzz_context()) == 0);
  return 0;
}
