/* SPDX-License-Identifier: MIT
 *
 * kNN joins through the cells of a grid on a device: epsilon, the index of the right points for it, batches of queries,
 * and what is done with failed queries. knn_grid.h describes the decisions. knn.cu and knn_list.cu call this before
 * they search the trees.
 *
 * The index is built from the points of the tree, which are on the device anyway, so the original points need not stay
 * there. Within a cell, points have the order of the tree.
 *
 * Memory: an index of the right points (index.cu) beside the trees. During a search 4 bytes per query, and 4 per failed
 * query.
 */
#include "gpu/papers/knn_grid.cuh"

#include <algorithm>
#include <cmath>

extern "C" {
#include "gpu/device/survey.h"
}

enum { THREADS = 256, VALUES = 2048 };

/* ---- Epsilon --------------------------------------------------------------------------------- */

static adji_gpu_rows points_of(const adji_knn_grid *g, const adji_gpu_index *points) {
  return adji_gpu_rows{points->coords, g->join->right->type, g->join->right->dim,
                       points->count,  points->point_step,   points->dim_step};
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

static adj_status sample_values(adji_knn_grid *g) {
  adji_memory *memory = &g->join->ctx->memory;
  adji_gpu_rows points = points_of(g, &g->right->points);
  double low[ADJI_TREE_DIMS], high[ADJI_TREE_DIMS];
  g->sample.count = points.count < VALUES ? points.count : VALUES;
  g->sample.values =
      static_cast<double *>(adji_alloc(memory, g->sample.count * points.dim, sizeof *g->sample.values, "sample"));
  void *rows = adji_alloc(memory, g->sample.count * points.dim, adji_type_size(points.type), "sample");
  adj_status status = g->sample.values && rows ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_gpu_survey(g->gpu, &points, low, high, g->sample.count, rows);
  if (!status && points.type == ADJ_F64) sort_values<double>(rows, points.dim, g->sample.count, g->sample.values);
  if (!status && points.type == ADJ_F32) sort_values<float>(rows, points.dim, g->sample.count, g->sample.values);
  adji_free(memory, rows);
  return status;
}

/* The job of the kernels that look at samples. */
static adji_knn_job sample_job(const adji_knn_grid *g) {
  adji_knn_job job = {};
  job.type = g->join->left->type;
  job.measure = g->measure;
  job.dim = g->join->left->dim;
  job.left = g->left;
  job.right = g->right;
  job.drop_self = g->join->style.drop_self;
  return job;
}

static uint64_t binned_queries(const adji_knn_grid *g) {
  uint64_t most = adji_knn_grid_most_sample(g->gpu, g->right->points.count);
  return std::min(std::min(g->options.sample, g->left->points.count), most);
}

static adj_status bin_distances(void *user, double end, uint64_t *bins) {
  adji_knn_grid *g = static_cast<adji_knn_grid *>(user);
  adji_knn_job job = sample_job(g);
  return adji_knn_grid_bin(g->gpu, &job, binned_queries(g), end, g->options.bins, bins);
}

/* Chooses epsilon. It is negative if there is none. */
static adj_status choose_epsilon(adji_knn_grid *g, double *epsilon) {
  const adji_knn_grid_options *o = &g->options;
  adji_knn_job job = sample_job(g);
  double mean;
  *epsilon = -1;
  adj_status status = adji_knn_grid_mean(g->gpu, &job, adji_knn_grid_mean_sample(o, g->left->points.count),
                                         adji_knn_grid_mean_sample(o, g->right->points.count), &mean);
  if (status || !std::isfinite(mean)) return status;
  if (!(mean > 0)) { /* all points are equal, or nearly all: then the others fail */
    *epsilon = 0;
    return ADJ_OK;
  }
  adji_memory *memory = &g->join->ctx->memory;
  uint64_t *bins = static_cast<uint64_t *>(adji_alloc(memory, o->bins, sizeof *bins, "sample"));
  adji_knn_binning binning = {bin_distances, g, bins,
                              static_cast<double>(binned_queries(g)) * adji_join_reach(g->join)};
  status = bins ? adji_knn_grid_find_epsilon(o, &binning, mean, epsilon) : ADJ_E_MEMORY;
  adji_free(memory, bins);
  *epsilon *= o->epsilon;
  return status;
}

/* Sets epsilon. Returns false if its limit is not larger than the previous one, or not finite. */
static bool set_epsilon(adji_knn_grid *g, double epsilon) {
  adj_type type = g->join->left->type;
  double before = g->limit, limit = adji_knn_grid_limit(g->measure->step, type, epsilon);
  double join_limit = type == ADJ_F32 ? static_cast<double>(static_cast<float>(g->join->limit)) : g->join->limit;
  g->epsilon = epsilon;
  g->whole = !(limit < join_limit);
  g->limit = g->whole ? join_limit : limit;
  return std::isfinite(g->limit) && g->limit > before;
}

/* ---- The index ------------------------------------------------------------------------------- */

/* Replaces positions in the tree, which the index has as ids, by the ids of the points at these positions. One thread
 * per point; all arrays in device memory. width: elements per point, the last of which holds the bits of the id; 0:
 * none does. */
template <class T>
static __global__ void put_ids(uint64_t count, const uint32_t *tree_ids, uint32_t width, uint32_t *ids, T *coords) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= count) return;
  uint32_t id = tree_ids[ids[i]];
  ids[i] = id;
  if (width) coords[i * width + width - 1] = adji_gpu_id_as(id, T());
}

