/* SPDX-License-Identifier: MIT
 *
 * Range joins on a device for lists of queries. A list is sorted into the order of the device, since the kernels need
 * queries that are neighbours. The papers' kernels may want the queries with the most work first, as the host has them.
 * The rows of a list are counted in place. When filling, they are written one after the other into a slot, together
 * with their numbers and where each begins.
 *
 * The papers' kernels run on several streams: each slot has a stream, the queries of its list, and answers of its own.
 * The preparation of a list runs on the compute stream, after that of the list before, while kernels of other lists
 * run.
 *
 * Memory: 4 bytes per left point while there is a host's order, and 16 more while rows are filled. Per query of a list
 * 8 bytes, once or, with several streams, in each slot. Each of the four slots also has 8 bytes per query when
 * counting, or 12 bytes per query and the entries when filling.
 */
#include <cstdlib>

#include "gpu/index/list_order.cuh"
#include "gpu/range/range_private.cuh"
#include "gpu/shared/arrays.cuh"
#include "gpu/shared/row_sort.cuh"

extern "C" {
#include "gpu/device/staging.h"
#include "gpu/range/range_list.h"
}

enum { THREADS = 256, LEAST_QUERIES = 1024 };

typedef struct list_slot {
  adji_block ranges;    /* ranges of the host's order, and where each begins in the list */
  adji_block rows;      /* numbers of the rows */
  adji_block counts;    /* counting: one per row */
  adji_block offsets;   /* filling: where each row begins, and where the last one ends */
  adji_block ids, sums; /* its entries */
  uint64_t count, pairs;
  cudaEvent_t done;
  /* Used with several streams. */
  cudaStream_t stream;
  cudaEvent_t compared;
  adji_block queries[2], answers;
} list_slot;

struct adji_gpu_lists {
  adji_gpu *gpu;
  adji_gpu_range *range;
  adji_block order;      /* the device's position of the host's i-th query; empty: they are the same */
  adji_block queries[2]; /* of a list: unsorted, sorted */
  adji_block bounds;     /* filling: where each row of a list begins and ends in its slot */
  adji_block temporary;  /* of CUB */
  bool fills, single;    /* the current pass */
  bool streams;          /* the papers' kernels run on several streams */
  uint64_t first_row, end_row, longest;
  adji_totals totals; /* of all lists of the pass */
  list_slot slots[ADJI_LISTS];
};

adj_status adji_gpu_lists_open(adji_gpu_range *range, adji_gpu_lists **out) {
  adji_gpu_lists *l = static_cast<adji_gpu_lists *>(calloc(1, sizeof *l));
  if (!l) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  l->range = range;
  l->gpu = range->gpu;
  *out = l;
  return ADJ_OK;
}

void adji_gpu_lists_close(adji_gpu_lists *l) {
  if (!l) return;
  adji_gpu_lists_end(l);
  adji_block_free(l->gpu, l->gpu->compute, &l->order);
  free(l);
}

adj_status adji_gpu_lists_follow(adji_gpu_lists *l, const uint32_t *rows) {
  adji_block_free(l->gpu, l->gpu->compute, &l->order);
  if (!rows || !l->range->rows) return ADJ_OK;
  return adji_order_make(l->gpu, l->range->left->ids, rows, l->range->rows, &l->order, &l->range->work);
}

adj_status adji_gpu_lists_order(adji_gpu_lists *l, uint32_t *rows) {
  if (!l->range->rows) return ADJ_OK;
  adj_status status = adji_gpu_wait(l->gpu); /* copies have a stream of their own */
  if (status) return status;
  return adji_download(l->gpu, l->range->left->ids, l->range->rows * sizeof *rows, rows, &l->range->work);
}

/* ---- Room ------------------------------------------------------------------------------------------- */

