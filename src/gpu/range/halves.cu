/* SPDX-License-Identifier: MIT
 *
 * Makes half-precision copies of points, and bounding boxes of tiles. Bound by memory: each coordinate is read once
 * and written once, in half its size.
 */
#include <cuda_fp16.h>

#include "gpu/range/halves.cuh"

enum { THREADS = 256, AT_ONCE = 8 };

/* Writes the copies of an index. A thread has a position. It reads its coordinates one after the other, coalesced with
 * its neighbours, and writes eight halves at a time. Copies after the last point are zero and never pass. v and errors:
 * one per position. most: the bits of the largest error of a point that is not a stray. */
static __global__ void write_halves(adji_halves_scale scale, const float *centre, const float *coords,
                                    uint64_t point_step, uint64_t dim_step, uint64_t count, uint64_t room,
                                    uint4 *values, float *v, float *errors, uint32_t *most) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  double rest_sq = 0, norm_sq = 0;
  for (uint32_t first = 0; first < scale.width && i < room; first += AT_ONCE) {
    __half eight[AT_ONCE];
    for (uint32_t k = 0; k < AT_ONCE; k++) {
      uint32_t j = first + k;
      eight[k] = __half(0.0f);
      if (j >= scale.dim || i >= count) continue;
      double z =
          (static_cast<double>(coords[i * point_step + j * dim_step]) - static_cast<double>(centre[j])) * scale.scale;
      eight[k] = __double2half(adji_halves_cut(z));
      double rounded = static_cast<double>(__half2float(eight[k])), rest = z - rounded;
      rest_sq += rest * rest;
      norm_sq += rounded * rounded;
    }
    uint4 packed;
    memcpy(&packed, eight, sizeof packed);
    values[i * (scale.width / AT_ONCE) + first / AT_ONCE] = packed;
  }
  float error = adji_halves_error(rest_sq, norm_sq), own_error = 0;
  if (i < count && !adji_halves_is_stray(&scale, error)) own_error = error;
  uint32_t largest = __reduce_max_sync(0xffffffffu, __float_as_uint(own_error));
  if (threadIdx.x % ADJI_WARP == 0 && largest) atomicMax(most, largest);
  if (i >= room) return;
  v[i] = i < count ? adji_halves_candidate(&scale, norm_sq, error) : ADJI_HALVES_ABSENT;
  if (i < count) errors[i] = error;
}

/* Turns errors into u, in place. */
static __global__ void bound_queries(adji_halves_scale scale, const float *v, const uint32_t *most, uint64_t count,
                                     float *u) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) u[i] = adji_halves_query(&scale, v[i], u[i], __uint_as_float(*most));
}

/* Finds the bounding boxes of tiles. One warp per tile. */
static __global__ void find_boxes(adji_gpu_boxes boxes, const float *coords, uint64_t point_step, uint64_t dim_step,
                                  uint64_t count, uint64_t tiles, float *bounds) {
  uint64_t tile = (static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x) / ADJI_WARP;
  uint32_t lane = threadIdx.x % ADJI_WARP;
  if (tile >= tiles) return;
  for (uint32_t a = 0; a < boxes.axes; a++) {
    float low = INFINITY, high = -INFINITY;
    for (uint32_t k = lane; k < ADJI_HALVES_TILE; k += ADJI_WARP) {
      uint64_t i = tile * ADJI_HALVES_TILE + k;
      if (i >= count) break;
      float x = coords[i * point_step + boxes.dim[a] * dim_step];
      low = fminf(low, x);
      high = fmaxf(high, x);
    }
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
      low = fminf(low, __shfl_xor_sync(0xffffffffu, low, step));
      high = fmaxf(high, __shfl_xor_sync(0xffffffffu, high, step));
    }
    if (lane) continue;
    bounds[2 * a * tiles + tile] = low;
    bounds[(2 * a + 1) * tiles + tile] = high;
  }
}

/* Makes the copies of one set, with v and the errors. */
static adj_status copy_points(adji_gpu *gpu, const adji_gpu_halves *h, const adji_gpu_index *index, uint32_t *most,
                              adji_block *values, adji_block *v, adji_block *errors) {
  uint64_t room = (index->count + ADJI_HALVES_TILE - 1) / ADJI_HALVES_TILE * ADJI_HALVES_TILE;
  adj_status status = adji_block_get(gpu, gpu->compute, room * h->scale.width * 2, "half-precision points", values);
  if (!status) status = adji_block_get(gpu, gpu->compute, room * 4, "half-precision points", v);
  if (!status) status = adji_block_get(gpu, gpu->compute, room * 4, "half-precision points", errors);
  if (status) return status;
  write_halves<<<adji_blocks_for(room, THREADS), THREADS, 0, gpu->compute>>>(
      h->scale, adji_at<float>(h->centre), static_cast<const float *>(index->coords), index->point_step,
      index->dim_step, index->count, room, adji_at<uint4>(*values), adji_at<float>(*v), adji_at<float>(*errors), most);
  ADJI_LAUNCHED(gpu, "write_halves");
  return ADJ_OK;
}

