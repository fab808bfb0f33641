/* SPDX-License-Identifier: MIT
 *
 * The range join's default kernels: what a launch of them does, and what a count leaves for a fill.
 */
#ifndef ADJI_GPU_RANGE_TILES_JOB_CUH
#define ADJI_GPU_RANGE_TILES_JOB_CUH

#include "gpu/index/index.cuh"
#include "gpu/shared/steps.cuh"

typedef enum adji_gpu_keep {
  ADJI_KEEP_ALL,    /* of what belongs, every candidate                */
  ADJI_KEEP_OTHERS, /* all but the query itself, by id                 */
  ADJI_KEEP_ABOVE   /* those whose id is above the query's             */
} adji_gpu_keep;

/* 32 entries of a row (fewer where it ends), from number first on. */
typedef struct adji_row_chunk {
  uint32_t row, first;
} adji_row_chunk;

/* Two points that are neighbours: the row of one, the id of the other; in a self-join these are of the same kind. */
typedef struct alignas(8) adji_gpu_pair {
  uint32_t row, id;
} adji_gpu_pair;

/* Stages of candidates that queries were compared with together, one behind the other. Each is 32 words, one for each
 * lane, with a bit for each candidate that belongs to its query, and the candidates' 32 ids. */
typedef struct adji_tile_hits {
  uint32_t first, count;
} adji_tile_hits;
enum { ADJI_TILE_HIT_WORDS = 64 };

/* Ranges of candidates of a query that are compared with it alone: a bit for each that belongs. The first one of a
 * query that has none, since a range is too long or it was compared together with others, begins at ADJI_NO_QUERY_HITS.
 */
enum { ADJI_QUERY_HIT_BITS = 32, ADJI_QUERY_HIT_GROUP = 3 };
typedef struct alignas(32) adji_query_hits {
  uint32_t begin[4], bits[4]; /* of ADJI_QUERY_HIT_GROUP ranges */
} adji_query_hits;
#define ADJI_NO_QUERY_HITS UINT32_MAX

/* What a launch does. All memory is the device's. */
typedef struct adji_tiles_job {
  adj_type type;
  const adji_measure *measure; /* host; its box is not used               */
  const void *box;             /* of the measure, on the device, or NULL  */
  double limit;
  uint32_t dim;
  const adji_gpu_grid *grid; /* host */
  const adji_gpu_index *left, *right;
  adji_gpu_keep keep;
  /* The queries: positions in left, ascending, or in up to three dimensions in any order; NULL: first_query and those
   * behind it. */
  const uint32_t *queries;
  uint64_t first_query, query_count;
  uint32_t lanes; /* queries a warp; 0: 32. Fewer, for a few queries in little time */
  /* ids NULL: counts, to degrees[row] (may be NULL) and adji_answer_totals. */
  uint32_t *degrees;
  /* Otherwise fills: entries of row r go to ids + offsets[r] - base, as many as were counted; their sums too unless
   * sums is NULL. Rows of another length are counted as broken, and nothing is written behind them. */
  uint32_t *ids;
  void *sums;
  const uint64_t *offsets;
  uint32_t
      apart; /* 0: row r ends where the next begins, at offsets[r + 1]; 1: rows are from offsets[2 r] to [2 r + 1] */
  uint64_t base;
  bool short_rows;             /* most have no more than 16 entries */
  bool long_rows;              /* most have 64 or more              */
  uint64_t first_row, end_row; /* the rows to fill: for per_point.cuh */
  /* With pieces: counts, and keeps what it finds. ids and sums have room for 32 entries of each piece. Piece p
   * is one of the query at position p; there are as many more as ADJI_ANSWER_PIECES says. */
  adji_row_chunk *pieces;
  uint64_t own_pieces; /* of the queries, by their positions, before those that are taken as needed */
  uint64_t piece_room;
  /* With mirrored: counts in a self-join of one index, and compares every two points once; degrees must be 0 before.
   * Keeps what it finds in pairs (which were set to all ones, and have their sums in sums unless that is NULL), if
   * there are any: every neighbour of a row is in one pair, in one of its places, but the query itself, and with
   * ADJI_KEEP_ABOVE only in the first. There are as many pairs as ADJI_ANSWER_PIECES says, some of them left as they
   * were. longest is not told. */
  bool mirrored;
  adji_gpu_pair *pairs;
  uint64_t pair_room;
  /* With stages: counting keeps those of queries that are compared together, for a fill of all rows, which reads them
   * instead of comparing again. starts[p] are those of the queries from position p on. There are as many as
   * ADJI_ANSWER_PIECES says: none that are behind the room are there, and then they are of no use. */
  uint32_t *stages;
  adji_tile_hits *starts;
  uint64_t tile_hit_room;
  /* With marks: counting marks queries, for a fill of all rows by adji_tiles_fill_query_hits. A row of the result has a
   * group of them for every ADJI_QUERY_HIT_GROUP rows of cells around its query. Those that are not marked go to
   * without_hits, which has room for all, in any order, as many as ADJI_ANSWER_PIECES says: adji_tiles_run fills their
   * rows. */
  adji_query_hits *marks;
  uint32_t *without_hits;
} adji_tiles_job;

#endif
