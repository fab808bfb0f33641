/* SPDX-License-Identifier: MIT
 *
 * Brute force by matrix products: tiles of queries and points, one after the other.
 *
 * 1. A tile is a matrix in device memory of products (cublas.cuh); norms are added in place.
 * 2. Selection lists the smallest values of its rows. If the right set is cut into column ranges, their lists are
 *    merged.
 * 3. A query with a complete list is certified or fails.
 * 4. After the last tile the canonical sums of the certified lists are computed.
 *
 * Memory, beside the copies: the matrix, up to 4 GiB or a quarter of what is available; what selection takes; one list
 * per query of a matrix, 3 with several column ranges; up to 32 MiB for cuBLAS. If any of this does not fit, the matrix
 * is made smaller.
 */
#include "gpu/brute/prefilter_gemm.cuh"

#include "gpu/brute/brute_lists.cuh"
#include "gpu/device/cublas.cuh"

namespace {

/* The most queries of a matrix: cuBLAS and grids count in int. */
enum { MOST_ROWS = 1 << 20 };

/* A batch of queries, and its current tile. */
struct tile_work {
  adji_gpu *gpu;
  const adji_tensor_points *points;
  const adji_brute_job *job;
  const adji_tensor_batch *batch;
  adji_select_algorithm select;
  adji_brute_tile tile;
  uint64_t first, rows; /* queries first .. first + rows - 1 of the job */
  adji_block matrix;
  adji_brute_running lists;
};

uint64_t size_of(adj_type type) {
  return type == ADJ_F64 ? 8 : 4;
}

adj_status multiply(tile_work *w, uint64_t first, uint64_t columns) {
  adji_products p = {};
  p.type = w->job->type;
  p.width = w->points->rules.width;
  p.rows = w->rows;
  p.columns = columns;
  p.stride = w->tile.stride;
  p.x = adji_at<char>(w->batch->values) + w->first * w->points->row_bytes;
  p.y = adji_at<char>(w->points->values) + first * w->points->row_bytes;
  p.values = w->matrix.at;
  return adji_cublas_multiply(w->gpu, &p);
}

adj_status add_norms(tile_work *w, uint64_t first, uint64_t columns) {
  adji_gemm_values v = {};
  v.type = w->job->type;
  v.rows = w->rows;
  v.columns = columns;
  v.stride = w->tile.stride;
  v.first_row = w->job->first_row + w->first;
  v.first_point = w->job->right_first + first;
  v.drop_self = w->job->drop_self;
  v.halves = adji_at<char>(w->points->starts) + first * size_of(w->job->type);
  v.values = w->matrix.at;
  return adji_gemm_add_norms(w->gpu, &v);
}

adj_status select_smallest(tile_work *w, uint64_t columns) {
  adji_brute_lists to = adji_brute_running_next(&w->lists);
  adji_gpu_select s = {};
  s.type = w->job->type;
  s.values = w->matrix.at;
  s.rows = w->rows;
  s.columns = columns;
  s.row_stride = w->tile.stride;
  s.k = w->lists.k;
  s.sorted = true;
  s.columns_out = to.ids;
  s.values_out = to.sums;
  s.algorithm = w->select;
  return adji_gpu_select_rows(w->gpu, &s);
}

adj_status list_tile(tile_work *w) {
  uint64_t count = w->points->count;
  adj_status status = ADJ_OK;
  for (uint64_t first = 0; first < count && !status; first += w->tile.columns) {
    uint64_t columns = count - first < w->tile.columns ? count - first : w->tile.columns;
    status = multiply(w, first, columns);
    if (!status) status = add_norms(w, first, columns);
    if (!status) status = select_smallest(w, columns);
    if (!status) status = adji_brute_running_add(w->gpu, &w->lists, first);
  }
  return status;
}

adj_status certify_tile(tile_work *w) {
  adji_gemm_lists lists = {};
  lists.points = w->points;
  lists.job = w->job;
  lists.batch = w->batch;
  lists.first = w->first;
  lists.rows = w->rows;
  lists.positions = w->lists.best.ids;
  lists.values = w->lists.best.sums;
  return adji_gemm_certify(w->gpu, &lists);
}

adj_status search_tile(tile_work *w) {
  adj_type type = w->job->type;
  bool several = w->tile.columns < w->points->count;
  uint64_t bytes = w->tile.stride * w->tile.rows * size_of(type);
  adj_status status = adji_block_get(w->gpu, w->gpu->compute, bytes, "products", &w->matrix);
  if (!status) status = adji_brute_running_get(w->gpu, type, w->rows, w->batch->rounds.capacity, several, &w->lists);
  if (!status) status = list_tile(w);
  if (!status) status = certify_tile(w);
  adji_block_free(w->gpu, w->gpu->compute, &w->matrix);
  adji_brute_running_free(w->gpu, &w->lists);
  return status;
}

/* all: what is the same for every tile. */
adj_status search_tiles(const tile_work *all) {
  const adji_brute_job *job = all->job;
  uint64_t values = adji_brute_values(adji_gpu_available(all->gpu), size_of(job->type));
  for (uint64_t first = 0; first < job->queries;) {
    tile_work w = *all;
    uint64_t remaining = job->queries - first;
    w.first = first;
    w.tile = adji_brute_tile_of(remaining < MOST_ROWS ? remaining : MOST_ROWS, w.points->count,
                                w.batch->rounds.capacity, values);
    w.rows = w.tile.rows;
    adj_status status = search_tile(&w);
    if (status == ADJ_E_DEVICE_MEMORY && adji_brute_fewer_values(&values)) continue;
    if (status) return status;
    first += w.rows;
  }
  return ADJ_OK;
}

/* The lists of all queries, with memory for cuBLAS. */
adj_status list_all(const tile_work *all) {
  adji_gpu *gpu = all->gpu;
  uint64_t bytes = adji_gpu_available(gpu) / 16, least = ADJI_CUBLAS_LEAST_ROOM, most = ADJI_CUBLAS_ROOM;
  bytes = bytes < least ? least : bytes < most ? adji_rounded_up(bytes, least) : most;
  adji_block workspace = {};
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "cuBLAS workspace", &workspace);
  if (!status) status = adji_cublas_begin(gpu, &workspace);
  if (!status) status = search_tiles(all);
  adji_block_free(gpu, gpu->compute, &workspace);
  return status;
}

}  // namespace