static adj_status make_stream(adji_gpu_lists *l, uint64_t queries, list_slot *slot) {
  adji_gpu *gpu = l->gpu;
  adj_status status = adji_block_get(gpu, gpu->compute, ADJI_ANSWERS * 8, "list of queries", &slot->answers);
  for (int i = 0; i < 2 && !status; i++)
    status = adji_block_get(gpu, gpu->compute, queries * 4, "queries", &slot->queries[i]);
  if (status) return status;
  ADJI_CUDA(gpu, cudaStreamCreateWithFlags(&slot->stream, cudaStreamNonBlocking));
  ADJI_CUDA(gpu, cudaEventCreateWithFlags(&slot->compared, cudaEventDisableTiming));
  return ADJ_OK;
}

static adj_status make_slot(adji_gpu_lists *l, const adji_lists_request *request, list_slot *slot) {
  adji_gpu *gpu = l->gpu;
  const char *rows = "list of queries", *entries = "batch of the result";
  uint64_t size = adji_type_size(l->range->join.left->type);
  adj_status status = adji_order_make_ranges(gpu, &slot->ranges);
  if (!status) status = adji_block_get(gpu, gpu->compute, request->queries * 4, rows, &slot->rows);
  if (!status && !l->fills && !l->single)
    status = adji_block_get(gpu, gpu->compute, request->queries * 4, rows, &slot->counts);
  if (!status && l->fills) status = adji_block_get(gpu, gpu->compute, (request->queries + 1) * 8, rows, &slot->offsets);
  if (!status && l->fills) status = adji_block_get(gpu, gpu->compute, request->pairs * 4, entries, &slot->ids);
  if (!status && l->fills && adji_range_wants_sums(l->range))
    status = adji_block_get(gpu, gpu->compute, adji_mul(request->pairs, size), entries, &slot->sums);
  if (!status && l->streams) status = make_stream(l, request->queries, slot);
  if (status) return status;
  /* With a blocking wait, the core can do other work. */
  ADJI_CUDA(gpu, cudaEventCreateWithFlags(&slot->done, cudaEventDisableTiming | cudaEventBlockingSync));
  return ADJ_OK;
}

static adj_status make_lists(adji_gpu_lists *l, const adji_lists_request *request) {
  adji_gpu *gpu = l->gpu;
  adj_status status = ADJ_OK;
  if (l->fills) status = adji_block_get(gpu, gpu->compute, l->range->rows * 16, "row offsets", &l->bounds);
  if (!status && l->fills && l->streams) status = adji_per_point_begin_lists(gpu, &l->range->points, l->range->rows);
  for (int i = 0; i < 2 && !status && !l->streams; i++)
    status = adji_block_get(gpu, gpu->compute, request->queries * 4, "queries", &l->queries[i]);
  for (int i = 0; i < ADJI_LISTS && !status; i++)
    status = make_slot(l, request, &l->slots[i]);
  if (status) adji_gpu_lists_end(l);
  return status;
}

static uint64_t half_of(uint64_t value, uint64_t least) {
  return value / 2 > least ? value / 2 : least < value ? least : value;
}

/* Copies the offsets from the host, which has counted some of the rows itself. */
static adj_status fetch_offsets(adji_gpu_lists *l, const adji_window *window) {
  ADJI_CUDA(l->gpu, cudaStreamSynchronize(l->gpu->compute)); /* the block may have another owner until then */
  uint64_t bytes = (window->end_row - window->first_row + 1) * sizeof *window->offsets;
  return adji_upload_bytes(l->gpu, window->offsets + window->first_row, bytes,
                           adji_at<uint64_t>(l->range->offsets) + window->first_row, &l->range->work);
}

static adj_status clear_counts(adji_gpu_lists *l) {
  if (l->single) return ADJ_OK; /* begin_count has cleared them */
  ADJI_CUDA(l->gpu, cudaMemsetAsync(adji_at<uint32_t>(l->range->degrees), 0, l->range->rows * 4, l->gpu->compute));
  return ADJ_OK;
}

