/* SPDX-License-Identifier: MIT
 *
 * Lists of the best neighbours so far, and the matrix method of brute force, for any metric, type, dimension and k. The
 * sums of some queries with all right points, or a range of them, go to a matrix in device memory, and selection
 * (select.h) finds the k smallest of each row. With several column ranges, lists of the k nearest so far are merged
 * with those of the next range.
 *
 * A pair that does not belong is a NaN in the matrix, which selection orders after every number. Infinite sums are
 * neighbours like others.
 *
 * Memory: the matrix, up to 4 GiB or a quarter of the available memory; the memory of selection; with several ranges 3
 * lists of k entries for each query of a matrix. If any of this does not fit, the matrix is made smaller.
 */
#include "gpu/brute/brute_matrix.cuh"

#include <cmath>

#include "gpu/brute/brute_distance.cuh"
#include "gpu/brute/brute_fused.cuh"

namespace {

/* ---- Lists: limited by memory, and small beside what finds them -------------------------------- */

enum { THREADS = 256, MOST_BLOCKS = 1 << 20 };

template <class T>
struct lists {
  uint32_t *ids;
  T *sums;
};

template <class T>
lists<T> typed(const adji_brute_lists &l) {
  return lists<T>{l.ids, static_cast<T *>(l.sums)};
}

/* Writes list entry i: its id and distance, or padding. One thread per entry; lists in device memory. */
template <class T>
__global__ void finish(adji_brute_finish job, lists<T> from, lists<T> to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x, entries = job.rows * job.k;
  for (; i < entries; i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    T s = from.sums[i];
    uint32_t id = from.ids[i];
    bool none = s != s || id == ADJ_NO_ID;
    uint64_t at = job.numbers ? (job.numbers[i / job.k] - job.first_row) * job.k + i % job.k : i;
    to.ids[at] = none ? ADJ_NO_ID : id + job.first;
    to.sums[at] = none ? T(INFINITY) : job.root ? adji_root(s) : s;
  }
}

/* The number of the k entries before (s, id), counting equal ones if `equal`. Only padding can be equal. */
template <class T>
__device__ uint32_t rank_in(const uint32_t *ids, const T *sums, uint32_t k, T s, uint32_t id, bool equal) {
  uint32_t low = 0, high = k;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2, other = __ldg(ids + middle);
    T sum = __ldg(sums + middle);
    bool before = sum != s ? sum < s : equal ? other <= id : other < id;
    low = before ? middle + 1 : low;
    high = before ? high : middle;
  }
  return low;
}

/* Merges two lists per row: the place of an entry is its own number plus the entries of the other list before it. One
 * thread per entry of either list; lists in device memory. */
template <class T>
__global__ void merge(uint64_t rows, uint32_t k, lists<T> a, lists<T> b, lists<T> to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x, entries = rows * k;
  for (; i < 2 * entries; i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    bool second = i >= entries;
    uint64_t at = second ? i - entries : i, row = at / k * k;
    uint32_t id = (second ? b : a).ids[at];
    T s = (second ? b : a).sums[at];
    const lists<T> &other = second ? a : b;
    uint64_t place = at - row + rank_in(other.ids + row, other.sums + row, k, s, id, second);
    if (place >= k) continue;
    to.ids[row + place] = id;
    to.sums[row + place] = s;
  }
}

