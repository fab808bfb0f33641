/* SPDX-License-Identifier: MIT
 *
 * Brute-force kNN for L2 through tensor cores: products of half-precision copies as a prefilter (prefilter_tensor.h),
 * canonical sums of what passes.
 *
 * 1. The right set is copied once, in an order independent of how it is stored (a stride through it). Queries come in
 *    batches.
 * 2. The values of all pairs with the first points are kept. The k-th largest of them bounds what may belong.
 * 3. Rounds of points follow, each larger by a factor: a scan lists what is not below its query's bound, and the bound
 *    is tightened. Each round is a sample of all points, so about k times the factor pass in each, whatever the points.
 * 4. At the end hardly more than k pairs remain, and the canonical sum decides.
 *
 * A query for which more pairs pass than fit into its list fails: it is left to another method.
 *
 * In up to 32 dimensions the right set may be in tree order instead. Rounds are then of tiles, for each block of
 * queries those nearest to it first, and tiles that are too far away are skipped: see prefilter_tensor_tiles.cuh.
 */
#ifndef ADJI_GPU_BRUTE_PREFILTER_TENSOR_CUH
#define ADJI_GPU_BRUTE_PREFILTER_TENSOR_CUH

#include "gpu/brute/brute.cuh"
#include "gpu/brute/prefilter_tensor.h"

enum { ADJI_TENSOR_ROWS = 128 }; /* queries per block of a scan */

/* What is known about a query's copy, beside its halves. */
typedef struct adji_tensor_query {
  double norm_sq; /* of the copy */
  float error;
  uint32_t row; /* in the left set */
} adji_tensor_query;

/* What is known about all copies of candidates, on the device. */
typedef struct adji_tensor_frame {
  double scale;
  unsigned long long spread; /* of a sample around the centre: the bits of a double, which order as the numbers do */
  float most;
} adji_tensor_frame;

/* The scale as two factors: their product may exceed f32. */
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

/* The copies of the right set: halves, or what prefilter_gemm.cuh uses in their place. */
typedef struct adji_tensor_points {
  adji_tensor_rules rules;
  uint32_t row_bytes;                /* of a copy */
  uint64_t count, capacity;          /* points; entries, in whole tiles */
  uint64_t stride;                   /* position i holds point i * stride % count, without an order */
  adji_block centre, frame;          /* of the points' type; adji_tensor_frame */
  adji_block values, starts, errors; /* by position: halves; the initial value -v; errors */
  adji_block order, boxes; /* in tree order: the point of each position; boxes of tiles (prefilter_tensor_lists.cu) */
} adji_tensor_points;

/* Work of a scan in tree order: `count` entries of the work of a block of queries, from `first` on. */
typedef struct adji_tile_item {
  uint32_t block, first, count;
} adji_tile_item;

/* How the points are scanned: all values of the `first` points are kept, and every round has `factor` times the points
 * before it. A query has room for `capacity` pairs; at most `most` of them are refined at the end. */
typedef struct adji_tensor_rounds {
  uint32_t capacity, most, first;
  double factor;
} adji_tensor_rounds;

/* A batch of queries, which are those of the job, and its memory. A pair that passed: the value, and the position of
 * the candidate. */
typedef struct adji_tensor_batch {
  const adji_tensor_points *points;
  const adji_brute_job *job;
  uint64_t row_capacity; /* entries of the blocks, in whole tiles */
  adji_tensor_rounds rounds;
  adji_block values, about; /* halves; adji_tensor_query */
  adji_block bounds;        /* of values, float; infinity for a failed query */
  adji_block counts;        /* of pairs; more than the capacity: some are lost */
  adji_block passed;        /* uint2, `capacity` per query */
  adji_block failed;        /* uint32_t: ADJI_TENSOR_HEAD numbers, then the failed queries */
  /* In tree order. reaches: p^2 of each query, float, rounded up; negative for a failed one. kept: pairs at the last
   * tightening. The others belong to prefilter_tensor_lists.cu. */
  adji_block reaches, kept, lists, list_counts, items;
  uint32_t starts, nearest; /* tiles that are scanned first, and second */
} adji_tensor_batch;

/* The numbers before the failed queries: how many there are; pairs refined; tiles scanned, for a warp each. */
enum { ADJI_TENSOR_FAILED, ADJI_TENSOR_SUMS, ADJI_TENSOR_TILES, ADJI_TENSOR_HEAD };

