/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h: the points of a caller, as a join has them.
 */
#ifndef ADJI_PLAN_CUDA_POINTS_H
#define ADJI_PLAN_CUDA_POINTS_H

#include "adjoin_cuda.h"
#include "plan/plan.h"

/* One side of a join: the points on the device, and what is known of them, as a set. */
typedef struct adji_cuda_side {
  adji_gpu_rows rows;
  adj_dataset set; /* type, dim, count, bounds; data: a sample, in survey's rows */
  double *bounds;
  void *sample;
  adji_gpu_points derived; /* used if the rows are not the caller's */
} adji_cuda_side;

/* Checks the caller's description of points; name is that of the argument. */
adj_status adji_cuda_take_side(const adj_cuda_points *points, const char *name, adji_cuda_side *out);
/* For cosine and great-circle distances, replaces the caller's points with derived ones. name NULL: a failure names no
 * argument. */
adj_status adji_cuda_derive_side(adji_gpu *gpu, const adj_join_spec *spec, adji_cuda_side *s, const char *name);
/* Finds the bounds, and a sample of at most `sample` rows, and sets both in s->set. */
adj_status adji_cuda_survey_side(adj_ctx *ctx, adji_gpu *gpu, adji_cuda_side *s, uint64_t sample, const char *name);
void adji_cuda_forget_side(adj_ctx *ctx, adji_cuda_side *s);

#endif
