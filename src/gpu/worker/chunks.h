/* SPDX-License-Identifier: MIT
 *
 * A worker for sets that do not fit a device. The left set is cut into chunks of rows, the right set into chunks of
 * ids. A left and a right chunk are a join of their own, and the device has one such join at a time. This worker
 * combines the results. It opens these joins through a table of functions, so that tests can use others.
 *
 * In few dimensions, with a radius that is small compared with the extent of the sets, chunks are regions of space
 * instead (index/regions.h), each with the right points within the radius around it. Then there is one join for each
 * region, not one for each two chunks, and its rows are complete. Several devices share the regions, or the left chunks
 * (divide.h).
 */
#ifndef ADJI_GPU_WORKER_CHUNKS_H
#define ADJI_GPU_WORKER_CHUNKS_H

#include "queue/engine.h"

/* Opens the joins of two chunks. */
typedef struct adji_chunk_source {
  void *state;
  /* Makes a worker that counts and fills alone, on one of the devices. The sets of the join outlive it. If this or one
   * of the worker's passes fails with ADJ_E_DEVICE_MEMORY, smaller chunks are tried. */
  adj_status (*open)(void *state, uint32_t device, const adji_join *join, adji_worker *out);
  /* The same as adji_gpu_range_worker_estimate and adji_gpu_range_worker_cells. */
  adj_status (*estimate)(adji_worker *worker, uint64_t sample, double *pairs, double *candidates);
  uint64_t (*cells)(const adji_worker *worker);
  void (*destroy)(void *state);
  uint32_t devices; /* devices that share regions or left chunks; 0 means 1 */
} adji_chunk_source;

/* Chunks have at most `size` points. On success the worker owns the source.
 * Memory of a fill, beside the window: 16 bytes per row of a chunk; for entries in transfer the smaller of 256 MiB and
 * a quarter of what the limit leaves, but at least the longest row; and, for rows ordered by distance, four of the
 * longest rows per thread. */
adj_status adji_chunks_create(const adji_join *join, const adji_chunk_source *source, uint64_t size, adji_worker *out);

/* Uses regions from now on, where possible: for L2, L1 and Linf in up to six dimensions, if each region with the points
 * around it has no more points than a chunk and a quarter. The result does not change.
 * Memory: 2 bytes per point, once more for points near another region; for regions in transfer to each device three
 * eighths of the points or 256 MiB, whichever is more, but at most a quarter of what the limit leaves; 5 bytes per
 * point of a region, and their counts. */
adj_status adji_chunks_use_regions(adji_worker *worker);
/* Whether the join allows that. The sizes of the regions are not considered. */
bool adji_chunks_may_use_regions(const adji_join *join);
bool adji_chunks_has_regions(const adji_worker *worker);

bool adji_is_chunks(const adji_worker *worker);
uint64_t adji_chunks_size(const adji_worker *worker);
/* Estimates from the middle left chunk, scaled up to all. */
adj_status adji_chunks_estimate(adji_worker *worker, uint64_t sample, double *pairs, double *candidates);
/* The non-empty cells of the largest index that an estimate has built. */
uint64_t adji_chunks_cells(const adji_worker *worker);

#endif
