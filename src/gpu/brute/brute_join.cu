/* SPDX-License-Identifier: MIT
 *
 * kNN by brute force on a device: points, and rows of the result. brute_join_method.cu chooses a method for the rows.
 * knn.cu calls this file.
 *
 * Points that are already on the device and packed are used in place. Other points are copied there, all of them if
 * there is memory. A right set that is too large goes through two buffers: one is filled while the points in the other
 * are compared. The lists of the best neighbours so far are merged with those of each chunk. A left set that is too
 * large is copied with the rows that are requested.
 */
#include <cstdlib>

#include "gpu/brute/brute_join_private.cuh"
#include "gpu/brute/brute_matrix.cuh"
#include "gpu/shared/report.cuh"

extern "C" {
#include "gpu/device/staging.h"
}

enum { BUFFERS = ADJI_BRUTE_BUFFERS, LEAST_CHUNK = 1 << 10, PACK_THREADS = 256, SQUARE = 32, LEAST_ROWS = 8192 };

/* Coordinates of pairs compared between two checks for adj_cancel: about a second. */
static const uint64_t COORDINATES_PER_CHECK = UINT64_C(1) << 44;

/* ---- Points ---------------------------------------------------------------------------------- */

static bool is_packed(const adji_brute_side *s) {
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

static adj_status pack(adji_gpu *gpu, const adji_brute_side *s, uint64_t first, uint64_t count, void *to) {
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
static adj_status fetch_rows(adji_gpu_brute *b, const adji_brute_side *s, uint64_t first, uint64_t count, void *to) {
  if (s->given) return pack(b->gpu, s, first, count, to);
  adj_dataset some = *s->set;
  some.data += first * some.row_stride;
  some.count = count;
  adj_status status = adji_upload(b->gpu, &some, to, b->work); /* the points have arrived when it returns */
  if (status) adji_gpu_quiesce(b->gpu);                        /* on failure, wait for unfinished copies */
  return status;
}

/* Gets memory and waits: the compute stream allocates it, but copies run on another stream. */
static adj_status get_points(adji_gpu_brute *b, uint64_t bytes, adji_block *out) {
  adj_status status = adji_block_get(b->gpu, b->gpu->compute, bytes, "points", out);
  if (!status) ADJI_CUDA(b->gpu, cudaStreamSynchronize(b->gpu->compute));
  return status;
}

static void set_side(adji_brute_side *s, const adj_dataset *set, const adji_gpu_rows *rows) {
  s->set = set;
  s->given = rows != NULL;
  if (rows) s->rows = *rows;
  s->count = rows ? rows->count : set->count;
  s->row_bytes = set->dim * adji_type_size(set->type);
  s->at_once = s->count;
}

/* Copies all of a set, or fails with ADJ_E_DEVICE_MEMORY. */
static adj_status fetch_all(adji_gpu_brute *b, adji_brute_side *s) {
  if (is_packed(s)) return ADJ_OK;
  adj_status status = get_points(b, adji_mul(s->count, s->row_bytes), &s->points[0]);
  return status || !s->count ? status : fetch_rows(b, s, 0, s->count, s->points[0].at);
}

/* The address of row `first` on the device. */
static const void *points_of(const adji_brute_side *s, uint32_t buffer, uint64_t first) {
  const char *all = is_packed(s)             ? static_cast<const char *>(s->rows.data)
                    : adji_brute_is_whole(s) ? static_cast<const char *>(s->points[0].at)
                                             : NULL;
  return all ? all + first * s->row_bytes : s->points[buffer].at;
}

/* Whether the queries are the right points that are in device memory. */
static bool is_shared(const adji_gpu_brute *b) {
  return b->join.self_join && (adji_brute_is_whole(&b->right) || is_packed(&b->right));
}

/* ---- Opening --------------------------------------------------------------------------------- */

/* Gets two buffers for chunks of the right set: as large as requested, or smaller if there is too little memory. */
static adj_status get_buffers(adji_gpu_brute *b) {
  adji_brute_side *s = &b->right;
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
  adji_brute_side *s = &b->right;
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
  adji_brute_side *s = &b->left;
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
  return adji_brute_is_whole(&b->right) ? 0 : b->right.at_once;
}

/* Rows that stay on the device are found in one step. Other rows take up to half of the remaining memory, since a small
 * matrix is slow. A step should also not take longer than the time between two checks for adj_cancel, with two
 * exceptions: if every step copies all right points to the device again, and if tiles can be skipped. In the second
 * case neighbouring queries share the tiles they scan, and a part of the rows has fewer neighbouring queries; batches
 * check for adj_cancel too. */
uint64_t adji_gpu_brute_most_rows(const adji_gpu_brute *b) {
  uint64_t most = b->left.at_once, pairs = b->right.count * b->join.right->dim + 1;
  if (b->left.given) return most;
  uint64_t row = adji_mul(b->join.k, 4 + adji_type_size(b->join.left->type));
  most = adji_brute_rows_that_fit(most, row, adji_gpu_available(b->gpu) / 2);
  if (!adji_brute_is_whole(&b->right) || most <= LEAST_ROWS || adji_brute_may_skip(b, most)) return most;
  uint64_t rows = COORDINATES_PER_CHECK / pairs > LEAST_ROWS ? COORDINATES_PER_CHECK / pairs : LEAST_ROWS;
  return rows < most ? rows : most;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Finds or copies the points of the queries. */
static adj_status find_left(adji_gpu_brute *b, adji_brute_job *job) {
  adji_brute_side *s = is_shared(b) ? &b->right : &b->left;
  if (is_packed(s) || adji_brute_is_whole(s)) {
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
  adji_brute_side *s = &b->right;
  if (is_packed(s)) return ADJ_OK;
  if (!s->given)
    ADJI_CUDA(b->gpu, cudaEventSynchronize(b->used[buffer])); /* wait for the comparisons with its previous contents */
  return fetch_rows(b, s, first, count, s->points[buffer].at);
}

/* Finds the lists of one chunk, as sums. */
static adj_status search_chunk(adji_gpu_brute *b, adji_brute_job *job, uint64_t first, const adji_brute_lists &to) {
  adji_brute_side *s = &b->right;
  uint32_t buffer = static_cast<uint32_t>(first / s->at_once % BUFFERS);
  job->right_first = first;
  job->right_count = s->count - first < s->at_once ? s->count - first : s->at_once;
  job->ids = to.ids;
  job->distances = to.sums;
  adj_status status = adji_check_cancel(b->join.ctx);
  if (!status) status = fetch_chunk(b, buffer, first, job->right_count);
  job->right = points_of(s, buffer, first);
  if (!status) status = adji_brute_run(b, job);
  if (!status) ADJI_CUDA(b->gpu, cudaEventRecord(b->used[buffer], b->gpu->compute));
  return status;
}

/* Searches chunk by chunk. The best neighbours so far are in the table itself or in other memory. */
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
  if (adji_brute_is_whole(&b->right)) {
    job->right = points_of(&b->right, 0, 0);
    job->right_count = b->right.count;
    return adji_brute_run(b, job);
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
  if (!adji_brute_is_whole(&b->left)) adji_block_free(b->gpu, b->gpu->compute, &b->left.points[0]);
  if (status || b->measure.report == ADJI_REPORT_ROOT) return status;
  return adji_gpu_report(b->gpu, b->gpu->compute, &b->measure, job.type, rows * job.k, distances);
}
