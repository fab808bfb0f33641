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

/* The tile of queries being searched. */
struct tile_work : adji_brute_work {
  adji_block queries; /* those of numbers, packed */
};

/* to[i] = row numbers[i], of `words` words of 4 bytes. One thread per word; all arrays in device memory. */
__global__ void gather_rows(const uint32_t *from, uint64_t first_row, const uint32_t *numbers, uint64_t rows,
                            uint64_t words, uint32_t *to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < rows * words) to[i] = from[(numbers[i / words] - first_row) * words + i % words];
}

/* Finds, or gathers, the coordinates of the tile's queries. */
adj_status find_queries(tile_work *w, const void **out) {
  const adji_brute_job *job = w->job;
  uint64_t rows = w->tile.rows, row_bytes = job->dim * adji_type_size(job->type), words = row_bytes / 4;
  if (!job->numbers) {
    *out = static_cast<const char *>(job->left) + (job->first_row + w->first - job->left_first) * row_bytes;
    return ADJ_OK;
  }
  adj_status status = adji_block_get(w->gpu, w->gpu->compute, rows * row_bytes, "queries", &w->queries);
  if (status) return status;
  gather_rows<<<adji_blocks_for(rows * words, GATHER_THREADS), GATHER_THREADS, 0, w->gpu->compute>>>(
      static_cast<const uint32_t *>(job->left), job->left_first, job->numbers + w->first, rows, words,
      adji_at<uint32_t>(w->queries));
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
  d.rows = static_cast<uint32_t>(w->tile.rows);
  d.columns = static_cast<uint32_t>(columns);
  d.queries = queries;
  d.points = static_cast<const char *>(job->right) + first * job->dim * adji_type_size(job->type);
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
  return status ? status : adji_brute_select(w, columns, to);
}

/* Writes the rows of the result; rows of numbers are scattered. */
adj_status deliver(tile_work *w, const adji_brute_lists &from, uint64_t first_id) {
  const adji_brute_job *job = w->job;
  uint64_t at = job->numbers ? 0 : w->first * job->k;
  adji_brute_lists to = {job->ids + at, static_cast<char *>(job->distances) + at * adji_type_size(job->type)};
  adji_brute_finish f = {};
  f.type = job->type;
  f.rows = w->tile.rows;
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
                         static_cast<char *>(job->distances) + w->first * job->k * adji_type_size(job->type)};
  adj_status status = adji_brute_running_get(w->gpu, &w->lists, job->numbers ? NULL : &to, false);
  if (!status) status = search_columns(w, queries, 0, job->right_count, w->lists.best);
  return status ? status : deliver(w, w->lists.best, job->right_first);
}

adj_status search_column_ranges(tile_work *w, const void *queries) {
  const adji_brute_job *job = w->job;
  adj_status status = adji_brute_running_get(w->gpu, &w->lists, NULL, true);
  for (uint64_t first = 0; first < job->right_count && !status; first += w->tile.columns) {
    uint64_t remaining = job->right_count - first, columns = remaining < w->tile.columns ? remaining : w->tile.columns;
    status = search_columns(w, queries, first, columns, adji_brute_running_next(&w->lists));
    if (!status) status = adji_brute_running_add_columns(w->gpu, &w->lists, job->right_first + first);
  }
  return status ? status : deliver(w, w->lists.best, 0);
}

adj_status search_tile(tile_work *w) {
  const void *queries = NULL;
  adj_status status = find_queries(w, &queries);
  if (!status)
    status = w->tile.columns < w->job->right_count ? search_column_ranges(w, queries) : search_all_columns(w, queries);
  adji_block_free(w->gpu, w->gpu->compute, &w->queries);
  return status;
}

}  // namespace

adj_status adji_brute_matrix(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice) {
  tile_work all = {};
  all.gpu = gpu;
  all.job = job;
  all.choice = choice;
  all.k = job->k;
  return adji_brute_search_tiles(all, search_tile);
}
