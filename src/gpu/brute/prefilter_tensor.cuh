/* SPDX-License-Identifier: MIT
 *
 * Brute-force kNN by L2 through tensor cores: products of half-precision copies as a filter
 * (gpu/brute/prefilter_tensor.h), canonical sums of what passes.
 *
 * The right set is copied once, in an order that has nothing to do with how it lies (a stride through it). Queries come
 * in batches. Values of all pairs with the first points are kept; of what is kept the k-th largest value bounds what
 * may belong. Points in numbers that grow by a factor follow: a scan lists what is not below its query's bound, and
 * the bound is tightened. As each round is a sample of all points, some k times the factor pass in each, whatever the
 * points. In the end few more than k are left, of which the canonical sum decides. A query for which more pass than
 * there is room for fails: it is left to another way.
 */
#ifndef ADJI_GPU_BRUTE_PREFILTER_TENSOR_CUH
#define ADJI_GPU_BRUTE_PREFILTER_TENSOR_CUH

#include "gpu/brute/brute.cuh"
#include "gpu/brute/prefilter_tensor.h"

enum { ADJI_TENSOR_ROWS = 128 }; /* queries of a block of a scan */

/* What a query's copy is told by, beside its halves. */
typedef struct adji_tensor_query {
  double norm_sq; /* of the copy */
  float error;
  uint32_t row; /* of the left set */
} adji_tensor_query;

/* What is said of the copies of candidates, on the device. */
typedef struct adji_tensor_frame {
  double scale;
  unsigned long long spread; /* of a sample around the centre: the bits of a double, in the order of the numbers */
  float most;
} adji_tensor_frame;

/* The scale as two factors, whose product may be beyond f32. */
template <class T>
struct adji_tensor_scaling {
  T first, second;
};
static __device__ __forceinline__ adji_tensor_scaling<double> adji_tensor_scale_for(double scale, double) {
  return {scale, 1};
}
static __device__ __forceinline__ adji_tensor_scaling<float> adji_tensor_scale_for(double scale, float) {
  int exponent = ilogb(scale);
  return {static_cast<float>(ldexp(1.0, exponent / 2)), static_cast<float>(ldexp(1.0, exponent - exponent / 2))};
}

/* The copies of the right set: halves, or what gpu/brute/prefilter_gemm.cuh has in their place. */
typedef struct adji_tensor_points {
  adji_tensor_rules rules;
  uint32_t row_bytes;                /* of a copy                                         */
  uint64_t count, room;              /* points; entries, whole tiles                      */
  uint64_t stride;                   /* position i has point i * stride % count           */
  adji_block centre, frame;          /* of the points' type; adji_tensor_frame            */
  adji_block values, starts, errors; /* halves; what values begin with, -v; by position */
} adji_tensor_points;

/* How the points are scanned: all values of the first of them are kept, and from round to round there are more by a
 * factor. A query has room for so many pairs, of which most are settled in the end. */
typedef struct adji_tensor_rounds {
  uint32_t room, most, first;
  double factor;
} adji_tensor_rounds;

/* What a batch of queries has. A pair that passed: the value and the position of the candidate. */
typedef struct adji_tensor_batch {
  uint64_t row_room; /* entries of the blocks, whole tiles */
  adji_tensor_rounds rounds;
  adji_block values, about;  /* halves; adji_tensor_query                                                         */
  adji_block bounds, counts; /* of values, float, infinity where a query failed; of pairs, more than room: lost */
  adji_block passed;         /* uint2, room a query                                                             */
  adji_block failed;         /* how many queries, of how many pairs there was a sum; the queries: uint32_t      */
} adji_tensor_batch;

/* ---- prefilter_tensor_copies.cu ---- */
adj_status adji_tensor_copy_points(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to);
/* Where the centre of the right set is, and its scale. */
adj_status adji_tensor_find_frame(adji_gpu *gpu, const adji_brute_job *job, const adji_tensor_points *to);
void adji_tensor_points_clear(adji_gpu *gpu, adji_tensor_points *points);
adj_status adji_tensor_copy_queries(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                    const adji_tensor_batch *to);

/* ---- prefilter_tensor_refine.cu ---- */
/* Bounds from what passed; what they drop is dropped. dense: every query has so many pairs; 0: as counted. */
adj_status adji_tensor_tighten(adji_gpu *gpu, const adji_tensor_points *points, const adji_tensor_batch *batch,
                               const adji_brute_job *job, uint32_t dense);
/* Rows of what is left. */
adj_status adji_tensor_refine(adji_gpu *gpu, const adji_tensor_points *points, const adji_tensor_batch *batch,
                              const adji_brute_job *job);

/* ---- prefilter_tensor.cu ---- */
/* again: for queries that failed. */
adji_tensor_rounds adji_tensor_rounds_of(uint64_t points, uint32_t k, bool again);

/* Memory for the queries of a job, whose rounds are set: more where there is too little. */
adj_status adji_tensor_batch_get(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                 adji_tensor_batch *batch);

bool adji_tensor_can(const adji_brute_job *job);
/* The device memory of a query. */
uint64_t adji_tensor_query_bytes(const adji_brute_job *job);
/* Finds the rows of the job, and waits. Queries that fail are tried again with longer lists, where there is memory for
 * that. Those that still failed: their rows' numbers in device memory, until the batch is used again. sums: how many
 * pairs were settled. */
typedef struct adji_tensor_outcome {
  uint64_t failed, again, sums;
  const uint32_t *numbers;
} adji_tensor_outcome;
adj_status adji_tensor_search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                              adji_tensor_batch *batch, adji_tensor_outcome *out);
/* What failed, and what was settled: waits for it. */
adj_status adji_tensor_fetch(adji_gpu *gpu, const adji_tensor_batch *batch, adji_tensor_outcome *out);
void adji_tensor_batch_clear(adji_gpu *gpu, adji_tensor_batch *batch);

#endif
