/* SPDX-License-Identifier: MIT
 *
 * kNN by brute force on a device: its points, and the choice of a method for the rows of the result. With a prefilter
 * rows are found in batches, and queries that it cannot certify go to the matrix method. knn.cu calls it.
 *
 * Points that are already on the device and packed are used in place. Other points are copied there, all of them if
 * there is memory. A right set that is too large goes through two buffers: one is filled while the other is compared
 * with, and the lists of the best so far are merged with those of each chunk. A left set that is too large is copied
 * with the rows that are requested.
 */
#include "gpu/brute/brute_join.cuh"

#include <cstdlib>

#include "gpu/brute/brute_matrix.cuh"
#include "gpu/brute/prefilter_gemm.cuh"
#include "gpu/shared/report.cuh"

extern "C" {
#include "gpu/device/staging.h"
}

enum { BUFFERS = 2, LEAST_CHUNK = 1 << 10, PACK_THREADS = 256, SQUARE = 32, LEAST_ROWS = 8192 };

/* Coordinates of pairs compared between two checks for adj_cancel: about a second. */
static const uint64_t COORDINATES_PER_CHECK = UINT64_C(1) << 44;

/* A set, and the part of it on the device. */
typedef struct side {
  const adj_dataset *set; /* on the host; on the device if rows are given */
  bool given;
  adji_gpu_rows rows;
  uint64_t count, row_bytes;
  uint64_t at_once;           /* rows on the device at a time */
  adji_block points[BUFFERS]; /* the first one holds all if they fit */
} side;

struct adji_gpu_brute {
  adji_gpu *gpu;
  adji_join join;
  adji_measure measure;
  adji_brute_choice choice;
  adji_device_stats *work;
  adji_block box;
  side left, right;
  cudaEvent_t used[BUFFERS]; /* the comparisons with a buffer of the right set are done */
  bool copied;               /* `points` are copies of the right set, which is on the device as a whole */
  bool skip_fails;           /* too few tiles can be skipped */
  /* Rows of queries that the prefilter failed, with points in tree order: searched when all others are done. */
  adji_block hard;
  uint64_t hard_count;
  adji_tensor_points points;
  adji_tensor_batch batch;
};

/* ---- Points ---------------------------------------------------------------------------------- */

static bool is_packed(const side *s) {
  return s->given && s->rows.column_stride == 1 && s->rows.row_stride == s->rows.dim;
}

/* Packs rows: to[i][j] = row first + i, dimension j. Input and output in device memory. A block owns a square of rows
 * and dimensions, which goes through shared memory, so that neighbouring threads read and write neighbouring values on
 * both sides. across: the rows of a dimension are adjacent, not the dimensions of a row. One barrier. Limited by
 * memory. */
template <class T>
static __global__ void pack_rows(adji_gpu_rows rows, bool across, uint64_t first, uint64_t count, T *to) {
  __shared__ T square[SQUARE][SQUARE + 1];
  uint32_t squares = (rows.dim + SQUARE - 1) / SQUARE, x = threadIdx.x % SQUARE, y = threadIdx.x / SQUARE;
  uint64_t row = static_cast<uint64_t>(blockIdx.x / squares) * SQUARE;
  uint32_t column = blockIdx.x % squares * SQUARE;
  for (uint32_t i = y; i < SQUARE; i += PACK_THREADS / SQUARE) {
    uint32_t r = across ? x : i, c = across ? i : x;
    if (row + r < count && column + c < rows.dim)
      square[r][c] =
          static_cast<const T *>(rows.data)[(first + row + r) * rows.row_stride + (column + c) * rows.column_stride];
  }
  __syncthreads();
  for (uint32_t i = y; i < SQUARE; i += PACK_THREADS / SQUARE)
    if (row + i < count && column + x < rows.dim) to[(row + i) * rows.dim + column + x] = square[i][x];
}

