/* SPDX-License-Identifier: MIT
 *
 * Brute-force kNN for L2 through tensor cores: products of half-precision copies are a prefilter (prefilter_tensor.h),
 * and canonical sums of the pairs that pass decide.
 *
 * 1. The right set is copied once, in an order independent of how it is stored (a stride through it). Queries come in
 *    batches.
 * 2. The values of all pairs with the first points are kept. For each query the k-th largest of them bounds the values
 *    of its neighbours.
 * 3. Rounds of points follow, each larger by a factor: a scan lists the pairs whose value is not below the bound of
 *    their query, and then the bound is tightened. Each round is a sample of all points, so in each about k times the
 *    factor pass, however the points are distributed.
 * 4. At the end hardly more than k pairs per query remain, and their canonical sums decide.
 *
 * A query fails if more of its pairs pass than fit into its list. It is then left to another method.
 *
 * In up to 32 dimensions the right set may be in tree order instead. Rounds are then made of tiles: for each block of
 * queries the nearest tiles come first, and tiles that are too far away are skipped. See prefilter_tensor_tiles.cuh.
 */
#ifndef ADJI_GPU_BRUTE_PREFILTER_TENSOR_CUH
#define ADJI_GPU_BRUTE_PREFILTER_TENSOR_CUH

#include "gpu/brute/brute.cuh"
#include "gpu/brute/prefilter_tensor.h"

enum { ADJI_TENSOR_ROWS = 128 }; /* queries per block of a scan */

/* A query's copy, without its halves. */
typedef struct adji_tensor_query {
  double norm_sq; /* of the copy */
  float error;
  uint32_t row; /* in the left set */
} adji_tensor_query;

/* What all copies of candidates have in common, on the device. */
typedef struct adji_tensor_frame {
  double scale;
  unsigned long long spread; /* of a sample around the centre, as the bits of a double: they order as the numbers do */
  float most;
} adji_tensor_frame;

/* The scale as two factors, as it may exceed the range of f32. */
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

/* The copies of the right set: halves, or in prefilter_gemm.cu values of the points' type. */
typedef struct adji_tensor_points {
  adji_tensor_rules rules;
  uint32_t row_bytes;                /* of a copy */
  uint64_t count, capacity;          /* points; entries, in whole tiles */
  uint64_t stride;                   /* without `order`: position i holds point i * stride % count */
  adji_block centre, frame;          /* of the points' type; adji_tensor_frame */
  adji_block values, starts, errors; /* by position: halves; the initial value -v; errors */
  adji_block order, boxes; /* in tree order: the point of each position; boxes of tiles (prefilter_tensor_lists.cu) */
} adji_tensor_points;

/* An item of work for a scan in tree order: entries first .. first + count - 1 in the work of a block of queries. */
typedef struct adji_tile_item {
  uint32_t block, first, count;
} adji_tile_item;

/* How the points are scanned. All values of the first `first` points are kept. After each round, `factor` times as many
 * points have been scanned as before it. A query has room for `capacity` pairs; at most `most` of them are refined at
 * the end. */
typedef struct adji_tensor_rounds {
  uint32_t capacity, most, first;
  double factor;
} adji_tensor_rounds;

/* A batch: all queries of the job, and memory for them. A pair that passed is stored as its value and the position of
 * the candidate. */
typedef struct adji_tensor_batch {
  const adji_tensor_points *points;
  const adji_brute_job *job;
  uint64_t row_capacity; /* entries of the blocks, in whole tiles */
  adji_tensor_rounds rounds;
  adji_block values, query_info; /* halves; adji_tensor_query */
  adji_block bounds;             /* bounds of values, float; infinity for a failed query */
  adji_block counts;             /* of pairs; a count above the capacity means that some are lost */
  adji_block passed;             /* uint2, `capacity` per query */
  adji_block failed;             /* uint32_t: ADJI_TENSOR_HEAD numbers, then the failed queries */
  /* In tree order. reaches: p^2 of each query, float, rounded up; negative for a failed query. kept: the number of
   * pairs at the last tightening. The other blocks belong to prefilter_tensor_lists.cu. */
  adji_block reaches, kept, lists, list_counts, items;
  uint32_t starts, nearest; /* tiles scanned first; tiles scanned first or second */
} adji_tensor_batch;

/* The numbers before the failed queries: how many failed; pairs refined; tiles scanned, counted per warp. */
enum { ADJI_TENSOR_FAILED, ADJI_TENSOR_SUMS, ADJI_TENSOR_TILES, ADJI_TENSOR_HEAD };

