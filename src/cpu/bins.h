/* SPDX-License-Identifier: MIT
 *
 * Bins: every lane appends 32-bit words to bins of its own, one for each stretch of rows. All writes go to the ends of
 * the bins, which stay in a cache. A bin is a list of chunks.
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
  _Alignas(64) adji_bin *bins; /* aligned: no two lanes share a cache line */
  struct adji_bin_slab *slabs; /* memory for chunks, the newest first */
} adji_bin_lane;

typedef struct adji_bins {
  adj_ctx *ctx;
  uint32_t shift; /* bin of a row: row >> shift */
  uint64_t count; /* bins per lane */
  uint64_t chunk_bytes, slab_bytes;
  adji_bin_lane *lanes;
} adji_bins;

/* Opens bins that will hold about `bytes` bytes, all lanes together. ctx, shift and count must be set. After a failure
 * the bins must still be closed. */
adj_status adji_bins_open(adji_bins *bins, double bytes);
void adji_bins_close(adji_bins *bins);

/* Begins another chunk with room for at least `words` words. False: out of memory. */
bool adji_bins_add_chunk(const adji_bins *bins, uint32_t lane, adji_bin *bin, uint64_t words);

/* Returns the bin of a row, with room for `words` words at bin->at. NULL: out of memory. */
static inline adji_bin *adji_bins_reserve(const adji_bins *bins, uint32_t lane, uint32_t row, uint64_t words) {
  adji_bin *bin = &bins->lanes[lane].bins[row >> bins->shift];
  if ((uint64_t)(bin->end - bin->at) >= words || adji_bins_add_chunk(bins, lane, bin, words)) return bin;
  return NULL;
}

static inline const uint32_t *adji_bin_end(const adji_bin *bin, const adji_chunk *chunk) {
  return chunk->end ? chunk->end : bin->at;
}

#endif
