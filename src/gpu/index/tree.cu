/* SPDX-License-Identifier: MIT
 *
 * Builds the tree: puts the points in the order of the curve, as in an index, or of a host's tree, then makes boxes
 * level by level.
 *
 * Memory, per point: that of an index (index.cu), and about a quarter of the point's size for the boxes; another copy
 * of the point and its id while points are reordered.
 */
#include "gpu/index/tree.cuh"

#include <cmath>
#include <utility>

extern "C" {
#include "gpu/device/staging.h"
#include "index/extent.h"
}

enum { THREADS = 256 };

/* ---- Order ------------------------------------------------------------------------------------------ */

/* The curve goes through the box of a sample without outliers; points outside are moved to its faces. Fewer points than
 * FEW are not worth a sample. */
enum { SAMPLE = 1024, FEW = 2 * SAMPLE };

/* Copies one row from each of SAMPLE equal parts, chosen by a hash; coordinates are stored by dimension. One thread per
 * row. */
template <class T>
static __global__ void sample_rows(adji_gpu_rows rows, double *to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x, each = rows.count / SAMPLE;
  uint64_t hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
  hash ^= hash >> 29;
  const T *row = static_cast<const T *>(rows.data) + (each * i + hash % each) * rows.row_stride;
  for (uint32_t j = 0; j < rows.dim; j++)
    to[j * SAMPLE + i] = row[j * rows.column_stride];
}

/* Finds the extents of the points without outliers. */
static adj_status trim_box(adji_gpu *gpu, const adji_gpu_rows *rows, adji_block *sample, double *low, double *high) {
  uint64_t bytes = SAMPLE * rows->dim * sizeof(double);
  static_assert(SAMPLE % THREADS == 0 && SAMPLE * ADJI_TREE_DIMS * 8 <= ADJI_STAGE_BYTES, "a sample fits a buffer");
  adj_status status = adji_staging_open(gpu, 1);
  if (!status) status = adji_block_get(gpu, gpu->compute, bytes, "sample", sample);
  if (status) return status;
  double *values = static_cast<double *>(adji_staging_at(gpu, 0));
  auto take = rows->type == ADJ_F64 ? sample_rows<double> : sample_rows<float>;
  take<<<SAMPLE / THREADS, THREADS, 0, gpu->compute>>>(*rows, adji_at<double>(*sample));
  ADJI_LAUNCHED(gpu, "sample_rows");
  ADJI_CUDA(gpu, cudaMemcpyAsync(values, sample->at, bytes, cudaMemcpyDeviceToHost, gpu->compute));
  ADJI_CUDA(gpu, cudaStreamSynchronize(gpu->compute));
  for (uint32_t j = 0; j < rows->dim; j++)
    adji_trim_extent(values + j * SAMPLE, SAMPLE, ADJI_MOST_OUTLIERS, &low[j], &high[j]);
  return ADJ_OK;
}

/* Bits per dimension beyond those that separate evenly spread points, since in every dimension some points are closer
 * together than others. */
enum { SPARE_BITS = 5, LEAST_SPARE_BITS = 10 };

/* All dimensions have the same scale, so that leaves are about as long as wide. */
static adji_gpu_curve choose_curve(const adji_gpu_rows *rows, const double *low, const double *high) {
  adji_gpu_curve curve = {};
  double widest = 0, apart = 0; /* apart: the sum, over dimensions, of log2 of the extent over the widest one */
  for (uint32_t j = 0; j < rows->dim; j++)
    widest = fmax(widest, high[j] - low[j]);
  if (!(widest > 0) || !std::isfinite(widest)) widest = 0;
  uint32_t useful = 0;
  for (uint32_t j = 0; j < rows->dim && widest > 0; j++)
    if (high[j] > low[j]) {
      apart += log2((high[j] - low[j]) / widest); /* not positive */
      useful++;
    }
  uint32_t spare = SPARE_BITS * useful > LEAST_SPARE_BITS ? SPARE_BITS * useful : LEAST_SPARE_BITS;
  double wanted = log2(static_cast<double>(rows->count) + 1) + spare;
  uint32_t most = 63 / rows->dim < 31 ? 63 / rows->dim : 31;
  double each = useful ? ceil((wanted - apart) / useful) : 1;
  curve.bits = each < most ? static_cast<uint32_t>(each) : most;
  double scale = widest > 0 ? ldexp(1, static_cast<int>(curve.bits)) / widest : 0;
  curve.scale = std::isfinite(scale) ? scale : 0;
  for (uint32_t j = 0; j < rows->dim; j++)
    curve.low[j] = low[j];
  return curve;
}

/* ---- Boxes ------------------------------------------------------------------------------------------ */