static adj_status write_ids_of_points(adji_knn_grid *g) {
  adji_gpu_index *index = &g->index;
  uint32_t dim = g->join->right->dim, blocks = adji_blocks_for(index->count, THREADS);
  uint32_t width = adji_gpu_width_has_id(dim) ? adji_gpu_width(dim) : 0;
  if (g->join->right->type == ADJ_F64)
    put_ids<<<blocks, THREADS, 0, g->gpu->compute>>>(index->count, g->right->points.ids, width, index->ids,
                                                     static_cast<double *>(index->coords));
  else
    put_ids<<<blocks, THREADS, 0, g->gpu->compute>>>(index->count, g->right->points.ids, width, index->ids,
                                                     static_cast<float *>(index->coords));
  ADJI_LAUNCHED(g->gpu, "put_ids");
  return ADJ_OK;
}

static void clear_index(adji_knn_grid *g) {
  adji_gpu_index_clear(g->gpu, &g->index);
  adji_gpu_grid_clear(g->gpu, &g->cells);
  g->ready = false;
}

static adj_status build_index(adji_knn_grid *g, const adji_grid *cells) {
  adji_gpu_index_options options = {};
  options.cells = true;
  adji_gpu_rows points = points_of(g, &g->right->points);
  adj_status status = adji_gpu_grid_make(g->gpu, cells, 0, &g->cells);
  if (!status) status = adji_gpu_index_build(g->gpu, &g->cells, &points, &options, &g->index);
  return status ? status : write_ids_of_points(g);
}

/* Builds the index, which watch measures. If the grid is not worthwhile, or there is no memory, there is no index
 * afterwards. */
