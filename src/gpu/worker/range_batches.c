/* SPDX-License-Identifier: MIT
 *
 * Fills the rows of a window in batches of the queries, as LBJoin does (section II-C.2; gpu/papers/point_batches.h).
 *
 * A sample of the queries gives an estimate of the number of entries, and so of the number of batches for which each
 * fits its room of b_s entries; there are at least as many batches as streams. Batch l of n has the queries l, l + n,
 * and so on, which makes batches of similar size. With a queue of work (WORKQUEUE) a batch has consecutive queries,
 * most work first. Then the first queries are the sample, so that the first batch fits. A batch that does not fit is
 * cut in two and redone.
 *
 * While the device works on other streams, all lanes fetch the entries of a batch and append them to their rows. Once
 * all entries have arrived, rows are checked and put into order.
 */
#include <math.h>
#include <string.h>

#include "core/atomic.h"
#include "gpu/device/staging.h"
#include "gpu/worker/range_private.h"

typedef struct filling {
  const adji_batched_fill *fill;
  adji_run *run;
  const adji_window *window;
  adji_gpu_batches *batches;
  adji_batches_request request;
  uint64_t pairs; /* b_s */
  uint64_t queries, batch_count;
  uint64_t next;             /* the next batch to start */
  adji_batch_queries *again; /* batches that were cut, which are started first */
  uint64_t again_count, again_room;
  adji_batch_queries under_way[ADJI_MOST_STREAMS];
  uint64_t submitted, done;
  uint64_t size;                    /* bytes of a sum; 0: no sums are needed */
  char *sums;                       /* sums of the window's entries */
  void *own_sums;                   /* the same, if the window has no place for them */
  ADJI_ATOMIC(uint32_t) * appended; /* the number of entries that each row has */
  adji_row_style style;             /* of complete rows */
  adji_row_room *rooms;             /* of each lane */
  uint64_t slices;                  /* of the rows */
  uint64_t placed;                  /* entries of batches that are done */
  /* The batch that is being placed. */
  uint32_t stream;
  uint64_t entries, each; /* number of entries: of the batch, of a piece */
  pthread_mutex_t lock;   /* guards device calls, and the members below */
  uint64_t wait_ns, place_ns;
} filling;

/* ---- The queries of a batch ----------------------------------------------------------------------------- */

static bool is_queue(const filling *f) {
  return f->fill->order == ADJI_WORK_QUEUE;
}

static adji_batch_queries batch_number(const filling *f, uint64_t number) {
  uint64_t n = f->batch_count, begin, end;
  if (!is_queue(f)) return (adji_batch_queries){number, n, (f->queries - number + n - 1) / n};
  adji_slice(f->queries, n, number, &begin, &end);
  return (adji_batch_queries){begin, 1, end - begin};
}

static bool next_batch(filling *f, adji_batch_queries *out) {
  if (f->again_count) {
    *out = f->again[--f->again_count];
    return true;
  }
  if (f->next == f->batch_count) return false;
  *out = batch_number(f, f->next++);
  return true;
}

/* Cuts a batch that did not fit into two batches. There always is room for the entries of a single query. */
static adj_status cut_batch(filling *f, const adji_batch_queries *batch) {
  uint64_t half = batch->count / 2, rest = batch->count - half;
  if (!half) return adji_fail(ADJ_E_INTERNAL, "a query has more neighbours than were counted");
  if (f->again_count + 2 > f->again_room) {
    uint64_t room = 2 * f->again_room + 16, keep = f->again_count * sizeof *f->again;
    if (!adji_grow(&f->run->ctx->memory, (void **)&f->again, room, sizeof *f->again, keep, "batches"))
      return ADJ_E_MEMORY;
    f->again_room = room;
  }
  adji_batch_queries first = {batch->first, 2 * batch->step, rest};
  adji_batch_queries second = {batch->first + batch->step, 2 * batch->step, half};
  if (is_queue(f)) {
    first = (adji_batch_queries){batch->first, 1, rest};
    second = (adji_batch_queries){batch->first + rest, 1, half};
  }
  f->again[f->again_count++] = second;
  f->again[f->again_count++] = first;
  f->run->redone++;
  return ADJ_OK;
}

