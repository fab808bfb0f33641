/* SPDX-License-Identifier: MIT
 *
 * A GPU that takes part in a range join of the cores: the worker of gpu/hybrid/range_worker.h on a real device.
 */
#include "gpu/hybrid/range_partner.h"

#ifdef ADJI_HAVE_CUDA

#include <stdlib.h>
#include <string.h>

#include "gpu/device/staging.h"
#include "gpu/hybrid/knn_partner.h"
#include "gpu/hybrid/range_worker.h"

/* What a list has at most, unless the options say otherwise. */
static const uint64_t LIST_QUERIES = (uint64_t)1 << 22, LIST_BYTES = (uint64_t)512 << 20;

typedef struct partner {
  uint32_t number;
  adji_gpu *gpu;
  adji_gpu_range *range;
  adji_gpu_lists *lists;
  adji_join join;
  adji_gpu_engine_options options; /* its pointers are not used, but by the one who is alone */
  adji_rows_device device;
  adji_range_worker worker;
  adji_shared_work work;  /* of the pass                          */
  adj_status drained;     /* how it went                          */
  adji_gpu_counted found; /* of a pass of work that is done once */
  bool has_all;           /* of such a pass: what cores found, too */
  adji_device_stats told; /* of what the device did, until now    */
} partner;

/* ---- What the worker asks for ----------------------------------------------------------------------------- */

static adj_status ask_list(void *state, const adji_list_ranges *list, uint32_t slot, uint64_t *rows) {
  partner *p = state;
  return adji_gpu_lists_list(p->lists, list, slot, p->join.ctx->threads, rows);
}
static adj_status ask_listed(void *state, uint32_t slot, adji_tally *found) {
  return adji_gpu_lists_listed(((partner *)state)->lists, slot, found);
}
static adj_status ask_fetch(void *state, uint32_t slot, const adji_list_stretch *stretch, uint32_t lane) {
  partner *p = state;
  return adji_gpu_lists_fetch(p->lists, slot, stretch, adji_staging_of(p->join.ctx, lane));
}
static adj_status ask_wait(void *state, uint32_t lane) {
  partner *p = state;
  return adji_staging_wait(p->gpu, adji_staging_of(p->join.ctx, lane));
}
static void *ask_buffer(void *state, uint32_t lane) {
  partner *p = state;
  return adji_staging_at(p->gpu, adji_staging_of(p->join.ctx, lane));
}
static void ask_settle(void *state) {
  adji_gpu_quiesce(((partner *)state)->gpu);
}

/* ---- Passes --------------------------------------------------------------------------------------------- */

static uint64_t entry_bytes(const partner *p) {
  return 4 + (adji_row_needs_sums(&p->join.style) ? adji_type_size(p->join.left->type) : 0);
}

static adji_lists_request request_of(const partner *p, uint64_t queries) {
  const adji_shared_work *work = &p->work;
  uint64_t bytes = p->options.batch_bytes ? p->options.batch_bytes : LIST_BYTES;
  adji_lists_request request = {work->window, work->once, work->longest, queries, bytes / entry_bytes(p) + 1};
  if (work->window) {
    uint64_t all = work->window->offsets[work->window->end_row] - work->window->offsets[work->window->first_row];
    if (request.pairs > all) request.pairs = all;
  }
  return request;
}

static adj_status open_lists(partner *p, uint64_t queries) {
  adji_lists_request request = request_of(p, queries);
  adj_status status = adji_staging_open(p->gpu, p->join.ctx->threads + 1);
  if (!status && p->work.once) status = adji_gpu_range_begin_count(p->range, p->work.keep);
  if (!status) status = adji_gpu_lists_begin(p->lists, &request);
  p->worker.list_queries = request.queries;
  p->worker.list_pairs = request.pairs;
  return status;
}