/* A batch as parameters of the kernels. */
typedef struct adji_tensor_view {
  adji_tensor_rules rules;
  const adji_tensor_frame *frame;
  const adji_tensor_query *query_info;
  uint64_t point_count, point_stride, right_first;
  const uint32_t *order; /* NULL: the order of the stride */
  bool drop_self;
  double limit; /* the limit of sums; infinite: none */
  uint32_t k, capacity;
  float *bounds;
  uint32_t *counts;
  uint2 *passed;
  uint32_t *failed;
  float *reaches; /* NULL unless in tree order, as is `kept` */
  uint32_t *kept;
} adji_tensor_view;
adji_tensor_view adji_tensor_view_of(const adji_tensor_batch *batch);

/* The number, in the right set, of the point at a position. adji_tensor_fail adds a query to the failed ones. */
static __device__ __forceinline__ uint64_t adji_tensor_point(const adji_tensor_view &view, uint32_t position) {
  return view.order ? __ldg(view.order + position) : position * view.point_stride % view.point_count;
}
static __device__ __forceinline__ void adji_tensor_fail(const adji_tensor_view &view, uint32_t row) {
  view.failed[ADJI_TENSOR_HEAD + atomicAdd(view.failed + ADJI_TENSOR_FAILED, 1)] = row;
}

/* ---- prefilter_tensor_copies.cu ---- */
/* Copies the points. ordered: in tree order, with boxes of tiles; up to ADJI_TENSOR_MOST_SKIP_DIM dimensions. */
adj_status adji_tensor_copy_points(adji_gpu *gpu, const adji_brute_job *job, bool ordered, adji_tensor_points *to);
/* Lists the rows of the job's queries in tree order. Waits. */
adj_status adji_tensor_order_queries(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                     uint32_t *rows);
/* Finds the centre of the right set and its scale. */
adj_status adji_tensor_find_frame(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to);
void adji_tensor_points_clear(adji_gpu *gpu, adji_tensor_points *points);
adj_status adji_tensor_copy_queries(adji_gpu *gpu, const adji_tensor_batch *batch);

/* ---- prefilter_tensor_refine.cu ---- */
/* Computes bounds from the listed pairs and drops the pairs that the bounds exclude. dense: every query has this many
 * pairs; 0: as counted. */
adj_status adji_tensor_tighten(adji_gpu *gpu, const adji_tensor_batch *batch, uint32_t dense);
/* Computes the canonical sums of the remaining pairs, and the rows. */
adj_status adji_tensor_refine(adji_gpu *gpu, const adji_tensor_batch *batch);

/* ---- prefilter_tensor.cu ---- */
/* Chooses the rounds. again: for queries that failed. */
adji_tensor_rounds adji_tensor_rounds_of(uint64_t points, uint32_t k, bool again);

/* Gets memory for the queries of a batch whose points, job and rounds are set; memory that is large enough is used
 * again. Resets the list of failed queries. */
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
 * refined. tiles: tiles scanned, counted per warp of 32 queries, if the points are in tree order. */
typedef struct adji_tensor_outcome {
  uint64_t failed, again, sums, tiles;
  const uint32_t *numbers;
} adji_tensor_outcome;
adj_status adji_tensor_search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                              adji_tensor_batch *batch, adji_tensor_outcome *out);
/* Searches again for out->failed queries, with longer lists if there is memory. numbers lists their rows in device
 * memory; afterwards it lists those that still fail. */
adj_status adji_tensor_search_failed(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                     uint32_t *numbers, adji_tensor_outcome *out);
/* Waits, and fetches the numbers of failed queries and refined pairs. */
adj_status adji_tensor_fetch(adji_gpu *gpu, const adji_tensor_batch *batch, adji_tensor_outcome *out);
void adji_tensor_batch_clear(adji_gpu *gpu, adji_tensor_batch *batch);

/* ---- prefilter_tensor_exact.cu ---- */
/* For queries that fail: finds the rows of a job by canonical sums alone. adji_tile_exact_can: whether k, the dimension
 * and the device allow it. Queries should be in tree order. Queries with many tiles within reach fail, since they would
 * take long. Waits. */
enum { ADJI_TILE_EXACT_MOST_K = 64, ADJI_TILE_EXACT_STARTS = 4 };
bool adji_tile_exact_can(const adji_gpu *gpu, const adji_brute_job *job);
adj_status adji_tile_exact(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                           adji_tensor_batch *batch, adji_tensor_outcome *out);

#endif