static void account(filling *f, const adji_batch_found *found) {
  f->run->device.slots += found->slots;
  f->run->device.compared += found->candidates;
}

/* Chooses the number of batches, from a batch of the sample, whose entries are only counted. */
static adj_status choose_batches(filling *f) {
  double part = f->fill->batches.sample_part > 0 ? f->fill->batches.sample_part : ADJI_BATCH_SAMPLE;
  uint64_t sample = (uint64_t)ceil(part * (double)f->queries), step = f->queries / sample;
  adji_batch_queries queries = {0, is_queue(f) ? 1 : step, sample};
  adji_batch_found found = {0};
  adj_status status = adji_gpu_batches_start(f->batches, 0, &queries);
  if (!status) status = adji_gpu_batches_found(f->batches, 0, &found);
  if (status) return status;
  account(f, &found);
  double entries = (double)found.entries / (double)sample * (double)f->queries;
  double batches = ceil(entries / (double)f->pairs);
  if (batches < (double)f->request.streams) batches = (double)f->request.streams;
  f->batch_count = batches < (double)f->queries ? (uint64_t)batches : f->queries;
  return ADJ_OK;
}

/* ---- Entries to their rows ------------------------------------------------------------------------------ */

/* Appends consecutive entries to their row. Two lanes may append to a row at the same time. */
static adj_status append(filling *f, uint32_t row, const uint32_t *ids, const char *sums, uint32_t many) {
  const adji_window *w = f->window;
  uint64_t length = adji_window_length(w, row);
  uint32_t there = length ? atomic_fetch_add(&f->appended[row - w->first_row], many) : 0;
  if (many > length || there > length - many)
    return adji_fail(ADJ_E_INTERNAL, "row %u has more neighbours than the %llu counted", row,
                     (unsigned long long)length);
  uint64_t at = adji_window_at(w, row) + there;
  memcpy(w->ids + at, ids, many * sizeof *ids);
  if (f->size) memcpy(f->sums + at * f->size, sums, many * f->size);
  return ADJ_OK;
}

static adj_status place_entries(filling *f, const uint32_t *rows, uint64_t count) {
  const uint32_t *ids = rows + f->each;
  const char *sums = (const char *)(ids + f->each);
  adj_status status = ADJ_OK;
  for (uint64_t i = 0, end; i < count && !status; i = end) {
    for (end = i + 1; end < count && rows[end] == rows[i];)
      end++;
    status = append(f, rows[i], ids + i, sums + i * f->size, (uint32_t)(end - i));
  }
  return status;
}

static adj_status fetch(filling *f, uint64_t first, uint64_t count, uint32_t lane) {
  pthread_mutex_lock(&f->lock);
  adj_status status = adji_check_cancel(f->run->ctx);
  for (int part = ADJI_BATCH_ROWS; part <= (f->size ? ADJI_BATCH_SUMS : ADJI_BATCH_IDS) && !status; part++)
    status = adji_gpu_batches_fetch(f->batches, f->stream, (adji_batch_part)part, first, count, lane,
                                    (uint64_t)part * f->each * 4);
  pthread_mutex_unlock(&f->lock);
  return status;
}

static adj_status place_piece(void *user, uint64_t number, uint32_t lane) {
  filling *f = user;
  uint64_t first = number * f->each, count = f->entries - first < f->each ? f->entries - first : f->each;
  uint64_t begin = adji_now_ns();
  adj_status status = fetch(f, first, count, lane);
  if (!status) status = adji_staging_wait(f->fill->gpu, lane);
  uint64_t arrived = adji_now_ns();
  if (!status) status = place_entries(f, adji_staging_at(f->fill->gpu, lane), count);
  adji_trace(f->run->ctx, "place", lane, begin, count);
  pthread_mutex_lock(&f->lock);
  f->wait_ns += arrived - begin;
  f->place_ns += adji_now_ns() - arrived;
  pthread_mutex_unlock(&f->lock);
  return status;
}