static adj_status begin_pass(void *state, const adji_shared_work *work) {
  partner *p = state;
  p->work = *work;
  p->drained = ADJ_OK;
  p->has_all = false;
  adj_status status = adji_range_worker_begin(&p->worker);
  if (status) return status;
  adji_gpu_lock(p->gpu); /* until the pass is over: whoever has the team must not wait for the device */
  status = open_lists(p, LIST_QUERIES);
  if (!status) return ADJ_OK;
  adji_gpu_quiesce(p->gpu);
  adji_gpu_range_end_fills(p->range);
  adji_gpu_unlock(p->gpu);
  adji_range_worker_end(&p->worker, &(adji_device_stats){0});
  return status;
}

static adj_status drain(void *state, adji_help *help) {
  partner *p = state;
  adji_gpu_use(p->gpu);
  p->drained = adji_range_worker_drain(&p->worker, help);
  return p->drained;
}

/* ---- Pairs that were found once ------------------------------------------------------------------------- */

/* What cores found, on its way to the device. */
typedef struct sending {
  partner *partner;
  const adji_found *found;
  const uint64_t *firsts; /* the number of each list's first pair */
  adji_gpu_more to;
  uint64_t room; /* pairs that a buffer holds */
} sending;

/* Pairs in a lane's buffer, and their sums behind all of them. */
typedef struct bundle {
  const sending *sending;
  uint32_t lane;
  uint64_t first, count; /* the first has this number */
  uint32_t *pairs, *sums;
} bundle;

static adj_status send_bundle(bundle *b) {
  const sending *s = b->sending;
  adji_gpu *gpu = s->partner->gpu;
  uint64_t size = 4 * (uint64_t)s->found->sum_words;
  if (!b->count) return ADJ_OK;
  adj_status status = adji_staging_send(gpu, b->lane, (char *)s->to.pairs + b->first * 8, b->count * 8);
  if (!status) status = adji_staging_wait(gpu, b->lane);
  if (!status && size) {
    memcpy(b->pairs, b->sums, b->count * size); /* a copy begins where the buffer does */
    status = adji_staging_send(gpu, b->lane, (char *)s->to.sums + b->first * size, b->count * size);
    if (!status) status = adji_staging_wait(gpu, b->lane);
  }
  b->first += b->count;
  b->count = 0;
  return status ? status : adji_check_cancel(s->partner->join.ctx);
}

/* One way, the lower one of a pair comes first. */
static adj_status bundle_record(bundle *b, const uint32_t *record) {
  const sending *s = b->sending;
  bool one_way = s->partner->join.style.one_way;
  uint32_t row = record[0], count = record[1], words = s->found->sum_words;
  const uint32_t *ids = record + 2, *sums = ids + count;
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < count && !status;) {
    uint64_t many = s->room - b->count < count - i ? s->room - b->count : count - i;
    uint32_t *to = b->pairs + 2 * b->count;
    for (uint64_t j = 0; j < many; j++) {
      bool swap = one_way && ids[i + j] < row;
      to[2 * j] = swap ? ids[i + j] : row;
      to[2 * j + 1] = swap ? row : ids[i + j];
    }
    if (words) memcpy(b->sums + b->count * words, sums + (uint64_t)i * words, many * words * 4);
    b->count += many;
    i += (uint32_t)many;
    if (b->count == s->room) status = send_bundle(b);
  }
  return status;
}

static adj_status send_list(void *user, uint64_t number, uint32_t lane) {
  const sending *s = user;
  const adji_found_list *list = &s->found->lists[number];
  bundle b = {.sending = s, .lane = lane, .first = s->firsts[number]};
  b.pairs = adji_staging_at(s->partner->gpu, lane);
  b.sums = b.pairs + 2 * s->room;
  uint64_t begin = adji_now_ns();
  adj_status status = ADJ_OK;
  for (uint64_t at = 0; at < list->used && !status;) {
    const uint32_t *record = list->words + at;
    status = bundle_record(&b, record);
    at += 2 + (uint64_t)record[1] * (1 + s->found->sum_words);
  }
  if (!status) status = send_bundle(&b);
  adji_trace(s->partner->join.ctx, "send", lane, begin, list->pairs);
  return status;
}

