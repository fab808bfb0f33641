/* SPDX-License-Identifier: MIT
 *
 * The matrix method of brute force, for any metric, type, dimension and k. The sums of some queries with all right
 * points, or a range of them, go to a matrix in device memory, and selection (select.h) finds the k smallest of each
 * row. With several column ranges, lists of the k nearest so far are merged with those of the next range.
 *
 * A pair that does not belong is a NaN in the matrix, which selection orders after every number. Infinite sums are
 * neighbours like others.
 *
 * Memory: the matrix, up to 4 GiB or a quarter of what is available; what selection takes; with several ranges 3 lists
 * of k entries for the queries of a matrix. If any of this does not fit, the matrix is made smaller.
 */
#include "gpu/brute/brute_matrix.cuh"

#include "gpu/brute/brute_distance.cuh"
#include "gpu/brute/brute_lists.cuh"

namespace {

enum { GATHER_THREADS = 256 };
/* The most queries of a matrix, so that a grid has enough blocks. */
enum { MOST_ROWS = 1 << 20 };

/* The tile of queries being searched. */
struct tile_work {
  adji_gpu *gpu;
  const adji_brute_job *job;
  const adji_brute_choice *choice;
  adji_brute_tile tile;
  uint64_t first, rows;       /* queries first .. first + rows - 1 of the job */
  adji_block matrix, queries; /* queries: those of numbers, packed */
  adji_brute_running lists;
};

uint64_t size_of(adj_type type) {
  return type == ADJ_F64 ? 8 : 4;
}

/* to[i] = row numbers[i]. One thread per coordinate; all arrays in device memory. */
template <class T>
__global__ void gather_rows(const T *from, uint64_t first_row, const uint32_t *numbers, uint64_t rows, uint32_t dim,
                            T *to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < rows * dim) to[i] = from[(numbers[i / dim] - first_row) * dim + i % dim];
}

/* Finds, or gathers, the coordinates of the tile's queries. */
adj_status find_queries(tile_work *w, const void **out) {
  const adji_brute_job *job = w->job;
  uint64_t values = w->rows * job->dim, size = size_of(job->type);
  if (!job->numbers) {
    *out = static_cast<const char *>(job->left) + (job->first_row + w->first - job->left_first) * job->dim * size;
    return ADJ_OK;
  }
  adj_status status = adji_block_get(w->gpu, w->gpu->compute, values * size, "queries", &w->queries);
  if (status) return status;
  uint32_t blocks = adji_blocks_for(values, GATHER_THREADS);
  const uint32_t *numbers = job->numbers + w->first;
  if (job->type == ADJ_F64)
    gather_rows<<<blocks, GATHER_THREADS, 0, w->gpu->compute>>>(static_cast<const double *>(job->left), job->left_first,
                                                                numbers, w->rows, job->dim,
                                                                adji_at<double>(w->queries));
  else
    gather_rows<<<blocks, GATHER_THREADS, 0, w->gpu->compute>>>(static_cast<const float *>(job->left), job->left_first,
                                                                numbers, w->rows, job->dim, adji_at<float>(w->queries));
  ADJI_LAUNCHED(w->gpu, "gather_rows");
  *out = w->queries.at;
  return ADJ_OK;
}

adj_status fill_matrix(tile_work *w, const void *queries, uint64_t first, uint64_t columns) {
  const adji_brute_job *job = w->job;
  adji_distance_job d = {};
  d.kernel = w->choice->distance;
  d.type = job->type;
  d.measure = job->measure;
  d.box = job->box;
  d.dim = job->dim;
  d.rows = static_cast<uint32_t>(w->rows);
  d.columns = static_cast<uint32_t>(columns);
  d.queries = queries;
  d.points = static_cast<const char *>(job->right) + first * job->dim * size_of(job->type);
  d.first_row = job->first_row + w->first;
  d.first_point = job->right_first + first;
  d.numbers = job->numbers ? job->numbers + w->first : NULL;
  d.drop_self = job->drop_self;
  d.limit = job->limit;
  d.stride = w->tile.stride;
  d.values = w->matrix.at;
  return adji_brute_distances(w->gpu, &d);
}

