/* SPDX-License-Identifier: MIT
 *
 * Points derived on a device, for cosine and great-circle joins of adjoin_cuda.h: the same bits as on the host, the
 * same error for a row without a derived point, and no memory lost when any CUDA call fails.
 *
 * Needs a GPU, but not cmocka. Exit status 0: passed; 77: no GPU here.
 */
#include "data/derive.h"

#include <math.h>

#include "gpu/device/derive.h"
#include "on_device.h"

static uint64_t random_state = 1;

static uint64_t random_bits(void) {
  random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return random_state >> 20;
}

/* Uniform in [-1, 1). */
static double random_unit(void) {
  return (double)(random_bits() & 0xffffffff) / 0x1p31 - 1;
}

static point_set make_set(adj_type type, uint64_t count, uint32_t dim) {
  point_set set = {type, dim, count, calloc(count * dim + 1, type_size(type))};
  need(set.data, "memory");
  return set;
}

static void put(point_set *set, uint64_t row, uint32_t j, double x) {
  uint64_t at = row * set->dim + j;
  if (set->type == ADJ_F64)
    ((double *)set->data)[at] = x;
  else
    ((float *)set->data)[at] = (float)x;
}

/* ---- Bits ------------------------------------------------------------------------------------------------ */

/* Directions of all lengths, with many zeros and with coordinates that vanish beside others. No row is all 0, even in
 * f32. */
static point_set make_directions(adj_type type, uint64_t count, uint32_t dim) {
  point_set set = make_set(type, count, dim);
  int most = type == ADJ_F64 ? 1000 : 120;
  for (uint64_t i = 0; i < count; i++) {
    int row = (int)(random_bits() % (2 * (uint64_t)most)) - most;
    for (uint32_t j = 0; j < dim; j++) {
      int exponent = i % 3 == 1 ? (int)(random_bits() % (2 * (uint64_t)most)) - most : row;
      put(&set, i, j, i % 5 == 2 && random_bits() % 4 ? 0 : ldexp(random_unit(), exponent));
    }
    put(&set, i, (uint32_t)(random_bits() % dim), i % 7 ? ldexp(1.5, row) : type == ADJ_F64 ? 0x1p-1074 : 0x1p-149);
  }
  return set;
}

/* Places: anywhere, at eighths of a turn and next to them, at the poles, many turns away. */
static point_set make_places(adj_type type, uint64_t count, adj_angle angle) {
  point_set set = make_set(type, count, 2);
  double half = angle == ADJ_DEGREES ? 180 : ADJI_PI, pole = half / 2;
  if (type == ADJ_F32) pole = (double)(float)pole;
  for (uint64_t i = 0; i < count; i++) {
    double longitude = half * random_unit(), latitude = pole * random_unit();
    if (i % 5 == 1) longitude = half / 4 * (double)((int64_t)(random_bits() % 33) - 16);
    if (i % 5 == 2) latitude = pole * (double)((int64_t)(random_bits() % 5) - 2) / 2;
    if (i % 5 == 3) longitude *= angle == ADJ_DEGREES ? ldexp(1, (int)(random_bits() % 100)) : 300000;
    if (i % 15 == 1) longitude = nextafter(longitude, 0);
    put(&set, i, 0, longitude);
    put(&set, i, 1, latitude);
  }
  return set;
}

/* cosine: unit vectors; otherwise places. */
static void check_bits(adji_gpu *gpu, const point_set *given, bool cosine, adj_angle angle) {
  adj_ctx *ctx = adji_gpu_ctx(gpu);
  adj_dataset *set = to_set(ctx, given), *host = NULL;
  need(!(adji_derive(ctx, set, cosine ? ADJ_COSINE : ADJ_HAVERSINE, angle, &host)), "the host");
  size_t size = type_size(given->type), bytes = given->count * host->dim * size;
  for (layout how = PACKED; how < LAYOUTS; how++) {
    void *memory = NULL;
    adj_cuda_points points = to_device(given, how, &memory);
    need_cuda(cudaDeviceSynchronize());
    adji_gpu_rows rows = {
        points.data, points.type, points.dim, points.count, points.row_stride / size, points.column_stride / size};
    adji_gpu_points derived = {0};
    adji_gpu_lock(gpu);
    need(!(cosine ? adji_gpu_derive_units(gpu, &rows, &derived) : adji_gpu_derive_sphere(gpu, &rows, angle, &derived)),
         "the device");
    need(derived.rows.dim == host->dim && derived.rows.count == host->count, "the shape of the derived set");
    char *got = from_device(derived.rows.data, bytes);
    for (size_t at = 0; at < bytes; at += size)
      if (memcmp(got + at, host->data + at, size) != 0) {
        fprintf(stderr, "%s, %u-D, %s, %s: row %llu, column %llu has other bits\n", cosine ? "unit vectors" : "places",
                given->dim, given->type == ADJ_F64 ? "f64" : "f32", LAYOUT_NAMES[how],
                (unsigned long long)(at / size / host->dim + 1), (unsigned long long)(at / size % host->dim + 1));
        exit(1);
      }
    free(got);
    adji_gpu_points_free(&derived);
    adji_gpu_unlock(gpu);
    need_cuda(cudaFree(memory));
  }
  adj_dataset_destroy(host);
  adj_dataset_destroy(set);
}