/* Before what a device has found is asked for, by a thread that may have had to do with another one. */
static adj_status use_found(const partner *p) {
  adji_gpu_use(p->gpu);
  if (!p->drained) return ADJ_OK;
  return adji_fail(ADJ_E_DEVICE, "%s has failed: %s", adji_gpu_partner_name(p->number), adj_status_text(p->drained));
}

static adj_status add_found(void *state, adji_run *run, const adji_found *found) {
  partner *p = state;
  adji_memory *memory = &p->join.ctx->memory;
  sending s = {.partner = p, .found = found, .room = ADJI_STAGE_BYTES / (8 + 4 * (uint64_t)found->sum_words)};
  adj_status status = use_found(p);
  if (!status) status = adji_gpu_range_add(p->range, found->pairs, &s.to);
  if (status) return status;
  uint64_t *firsts = adji_alloc(memory, found->count, sizeof *firsts, "pairs"), first = 0;
  for (uint64_t i = 0; i < found->count && firsts; first += found->lists[i++].pairs)
    firsts[i] = first;
  s.firsts = firsts;
  status = firsts ? adji_loop(p->join.ctx, found->count, send_list, &s) : ADJ_E_MEMORY;
  if (status) adji_gpu_quiesce(p->gpu);
  adji_free(memory, firsts);
  run->device.bytes_up += found->pairs * (8 + 4 * (uint64_t)found->sum_words);
  p->has_all = !status;
  if (status == ADJ_E_DEVICE_MEMORY) /* which stands for no room, and there was: some of it may be there */
    status = adji_fail(ADJ_E_DEVICE, "%s did not get what cores found", adji_gpu_partner_name(p->number));
  return status;
}

static adj_status fetch_counts(void *state, adji_run *run, uint32_t *counts) {
  partner *p = state;
  adj_status status = use_found(p);
  if (!status) status = adji_gpu_range_end_count(p->range, &p->found);
  if (status) return status;
  return adji_download(p->gpu, adji_gpu_range_degrees(p->range), p->join.left->count * 4, counts, &run->device);
}

/* Sums of a part come as they are. */
static adj_status fetch_rows(void *state, adji_run *run, const adji_window *to) {
  static const adji_measure as_they_are = {.report = ADJI_REPORT_SUM};
  partner *p = state;
  adji_gpu_use(p->gpu);
  adji_row_style style = p->join.style;
  if (!p->has_all) style.measure = &as_they_are;
  adji_gpu_filling filling = {p->gpu, p->range, &style, p->options.batch_bytes, p->options.slots, p->found.longest};
  return adji_gpu_fill(&filling, run, to);
}

/* What the device did since this was last asked. */
static void tell_work(partner *p, adji_device_stats *to) {
  adji_device_stats now = adji_gpu_range_work(p->range);
  adji_device_stats_report(&now, &p->told, to);
}

static void end_pass(void *state, adji_device_stats *work) {
  partner *p = state;
  adji_gpu_lists_end(p->lists);
  adji_gpu_range_end_fills(p->range);
  tell_work(p, work);
  adji_gpu_unlock(p->gpu);
  adji_range_worker_end(&p->worker, work);
}

static void destroy(void *state) {
  partner *p = state;
  if (!p) return;
  adji_gpu_lock(p->gpu);
  adji_gpu_lists_close(p->lists);
  adji_gpu_range_close(p->range);
  adji_gpu_unlock(p->gpu);
  free(p);
}

/* ---- Making it ---------------------------------------------------------------------------------------- */

