/* SPDX-License-Identifier: MIT
 *
 * A worker for kNN joins through trees whose sets do not fit a device. Both sets are cut into the same regions of space
 * (index/cuts.h), which are small enough to fit. Regions are searched one after the other:
 *
 *   1. home     the left points of a region search its right points, and those within a margin around it. A row is
 *               complete when its k-th neighbour is within the margin, or no cut is nearer. The other rows, few or
 *               none, go to a pool, with the neighbours found so far
 *   2. rest     if the right points around the rows of the pool fit the device, these rows search them
 *   3. visits   otherwise each region is put on the device once more, and searched by those rows of the pool that may
 *               have neighbours in its box. Their k-th sums so far bound the search. The neighbours they find are
 *               merged into their lists
 *
 * So every point goes to the device once or twice, whatever the number of regions. When the pool is full, steps 2 and 3
 * come early, and points go to the device more often.
 *
 * If the points of both sets fit half of the device, they go there once, and the device picks the points of each step.
 * Otherwise the host lists the points of each region (index/regions.h) and gathers them.
 *
 * The rows of a region stay on the device until the search of the next region has begun, so that cores put them into
 * the window while kernels run.
 */
#ifndef ADJI_GPU_WORKER_KNN_CHUNKS_H
#define ADJI_GPU_WORKER_KNN_CHUNKS_H

#include "gpu/knn/knn.h"
#include "queue/engine.h"

/* Whether a join can be done in chunks: through trees, in up to six dimensions, without a grid, and with rows that fit
 * half of a pinned buffer. Otherwise the message says why not. */
adj_status adji_knn_chunks_can(const adji_gpu_knn_options *options);

/* How sets are cut: the most points of a region, and whether the device picks them. */
typedef struct adji_knn_chunking {
  uint64_t size;
  bool picks;
} adji_knn_chunking;
/* Chooses the largest regions that fit the device together with the memory of their search, with at least
 * ADJI_LEAST_CHUNK points; or regions of `size` points, unless that is 0. */
enum { ADJI_LEAST_CHUNK = 256 };
adji_knn_chunking adji_knn_chunks_choose(const adji_gpu_knn_options *options, uint64_t device_bytes, uint64_t size);
/* Bytes of device memory for whole sets, with the rows of some queries. */
uint64_t adji_knn_whole_bytes(const adji_gpu_knn_options *options);

/* Opens the context's first device. Regions have about as many points as chosen, or fewer; that number is halved when
 * the device has no room.
 * Memory of the host: for the pool up to a quarter of what the limit leaves, and one bit per point for the search of
 * its rows; two regions of each set with 4 bytes per point. Unless the device picks regions, also 2 bytes per point of
 * each set, twice for the right set if there are visits; for regions in transfer three eighths of the points or 256
 * MiB; and the points of one region for the search of the pool's rows. */
adj_status adji_knn_chunks_create(const adji_gpu_knn_options *options, adji_knn_chunking chunking, adji_worker *out);

bool adji_is_knn_chunks(const adji_worker *worker);
uint64_t adji_knn_chunks_size(const adji_worker *worker);

#endif
