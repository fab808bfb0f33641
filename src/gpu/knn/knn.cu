/* SPDX-License-Identifier: MIT
 *
 * kNN joins on a device: points, trees, and the launches that a join needs; or brute force (brute_join.cu) in their
 * place.
 *
 * Memory: the trees (tree.cu), or the points; for each row of the result that is on the device k ids and distances, and
 * 8 bytes.
 */
#include "gpu/knn/knn_private.cuh"

#include <thrust/iterator/counting_iterator.h>
#include <cmath>
#include <cstdlib>
#include <cub/device/device_select.cuh>

#include "gpu/knn/knn_dense.cuh"
#include "gpu/knn/knn_per_query.cuh"
#include "gpu/shared/report.cuh"

/* Leaves that a warp searches for 32 queries before it gives up, several times what it takes on the average; and
 * queries that are too few to keep the device busy by 32. Roots of longer rows have a kernel of their own: there would
 * be more code than the instruction cache holds. */
enum { BUDGET_FEW_DIMS = 1024, BUDGET = 8192, FEW_QUERIES = 30000, LEAST_ROWS = 1024, ROOT_AT_ONCE = 128 };

bool adji_gpu_knn_can(const adji_join *join, const adji_measure *measure) {
  bool known = measure->step == ADJI_STEP_L2 || measure->step == ADJI_STEP_L1 || measure->step == ADJI_STEP_LINF;
  return known && join->left->dim <= ADJI_TREE_DIMS;
}

/* ---- Opening ---------------------------------------------------------------------------------------- */

static adj_status build_tree(adji_gpu_knn *n, const adj_dataset *set, const adji_gpu_rows *rows, bool boxes,
                             adji_gpu_tree *out) {
  adji_block points = {};
  adji_gpu_rows brought;
  adj_status status = ADJ_OK;
  if (!rows) {
    status = adji_gpu_fetch_bytes(n->gpu, set, &points, &brought, &n->work);
    rows = &brought;
  }
  if (!status) status = adji_stopwatch_start(n->gpu, n->gpu->compute, &n->watch);
  adji_gpu_tree_options options = {set->low, set->high, boxes, n->cut};
  if (!status) status = adji_gpu_tree_build(n->gpu, rows, &options, out);
  if (!status) status = adji_stopwatch_stop(n->gpu, n->gpu->compute, &n->watch);
  adji_block_free(n->gpu, n->gpu->compute, &points);
  return status;
}

static adj_status build_trees(adji_gpu_knn *n, const adji_gpu_knn_options *options) {
  const adji_join *join = options->join;
  adj_status status = build_tree(n, join->right, options->right_rows, true, &n->right);
  n->left = &n->right;
  if (status || join->self_join) return status;
  n->left = &n->left_tree;
  return build_tree(n, join->left, options->left_rows, false, &n->left_tree);
}

static adj_status open_brute(adji_gpu_knn *n, const adji_gpu_knn_options *options) {
  adji_gpu_brute_options mine = {&n->join,        &n->measure, options->left_rows, options->right_rows,
                                 *options->brute, &n->work};
  adj_status status = adji_gpu_brute_open(n->gpu, &mine, &n->brute);
  if (status) return status;
  uint64_t most = adji_gpu_brute_most_rows(n->brute);
  if (n->rows_at_once > most) n->rows_at_once = most;
  return ADJ_OK;
}

adj_status adji_gpu_knn_open(adji_gpu *gpu, const adji_gpu_knn_options *options, adji_gpu_knn **out) {
  adji_gpu_knn *n = static_cast<adji_gpu_knn *>(calloc(1, sizeof *n));
  if (!n) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  const adji_join *join = options->join;
  n->gpu = gpu;
  n->join = *join;
  n->measure = *options->measure;
  n->grid.gpu = gpu;
  n->grid.join = &n->join;
  n->grid.measure = &n->measure;
  n->rows_at_once = options->rows_at_once ? options->rows_at_once : join->left->count;
  n->budget = options->budget ? options->budget : join->left->dim <= 3 ? BUDGET_FEW_DIMS : BUDGET;
  n->blocks = options->blocks;
  n->alone = options->alone;
  n->together = options->together;
  n->cut = options->cut;
  adj_status status = options->brute ? open_brute(n, options) : build_trees(n, options);
  if (!status && !n->brute) status = adji_knn_grid_open(&n->grid, n->left, &n->right, &options->grid, &n->watch);
  if (!status) status = adji_gpu_mark(gpu, ADJI_MARK_INDEXED);
  if (status)
    adji_gpu_knn_close(n);
  else
    *out = n;
  return status;
}

