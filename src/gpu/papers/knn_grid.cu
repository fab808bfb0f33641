/* SPDX-License-Identifier: MIT
 *
 * kNN joins through the cells of a grid on a device: epsilon, the index of the right points for it, batches of queries,
 * and what becomes of failed queries. knn_grid.h says how this is decided. knn.cu and knn_list.cu call it before the
 * trees.
 *
 * The index is built from the points of the tree, which are on the device anyway, so the original points need not stay
 * there. Within a cell its order is that of the tree.
 *
 * Memory: an index of the right points (index.cu) beside the trees. During a search 4 bytes per query, and 4 per failed
 * query.
 */
#include <algorithm>
#include <cmath>

#include "gpu/knn/knn_private.cuh"

enum { THREADS = 256, VALUES = 2048, MOST_ROUNDS = 6 };

/* ---- Epsilon --------------------------------------------------------------------------------- */

static adji_gpu_rows points_of(const adji_gpu_knn *n, const adji_gpu_index *points) {
  return adji_gpu_rows{points->coords, n->join.right->type, n->join.right->dim,
                       points->count,  points->point_step,  points->dim_step};
}

/* Converts the sample to sorted values, by dimension. */
template <class T>
static void sort_values(const void *rows, uint32_t dim, uint64_t count, double *values) {
  for (uint32_t j = 0; j < dim; j++) {
    for (uint64_t i = 0; i < count; i++)
      values[j * count + i] = static_cast<double>(static_cast<const T *>(rows)[i * dim + j]);
    std::sort(values + j * count, values + (j + 1) * count);
  }
}

static adj_status sample_values(adji_gpu_knn *n) {
  adji_knn_grid *g = &n->grid;
  adji_memory *memory = &n->join.ctx->memory;
  adji_gpu_rows points = points_of(n, &n->right.points);
  double low[ADJI_TREE_DIMS], high[ADJI_TREE_DIMS];
  g->sample.count = points.count < VALUES ? points.count : VALUES;
  g->sample.values =
      static_cast<double *>(adji_alloc(memory, g->sample.count * points.dim, sizeof *g->sample.values, "sample"));
  void *rows = adji_alloc(memory, g->sample.count * points.dim, adji_type_size(points.type), "sample");
  adj_status status = g->sample.values && rows ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_gpu_survey(n->gpu, &points, low, high, g->sample.count, rows);
  if (!status && points.type == ADJ_F64) sort_values<double>(rows, points.dim, g->sample.count, g->sample.values);
  if (!status && points.type == ADJ_F32) sort_values<float>(rows, points.dim, g->sample.count, g->sample.values);
  adji_free(memory, rows);
  return status;
}

/* The job of the kernels that look at samples. */
static adji_knn_job sample_job(const adji_gpu_knn *n) {
  adji_knn_job job = {};
  job.type = n->join.left->type;
  job.measure = &n->measure;
  job.dim = n->join.left->dim;
  job.left = n->left;
  job.right = &n->right;
  job.drop_self = n->join.style.drop_self;
  return job;
}

/* Bins reach from 0 to the mean distance at first. If this is not far enough for k neighbours, they reach twice as
 * far. If epsilon is in one of the first bins, they reach to the end of that bin. */
static adj_status find_bin(adji_gpu_knn *n, double end, uint64_t *bins, double *epsilon) {
  const adji_knn_grid_options *o = &n->grid.options;
  adji_knn_job job = sample_job(n);
  uint64_t left = n->left->points.count, most = adji_knn_grid_most_sample(n->gpu, n->right.points.count);
  uint64_t sample = std::min(std::min(o->sample, left), most), bin;
  double wanted = static_cast<double>(sample) * adji_join_reach(&n->join);
  *epsilon = -1;
  for (int round = 0; round < MOST_ROUNDS && std::isfinite(end); round++) {
    adj_status status = adji_knn_grid_bin(n->gpu, &job, sample, end, o->bins, bins);
    if (status) return status;
    double width = end / static_cast<double>(o->bins);
    double found = adji_knn_grid_epsilon(bins, o->bins, width, wanted, &bin);
    if (found < 0 && *epsilon >= 0) break;
    if (found < 0) {
      end *= 2;
      continue;
    }
    *epsilon = found;
    end = static_cast<double>(bin + 1) * width;
    if (!adji_knn_grid_is_coarse(bin) || !(end > 0)) break;
  }
  return ADJ_OK;
}

