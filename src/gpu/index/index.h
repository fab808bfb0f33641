/* SPDX-License-Identifier: MIT
 *
 * The grid's index on a device: sizes that plans count with.
 */
#ifndef ADJI_GPU_INDEX_INDEX_H
#define ADJI_GPU_INDEX_INDEX_H

/* In few dimensions the coordinates of a point lie together in the index, in so many elements that a lane loads them at
 * once; where one of these is left over, the last holds the bits of the id. 0: dimension by dimension. */
#define ADJI_GPU_WIDTH(dim) ((dim) <= 2 ? (dim) : (dim) <= 4 ? 4 : (dim) <= 6 ? 8 : 0)

/* Most entries of a directory of cells, a little less than two a point: the directory, the numbers and the ids of
 * points in a plane then take less than twice the bytes of the points. */
#define ADJI_GPU_BUCKETS(points) (2 * (points) - (points) / 16 + 1024)

#endif
