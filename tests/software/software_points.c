/* SPDX-License-Identifier: MIT
 *
 * Points and matrices that a caller has on the software device: surveys, derived sets, and selection.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/derive.h"
#include "software/software.h"

/* ---- Surveys ------------------------------------------------------------------------------------------ */

static adj_status find_bounds(const adji_gpu_rows *points, double *low, double *high) {
  for (uint32_t j = 0; j < points->dim; j++) {
    low[j] = (double)INFINITY;
    high[j] = -(double)INFINITY;
  }
  for (uint64_t i = 0; i < points->count; i++)
    for (uint32_t j = 0; j < points->dim; j++) {
      double x = adji_software_value(points, i, j);
      if (!isfinite(x)) return adji_gpu_refuse_value(i * points->dim + j, points->dim);
      low[j] = fmin(low[j], x);
      high[j] = fmax(high[j], x);
    }
  return ADJ_OK;
}

adj_status adji_gpu_survey(adji_gpu *gpu, const adji_gpu_rows *points, double *low, double *high, uint64_t sample,
                           void *rows) {
  if (!points->count) return ADJ_OK;
  adj_status status = adji_software_launch(gpu, "survey");
  if (!status) status = find_bounds(points, low, high);
  for (uint64_t i = 0; i < sample && !status; i++)
    for (uint32_t j = 0; j < points->dim; j++)
      adji_software_put_value(points->type, rows, i * points->dim + j,
                              adji_software_value(points, points->count / sample * i, j));
  return status;
}

/* ---- Derived sets ------------------------------------------------------------------------------------- */

static adj_status check_finite(const adji_gpu_rows *rows) {
  for (uint64_t i = 0; i < rows->count; i++)
    for (uint32_t j = 0; j < rows->dim; j++)
      if (!isfinite(adji_software_value(rows, i, j))) return adji_gpu_refuse_value(i * rows->dim + j, rows->dim);
  return ADJ_OK;
}

static adj_status unit_row(const adji_gpu_rows *rows, uint64_t i, void *to) {
  double largest = 0, sum = 0;
  for (uint32_t j = 0; j < rows->dim; j++)
    largest = fmax(largest, fabs(adji_software_value(rows, i, j)));
  if (largest == 0) return adji_derive_refuse(ADJI_FAULT_ZEROS, i, 0, 0);
  int exponent = adji_unit_exponent(largest);
  for (uint32_t j = 0; j < rows->dim; j++)
    sum = adji_unit_add(sum, adji_software_value(rows, i, j), exponent);
  double length = sqrt(sum);
  for (uint32_t j = 0; j < rows->dim; j++)
    adji_software_put_value(rows->type, to, i * rows->dim + j,
                            adji_unit_at(adji_software_value(rows, i, j), exponent, length));
  return ADJ_OK;
}

static adj_status sphere_row(const adji_gpu_rows *rows, uint64_t i, bool degrees, void *to) {
  double longitude = adji_software_value(rows, i, 0), latitude = adji_software_value(rows, i, 1);
  adji_place place;
  adji_fault fault = adji_place_of(longitude, latitude, degrees, rows->type == ADJ_F32, &place);
  if (fault) return adji_derive_refuse(fault, i, longitude, latitude);
  adji_software_put_value(rows->type, to, 3 * i, place.x);
  adji_software_put_value(rows->type, to, 3 * i + 1, place.y);
  adji_software_put_value(rows->type, to, 3 * i + 2, place.z);
  return ADJ_OK;
}

static adj_status derive(adji_gpu *gpu, const adji_gpu_rows *rows, uint32_t dim, const adj_angle *angle,
                         adji_gpu_points *out) {
  adji_software_block block;
  uint64_t bytes = adji_mul(adji_mul(rows->count, dim), adji_type_size(rows->type));
  adj_status status = adji_software_get(gpu, bytes, "derived points", &block);
  if (!status) status = check_finite(rows);
  for (uint64_t i = 0; i < rows->count && !status; i++)
    status = angle ? sphere_row(rows, i, *angle == ADJ_DEGREES, block.at) : unit_row(rows, i, block.at);
  if (status) {
    adji_software_free(gpu, &block);
    return status;
  }
  out->gpu = gpu;
  out->rows = (adji_gpu_rows){block.at, rows->type, dim, rows->count, dim, 1};
  out->bytes = block.bytes;
  return ADJ_OK;
}

adj_status adji_gpu_derive_units(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_points *out) {
  return derive(gpu, rows, rows->dim, NULL, out);
}

adj_status adji_gpu_derive_sphere(adji_gpu *gpu, const adji_gpu_rows *rows, adj_angle angle, adji_gpu_points *out) {
  return derive(gpu, rows, 3, &angle, out);
}

void adji_gpu_points_free(adji_gpu_points *points) {
  if (!points->gpu) return;
  adji_software_free(points->gpu, &(adji_software_block){(void *)points->rows.data, points->bytes});
  *points = (adji_gpu_points){0};
}

/* ---- Selection ---------------------------------------------------------------------------------------- */

typedef struct candidate {
  double value;
  uint32_t column;
} candidate;

/* NaNs come after all numbers. Ties go to the lower column. */
static int in_order(const candidate *x, const candidate *y) {
  int order = (isnan(x->value) > isnan(y->value)) - (isnan(x->value) < isnan(y->value));
  if (!order) order = (x->value > y->value) - (x->value < y->value);
  return order ? order : (x->column > y->column) - (x->column < y->column);
}

static int smallest_first(const void *a, const void *b) {
  return in_order(a, b);
}

static int largest_first(const void *a, const void *b) {
  candidate x = *(const candidate *)a, y = *(const candidate *)b;
  x.value = -x.value;
  y.value = -y.value;
  return in_order(&x, &y);
}

static void select_row(const adji_gpu_select *job, uint64_t row, candidate *candidates) {
  uint64_t from = row * job->row_stride, to = row * job->k;
  for (uint64_t c = 0; c < job->columns; c++) {
    double value =
        job->type == ADJ_F64 ? ((const double *)job->values)[from + c] : (double)((const float *)job->values)[from + c];
    candidates[c] = (candidate){value, (uint32_t)c};
  }
  if (job->columns) qsort(candidates, job->columns, sizeof *candidates, job->largest ? largest_first : smallest_first);
  for (uint64_t i = 0; i < job->k; i++) {
    bool there = i < job->columns;
    uint32_t column = there ? candidates[i].column : ADJ_NO_ID;
    double nothing = job->largest ? -(double)INFINITY : (double)INFINITY;
    job->columns_out[to + i] = there && job->ids ? job->ids[column] : column;
    if (job->values_out)
      adji_software_put_value(job->type, job->values_out, to + i, there ? candidates[i].value : nothing);
  }
}

adj_status adji_gpu_select_rows(adji_gpu *gpu, const adji_gpu_select *job) {
  adj_status status = adji_software_launch(gpu, "select_rows");
  if (status) return status;
  candidate *candidates = malloc((job->columns + 1) * sizeof *candidates);
  if (!candidates) return adji_fail(ADJ_E_MEMORY, "no memory for a row");
  for (uint64_t row = 0; row < job->rows; row++)
    select_row(job, row, candidates);
  free(candidates);
  return ADJ_OK;
}
