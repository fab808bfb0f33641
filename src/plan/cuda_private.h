/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h: what its parts share. cuda_points.c has the points of a caller, cuda_join.c joins and answers questions
 * to an index, cuda_index.c makes indexes of points on a device, and has the calls for them.
 */
#ifndef ADJI_PLAN_CUDA_PRIVATE_H
#define ADJI_PLAN_CUDA_PRIVATE_H

#include "adjoin_cuda.h"
#include "plan/plan.h"

struct adj_cuda_result {
  adji_gpu_csr csr;
};

/* One side of a join: the points, and what is known of them in the shape of a set. */
typedef struct adji_cuda_side {
  adji_gpu_rows rows;
  adj_dataset set; /* type, dim, count, bounds; data: a sample, in survey's rows */
  double *bounds;
  void *sample;
  adji_gpu_points derived; /* where the rows are not the caller's */
} adji_cuda_side;

/* Checks what a caller says of points; name is the argument. */
adj_status adji_cuda_take_side(const adj_cuda_points *points, const char *name, adji_cuda_side *out);
/* Cosine and great-circle distances are those of derived points, which replace the caller's. name NULL: a failure names
 * no argument. */
adj_status adji_cuda_derive_side(adji_gpu *gpu, const adj_join_spec *spec, adji_cuda_side *s, const char *name);
/* Finds the bounds, and a sample of at most so many rows: the set then has these. */
adj_status adji_cuda_survey_side(adj_ctx *ctx, adji_gpu *gpu, adji_cuda_side *s, uint64_t sample, const char *name);
void adji_cuda_forget_side(adj_ctx *ctx, adji_cuda_side *s);

/* A call: what is joined or asked, the stream it is in the order of, and where the answer goes. */
typedef struct adji_cuda_call {
  adj_ctx *ctx;
  adj_join_kind kind;
  const adj_join_spec *spec;           /* of a join */
  const adj_cuda_points *left, *right; /* left: or the queries; NULL: the points of the index */
  adj_cuda_stream stream;
  adji_gpu_csr *csr; /* NULL: only counts are asked for */
  uint32_t *degrees; /* on the device; may be NULL      */
  uint64_t *total;   /* may be NULL                     */
  adj_index *index;  /* that is asked; NULL: a join     */
  const adj_question *question;
} adji_cuda_call;

/* The whole call, with the device to itself. The second makes a result of it; the arguments are checked. */
adj_status adji_cuda_run(const adji_cuda_call *call);
adj_status adji_cuda_make_result(adji_cuda_call call, adj_cuda_result **out);

/* A sample of an index's points: rows enough to choose a grid from. */
enum { ADJI_CUDA_SAMPLE = 2048 };

#endif
