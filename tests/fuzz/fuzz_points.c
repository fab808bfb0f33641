/* SPDX-License-Identifier: MIT
 *
 * The writers of points. What is read back must have the same bits and the same labels. The first byte chooses format
 * and type, the second the dimension. Then come the values; or, for the last choice of the second byte, a text table
 * whose first column has the labels.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"
#include "io/read.h"

static const char *const FORMATS[] = {"npy", "csv", "tsv", "raw", "fvecs", "fbin"};
enum { FORMAT_COUNT = sizeof FORMATS / sizeof *FORMATS, MOST_DIM = 7 };

static adj_dataset *labelled(const uint8_t *text, size_t size, adj_type type) {
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  options.id_column = "1";
  options.type = type;
  adji_source source;
  adji_source_borrow(fuzz_context(), "a.csv", text, size, &source);
  adj_dataset *set = NULL;
  adji_read_source(&source, &options, &set);
  adji_source_close(&source);
  return set;
}

/* Values may be anything; those that are not finite are refused. With a stride, every second coordinate is used. */
static adj_dataset *unlabelled(const uint8_t *bytes, size_t size, adj_type type, uint32_t dim, bool stride) {
  size_t each = type == ADJ_F64 ? 8 : 4, row = each * dim * (stride ? 2 : 1);
  void *data = malloc(size + 1);
  require(data != NULL);
  if (size) memcpy(data, bytes, size);
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.data = data;
  points.type = type;
  points.dim = dim;
  points.count = size / row;
  if (stride) points.column_stride = 2 * each;
  if (stride) points.row_stride = row;
  adj_dataset *set = NULL;
  adj_status status = adj_dataset_create(fuzz_context(), &points, &set);
  require(!status || status == ADJ_E_DATA);
  free(data);
  return set;
}

static void require_same(const adj_dataset *a, const adj_dataset *b) {
  uint32_t dim = adj_dataset_dim(a);
  size_t bytes = dim * (adj_dataset_type(a) == ADJ_F64 ? sizeof(double) : sizeof(float));
  require(adj_dataset_count(b) == adj_dataset_count(a) && adj_dataset_dim(b) == dim);
  require(adj_dataset_type(b) == adj_dataset_type(a));
  char *rows = malloc(2 * bytes);
  require(rows != NULL);
  for (uint64_t i = 0; i < adj_dataset_count(a); i++) {
    require(!adj_dataset_row(a, i, rows) && !adj_dataset_row(b, i, rows + bytes));
    require(!memcmp(rows, rows + bytes, bytes));
    size_t length[2];
    const char *label[2] = {adj_dataset_label(a, i, &length[0]), adj_dataset_label(b, i, &length[1])};
    require(!label[0] == !label[1]);
    if (label[0]) require(length[0] == length[1] && !memcmp(label[0], label[1], length[0]));
  }
  free(rows);
}

static void write_and_read(const adj_dataset *set, const char *format) {
  char path[32], shape[32];
  size_t length;
  snprintf(path, sizeof path, "points.%s", format);
  adj_type type = adj_dataset_type(set);
  bool text = !strcmp(format, "csv") || !strcmp(format, "tsv");
  adj_status status = adj_dataset_save(set, path, NULL);
  if (status) { /* these formats have f32 only */
    require(status == ADJ_E_ARGUMENT && type == ADJ_F64);
    require(!strcmp(format, "fvecs") || !strcmp(format, "fbin"));
    return;
  }
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  options.type = type;
  snprintf(shape, sizeof shape, "%s:%u", type == ADJ_F64 ? "f64" : "f32", adj_dataset_dim(set));
  if (!strcmp(format, "raw")) options.shape = shape;
  if (text && adj_dataset_label(set, 0, &length)) options.id_column = "id";
  adj_dataset *back = NULL;
  require(!adj_dataset_open(fuzz_context(), path, &options, &back));
  if (text || !adj_dataset_label(set, 0, &length)) require_same(set, back);
  adj_dataset_destroy(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 2) return 0;
  fuzz_enter_scratch();
  adj_type type = data[0] & 1 ? ADJ_F64 : ADJ_F32;
  uint32_t dim = data[1] % (MOST_DIM + 1);
  adj_dataset *set = dim ? unlabelled(data + 2, size - 2, type, dim, data[0] & 2) : labelled(data + 2, size - 2, type);
  if (set && adj_dataset_count(set)) write_and_read(set, FORMATS[(data[0] >> 2) % FORMAT_COUNT]);
  adj_dataset_destroy(set);
  require(adj_ctx_memory_used(fuzz_context()) == 0);
  return 0;
}
