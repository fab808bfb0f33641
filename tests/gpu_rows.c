/* SPDX-License-Identifier: MIT
 *
 * Rows of a range join on a device, by id and by distance. Rows have lengths up to 8,400, about every thirtieth length.
 * Their ids lie in every kind of order along the row: random, consecutive, in runs of 64, in two clusters, and with one
 * id far from the others. By id, rows of evenly spread ids are sorted by buckets, others by networks
 * (gpu/shared/row_sort_rows.cuh).
 *
 * The right points are on a line and get denser along it: sqrt(0), sqrt(1), ... The queries go along the line, so rows
 * have all lengths. The expected rows are computed here, by the definition.
 *
 * Needs a GPU, but not cmocka. Exit status 0: passed; 77: no GPU here.
 */
#include <math.h>
#include <stdbool.h>

#include "on_device.h"

enum { RIGHT = 12000, LEFT = 300, KINDS = 5 };
static const double RADIUS = 25;
static const char *const KIND_NAMES[] = {"random", "consecutive", "runs of 64", "two clusters", "one far away"};

typedef struct entry {
  double sum;
  uint32_t id;
} entry;

/* The sets as values of both types. */
typedef struct sets {
  adj_type type;
  double left[LEFT], right[RIGHT]; /* along the line; rounded to the type */
} sets;

/* The id of the i-th point along the line. Each kind is a permutation. */
static void number_points(int kind, uint32_t *ids) {
  uint32_t run = kind == 0 ? 1 : 64;
  uint64_t state = 7;
  for (uint32_t i = 0; i < RIGHT; i++)
    ids[i] = i;
  if (kind == 3)
    for (uint32_t i = 0; i < RIGHT; i++)
      ids[i] = i % 2 ? RIGHT / 2 + i / 2 : i / 2;
  if (kind == 4) { /* the last ids, and id 0, are at the densest place */
    ids[0] = RIGHT - 1;
    ids[RIGHT - 1] = 0;
  }
  if (kind != 0 && kind != 2) return;
  for (uint32_t i = RIGHT / run; i > 1; i--) { /* shuffles the runs; a shorter run at the end stays */
    state = state * UINT64_C(6364136223846793005) + 1;
    uint32_t j = (uint32_t)((state >> 33) % i);
    for (uint32_t e = 0; e < run; e++) {
      uint32_t swapped = ids[(i - 1) * run + e];
      ids[(i - 1) * run + e] = ids[j * run + e];
      ids[j * run + e] = swapped;
    }
  }
}

static double rounded(adj_type type, double x) {
  return type == ADJ_F64 ? x : (double)(float)x;
}

static void make_sets(adj_type type, int kind, sets *s) {
  uint32_t ids[RIGHT];
  number_points(kind, ids);
  s->type = type;
  for (uint32_t i = 0; i < RIGHT; i++)
    s->right[ids[i]] = rounded(type, sqrt((double)i));
  for (uint32_t i = 0; i < LEFT; i++)
    s->left[i] = rounded(type, -RADIUS + 135.0 * i / LEFT);
}

/* The second coordinate is 0 and does not change the sum. */
static double sum_of(adj_type type, double x, double y) {
  if (type == ADJ_F64) return (x - y) * (x - y);
  float t = (float)x - (float)y;
  return (double)(t * t);
}

static int by_sum(const void *left, const void *right) {
  const entry *a = left, *b = right;
  return a->sum < b->sum ? -1 : a->sum > b->sum ? 1 : a->id < b->id ? -1 : a->id > b->id;
}

static uint32_t expected_row(const sets *s, uint32_t row, adj_order order, entry *out) {
  uint32_t length = 0;
  for (uint32_t id = 0; id < RIGHT; id++) {
    double sum = sum_of(s->type, s->left[row], s->right[id]);
    if (sum <= RADIUS * RADIUS) out[length++] = (entry){sum, id};
  }
  if (order == ADJ_ORDER_DISTANCE) qsort(out, length, sizeof *out, by_sum);
  return length;
}

static adj_cuda_points put(adj_type type, const double *along, uint64_t count, void **memory) {
  void *values = calloc(count * 2, type_size(type));
  need(values, "memory");
  for (uint64_t i = 0; i < count; i++) {
    if (type == ADJ_F64)
      ((double *)values)[2 * i] = along[i];
    else
      ((float *)values)[2 * i] = (float)along[i];
  }
  point_set set = {type, 2, count, values};
  adj_cuda_points points = to_device(&set, PACKED, memory);
  free(values);
  return points;
}

static void compare(const sets *s, adj_order order, const adj_cuda_result *result, const char *what) {
  uint64_t *offsets = from_device(adj_cuda_result_offsets(result), (LEFT + 1) * sizeof *offsets);
  uint32_t *ids = from_device(adj_cuda_result_ids(result), offsets[LEFT] * sizeof *ids);
  const void *there = adj_cuda_result_distances(result);
  char *distances = from_device(there, there ? offsets[LEFT] * type_size(s->type) : 0);
  entry *row = malloc(RIGHT * sizeof *row);
  need(row, "memory");
  bool same = true;
  for (uint32_t i = 0; i < LEFT; i++) {
    uint32_t length = expected_row(s, i, order, row);
    same = same && offsets[i + 1] - offsets[i] == length;
    for (uint32_t e = 0; e < length && same; e++) {
      uint64_t at = offsets[i] + e;
      same = ids[at] == row[e].id;
      if (there && s->type == ADJ_F64) same = same && ((double *)distances)[at] == sqrt(row[e].sum);
      if (there && s->type == ADJ_F32) same = same && ((float *)distances)[at] == sqrtf((float)row[e].sum);
    }
    if (same) continue;
    fprintf(stderr, "%s, %s: row %u of %u entries differs\n", what, s->type == ADJ_F64 ? "f64" : "f32", i, length);
    exit(1);
  }
  free(row);
  free(distances);
  free(ids);
  free(offsets);
}

static void check(adj_ctx *ctx, adj_type type, int kind) {
  sets *s = malloc(sizeof *s);
  need(s, "memory");
  make_sets(type, kind, s);
  void *memory[2];
  adj_cuda_points left = put(type, s->left, LEFT, &memory[0]), right = put(type, s->right, RIGHT, &memory[1]);
  for (adj_order order = ADJ_ORDER_ID; order <= ADJ_ORDER_DISTANCE; order++)
    for (int distances = 0; distances < 2; distances++) {
      adj_join_spec spec;
      adj_join_spec_init(&spec, sizeof spec);
      spec.radius = RADIUS;
      spec.order = order;
      spec.flags |= distances ? ADJ_WITH_DISTANCE : 0;
      adj_cuda_result *result = NULL;
      need(!adj_cuda_range_join(ctx, &spec, &left, &right, NULL, &result), "a join");
      compare(s, order, result, KIND_NAMES[kind]);
      adj_cuda_result_destroy(result, NULL);
    }
  need_cuda(cudaFree(memory[0]));
  need_cuda(cudaFree(memory[1]));
  free(s);
}

int main(void) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (adj_device_describe(0, &device)) {
    printf("%s\n", adj_last_error());
    return NO_GPU;
  }
  adj_ctx *ctx = NULL;
  need(!adj_ctx_create(NULL, &ctx), "a context");
  for (int kind = 0; kind < KINDS; kind++) {
    check(ctx, ADJ_F32, kind);
    check(ctx, ADJ_F64, kind);
  }
  adj_ctx_destroy(ctx);
  printf("%d kinds of rows as they should be\n", KINDS);
  return 0;
}
