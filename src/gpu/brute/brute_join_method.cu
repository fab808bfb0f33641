/* SPDX-License-Identifier: MIT
 *
 * kNN by brute force on a device: the choice of a method for the rows of the result. A prefilter finds rows in batches.
 * Queries that it cannot certify go to the matrix method.
 *
 * In up to 32 dimensions points and queries may be put in tree order, so that tiles of points that are too far away are
 * skipped (prefilter_tensor_tiles.cuh). The first batch shows whether that pays.
 */
#include "gpu/brute/brute_join_private.cuh"
#include "gpu/brute/brute_matrix.cuh"
#include "gpu/brute/prefilter_gemm.cuh"

/* Bytes for the queries of a batch. */
enum { BATCH_BYTES = 512 << 20 };

static bool has_prefilter(const adji_gpu_brute *b, const adji_brute_job *job) {
  const adji_brute_choice *choice = &b->choice;
  if (choice->method == ADJI_METHOD_MATRIX) return false;
  if (choice->method == ADJI_METHOD_GEMM) return adji_gemm_can(job);
  if (choice->distance || choice->select || !b->gpu->tensor.holds || !adji_tensor_can(job)) return false;
  if (choice->method == ADJI_METHOD_TENSOR || choice->skip == ADJI_SKIP_ON) return true;
  return adji_tensor_pays(job->queries, job->right_count, job->k);
}

/* Keeps the rows of queries that failed, to search them later. */
static adj_status postpone(adji_gpu_brute *b, const adji_tensor_outcome *found) {
  ADJI_CUDA(b->gpu, cudaMemcpyAsync(adji_at<uint32_t>(b->postponed) + b->postponed_count, found->numbers,
                                    found->failed * 4, cudaMemcpyDeviceToDevice, b->gpu->compute));
  b->postponed_count += found->failed;
  return ADJ_OK;
}

/* Searches one batch. Queries that the prefilter fails go to the matrix method; with points in tree order they may be
 * kept for later. */
static adj_status search_batch(adji_gpu_brute *b, const adji_brute_job *job) {
  adji_tensor_outcome found;
  adj_status status = b->choice.method == ADJI_METHOD_GEMM
                          ? adji_gemm_search(b->gpu, &b->points, job, &b->choice, &b->batch, &found)
                          : adji_tensor_search(b->gpu, &b->points, job, &b->batch, &found);
  if (status) return status;
  adji_prefilter_stats *work = &b->work->prefilter;
  work->queries += job->queries;
  work->sums += found.sums;
  work->again += found.again + (b->postponed.at ? found.failed : 0);
  work->failed += b->postponed.at ? 0 : found.failed;
  if (adji_tensor_in_order(&b->points)) {
    uint64_t warps = (job->queries + ADJI_WARP - 1) / ADJI_WARP;
    work->tiles += warps * ((job->right_count + ADJI_TENSOR_TILE - 1) / ADJI_TENSOR_TILE);
    work->tiles_scanned += found.tiles;
  }
  if (!found.failed) return ADJ_OK;
  if (b->postponed.at) return postpone(b, &found);
  adji_brute_job rest = *job;
  rest.numbers = found.numbers;
  rest.queries = found.failed;
  return adji_brute_matrix(b->gpu, &rest, &b->choice);
}

/* ---- Tree order ------------------------------------------------------------------------------ */

/* Putting points in tree order takes about 2 ns per point, and a query by brute force 0.25 ns per point. So a join of
 * fewer pairs could lose more than a few per cent where nothing can be skipped. */
static const uint64_t FEWEST_SKIP_PAIRS = UINT64_C(1) << 38;

/* The part of all tiles that a batch may scan. If it scans more, later batches do without lists of tiles. */
static const double MOST_SCANNED = 0.8;

/* Whether tree order is worth a try for these queries, all or a part of the left set. */
bool adji_brute_may_skip(const adji_gpu_brute *b, uint64_t queries) {
  const adji_brute_choice *choice = &b->choice;
  adji_brute_job job = {};
  job.measure = &b->measure;
  job.dim = b->join.left->dim;
  job.k = b->join.k;
  job.right_count = b->right.count;
  bool tensor = choice->method == ADJI_METHOD_TENSOR || choice->method == ADJI_METHOD_AUTO;
  if (choice->skip == ADJI_SKIP_OFF || b->skip_fails || !adji_brute_is_whole(&b->right) || !tensor) return false;
  if (!b->gpu->tensor.holds || !adji_tensor_can(&job) || job.dim > ADJI_TENSOR_MOST_SKIP_DIM) return false;
  return choice->skip == ADJI_SKIP_ON ||
         (queries >= ADJI_TENSOR_FEWEST_SKIP && queries >= FEWEST_SKIP_PAIRS / b->right.count);
}

