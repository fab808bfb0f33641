/* SPDX-License-Identifier: MIT
 *
 * Derived sets. A derived row depends only on its original row, and only on operations whose results IEEE 754 defines.
 * So it has the same bits on every machine (docs/exactness.md).
 */
#include "data/derive.h"

#include <math.h>

typedef struct derive {
  const adj_dataset *set;
  adj_angle angle;
  uint32_t dim; /* of the derived rows */
  char *data;
  uint64_t first; /* the row that data begins with */
  uint64_t slices;
  adj_status (*row)(const struct derive *d, uint64_t row);
} derive;

static void put(const derive *d, uint64_t row, uint32_t j, double x) {
  uint64_t at = (row - d->first) * d->dim + j;
  if (d->set->type == ADJ_F64)
    ((double *)(void *)d->data)[at] = x;
  else
    ((float *)(void *)d->data)[at] = (float)x;
}

adj_status adji_derive_refuse(adji_fault fault, uint64_t row, double longitude, double latitude) {
  unsigned long long number = (unsigned long long)row + 1;
  switch (fault) {
    case ADJI_FAULT_ZEROS:
      return adji_fail(ADJ_E_DATA, "row %llu: all coordinates are 0; such a point has no direction and no cosine",
                       number);
    case ADJI_FAULT_POLE:
      return adji_fail(ADJ_E_DATA, "row %llu, column 2: latitude %g is beyond a pole; columns are longitude, latitude",
                       number, latitude);
    case ADJI_FAULT_LONGITUDE:
      return adji_fail(ADJ_E_DATA, "row %llu, column 1: longitude %g is too many radians to be reduced exactly", number,
                       longitude);
    case ADJI_FAULT_NONE:
      break;
  }
  return adji_fail(ADJ_E_INTERNAL, "row %llu: has no derived point, for no known reason", number);
}

static adj_status unit_row(const derive *d, uint64_t row) {
  double largest = 0, sum = 0;
  for (uint32_t j = 0; j < d->dim; j++)
    largest = fmax(largest, fabs(adji_dataset_at(d->set, row, j)));
  if (largest == 0) return adji_derive_refuse(ADJI_FAULT_ZEROS, row, 0, 0);
  int exponent = adji_unit_exponent(largest);
  for (uint32_t j = 0; j < d->dim; j++)
    sum = adji_unit_add(sum, adji_dataset_at(d->set, row, j), exponent);
  double length = sqrt(sum);
  for (uint32_t j = 0; j < d->dim; j++)
    put(d, row, j, adji_unit_at(adji_dataset_at(d->set, row, j), exponent, length));
  return ADJ_OK;
}

static adj_status sphere_row(const derive *d, uint64_t row) {
  double longitude = adji_dataset_at(d->set, row, 0), latitude = adji_dataset_at(d->set, row, 1);
  adji_place place;
  adji_fault fault = adji_place_of(longitude, latitude, d->angle == ADJ_DEGREES, d->set->type == ADJ_F32, &place);
  if (fault) return adji_derive_refuse(fault, row, longitude, latitude);
  put(d, row, 0, place.x);
  put(d, row, 1, place.y);
  put(d, row, 2, place.z);
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

static derive derive_of(const adj_dataset *set, adj_metric metric, adj_angle angle) {
  bool unit = metric == ADJ_COSINE;
  return (derive){.set = set, .angle = angle, .dim = unit ? set->dim : 3, .row = unit ? unit_row : sphere_row};
}

adj_status adji_derive_row(const adj_dataset *set, uint64_t row, adj_metric metric, adj_angle angle, void *to) {
  derive d = derive_of(set, metric, angle);
  d.data = to;
  d.first = row;
  return d.row(&d, row);
}

adj_status adji_derive(adj_ctx *ctx, const adj_dataset *set, adj_metric metric, adj_angle angle, adj_dataset **out) {
  uint64_t begin = adji_now_ns(), count = set->count;
  derive d = derive_of(set, metric, angle);
  d.slices = count / 4096 + 1;
  d.data = adji_alloc(&ctx->memory, adji_mul(count, d.dim), adji_type_size(set->type), "derived points");
  if (!d.data) return ADJ_E_MEMORY;
  adj_status status = adji_loop(ctx, d.slices, derive_slice, &d);
  adji_dataset_parts parts = {
      .type = set->type, .dim = d.dim, .count = count, .data = d.data, .release = adji_release_block, .owner = d.data};
  if (!status) status = adji_dataset_adopt(ctx, &parts, out);
  if (status) adji_free(&ctx->memory, d.data);
  adji_trace(ctx, "derive", 0, begin, count);
  return status;
}
