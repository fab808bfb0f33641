/* SPDX-License-Identifier: MIT
 *
 * Joins of sets that do not fit a device. The left set is cut into stretches of rows, the right set into stretches of
 * ids. Each pair of stretches is a join of its own, one at a time on the device; this engine combines them. Host code
 * that knows the device only through a table of functions, so that tests can replace it.
 */
#ifndef ADJI_GPU_RANGE_CHUNKS_H
#define ADJI_GPU_RANGE_CHUNKS_H

#include "queue/join.h"

/* Opens the joins of two stretches. */
typedef struct adji_chunk_source {
  void *state;
  /* An engine with count, fill and destroy. The sets of the join outlive it. On ADJ_E_DEVICE_MEMORY, also from its
   * count and fill, smaller stretches are tried. */
  adj_status (*open)(void *state, const adji_join *join, adji_engine *out);
  /* Like adji_gpu_engine_estimate and adji_gpu_engine_cells. */
  adj_status (*estimate)(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);
  uint64_t (*cells)(const adji_engine *engine);
  void (*destroy)(void *state);
} adji_chunk_source;

/* Stretches have at most `size` points. On success the engine owns the source.
 *
 * Memory of a fill, beside the window: 16 bytes per row of a stretch; 256 MiB for entries in flight, or a quarter of
 * the remaining limit, or the longest row; and for rows ordered by distance, per thread, four of the longest rows. */
adj_status adji_chunks_create(const adji_join *join, const adji_chunk_source *source, uint64_t size, adji_engine *out);

bool adji_is_chunks(const adji_engine *engine);
uint64_t adji_chunks_size(const adji_engine *engine);
/* From the middle left stretch, scaled up to all. */
adj_status adji_chunks_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);
/* Non-empty cells of the largest index that the estimate used. */
uint64_t adji_chunks_cells(const adji_engine *engine);

#endif
