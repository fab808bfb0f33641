/* SPDX-License-Identifier: MIT
 *
 * kNN joins on a device: points, trees, and the launches of a join; or brute force (brute_join.cu) instead of trees.
 * Called by the workers of devices (gpu/worker/knn.c).
 *
 * Memory: the trees (tree.cu) or the points; and, for each row of the result that is on the device, k ids, k distances
 * and 8 bytes.
 */
#include "gpu/knn/knn_private.cuh"

#include <cmath>
#include <cstdlib>

#include "gpu/shared/arrays.cuh"
#include "gpu/shared/report.cuh"

/* BUDGET: leaves that a warp searches for 32 queries before it gives up; several times the average. ROOT_AT_ONCE: the
 * search kernels take the roots of rows up to this length. For longer rows there is a separate kernel, since with the
 * roots the code would exceed the instruction cache. */
enum { BUDGET_FEW_DIMS = 1024, BUDGET = 8192, LEAST_ROWS = 1024, ROOT_AT_ONCE = 128 };
enum { RENAME_THREADS = 256, RENAME_BLOCKS = 4096 };

static_assert(static_cast<int>(ADJI_MOST_TREE_DIM) == static_cast<int>(ADJI_TREE_DIMS), "as trees have it");

/* ---- Opening --------------------------------------------------------------------------------- */

/* Makes the tree of the right set, unless it is lent. */
static adj_status make_right(adji_gpu_knn *n, const adji_gpu_knn_options *options) {
  n->right = options->right;
  if (n->right || options->brute) return ADJ_OK;
  adji_gpu_right_options mine = {};
  mine.form = ADJI_RIGHT_TREE;
  mine.set = options->join->right;
  mine.rows = options->right_rows;
  mine.cut = n->cut;
  adj_status status = adji_gpu_right_open(n->gpu, &mine, &n->own_right);
  n->right = n->own_right;
  return status;
}

/* Whether there is a kernel that searches for 32 queries per warp. */
static bool has_warps_of_32(const adji_gpu_knn *n) {
  adj_type type = n->join.left->type;
  int step = n->measure.step;
  return adji_knn_has_pooled(type, step, n->join.left->dim, n->join.k) ||
         adji_knn_has_dense(type, step, n->join.left->dim, n->join.k);
}

/* Whether to search for 32 queries per warp, if there is a kernel for that. For a list, the density is that of all
 * queries of the join. */
static bool wants_dense(const adji_gpu_knn *n, uint64_t queries) {
  uint64_t points = n->right->tree.points.count;
  bool pays = queries >= ADJI_KNN_FEW && adji_gpu_knn_is_dense(n->join.left->count, points);
  return !n->per_query && !n->checks_left && (n->dense || pays) && points && has_warps_of_32(n);
}

/* Few queries that are searched one per warp are packed in their own order; all others are ordered along the curve. */
static adj_status order_left(adji_gpu_knn *n, const adj_dataset *set, const adji_gpu_rows *rows) {
  if (rows->count <= ADJI_PACKED_QUERIES && !n->grid_first && !wants_dense(n, rows->count))
    return adji_gpu_index_pack(n->gpu, rows, &n->left_tree.points);
  adji_gpu_tree_options options = {set->low, set->high, false, n->cut};
  return adji_gpu_tree_build(n->gpu, rows, &options, &n->left_tree);
}

static adj_status make_left(adji_gpu_knn *n, const adj_dataset *set, const adji_gpu_rows *rows) {
  adji_block points = {};
  adji_gpu_rows fetched;
  adj_status status = ADJ_OK;
  n->left = &n->left_tree;
  if (!rows) {
    status = adji_gpu_fetch_bytes(n->gpu, set, &points, &fetched, &n->work);
    rows = &fetched;
  }
  if (!status) status = adji_knn_start_watch(n);
  if (!status) status = order_left(n, set, rows);
  if (!status) status = adji_knn_stop_watch(n);
  adji_block_free(n->gpu, n->gpu->compute, &points);
  return status;
}

