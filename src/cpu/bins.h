/* SPDX-License-Identifier: MIT
 *
 * Bins: every lane appends 32-bit words to bins of its own, one for each stretch of rows. All writes go to the ends of
 * the bins, which stay in a cache. A bin is a list of chunks. Bins may be in groups; the memory of a group can be freed
 * before that of others.
 */
#ifndef ADJI_BINS_H
#define ADJI_BINS_H

#include "core/context.h"

typedef struct adji_chunk {
  struct adji_chunk *next; /* the next older chunk */
  const uint32_t *end;     /* end of the words, set once there is a newer chunk */
  uint32_t words[];
} adji_chunk;

typedef struct adji_bin {
  uint32_t *at, *end; /* free space in the newest chunk */
  adji_chunk *chunks; /* the newest first                  */
  uint64_t entries;   /* counted by the caller */
} adji_bin;

typedef struct adji_bin_lane {
  _Alignas(64) adji_bin *bins;  /* aligned: no two lanes share a cache line */
  struct adji_bin_slab **slabs; /* by group: memory for chunks, the newest first */
} adji_bin_lane;

typedef struct adji_bins {
  adj_ctx *ctx;
  uint32_t shift;         /* bin of a row: row >> shift */
  uint64_t count;         /* bins per lane */
  const uint32_t *groups; /* the group of each bin; NULL: all are in group 0 */
  uint64_t group_count;   /* 0: the same as 1 */
  uint64_t chunk_bytes, slab_bytes;
  adji_bin_lane *lanes;
} adji_bins;

/* Opens bins that will hold about `bytes` bytes, all lanes together. The members before chunk_bytes must be set. After
 * a failure the bins must still be closed. */
ADJI_SHARED adj_status adji_bins_open(adji_bins *bins, double bytes);
ADJI_SHARED void adji_bins_close(adji_bins *bins);
/* Frees the memory of all bins of a group, which are then unusable. */
ADJI_SHARED void adji_bins_drop(const adji_bins *bins, uint64_t group);

/* Begins another chunk with room for at least `words` words. False: out of memory. */
ADJI_SHARED bool adji_bins_add_chunk(const adji_bins *bins, uint32_t lane, adji_bin *bin, uint64_t words);

/* Returns the bin of a row, with room for `words` words at bin->at. NULL: out of memory. */
static inline adji_bin *adji_bins_reserve(const adji_bins *bins, uint32_t lane, uint32_t row, uint64_t words) {
  adji_bin *bin = &bins->lanes[lane].bins[row >> bins->shift];
  if ((uint64_t)(bin->end - bin->at) >= words || adji_bins_add_chunk(bins, lane, bin, words)) return bin;
  return NULL;
}

/* The words of a chunk end here. */
static inline const uint32_t *adji_bin_end(const adji_bin *bin, const adji_chunk *chunk) {
  return chunk->end ? chunk->end : bin->at;
}

/* ---- Records ---------------------------------------------------------------------------------------------------- */

/* A row in a bin: its number, its length, its ids, and its distances if they are wanted. */
enum { ADJI_RECORD = 2 }; /* words before the ids */
/* The name of a row that is not wanted. */
#define ADJI_NO_NAME UINT32_MAX

/* How many rows have each length. */
enum { ADJI_LENGTHS = 128 };
typedef struct adji_lengths {
  uint64_t rows[ADJI_LENGTHS]; /* the last one: rows of that length or a greater one */
  uint64_t longest;            /* entries of the rows in the last one */
} adji_lengths;

/* A range join's result in bins, for a caller that puts the rows into place itself. */
typedef struct adji_binned {
  /* Set by the caller. The numbers of rows in records and for bins, by row; ascending, but for rows that are not
   * wanted. All of `bins` up to group_count. */
  const uint32_t *names;
  adji_bins bins;
  /* Set by a join that finds rows in one pass; any other join fills a result as usual. */
  bool filled;
  adji_lengths lengths; /* of the wanted rows that are not empty */
} adji_binned;

#endif
