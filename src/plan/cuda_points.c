/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h: the points of a caller, as a join has them.
 */
#include "plan/cuda_points.h"

#include "gpu/device/derive.h"
#include "gpu/device/survey.h"

ADJI_DEFINE_INIT(adj_cuda_points, 0)

adj_status adji_cuda_take_side(const adj_cuda_points *points, const char *name, adji_cuda_side *out) {
  adj_cuda_points copy;
  adj_cuda_points_init(&copy, sizeof copy);
  adj_status status = adji_take_struct(&copy, sizeof copy, points, "adj_cuda_points");
  if (status) return status;
  if (copy.type != ADJ_F32 && copy.type != ADJ_F64)
    return adji_fail(ADJ_E_ARGUMENT, "%s: type %d is neither f32 nor f64", name, (int)copy.type);
  if (!copy.dim) return adji_fail(ADJ_E_ARGUMENT, "%s: dim must be at least 1", name);
  if (copy.count > ADJ_MAX_COUNT)
    return adji_fail(ADJ_E_ARGUMENT, "%s: %llu points are more than %llu", name, (unsigned long long)copy.count,
                     (unsigned long long)ADJ_MAX_COUNT);
  if (copy.count && !copy.data) return adji_fail(ADJ_E_ARGUMENT, "%s: data is NULL", name);
  size_t size = adji_type_size(copy.type);
  if (!copy.column_stride) copy.column_stride = size;
  if (!copy.row_stride) copy.row_stride = copy.dim * size;
  if (copy.row_stride % size || copy.column_stride % size)
    return adji_fail(ADJ_E_ARGUMENT, "%s: strides must be multiples of the type's size", name);
  out->rows =
      (adji_gpu_rows){copy.data, copy.type, copy.dim, copy.count, copy.row_stride / size, copy.column_stride / size};
  return ADJ_OK;
}

adj_status adji_cuda_derive_side(adji_gpu *gpu, const adj_join_spec *spec, adji_cuda_side *s, const char *name) {
  adj_status status;
  if (spec->metric == ADJ_COSINE)
    status = adji_gpu_derive_units(gpu, &s->rows, &s->derived);
  else if (spec->metric == ADJ_HAVERSINE)
    status = adji_gpu_derive_sphere(gpu, &s->rows, spec->angle, &s->derived);
  else
    return ADJ_OK;
  if (status) return name ? adji_fail_in(status, name) : status;
  s->rows = s->derived.rows;
  return ADJ_OK;
}

adj_status adji_cuda_survey_side(adj_ctx *ctx, adji_gpu *gpu, adji_cuda_side *s, uint64_t sample, const char *name) {
  const adji_gpu_rows *rows = &s->rows;
  size_t size = adji_type_size(rows->type);
  uint64_t room = adji_gpu_survey_rows(rows->dim, rows->type);
  if (sample > room) sample = room;
  if (sample > rows->count) sample = rows->count;
  s->bounds = adji_alloc(&ctx->memory, 2 * (uint64_t)rows->dim, sizeof *s->bounds, "bounds");
  s->sample = adji_alloc(&ctx->memory, sample * rows->dim, size, "sample");
  if (!s->bounds || !s->sample) return ADJ_E_MEMORY;
  s->set = (adj_dataset){.ctx = ctx, .type = rows->type, .dim = rows->dim, .count = sample, .data = s->sample};
  s->set.row_stride = rows->dim * size;
  s->set.column_stride = size;
  s->set.low = s->bounds;
  s->set.high = s->bounds + rows->dim;
  adj_status status = adji_gpu_survey(gpu, rows, s->set.low, s->set.high, sample, s->sample);
  return status ? adji_fail_in(status, name) : ADJ_OK;
}

void adji_cuda_forget_side(adj_ctx *ctx, adji_cuda_side *s) {
  adji_free(&ctx->memory, s->bounds);
  adji_free(&ctx->memory, s->sample);
  adji_gpu_points_free(&s->derived);
}
