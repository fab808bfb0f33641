/* SPDX-License-Identifier: MIT
 *
 * Building the tree: points along the curve as an index has them, then boxes level by level.
 *
 * Memory, per point: what an index takes (index.cu), and 1/16 of the point's size for the boxes.
 */
#include "gpu/tree.cuh"

#include <cmath>

enum { THREADS = 256 };

/* ---- Order ------------------------------------------------------------------------------------------ */

/* Bits beyond those that tell all points apart: where some lie closer together than others. */
enum { SPARE_BITS = 10 };

static adji_gpu_curve choose_curve(const adji_gpu_rows *rows, const double *low, const double *high) {
  adji_gpu_curve curve = {};
  uint32_t bits = SPARE_BITS;
  while (bits < 63 && (UINT64_C(1) << (bits - SPARE_BITS)) < rows->count)
    bits++;
  curve.bits = (bits + rows->dim - 1) / rows->dim;
  if (curve.bits * rows->dim > 63) curve.bits = 63 / rows->dim;
  if (curve.bits > 31) curve.bits = 31;
  for (uint32_t j = 0; j < rows->dim; j++) {
    double width = high[j] - low[j];
    curve.low[j] = low[j];
    curve.scale[j] = width > 0 && std::isfinite(width) ? ldexp(1, static_cast<int>(curve.bits)) / width : 0;
  }
  return curve;
}

/* ---- Boxes ------------------------------------------------------------------------------------------ */

template <class T>
static __device__ __forceinline__ void reduce_box(T *low, T *high) {
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
    T l = __shfl_xor_sync(0xffffffffu, *low, step), h = __shfl_xor_sync(0xffffffffu, *high, step);
    *low = l < *low ? l : *low;
    *high = h > *high ? h : *high;
  }
}

/* A warp a box: of the 32 points of a leaf, or of 32 boxes of the level below. below NULL: of points. */
template <class T>
static __global__ void find_boxes(const T *coords, uint64_t point_step, uint64_t count, const T *below,
                                  uint64_t below_stride, uint32_t dim, uint32_t boxes, T *bounds) {
  uint32_t box = (blockIdx.x * THREADS + threadIdx.x) / ADJI_WARP, lane = threadIdx.x % ADJI_WARP;
  if (box >= boxes) return;
  uint64_t i = static_cast<uint64_t>(box) * ADJI_GPU_FAN + lane;
  for (uint32_t j = 0; j < dim; j++) {
    T low = static_cast<T>(INFINITY), high = static_cast<T>(-INFINITY);
    if (i < count && !below) low = high = coords[i * point_step + j];
    if (i < count && below) {
      low = below[(2 * j) * below_stride + i];
      high = below[(2 * j + 1) * below_stride + i];
    }
    reduce_box(&low, &high);
    if (lane) continue;
    bounds[(2 * j) * static_cast<uint64_t>(boxes) + box] = low;
    bounds[(2 * j + 1) * static_cast<uint64_t>(boxes) + box] = high;
  }
}

/* How many boxes each level has; returns all of them. */
static uint64_t plan_levels(adji_gpu_tree *tree) {
  uint64_t all = 0, below = tree->points.count;
  do {
    uint64_t boxes = (below + ADJI_GPU_FAN - 1) / ADJI_GPU_FAN;
    tree->levels[tree->level_count++] = adji_gpu_level{NULL, boxes, static_cast<uint32_t>(boxes)};
    all += boxes;
    below = boxes;
  } while (below > ADJI_GPU_FAN);
  return all;
}

template <class T>
static adj_status make_boxes(adji_gpu *gpu, uint32_t dim, adji_gpu_tree *tree) {
  uint64_t all = plan_levels(tree);
  adj_status status = adji_block_get(gpu, gpu->compute, all * 2 * dim * sizeof(T), "boxes of the tree", &tree->bounds);
  if (status) return status;
  T *bounds = adji_at<T>(tree->bounds);
  const T *below = NULL, *coords = static_cast<const T *>(tree->points.coords);
  uint64_t count = tree->points.count, stride = 0;
  for (uint32_t l = 0; l < tree->level_count; l++) {
    adji_gpu_level *level = &tree->levels[l];
    level->bounds = bounds;
    find_boxes<T><<<adji_blocks_for(level->stride * ADJI_WARP, THREADS), THREADS, 0, gpu->compute>>>(
        coords, tree->points.point_step, count, below, stride, dim, level->count, bounds);
    ADJI_LAUNCHED(gpu, "find_boxes");
    below = bounds;
    count = stride = level->stride;
    bounds += 2 * dim * level->stride;
  }
  return ADJ_OK;
}

/* ---- All of it --------------------------------------------------------------------------------------- */

adj_status adji_gpu_tree_build(adji_gpu *gpu, const adji_gpu_rows *rows, const double *low, const double *high,
                               bool boxes, adji_gpu_tree *out) {
  *out = adji_gpu_tree{};
  adji_gpu_curve curve = choose_curve(rows, low, high);
  adji_gpu_index_options options = {};
  options.curve = &curve;
  adji_gpu_grid none = {};
  adj_status status = adji_gpu_index_build(gpu, &none, rows, &options, &out->points);
  if (status || !boxes || !rows->count) return status;
  status = rows->type == ADJ_F64 ? make_boxes<double>(gpu, rows->dim, out) : make_boxes<float>(gpu, rows->dim, out);
  if (status) adji_gpu_tree_clear(gpu, out);
  return status;
}

void adji_gpu_tree_clear(adji_gpu *gpu, adji_gpu_tree *tree) {
  adji_gpu_index_clear(gpu, &tree->points);
  adji_block_free(gpu, gpu->compute, &tree->bounds);
  *tree = adji_gpu_tree{};
}