/* *epsilon is negative if there is none. */
static adj_status choose_epsilon(adji_gpu_knn *n, double *epsilon) {
  const adji_knn_grid_options *o = &n->grid.options;
  adji_knn_job job = sample_job(n);
  double mean;
  *epsilon = -1;
  adj_status status = adji_knn_grid_mean(n->gpu, &job, adji_knn_grid_mean_sample(o, n->left->points.count),
                                         adji_knn_grid_mean_sample(o, n->right.points.count), &mean);
  if (status || !std::isfinite(mean)) return status;
  if (!(mean > 0)) { /* all points are equal, or nearly: the others fail */
    *epsilon = 0;
    return ADJ_OK;
  }
  adji_memory *memory = &n->join.ctx->memory;
  uint64_t *bins = static_cast<uint64_t *>(adji_alloc(memory, o->bins, sizeof *bins, "sample"));
  status = bins ? find_bin(n, mean, bins, epsilon) : ADJ_E_MEMORY;
  adji_free(memory, bins);
  *epsilon *= o->epsilon;
  return status;
}

/* Sets epsilon. Returns false if its limit is not larger than the one before, or not finite. */
static bool set_epsilon(adji_gpu_knn *n, double epsilon) {
  adji_knn_grid *g = &n->grid;
  adj_type type = n->join.left->type;
  double before = g->limit, limit = adji_knn_grid_limit(n->measure.step, type, epsilon);
  double own = type == ADJ_F32 ? static_cast<double>(static_cast<float>(n->join.limit)) : n->join.limit;
  g->epsilon = epsilon;
  g->whole = !(limit < own);
  g->limit = g->whole ? own : limit;
  return std::isfinite(g->limit) && g->limit > before;
}

/* ---- The index ------------------------------------------------------------------------------- */

static __device__ __forceinline__ void put_bits(uint32_t id, float *to) {
  *to = __uint_as_float(id);
}
static __device__ __forceinline__ void put_bits(uint32_t id, double *to) {
  *to = __longlong_as_double(static_cast<long long>(id));
}

/* Replaces positions in the tree, which the index takes for ids, by the ids of the points there. One thread per point;
 * all arrays in device memory. width: elements per point, the last of which holds the bits of the id; 0: none does. */
template <class T>
static __global__ void put_ids(uint64_t count, const uint32_t *tree_ids, uint32_t width, uint32_t *ids, T *coords) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= count) return;
  uint32_t id = tree_ids[ids[i]];
  ids[i] = id;
  if (width) put_bits(id, coords + i * width + width - 1);
}

static adj_status write_ids_of_points(adji_gpu_knn *n) {
  adji_gpu_index *index = &n->grid.index;
  uint32_t dim = n->join.right->dim, blocks = adji_blocks_for(index->count, THREADS);
  uint32_t width = adji_gpu_width_has_id(dim) ? adji_gpu_width(dim) : 0;
  if (n->join.right->type == ADJ_F64)
    put_ids<<<blocks, THREADS, 0, n->gpu->compute>>>(index->count, n->right.points.ids, width, index->ids,
                                                     static_cast<double *>(index->coords));
  else
    put_ids<<<blocks, THREADS, 0, n->gpu->compute>>>(index->count, n->right.points.ids, width, index->ids,
                                                     static_cast<float *>(index->coords));
  ADJI_LAUNCHED(n->gpu, "put_ids");
  return ADJ_OK;
}

static void clear_index(adji_gpu_knn *n) {
  adji_gpu_index_clear(n->gpu, &n->grid.index);
  adji_gpu_grid_clear(n->gpu, &n->grid.cells);
  n->grid.ready = false;
}

static adj_status build_index(adji_gpu_knn *n, const adji_grid *cells) {
  adji_knn_grid *g = &n->grid;
  adji_gpu_index_options options = {};
  options.cells = true;
  adji_gpu_rows points = points_of(n, &n->right.points);
  adj_status status = adji_gpu_grid_make(n->gpu, cells, 0, &g->cells);
  if (!status) status = adji_gpu_index_build(n->gpu, &g->cells, &points, &options, &g->index);
  return status ? status : write_ids_of_points(n);
}