adj_status adji_gpu_range_partner_can(const adji_gpu_engine_options *options) {
  if (adji_access_by_point(options->range.points.access))
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: paper.access= is for a GPU that does a join alone");
  if (options->chunk) return adji_fail(ADJ_E_UNSUPPORTED, "tuning: device_chunk= is for a GPU that does a join alone");
  return ADJ_OK;
}

static adj_status open_device(partner *p, uint32_t number) {
  adj_status status = adji_gpu_at(p->join.ctx, number, &p->gpu);
  if (status) return status;
  adji_gpu_lock(p->gpu);
  status = adji_gpu_range_open(p->gpu, &p->options.range, &p->range);
  if (!status) status = adji_gpu_lists_open(p->range, &p->lists);
  if (status) adji_gpu_range_close(p->range);
  adji_gpu_unlock(p->gpu);
  return status;
}

adj_status adji_gpu_range_partner_create(const adji_gpu_engine_options *options, uint32_t number, adji_partner *out) {
  partner *p = calloc(1, sizeof *p);
  if (!p) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  p->number = number;
  p->join = *options->range.join;
  p->options = *options;
  p->options.range.join = &p->join;
  p->device = (adji_rows_device){p, ask_list, ask_listed, ask_fetch, ask_wait, ask_buffer, ask_settle};
  p->worker.device = &p->device;
  p->worker.join = &p->join;
  p->worker.work = &p->work;
  p->worker.list_ranges = ADJI_MOST_RANGES;
  p->worker.buffer_bytes = ADJI_STAGE_BYTES;
  adj_status status = open_device(p, number);
  if (status) {
    free(p);
    return status;
  }
  *out = (adji_partner){
      p, adji_gpu_partner_name(number), begin_pass, drain, end_pass, destroy, fetch_counts, fetch_rows, add_found};
  return ADJ_OK;
}

/* A count keeps half of what is left at most. */
bool adji_gpu_range_partner_has_room(adji_partner *made, uint64_t pairs) {
  partner *p = made->state;
  adji_gpu_lock(p->gpu);
  uint64_t left = adji_gpu_available(p->gpu);
  adji_gpu_unlock(p->gpu);
  return pairs <= left / 2 / (4 + entry_bytes(p)); /* both points, and the sum */
}

adj_status adji_gpu_range_partner_follow(adji_partner *made, const uint32_t *rows) {
  partner *p = made->state;
  if (p->options.range.order) return ADJ_OK; /* which it has */
  adji_gpu_lock(p->gpu);
  adj_status status = adji_gpu_lists_follow(p->lists, rows);
  if (!status) status = adji_gpu_wait(p->gpu);
  adji_gpu_unlock(p->gpu);
  return status;
}

/* ---- A trial ------------------------------------------------------------------------------------------ */

/* In few dimensions a lane of a warp has a query of its own, and a sample fills two lanes of 32: that takes as long as
 * if all were filled, which would meet twice as many candidates at most. */
enum { LANE_DIM = 3, LANE_QUERIES = 8 };

/* What some queries met and took, scaled up to all. */
static adji_range_trial scale_up(const partner *p, uint64_t queries, double seconds, double pairs, double candidates) {
  double scale = (double)p->join.left->count / (double)queries;
  adji_range_trial t = {seconds * scale, 0, pairs * scale, candidates * scale, queries};
  t.copy_s = t.pairs * (4 + (p->join.style.distances ? (double)adji_type_size(p->join.left->type) : 0)) /
             p->join.ctx->costs.copy_rate;
  return t;
}

static adj_status count_some(partner *p, uint64_t wanted, adji_range_trial *out) {
  uint64_t queries, rows;
  adji_tally found = {0};
  if (wanted > p->worker.list_queries) wanted = p->worker.list_queries;
  adji_list_ranges list = {p->worker.ranges, 0, 0};
  list.count = adji_list_sample(p->join.left->count, wanted, p->worker.ranges, &queries);
  uint64_t begin = adji_now_ns();
  adj_status status = adji_gpu_lists_list(p->lists, &list, 0, p->join.ctx->threads, &rows);
  if (!status) status = adji_gpu_lists_listed(p->lists, 0, &found);
  double seconds = (double)(adji_now_ns() - begin) * 1e-9;
  if (!status) *out = scale_up(p, queries, seconds, (double)found.pairs, (double)found.candidates);
  return status;
}

