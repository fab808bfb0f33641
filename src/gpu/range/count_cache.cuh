/* SPDX-License-Identifier: MIT
 *
 * What a count keeps of what it finds, so that a fill only moves it: pieces of rows, pairs of neighbours, or
 * stages or marks, which say what belongs (adji_tiles_job).
 */
#ifndef ADJI_GPU_RANGE_COUNT_CACHE_CUH
#define ADJI_GPU_RANGE_COUNT_CACHE_CUH

#include "gpu/range/tiles_job.cuh"

extern "C" {
#include "gpu/device/result.h"
}

typedef enum adji_count_cache_form {
  ADJI_CACHE_NONE,
  ADJI_CACHE_ROW_CHUNKS,
  ADJI_CACHE_PAIRS,
  ADJI_CACHE_TILE_HITS,
  ADJI_CACHE_QUERY_HITS
} adji_count_cache_form;

typedef struct adji_count_cache {
  adji_count_cache_form form;
  adj_type type;        /* of the sums                                                              */
  adji_block items;     /* adji_row_chunk, adji_gpu_pair, the adji_tile_hits of every position, or adji_query_hits */
  adji_block ids, sums; /* of pieces 32 entries each; sums may be none, pairs have ids in themselves; or the stages; or
                           queries without marks */
  uint64_t room, count; /* items there are, and asked for; marks: queries that have none              */
  adji_block cursors;   /* pairs: how many entries of each row are in place                          */
} adji_count_cache;

/* What is to be kept. */
typedef struct adji_count_cache_request {
  adji_count_cache_form form;
  double room;   /* items                          */
  uint64_t rows; /* of the result                  */
  adj_type type; /* of sums, if they are kept too */
  bool sums;
} adji_count_cache_request;

/* Makes room; none where that would take more than half of the memory that is left. */
adj_status adji_count_cache_make(adji_gpu *gpu, const adji_count_cache_request *request, adji_count_cache *out);
void adji_count_cache_free(adji_gpu *gpu, adji_count_cache *kept);

/* Where the rows of a window go: entries of row r to ids + offsets[r] - window.base, and their sums unless NULL. */
typedef struct adji_count_cache_place {
  const uint64_t *offsets;
  adji_gpu_window window;
  uint32_t *ids;
  void *sums;
  bool one_way; /* pairs are only of the row that comes first in them */
} adji_count_cache_place;

/* Pieces and pairs. Stages and marks are for the kernels that filled them. */
adj_status adji_count_cache_put(adji_gpu *gpu, const adji_count_cache *kept, const adji_count_cache_place *place);

#endif
