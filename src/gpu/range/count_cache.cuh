/* SPDX-License-Identifier: MIT
 *
 * The count cache: what a count keeps to speed up the fill. It holds row chunks or pairs of neighbours, which a fill
 * only has to move; or tile hits or query hits, which say which candidates belong (adji_tiles_job).
 */
#ifndef ADJI_GPU_RANGE_COUNT_CACHE_CUH
#define ADJI_GPU_RANGE_COUNT_CACHE_CUH

#include "gpu/range/tiles_job.cuh"

typedef enum adji_count_cache_form {
  ADJI_CACHE_NONE,
  ADJI_CACHE_ROW_CHUNKS,
  ADJI_CACHE_PAIRS,
  ADJI_CACHE_TILE_HITS,
  ADJI_CACHE_QUERY_HITS
} adji_count_cache_form;

typedef struct adji_count_cache {
  adji_count_cache_form form;
  adj_type type;        /* of the sums */
  adji_block items;     /* adji_row_chunk, adji_gpu_pair, the adji_tile_hits of every position, or adji_query_hits */
  adji_block ids, sums; /* row chunks: 32 entries each, sums only if wanted. Pairs: only sums. Tile hits: they are in
                           ids. Query hits: ids has the queries without hits */
  uint64_t room, count; /* items that fit; items requested, or with query hits the number of queries without hits */
  adji_block cursors;   /* pairs: entries of each row that are in place */
} adji_count_cache;

/* What to cache. */
typedef struct adji_count_cache_request {
  adji_count_cache_form form;
  double room;   /* items */
  uint64_t rows; /* of the result */
  adj_type type; /* of sums, if they are cached */
  bool sums;
} adji_count_cache_request;

/* Makes room for a cache. There is none if that would take more than half of the available memory. */
adj_status adji_count_cache_make(adji_gpu *gpu, const adji_count_cache_request *request, adji_count_cache *out);
void adji_count_cache_free(adji_gpu *gpu, adji_count_cache *cache);

/* Makes a job that counts write to the cache, or a job that fills all rows read the hits in it. queries: the number of
 * queries of the count, of which each has a chunk of its own. */
void adji_count_cache_use(const adji_count_cache *cache, uint64_t queries, adji_tiles_job *job);

/* Where the rows of a window go: entries of row r to ids + offsets[r] - window.base, and their sums unless NULL. */
typedef struct adji_count_cache_place {
  const uint64_t *offsets;
  adji_gpu_window window;
  uint32_t *ids;
  void *sums;
  bool one_way; /* a pair belongs to the row of its first point only */
} adji_count_cache_place;

/* Puts cached row chunks or pairs into place. Hits are read by other kernels (tiles.cuh). */
adj_status adji_count_cache_put(adji_gpu *gpu, const adji_count_cache *cache, const adji_count_cache_place *place);

#endif