adj_status adji_gpu_lists_begin(adji_gpu_lists *l, adji_lists_request *request) {
  const adji_window *window = request->window;
  l->fills = window;
  l->single = request->single;
  l->streams = adji_access_by_point(l->range->points.options.access);
  l->first_row = window ? window->first_row : 0;
  l->end_row = window ? window->end_row : l->range->rows;
  l->longest = request->longest;
  if (request->queries > l->range->rows) request->queries = l->range->rows;
  if (!request->queries) request->queries = 1;
  if (request->pairs < request->longest) request->pairs = request->longest;
  adj_status status = make_lists(l, request);
  while (status == ADJ_E_DEVICE_MEMORY && (request->queries > LEAST_QUERIES || request->pairs > request->longest)) {
    request->queries = half_of(request->queries, LEAST_QUERIES);
    request->pairs = half_of(request->pairs, request->longest);
    status = make_lists(l, request);
  }
  if (!status) status = adji_answer_clear(l->gpu, l->gpu->compute, ADJI_ANSWER_SPREAD, 5 * ADJI_SPREAD);
  if (!status) status = l->fills ? fetch_offsets(l, window) : clear_counts(l);
  if (!status) status = adji_gpu_wait(l->gpu); /* so that copies to the blocks can start at once */
  if (status) adji_gpu_lists_end(l);
  return status;
}

static void end_stream(adji_gpu_lists *l, list_slot *slot) {
  if (slot->stream) cudaStreamSynchronize(slot->stream); /* a failed run may have kernels in progress */
  adji_blocks_free(l->gpu, {&slot->queries[0], &slot->queries[1], &slot->answers});
  if (slot->compared) cudaEventDestroy(slot->compared);
  if (slot->stream) cudaStreamDestroy(slot->stream);
}

void adji_gpu_lists_end(adji_gpu_lists *l) {
  l->range->work.slots += l->totals.slots;
  if (l->totals.slots) l->range->work.compared += l->totals.candidates;
  l->totals = adji_totals{};
  adji_blocks_free(l->gpu, {&l->queries[0], &l->queries[1], &l->bounds, &l->temporary});
  for (list_slot &slot : l->slots)
    end_stream(l, &slot);
  for (list_slot &slot : l->slots) {
    adji_blocks_free(l->gpu, {&slot.ranges, &slot.rows, &slot.counts, &slot.offsets, &slot.ids, &slot.sums});
    if (slot.done) cudaEventDestroy(slot.done);
    slot = list_slot{};
  }
}

/* ---- The queries of a list --------------------------------------------------------------------------- */

/* lengths[i]: the length of rows[i]; a 0 follows the last one. offsets: of all rows. One thread per row, and one
 * more. */
static __global__ void find_lengths(const uint32_t *rows, uint64_t count, const uint64_t *offsets, uint64_t *lengths) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i == count) lengths[i] = 0;
  if (i < count) lengths[i] = offsets[rows[i] + UINT64_C(1)] - offsets[rows[i]];
}

/* Scatters where each row of a list begins and ends: bounds[rows[i]]. One thread per row. */
static __global__ void place_rows(const uint32_t *rows, const uint64_t *offsets, uint64_t count, ulonglong2 *bounds) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) bounds[rows[i]] = make_ulonglong2(offsets[i], offsets[i + 1]);
}

/* counts[i] = degrees[rows[i]]. One thread per row. */
static __global__ void gather_counts(const uint32_t *rows, uint64_t count, const uint32_t *degrees, uint32_t *counts) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) counts[i] = degrees[rows[i]];
}

/* ---- A list ----------------------------------------------------------------------------------------- */

/* The stream on which the kernel of a list runs, and the steps after it. */
static cudaStream_t stream_of(const adji_gpu_lists *l, const list_slot *slot) {
  return l->streams ? slot->stream : l->gpu->compute;
}

static adj_status compare_on_stream(adji_gpu_lists *l, const list_slot *slot, adji_tiles_job *job) {
  adji_gpu_range *r = l->range;
  job->answers = adji_at<unsigned long long>(slot->answers);
  job->spread_answers = job->answers + ADJI_ANSWER_SPREAD;
  adj_status status = adji_gpu_before(l->gpu, slot->stream);
  if (status) return status;
  if (r->timed) status = adji_stopwatch_start(l->gpu, slot->stream, &r->watch);
  if (!status) status = adji_per_point_list(l->gpu, slot->stream, &r->points, job);
  if (status || !r->timed) return status;
  return adji_stopwatch_stop(l->gpu, slot->stream, &r->watch);
}

