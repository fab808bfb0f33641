/* SPDX-License-Identifier: MIT
 *
 * Brute force through tensor cores over copies in tree order (prefilter_tensor_order.cu): which tiles of candidates a
 * block of queries has to scan.
 *
 * The proof. A point that belongs to a query's neighbours and is not a stray has |x^ - y^| <= p, as prefilter_tensor.h
 * derives; its copy y^ is in the box of its tile. So the sum of squared gaps between x^ and the box is at most p^2, and
 * a tile with a larger sum can be skipped. A tile that has a stray is never skipped: its box is infinite.
 *
 * Rounding. Boxes are stored as centre c and half length h in f32; the gap in a dimension is |x - c| - h. Let c* and h*
 * be exact, g* = |x - c*| - h* the true gap, u = 2^-24. |c - c*| <= u |c|, and t = fl(|x - c|) <= (|x - c*| + u |c|) (1
 * + u) <= (g* + h*)(1 + u) + 2u |c|. With h >= h* (1 + 4u) + 4u |c| the rounded t - h is at most g* (1 + 4u), where g*
 * is positive. Sums of up to 32 squares of such gaps exceed the true one by less than 2^-17 of it. p^2 is kept larger
 * by 2^-15. The same holds for a box of queries, with the sum of both half lengths.
 */
#ifndef ADJI_GPU_BRUTE_PREFILTER_TENSOR_TILES_CUH
#define ADJI_GPU_BRUTE_PREFILTER_TENSOR_TILES_CUH

#include "gpu/brute/prefilter_tensor.cuh"

/* Tiles of an item of work; the most tiles that are chosen as nearest. */
enum { ADJI_ITEM_TILES = 16, ADJI_TILE_NEAREST = 64 };

/* An entry of a list: a tile, and bits above it. */
enum : uint32_t { ADJI_TILE_BITS = 24, ADJI_TILE_MASK = (1u << ADJI_TILE_BITS) - 1 };

/* Computes the boxes of all tiles of copies that are in order. */
adj_status adji_tile_boxes(adji_gpu *gpu, adji_tensor_points *points);

/* Bytes of the lists of a block of queries. */
uint64_t adji_tile_list_bytes(uint64_t points);
/* Gets memory for the lists of a batch. */
adj_status adji_tile_lists_get(adji_gpu *gpu, adji_tensor_batch *batch);

/* Make the work for the next scan. begin: chooses, for each block of queries, the batch's `nearest` tiles whose points
 * are expected to be nearest, and schedules the first `starts` of them. nearest: schedules the rest of them. list:
 * lists all other tiles that are within reach of a query, nearest first. next: schedules entries first .. end - 1 of
 * these lists that are still within reach. */
adj_status adji_tile_begin(adji_gpu *gpu, const adji_tensor_batch *batch);
adj_status adji_tile_nearest(adji_gpu *gpu, const adji_tensor_batch *batch);
adj_status adji_tile_list(adji_gpu *gpu, const adji_tensor_batch *batch);
adj_status adji_tile_next(adji_gpu *gpu, const adji_tensor_batch *batch, uint64_t first, uint64_t end);

/* The lists of a batch in device memory: `tiles` entries for each block of queries. */
typedef struct adji_tile_lists {
  uint32_t *sorted, *listed; /* the entries made by list, and their number */
  uint32_t *work;            /* the entries made by begin and next */
} adji_tile_lists;
adji_tile_lists adji_tile_lists_of(const adji_tensor_batch *batch);

/* The number of dimensions that boxes are padded to. */
__host__ __device__ constexpr uint32_t adji_tile_box_dims(uint32_t dim) {
  return dim <= 8 ? 8 : dim <= 12 ? 12 : dim <= 16 ? 16 : dim <= 24 ? 24 : 32;
}

/* ---- prefilter_tensor_order.cu ---- */
/* Copies in device memory, `width` halves each, of which `dim` are used, at most ADJI_TENSOR_MOST_SKIP_DIM. */
typedef struct adji_order_job {
  const void *values;
  uint64_t count;
  uint32_t dim, width;
} adji_order_job;

/* order[i]: the number of the copy at position i. Device memory, `count` entries. Waits. While it works it takes 12
 * bytes per copy, and 0.2 per copy for the nodes of the tree. */
adj_status adji_tile_order(adji_gpu *gpu, const adji_order_job *job, uint32_t *order);

#endif