adj_status adji_gpu_range_partner_guess(adji_partner *made, uint64_t sample, adji_range_trial *out) {
  partner *p = made->state;
  uint64_t all = p->join.left->count, queries = sample < all ? sample : all;
  double pairs = 0, candidates = 0, part = all ? (double)queries / (double)all : 0;
  *out = (adji_range_trial){0};
  if (!all) return ADJ_OK;
  adji_gpu_lock(p->gpu);
  double before = adji_gpu_range_work(p->range).kernel_s;
  adj_status status = adji_gpu_range_sample(p->range, queries, &pairs, &candidates);
  double seconds = adji_gpu_range_work(p->range).kernel_s - before;
  adji_gpu_unlock(p->gpu);
  if (p->join.left->dim <= LANE_DIM && queries < all) seconds /= LANE_QUERIES;
  if (!status) *out = scale_up(p, queries, seconds, pairs * part, candidates * part);
  return status;
}

adj_status adji_gpu_range_partner_try(adji_partner *made, uint64_t queries, adji_range_trial *out) {
  partner *p = made->state;
  *out = (adji_range_trial){0};
  if (!p->join.left->count) return ADJ_OK;
  p->work = (adji_shared_work){0};
  adj_status status = adji_range_worker_begin(&p->worker);
  if (status) return status;
  adji_gpu_lock(p->gpu);
  status = open_lists(p, queries < LIST_QUERIES ? queries : LIST_QUERIES);
  if (!status) status = count_some(p, queries, out);
  if (status) adji_gpu_quiesce(p->gpu);
  adji_gpu_lists_end(p->lists);
  adji_gpu_unlock(p->gpu);
  adji_range_worker_end(&p->worker, &(adji_device_stats){0});
  return status;
}

adj_status adji_gpu_range_partner_alone(adji_partner *made, adji_engine *out) {
  partner *p = made->state;
  adj_status status = adji_gpu_engine_adopt(&p->options, p->gpu, p->range, out);
  if (status) return status;
  adji_gpu_lock(p->gpu);
  adji_gpu_lists_close(p->lists);
  adji_gpu_unlock(p->gpu);
  *made = (adji_partner){0};
  free(p);
  return ADJ_OK;
}

#else

/* What it cannot do is no matter where there is no device: that is what will be told. */
adj_status adji_gpu_range_partner_can(const adji_gpu_engine_options *options) {
  (void)options;
  return ADJ_OK;
}

adj_status adji_gpu_range_partner_create(const adji_gpu_engine_options *options, uint32_t number, adji_partner *out) {
  (void)options;
  (void)number;
  (void)out;
  return adji_gpu_missing();
}

bool adji_gpu_range_partner_has_room(adji_partner *partner, uint64_t pairs) {
  (void)partner;
  (void)pairs;
  return false;
}

adj_status adji_gpu_range_partner_follow(adji_partner *partner, const uint32_t *rows) {
  (void)partner;
  (void)rows;
  return adji_gpu_missing();
}

adj_status adji_gpu_range_partner_guess(adji_partner *partner, uint64_t sample, adji_range_trial *out) {
  (void)partner;
  (void)sample;
  (void)out;
  return adji_gpu_missing();
}

adj_status adji_gpu_range_partner_try(adji_partner *partner, uint64_t queries, adji_range_trial *out) {
  (void)partner;
  (void)queries;
  (void)out;
  return adji_gpu_missing();
}

adj_status adji_gpu_range_partner_alone(adji_partner *partner, adji_engine *out) {
  (void)partner;
  (void)out;
  return adji_gpu_missing();
}

#endif