/* Sends the given bounds or, in a join with a limit for each row, these limits. */
static adj_status send_bounds(adji_gpu_knn *n, const void *bounds) {
  adji_block_free(n->gpu, n->gpu->compute, &n->bounds);
  if (!bounds) return adji_gpu_send_limits(n->gpu, &n->join, &n->work, &n->bounds);
  uint64_t size = adji_type_size(n->join.left->type);
  return adji_gpu_send_bytes(n->gpu, bounds, n->join.left->count * size, "bounds of queries", &n->bounds, &n->work);
}

static adj_status open_trees(adji_gpu_knn *n, const adji_gpu_knn_options *options) {
  adj_status status = ADJ_OK;
  n->left = &n->right->tree;
  if (!n->join.self_join) status = make_left(n, options->join->left, options->left_rows);
  if (!status) status = send_bounds(n, options->bounds);
  return status;
}

static adj_status open_brute(adji_gpu_knn *n, const adji_gpu_knn_options *options) {
  const adji_gpu_rows *right_rows = options->right ? &options->right->rows : options->right_rows;
  adji_gpu_brute_options mine = {&n->join, &n->measure, options->left_rows, right_rows, *options->brute, &n->work};
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
  n->row_count = join->left->count;
  if (options->pick) n->names_at = options->pick->ids;
  if (options->pick && join->self_join) {
    n->row_count = options->pick->own;
    n->rows_at = options->pick->places;
  }
  n->rows_at_once = options->rows_at_once ? options->rows_at_once : n->row_count;
  n->budget = options->budget ? options->budget : join->left->dim <= 3 ? BUDGET_FEW_DIMS : BUDGET;
  n->blocks = options->blocks;
  n->per_query = options->per_query;
  n->dense = options->dense;
  n->cut = options->cut;
  n->timed = options->timed;
  n->grid_first = options->grid.use;
  n->checks_left = n->cleared = options->checks_left;
  adj_status status = n->cleared ? adji_answer_clear(gpu, gpu->compute, 0, ADJI_ANSWERS) : ADJ_OK;
  /* Copied before kernels build the tree, since copies wait for kernels. */
  if (!status)
    status = adji_gpu_send_bytes(gpu, options->right_names, join->right->count * 4, "ids", &n->names, &n->work);
  if (n->names.at) n->names_at = adji_at<uint32_t>(n->names);
  if (!status) status = make_right(n, options);
  if (!status) n->reports_right = n->right && adji_gpu_right_is_new(n->right);
  if (!status) status = options->brute ? open_brute(n, options) : open_trees(n, options);
  if (!status && !n->brute) status = adji_knn_grid_open(&n->grid, n->left, &n->right->tree, &options->grid, &n->watch);
  if (!status && !n->checks_left) status = adji_gpu_mark(gpu, ADJI_MARK_INDEXED);
  if (status)
    adji_gpu_knn_close(n);
  else
    *out = n;
  return status;
}

static void free_work(adji_gpu_knn *n) {
  adji_knn_grid_free_lists(&n->grid);
  adji_blocks_free(n->gpu, {&n->queries, &n->hard, &n->temporary});
}

static void free_rows(adji_gpu_knn *n) {
  adji_blocks_free(n->gpu, {&n->ids, &n->sums});
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
  adji_blocks_free(n->gpu, {&n->bounds, &n->names});
  adji_gpu_right_close(n->own_right);
  adji_gpu_tree_clear(n->gpu, &n->left_tree);
  adji_stopwatch_clear(&n->watch);
  free(n);
}

adj_status adji_gpu_knn_ask(adji_gpu_knn *n, const adj_dataset *left, const void *bounds) {
  free_work(n);
  free_rows(n);
  adji_gpu_tree_clear(n->gpu, &n->left_tree);
  n->join.left = left;
  n->join.self_join = false;
  n->join.limits = NULL;
  n->rows_at_once = n->row_count = left->count;
  n->rows_at = NULL;
  adj_status status = make_left(n, left, NULL);
  return status ? status : send_bounds(n, bounds);
}