uint32_t blocks_for(uint64_t items) {
  uint64_t blocks = (items + THREADS - 1) / THREADS;
  return static_cast<uint32_t>(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

template <class T>
void launch_finish(adji_gpu *gpu, const adji_brute_finish *job) {
  finish<T><<<blocks_for(job->rows * job->k), THREADS, 0, gpu->compute>>>(*job, typed<T>(job->from), typed<T>(job->to));
}

template <class T>
void launch_merge(adji_gpu *gpu, const adji_brute_running *s) {
  merge<T><<<blocks_for(2 * s->rows * s->k), THREADS, 0, gpu->compute>>>(s->rows, s->k, typed<T>(s->best),
                                                                         typed<T>(s->more), typed<T>(s->both));
}

/* Merges best and more, which have no common ids, into both: the k nearest of them. */
adj_status merge_lists(adji_gpu *gpu, const adji_brute_running *s) {
  if (!s->rows) return ADJ_OK;
  if (s->type == ADJ_F64)
    launch_merge<double>(gpu, s);
  else
    launch_merge<float>(gpu, s);
  ADJI_LAUNCHED(gpu, "merge");
  return ADJ_OK;
}

}  // namespace

adj_status adji_brute_finish_lists(adji_gpu *gpu, const adji_brute_finish *job) {
  if (!job->rows) return ADJ_OK;
  if (job->type == ADJ_F64)
    launch_finish<double>(gpu, job);
  else
    launch_finish<float>(gpu, job);
  ADJI_LAUNCHED(gpu, "finish");
  return ADJ_OK;
}

adj_status adji_brute_running_get(adji_gpu *gpu, adji_brute_running *s, const adji_brute_lists *best, bool several) {
  uint64_t entries = adji_mul(s->rows, s->k), bytes = adji_mul(entries, adji_type_size(s->type));
  adji_brute_lists *lists[] = {&s->best, &s->more, &s->both};
  if (best) s->best = *best;
  for (int i = best ? 1 : 0; i < (several ? 3 : 1); i++) {
    adj_status status = adji_block_get(gpu, gpu->compute, adji_mul(entries, 4), "lists of neighbours", &s->ids[i]);
    if (!status) status = adji_block_get(gpu, gpu->compute, bytes, "lists of neighbours", &s->sums[i]);
    if (status) return status;
    *lists[i] = adji_brute_lists{adji_at<uint32_t>(s->ids[i]), s->sums[i].at};
  }
  return ADJ_OK;
}

void adji_brute_running_free(adji_gpu *gpu, adji_brute_running *s) {
  for (int i = 0; i < 3; i++)
    adji_blocks_free(gpu, {&s->ids[i], &s->sums[i]});
}

adj_status adji_brute_running_add(adji_gpu *gpu, adji_brute_running *s) {
  adj_status status = ADJ_OK;
  if (s->started) {
    status = merge_lists(gpu, s);
    adji_brute_lists spare = s->best;
    s->best = s->both;
    s->both = spare;
  }
  s->started = true;
  return status;
}

adj_status adji_brute_running_add_columns(adji_gpu *gpu, adji_brute_running *s, uint64_t first) {
  adji_brute_finish f = {*s};
  f.first = static_cast<uint32_t>(first);
  f.from = f.to = adji_brute_running_next(s);
  adj_status status = adji_brute_finish_lists(gpu, &f);
  return status ? status : adji_brute_running_add(gpu, s);
}

adj_status adji_brute_select(const adji_brute_work *w, uint64_t columns, const adji_brute_lists &to) {
  adji_gpu_select s = {};
  s.type = w->job->type;
  s.values = w->matrix.at;
  s.rows = w->tile.rows;
  s.columns = columns;
  s.row_stride = w->tile.stride;
  s.k = w->k;
  s.sorted = true;
  s.columns_out = to.ids;
  s.values_out = to.sums;
  s.algorithm = w->choice->select;
  s.how = w->choice->how;
  return adji_gpu_select_rows(w->gpu, &s);
}

/* ---- The matrix method ------------------------------------------------------------------------ */

namespace {

/* The tile of queries being searched. */
struct tile_work : adji_brute_work {
  adji_block queries; /* the queries listed in numbers, packed */
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
  gather_rows<<<adji_blocks_for(rows * words, THREADS), THREADS, 0, w->gpu->compute>>>(
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

/* Where the rows of a tile begin in the result. */
adji_brute_lists rows_of(const tile_work *w) {
  uint64_t at = w->job->numbers ? 0 : w->first * w->job->k;
  return adji_brute_lists{w->job->ids + at, static_cast<char *>(w->job->distances) + at * adji_type_size(w->job->type)};
}

/* Writes the best lists to the rows of the result. Listed queries have scattered rows. */
adj_status deliver(tile_work *w, uint64_t first_id) {
  const adji_brute_job *job = w->job;
  adji_brute_finish f = {w->lists};
  f.from = w->lists.best;
  f.to = rows_of(w);
  f.first = static_cast<uint32_t>(first_id);
  f.root = job->root;
  f.numbers = job->numbers ? job->numbers + w->first : NULL;
  f.first_row = job->first_row;
  return adji_brute_finish_lists(w->gpu, &f);
}

/* Searches all right points at once, or range by range. In the first case selection writes directly to the result, if
 * its rows are contiguous. */
adj_status search_columns(tile_work *w, const void *queries) {
  const adji_brute_job *job = w->job;
  adji_brute_lists rows = rows_of(w);
  bool several = w->tile.columns < job->right_count;
  uint64_t first = 0;
  adj_status status = adji_brute_running_get(w->gpu, &w->lists, several || job->numbers ? NULL : &rows, several);
  if (status) return status;
  do {
    uint64_t remaining = job->right_count - first, columns = remaining < w->tile.columns ? remaining : w->tile.columns;
    status = fill_matrix(w, queries, first, columns);
    if (!status) status = adji_brute_select(w, columns, adji_brute_running_next(&w->lists));
    if (!status && several) status = adji_brute_running_add_columns(w->gpu, &w->lists, job->right_first + first);
    first += columns;
  } while (!status && first < job->right_count);
  return status ? status : deliver(w, several ? 0 : job->right_first);
}

adj_status search_tile(tile_work *w) {
  const void *queries = NULL;
  adj_status status = find_queries(w, &queries);
  if (!status) status = search_columns(w, queries);
  adji_block_free(w->gpu, w->gpu->compute, &w->queries);
  return status;
}

}  // namespace

adj_status adji_brute_matrix(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice) {
  if (choice->distance == ADJI_DISTANCE_FUSED && !job->numbers) return adji_brute_fused(gpu, job);
  tile_work all = {};
  all.gpu = gpu;
  all.job = job;
  all.choice = choice;
  all.k = job->k;
  return adji_brute_search_tiles(all, search_tile);
}