/* What the boxes of a level are made from: points, or the boxes of the level below. */
template <class T>
struct box_parts {
  const T *values;     /* coordinates, or bounds */
  const uint32_t *ids; /* or the least ids */
  uint64_t step, count;
  bool points;
};

/* Finds each box with as many lanes as the box has parts. */
template <class T>
static __global__ void find_boxes(box_parts<T> from, uint32_t each, uint32_t dim, uint32_t boxes, T *bounds,
                                  uint32_t *least) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x, number = i / each;
  uint32_t width = adji_box_width<T>(dim), id = i < from.count ? from.ids[i] : UINT32_MAX;
  bool writes = i % each == 0 && number < boxes;
  for (uint32_t step = each / 2; step; step /= 2) {
    uint32_t other = __shfl_xor_sync(0xffffffffu, id, step);
    id = other < id ? other : id;
  }
  if (writes) least[number] = id;
  for (uint32_t j = 0; j < dim; j++) {
    T low = static_cast<T>(INFINITY), high = static_cast<T>(-INFINITY);
    if (i < from.count) {
      low = from.values[i * from.step + j];
      high = from.points ? low : from.values[i * from.step + dim + j];
    }
    for (uint32_t step = each / 2; step; step /= 2) {
      T l = __shfl_xor_sync(0xffffffffu, low, step), h = __shfl_xor_sync(0xffffffffu, high, step);
      low = l < low ? l : low;
      high = h > high ? h : high;
    }
    if (!writes) continue;
    bounds[number * width + j] = low;
    bounds[number * width + dim + j] = high;
  }
}

/* Sets the number of boxes of each level; returns their sum. */
static uint64_t plan_levels(adji_gpu_tree *tree) {
  uint64_t all = 0, below = tree->points.count;
  do {
    uint32_t each = tree->level_count ? ADJI_GPU_FAN : ADJI_TREE_LEAF;
    uint64_t boxes = (below + each - 1) / each;
    tree->levels[tree->level_count++] = adji_gpu_level{NULL, NULL, static_cast<uint32_t>(boxes)};
    all += boxes;
    below = boxes;
  } while (below > ADJI_GPU_FAN);
  return all;
}

/* Padding after the last point, up to the end of its leaf, is NaN, so that it is near nothing. */
template <class T>
static adj_status fill_boxes(adji_gpu *gpu, uint32_t dim, adji_gpu_tree *tree) {
  uint64_t width = adji_box_width<T>(dim), count = tree->points.count, step = tree->points.point_step;
  T *bounds = adji_at<T>(tree->bounds), *coords = static_cast<T *>(tree->points.coords);
  uint32_t *least = adji_at<uint32_t>(tree->least);
  box_parts<T> from = {coords, tree->points.ids, step, count, true};
  ADJI_CUDA(gpu, cudaMemsetAsync(coords + count * step, 0xff, ADJI_GPU_BEHIND * step * sizeof(T), gpu->compute));
  for (uint32_t l = 0; l < tree->level_count; l++) {
    adji_gpu_level *level = &tree->levels[l];
    level->bounds = bounds;
    level->least = least;
    find_boxes<<<adji_blocks_for(from.count, THREADS), THREADS, 0, gpu->compute>>>(
        from, l ? ADJI_GPU_FAN : ADJI_TREE_LEAF, dim, level->count, bounds, least);
    ADJI_LAUNCHED(gpu, "find_boxes");
    from = box_parts<T>{bounds, least, width, level->count, false};
    bounds += width * level->count;
    least += level->count;
  }
  return ADJ_OK;
}

template <class T>
static adj_status make_boxes(adji_gpu *gpu, uint32_t dim, adji_gpu_tree *tree) {
  uint64_t boxes = plan_levels(tree), bytes = boxes * adji_box_width<T>(dim) * sizeof(T);
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "boxes of the tree", &tree->bounds);
  if (!status) status = adji_block_get(gpu, gpu->compute, boxes * 4, "boxes of the tree", &tree->least);
  return status ? status : fill_boxes<T>(gpu, dim, tree);
}

/* ---- The order of a host ------------------------------------------------------------------------------ */

/* The fewest points of a host's leaf (ADJI_LEAF). Points within a leaf are in no particular order. */
enum { HOST_LEAF = 16 };

/* Moves points to the places that `order` gives, and updates `order`. Every HOST_LEAF points are sorted along the
 * dimension of their widest spread, so that the two leaves they become are small. One thread per point.
 *
 *   1. widest   the extent of the points of the leaf in each dimension, by all its threads
 *   2. rank     the number of them that come before this one
 *   3. move     the record of the point, and the id */