static void free_work(adji_gpu_knn *n) {
  adji_knn_grid_free_lists(&n->grid);
  adji_block_free(n->gpu, n->gpu->compute, &n->queries);
  adji_block_free(n->gpu, n->gpu->compute, &n->hard);
  adji_block_free(n->gpu, n->gpu->compute, &n->temporary);
}

static void free_rows(adji_gpu_knn *n) {
  adji_block_free(n->gpu, n->gpu->compute, &n->ids);
  adji_block_free(n->gpu, n->gpu->compute, &n->sums);
  n->first_row = n->end_row = 0;
}

void adji_gpu_knn_close(adji_gpu_knn *n) {
  if (!n) return;
  cudaSetDevice(n->gpu->device);
  free_work(n);
  free_rows(n);
  adji_knn_grid_close(&n->grid);
  adji_gpu_knn_end_lists(n);
  adji_block_free(n->gpu, n->gpu->compute, &n->order);
  adji_gpu_brute_close(n->brute);
  adji_gpu_tree_clear(n->gpu, &n->right);
  adji_gpu_tree_clear(n->gpu, &n->left_tree);
  adji_stopwatch_clear(&n->watch);
  free(n);
}

uint64_t adji_gpu_knn_chunk(const adji_gpu_knn *n) {
  return n->brute ? adji_gpu_brute_chunk(n->brute) : 0;
}

/* ---- Rows ------------------------------------------------------------------------------------------- */

static adj_status make_rows(adji_gpu_knn *n, uint64_t rows) {
  adji_gpu *gpu = n->gpu;
  uint64_t entries = adji_mul(rows, n->join.k), size = adji_type_size(n->join.left->type);
  adj_status status = adji_block_get(gpu, gpu->compute, adji_mul(entries, 4), "table of neighbours", &n->ids);
  if (!status) status = adji_block_get(gpu, gpu->compute, adji_mul(entries, size), "table of neighbours", &n->sums);
  bool trees = !n->brute;
  if (!status && trees) status = adji_block_get(gpu, gpu->compute, rows * 4, "queries", &n->hard);
  if (!status && trees && rows < n->join.left->count)
    status = adji_block_get(gpu, gpu->compute, rows * 4, "queries", &n->queries);
  if (!status) return ADJ_OK;
  free_work(n);
  free_rows(n);
  return status;
}

/* The fewest rows that are worth a try: of brute force even a single one. */
static uint64_t least_rows(const adji_gpu_knn *n) {
  return n->brute ? 1 : LEAST_ROWS;
}

/* As many rows as there is memory for. */
static adj_status make_room(adji_gpu_knn *n, uint64_t first_row) {
  uint64_t left = n->join.left->count - first_row, rows = n->rows_at_once < left ? n->rows_at_once : left;
  free_rows(n);
  adj_status status = make_rows(n, rows);
  while (status == ADJ_E_DEVICE_MEMORY && rows > least_rows(n)) {
    rows = rows / 2 > least_rows(n) ? rows / 2 : least_rows(n);
    status = make_rows(n, rows);
  }
  if (status) return status;
  n->rows_at_once = rows < left ? rows : n->rows_at_once;
  n->first_row = first_row;
  n->end_row = first_row + rows;
  return ADJ_OK;
}

struct in_rows {
  const uint32_t *ids;
  uint64_t first, end;
  __device__ bool operator()(uint32_t position) const {
    return ids[position] >= first && ids[position] < end;
  }
};