static void check_all_bits(adji_gpu *gpu) {
  static const uint32_t dims[] = {1, 2, 3, 8, 9, 31, 32, 33, 64, 100, 1000};
  static const uint64_t counts[] = {1, 31, 33, 127, 129, 2000};
  for (adj_type type = ADJ_F32; type <= ADJ_F64; type++)
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
      for (size_t d = 0; d < sizeof dims / sizeof *dims; d++) {
        point_set set = make_directions(type, counts[c], dims[d]);
        check_bits(gpu, &set, true, ADJ_DEGREES);
        free(set.data);
      }
      for (adj_angle angle = ADJ_DEGREES; angle <= ADJ_RADIANS; angle++) {
        point_set set = make_places(type, 50 * counts[c], angle);
        check_bits(gpu, &set, false, angle);
        free(set.data);
      }
    }
  printf("unit vectors and places: the bits of the host\n");
}

/* ---- Refusals --------------------------------------------------------------------------------------------- */

typedef struct refusal {
  adj_metric metric;
  adj_angle angle;
  uint32_t dim;
  double bad[2];    /* first two columns of the bad row; its others are 0 */
  const char *says; /* the message; NULL: that of the host               */
} refusal;

static const refusal REFUSALS[] = {
    {ADJ_COSINE, ADJ_DEGREES, 2, {0, 0}, NULL},
    {ADJ_COSINE, ADJ_DEGREES, 40, {0, -0.0}, NULL},
    {ADJ_COSINE, ADJ_DEGREES, 3, {1, NAN}, "row 1235, column 2: is not a finite number"},
    {ADJ_COSINE, ADJ_DEGREES, 40, {INFINITY, 0}, "row 1235, column 1: is not a finite number"},
    {ADJ_HAVERSINE, ADJ_DEGREES, 2, {5, 90.5}, NULL},
    {ADJ_HAVERSINE, ADJ_DEGREES, 2, {5, -91}, NULL},
    {ADJ_HAVERSINE, ADJ_RADIANS, 2, {0, 1.5708}, NULL},
    {ADJ_HAVERSINE, ADJ_RADIANS, 2, {2e6, 0}, NULL},
    {ADJ_HAVERSINE, ADJ_RADIANS, 2, {2, NAN}, "row 1235, column 2: is not a finite number"},
};

enum { GOOD = 3000, BAD_ROW = 1234, WORSE_ROW = 2345 };

static point_set make_refused(const refusal *r, adj_type type, bool bad) {
  point_set set = make_set(type, GOOD, r->dim);
  for (uint64_t i = 0; i < GOOD; i++)
    for (uint32_t j = 0; j < r->dim; j++)
      put(&set, i, j, bad && (i == BAD_ROW || i == WORSE_ROW) ? (j < 2 ? r->bad[j] : 0) : random_unit());
  return set;
}

static adj_join_spec refused_spec(const refusal *r, bool knn) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = knn ? ADJ_KNN : ADJ_RANGE;
  spec.k = knn ? 4 : 0;
  spec.radius = 0.01;
  spec.metric = r->metric;
  spec.angle = r->angle;
  return spec;
}