bool adji_gemm_can(const adji_brute_job *job) {
  return adji_tensor_can(job) && job->k <= ADJI_GEMM_MOST_K;
}

uint64_t adji_gemm_query_bytes(const adji_brute_job *job) {
  return adji_gemm_width(job->dim) * size_of(job->type) + sizeof(adji_tensor_query) + 12 +
         adji_gemm_listed(job->k, job->right_count) * sizeof(uint2);
}

adj_status adji_gemm_search(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                            const adji_brute_choice *choice, adji_tensor_batch *batch, adji_tensor_outcome *out) {
  *out = adji_tensor_outcome{};
  if (!job->queries) return ADJ_OK;
  adji_tensor_rounds rounds = {adji_gemm_listed(job->k, points->count), 2, 0, 0};
  while (rounds.most < rounds.capacity || rounds.most < job->k)
    rounds.most *= 2;
  batch->rounds = rounds;
  adj_status status = adji_tensor_batch_get(gpu, points, job, batch);
  if (status) return status;
  ADJI_CUDA(gpu, cudaMemsetAsync(batch->failed.at, 0, 2 * sizeof(uint32_t), gpu->compute));
  tile_work all = {};
  all.gpu = gpu;
  all.points = points;
  all.job = job;
  all.batch = batch;
  all.select = choice->select;
  status = adji_gemm_copy_queries(gpu, points, job, batch);
  if (!status) status = list_all(&all);
  if (!status) status = adji_tensor_refine(gpu, points, batch, job);
  return status ? status : adji_tensor_fetch(gpu, batch, out);
}
