/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h: a join, or a question to an index, on a device.
 */
#ifndef ADJI_PLAN_CUDA_JOIN_H
#define ADJI_PLAN_CUDA_JOIN_H

#include "plan/cuda_points.h"

struct adj_cuda_result {
  adji_gpu_csr csr;
};

/* A call: the join or question, the stream that orders it, and where the result goes. */
typedef struct adji_cuda_call {
  adj_ctx *ctx;
  adj_join_kind kind;
  const adj_join_spec *spec;           /* of a join */
  const adj_cuda_points *left, *right; /* left: or the queries; NULL: those of the index */
  adj_cuda_stream stream;
  adji_gpu_csr *csr; /* NULL: only counts are asked for */
  uint32_t *degrees; /* on the device; may be NULL      */
  uint64_t *total;   /* may be NULL                     */
  adj_index *index;  /* a question to it; NULL: a join  */
  const adj_question *question;
} adji_cuda_call;

/* adji_cuda_run: the whole call, while it holds the device. adji_cuda_make_result: checks the arguments, runs the call
 * and makes a result. */
adj_status adji_cuda_run(const adji_cuda_call *call);
adj_status adji_cuda_make_result(adji_cuda_call call, adj_cuda_result **out);

/* A sample of an index's points: rows enough to choose a grid from. */
enum { ADJI_CUDA_SAMPLE = 2048 };

#endif
