/* SPDX-License-Identifier: MIT
 *
 * Brute-force kNN for L2 through matrix products in the type of the points, as most programs do it: cuBLAS computes the
 * products, a second kernel adds the norms, and selection reads the matrix (papers/004, section 3.3.1). Here this is
 * only a prefilter (prefilter_gemm.h): a few more than k pairs are listed, their canonical sums decide, and a query for
 * which the list proves nothing fails. Everything after the list is shared with the tensor-core prefilter, as are the
 * structs of points and queries. Here copies have the type of the points, starts are h, and the points keep their
 * order.
 */
#ifndef ADJI_GPU_BRUTE_PREFILTER_GEMM_CUH
#define ADJI_GPU_BRUTE_PREFILTER_GEMM_CUH

#include "gpu/brute/prefilter_gemm.h"
#include "gpu/brute/prefilter_tensor.cuh"

bool adji_gemm_can(const adji_brute_job *job);
/* The device memory of a query, without the matrix. */
uint64_t adji_gemm_query_bytes(const adji_brute_job *job);

adj_status adji_gemm_copy_points(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to);
/* Like adji_tensor_search, but without a second attempt for queries that fail. */
adj_status adji_gemm_search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                            const adji_brute_choice *choice, adji_tensor_batch *batch, adji_tensor_outcome *out);

#endif