static adj_status pack(adji_gpu *gpu, const side *s, uint64_t first, uint64_t count, void *to) {
  const adji_gpu_rows *rows = &s->rows;
  uint32_t blocks = adji_blocks_for(count, SQUARE) * adji_blocks_for(rows->dim, SQUARE);
  bool across = rows->row_stride < rows->column_stride;
  if (!blocks) return ADJ_OK;
  if (rows->type == ADJ_F64)
    pack_rows<<<blocks, PACK_THREADS, 0, gpu->compute>>>(*rows, across, first, count, static_cast<double *>(to));
  else
    pack_rows<<<blocks, PACK_THREADS, 0, gpu->compute>>>(*rows, across, first, count, static_cast<float *>(to));
  ADJI_LAUNCHED(gpu, "pack_rows");
  return ADJ_OK;
}

/* Copies rows first .. first + count - 1, packed, to device memory that nothing else uses. */
static adj_status fetch_rows(adji_gpu_brute *b, const side *s, uint64_t first, uint64_t count, void *to) {
  if (s->given) return pack(b->gpu, s, first, count, to);
  adj_dataset some = *s->set;
  some.data += first * some.row_stride;
  some.count = count;
  adj_status status = adji_upload(b->gpu, &some, to, b->work); /* has arrived when it returns */
  if (status) adji_gpu_quiesce(b->gpu);                        /* or is abandoned */
  return status;
}

/* Memory comes from the compute stream, but copies are on another stream, hence the wait. */
static adj_status get_points(adji_gpu_brute *b, uint64_t bytes, adji_block *out) {
  adj_status status = adji_block_get(b->gpu, b->gpu->compute, bytes, "points", out);
  if (!status) ADJI_CUDA(b->gpu, cudaStreamSynchronize(b->gpu->compute));
  return status;
}

static void set_side(side *s, const adj_dataset *set, const adji_gpu_rows *rows) {
  s->set = set;
  s->given = rows != NULL;
  if (rows) s->rows = *rows;
  s->count = rows ? rows->count : set->count;
  s->row_bytes = set->dim * adji_type_size(set->type);
  s->at_once = s->count;
}

/* Copies all of a set, or fails with ADJ_E_DEVICE_MEMORY. */
static adj_status fetch_all(adji_gpu_brute *b, side *s) {
  if (is_packed(s)) return ADJ_OK;
  adj_status status = get_points(b, adji_mul(s->count, s->row_bytes), &s->points[0]);
  return status || !s->count ? status : fetch_rows(b, s, 0, s->count, s->points[0].at);
}

static bool is_whole(const side *s) {
  return s->at_once == s->count;
}

/* Where row `first` is, among those on the device. */
static const void *points_of(const side *s, uint32_t buffer, uint64_t first) {
  const char *all = is_packed(s)  ? static_cast<const char *>(s->rows.data)
                    : is_whole(s) ? static_cast<const char *>(s->points[0].at)
                                  : NULL;
  return all ? all + first * s->row_bytes : s->points[buffer].at;
}