/* If the grid is not worthwhile, or there is no memory, there is no index afterwards. */
static adj_status index_points(adji_gpu_knn *n) {
  adji_knn_grid *g = &n->grid;
  adji_grid cells;
  clear_index(n);
  adj_status status = adji_knn_grid_cells(n->join.ctx, n->join.right, &n->measure, g->limit, &g->sample, &cells);
  if (status) return status;
  if (adji_knn_grid_is_worth(&cells, n->join.right->count)) {
    status = build_index(n, &cells);
    g->ready = !status;
    if (status) clear_index(n);
    if (status == ADJ_E_DEVICE_MEMORY) status = ADJ_OK;
  }
  adji_grid_clear(n->join.ctx, &cells);
  return status;
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* Starts to search for the queries of the job. Failed queries go to g->failed[turn]. */
static adj_status begin_batch(adji_gpu_knn *n, const adji_knn_job *job, int turn) {
  adji_knn_grid *g = &n->grid;
  adji_knn_grid_job mine = {};
  adj_status status = adji_block_reserve(n->gpu, n->gpu->compute, job->query_count * 4, &g->failed[turn]);
  if (!status) status = adji_answer_clear(n->gpu, n->gpu->compute, ADJI_ANSWER_HEAD, 1);
  if (status) return status;
  mine.common = job;
  mine.cells = &g->cells;
  mine.index = &g->index;
  mine.limit = g->limit;
  mine.enough = g->whole ? 0 : adji_join_reach(&n->join);
  mine.shape = adji_knn_grid_shape_of(n->join.k, 4 + adji_type_size(job->type), g->options.threads);
  mine.failed = adji_at<uint32_t>(g->failed[turn]);
  mine.failed_count = adji_answer_at(n->gpu, ADJI_ANSWER_HEAD);
  return adji_knn_grid_run(n->gpu, n->gpu->compute, &mine);
}

static adj_status search_batch(adji_gpu_knn *n, const adji_knn_job *job, int turn, uint64_t *failed) {
  adji_knn_grid *g = &n->grid;
  adj_status status = begin_batch(n, job, turn);
  if (!status) status = adji_answers_fetch(n->gpu, n->gpu->compute);
  if (status) return status;
  *failed = n->gpu->answers[ADJI_ANSWER_HEAD];
  g->work.queries += job->query_count;
  g->work.failed += *failed;
  return ADJ_OK;
}

static adj_status index_again(adji_gpu_knn *n) {
  adji_knn_grid *g = &n->grid;
  adj_status status = adji_stopwatch_start(n->gpu, n->gpu->compute, &g->indexing);
  if (!status) status = index_points(n);
  if (!status) status = adji_stopwatch_stop(n->gpu, n->gpu->compute, &g->indexing);
  g->work.reindexed++;
  return status;
}

/* Grows epsilon and builds the index for it, if possible. */
static adj_status widen(adji_gpu_knn *n, bool *grew) {
  adji_knn_grid *g = &n->grid;
  double before = g->epsilon;
  *grew = set_epsilon(n, before + g->options.widen * g->first_epsilon);
  if (*grew) return index_again(n);
  set_epsilon(n, before);
  return ADJ_OK;
}

/* For joins where cores take the failed queries: each batch is searched a single time. */
static adj_status search_single(adji_gpu_knn *n, adji_knn_job *job) {
  n->grid.returned = false;
  if (!n->grid.ready || !job->query_count) return ADJ_OK;
  adj_status status = begin_batch(n, job, 0);
  if (status) return status == ADJ_E_DEVICE_MEMORY ? ADJ_OK : status; /* without memory the tree takes over */
  job->query_count = 0;
  n->grid.returned = true;
  return ADJ_OK;
}

adj_status adji_knn_grid_search(adji_gpu_knn *n, adji_knn_job *job) {
  adji_knn_grid *g = &n->grid;
  uint64_t all = job->query_count, failed;
  uint32_t widened = 0;
  if (g->positions.at) return search_single(n, job);
  for (int turn = 0; g->ready && job->query_count; turn ^= 1) {
    adj_status status = search_batch(n, job, turn, &failed);
    if (status == ADJ_E_DEVICE_MEMORY) return ADJ_OK; /* without memory the tree takes over */
    if (status) return status;
    adji_knn_grid_step next = adji_knn_grid_next(&g->options, job->query_count, failed, all, widened);
    job->queries = adji_at<uint32_t>(g->failed[turn]);
    job->query_count = failed;
    if (next != ADJI_GRID_WIDEN) break;
    bool grew;
    status = widen(n, &grew);
    if (status) return status;
    if (!grew) break;
    widened++;
  }
  return ADJ_OK;
}

/* ---- Beside cores ---------------------------------------------------------------------------- */

/* The inverse of an order: positions[order[i]] = i. One thread per query. */
static __global__ void invert(const uint32_t *order, uint64_t count, uint32_t *positions) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) positions[order[i]] = static_cast<uint32_t>(i);
}

/* Translates failed queries to the cores' order. One thread per possible failure. */
static __global__ void name_failed(const uint32_t *failed, const unsigned long long *count, const uint32_t *positions,
                                   uint32_t *to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < *count) to[i] = positions[failed[i]];
}

