/* SPDX-License-Identifier: MIT
 *
 * Rows of a range join on a device: slots are filled with the rows of a window, sorted, and copied. A slot is copied on
 * another stream. Events make sure that it is filled before it is copied, and copied before it is filled again.
 */
#include "gpu/range/range_private.cuh"
#include "gpu/shared/arrays.cuh"
#include "gpu/shared/report.cuh"
#include "gpu/shared/row_sort.cuh"

extern "C" {
#include "gpu/device/staging.h"
}

/* ---- Slots ---------------------------------------------------------------------------------------------------- */

adj_status adji_range_make_events(adji_gpu_range *r, adji_range_slot *s) {
  if (!s->filled) ADJI_CUDA(r->gpu, cudaEventCreateWithFlags(&s->filled, cudaEventDisableTiming));
  if (!s->copied) ADJI_CUDA(r->gpu, cudaEventCreateWithFlags(&s->copied, cudaEventDisableTiming));
  return ADJ_OK;
}

static void free_blocks(adji_gpu_range *r) {
  for (uint32_t i = 0; i < r->slot_count; i++)
    adji_blocks_free(r->gpu, {&r->slots[i].ids, &r->slots[i].sums});
  r->slot_count = 0;
}

void adji_range_free_slots(adji_gpu_range *r) {
  free_blocks(r);
  for (adji_range_slot &s : r->slots) {
    if (s.filled) cudaEventDestroy(s.filled);
    if (s.copied) cudaEventDestroy(s.copied);
  }
}

static adj_status make_slot(adji_gpu_range *r, adji_range_slot *s, uint64_t pairs) {
  adj_status status = adji_block_get(r->gpu, r->gpu->compute, pairs * 4, "batch of the result", &s->ids);
  uint64_t size = adji_type_size(r->join.left->type);
  if (!status && adji_range_wants_sums(r))
    status = adji_block_get(r->gpu, r->gpu->compute, pairs * size, "batch of the result", &s->sums);
  return status ? status : adji_range_make_events(r, s);
}

/* Makes room for the queries of a window, if there are several windows. */
static adj_status make_room_for_queries(adji_gpu_range *r) {
  if (r->queries.at) return ADJ_OK;
  return adji_block_get(r->gpu, r->gpu->compute, r->rows * 4, "queries of a batch", &r->queries);
}

adj_status adji_gpu_range_slots(adji_gpu_range *r, uint32_t count, uint64_t pairs) {
  if (r->slot_count == count && r->slot_pairs == pairs) return ADJ_OK;
  if (r->slot_count) ADJI_CUDA(r->gpu, cudaStreamSynchronize(r->gpu->copy));
  free_blocks(r);
  adj_status status = ADJ_OK;
  if (!adji_range_has_entries(r) && pairs < r->counted.pairs) status = make_room_for_queries(r);
  for (uint32_t i = 0; i < count && !status; i++) {
    r->slot_count = i + 1;
    status = make_slot(r, &r->slots[i], pairs);
  }
  r->slot_pairs = pairs;
  if (status) free_blocks(r);
  return status;
}

/* ---- Filling -------------------------------------------------------------------------------------------------- */

/* Selects the queries whose rows are in the window, by position. If the queries are ordered by work, so are these. */
static adj_status select_queries(adji_gpu_range *r, const adji_gpu_window *window, adji_tiles_job *job) {
  job->first_row = window->first_row;
  job->end_row = window->end_row;
  if (adji_access_mirrors(r->points.options.access)) return ADJ_OK; /* other queries also find entries of these rows */
  job->query_count = window->end_row - window->first_row;
  if (job->query_count == r->rows) return ADJ_OK;
  adj_status status = make_room_for_queries(r);
  if (status) return status;
  uint32_t *queries = adji_at<uint32_t>(r->queries);
  adji_wanted_rows wanted = {r->left->ids, window->first_row, window->end_row};
  job->queries = queries;
  return adji_list_wanted(r->gpu, &r->temporary, adji_at<uint32_t>(r->points.order), r->rows, wanted, queries);
}

static adj_status place_cached(adji_gpu_range *r, const adji_gpu_window *window, const adji_range_slot *s) {
  adji_count_cache_place place = {adji_at<uint64_t>(r->offsets), *window, adji_at<uint32_t>(s->ids), s->sums.at,
                                  r->join.style.one_way || !r->mirrored};
  return adji_count_cache_put(r->gpu, &r->cache, &place);
}

/* Queries without hits are compared again. */
static adj_status fill_from_query_hits(adji_gpu_range *r, adji_tiles_job *job) {
  adj_status status = adji_tiles_fill_query_hits(r->gpu, r->gpu->compute, job);
  job->queries = job->without_hits;
  job->query_count = r->cache.count;
  return status || !job->query_count ? status : adji_range_compare(r, job);
}

