/* SPDX-License-Identifier: MIT
 *
 * A join in chunks, for sets that do not fit a device: left by stretches of rows, right by stretches of ids. A stretch
 * of either is a join of its own, of which the device has no more at a time; this engine puts them together. Host code
 * that knows the device only through a table of functions, so that tests can put another in its place.
 */
#ifndef ADJI_GPU_RANGE_CHUNKS_H
#define ADJI_GPU_RANGE_CHUNKS_H

#include "queue/join.h"

/* Where the joins of two stretches come from. */
typedef struct adji_chunk_source {
  void *state;
  /* An engine with count, fill and destroy. The sets of the join outlive it. ADJ_E_DEVICE_MEMORY, also from its count
   * and fill: smaller stretches are tried. */
  adj_status (*open)(void *state, const adji_join *join, adji_engine *out);
  /* As adji_gpu_engine_estimate and adji_gpu_engine_cells. */
  adj_status (*estimate)(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);
  uint64_t (*cells)(const adji_engine *engine);
  void (*destroy)(void *state);
} adji_chunk_source;

/* Stretches have at most `size` points. On success the engine owns the source.
 * Memory of a fill, beside the window: 16 bytes a row of a stretch; for entries on their way 256 MiB, or a quarter of
 * what the limit leaves, or the longest row; and for rows ordered by distance, per thread, four of the longest rows. */
adj_status adji_chunks_create(const adji_join *join, const adji_chunk_source *source, uint64_t size, adji_engine *out);

bool adji_is_chunks(const adji_engine *engine);
uint64_t adji_chunks_size(const adji_engine *engine);
/* From the middle one of the left stretches, scaled up to all. */
adj_status adji_chunks_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);
/* Of the index with the most cells that were not empty, among those that the estimate met. */
uint64_t adji_chunks_cells(const adji_engine *engine);

#endif
