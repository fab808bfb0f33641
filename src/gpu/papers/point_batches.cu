/* SPDX-License-Identifier: MIT
 *
 * Batches of the queries of a range join: see point_batches.h.
 *
 * A stream has a slot: room for entries as they are found, as much again for sorting them, and answers of its own. The
 * number of entries is known when the kernel is done. The host waits for that and starts the sort, while the kernels of
 * other streams run. Entries are sorted by row with CUB. With sums, the numbers of the entries are sorted instead, and
 * ids and sums are gathered in that order.
 *
 * Memory: 16 bytes per entry and stream; with sums 12 more, and twice the size of a sum.
 */
#include <cstdlib>

#include "gpu/range/range_private.cuh"
#include "gpu/shared/arrays.cuh"

extern "C" {
#include "gpu/device/staging.h"
#include "gpu/papers/point_batches.h"
}

enum { THREADS = 256 };

typedef struct batch_slot {
  cudaStream_t stream;
  cudaEvent_t found, sorted;
  adji_block rows[2];   /* as found, and for the sort */
  adji_block ids[2];    /* the same; with sums: as found, and gathered in order */
  adji_block sums[2];   /* the same as ids; empty if no sums are wanted */
  adji_block places[2]; /* with sums: numbers of entries, for the sort */
  adji_block answers, temporary;
  uint64_t *host_answers; /* pinned */
  const void *parts[3];   /* the sorted entries, by adji_batch_part */
} batch_slot;

struct adji_gpu_batches {
  adji_gpu *gpu;
  adji_gpu_range *range;
  adji_block wanted;       /* the queries of the wanted rows, if not all rows are wanted */
  const uint32_t *queries; /* NULL: positions */
  uint64_t room, first_row, end_row;
  uint32_t row_bits; /* bits in which row numbers may differ */
  uint32_t slot_count;
  batch_slot slots[ADJI_MOST_STREAMS];
};

/* ---- Room ----------------------------------------------------------------------------------------------- */

static adj_status make_slot(adji_gpu_batches *b, batch_slot *s) {
  adji_gpu *gpu = b->gpu;
  const char *what = "batch of the result";
  uint64_t size = adji_range_wants_sums(b->range) ? adji_type_size(b->range->join.left->type) : 0;
  adj_status status = ADJ_OK;
  for (int i = 0; i < 2 && !status; i++) {
    status = adji_block_get(gpu, gpu->compute, b->room * 4, what, &s->rows[i]);
    if (!status) status = adji_block_get(gpu, gpu->compute, b->room * 4, what, &s->ids[i]);
    if (!status && size) status = adji_block_get(gpu, gpu->compute, b->room * size, what, &s->sums[i]);
    if (!status && size) status = adji_block_get(gpu, gpu->compute, b->room * 4, what, &s->places[i]);
  }
  if (!status) status = adji_block_get(gpu, gpu->compute, ADJI_ANSWERS * 8, what, &s->answers);
  if (status) return status;
  ADJI_CUDA(gpu, cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking));
  ADJI_CUDA(gpu, cudaEventCreateWithFlags(&s->found, cudaEventDisableTiming | cudaEventBlockingSync));
  ADJI_CUDA(gpu, cudaEventCreateWithFlags(&s->sorted, cudaEventDisableTiming));
  ADJI_CUDA(gpu, cudaHostAlloc(&s->host_answers, ADJI_ANSWERS * 8, cudaHostAllocDefault));
  return adji_gpu_before(gpu, s->stream); /* so that index, order and blocks are ready before its first kernel */
}

static void free_slot(adji_gpu_batches *b, batch_slot *s) {
  if (s->stream) cudaStreamSynchronize(s->stream);
  if (s->stream) adji_block_free(b->gpu, s->stream, &s->temporary);
  adji_blocks_free(b->gpu, {&s->rows[0], &s->rows[1], &s->ids[0], &s->ids[1], &s->sums[0], &s->sums[1], &s->places[0],
                            &s->places[1], &s->answers});
  if (s->host_answers) cudaFreeHost(s->host_answers);
  if (s->found) cudaEventDestroy(s->found);
  if (s->sorted) cudaEventDestroy(s->sorted);
  if (s->stream) cudaStreamDestroy(s->stream);
}