uint64_t adji_gpu_knn_chunk(const adji_gpu_knn *n) {
  return n->brute ? adji_gpu_brute_chunk(n->brute) : 0;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

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

/* The fewest rows worth a try; for brute force a single one. */
static uint64_t least_rows(const adji_gpu_knn *n) {
  return n->brute ? 1 : LEAST_ROWS;
}

/* Reserves as many rows as there is memory for. */
static adj_status reserve_rows(adji_gpu_knn *n, uint64_t first_row) {
  uint64_t remaining = n->row_count - first_row, rows = n->rows_at_once < remaining ? n->rows_at_once : remaining;
  free_rows(n);
  adj_status status = make_rows(n, rows);
  while (status == ADJ_E_DEVICE_MEMORY && rows > least_rows(n)) {
    rows = rows / 2 > least_rows(n) ? rows / 2 : least_rows(n);
    status = make_rows(n, rows);
  }
  if (status) return status;
  n->rows_at_once = rows < remaining ? rows : n->rows_at_once;
  n->first_row = first_row;
  n->end_row = first_row + rows;
  return ADJ_OK;
}

/* Searches for 32 queries per warp, and then for the hard ones, which exceeded the budget, one per warp. */
static adj_status search_dense(adji_gpu_knn *n, adji_knn_job *job) {
  bool pooled = adji_knn_has_pooled(job->type, job->measure->step, job->dim, job->k);
  adj_status status =
      pooled ? adji_knn_pooled(n->gpu, n->gpu->compute, job) : adji_knn_dense(n->gpu, n->gpu->compute, job);
  if (status) return status;
  job->queries = job->hard;
  job->counted_queries = job->hard_count;
  return adji_knn_per_query(n->gpu, n->gpu->compute, job);
}

/* Searches for one query per warp, up to ADJI_MOST_PER_QUERY neighbours at a time. */
static adj_status search_per_query(adji_gpu_knn *n, adji_knn_job *job) {
  adj_status status = ADJ_OK;
  for (uint32_t place = 0; place < n->join.k && !status; place += job->k) {
    uint32_t remaining = n->join.k - place;
    job->place = place;
    job->k = remaining < ADJI_MOST_PER_QUERY ? remaining : ADJI_MOST_PER_QUERY;
    status = adji_knn_per_query(n->gpu, n->gpu->compute, job);
  }
  return status;
}

adj_status adji_knn_search(adji_gpu_knn *n, adji_knn_job *job) {
  adji_gpu *gpu = n->gpu;
  uint64_t entries = job->query_count * n->join.k;
  job->type = n->join.left->type;
  job->measure = &n->measure;
  job->dim = n->join.left->dim;
  job->left = n->left;
  job->right = &n->right->tree;
  job->drop_self = n->join.style.drop_self;
  job->limit = n->join.limit;
  job->bounds = n->bounds.at;
  job->k = job->row_length = n->join.k;
  job->budget = n->budget;
  job->most_blocks = n->blocks;
  job->hard = adji_at<uint32_t>(n->hard);
  job->hard_count = adji_answer_at(gpu, ADJI_ANSWER_HEAD);
  job->candidates = adji_answer_at(gpu, ADJI_ANSWER_SPREAD + ADJI_SPREAD);
  job->root = n->measure.report == ADJI_REPORT_ROOT && n->join.k <= ROOT_AT_ONCE;
  adj_status status = adji_knn_grid_search(&n->grid, job);
  if (!status && job->query_count && !n->cleared) status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_HEAD, 1);
  if (status) return status;
  n->cleared = false;
  bool dense = wants_dense(n, job->query_count);
  if (job->query_count) status = dense ? search_dense(n, job) : search_per_query(n, job);
  if (!status && !job->root) status = adji_gpu_report(gpu, gpu->compute, &n->measure, job->type, entries, job->sums);
  return status;
}

static adj_status find_rows_brute(adji_gpu_knn *n) {
  adj_status status = adji_answer_clear(n->gpu, n->gpu->compute, ADJI_ANSWER_HEAD, 1);
  if (!status)
    status =
        adji_gpu_brute_search(n->brute, n->first_row, n->end_row - n->first_row, adji_at<uint32_t>(n->ids), n->sums.at);
  return status;
}

