/* SPDX-License-Identifier: MIT
 *
 * Derived sets. Each row's bits depend on that row alone and on operations that IEEE 754 fixes, so they
 * are the same on every machine (docs/exactness.md).
 */
#include "data/derive.h"

#include <math.h>

#include "core/angles.h"

typedef struct derive {
  const adj_dataset *set;
  adj_angle angle;
  uint32_t dim; /* of the derived rows */
  char *data;
  uint64_t slices;
  adj_status (*row)(const struct derive *d, uint64_t row);
} derive;

static void put(const derive *d, uint64_t row, uint32_t j, double x) {
  uint64_t at = row * d->dim + j;
  if (d->set->type == ADJ_F64)
    ((double *)(void *)d->data)[at] = x;
  else
    ((float *)(void *)d->data)[at] = (float)x;
}

/* The length is summed in f64, of coordinates that are scaled by a power of two such that the largest
 * is in [1/2, 1): no square of it over- or underflows, and equal directions of different length give
 * equal rows where the lengths differ by a power of two. */
static adj_status unit_row(const derive *d, uint64_t row) {
  double largest = 0, sum = 0;
  for (uint32_t j = 0; j < d->dim; j++)
    largest = fmax(largest, fabs(adji_dataset_at(d->set, row, j)));
  if (largest == 0)
    return adji_fail(ADJ_E_DATA, "row %llu: all coordinates are 0; such a point has no direction and no cosine",
                     (unsigned long long)row + 1);
  int exponent;
  frexp(largest, &exponent);
  for (uint32_t j = 0; j < d->dim; j++) {
    double x = ldexp(adji_dataset_at(d->set, row, j), -exponent);
    sum = fma(x, x, sum);
  }
  double length = sqrt(sum);
  for (uint32_t j = 0; j < d->dim; j++)
    put(d, row, j, ldexp(adji_dataset_at(d->set, row, j), -exponent) / length);
  return ADJ_OK;
}

static adj_status sphere_row(const derive *d, uint64_t row) {
  double longitude = adji_dataset_at(d->set, row, 0), latitude = adji_dataset_at(d->set, row, 1);
  bool degrees = d->angle == ADJ_DEGREES;
  /* A right angle rounded up to f32 is still a pole. */
  if (fabs(latitude) > (degrees ? 90 : d->set->type == ADJ_F32 ? (double)(float)(ADJI_PI / 2) : ADJI_PI / 2))
    return adji_fail(ADJ_E_DATA, "row %llu, column 2: latitude %g is beyond a pole; columns are longitude, latitude",
                     (unsigned long long)row + 1, latitude);
  if (!degrees && fabs(longitude) > ADJI_MOST_RADIANS)
    return adji_fail(ADJ_E_DATA, "row %llu, column 1: longitude %g is more radians than can be reduced to a turn",
                     (unsigned long long)row + 1, longitude);
  adji_direction east = degrees ? adji_direction_degrees(longitude) : adji_direction_radians(longitude);
  adji_direction north = degrees ? adji_direction_degrees(latitude) : adji_direction_radians(latitude);
  put(d, row, 0, north.cos * east.cos);
  put(d, row, 1, north.cos * east.sin);
  put(d, row, 2, north.sin);
  return ADJ_OK;
}

static adj_status derive_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const derive *d = user;
  uint64_t begin, end;
  adji_slice(d->set->count, d->slices, slice, &begin, &end);
  adj_status status = ADJ_OK;
  for (uint64_t row = begin; row < end && !status; row++)
    status = d->row(d, row);
  return status;
}

static adj_status derive_set(adj_ctx *ctx, derive *d, adj_dataset **out) {
  uint64_t begin = adji_now_ns(), count = d->set->count;
  d->slices = count / 4096 + 1;
  d->data = adji_alloc(&ctx->memory, adji_mul(count, d->dim), adji_type_size(d->set->type), "derived points");
  if (!d->data) return ADJ_E_MEMORY;
  adj_status status = adji_loop(ctx, d->slices, derive_slice, d);
  adji_dataset_parts parts = {.type = d->set->type,
                              .dim = d->dim,
                              .count = count,
                              .data = d->data,
                              .release = adji_release_block,
                              .owner = d->data};
  if (!status) status = adji_dataset_adopt(ctx, &parts, out);
  if (status) adji_free(&ctx->memory, d->data);
  adji_trace(ctx, "derive", 0, begin, count);
  return status;
}

adj_status adji_derive_units(adj_ctx *ctx, const adj_dataset *set, adj_dataset **out) {
  derive d = {.set = set, .dim = set->dim, .row = unit_row};
  return derive_set(ctx, &d, out);
}

adj_status adji_derive_sphere(adj_ctx *ctx, const adj_dataset *set, adj_angle angle, adj_dataset **out) {
  derive d = {.set = set, .dim = 3, .angle = angle, .row = sphere_row};
  return derive_set(ctx, &d, out);
}