/* ---- The loop ------------------------------------------------------------------------------------------- */

static adj_status start_batches(filling *f) {
  adj_status status = ADJ_OK;
  while (!status && f->submitted - f->done < f->request.streams) {
    uint32_t stream = (uint32_t)(f->submitted % f->request.streams);
    if (!next_batch(f, &f->under_way[stream])) break;
    status = adji_gpu_batches_start(f->batches, stream, &f->under_way[stream]);
    f->submitted++;
  }
  return status;
}

static adj_status finish_oldest(filling *f) {
  adji_batch_found found;
  f->stream = (uint32_t)(f->done % f->request.streams);
  adj_status status = adji_gpu_batches_found(f->batches, f->stream, &found);
  if (status) return status;
  f->done++;
  account(f, &found);
  if (found.entries > f->request.pairs) return cut_batch(f, &f->under_way[f->stream]);
  f->entries = found.entries;
  status = adji_parallel(f->run->ctx->team, (f->entries + f->each - 1) / f->each, place_piece, f, false);
  if (status) return status;
  f->run->batches++;
  f->run->device.bytes_down += f->entries * (8 + f->size);
  f->placed += f->entries;
  return adji_run_report(f->run, "join", (double)f->placed / (double)adji_window_entries(f->window), f->placed, false);
}

static adj_status run_batches(filling *f) {
  adj_status status = start_batches(f);
  while (!status && f->done < f->submitted) {
    status = finish_oldest(f);
    if (!status) status = adji_check_cancel(f->run->ctx);
    if (!status) status = start_batches(f);
  }
  return status;
}

/* ---- Complete rows -------------------------------------------------------------------------------------- */

static adj_status order_row(filling *f, uint64_t row, uint32_t lane) {
  const adji_window *w = f->window;
  adji_row_room *room = &f->rooms[lane];
  uint64_t at = adji_window_at(w, row), length = adji_window_length(w, row);
  adj_status status = adji_row_room_reserve(room, &f->run->ctx->memory, &f->style, length);
  if (status) return status;
  memcpy(room->ids[0], w->ids + at, length * sizeof *w->ids);
  if (f->size) memcpy(room->sums[0], f->sums + at * f->size, length * f->size);
  uint32_t count = adji_row_order(&f->style, room, 0, (uint32_t)row, (uint32_t)length);
  return adji_row_place(&f->style, room, 0, (uint32_t)row, count, w);
}

static adj_status finish_rows(void *user, uint64_t slice, uint32_t lane) {
  filling *f = user;
  const adji_window *w = f->window;
  uint64_t begin, end;
  adj_status status = ADJ_OK;
  adji_slice(w->end_row - w->first_row, f->slices, slice, &begin, &end);
  for (uint64_t row = w->first_row + begin; row < w->first_row + end && !status; row++) {
    uint64_t length = adji_window_length(w, row);
    if (atomic_load(&f->appended[row - w->first_row]) != length)
      status = adji_fail(ADJ_E_INTERNAL, "row %llu has fewer neighbours than the %llu counted", (unsigned long long)row,
                         (unsigned long long)length);
    if (!status && length && (f->size || f->style.order != ADJ_ORDER_ANY)) status = order_row(f, row, lane);
  }
  return status;
}

/* ---- Room ----------------------------------------------------------------------------------------------- */