/* ids[i] = names[ids[i]], unless ids[i] is ADJ_NO_ID. One thread per entry; ids and names in device memory. Limited by
 * loads of names. */
static __global__ void rename_ids(const uint32_t *names, uint64_t entries, uint32_t *ids) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  for (; i < entries; i += step)
    if (ids[i] != ADJ_NO_ID) ids[i] = __ldg(names + ids[i]);
}

static adj_status rename_rows(adji_gpu_knn *n) {
  uint64_t entries = (n->end_row - n->first_row) * n->join.k, blocks = (entries + RENAME_THREADS - 1) / RENAME_THREADS;
  if (!n->names_at || !entries) return ADJ_OK;
  rename_ids<<<static_cast<uint32_t>(blocks < RENAME_BLOCKS ? blocks : RENAME_BLOCKS), RENAME_THREADS, 0,
               n->gpu->compute>>>(n->names_at, entries, adji_at<uint32_t>(n->ids));
  ADJI_LAUNCHED(n->gpu, "rename_ids");
  return ADJ_OK;
}

static adj_status find_rows_in_trees(adji_gpu_knn *n) {
  adji_knn_job job = {};
  job.query_count = n->end_row - n->first_row;
  job.first_row = n->first_row;
  job.places = n->rows_at;
  job.ids = adji_at<uint32_t>(n->ids);
  job.sums = n->sums.at;
  adj_status status = ADJ_OK;
  if (job.query_count < n->join.left->count) {
    uint32_t *queries = adji_at<uint32_t>(n->queries);
    adji_wanted_rows wanted = {n->left->points.ids, n->first_row, n->end_row, n->rows_at};
    status = adji_list_wanted(n->gpu, &n->temporary, NULL, n->join.left->count, wanted, queries);
    job.queries = queries;
  }
  if (!status) status = adji_knn_search(n, &job);
  return status ? status : rename_rows(n);
}

static adj_status search(adji_gpu_knn *n) {
  adj_status status = adji_knn_start_watch(n);
  if (!status && !n->cleared) status = adji_answer_clear(n->gpu, n->gpu->compute, ADJI_ANSWER_SPREAD, 5 * ADJI_SPREAD);
  if (!status) status = n->brute ? find_rows_brute(n) : find_rows_in_trees(n);
  if (!status) status = adji_knn_stop_watch(n);
  if (!status) status = adji_gpu_mark(n->gpu, ADJI_MARK_COUNTED);
  return status;
}

/* Finds rows from `row` on: as many as there is memory for, including the memory of the search. */
static adj_status find_rows(adji_gpu_knn *n, uint64_t row) {
  for (;;) {
    adj_status status = reserve_rows(n, row);
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
    n->searching = true;
  }
  *out = adji_gpu_table{n->first_row, n->end_row, adji_at<uint32_t>(n->ids), n->sums.at};
  return ADJ_OK;
}

adj_status adji_gpu_knn_end(adji_gpu_knn *n) {
  if (!n->searching) return ADJ_OK;
  n->searching = false;
  adj_status status = adji_answers_fetch(n->gpu, n->gpu->compute);
  free_work(n);
  if (status) {
    free_rows(n);
    return status;
  }
  if (n->brute) /* which does not count candidates: they are all pairs */
    n->gpu->answers[ADJI_ANSWER_SPREAD + ADJI_SPREAD] = (n->end_row - n->first_row) * n->join.right->count;
  n->effort.candidates += adji_answer_totals(n->gpu).candidates;
  n->effort.hard += n->gpu->answers[ADJI_ANSWER_HEAD];
  return ADJ_OK;
}