adj_status adji_knn_grid_return_failed(adji_gpu_knn *n, const uint32_t *order) {
  adji_knn_grid *g = &n->grid;
  uint64_t count = n->left->points.count;
  if (!g->ready) return ADJ_OK;
  adj_status status = adji_block_reserve(n->gpu, n->gpu->compute, count * 4, &g->positions);
  if (status == ADJ_E_DEVICE_MEMORY) clear_index(n); /* without memory the tree takes over */
  if (status) return status == ADJ_E_DEVICE_MEMORY ? ADJ_OK : status;
  invert<<<adji_blocks_for(count, THREADS), THREADS, 0, n->gpu->compute>>>(order, count,
                                                                           adji_at<uint32_t>(g->positions));
  ADJI_LAUNCHED(n->gpu, "invert");
  return ADJ_OK;
}

void adji_knn_grid_keep_failed(adji_gpu_knn *n) {
  adji_block_free(n->gpu, n->gpu->compute, &n->grid.positions);
  n->grid.returned = false;
}

adj_status adji_knn_grid_report_failed(adji_gpu_knn *n, uint64_t queries, const adji_block *to) {
  adji_knn_grid *g = &n->grid;
  name_failed<<<adji_blocks_for(queries, THREADS), THREADS, 0, n->gpu->compute>>>(
      adji_at<uint32_t>(g->failed[0]), adji_answer_at(n->gpu, ADJI_ANSWER_HEAD), adji_at<uint32_t>(g->positions),
      adji_at<uint32_t>(*to));
  ADJI_LAUNCHED(n->gpu, "name_failed");
  return ADJ_OK;
}

adj_status adji_knn_grid_account_list(adji_gpu_knn *n, uint64_t queries, uint64_t failed, uint64_t indexed) {
  adji_knn_grid *g = &n->grid;
  g->work.queries += queries;
  g->work.failed += failed;
  if (indexed != g->work.reindexed) return ADJ_OK;
  uint32_t widened = static_cast<uint32_t>(g->work.reindexed);
  adji_knn_grid_step next = adji_knn_grid_next(&g->options, queries, failed, queries, widened);
  bool grew = true;
  adj_status status = next == ADJI_GRID_WIDEN ? widen(n, &grew) : ADJ_OK;
  bool stalled = static_cast<double>(failed) > g->options.stall * static_cast<double>(queries);
  if (!status && (!grew || (next == ADJI_GRID_TAIL && stalled))) clear_index(n);
  return status;
}

/* ---- Opening --------------------------------------------------------------------------------- */

adj_status adji_knn_grid_open(adji_gpu_knn *n, const adji_knn_grid_options *options) {
  adji_knn_grid *g = &n->grid;
  if (!options->use || !n->left->points.count || !adji_join_reach(&n->join)) return ADJ_OK;
  g->options = adji_knn_grid_defaults(options);
  if (!adji_knn_grid_shape_of(n->join.k, 4 + adji_type_size(n->join.left->type), g->options.threads).threads)
    return ADJ_OK;
  adj_status status = adji_stopwatch_start(n->gpu, n->gpu->compute, &g->choosing);
  if (!status) status = sample_values(n);
  if (!status) status = choose_epsilon(n, &g->first_epsilon);
  if (!status) status = adji_stopwatch_stop(n->gpu, n->gpu->compute, &g->choosing);
  if (status) return status;
  g->limit = -1;
  if (!(g->first_epsilon >= 0) || !set_epsilon(n, g->first_epsilon)) return ADJ_OK;
  g->work.epsilon = g->first_epsilon;
  status = adji_stopwatch_start(n->gpu, n->gpu->compute, &n->watch);
  if (!status) status = index_points(n);
  if (!status) status = adji_stopwatch_stop(n->gpu, n->gpu->compute, &n->watch);
  return status;
}

void adji_knn_grid_free_lists(adji_gpu_knn *n) {
  adji_block_free(n->gpu, n->gpu->compute, &n->grid.failed[0]);
  adji_block_free(n->gpu, n->gpu->compute, &n->grid.failed[1]);
}

void adji_knn_grid_close(adji_gpu_knn *n) {
  adji_knn_grid_free_lists(n);
  adji_knn_grid_keep_failed(n);
  clear_index(n);
  adji_free(&n->join.ctx->memory, n->grid.sample.values);
  adji_stopwatch_clear(&n->grid.choosing);
  adji_stopwatch_clear(&n->grid.indexing);
}

adji_knn_grid_stats adji_knn_grid_stats_of(adji_gpu_knn *n) {
  n->grid.work.epsilon_s = adji_stopwatch_read(&n->grid.choosing);
  n->grid.work.reindex_s = adji_stopwatch_read(&n->grid.indexing);
  return n->grid.work;
}
