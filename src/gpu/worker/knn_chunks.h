/* SPDX-License-Identifier: MIT
 *
 * A worker for kNN joins through trees whose sets do not fit a device. Both sets are cut into the same regions of space
 * (index/cuts.h), which are small enough. Regions are searched one after the other:
 *
 *   1. home     the left points of a region search its right points, and those within a margin around it. A row is
 *               complete when its k-th neighbour is within the margin, or no cut is nearer. The other rows are few or
 *               none: they go to a pool, with what they found
 *   2. rest     the right points around the rows of the pool, if they fit the device, are searched by these rows
 *   3. visits   otherwise a region is put on the device once more, and searched by those rows of the pool that its box
 *               may have neighbours for; their k-th sums so far bound the search. What they find is merged into their
 *               lists
 *
 * So every point goes to the device once or twice, whatever the number of regions. When the pool is full, steps 2 and 3
 * come early; then points go there more often.
 *
 * Where the points of both sets fit half of the device, they go there once, and the device picks the points of each
 * step. Otherwise the host lists the points of each region (index/regions.h) and gathers them.
 *
 * The rows of a region stay on the device until the search of the next one has begun: cores put them into the window
 * while kernels run.
 */
#ifndef ADJI_GPU_WORKER_KNN_CHUNKS_H
#define ADJI_GPU_WORKER_KNN_CHUNKS_H

#include "gpu/knn/knn.h"
#include "queue/engine.h"

/* Whether there are such joins: through trees, in up to six dimensions, without a grid. And rows must fit half of a
 * pinned buffer. Otherwise the message says why not. */
adj_status adji_knn_chunks_can(const adji_gpu_knn_options *options);

/* How sets are cut: points of a region, at most; and whether the device picks them. */
typedef struct adji_knn_chunking {
  uint64_t size;
  bool picks;
} adji_knn_chunking;
/* As many as fit the device with what a search of them takes, at least ADJI_LEAST_CHUNK; or `size` of them, unless that
 * is 0. */
enum { ADJI_LEAST_CHUNK = 256 };
adji_knn_chunking adji_knn_chunks_choose(const adji_gpu_knn_options *options, uint64_t device_bytes, uint64_t size);
/* Bytes of the device for whole sets, with the rows of some queries. */
uint64_t adji_knn_whole_bytes(const adji_gpu_knn_options *options);

/* Opens the context's first device. Regions have about as many points as chosen or fewer, which are halved when the
 * device has no room.
 * Memory of the host: for the pool up to a quarter of what the limit leaves, and a bit a point for the search of its
 * rows; two regions of each set with 4 bytes a point. Unless the device picks them, also 2 bytes a point of each set,
 * of the right one twice if there are visits; for regions on their way three eighths of the points or 256 MiB, and a
 * region of points for the search of the pool's rows. */
adj_status adji_knn_chunks_create(const adji_gpu_knn_options *options, adji_knn_chunking chunking, adji_worker *out);

bool adji_is_knn_chunks(const adji_worker *worker);
uint64_t adji_knn_chunks_size(const adji_worker *worker);

#endif