static adj_status make_boxes(adji_gpu *gpu, const adji_gpu_grid *grid, const adji_gpu_index *right,
                             adji_gpu_halves *h) {
  adji_gpu_boxes *boxes = &h->boxes;
  for (uint32_t j = 0; j < h->scale.dim; j++)
    for (uint32_t a = 0; a < grid->axis_count; a++)
      if (grid->axes[a].dim == j) boxes->dim[boxes->axes++] = j;
  if (!boxes->axes) return ADJ_OK;
  adj_status status = adji_block_get(gpu, gpu->compute, 2 * boxes->axes * h->tiles * 4, "bounding boxes", &h->bounds);
  if (status) return status;
  boxes->bounds = adji_at<float>(h->bounds);
  find_boxes<<<adji_blocks_for(h->tiles * ADJI_WARP, THREADS), THREADS, 0, gpu->compute>>>(
      *boxes, static_cast<const float *>(right->coords), right->point_step, right->dim_step, right->count, h->tiles,
      adji_at<float>(h->bounds));
  ADJI_LAUNCHED(gpu, "find_boxes");
  return ADJ_OK;
}

static adj_status bound(adji_gpu *gpu, const adji_gpu_halves *h, const adji_block *v, uint64_t count) {
  bound_queries<<<adji_blocks_for(count, THREADS), THREADS, 0, gpu->compute>>>(
      h->scale, adji_at<float>(*v), adji_at<uint32_t>(h->most), count, adji_at<float>(h->u_block));
  ADJI_LAUNCHED(gpu, "bound_queries");
  return ADJ_OK;
}

/* In a self-join the errors of the set become u. Otherwise only the largest error of the candidates is needed. */
static adj_status copy_sets(adji_gpu *gpu, const adji_gpu_index *left, const adji_gpu_index *right,
                            adji_gpu_halves *h) {
  uint32_t *most = adji_at<uint32_t>(h->most);
  adji_block rest = {};
  bool one = left == right;
  adj_status status = copy_points(gpu, h, right, most, &h->right_values, &h->v_block, one ? &h->u_block : &rest);
  adji_block_free(gpu, gpu->compute, &rest);
  if (status || one) return status ? status : bound(gpu, h, &h->v_block, right->count);
  adji_block own_v = {};
  status = copy_points(gpu, h, left, most + 1, &h->left_values, &own_v, &h->u_block);
  if (!status) status = bound(gpu, h, &own_v, left->count);
  adji_block_free(gpu, gpu->compute, &own_v);
  return status;
}

static adj_status make(adji_gpu *gpu, const adji_halves_plan *plan, const adji_gpu_grid *grid,
                       const adji_gpu_index *left, const adji_gpu_index *right, adji_gpu_halves *h) {
  uint64_t bytes = h->scale.dim * sizeof(float);
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "centre of the points", &h->centre);
  if (!status) status = adji_block_get(gpu, gpu->compute, 2 * sizeof(uint32_t), "errors", &h->most);
  if (status) return status;
  ADJI_CUDA(gpu, cudaMemcpyAsync(h->centre.at, plan->centre, bytes, cudaMemcpyHostToDevice, gpu->compute));
  ADJI_CUDA(gpu, cudaMemsetAsync(h->most.at, 0, h->most.bytes, gpu->compute));
  status = copy_sets(gpu, left, right, h);
  if (!status) status = make_boxes(gpu, grid, right, h);
  h->right = h->right_values.at;
  h->left = left == right ? h->right : h->left_values.at;
  h->u = adji_at<float>(h->u_block);
  h->v = adji_at<float>(h->v_block);
  return status;
}

adj_status adji_gpu_halves_make(adji_gpu *gpu, const adji_halves_plan *plan, const adji_gpu_grid *grid,
                                const adji_gpu_index *left, const adji_gpu_index *right, adji_gpu_halves *out) {
  *out = adji_gpu_halves{};
  out->scale = plan->scale;
  out->tiles = (right->count + ADJI_HALVES_TILE - 1) / ADJI_HALVES_TILE;
  adj_status status = left->count && right->count ? make(gpu, plan, grid, left, right, out) : ADJ_OK;
  if (status) adji_gpu_halves_clear(gpu, out);
  return status;
}

void adji_gpu_halves_clear(adji_gpu *gpu, adji_gpu_halves *h) {
  adji_blocks_free(gpu,
                   {&h->centre, &h->most, &h->left_values, &h->right_values, &h->u_block, &h->v_block, &h->bounds});
}