static adj_status compare_list(adji_gpu_lists *l, const list_slot *slot, adji_tiles_job *job) {
  return l->streams ? compare_on_stream(l, slot, job) : adji_range_compare_timed(l->range, job);
}

static adj_status count_list(adji_gpu_lists *l, const list_slot *slot, adji_tiles_job *job) {
  job->degrees = adji_at<uint32_t>(l->range->degrees);
  adj_status status = compare_list(l, slot, job);
  if (status) return status;
  gather_counts<<<adji_blocks_for(slot->count, THREADS), THREADS, 0, stream_of(l, slot)>>>(
      adji_at<uint32_t>(slot->rows), slot->count, adji_at<uint32_t>(l->range->degrees),
      adji_at<uint32_t>(slot->counts));
  ADJI_LAUNCHED(l->gpu, "gather_counts");
  return ADJ_OK;
}

/* Finds the pairs of a list. A query and itself are not a pair. */
static adj_status pair_list(adji_gpu_lists *l, adji_tiles_job *job) {
  if (job->keep == ADJI_KEEP_ALL) job->keep = ADJI_KEEP_OTHERS;
  job->degrees = adji_at<uint32_t>(l->range->degrees);
  job->mirrored = l->range->mirrored;
  adji_count_cache_use(&l->range->cache, l->range->left->count, job);
  return adji_range_compare_timed(l->range, job);
}

static adj_status add_up(adji_gpu_lists *l, const list_slot *slot) {
  uint64_t *offsets = adji_at<uint64_t>(slot->offsets);
  find_lengths<<<adji_blocks_for(slot->count + 1, THREADS), THREADS, 0, l->gpu->compute>>>(
      adji_at<uint32_t>(slot->rows), slot->count, adji_at<uint64_t>(l->range->offsets), offsets);
  ADJI_LAUNCHED(l->gpu, "find_lengths");
  adj_status status = adji_add_up(l->gpu, &l->temporary, offsets, offsets, slot->count + 1);
  if (status) return status;
  place_rows<<<adji_blocks_for(slot->count, THREADS), THREADS, 0, l->gpu->compute>>>(
      adji_at<uint32_t>(slot->rows), offsets, slot->count, adji_at<ulonglong2>(l->bounds));
  ADJI_LAUNCHED(l->gpu, "place_rows");
  return ADJ_OK;
}

static adj_status sort_list(adji_gpu_lists *l, const list_slot *slot) {
  const adji_join *join = &l->range->join;
  if (join->style.order == ADJ_ORDER_ANY) return ADJ_OK;
  if (l->streams) { /* only one stream at a time can sort */
    ADJI_CUDA(l->gpu, cudaEventRecord(slot->compared, slot->stream));
    ADJI_CUDA(l->gpu, cudaStreamWaitEvent(l->gpu->compute, slot->compared, 0));
  }
  adji_row_sort_job job = {};
  job.type = join->left->type;
  job.order = join->style.order;
  job.offsets = adji_at<uint64_t>(slot->offsets);
  job.end_row = slot->count;
  job.pairs = slot->pairs;
  job.longest = l->longest;
  job.ids = adji_at<uint32_t>(slot->ids);
  job.sums = slot->sums.at;
  adj_status status = adji_row_sort(l->gpu, l->gpu->compute, &job);
  return status || !l->streams ? status : adji_gpu_before(l->gpu, slot->stream);
}

static adj_status fill_list(adji_gpu_lists *l, const list_slot *slot, adji_tiles_job *job) {
  adj_status status = add_up(l, slot);
  if (status || !slot->pairs) return status;
  job->offsets = adji_at<uint64_t>(l->bounds);
  job->apart = 1;
  job->short_rows = slot->pairs <= slot->count * 16;
  job->long_rows = slot->pairs >= slot->count * 64;
  job->ids = adji_at<uint32_t>(slot->ids);
  job->sums = slot->sums.at;
  status = compare_list(l, slot, job);
  return status ? status : sort_list(l, slot);
}