static adj_status evaluate_again(adji_gpu_range *r, const adji_gpu_window *window, const adji_range_slot *s) {
  adji_tiles_job job = adji_range_job(r);
  job.offsets = adji_at<uint64_t>(r->offsets);
  job.base = window->base;
  job.short_rows = r->counted.pairs <= r->rows * 16;
  job.long_rows = r->counted.pairs >= r->rows * 64;
  job.ids = adji_at<uint32_t>(s->ids);
  job.sums = s->sums.at;
  adj_status status = select_queries(r, window, &job);
  bool whole = job.query_count == r->rows;
  if (status || !whole) return status ? status : adji_range_compare(r, &job);
  adji_count_cache_use(&r->cache, r->left->count, &job);
  return job.query_hits && !job.long_rows ? fill_from_query_hits(r, &job) : adji_range_compare(r, &job);
}

static adj_status sort_slot(adji_gpu_range *r, const adji_gpu_window *window, const adji_range_slot *s) {
  if (r->join.style.order == ADJ_ORDER_ANY) return ADJ_OK;
  adji_row_sort_job job = {};
  job.type = r->join.left->type;
  job.order = r->join.style.order;
  job.offsets = adji_at<uint64_t>(r->offsets);
  job.first_row = window->first_row;
  job.end_row = window->end_row;
  job.base = window->base;
  job.pairs = window->pairs;
  job.longest = r->counted.longest;
  job.ids = adji_at<uint32_t>(s->ids);
  job.sums = s->sums.at;
  return adji_row_sort(r->gpu, r->gpu->compute, &job);
}

adj_status adji_gpu_range_fill(adji_gpu_range *r, const adji_gpu_window *window, uint32_t number) {
  adji_range_slot *s = &r->slots[number];
  ADJI_CUDA(r->gpu, cudaStreamWaitEvent(r->gpu->compute, s->copied, 0));
  adj_status status = adji_range_start_watch(r);
  if (!status) status = adji_range_has_entries(r) ? place_cached(r, window, s) : evaluate_again(r, window, s);
  if (!status) status = adji_gpu_mark(r->gpu, ADJI_MARK_FILLED);
  if (!status) status = sort_slot(r, window, s);
  if (!status) status = adji_gpu_mark(r->gpu, ADJI_MARK_SORTED);
  if (!status) status = adji_range_stop_watch(r);
  if (status) return status;
  ADJI_CUDA(r->gpu, cudaEventRecord(s->filled, r->gpu->compute));
  return ADJ_OK;
}

adj_status adji_gpu_range_take(adji_gpu_range *r, uint32_t number, adji_gpu_csr *out) {
  adji_range_slot *s = &r->slots[number];
  if (r->join.style.distances) {
    adj_status status =
        adji_gpu_report(r->gpu, r->gpu->compute, &r->measure, r->join.left->type, r->counted.pairs, s->sums.at);
    if (status) return status;
  } else {
    adji_block_free(r->gpu, r->gpu->compute, &s->sums);
  }
  *out = adji_gpu_csr{r->gpu,
                      r->rows,
                      r->counted.pairs,
                      adji_at<uint64_t>(r->offsets),
                      adji_at<uint32_t>(s->ids),
                      s->sums.at,
                      {r->offsets.bytes, s->ids.bytes, s->sums.bytes}};
  r->offsets = s->ids = s->sums = adji_block{};
  return ADJ_OK;
}

adj_status adji_gpu_range_fetch(adji_gpu_range *r, uint32_t number, adji_gpu_part part, uint64_t first,
                                uint64_t entries, uint32_t buffer) {
  const adji_range_slot *s = &r->slots[number];
  uint64_t size = part == ADJI_PART_IDS ? 4 : adji_type_size(r->join.left->type);
  const char *from = adji_at<char>(part == ADJI_PART_IDS ? s->ids : s->sums) + first * size;
  ADJI_CUDA(r->gpu, cudaStreamWaitEvent(r->gpu->copy, s->filled, 0)); /* needed by whichever part is fetched first */
  return adji_staging_receive(r->gpu, buffer, 0, from, entries * size);
}

adj_status adji_gpu_range_release(adji_gpu_range *r, uint32_t number) {
  ADJI_CUDA(r->gpu, cudaEventRecord(r->slots[number].copied, r->gpu->copy));
  return ADJ_OK;
}

bool adji_gpu_range_forget(adji_gpu_range *r) {
  bool some = r->cache.form != ADJI_CACHE_NONE;
  adji_count_cache_free(r->gpu, &r->cache);
  return some;
}

bool adji_gpu_range_forget_whole(adji_gpu_range *r) {
  return (r->cache.form == ADJI_CACHE_TILE_HITS || r->cache.form == ADJI_CACHE_QUERY_HITS) && adji_gpu_range_forget(r);
}

void adji_gpu_range_end_fills(adji_gpu_range *r) {
  adji_gpu_range_forget(r);
  free_blocks(r);
}

adj_status adji_gpu_range_check(adji_gpu_range *r) {
  if (adji_range_has_entries(r)) return ADJ_OK; /* rows consist of the entries that were counted */
  adj_status status = adji_answers_fetch(r->gpu, r->gpu->compute);
  uint64_t broken = adji_answer_totals(r->gpu).broken;
  if (!status && broken)
    status = adji_fail(ADJ_E_INTERNAL, "device %d: %llu rows are not as long as they were counted", r->gpu->device,
                       (unsigned long long)broken);
  return status;
}