void adji_gpu_knn_keep_table(adji_gpu_knn *n) {
  free_work(n);
  adji_blocks_free(n->gpu, {&n->order, &n->bounds, &n->names});
  adji_gpu_tree_clear(n->gpu, &n->left_tree);
  if (n->own_right && n->reports_right) { /* its work is reported later, when it is gone */
    adji_device_stats right = adji_gpu_right_work(n->own_right);
    n->watch.seconds += right.kernel_s;
    adji_device_stats_add(&n->work, &right);
    n->reports_right = false;
  }
  adji_gpu_right_close(n->own_right);
  n->own_right = n->right = NULL;
  n->names_at = n->rows_at = NULL;
}

/* ---- Pairs ------------------------------------------------------------------------------------------ */

enum { COUNT_THREADS = 256, COUNT_BLOCKS = 1024 };

/* *pairs += the number of ids that are not ADJ_NO_ID.
 * ids: device memory, `entries` of them. pairs: device memory.
 * A thread takes every (threads of the grid)-th entry; a warp adds its sum with one atomic. Limited by bandwidth. */
__global__ void count_entries(const uint32_t *ids, uint64_t entries, unsigned long long *pairs) {
  uint64_t step = static_cast<uint64_t>(gridDim.x) * blockDim.x;
  unsigned long long mine = 0;
  for (uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < entries; i += step)
    mine += ids[i] != ADJ_NO_ID;
  for (int d = ADJI_WARP / 2; d; d /= 2)
    mine += __shfl_down_sync(0xffffffffu, mine, d);
  if (threadIdx.x % ADJI_WARP == 0 && mine) atomicAdd(pairs, mine);
}

/* Without a radius every row is as long as it can be, and nothing has to be counted. */
static bool must_count_pairs(const adji_gpu_knn *n) {
  return n->join.limits || n->join.limit < static_cast<double>(INFINITY);
}

/* Starts to count the pairs of the table. adji_gpu_knn_end fetches the answer. */
static adj_status begin_count(adji_gpu_knn *n, const adji_gpu_table *table) {
  adji_gpu *gpu = n->gpu;
  adj_status status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_PAIRS, 1);
  if (status) return status;
  uint64_t entries = (table->end_row - table->first_row) * n->join.k;
  uint64_t blocks = (entries + COUNT_THREADS - 1) / COUNT_THREADS;
  count_entries<<<static_cast<uint32_t>(blocks < COUNT_BLOCKS ? blocks : COUNT_BLOCKS), COUNT_THREADS, 0,
                  gpu->compute>>>(table->ids, entries, adji_answer_at(gpu, ADJI_ANSWER_PAIRS));
  ADJI_LAUNCHED(gpu, "count_entries");
  return ADJ_OK;
}

adj_status adji_gpu_knn_take(adji_gpu_knn *n, adji_gpu_csr *out) {
  *out = adji_gpu_csr{n->gpu, n->join.left->count, 0, NULL, NULL, NULL, {0, 0, 0}};
  if (!n->join.left->count) return ADJ_OK;
  adji_gpu_table table;
  adj_status status = adji_gpu_knn_begin(n, 0, &table);
  if (!status && must_count_pairs(n)) status = begin_count(n, &table);
  adj_status ended = adji_gpu_knn_end(n);
  if (!status) status = ended;
  if (!status && n->checks_left) status = adji_gpu_check_packed(n->gpu, n->join.left->dim);
  if (status) return status;
  if (table.end_row < n->join.left->count)
    return adji_fail(ADJ_E_DEVICE_MEMORY, "device %d: memory holds the neighbours of %llu of %llu points only",
                     n->gpu->device, (unsigned long long)table.end_row, (unsigned long long)n->join.left->count);
  if (!n->join.style.distances) adji_block_free(n->gpu, n->gpu->compute, &n->sums);
  out->pairs =
      must_count_pairs(n) ? n->gpu->answers[ADJI_ANSWER_PAIRS] : n->join.left->count * adji_join_reach(&n->join);
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
  adji_device_stats all = n->work;
  if (!n->reports_right) return all;
  adji_device_stats right = adji_gpu_right_work(n->right);
  adji_device_stats_add(&all, &right);
  return all;
}

adji_gpu_knn_effort adji_gpu_knn_effort_of(const adji_gpu_knn *n) {
  return n->effort;
}
