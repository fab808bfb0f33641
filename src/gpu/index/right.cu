/* SPDX-License-Identifier: MIT
 *
 * Right sets on a device: points, trees and grids that outlive a join. Also queries that are packed for a search in the
 * order they come in.
 */
#include "gpu/index/right.cuh"

#include <cstdlib>

extern "C" {
#include "gpu/device/staging.h"
#include "gpu/device/survey.h"
}

enum { THREADS = 128 };

/* ---- Queries ---------------------------------------------------------------------------------------- */

/* coords: the coordinates of each row, and its number where there is room for it. One thread per row; all arrays in
 * device memory. Limited by latency, since there are few rows. */
template <class T, int WIDTH>
static __global__ void pack_queries(adji_gpu_rows rows, T *coords, uint32_t *ids, unsigned long long *not_finite) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= rows.count) return;
  const T *from = static_cast<const T *>(rows.data) + i * rows.row_stride;
  struct alignas(WIDTH * sizeof(T) < 16 ? WIDTH * sizeof(T) : 16) point {
    T x[WIDTH];
  } to;
#pragma unroll
  for (uint32_t j = 0; j < WIDTH; j++) {
    to.x[j] = j < rows.dim ? from[j * rows.column_stride] : adji_gpu_id_as(static_cast<uint32_t>(i), T());
    if (j < rows.dim && !isfinite(to.x[j])) atomicMax(not_finite, ~static_cast<unsigned long long>(i * rows.dim + j));
  }
  reinterpret_cast<point *>(coords)[i] = to;
  ids[i] = static_cast<uint32_t>(i);
}

template <class T>
static adj_status pack(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_index *out) {
  uint64_t width = adji_gpu_width(rows->dim), room = (rows->count + 31) / 32 * 32 + ADJI_GPU_BEHIND;
  out->count = rows->count;
  out->point_step = width;
  out->dim_step = 1;
  adj_status status =
      adji_block_get(gpu, gpu->compute, adji_mul(room, width * sizeof(T)), "queries", &out->coords_block);
  if (!status) status = adji_block_get(gpu, gpu->compute, room * 4, "queries", &out->ids_block);
  out->coords = out->coords_block.at;
  out->ids = adji_at<uint32_t>(out->ids_block);
  if (status || !rows->count) return status;
  auto kernel = width == 1   ? pack_queries<T, 1>
                : width == 2 ? pack_queries<T, 2>
                : width == 4 ? pack_queries<T, 4>
                             : pack_queries<T, 8>;
  kernel<<<adji_blocks_for(rows->count, THREADS), THREADS, 0, gpu->compute>>>(
      *rows, adji_at<T>(out->coords_block), out->ids, adji_answer_at(gpu, ADJI_ANSWER_NOT_FINITE));
  ADJI_LAUNCHED(gpu, "pack_queries");
  return ADJ_OK;
}

adj_status adji_gpu_index_pack(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_index *out) {
  *out = adji_gpu_index{};
  adj_status status = rows->type == ADJ_F64 ? pack<double>(gpu, rows, out) : pack<float>(gpu, rows, out);
  if (status) adji_gpu_index_clear(gpu, out);
  return status;
}

adj_status adji_gpu_check_packed(const adji_gpu *gpu, uint32_t dim) {
  uint64_t found = gpu->answers[ADJI_ANSWER_NOT_FINITE];
  return found ? adji_gpu_refuse_value(~found, dim) : ADJ_OK;
}

adj_status adji_gpu_send_limits(adji_gpu *gpu, const adji_join *join, adji_device_stats *work, adji_block *to) {
  uint64_t count = join->left->count;
  const double *limits = join->limits;
  if (!limits || !count) return ADJ_OK;
  if (join->left->type == ADJ_F64) return adji_gpu_send_bytes(gpu, limits, count * sizeof *limits, "radii", to, work);
  float *narrow = static_cast<float *>(malloc(count * sizeof *narrow));
  if (!narrow) return adji_fail(ADJ_E_MEMORY, "no memory for the radii");
  for (uint64_t i = 0; i < count; i++)
    narrow[i] = static_cast<float>(limits[i]); /* exact: a limit is a value of the type */
  adj_status status = adji_gpu_send_bytes(gpu, narrow, count * sizeof *narrow, "radii", to, work);
  free(narrow);
  return status;
}

/* ---- The forms -------------------------------------------------------------------------------------- */

static adj_status build_tree(adji_gpu_right *r, const adji_gpu_right_options *o) {
  adji_gpu_tree_options options = {o->set->low, o->set->high, true, o->cut};
  return adji_gpu_tree_build(r->gpu, &r->rows, &options, &r->tree);
}

/* Fetches the number of cells from its answer at once, since the next join overwrites it. */
static adj_status build_grid(adji_gpu_right *r, const adji_gpu_right_options *o) {
  adji_gpu_index_options options = {};
  options.images = adji_grid_is_periodic(o->grid);
  options.cells = true;
  adj_status status = adji_gpu_grid_make(r->gpu, o->grid, o->squares ? o->limit : 0, &r->grid);
  if (!status) status = adji_gpu_index_build(r->gpu, &r->grid, &r->rows, &options, &r->index);
  if (!status) status = adji_answers_fetch(r->gpu, r->gpu->compute);
  if (!status && !r->index.cell_count) r->index.cell_count = r->gpu->answers[ADJI_ANSWER_CELLS];
  return status;
}

static adj_status build(adji_gpu_right *r, const adji_gpu_right_options *o) {
  adj_status status = ADJ_OK;
  if (o->rows)
    r->rows = *o->rows;
  else
    status = adji_gpu_fetch_bytes(r->gpu, o->set, &r->points, &r->rows, &r->work);
  if (status || o->form == ADJI_RIGHT_POINTS) return status;
  status = adji_stopwatch_start(r->gpu, r->gpu->compute, &r->watch);
  if (!status) status = o->form == ADJI_RIGHT_TREE ? build_tree(r, o) : build_grid(r, o);
  if (!status) status = adji_stopwatch_stop(r->gpu, r->gpu->compute, &r->watch);
  adji_block_free(r->gpu, r->gpu->compute, &r->points);
  r->rows = adji_gpu_rows{};
  return status;
}

adj_status adji_gpu_right_open(adji_gpu *gpu, const adji_gpu_right_options *options, adji_gpu_right **out) {
  adji_gpu_right *r = static_cast<adji_gpu_right *>(calloc(1, sizeof *r));
  if (!r) return adji_fail(ADJ_E_MEMORY, "no memory for an index");
  r->gpu = gpu;
  r->form = options->form;
  r->shared = options->shared;
  adj_status status = build(r, options);
  if (status)
    adji_gpu_right_close(r);
  else
    *out = r;
  return status;
}

void adji_gpu_right_close(adji_gpu_right *r) {
  if (!r) return;
  cudaSetDevice(r->gpu->device);
  adji_block_free(r->gpu, r->gpu->compute, &r->points);
  adji_gpu_tree_clear(r->gpu, &r->tree);
  adji_gpu_index_clear(r->gpu, &r->index);
  adji_gpu_grid_clear(r->gpu, &r->grid);
  adji_stopwatch_clear(&r->watch);
  free(r);
}

const adji_gpu_rows *adji_gpu_right_rows(const adji_gpu_right *r) {
  return &r->rows;
}

adji_device_stats adji_gpu_right_work(adji_gpu_right *r) {
  r->work.kernel_s = adji_stopwatch_read(&r->watch);
  return r->work;
}