/* side 0: a self-join of the bad set; 1 or 2: the bad set is the left or the right one. */
static void check_refusal(adji_gpu *gpu, const refusal *r, adj_type type, int side, layout how, bool knn) {
  adj_ctx *ctx = adji_gpu_ctx(gpu);
  point_set sets[2] = {make_refused(r, type, side < 2), make_refused(r, type, side == 2)};
  void *memory[2];
  adj_cuda_points left = to_device(&sets[0], how, &memory[0]), right = to_device(&sets[1], how, &memory[1]);
  adj_join_spec spec = refused_spec(r, knn);
  char wanted[256];
  snprintf(wanted, sizeof wanted, "%s%s", side ? (side == 1 ? "left: " : "right: ") : "", r->says ? r->says : "");
  if (!r->says) {
    adj_dataset *a = to_set(ctx, &sets[0]), *b = side ? to_set(ctx, &sets[1]) : NULL;
    adj_plan *plan = NULL;
    spec.backend = ADJ_BACKEND_CPU;
    need(adj_plan_create(ctx, &spec, a, b, &plan) == ADJ_E_DATA, "the host refuses the row too");
    snprintf(wanted, sizeof wanted, "%s", adj_last_error());
    adj_dataset_destroy(a);
    adj_dataset_destroy(b);
  }
  uint64_t used = adji_gpu_used(gpu);
  adj_cuda_result *result = NULL;
  adj_status status = knn ? adj_cuda_knn_join(ctx, &spec, &left, side ? &right : NULL, NULL, &result)
                          : adj_cuda_range_join(ctx, &spec, &left, side ? &right : NULL, NULL, &result);
  if (status != ADJ_E_DATA || strcmp(adj_last_error(), wanted) != 0) {
    fprintf(stderr, "expected \"%s\"\n", wanted);
    need(false, "a row that is refused");
  }
  need(!result && adji_gpu_used(gpu) == used, "nothing is left of a join that was refused");
  for (int i = 0; i < 2; i++) {
    need_cuda(cudaFree(memory[i]));
    free(sets[i].data);
  }
}

static void check_refusals(adji_gpu *gpu) {
  for (size_t i = 0; i < sizeof REFUSALS / sizeof *REFUSALS; i++)
    for (adj_type type = ADJ_F32; type <= ADJ_F64; type++)
      for (int side = 0; side < 3; side++)
        for (layout how = PACKED; how < LAYOUTS; how++)
          check_refusal(gpu, &REFUSALS[i], type, side, how, (side + (int)how) % 2);
  printf("rows that have no derived point: refused as on the host\n");
}

/* ---- Failures ---------------------------------------------------------------------------------------------- */

/* The n-th CUDA call fails, for n from 0 until the join succeeds. */
static void check_failures(adji_gpu *gpu, const refusal *r, bool knn) {
  adj_ctx *ctx = adji_gpu_ctx(gpu);
  point_set set = make_refused(r, ADJ_F32, false);
  void *memory;
  adj_cuda_points points = to_device(&set, PACKED, &memory);
  adj_join_spec spec = refused_spec(r, knn);
  uint64_t device_bytes = adji_gpu_used(gpu), host_bytes = adj_ctx_memory_used(ctx);
  for (int64_t n = 0;; n++) {
    adj_cuda_result *result = NULL;
    adji_gpu_fail_at(gpu, n);
    adj_status status = knn ? adj_cuda_knn_join(ctx, &spec, &points, NULL, NULL, &result)
                            : adj_cuda_range_join(ctx, &spec, &points, NULL, NULL, &result);
    int64_t calls = adji_gpu_fail_at(gpu, -1);
    need(!status || (status == ADJ_E_DEVICE && !result), "a failure that is told");
    if (!status) adj_cuda_result_destroy(result, NULL);
    need(adji_gpu_used(gpu) == device_bytes, "device memory is given back");
    need(adj_ctx_memory_used(ctx) == host_bytes, "host memory is given back");
    need(n < 100000, "an end to the failures");
    if (!status && calls <= n) {
      printf("%s, %u-D, %s: each of %lld calls failed once\n", r->metric == ADJ_COSINE ? "cosine" : "great circle",
             r->dim, knn ? "kNN" : "range", (long long)n);
      break;
    }
  }
  need_cuda(cudaFree(memory));
  free(set.data);
}

int main(void) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (adj_device_describe(0, &device)) {
    printf("%s\n", adj_last_error());
    return NO_GPU;
  }
  adj_ctx *ctx = NULL;
  adji_gpu *gpu = NULL;
  need(!adj_ctx_create(NULL, &ctx), "a context");
  need(!adji_gpu_of(ctx, &gpu), "the device");
  check_all_bits(gpu);
  check_refusals(gpu);
  for (int knn = 0; knn < 2; knn++) {
    check_failures(gpu, &REFUSALS[1], knn);
    check_failures(gpu, &REFUSALS[4], knn);
  }
  adj_ctx_destroy(ctx);
  return 0;
}