/* Whether the queries are the right points in device memory. */
static bool is_shared(const adji_gpu_brute *b) {
  return b->join.self_join && (is_whole(&b->right) || is_packed(&b->right));
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Two buffers for chunks of the right set: as large as requested, or as there is memory for. */
static adj_status get_buffers(adji_gpu_brute *b) {
  side *s = &b->right;
  if (is_packed(s)) return ADJ_OK;
  for (;;) {
    adj_status status = ADJ_OK;
    for (uint32_t i = 0; i < BUFFERS && !status; i++)
      status = get_points(b, adji_mul(s->at_once, s->row_bytes), &s->points[i]);
    if (status != ADJ_E_DEVICE_MEMORY || s->at_once <= LEAST_CHUNK) return status;
    for (adji_block &points : s->points)
      adji_block_free(b->gpu, b->gpu->compute, &points);
    s->at_once = s->at_once / 2 > LEAST_CHUNK ? s->at_once / 2 : LEAST_CHUNK;
  }
}

/* A right set takes up to half of the memory if it fits whole, and otherwise a quarter, in two chunks. */
static adj_status open_right(adji_gpu_brute *b) {
  side *s = &b->right;
  uint64_t available = adji_gpu_available(b->gpu), most = b->choice.chunk;
  if (!most && (is_packed(s) || s->count <= available / 2 / s->row_bytes)) most = s->count;
  if (!most) most = adji_brute_rows_that_fit(s->count, s->row_bytes, available / 4 / BUFFERS);
  if (most < s->count) {
    s->at_once = most;
    return get_buffers(b);
  }
  return fetch_all(b, s);
}

/* A left set takes up to a quarter of the remaining memory if it fits whole, and otherwise an eighth for the rows
 * requested. */
static adj_status open_left(adji_gpu_brute *b) {
  side *s = &b->left;
  uint64_t available = adji_gpu_available(b->gpu);
  if (is_shared(b)) return ADJ_OK;
  if (is_packed(s) || s->count <= available / 4 / s->row_bytes) return fetch_all(b, s);
  s->at_once = adji_brute_rows_that_fit(s->count, s->row_bytes, available / 8);
  return ADJ_OK;
}

static adj_status copy_box(adji_gpu_brute *b) {
  if (!b->measure.box) return ADJ_OK;
  uint64_t bytes = b->join.left->dim * adji_type_size(b->join.left->type);
  adj_status status = adji_block_get(b->gpu, b->gpu->compute, bytes, "box", &b->box);
  if (status) return status;
  ADJI_CUDA(b->gpu, cudaMemcpyAsync(b->box.at, b->measure.box, bytes, cudaMemcpyHostToDevice, b->gpu->compute));
  return ADJ_OK;
}

static adj_status make_events(adji_gpu_brute *b) {
  for (cudaEvent_t &event : b->used)
    ADJI_CUDA(b->gpu, cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return ADJ_OK;
}

adj_status adji_gpu_brute_open(adji_gpu *gpu, const adji_gpu_brute_options *options, adji_gpu_brute **out) {
  adji_gpu_brute *b = static_cast<adji_gpu_brute *>(calloc(1, sizeof *b));
  if (!b) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  b->gpu = gpu;
  b->join = *options->join;
  b->measure = *options->measure;
  b->choice = options->choice;
  b->work = options->work;
  set_side(&b->left, b->join.left, options->left_rows);
  set_side(&b->right, b->join.right, options->right_rows);
  adj_status status = make_events(b);
  if (!status) status = copy_box(b);
  if (!status) status = open_right(b);
  if (!status) status = open_left(b);
  if (status)
    adji_gpu_brute_close(b);
  else
    *out = b;
  return status;
}

void adji_gpu_brute_close(adji_gpu_brute *b) {
  if (!b) return;
  for (uint32_t i = 0; i < BUFFERS; i++) {
    adji_blocks_free(b->gpu, {&b->left.points[i], &b->right.points[i]});
    if (b->used[i]) cudaEventDestroy(b->used[i]);
  }
  adji_block_free(b->gpu, b->gpu->compute, &b->box);
  adji_tensor_points_clear(b->gpu, &b->points);
  free(b);
}

uint64_t adji_gpu_brute_chunk(const adji_gpu_brute *b) {
  return is_whole(&b->right) ? 0 : b->right.at_once;
}

/* ---- Methods --------------------------------------------------------------------------------- */

/* With fewer queries or points, comparing is faster than copying. BATCH_BYTES: of the queries of a batch. */
enum { FEWEST_QUERIES = 64, FEWEST_POINTS = 2048, BATCH_BYTES = 512 << 20 };

static bool has_prefilter(const adji_gpu_brute *b, const adji_brute_job *job) {
  const adji_brute_choice *choice = &b->choice;
  if (choice->method == ADJI_METHOD_MATRIX) return false;
  if (choice->method == ADJI_METHOD_GEMM) return adji_gemm_can(job);
  if (choice->distance || choice->select || !b->gpu->tensor.holds || !adji_tensor_can(job)) return false;
  return choice->method == ADJI_METHOD_TENSOR || (job->queries >= FEWEST_QUERIES && job->right_count >= FEWEST_POINTS);
}

/* Keeps the rows of queries that failed. */
static adj_status keep_hard(adji_gpu_brute *b, const adji_tensor_outcome *found) {
  ADJI_CUDA(b->gpu, cudaMemcpyAsync(adji_at<uint32_t>(b->hard) + b->hard_count, found->numbers, found->failed * 4,
                                    cudaMemcpyDeviceToDevice, b->gpu->compute));
  b->hard_count += found->failed;
  return ADJ_OK;
}

/* Searches one batch. Queries it fails go to the matrix method, or with points in tree order they are kept. */
static adj_status search_batch(adji_gpu_brute *b, const adji_brute_job *job) {
  adji_tensor_outcome found;
  adj_status status = b->choice.method == ADJI_METHOD_GEMM
                          ? adji_gemm_search(b->gpu, &b->points, job, &b->choice, &b->batch, &found)
                          : adji_tensor_search(b->gpu, &b->points, job, &b->batch, &found);
  if (status) return status;
  adji_prefilter_stats *work = &b->work->prefilter;
  work->queries += job->queries;
  work->sums += found.sums;
  work->again += found.again;
  work->again += b->hard.at ? found.failed : 0;
  work->failed += b->hard.at ? 0 : found.failed;
  if (adji_tensor_in_order(&b->points)) {
    uint64_t warps = (job->queries + ADJI_WARP - 1) / ADJI_WARP;
    work->tiles += warps * ((job->right_count + ADJI_TENSOR_TILE - 1) / ADJI_TENSOR_TILE);
    work->tiles_scanned += found.tiles;
  }
  if (!found.failed) return ADJ_OK;
  if (b->hard.at) return keep_hard(b, &found);
  adji_brute_job rest = *job;
  rest.numbers = found.numbers;
  rest.queries = found.failed;
  return adji_brute_matrix(b->gpu, &rest, &b->choice);
}

/* ---- Tree order ------------------------------------------------------------------------------ */

/* Points in tree order take about 2 ns each, and a query with brute force 0.25 ns a point. So a join of fewer queries
 * could lose more than some per cent where nothing can be skipped. */
static const uint64_t FEWEST_SKIP_QUERIES = UINT64_C(1) << 18, FEWEST_SKIP_PAIRS = UINT64_C(1) << 38;

/* The part of all tiles that a batch may scan. If it scans more, the others do without lists of tiles. */
static const double MOST_SCANNED = 0.8;

/* Whether the queries, all or some of the left set, are worth a try. */
static bool may_skip(const adji_gpu_brute *b, uint64_t queries) {
  const adji_brute_choice *choice = &b->choice;
  adji_brute_job job = {};
  job.measure = &b->measure;
  job.dim = b->join.left->dim;
  job.k = b->join.k;
  job.right_count = b->right.count;
  bool tensor = choice->method == ADJI_METHOD_TENSOR || choice->method == ADJI_METHOD_AUTO;
  if (choice->skip == ADJI_SKIP_OFF || b->skip_fails || !is_whole(&b->right) || !tensor) return false;
  if (!b->gpu->tensor.holds || !adji_tensor_can(&job) || job.dim > ADJI_TENSOR_MOST_SKIP_DIM) return false;
  return choice->skip == ADJI_SKIP_ON ||
         (queries >= FEWEST_SKIP_QUERIES && queries >= FEWEST_SKIP_PAIRS / b->right.count);
}

/* Whether batches scan so many tiles that the others had better do without lists of them. */
static bool too_many_tiles(const adji_gpu_brute *b) {
  const adji_prefilter_stats *work = &b->work->prefilter;
  return b->choice.skip == ADJI_SKIP_AUTO && (double)work->tiles_scanned > MOST_SCANNED * (double)work->tiles;
}

/* ---- Batches --------------------------------------------------------------------------------- */

/* The queries of a batch: `most` from number `done` on. Listed ones keep the rows of the job. */
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

/* Searches queries from number *done on, until all are done or, with lists of tiles, too many tiles were scanned. */
static adj_status search_batches(adji_gpu_brute *b, const adji_brute_job *job, uint64_t *done) {
  uint64_t most = batch_size(b, job), unit = ADJI_TENSOR_ROWS;
  bool ordered = adji_tensor_in_order(&b->points);
  adj_status status = ADJ_OK;
  while (*done < job->queries && !status && !(ordered && b->skip_fails)) {
    adji_brute_job some = batch_of(job, *done, most);
    status = adji_check_cancel(b->join.ctx);
    if (!status) status = search_batch(b, &some);
    if (status == ADJ_E_DEVICE_MEMORY && most > unit) {
      most = most / 2 / unit * unit;
      status = ADJ_OK;
      continue;
    }
    *done += some.queries;
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

/* Searches the first `count` queries that were kept by canonical sums, batch by batch in tree order. Those that fail
 * again are kept then. */
static adj_status search_exactly(adji_gpu_brute *b, const adji_brute_job *all, uint64_t count, bool patient) {
  adji_brute_job job = *all;
  adji_block rows = {};
  job.numbers = adji_at<uint32_t>(b->hard);
  job.queries = count;
  uint64_t most = BATCH_BYTES / adji_tensor_query_bytes(&job, true) / ADJI_TENSOR_ROWS * ADJI_TENSOR_ROWS;
  most = most > ADJI_TENSOR_ROWS ? most : ADJI_TENSOR_ROWS;
  adj_status status = adji_block_get(b->gpu, b->gpu->compute, count * 4, "order of queries", &rows);
  if (!status) status = adji_tensor_order_queries(b->gpu, &b->points, &job, adji_at<uint32_t>(rows));
  job.numbers = adji_at<uint32_t>(rows);
  b->hard_count = 0;
  for (uint64_t done = 0; done < count && !status; done += most) {
    adji_brute_job some = batch_of(&job, done, most);
    adji_tensor_outcome found = {};
    status = adji_check_cancel(b->join.ctx);
    if (!status) status = adji_tile_exact(b->gpu, &b->points, &some, patient, &b->batch, &found);
    if (!status) status = keep_hard(b, &found);
  }
  adji_block_free(b->gpu, b->gpu->compute, &rows);
  return status;
}

/* Searches the queries that were kept: by canonical sums where few tiles are within reach; with longer lists; and the
 * rest by all canonical sums that are needed, or by the matrix method if they are too few to keep the device busy. */
static adj_status search_hard(adji_gpu_brute *b, const adji_brute_job *all) {
  if (!b->hard_count) return ADJ_OK;
  adj_status status = search_exactly(b, all, b->hard_count, false);
  adji_brute_job job = *all;
  adji_tensor_outcome found = {b->hard_count, 0, 0, 0, adji_at<uint32_t>(b->hard)};
  if (!status && found.failed)
    status = adji_tensor_search_failed(b->gpu, &b->points, &job, adji_at<uint32_t>(b->hard), &found);
  b->work->prefilter.sums += found.sums;
  b->work->prefilter.failed += found.failed;
  if (status || !found.failed) return status;
  if (found.failed >= static_cast<uint64_t>(b->gpu->multiprocessors) * ADJI_TENSOR_ROWS)
    return search_exactly(b, all, found.failed, true);
  job.numbers = adji_at<uint32_t>(b->hard);
  job.queries = found.failed;
  return adji_brute_matrix(b->gpu, &job, &b->choice);
}

/* With points and queries in tree order; rows: of the queries. If too few tiles can be skipped, it ends early, and the
 * remaining queries of the job are searched in the usual way. */
static adj_status search_skipping(adji_gpu_brute *b, adji_brute_job *job, adji_block *rows, uint64_t *done) {
  adj_status status = copy_points(b, job, true);
  if (!status)
    status = adji_block_get(b->gpu, b->gpu->compute, job->queries * sizeof(uint32_t), "order of queries", rows);
  if (!status) status = adji_tensor_order_queries(b->gpu, &b->points, job, adji_at<uint32_t>(*rows));
  b->copied = !status;
  if (status) return status;
  job->numbers = adji_at<uint32_t>(*rows);
  b->hard_count = 0;
  if (adji_tile_exact_can(b->gpu, job))
    status = adji_block_get(b->gpu, b->gpu->compute, job->queries * sizeof(uint32_t), "failed queries", &b->hard);
  if (!status) status = search_batches(b, job, done);
  if (!status) status = search_hard(b, job);
  adji_block_free(b->gpu, b->gpu->compute, &b->hard);
  if (status || b->skip_fails) free_copies(b);
  return status;
}

static adj_status search_through_prefilter(adji_gpu_brute *b, const adji_brute_job *all) {
  adji_brute_job job = *all;
  adji_block rows = {};
  uint64_t done = 0;
  adj_status status = ADJ_OK;
  if (may_skip(b, job.queries)) status = search_skipping(b, &job, &rows, &done);
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
  adji_tensor_batch_clear(b->gpu, &b->batch);
  adji_block_free(b->gpu, b->gpu->compute, &rows);
  b->copied = !status && is_whole(&b->right);
  if (!b->copied) adji_tensor_points_clear(b->gpu, &b->points);
  return status;
}

/* Rows that stay on the device are found in one step. Others take up to half of the remaining memory, since a small
 * matrix is slow. They should also not take longer than the time between two checks for adj_cancel, unless every step
 * needs another copy of all points to the device, or tiles can be skipped: neighbouring queries share what they scan,
 * and some of the rows have fewer neighbours among each other. Batches check too. */
uint64_t adji_gpu_brute_most_rows(const adji_gpu_brute *b) {
  uint64_t most = b->left.at_once, pairs = b->right.count * b->join.right->dim + 1;
  if (b->left.given) return most;
  uint64_t row = adji_mul(b->join.k, 4 + adji_type_size(b->join.left->type));
  most = adji_brute_rows_that_fit(most, row, adji_gpu_available(b->gpu) / 2);
  if (!is_whole(&b->right) || most <= LEAST_ROWS || may_skip(b, most)) return most;
  uint64_t rows = COORDINATES_PER_CHECK / pairs > LEAST_ROWS ? COORDINATES_PER_CHECK / pairs : LEAST_ROWS;
  return rows < most ? rows : most;
}

/* The matrix method takes every job: also if there is no memory for a prefilter that was not asked for. */
static adj_status run_method(adji_gpu_brute *b, const adji_brute_job *job) {
  if (b->choice.method == ADJI_METHOD_TENSOR && !b->gpu->tensor.holds) return adji_gpu_refuse_tensor(b->gpu);
  if (!has_prefilter(b, job)) return adji_brute_matrix(b->gpu, job, &b->choice);
  adj_status status = search_through_prefilter(b, job);
  if (status != ADJ_E_DEVICE_MEMORY || b->choice.method != ADJI_METHOD_AUTO) return status;
  return adji_brute_matrix(b->gpu, job, &b->choice);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Finds or copies the points of the queries. */
static adj_status find_left(adji_gpu_brute *b, adji_brute_job *job) {
  side *s = is_shared(b) ? &b->right : &b->left;
  if (is_packed(s) || is_whole(s)) {
    job->left = points_of(s, 0, 0);
    return ADJ_OK;
  }
  adj_status status = get_points(b, adji_mul(job->queries, s->row_bytes), &s->points[0]);
  if (!status) status = fetch_rows(b, s, job->first_row, job->queries, s->points[0].at);
  job->left = s->points[0].at;
  job->left_first = job->first_row;
  return status;
}

/* Copies the next chunk of the right set, rows first .. first + count - 1. */
static adj_status fetch_chunk(adji_gpu_brute *b, uint32_t buffer, uint64_t first, uint64_t count) {
  side *s = &b->right;
  if (is_packed(s)) return ADJ_OK;
  if (!s->given)
    ADJI_CUDA(b->gpu, cudaEventSynchronize(b->used[buffer])); /* wait for the comparisons with its previous contents */
  return fetch_rows(b, s, first, count, s->points[buffer].at);
}

/* Finds the lists of one chunk, as sums. */
static adj_status search_chunk(adji_gpu_brute *b, adji_brute_job *job, uint64_t first, const adji_brute_lists &to) {
  side *s = &b->right;
  uint32_t buffer = static_cast<uint32_t>(first / s->at_once % BUFFERS);
  job->right_first = first;
  job->right_count = s->count - first < s->at_once ? s->count - first : s->at_once;
  job->ids = to.ids;
  job->distances = to.sums;
  adj_status status = adji_check_cancel(b->join.ctx);
  if (!status) status = fetch_chunk(b, buffer, first, job->right_count);
  job->right = points_of(s, buffer, first);
  if (!status) status = run_method(b, job);
  if (!status) ADJI_CUDA(b->gpu, cudaEventRecord(b->used[buffer], b->gpu->compute));
  return status;
}

/* Chunk by chunk. The best so far are in the table itself or in other memory. */
static adj_status search_chunks(adji_gpu_brute *b, adji_brute_job *job, adji_brute_running *lists) {
  adji_brute_lists table = {job->ids, job->distances};
  adj_status status = adji_brute_running_get(b->gpu, lists, &table, true);
  bool root = job->root;
  job->root = false;
  for (uint64_t first = 0; first < b->right.count && !status; first += b->right.at_once) {
    status = search_chunk(b, job, first, adji_brute_running_next(lists));
    if (!status) status = adji_brute_running_add(b->gpu, lists);
  }
  adji_brute_finish f = {*lists};
  f.root = root;
  f.from = lists->best;
  f.to = table;
  return status ? status : adji_brute_finish_lists(b->gpu, &f);
}

static adj_status search_right(adji_gpu_brute *b, adji_brute_job *job) {
  if (is_whole(&b->right)) {
    job->right = points_of(&b->right, 0, 0);
    job->right_count = b->right.count;
    return run_method(b, job);
  }
  adji_brute_running lists = {{job->type, job->queries, job->k}};
  adj_status status = search_chunks(b, job, &lists);
  adji_brute_running_free(b->gpu, &lists);
  return status;
}

adj_status adji_gpu_brute_search(adji_gpu_brute *b, uint64_t first_row, uint64_t rows, uint32_t *ids, void *distances) {
  adji_brute_job job = {};
  job.type = b->join.left->type;
  job.measure = &b->measure;
  job.box = b->box.at;
  job.dim = b->join.left->dim;
  job.k = b->join.k;
  job.first_row = first_row;
  job.queries = rows;
  job.drop_self = b->join.style.drop_self;
  job.root = b->measure.report == ADJI_REPORT_ROOT;
  job.limit = b->join.limit;
  job.ids = ids;
  job.distances = distances;
  adj_status status = find_left(b, &job);
  if (!status) status = search_right(b, &job);
  if (!is_whole(&b->left)) adji_block_free(b->gpu, b->gpu->compute, &b->left.points[0]);
  if (status || b->measure.report == ADJI_REPORT_ROOT) return status;
  return adji_gpu_report(b->gpu, b->gpu->compute, &b->measure, job.type, rows * job.k, distances);
}
