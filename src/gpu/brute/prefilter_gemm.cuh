/* SPDX-License-Identifier: MIT
 *
 * Brute-force kNN by L2 through matrix products in the type of the points, as most programs do it: products by cuBLAS,
 * norms added by a kernel behind it, selection from the matrix (papers/004, section 3.3.1). What comes out is a filter
 * (gpu/brute/prefilter_gemm.h): a few more than k pairs are listed, their canonical sums decide, and a query for which
 * that proves nothing fails. It shares with the way through tensor cores what is behind the list, and the structs of
 * both sides; copies are of the points' type, starts are h, and the order of the points is their own.
 */
#ifndef ADJI_GPU_BRUTE_PREFILTER_GEMM_CUH
#define ADJI_GPU_BRUTE_PREFILTER_GEMM_CUH

#include "gpu/brute/prefilter_gemm.h"
#include "gpu/brute/prefilter_tensor.cuh"

bool adji_gemm_can(const adji_brute_job *job);
/* The device memory of a query, without that of the matrix. */
uint64_t adji_gemm_query_bytes(const adji_brute_job *job);

/* ---- prefilter_gemm_copies.cu ---- */
adj_status adji_gemm_copy_points(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to);
adj_status adji_gemm_copy_queries(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                  const adji_tensor_batch *to);

/* ---- prefilter_gemm_values.cu ---- */
/* Products of some queries with a stretch of the right set become values to be smallest: h(y) - x^y^, a NaN for a point
 * with itself, minus infinity for strays. */
typedef struct adji_gemm_values {
  adj_type type;
  uint64_t rows, columns, stride;
  uint64_t first_row, first_point; /* rows of their sets */
  bool drop_self;
  const void *halves; /* h of the points */
  void *values;
} adji_gemm_values;
adj_status adji_gemm_add_norms(adji_gpu *gpu, const adji_gemm_values *job);

/* Lists of the smallest values, as positions of points, of queries first .. first + rows - 1 of a batch: pairs of those
 * that are certified, for adji_tensor_refine; the others fail. */
typedef struct adji_gemm_lists {
  const adji_tensor_points *points;
  const adji_brute_job *job;
  const adji_tensor_batch *batch;
  uint64_t first, rows;
  const uint32_t *positions; /* the batch's room a row, ascending by value; infinity behind the last */
  const void *values;
} adji_gemm_lists;
adj_status adji_gemm_certify(adji_gpu *gpu, const adji_gemm_lists *lists);

/* ---- prefilter_gemm.cu ---- */
/* As adji_tensor_search, but for another look at queries that fail. */
adj_status adji_gemm_search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                            const adji_brute_choice *choice, adji_tensor_batch *batch, adji_tensor_outcome *out);

#endif
