/* SPDX-License-Identifier: MIT
 *
 * The range join's default kernels: what a launch does, and what a count leaves for a fill.
 */
#ifndef ADJI_GPU_RANGE_TILES_JOB_CUH
#define ADJI_GPU_RANGE_TILES_JOB_CUH

#include "gpu/index/index.cuh"
#include "gpu/shared/steps.cuh"

typedef enum adji_gpu_keep {
  ADJI_KEEP_ALL,    /* every candidate that belongs */
  ADJI_KEEP_OTHERS, /* all but the query itself, by id */
  ADJI_KEEP_ABOVE   /* those with a higher id than the query */
} adji_gpu_keep;

/* 32 entries of a row (fewer at its end), from entry number first on. */
typedef struct adji_row_chunk {
  uint32_t row, first;
} adji_row_chunk;

/* Two neighbours: the row of one, the id of the other. In a self-join both are numbers of the same set. */
typedef struct alignas(8) adji_gpu_pair {
  uint32_t row, id;
} adji_gpu_pair;

/* Tile hits: a record of the tiles of 32 candidates that the queries of a warp were compared with, one after the other.
 * A tile has 32 words, one per lane, with a bit for each candidate that belongs to the lane's query; then the 32 ids of
 * the candidates. */
typedef struct adji_tile_hits {
  uint32_t first, count;
} adji_tile_hits;
enum { ADJI_TILE_HIT_WORDS = 64 };

/* Query hits: ranges of candidates of one query, with a bit for each candidate that belongs. begin[0] is
 * ADJI_NO_QUERY_HITS if the query has none: a range was too long, or the query was compared in a dense place. */
enum { ADJI_QUERY_HIT_BITS = 32, ADJI_QUERY_HIT_GROUP = 3 };
typedef struct alignas(32) adji_query_hits {
  uint32_t begin[4], bits[4]; /* of ADJI_QUERY_HIT_GROUP ranges */
} adji_query_hits;
#define ADJI_NO_QUERY_HITS UINT32_MAX

/* What a launch does, as far as its kernels read it in this form. All memory is on the device. */
typedef struct adji_tiles_task {
  uint32_t dim;
  adji_gpu_keep keep;
  /* The queries: positions in left, ascending; in up to three dimensions in any order. NULL: the query_count positions
   * from first_query on. */
  const uint32_t *queries;
  uint64_t first_query, query_count;
  uint32_t lanes; /* queries per warp; 0: 32. Fewer mean lower latency if there are few queries */
  /* If ids is NULL, the launch counts: to degrees[row] (may be NULL) and to the answers of the device
   * (adji_answer_totals). answers are these from the first on, spread_answers those from ADJI_ANSWER_SPREAD on. */
  uint32_t *degrees;
  unsigned long long *answers, *spread_answers;
  /* Otherwise the launch fills: the entries of row r go to ids + offsets[r] - base, and their sums to sums unless that
   * is NULL. A row whose length differs from its count is reported as broken; nothing is written beyond its end. */
  const uint64_t *offsets;
  uint64_t base;
  uint32_t apart;  /* 0: row r ends at offsets[r + 1]; 1: row r extends from offsets[2 r] to offsets[2 r + 1] */
  bool short_rows; /* most have at most 16 entries */
  bool long_rows;  /* most have 64 or more */
  uint32_t *ids;
  /* With row_chunks the launch counts and caches what it finds. ids and sums have room for 32 entries of each chunk.
   * Chunk p belongs to the query at position p; ADJI_ANSWER_CACHE says how many more chunks were requested. */
  adji_row_chunk *row_chunks;
  uint64_t own_chunks; /* the first chunks belong to the queries, by position; the others are taken as needed */
  uint64_t chunk_room;
  /* With mirrored the launch counts a self-join of one index, and compares each pair of points once. degrees must be 0
   * before. With pairs it also caches what it finds: pairs were set to all ones before, and their sums go to sums
   * unless that is NULL. Two neighbours are one pair, in either order; with ADJI_KEEP_ABOVE the lower id comes first.
   * ADJI_ANSWER_CACHE says how many pairs were requested, some of which stay unused. The longest row is not
   * reported. */
  bool mirrored;
  adji_gpu_pair *pairs;
  uint64_t pair_room;
  /* With tile_hits a count caches the tile hits of dense places, and a fill of all rows reads them instead of comparing
   * again. tile_hit_starts[p]: those of the queries from position p on. ADJI_ANSWER_CACHE says how many tiles were
   * requested; if they exceed the room, the cache is useless. */
  uint32_t *tile_hits;
  adji_tile_hits *tile_hit_starts;
  uint64_t tile_hit_room;
  /* With query_hits a count writes query hits, for a fill of all rows by adji_tiles_fill_query_hits. A row of the
   * result has one group for every ADJI_QUERY_HIT_GROUP rows of cells around its query. The queries without hits go to
   * without_hits, which has room for all, in any order; ADJI_ANSWER_CACHE says how many they are. adji_tiles_run fills
   * their rows. */
  adji_query_hits *query_hits;
  uint32_t *without_hits;
} adji_tiles_task;

/* Requests items of the count cache for a warp, and returns the number of the first. Items beyond the room are counted,
 * but the caller must not write them. */
static __device__ __forceinline__ uint64_t request_items(const adji_tiles_task &job, uint64_t many, uint32_t lane) {
  unsigned long long first = 0;
  if (lane == 0) first = atomicAdd(job.answers + ADJI_ANSWER_CACHE, static_cast<unsigned long long>(many));
  return __shfl_sync(0xffffffffu, first, 0);
}

/* Where a row of the result begins and ends. */
static __device__ __forceinline__ const uint64_t *bounds_of(const adji_tiles_task &job, uint32_t row) {
  return job.offsets + (static_cast<uint64_t>(row) << job.apart);
}

typedef struct adji_tiles_job : adji_tiles_task {
  adj_type type;
  const adji_measure *measure; /* host; its box is not used */
  const void *box;             /* of the measure, on the device, or NULL */
  double limit;
  const adji_gpu_grid *grid; /* host */
  const adji_gpu_index *left, *right;
  void *sums;
  uint64_t first_row, end_row; /* the rows to fill, for per_point.cuh and query hits */
} adji_tiles_job;

#endif