/* A batch as all kernels read it. */
typedef struct adji_tensor_view {
  adji_tensor_rules rules;
  const adji_tensor_frame *frame;
  const adji_tensor_query *about;
  uint64_t point_count, point_stride, right_first;
  const uint32_t *order; /* NULL: by the stride */
  bool drop_self;
  double limit; /* of sums; infinite: none */
  uint32_t k, capacity;
  float *bounds;
  uint32_t *counts;
  uint2 *passed;
  uint32_t *failed;
  float *reaches; /* NULL without an order, as is kept */
  uint32_t *kept;
} adji_tensor_view;
adji_tensor_view adji_tensor_view_of(const adji_tensor_batch *batch);

/* The number of the point at a position, in the right set; and adds a query to the failed ones. */
static __device__ __forceinline__ uint64_t adji_tensor_point(const adji_tensor_view &view, uint32_t position) {
  return view.order ? __ldg(view.order + position) : position * view.point_stride % view.point_count;
}
static __device__ __forceinline__ void adji_tensor_fail(const adji_tensor_view &view, uint32_t row) {
  view.failed[ADJI_TENSOR_HEAD + atomicAdd(view.failed + ADJI_TENSOR_FAILED, 1)] = row;
}

/* ---- prefilter_tensor_copies.cu ---- */
/* ordered: in tree order, with boxes of tiles; up to ADJI_TENSOR_MOST_SKIP_DIM dimensions. */
adj_status adji_tensor_copy_points(adji_gpu *gpu, const adji_brute_job *job, bool ordered, adji_tensor_points *to);
/* The rows of the job's queries in tree order. Waits. */
adj_status adji_tensor_order_queries(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                     uint32_t *rows);
/* Finds the centre of the right set and its scale. */
adj_status adji_tensor_find_frame(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to);
void adji_tensor_points_clear(adji_gpu *gpu, adji_tensor_points *points);
adj_status adji_tensor_copy_queries(adji_gpu *gpu, const adji_tensor_batch *batch);

/* ---- prefilter_tensor_refine.cu ---- */
/* Computes bounds from what passed and drops what they exclude. dense: every query has this many pairs; 0: as
 * counted. */
adj_status adji_tensor_tighten(adji_gpu *gpu, const adji_tensor_batch *batch, uint32_t dense);
/* Computes the canonical sums of what remains, and the rows. */
adj_status adji_tensor_refine(adji_gpu *gpu, const adji_tensor_batch *batch);

/* ---- prefilter_tensor.cu ---- */
/* again: for queries that failed. */
adji_tensor_rounds adji_tensor_rounds_of(uint64_t points, uint32_t k, bool again);

/* Gets memory for the queries of a batch whose points, job and rounds are set, or more if there is too little. None has
 * failed. */
adj_status adji_tensor_batch_get(adji_gpu *gpu, adji_tensor_batch *batch);

/* Whether the points are in tree order. */
static inline bool adji_tensor_in_order(const adji_tensor_points *points) {
  return points->boxes.at != NULL;
}

bool adji_tensor_can(const adji_brute_job *job);
/* The device memory of a query. */
uint64_t adji_tensor_query_bytes(const adji_brute_job *job, bool ordered);
/* Finds the rows of the job, and waits. Queries that fail are tried again with longer lists if there is memory. Those
 * that still fail are returned as row numbers in device memory, valid until the batch is used again. sums: pairs
 * refined; tiles: scanned, for a warp of 32 queries each, if the points are in tree order. */
typedef struct adji_tensor_outcome {
  uint64_t failed, again, sums, tiles;
  const uint32_t *numbers;
} adji_tensor_outcome;
adj_status adji_tensor_search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                              adji_tensor_batch *batch, adji_tensor_outcome *out);
/* Searches again for out->failed queries, whose rows are listed in device memory, with longer lists if there is memory.
 * Those that still fail are listed there then. */
adj_status adji_tensor_search_failed(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                     uint32_t *numbers, adji_tensor_outcome *out);
/* Waits, and fetches the numbers of failed queries and refined pairs. */
adj_status adji_tensor_fetch(adji_gpu *gpu, const adji_tensor_batch *batch, adji_tensor_outcome *out);
void adji_tensor_batch_clear(adji_gpu *gpu, adji_tensor_batch *batch);

/* ---- prefilter_tensor_exact.cu ---- */
/* For queries that fail: the rows of a job by canonical sums alone. exact_can: for so many neighbours. Queries should
 * be in tree order. Those with many tiles within reach would take long and fail. Waits. */
enum { ADJI_TILE_EXACT_MOST_K = 64, ADJI_TILE_EXACT_STARTS = 4 };
bool adji_tile_exact_can(const adji_gpu *gpu, const adji_brute_job *job);
adj_status adji_tile_exact(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                           adji_tensor_batch *batch, adji_tensor_outcome *out);

#endif
