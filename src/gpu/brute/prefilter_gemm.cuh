/* SPDX-License-Identifier: MIT
 *
 * Brute-force kNN for L2 through matrix products in the type of the points, as most programs do it: products by cuBLAS,
 * norms added by a kernel after it, selection from the matrix (papers/004, section 3.3.1). Here this is only a
 * prefilter (prefilter_gemm.h): a few more than k pairs are listed, their canonical sums decide, and a query for which
 * the list proves nothing fails. It shares with the tensor-core prefilter all that comes after the list, and the
 * structs of both sides: copies have the type of the points, starts are h, and the points keep their order.
 */
#ifndef ADJI_GPU_BRUTE_PREFILTER_GEMM_CUH
#define ADJI_GPU_BRUTE_PREFILTER_GEMM_CUH

#include "gpu/brute/prefilter_gemm.h"
#include "gpu/brute/prefilter_tensor.cuh"

bool adji_gemm_can(const adji_brute_job *job);
/* The device memory of a query, without the matrix. */
uint64_t adji_gemm_query_bytes(const adji_brute_job *job);

/* ---- prefilter_gemm_copies.cu ---- */
adj_status adji_gemm_copy_points(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to);
adj_status adji_gemm_copy_queries(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                  const adji_tensor_batch *to);

/* ---- prefilter_gemm_values.cu ---- */
/* Turns products of some queries with a range of the right set into values whose smallest are wanted: h(y) - x^y^; NaN
 * for a point with itself, minus infinity for strays. */
typedef struct adji_gemm_values {
  adj_type type;
  uint64_t rows, columns, stride;
  uint64_t first_row, first_point; /* rows of their sets */
  bool drop_self;
  const void *halves; /* h of the points */
  void *values;
} adji_gemm_values;
adj_status adji_gemm_add_norms(adji_gpu *gpu, const adji_gemm_values *job);

/* Lists of the smallest values, as positions of points, of queries first .. first + rows - 1 of a batch. The pairs of
 * certified queries go to adji_tensor_refine; the other queries fail. */
typedef struct adji_gemm_lists {
  const adji_tensor_points *points;
  const adji_brute_job *job;
  const adji_tensor_batch *batch;
  uint64_t first, rows;
  const uint32_t *positions; /* the batch's capacity per row, ascending by value; infinity after the last */
  const void *values;
} adji_gemm_lists;
adj_status adji_gemm_certify(adji_gpu *gpu, const adji_gemm_lists *lists);

/* ---- prefilter_gemm.cu ---- */
/* Like adji_tensor_search, but without a second attempt for queries that fail. */
adj_status adji_gemm_search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                            const adji_brute_choice *choice, adji_tensor_batch *batch, adji_tensor_outcome *out);

#endif