/* The positions of the queries whose rows are wanted. */
static adj_status select_queries(adji_gpu_knn *n, adji_knn_target *target) {
  target->query_count = n->end_row - n->first_row;
  if (target->query_count == n->join.left->count) return ADJ_OK;
  in_rows wanted = {n->left->points.ids, n->first_row, n->end_row};
  target->queries = adji_at<uint32_t>(n->queries);
  ADJI_CUB(n->gpu, &n->temporary, cub::DeviceSelect::If, thrust::make_counting_iterator<uint32_t>(0),
           adji_at<uint32_t>(n->queries), adji_answer_at(n->gpu, ADJI_ANSWER_ITEMS), n->join.left->count, wanted);
  return ADJ_OK;
}

/* Queries by 32, and those that this was too much for one by one. */
static adj_status find_by_32(adji_gpu_knn *n, adji_knn_job *job) {
  adj_status status = adji_knn_dense(n->gpu, n->gpu->compute, job);
  if (status) return status;
  job->queries = job->hard;
  job->counted_queries = job->hard_count;
  return adji_knn_per_query(n->gpu, n->gpu->compute, job);
}

/* One by one, up to ADJI_MOST_PER_QUERY neighbours at a time. */
static adj_status find_one_by_one(adji_gpu_knn *n, adji_knn_job *job) {
  adj_status status = ADJ_OK;
  for (uint32_t place = 0; place < n->join.k && !status; place += job->k) {
    uint32_t left = n->join.k - place;
    job->place = place;
    job->k = left < ADJI_MOST_PER_QUERY ? left : ADJI_MOST_PER_QUERY;
    status = adji_knn_per_query(n->gpu, n->gpu->compute, job);
  }
  return status;
}

adj_status adji_knn_search(adji_gpu_knn *n, const adji_knn_target *target) {
  adji_gpu *gpu = n->gpu;
  adj_type type = n->join.left->type;
  uint64_t entries = target->query_count * n->join.k;
  adji_knn_job job = {};
  job.type = type;
  job.measure = &n->measure;
  job.dim = n->join.left->dim;
  job.left = n->left;
  job.right = &n->right;
  job.queries = target->queries;
  job.query_count = target->query_count;
  job.drop_self = n->join.style.drop_self;
  job.limit = n->join.limit;
  job.k = job.row_length = n->join.k;
  job.first_row = target->first_row;
  job.places = target->places;
  job.ids = target->ids;
  job.sums = target->sums;
  job.budget = n->budget;
  job.most_blocks = n->blocks;
  job.hard = adji_at<uint32_t>(n->hard);
  job.hard_count = adji_answer_at(gpu, ADJI_ANSWER_HEAD);
  job.candidates = adji_answer_at(gpu, ADJI_ANSWER_SPREAD + ADJI_SPREAD);
  job.root = n->measure.report == ADJI_REPORT_ROOT && n->join.k <= ROOT_AT_ONCE;
  adj_status status = adji_knn_grid_search(&n->grid, &job);
  if (!status && job.query_count) status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_HEAD, 1);
  if (status) return status;
  bool together = !n->alone && adji_knn_has_dense(type, n->measure.step, job.dim, job.k) &&
                  (n->together || job.query_count >= FEW_QUERIES) && n->right.points.count;
  if (job.query_count) status = together ? find_by_32(n, &job) : find_one_by_one(n, &job);
  if (!status && !job.root) status = adji_gpu_report(gpu, gpu->compute, &n->measure, type, entries, target->sums);
  return status;
}

static adj_status find_rows_by_force(adji_gpu_knn *n) {
  adj_status status = adji_answer_clear(n->gpu, n->gpu->compute, ADJI_ANSWER_HEAD, 1);
  if (!status)
    status =
        adji_gpu_brute_search(n->brute, n->first_row, n->end_row - n->first_row, adji_at<uint32_t>(n->ids), n->sums.at);
  return status;
}

static adj_status find_rows_in_trees(adji_gpu_knn *n) {
  adji_knn_target target = {};
  target.first_row = n->first_row;
  target.ids = adji_at<uint32_t>(n->ids);
  target.sums = n->sums.at;
  adj_status status = select_queries(n, &target);
  return status ? status : adji_knn_search(n, &target);
}