static adj_status index_points(adji_knn_grid *g, adji_stopwatch *watch) {
  adji_grid cells;
  clear_index(g);
  adj_status watched = adji_stopwatch_start(g->gpu, g->gpu->compute, watch);
  if (watched) return watched;
  adj_status status = adji_knn_grid_cells(g->join->ctx, g->join->right, g->measure, g->limit, &g->sample, &cells);
  if (status) return status;
  if (adji_knn_grid_is_worth(&g->options, &cells, g->join->right->count)) {
    status = build_index(g, &cells);
    g->ready = !status;
    if (status) clear_index(g);
    if (status == ADJ_E_DEVICE_MEMORY) status = ADJ_OK;
  }
  adji_grid_clear(g->join->ctx, &cells);
  return status ? status : adji_stopwatch_stop(g->gpu, g->gpu->compute, watch);
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* Starts to search for the queries of the job. Failed queries go to g->failed[turn]. */
static adj_status begin_batch(adji_knn_grid *g, const adji_knn_job *job, int turn) {
  adji_knn_grid_job grid_job = {};
  adj_status status = adji_block_reserve(g->gpu, g->gpu->compute, job->query_count * 4, &g->failed[turn]);
  if (!status) status = adji_answer_clear(g->gpu, g->gpu->compute, ADJI_ANSWER_HEAD, 1);
  if (status) return status;
  grid_job.common = job;
  grid_job.cells = &g->cells;
  grid_job.index = &g->index;
  grid_job.limit = g->limit;
  grid_job.enough = g->whole ? 0 : adji_join_reach(g->join);
  grid_job.shape = adji_knn_grid_shape_of(g->join->k, 4 + adji_type_size(job->type), g->options.threads);
  grid_job.failed = adji_at<uint32_t>(g->failed[turn]);
  grid_job.failed_count = adji_answer_at(g->gpu, ADJI_ANSWER_HEAD);
  return adji_knn_grid_run(g->gpu, g->gpu->compute, &grid_job);
}

static adj_status search_batch(adji_knn_grid *g, const adji_knn_job *job, int turn, uint64_t *failed) {
  adj_status status = begin_batch(g, job, turn);
  if (!status) status = adji_answers_fetch(g->gpu, g->gpu->compute);
  if (status) return status;
  *failed = g->gpu->answers[ADJI_ANSWER_HEAD];
  g->work.queries += job->query_count;
  g->work.failed += *failed;
  return ADJ_OK;
}

/* Grows epsilon and builds the index for it, if possible. */
static adj_status widen(adji_knn_grid *g, bool *grew) {
  double before = g->epsilon;
  *grew = set_epsilon(g, before + g->options.widen * g->first_epsilon);
  g->work.reindexed += *grew;
  if (*grew) return index_points(g, &g->indexing);
  set_epsilon(g, before);
  return ADJ_OK;
}

/* For joins in which cores take the failed queries: each batch is searched only once. */
static adj_status search_single(adji_knn_grid *g, adji_knn_job *job) {
  g->returned = false;
  if (!g->ready || !job->query_count) return ADJ_OK;
  adj_status status = begin_batch(g, job, 0);
  if (status) return status == ADJ_E_DEVICE_MEMORY ? ADJ_OK : status; /* without memory the tree takes over */
  job->query_count = 0;
  g->returned = true;
  return ADJ_OK;
}

adj_status adji_knn_grid_search(adji_knn_grid *g, adji_knn_job *job) {
  uint64_t all = job->query_count, failed;
  uint32_t widened = 0;
  if (g->positions.at) return search_single(g, job);
  for (int turn = 0; g->ready && job->query_count; turn ^= 1) {
    adj_status status = search_batch(g, job, turn, &failed);
    if (status == ADJ_E_DEVICE_MEMORY) return ADJ_OK; /* without memory the tree takes over */
    if (status) return status;
    adji_knn_grid_step next = adji_knn_grid_next(&g->options, job->query_count, failed, all, widened);
    job->queries = adji_at<uint32_t>(g->failed[turn]);
    job->query_count = failed;
    if (next == ADJI_GRID_AGAIN) continue;
    if (next != ADJI_GRID_WIDEN) break;
    bool grew;
    status = widen(g, &grew);
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

adj_status adji_knn_grid_return_failed(adji_knn_grid *g, const uint32_t *order) {
  uint64_t count = g->left->points.count;
  if (!g->ready) return ADJ_OK;
  adj_status status = adji_block_reserve(g->gpu, g->gpu->compute, count * 4, &g->positions);
  if (status == ADJ_E_DEVICE_MEMORY) clear_index(g); /* without memory the tree takes over */
  if (status) return status == ADJ_E_DEVICE_MEMORY ? ADJ_OK : status;
  invert<<<adji_blocks_for(count, THREADS), THREADS, 0, g->gpu->compute>>>(order, count,
                                                                           adji_at<uint32_t>(g->positions));
  ADJI_LAUNCHED(g->gpu, "invert");
  return ADJ_OK;
}

void adji_knn_grid_keep_failed(adji_knn_grid *g) {
  adji_block_free(g->gpu, g->gpu->compute, &g->positions);
  g->returned = false;
}

adj_status adji_knn_grid_report_failed(adji_knn_grid *g, uint64_t queries, const adji_block *to) {
  name_failed<<<adji_blocks_for(queries, THREADS), THREADS, 0, g->gpu->compute>>>(
      adji_at<uint32_t>(g->failed[0]), adji_answer_at(g->gpu, ADJI_ANSWER_HEAD), adji_at<uint32_t>(g->positions),
      adji_at<uint32_t>(*to));
  ADJI_LAUNCHED(g->gpu, "name_failed");
  return ADJ_OK;
}

adj_status adji_knn_grid_judge(adji_knn_grid *g, uint64_t queries, uint64_t failed, bool *grew) {
  *grew = false;
  if (!g->ready) return ADJ_OK;
  uint32_t widened = static_cast<uint32_t>(g->work.reindexed);
  adji_knn_grid_step next = adji_knn_grid_next(&g->options, queries, failed, queries, widened);
  adj_status status = next == ADJI_GRID_WIDEN ? widen(g, grew) : ADJ_OK;
  bool stalled = static_cast<double>(failed) > g->options.stall * static_cast<double>(queries);
  bool gives_up = next == ADJI_GRID_WIDEN ? !*grew : next == ADJI_GRID_TAIL && stalled;
  if (!status && gives_up) clear_index(g);
  return status;
}

/* ---- Opening --------------------------------------------------------------------------------- */

adj_status adji_knn_grid_open(adji_knn_grid *g, const adji_gpu_tree *left, const adji_gpu_tree *right,
                              const adji_knn_grid_options *options, adji_stopwatch *watch) {
  g->left = left;
  g->right = right;
  if (!options->use || !g->left->points.count || !adji_join_reach(g->join)) return ADJ_OK;
  g->options = adji_knn_grid_defaults(options);
  if (!adji_knn_grid_shape_of(g->join->k, 4 + adji_type_size(g->join->left->type), g->options.threads).threads)
    return ADJ_OK;
  adj_status status = adji_stopwatch_start(g->gpu, g->gpu->compute, &g->choosing);
  if (!status) status = sample_values(g);
  if (!status) status = choose_epsilon(g, &g->first_epsilon);
  if (!status) status = adji_stopwatch_stop(g->gpu, g->gpu->compute, &g->choosing);
  if (status) return status;
  g->limit = -1;
  if (!(g->first_epsilon >= 0) || !set_epsilon(g, g->first_epsilon)) return ADJ_OK;
  g->work.epsilon = g->first_epsilon;
  return index_points(g, watch);
}

void adji_knn_grid_free_lists(adji_knn_grid *g) {
  adji_block_free(g->gpu, g->gpu->compute, &g->failed[0]);
  adji_block_free(g->gpu, g->gpu->compute, &g->failed[1]);
}

void adji_knn_grid_close(adji_knn_grid *g) {
  adji_knn_grid_free_lists(g);
  adji_knn_grid_keep_failed(g);
  clear_index(g);
  adji_free(&g->join->ctx->memory, g->sample.values);
  adji_stopwatch_clear(&g->choosing);
  adji_stopwatch_clear(&g->indexing);
}

adji_knn_grid_stats adji_knn_grid_stats_of(adji_knn_grid *g) {
  g->work.epsilon_s = adji_stopwatch_read(&g->choosing);
  g->work.reindex_s = adji_stopwatch_read(&g->indexing);
  return g->work;
}