/* Whether batches scan so many tiles that later ones are faster without lists of tiles. */
static bool too_many_tiles(const adji_gpu_brute *b) {
  const adji_prefilter_stats *work = &b->work->prefilter;
  return b->choice.skip == ADJI_SKIP_AUTO && (double)work->tiles_scanned > MOST_SCANNED * (double)work->tiles;
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* A job for one batch: up to `most` queries from number `done` on. Listed queries keep the rows of the job. */
static adji_brute_job batch_of(const adji_brute_job *job, uint64_t done, uint64_t most) {
  adji_brute_job some = *job;
  some.queries = job->queries - done < most ? job->queries - done : most;
  if (job->numbers) {
    some.numbers += done;
    return some;
  }
  some.first_row += done;
  some.ids += done * job->k;
  some.distances = static_cast<char *>(some.distances) + done * job->k * adji_type_size(job->type);
  return some;
}

static uint64_t batch_size(const adji_gpu_brute *b, const adji_brute_job *job) {
  bool gemm = b->choice.method == ADJI_METHOD_GEMM, ordered = adji_tensor_in_order(&b->points);
  uint64_t each = gemm ? adji_gemm_query_bytes(job) : adji_tensor_query_bytes(job, ordered);
  uint64_t most = BATCH_BYTES / each / ADJI_TENSOR_ROWS * ADJI_TENSOR_ROWS;
  return most > ADJI_TENSOR_ROWS ? most : ADJI_TENSOR_ROWS;
}

/* The number of queries in the first batch, a probe, where the prefilter was not requested. Where many points are
 * closer together than half precision can tell apart, most of them pass, and the matrix method is faster: 100,000 x 10
 * points in clusters took an H200 39 ms with tensor cores, and 28 ms without. */
static constexpr uint64_t PROBED = ADJI_TENSOR_PROBED;

static bool is_probed(const adji_gpu_brute *b, const adji_brute_job *job) {
  return b->choice.method == ADJI_METHOD_AUTO && !adji_tensor_in_order(&b->points) &&
         adji_tensor_is_probed(job->queries);
}

/* Whether the prefilter is faster for the queries after a probe. seconds: the time of the probe. */
static bool probe_pays(const adji_gpu_brute *b, const adji_brute_job *probe, double seconds) {
  const adji_costs *costs = &b->join.ctx->costs;
  double pairs = static_cast<double>(probe->queries) * static_cast<double>(probe->right_count);
  double size = static_cast<double>(adji_type_size(probe->type));
  double pair_ns = (costs->device_matrix_ns + costs->device_matrix_dim_ns * probe->dim) * size / 4;
  return seconds < 1.2 * pairs * pair_ns * 1e-9;
}

/* Searches queries from number *done on, batch by batch. Ends early if, with lists of tiles, too many tiles were
 * scanned, or if a probe does not pay. */
static adj_status search_batches(adji_gpu_brute *b, const adji_brute_job *job, uint64_t *done) {
  uint64_t most = batch_size(b, job), unit = ADJI_TENSOR_ROWS, start = adji_now_ns();
  bool ordered = adji_tensor_in_order(&b->points), probe = !*done && is_probed(b, job);
  adj_status status = ADJ_OK;
  while (*done < job->queries && !status && !(ordered && b->skip_fails)) {
    adji_brute_job some = batch_of(job, *done, probe && most > PROBED ? PROBED : most);
    status = adji_check_cancel(b->join.ctx);
    if (!status) status = search_batch(b, &some);
    if (status == ADJ_E_DEVICE_MEMORY && most > unit) {
      most = most / 2 / unit * unit;
      probe = false;
      status = ADJ_OK;
      continue;
    }
    *done += some.queries;
    double took = static_cast<double>(adji_now_ns() - start) * 1e-9;
    if (probe && !status && !probe_pays(b, &some, took)) return ADJ_OK;
    probe = false;
    if (ordered && too_many_tiles(b)) b->skip_fails = true;
  }
  return status;
}

static adj_status copy_points(adji_gpu_brute *b, const adji_brute_job *job, bool ordered) {
  if (b->copied) return ADJ_OK;
  if (b->choice.method == ADJI_METHOD_GEMM) return adji_gemm_copy_points(b->gpu, job, &b->points);
  return adji_tensor_copy_points(b->gpu, job, ordered, &b->points);
}

static void free_copies(adji_gpu_brute *b) {
  adji_tensor_batch_clear(b->gpu, &b->batch);
  adji_tensor_points_clear(b->gpu, &b->points);
  b->copied = false;
}

/* Searches the first `count` kept queries by canonical sums, batch by batch in tree order. Afterwards only queries that
 * failed again are kept. */
static adj_status search_exactly(adji_gpu_brute *b, const adji_brute_job *all, uint64_t count) {
  adji_brute_job job = *all;
  adji_block rows = {};
  job.numbers = adji_at<uint32_t>(b->postponed);
  job.queries = count;
  uint64_t most = BATCH_BYTES / adji_tensor_query_bytes(&job, true) / ADJI_TENSOR_ROWS * ADJI_TENSOR_ROWS;
  most = most > ADJI_TENSOR_ROWS ? most : ADJI_TENSOR_ROWS;
  adj_status status = adji_block_get(b->gpu, b->gpu->compute, count * 4, "order of queries", &rows);
  if (!status) status = adji_tensor_order_queries(b->gpu, &b->points, &job, adji_at<uint32_t>(rows));
  job.numbers = adji_at<uint32_t>(rows);
  b->postponed_count = 0;
  for (uint64_t done = 0; done < count && !status; done += most) {
    adji_brute_job some = batch_of(&job, done, most);
    adji_tensor_outcome found = {};
    status = adji_check_cancel(b->join.ctx);
    if (!status) status = adji_tile_exact(b->gpu, &b->points, &some, &b->batch, &found);
    if (!status) status = postpone(b, &found);
  }
  adji_block_free(b->gpu, b->gpu->compute, &rows);
  return status;
}

/* Searches the kept queries in three steps: by canonical sums where few tiles are within reach; with longer lists; the
 * remaining ones by the matrix method. */
static adj_status search_postponed(adji_gpu_brute *b, const adji_brute_job *all) {
  if (!b->postponed_count) return ADJ_OK;
  adj_status status = search_exactly(b, all, b->postponed_count);
  adji_brute_job job = *all;
  adji_tensor_outcome found = {b->postponed_count, 0, 0, 0, adji_at<uint32_t>(b->postponed)};
  if (!status && found.failed)
    status = adji_tensor_search_failed(b->gpu, &b->points, &job, adji_at<uint32_t>(b->postponed), &found);
  b->work->prefilter.sums += found.sums;
  b->work->prefilter.failed += found.failed;
  if (status || !found.failed) return status;
  job.numbers = adji_at<uint32_t>(b->postponed);
  job.queries = found.failed;
  return adji_brute_matrix(b->gpu, &job, &b->choice);
}

/* Searches with points and queries in tree order. rows: receives the rows of the queries. If too few tiles can be
 * skipped, it ends early, and the remaining queries of the job are searched in the usual way. */
static adj_status search_skipping(adji_gpu_brute *b, adji_brute_job *job, adji_block *rows, uint64_t *done) {
  adj_status status = copy_points(b, job, true);
  if (!status)
    status = adji_block_get(b->gpu, b->gpu->compute, job->queries * sizeof(uint32_t), "order of queries", rows);
  if (!status) status = adji_tensor_order_queries(b->gpu, &b->points, job, adji_at<uint32_t>(*rows));
  b->copied = !status;
  if (status) return status;
  job->numbers = adji_at<uint32_t>(*rows);
  b->postponed_count = 0;
  if (adji_tile_exact_can(b->gpu, job))
    status = adji_block_get(b->gpu, b->gpu->compute, job->queries * sizeof(uint32_t), "failed queries", &b->postponed);
  if (!status) status = search_batches(b, job, done);
  if (!status) status = search_postponed(b, job);
  adji_block_free(b->gpu, b->gpu->compute, &b->postponed);
  if (status || b->skip_fails) free_copies(b);
  return status;
}

static adj_status search_through_prefilter(adji_gpu_brute *b, const adji_brute_job *all) {
  adji_brute_job job = *all;
  adji_block rows = {};
  uint64_t done = 0;
  adj_status status = ADJ_OK;
  bool skip = b->copied ? adji_tensor_in_order(&b->points) : adji_brute_may_skip(b, job.queries);
  if (skip) status = search_skipping(b, &job, &rows, &done);
  if (status == ADJ_E_DEVICE_MEMORY && b->choice.skip == ADJI_SKIP_AUTO) {
    free_copies(b);
    b->skip_fails = true;
    job = *all;
    done = 0;
    status = ADJ_OK;
  }
  if (!status && done < job.queries) {
    status = copy_points(b, &job, false);
    if (!status) status = search_batches(b, &job, &done);
  }
  if (!status && done < job.queries) {
    adji_brute_job rest = batch_of(&job, done, job.queries);
    status = adji_brute_matrix(b->gpu, &rest, &b->choice);
  }
  adji_tensor_batch_clear(b->gpu, &b->batch);
  adji_block_free(b->gpu, b->gpu->compute, &rows);
  b->copied = !status && adji_brute_is_whole(&b->right);
  if (!b->copied) adji_tensor_points_clear(b->gpu, &b->points);
  return status;
}

/* The matrix method can do every job. It also replaces a prefilter that was not requested and does not fit into
 * memory. */
adj_status adji_brute_run(adji_gpu_brute *b, const adji_brute_job *job) {
  if (b->choice.method == ADJI_METHOD_TENSOR && !b->gpu->tensor.holds) return adji_gpu_refuse_tensor(b->gpu);
  if (!has_prefilter(b, job)) return adji_brute_matrix(b->gpu, job, &b->choice);
  adj_status status = search_through_prefilter(b, job);
  if (status != ADJ_E_DEVICE_MEMORY || b->choice.method != ADJI_METHOD_AUTO) return status;
  return adji_brute_matrix(b->gpu, job, &b->choice);
}