static adj_status search(adji_gpu_knn *n) {
  adj_status status = adji_stopwatch_start(n->gpu, n->gpu->compute, &n->watch);
  if (!status) status = adji_answer_clear(n->gpu, n->gpu->compute, ADJI_ANSWER_SPREAD, 5 * ADJI_SPREAD);
  if (!status) status = n->brute ? find_rows_by_force(n) : find_rows_in_trees(n);
  if (!status) status = adji_stopwatch_stop(n->gpu, n->gpu->compute, &n->watch);
  if (!status) status = adji_gpu_mark(n->gpu, ADJI_MARK_COUNTED);
  return status;
}

/* Rows from `row` on: as many as there is memory for, and for what finding them takes. */
static adj_status find_rows(adji_gpu_knn *n, uint64_t row) {
  for (;;) {
    adj_status status = make_room(n, row);
    if (!status) status = search(n);
    if (!status) return ADJ_OK;
    uint64_t rows = n->end_row - n->first_row;
    free_work(n);
    free_rows(n);
    if (status != ADJ_E_DEVICE_MEMORY || rows <= least_rows(n)) return status;
    n->rows_at_once = rows / 2 > least_rows(n) ? rows / 2 : least_rows(n);
  }
}

adj_status adji_gpu_knn_begin(adji_gpu_knn *n, uint64_t row, adji_gpu_table *out) {
  if (row < n->first_row || row >= n->end_row) {
    adj_status status = find_rows(n, row);
    if (status) return status;
    n->begun = true;
  }
  *out = adji_gpu_table{n->first_row, n->end_row, adji_at<uint32_t>(n->ids), n->sums.at};
  return ADJ_OK;
}

adj_status adji_gpu_knn_end(adji_gpu_knn *n) {
  if (!n->begun) return ADJ_OK;
  n->begun = false;
  adj_status status = adji_answers_fetch(n->gpu, n->gpu->compute);
  free_work(n);
  if (status) {
    free_rows(n);
    return status;
  }
  if (n->brute) /* which has no need to count them */
    n->gpu->answers[ADJI_ANSWER_SPREAD + ADJI_SPREAD] = (n->end_row - n->first_row) * n->join.right->count;
  n->effort.candidates += adji_answer_totals(n->gpu).candidates;
  n->effort.hard += n->gpu->answers[ADJI_ANSWER_HEAD];
  return ADJ_OK;
}

adj_status adji_gpu_knn_take(adji_gpu_knn *n, adji_gpu_csr *out) {
  *out = adji_gpu_csr{n->gpu, n->join.left->count, 0, NULL, NULL, NULL, {0, 0, 0}};
  if (!n->join.left->count) return ADJ_OK;
  adji_gpu_table table;
  adj_status status = adji_gpu_knn_begin(n, 0, &table);
  if (!status) status = adji_gpu_knn_end(n);
  if (status) return status;
  if (table.end_row < n->join.left->count)
    return adji_fail(ADJ_E_DEVICE_MEMORY, "device %d: the neighbours of %llu points, of all %llu, have room",
                     n->gpu->device, (unsigned long long)table.end_row, (unsigned long long)n->join.left->count);
  if (!n->join.style.distances) adji_block_free(n->gpu, n->gpu->compute, &n->sums);
  out->pairs = n->join.left->count * n->join.k;
  out->ids = adji_at<uint32_t>(n->ids);
  out->distances = n->sums.at;
  out->bytes[1] = n->ids.bytes;
  out->bytes[2] = n->sums.bytes;
  n->ids = n->sums = adji_block{};
  n->first_row = n->end_row = 0;
  return ADJ_OK;
}

adji_device_stats adji_gpu_knn_work(adji_gpu_knn *n) {
  n->work.kernel_s = adji_stopwatch_read(&n->watch);
  n->work.grid = adji_knn_grid_stats_of(&n->grid);
  return n->work;
}

adji_gpu_knn_effort adji_gpu_knn_effort_of(const adji_gpu_knn *n) {
  return n->effort;
}