void adji_gpu_batches_close(adji_gpu_batches *b) {
  if (!b) return;
  cudaStreamSynchronize(b->gpu->copy); /* a failed run may have copies in progress */
  for (uint32_t i = 0; i < b->slot_count; i++)
    free_slot(b, &b->slots[i]);
  adji_block_free(b->gpu, b->gpu->compute, &b->wanted);
  cudaGetLastError();
  free(b);
}

/* Selects the queries, most work first if the join has that order. If each query finds only its own row, queries of
 * rows that are not wanted are left out. */
static adj_status select_queries(adji_gpu_batches *b, uint64_t *count) {
  adji_gpu_range *r = b->range;
  b->queries = adji_at<uint32_t>(r->points.order);
  *count = r->rows;
  if (adji_access_mirrors(r->points.options.access) || b->end_row - b->first_row == r->rows) return ADJ_OK;
  *count = b->end_row - b->first_row;
  adj_status status = adji_block_get(b->gpu, b->gpu->compute, r->rows * 4, "queries of a batch", &b->wanted);
  if (status) return status;
  adji_wanted_rows wanted = {r->left->ids, b->first_row, b->end_row};
  status = adji_list_wanted(b->gpu, &r->temporary, b->queries, r->rows, wanted, adji_at<uint32_t>(b->wanted));
  b->queries = adji_at<uint32_t>(b->wanted);
  return status;
}

adj_status adji_gpu_batches_open(adji_gpu_range *range, const adji_batches_request *request, uint64_t *queries,
                                 adji_gpu_batches **out) {
  adji_gpu_batches *b = static_cast<adji_gpu_batches *>(calloc(1, sizeof *b));
  if (!b) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  b->gpu = range->gpu;
  b->range = range;
  b->room = request->pairs;
  b->first_row = request->first_row;
  b->end_row = request->end_row;
  while (b->row_bits < 32 && range->rows >> b->row_bits)
    b->row_bits++;
  adj_status status = select_queries(b, queries);
  for (uint32_t i = 0; i < request->streams && !status; i++) {
    b->slot_count = i + 1;
    status = make_slot(b, &b->slots[i]);
  }
  if (status)
    adji_gpu_batches_close(b);
  else
    *out = b;
  return status;
}

/* ---- A batch -------------------------------------------------------------------------------------------- */

static adj_status start_watch(adji_gpu_batches *b, const batch_slot *s) {
  return b->range->timed ? adji_stopwatch_start(b->gpu, s->stream, &b->range->watch) : ADJ_OK;
}
static adj_status stop_watch(adji_gpu_batches *b, const batch_slot *s) {
  return b->range->timed ? adji_stopwatch_stop(b->gpu, s->stream, &b->range->watch) : ADJ_OK;
}

static adj_status run_kernel(adji_gpu_batches *b, const batch_slot *s, const adji_batch_queries *queries) {
  adji_tiles_job job = adji_range_job(b->range);
  job.queries = b->queries;
  job.first_row = b->first_row;
  job.end_row = b->end_row;
  job.sums = s->sums[0].at;
  adji_point_batch batch = {queries->first,
                            queries->step,
                            queries->count,
                            adji_at<uint32_t>(s->rows[0]),
                            adji_at<uint32_t>(s->ids[0]),
                            b->room,
                            adji_at<unsigned long long>(s->answers)};
  return adji_per_point_batch(b->gpu, s->stream, &b->range->points, &job, &batch);
}

adj_status adji_gpu_batches_start(adji_gpu_batches *b, uint32_t number, const adji_batch_queries *queries) {
  batch_slot *s = &b->slots[number];
  adj_status status = start_watch(b, s);
  if (status) return status;
  ADJI_CUDA(b->gpu, cudaMemsetAsync(s->answers.at, 0, ADJI_ANSWERS * 8, s->stream));
  status = run_kernel(b, s, queries);
  if (!status) status = stop_watch(b, s);
  if (status) return status;
  ADJI_CUDA(b->gpu,
            cudaMemcpyAsync(s->host_answers, s->answers.at, ADJI_ANSWERS * 8, cudaMemcpyDeviceToHost, s->stream));
  ADJI_CUDA(b->gpu, cudaEventRecord(s->found, s->stream));
  return ADJ_OK;
}