static adj_status make_room(filling *f) {
  adj_ctx *ctx = f->run->ctx;
  const adji_window *w = f->window;
  f->appended = adji_alloc_zero(&ctx->memory, w->end_row - w->first_row, sizeof *f->appended, "counts of a batch");
  f->rooms = adji_alloc_zero(&ctx->memory, ctx->threads, sizeof *f->rooms, "row buffers");
  if (!f->appended || !f->rooms) return ADJ_E_MEMORY;
  f->sums = w->distances;
  if (!f->size || w->distances) return ADJ_OK;
  f->own_sums = adji_alloc(&ctx->memory, adji_window_entries(w), f->size, "sums of a batch");
  f->sums = f->own_sums;
  return f->own_sums ? ADJ_OK : ADJ_E_MEMORY;
}

static void free_room(filling *f) {
  adj_ctx *ctx = f->run->ctx;
  for (uint32_t lane = 0; f->rooms && lane < ctx->threads; lane++)
    adji_row_room_clear(&f->rooms[lane]);
  void *blocks[] = {f->again, f->own_sums, (void *)f->appended, f->rooms};
  for (int i = 0; i < 4; i++)
    adji_free(&ctx->memory, blocks[i]);
}

/* The most entries that a single query may find: those of its own row and, if each pair of cells is compared only once,
 * as many of other rows. */
static uint64_t least_pairs(const adji_batched_fill *fill) {
  return (adji_access_mirrors(fill->access) ? 2 : 1) * fill->longest;
}

/* Makes room for batches, which is halved as long as the device does not have it. A batch is never larger than the
 * window. */
static adj_status open_batches(filling *f) {
  const adji_batched_fill *fill = f->fill;
  uint64_t all = adji_window_entries(f->window), least = least_pairs(fill);
  uint64_t pairs = fill->batches.pairs ? fill->batches.pairs : ADJI_BATCH_PAIRS;
  uint32_t streams = fill->batches.streams ? fill->batches.streams : ADJI_BATCH_STREAMS;
  if (fill->batch_bytes && fill->batch_bytes / (8 + f->size) < pairs) pairs = fill->batch_bytes / (8 + f->size);
  if (pairs < least) pairs = least;
  f->pairs = pairs;
  f->request = (adji_batches_request){streams, pairs < all ? pairs : all, f->window->first_row, f->window->end_row};
  adj_status status;
  for (;;) {
    status = adji_gpu_batches_open(fill->range, &f->request, &f->queries, &f->batches);
    if (status != ADJ_E_DEVICE_MEMORY || (f->request.streams == 1 && f->request.pairs <= least)) return status;
    if (f->request.pairs > least)
      f->pairs = f->request.pairs = f->request.pairs / 2 > least ? f->request.pairs / 2 : least;
    else
      f->request.streams = 1;
  }
}

adj_status adji_batched_fill_window(const adji_batched_fill *fill, adji_run *run, const adji_window *window) {
  filling f = {.fill = fill, .run = run, .window = window, .style = *fill->style};
  if (!adji_window_entries(window)) return ADJ_OK;
  f.size = adji_row_needs_sums(fill->style) ? adji_type_size(fill->style->type) : 0;
  f.each = ADJI_STAGE_BYTES / (8 + f.size) / 2 * 2; /* sums begin at multiples of 8 */
  f.slices = 16 * (uint64_t)run->ctx->threads;
  f.style.drop_self = f.style.one_way = f.style.in_order = false; /* the device has handled these already */
  pthread_mutex_init(&f.lock, NULL);
  adj_status status = make_room(&f);
  if (!status) status = adji_staging_open(fill->gpu, run->ctx->threads);
  if (!status) status = open_batches(&f);
  if (!status) status = choose_batches(&f);
  if (!status) status = run_batches(&f);
  if (status) adji_gpu_quiesce(fill->gpu); /* copies in progress still write to buffers */
  adji_gpu_batches_close(f.batches);
  if (!status) status = adji_parallel(run->ctx->team, f.slices, finish_rows, &f, false);
  run->device.down_s += (double)f.wait_ns * 1e-9;
  run->device.place_s += (double)f.place_ns * 1e-9;
  pthread_mutex_destroy(&f.lock);
  free_room(&f);
  return status;
}