template <class T>
static __global__ void follow_host(const T *coords, const uint32_t *ids, uint64_t width, uint32_t dim, uint64_t count,
                                   uint32_t *order, T *new_coords, uint32_t *new_ids) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  uint32_t lane = threadIdx.x % HOST_LEAF, rank = 0;
  bool there = i < count;
  uint64_t from = there ? order[i] : 0;
  T widest = -1, own = 0;
  for (uint32_t j = 0; j < dim; j++) {
    T x = coords[from * width + j], low = there ? x : static_cast<T>(INFINITY), high = there ? x : -low;
    for (uint32_t step = HOST_LEAF / 2; step; step /= 2) {
      T l = __shfl_xor_sync(0xffffffffu, low, step), h = __shfl_xor_sync(0xffffffffu, high, step);
      low = l < low ? l : low;
      high = h > high ? h : high;
    }
    if (high - low > widest) {
      widest = high - low;
      own = x;
    }
  }
  for (uint32_t other = 0; other < HOST_LEAF; other++) {
    T x = __shfl_sync(0xffffffffu, own, other, HOST_LEAF);
    rank += i - lane + other < count && (x < own || (x == own && other < lane));
  }
  if (!there) return;
  uint64_t to = i - lane + rank;
  for (uint64_t j = 0; j < width; j++)
    new_coords[to * width + j] = coords[from * width + j];
  new_ids[to] = ids[from];
  order[i] = static_cast<uint32_t>(to);
}

template <class T>
static adj_status reorder(adji_gpu *gpu, uint32_t dim, uint32_t *order, adji_block *coords, adji_block *ids,
                          adji_gpu_tree *tree) {
  adji_gpu_index *points = &tree->points;
  follow_host<T><<<adji_blocks_for(points->count, THREADS), THREADS, 0, gpu->compute>>>(
      static_cast<const T *>(points->coords), points->ids, points->point_step, dim, points->count, order,
      adji_at<T>(*coords), adji_at<uint32_t>(*ids));
  ADJI_LAUNCHED(gpu, "follow_host");
  std::swap(points->coords_block, *coords);
  std::swap(points->ids_block, *ids);
  points->coords = points->coords_block.at;
  points->ids = adji_at<uint32_t>(points->ids_block);
  return tree->level_count ? fill_boxes<T>(gpu, dim, tree) : ADJ_OK;
}

adj_status adji_gpu_tree_follow(adji_gpu *gpu, adj_type type, uint32_t dim, uint32_t *order, adji_gpu_tree *tree) {
  adji_block coords = {}, ids = {};
  adj_status status =
      adji_block_get(gpu, gpu->compute, tree->points.coords_block.bytes, "points of the index", &coords);
  if (!status) status = adji_block_get(gpu, gpu->compute, tree->points.ids_block.bytes, "ids of the index", &ids);
  if (!status)
    status = type == ADJ_F64 ? reorder<double>(gpu, dim, order, &coords, &ids, tree)
                             : reorder<float>(gpu, dim, order, &coords, &ids, tree);
  adji_block_free(gpu, gpu->compute, &coords);
  adji_block_free(gpu, gpu->compute, &ids);
  return status;
}

/* ---- All of it --------------------------------------------------------------------------------------- */

adj_status adji_gpu_tree_build(adji_gpu *gpu, const adji_gpu_rows *rows, const adji_gpu_tree_options *options,
                               adji_gpu_tree *out) {
  *out = adji_gpu_tree{};
  adji_block sample = {};
  double low[ADJI_TREE_DIMS], high[ADJI_TREE_DIMS];
  memcpy(low, options->low, rows->dim * sizeof *low);
  memcpy(high, options->high, rows->dim * sizeof *high);
  adj_status status = rows->count < FEW ? ADJ_OK : trim_box(gpu, rows, &sample, low, high);
  adji_block_free(gpu, gpu->compute, &sample);
  if (status) return status;
  adji_gpu_curve curve = choose_curve(rows, low, high);
  adji_gpu_index_options along = {};
  along.curve = &curve;
  along.cut = options->cut;
  adji_gpu_grid none = {};
  status = adji_gpu_index_build(gpu, &none, rows, &along, &out->points);
  if (status || !rows->count) return status;
  if (options->cut) status = adji_gpu_tree_cut(gpu, rows->type, rows->dim, &out->points);
  if (!status && options->boxes)
    status = rows->type == ADJ_F64 ? make_boxes<double>(gpu, rows->dim, out) : make_boxes<float>(gpu, rows->dim, out);
  if (status) adji_gpu_tree_clear(gpu, out);
  return status;
}

void adji_gpu_tree_clear(adji_gpu *gpu, adji_gpu_tree *tree) {
  adji_gpu_index_clear(gpu, &tree->points);
  adji_blocks_free(gpu, {&tree->bounds, &tree->least});
  *tree = adji_gpu_tree{};
}
