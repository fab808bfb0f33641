/* SPDX-License-Identifier: MIT
 *
 * Points on a device, as the joins of adjoin_cuda.h see them.
 */
#ifndef ADJI_CUDA_POINTS_H
#define ADJI_CUDA_POINTS_H

#include "adjoin_cuda.h"
#include "data/dataset.h"
#include "gpu/device/derive.h"

/* One side of a join: the points, and what is known of them in the shape of a set. */
typedef struct adji_cuda_side {
  adji_gpu_rows rows;
  adj_dataset set; /* type, dim, count, bounds; data: a sample, in survey's rows */
  double *bounds;
  void *sample;
  adji_gpu_points derived; /* where the rows are not the caller's */
} adji_cuda_side;

/* Checks what a caller says of points; name is the argument. */
adj_status adji_cuda_side_take(const adj_cuda_points *points, const char *name, adji_cuda_side *out);

/* Cosine and great-circle distances are those of derived points, which take the place of the caller's; name NULL: no
 * argument is named in a failure. Other metrics leave the rows as they are. */
adj_status adji_cuda_side_derive(adji_gpu *gpu, const adj_join_spec *spec, adji_cuda_side *s, const char *name);

/* Finds the bounds, and a sample of so many rows or fewer: the set then has these. */
adj_status adji_cuda_side_survey(adj_ctx *ctx, adji_gpu *gpu, adji_cuda_side *s, uint64_t sample, const char *name);
void adji_cuda_side_forget(adj_ctx *ctx, adji_cuda_side *s);

#endif