/* places[i] = i. One thread per entry. */
static __global__ void number_entries(uint32_t *places, uint64_t count) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) places[i] = static_cast<uint32_t>(i);
}

/* Gathers ids and sums in the order of places. One thread per entry; all arrays in device memory. */
template <class T>
static __global__ void gather_entries(const uint32_t *places, uint64_t count, const uint32_t *ids, const T *sums,
                                      uint32_t *to_ids, T *to_sums) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= count) return;
  uint32_t from = places[i];
  to_ids[i] = ids[from];
  to_sums[i] = sums[from];
}

template <class T>
static adj_status gather(adji_gpu_batches *b, batch_slot *s, const uint32_t *places, uint64_t count) {
  gather_entries<<<adji_blocks_for(count, THREADS), THREADS, 0, s->stream>>>(
      places, count, adji_at<uint32_t>(s->ids[0]), adji_at<T>(s->sums[0]), adji_at<uint32_t>(s->ids[1]),
      adji_at<T>(s->sums[1]));
  ADJI_LAUNCHED(b->gpu, "gather_entries");
  return ADJ_OK;
}

/* Sorts by row. The ids of a row stay in the order in which they were found, as in the papers. */
static adj_status sort_entries(adji_gpu_batches *b, batch_slot *s, uint64_t count) {
  bool sums = s->sums[0].at;
  adji_block *values = sums ? s->places : s->ids;
  adji_pairs<uint32_t> pairs = {adji_at<uint32_t>(s->rows[0]), adji_at<uint32_t>(s->rows[1]),
                                adji_at<uint32_t>(values[0]), adji_at<uint32_t>(values[1])};
  if (sums) {
    number_entries<<<adji_blocks_for(count, THREADS), THREADS, 0, s->stream>>>(pairs.values, count);
    ADJI_LAUNCHED(b->gpu, "number_entries");
  }
  adj_status status = adji_sort_pairs(b->gpu, s->stream, &s->temporary, &pairs, count, b->row_bits);
  s->parts[ADJI_BATCH_ROWS] = pairs.keys;
  s->parts[ADJI_BATCH_IDS] = sums ? adji_at<uint32_t>(s->ids[1]) : pairs.values;
  s->parts[ADJI_BATCH_SUMS] = s->sums[1].at;
  if (status || !sums) return status;
  return b->range->join.left->type == ADJ_F64 ? gather<double>(b, s, pairs.values, count)
                                              : gather<float>(b, s, pairs.values, count);
}

adj_status adji_gpu_batches_found(adji_gpu_batches *b, uint32_t number, adji_batch_found *out) {
  batch_slot *s = &b->slots[number];
  ADJI_CUDA(b->gpu, cudaEventSynchronize(s->found));
  adji_totals totals = adji_totals_of(s->host_answers);
  *out = adji_batch_found{s->host_answers[ADJI_ANSWER_CACHE], totals.candidates, totals.slots};
  if (!out->entries || out->entries > b->room) return ADJ_OK;
  adj_status status = start_watch(b, s);
  if (!status) status = sort_entries(b, s, out->entries);
  if (!status) status = stop_watch(b, s);
  if (status) return status;
  ADJI_CUDA(b->gpu, cudaEventRecord(s->sorted, s->stream));
  return ADJ_OK;
}

adj_status adji_gpu_batches_fetch(adji_gpu_batches *b, uint32_t number, adji_batch_part part, uint64_t first,
                                  uint64_t entries, uint32_t buffer, uint64_t to) {
  const batch_slot *s = &b->slots[number];
  uint64_t size = part == ADJI_BATCH_SUMS ? adji_type_size(b->range->join.left->type) : 4;
  ADJI_CUDA(b->gpu, cudaStreamWaitEvent(b->gpu->copy, s->sorted, 0));
  return adji_staging_receive(b->gpu, buffer, to, static_cast<const char *>(s->parts[part]) + first * size,
                              entries * size);
}
