/* SPDX-License-Identifier: MIT
 *
 * A worker for sets that do not fit a device. The left set is cut into chunks of rows, the right set into chunks of
 * ids. A left and a right chunk are a join of their own, which is all that the device has at a time; this worker puts
 * the results together. It gets these joins through a table of functions, so that tests can use others.
 *
 * In few dimensions, with a radius that is small beside the sets, chunks are regions of space instead
 * (index/regions.h), each with the right points that are within the radius of it. Then there is one join for each
 * region, not one for each two chunks, and its rows are complete. Several devices share the regions, or the left
 * chunks (divide.h).
 */
#ifndef ADJI_GPU_WORKER_CHUNKS_H
#define ADJI_GPU_WORKER_CHUNKS_H

#include "queue/engine.h"

/* Where the joins of two chunks come from. */
typedef struct adji_chunk_source {
  void *state;
  /* A worker that counts and fills alone, on one of the devices. The sets of the join outlive it. ADJ_E_DEVICE_MEMORY,
   * also from its passes: smaller chunks are tried. */
  adj_status (*open)(void *state, uint32_t device, const adji_join *join, adji_worker *out);
  /* As adji_gpu_range_worker_estimate and adji_gpu_range_worker_cells. */
  adj_status (*estimate)(adji_worker *worker, uint64_t sample, double *pairs, double *candidates);
  uint64_t (*cells)(const adji_worker *worker);
  void (*destroy)(void *state);
  uint32_t devices; /* that share regions or left chunks; 0 is 1 */
} adji_chunk_source;

/* Chunks have at most `size` points. On success the worker owns the source.
 * Memory of a fill, beside the window: 16 bytes a row of a chunk; for entries on their way 256 MiB, or a quarter of
 * what the limit leaves, or the longest row; and for rows ordered by distance, per thread, four of the longest rows. */
adj_status adji_chunks_create(const adji_join *join, const adji_chunk_source *source, uint64_t size, adji_worker *out);

/* Uses regions from now on, if they serve: L2, L1 and Linf in up to six dimensions, and a region with the points around
 * it has no more points than a chunk and a quarter. Changes no result.
 * Memory: 2 bytes a point, once more for those near another region; for each device three eighths of the points or 256
 * MiB, at most a quarter of what the limit leaves, for regions on their way; a region's points, 5 bytes each, and their
 * counts. */
adj_status adji_chunks_use_regions(adji_worker *worker);
/* Whether that may be so, by the join alone. */
bool adji_chunks_may_use_regions(const adji_join *join);
bool adji_chunks_has_regions(const adji_worker *worker);

bool adji_is_chunks(const adji_worker *worker);
uint64_t adji_chunks_size(const adji_worker *worker);
/* From the middle one of the left chunks, scaled up to all. */
adj_status adji_chunks_estimate(adji_worker *worker, uint64_t sample, double *pairs, double *candidates);
/* Non-empty cells of the largest index that the estimate met. */
uint64_t adji_chunks_cells(const adji_worker *worker);

#endif
