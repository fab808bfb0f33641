/* SPDX-License-Identifier: MIT
 *
 * Sizes of the index on a device, and of lists of queries, for host code.
 */
#ifndef ADJI_GPU_INDEX_INDEX_H
#define ADJI_GPU_INDEX_INDEX_H

/* In few dimensions the index stores the coordinates of a point side by side, in as many elements as a lane loads at
 * once. If there are more elements than dimensions, the last one holds the bits of the id. 0: one array per
 * dimension. */
#define ADJI_GPU_WIDTH(dim) ((dim) <= 2 ? (dim) : (dim) <= 4 ? 4 : (dim) <= 6 ? 8 : 0)

/* The most entries of a cell directory, a little less than two per point. For points in a plane, the directory, the
 * cell numbers and the ids then take less than twice the bytes of the points. */
#define ADJI_GPU_BUCKETS(points) (2 * (points) - (points) / 16 + 1024)

/* A host may pass lists of queries to a device, as ranges of its own order. The ranges of a list must fit a pinned
 * buffer, and a range should not keep a block of threads busy for long. */
enum { ADJI_MOST_RANGES = 1 << 16, ADJI_LONGEST_RANGE = 4096 };

/* Lists that a device has room for. Some are in progress while the results of another are copied. That copy takes long
 * where it touches the memory of the result for the first time. */
enum { ADJI_LISTS = 4 };

#endif