/* The k nearest among right points first .. first + columns - 1, as lists of columns. */
adj_status search_columns(tile_work *w, const void *queries, uint64_t first, uint64_t columns,
                          const adji_brute_lists &to) {
  adj_status status = fill_matrix(w, queries, first, columns);
  if (status) return status;
  adji_gpu_select s = {};
  s.type = w->job->type;
  s.values = w->matrix.at;
  s.rows = w->rows;
  s.columns = columns;
  s.row_stride = w->tile.stride;
  s.k = w->job->k;
  s.sorted = true;
  s.columns_out = to.ids;
  s.values_out = to.sums;
  s.algorithm = w->choice->select;
  return adji_gpu_select_rows(w->gpu, &s);
}

/* Writes the rows of the result; rows of numbers are scattered. */
adj_status deliver(tile_work *w, const adji_brute_lists &from, uint64_t first_id) {
  const adji_brute_job *job = w->job;
  uint64_t at = job->numbers ? 0 : w->first * job->k;
  adji_brute_lists to = {job->ids + at, static_cast<char *>(job->distances) + at * size_of(job->type)};
  adji_brute_finish f = {};
  f.type = job->type;
  f.rows = w->rows;
  f.k = job->k;
  f.from = from;
  f.to = to;
  f.first = static_cast<uint32_t>(first_id);
  f.root = job->root;
  f.numbers = job->numbers ? job->numbers + w->first : NULL;
  f.first_row = job->first_row;
  return adji_brute_finish_lists(w->gpu, &f);
}

/* All right points at once: selection writes to the result itself if its rows are contiguous. */
adj_status search_all_columns(tile_work *w, const void *queries) {
  const adji_brute_job *job = w->job;
  adji_brute_lists to = {job->ids + w->first * job->k,
                         static_cast<char *>(job->distances) + w->first * job->k * size_of(job->type)};
  adj_status status = ADJ_OK;
  if (job->numbers) {
    status = adji_brute_running_get(w->gpu, job->type, w->rows, job->k, false, &w->lists);
    to = w->lists.best;
  }
  if (!status) status = search_columns(w, queries, 0, job->right_count, to);
  return status ? status : deliver(w, to, job->right_first);
}

adj_status search_column_ranges(tile_work *w, const void *queries) {
  const adji_brute_job *job = w->job;
  adj_status status = adji_brute_running_get(w->gpu, job->type, w->rows, job->k, true, &w->lists);
  for (uint64_t first = 0; first < job->right_count && !status; first += w->tile.columns) {
    uint64_t remaining = job->right_count - first, columns = remaining < w->tile.columns ? remaining : w->tile.columns;
    status = search_columns(w, queries, first, columns, adji_brute_running_next(&w->lists));
    if (!status) status = adji_brute_running_add(w->gpu, &w->lists, job->right_first + first);
  }
  return status ? status : deliver(w, w->lists.best, 0);
}

adj_status search_tile(tile_work *w) {
  const adji_brute_job *job = w->job;
  const void *queries = NULL;
  uint64_t bytes = w->tile.stride * w->tile.rows * size_of(job->type);
  adj_status status = adji_block_get(w->gpu, w->gpu->compute, bytes, "distances", &w->matrix);
  if (!status) status = find_queries(w, &queries);
  if (!status)
    status = w->tile.columns < job->right_count ? search_column_ranges(w, queries) : search_all_columns(w, queries);
  adji_block_free(w->gpu, w->gpu->compute, &w->matrix);
  adji_block_free(w->gpu, w->gpu->compute, &w->queries);
  adji_brute_running_free(w->gpu, &w->lists);
  return status;
}

}  // namespace

adj_status adji_brute_matrix(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice) {
  uint64_t values = adji_brute_values(adji_gpu_available(gpu), size_of(job->type));
  for (uint64_t first = 0; first < job->queries;) {
    tile_work w = {};
    uint64_t remaining = job->queries - first;
    w.gpu = gpu;
    w.job = job;
    w.choice = choice;
    w.first = first;
    w.tile = adji_brute_tile_of(remaining < MOST_ROWS ? remaining : MOST_ROWS, job->right_count, job->k, values);
    w.rows = w.tile.rows;
    adj_status status = search_tile(&w);
    if (status == ADJ_E_DEVICE_MEMORY && adji_brute_fewer_values(&values)) continue;
    if (status) return status;
    first += w.rows;
  }
  return ADJ_OK;
}