static adj_status do_list(adji_gpu_lists *l, uint64_t ranges, list_slot *slot) {
  uint32_t *queries = NULL;
  adji_order_list list = {&slot->ranges,  &l->order,
                          ranges,         {l->range->left->ids, l->first_row, l->end_row},
                          l->range->rows, l->streams ? slot->queries : l->queries,
                          &l->temporary,  l->range->points.options.order > ADJI_WORK_INDEX_ORDER};
  adj_status status = adji_order_queries(l->gpu, &list, &slot->count, &queries, adji_at<uint32_t>(slot->rows));
  if (status || !slot->count) return status;
  adji_tiles_job job = adji_range_job(l->range);
  job.queries = queries;
  job.query_count = slot->count;
  if (l->single) return pair_list(l, &job);
  return l->fills ? fill_list(l, slot, &job) : count_list(l, slot, &job);
}

adj_status adji_gpu_lists_list(adji_gpu_lists *l, const adji_list_ranges *list, uint32_t number, uint32_t buffer,
                               uint64_t *rows) {
  list_slot *slot = &l->slots[number];
  adj_status status = adji_order_send(l->gpu, list->ranges, list->count, &slot->ranges, buffer, &slot->count);
  slot->pairs = list->pairs;
  cudaStream_t stream = stream_of(l, slot);
  if (!status && l->streams) ADJI_CUDA(l->gpu, cudaMemsetAsync(slot->answers.at, 0, ADJI_ANSWERS * 8, stream));
  if (!status) status = do_list(l, list->count, slot);
  if (!status && l->streams) status = adji_gpu_before(l->gpu, stream);
  const void *answers = l->streams ? slot->answers.at : l->gpu->d_answers;
  if (!status) status = adji_answers_keep_from(l->gpu, stream, answers, number);
  if (status) return status;
  ADJI_CUDA(l->gpu, cudaEventRecord(slot->done, stream));
  *rows = slot->count;
  return ADJ_OK;
}

adj_status adji_gpu_lists_listed(adji_gpu_lists *l, uint32_t slot, adji_tally *found) {
  ADJI_CUDA(l->gpu, cudaEventSynchronize(l->slots[slot].done));
  adji_totals totals = adji_totals_kept(l->gpu, slot);
  if (totals.broken)
    return adji_fail(ADJ_E_INTERNAL, "device %d: %llu rows are not as long as they were counted", l->gpu->device,
                     static_cast<unsigned long long>(totals.broken));
  if (l->streams) { /* the totals of this list alone */
    totals.pairs += l->totals.pairs;
    totals.candidates += l->totals.candidates;
    totals.slots += l->totals.slots;
  }
  *found = adji_tally{totals.pairs, totals.candidates};
  l->totals = totals;
  return ADJ_OK;
}

/* ---- To the host ------------------------------------------------------------------------------------ */

adj_status adji_gpu_lists_fetch(adji_gpu_lists *l, uint32_t number, const adji_list_stretch *stretch, uint32_t buffer) {
  adji_gpu *gpu = l->gpu;
  const list_slot *slot = &l->slots[number];
  const adji_block *parts[] = {&slot->rows, &slot->counts, &slot->offsets, &slot->ids, &slot->sums};
  uint64_t sizes[] = {4, 4, 8, 4, adji_type_size(l->range->join.left->type)}, size = sizes[stretch->part];
  char *to = static_cast<char *>(adji_staging_at(gpu, buffer)) + stretch->to;
  const char *from = adji_at<char>(*parts[stretch->part]) + stretch->first * size;
  ADJI_CUDA(gpu, cudaMemcpyAsync(to, from, stretch->entries * size, cudaMemcpyDeviceToHost, gpu->copy));
  ADJI_CUDA(gpu, cudaEventRecord(gpu->staging[buffer].copied[0], gpu->copy));
  return ADJ_OK;
}
