/* SPDX-License-Identifier: MIT
 *
 * Joins in chunks: filling rows.
 *
 * The rows of a window are filled one left chunk at a time, joined with one right chunk after the other. The entries of
 * such a join go to a buffer, some rows at a time, and are then appended to their rows. Chunks ascend, so rows ordered
 * by id stay ordered. Rows ordered by distance are collected with their canonical sums, and sorted when they are
 * complete. If no distances are wanted, the sums have their own buffer, and only as many rows as fit it are filled at a
 * time.
 */
#include <string.h>

#include "gpu/worker/chunks_private.h"
#include "gpu/worker/divide.h"

/* The most bytes of entries in flight, unless a row is longer. */
static const uint64_t BUFFER = (uint64_t)256 << 20;

/* The state of one device that fills. */
typedef struct filling {
  adji_chunks *c;
  uint32_t device;
  adji_inner_run run;
  const adji_window *window;
  bool by_distance;
  size_t size;   /* of a value; 0: there are none */
  uint64_t room; /* entries that fit the buffers */
  uint32_t *ids;
  void *values;               /* sums if ordered by distance, otherwise distances */
  void *sums;                 /* sums of complete rows, if the window has no place for them */
  uint32_t *degrees;          /* of the rows of a join of chunks */
  uint64_t *offsets;          /* sums of the degrees */
  uint32_t *taken;            /* entries of each current row that are in place */
  adji_chunk rows;            /* the current rows */
  uint64_t placed;            /* entries of the window */
  adji_row_style final_style; /* of complete rows */
  adji_row_room *rooms;
} filling;

/* ---- Buffers ------------------------------------------------------------------------------------------------- */

static uint64_t longest_row(const adji_window *w) {
  uint64_t longest = 1;
  for (uint64_t i = w->first_row; i < w->end_row; i++)
    if (adji_window_length(w, i) > longest) longest = adji_window_length(w, i);
  return longest;
}

static adj_status make_rooms(filling *f, uint64_t longest) {
  adj_ctx *ctx = f->c->join.ctx;
  f->rooms = adji_alloc_zero(&ctx->memory, ctx->threads, sizeof *f->rooms, "row buffers");
  adj_status status = f->rooms ? ADJ_OK : ADJ_E_MEMORY;
  for (uint32_t lane = 0; lane < ctx->threads && !status; lane++)
    status = adji_row_room_reserve(&f->rooms[lane], &ctx->memory, &f->final_style, longest);
  return status;
}

static adj_status make_buffers(filling *f) {
  const adji_window *w = f->window;
  adji_memory *memory = &f->c->join.ctx->memory;
  uint64_t longest = longest_row(w), pairs = adji_window_entries(w);
  uint64_t rows = w->end_row - w->first_row < f->c->size ? w->end_row - w->first_row : f->c->size;
  uint64_t whole = f->c->join.left->count < f->c->size ? f->c->join.left->count : f->c->size;
  bool own_sums = f->by_distance && !w->distances;
  uint64_t left = adji_memory_available(memory) / f->c->source.devices, bytes = BUFFER < left / 4 ? BUFFER : left / 4;
  f->room = bytes / (4 + f->size + (own_sums ? f->size : 0));
  if (f->room > pairs) f->room = pairs;
  if (f->room < longest) f->room = longest;
  f->ids = adji_alloc(memory, f->room, sizeof *f->ids, "entries of a chunk");
  f->degrees = adji_alloc(memory, whole, sizeof *f->degrees, "counts of a chunk");
  f->offsets = adji_alloc(memory, whole + 1, sizeof *f->offsets, "offsets of a chunk");
  f->taken = adji_alloc(memory, rows, sizeof *f->taken, "counts of a chunk");
  if (!f->ids || !f->degrees || !f->offsets || !f->taken) return ADJ_E_MEMORY;
  if (f->size) {
    f->values = adji_alloc(memory, f->room, f->size, "entries of a chunk");
    if (!f->values) return ADJ_E_MEMORY;
  }
  if (own_sums) {
    f->sums = adji_alloc(memory, f->room, f->size, "entries of a chunk");
    if (!f->sums) return ADJ_E_MEMORY;
  }
  return f->by_distance ? make_rooms(f, longest) : ADJ_OK;
}

static void free_buffers(filling *f) {
  adj_ctx *ctx = f->c->join.ctx;
  for (uint32_t lane = 0; f->rooms && lane < ctx->threads; lane++)
    adji_row_room_clear(&f->rooms[lane]);
  void *blocks[] = {f->ids, f->values, f->sums, f->degrees, f->offsets, f->taken, f->rooms};
  for (int i = 0; i < 7; i++)
    adji_free(&ctx->memory, blocks[i]);
}

/* ---- Entries to their rows -------------------------------------------------------------------------------------- */

/* Rows whose entries move from the buffer into place. */
typedef struct delivery {
  filling *f;
  const adji_chunk_pair *pair;
  adji_chunk rows;
  uint64_t tasks;
} delivery;

/* Where a row's values begin. */
static char *values_of(const filling *f, uint64_t row) {
  if (!f->sums) return (char *)f->window->distances + adji_window_at(f->window, row) * f->size;
  return (char *)f->sums + (f->window->offsets[row] - f->window->offsets[f->rows.first]) * f->size;
}

static adj_status append(const delivery *d, uint64_t row) {
  filling *f = d->f;
  uint64_t base = d->pair->rows.first, from = f->offsets[row - base] - f->offsets[d->rows.first - base];
  uint64_t many = f->offsets[row - base + 1] - f->offsets[row - base];
  uint64_t there = f->taken[row - f->rows.first], length = adji_window_length(f->window, row);
  if (many > length - there)
    return adji_fail(ADJ_E_INTERNAL, "row %llu has more neighbours than the %llu counted", (unsigned long long)row,
                     (unsigned long long)length);
  if (!many) return ADJ_OK;
  uint32_t *ids = f->window->ids + adji_window_at(f->window, row) + there, first = (uint32_t)d->pair->ids.first;
  for (uint64_t i = 0; i < many; i++)
    ids[i] = f->ids[from + i] + first;
  if (f->size) memcpy(values_of(f, row) + there * f->size, (char *)f->values + from * f->size, many * f->size);
  f->taken[row - f->rows.first] = (uint32_t)(there + many);
  return ADJ_OK;
}

static adj_status append_some(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const delivery *d = user;
  uint64_t begin, end;
  adj_status status = ADJ_OK;
  adji_slice(d->rows.end - d->rows.first, d->tasks, task, &begin, &end);
  for (uint64_t i = begin; i < end && !status; i++)
    status = append(d, d->rows.first + i);
  return status;
}

/* ---- A join of two chunks ---------------------------------------------------------------------------- */

/* The end of the longest range of rows, from first on, whose entries fit the buffers. */
static uint64_t fitting(const uint64_t *offsets, uint64_t first, uint64_t end, uint64_t room) {
  uint64_t last = first;
  while (last < end && offsets[last + 1] - offsets[first] <= room)
    last++;
  return last;
}

static adj_status count_pair(filling *f, adji_chunk_pair *pair) {
  uint64_t pairs = 0, rows = pair->rows.end - pair->rows.first;
  f->run.run.fills = true;
  adji_inner_run_next(&f->run, (double)f->placed, 0, f->placed);
  adj_status status = adji_engine_count(&pair->engine, &f->run.run, f->degrees, &pairs);
  if (status) return status;
  f->offsets[0] = 0;
  for (uint64_t i = 0; i < rows; i++)
    f->offsets[i + 1] = f->offsets[i] + f->degrees[i];
  return ADJ_OK;
}

static adj_status fill_pair(filling *f, adji_chunk_pair *pair) {
  uint64_t base = pair->rows.first, tasks = 8 * (uint64_t)f->c->join.ctx->threads;
  adj_status status = count_pair(f, pair);
  for (uint64_t first = f->rows.first - base, end = f->rows.end - base; first < end && !status;) {
    uint64_t last = fitting(f->offsets, first, end, f->room), pairs = f->offsets[last] - f->offsets[first];
    if (last == first)
      return adji_fail(ADJ_E_INTERNAL, "row %llu has more neighbours than were counted",
                       (unsigned long long)(base + first));
    adji_window window = {
        .first_row = first, .end_row = last, .offsets = f->offsets, .ids = f->ids, .distances = f->values};
    delivery d = {f, pair, {base + first, base + last}, tasks};
    adji_inner_run_next(&f->run, (double)f->placed, (double)pairs, f->placed);
    if (pairs) status = adji_engine_fill(&pair->engine, &f->run.run, &window);
    if (!status && pairs) status = adji_loop(f->c->join.ctx, tasks, append_some, &d);
    f->placed += pairs;
    first = last;
  }
  return status;
}

/* ---- Rows that are complete -------------------------------------------------------------------------- */

static adj_status complete(filling *f, uint64_t row, uint32_t lane) {
  uint64_t length = adji_window_length(f->window, row);
  uint32_t many = f->taken[row - f->rows.first];
  if (many != length)
    return adji_fail(ADJ_E_INTERNAL, "row %llu: %u neighbours found where %llu were counted", (unsigned long long)row,
                     many, (unsigned long long)length);
  if (!f->by_distance || !many) return ADJ_OK;
  adji_row_room *room = &f->rooms[lane];
  memcpy(room->ids[0], f->window->ids + adji_window_at(f->window, row), many * sizeof(uint32_t));
  memcpy(room->sums[0], values_of(f, row), many * f->size);
  many = adji_row_order(&f->final_style, room, 0, (uint32_t)row, many);
  return adji_row_place(&f->final_style, room, 0, (uint32_t)row, many, f->window);
}

static adj_status complete_some(void *user, uint64_t task, uint32_t lane) {
  const delivery *d = user;
  uint64_t begin, end;
  adj_status status = ADJ_OK;
  adji_slice(d->rows.end - d->rows.first, d->tasks, task, &begin, &end);
  for (uint64_t i = begin; i < end && !status; i++)
    status = complete(d->f, d->rows.first + i, lane);
  return status;
}

/* Fills the current rows from all right chunks. */
static adj_status fill_rows(filling *f) {
  adji_chunks *c = f->c;
  adj_status status = ADJ_OK;
  memset(f->taken, 0, (f->rows.end - f->rows.first) * sizeof *f->taken);
  f->placed = adji_window_at(f->window, f->rows.first);
  for (uint64_t j = 0, rights = adji_chunk_count(c, c->join.right); j < rights && !status; j++) {
    adji_chunk ids = adji_chunk_at(c, c->join.right, j);
    if (adji_chunk_skipped(c, f->rows, ids)) continue;
    adji_chunk_pair pair;
    status = adji_chunk_open(c, f->device, f->rows, ids, &pair);
    if (status) break;
    status = fill_pair(f, &pair);
    adji_chunk_close(&pair);
  }
  if (status) return status;
  delivery d = {.f = f, .rows = f->rows, .tasks = 64 * (uint64_t)c->join.ctx->threads};
  return adji_loop(c->join.ctx, d.tasks, complete_some, &d);
}

/* Fills rows *row .. end_row - 1 of a window, one left chunk at a time, or as much of it as the buffer of the sums
 * holds. *row becomes the end of the rows that were filled. */
static adj_status fill_chunks(filling *f, uint64_t *row, uint64_t end_row) {
  const adji_window *w = f->window;
  adji_chunks *c = f->c;
  adj_status status = ADJ_OK;
  while (*row < end_row && !status) {
    adji_chunk whole = adji_chunk_at(c, c->join.left, *row / c->size);
    uint64_t end = whole.end < end_row ? whole.end : end_row;
    f->rows = (adji_chunk){*row, f->sums ? fitting(w->offsets, *row, end, f->room) : end};
    status = w->offsets[f->rows.end] > w->offsets[*row] ? fill_rows(f) : ADJ_OK;
    if (!status) *row = f->rows.end;
  }
  return status;
}

/* Fills with one device. If it has no room, it continues with smaller chunks from where it was. */
static adj_status fill_alone(filling *f) {
  const adji_window *w = f->window;
  uint64_t row = w->first_row;
  adj_status status = fill_chunks(f, &row, w->end_row);
  while (adji_chunks_shrink(f->c, status)) {
    f->run.run.redone++;
    status = fill_chunks(f, &row, w->end_row);
  }
  return status;
}

static adj_status fill_some(void *state, uint32_t device, uint64_t first, uint64_t end, adji_tally *tally) {
  (void)tally; /* the pairs were counted before */
  filling *f = (filling *)state + device;
  const adji_window *w = f->window;
  uint64_t size = f->c->size, row = first * size > w->first_row ? first * size : w->first_row;
  return fill_chunks(f, &row, end * size < w->end_row ? end * size : w->end_row);
}

/* Fills with several devices, which share the left chunks. If none has room, all rows are filled again with smaller
 * chunks. */
static adj_status fill_shared(filling *each, adji_run *run) {
  adji_chunks *c = each->c;
  adji_tally tally = {0};
  adji_division shared = {.state = each,
                          .name = "join",
                          .queries = adji_chunk_queries,
                          .devices = c->source.devices,
                          .takes = ADJI_CHUNK_TAKES,
                          .work = fill_some};
  adj_status status;
  do {
    shared.parts = adji_chunk_count(c, c->join.left);
    status = adji_divide(&shared, run, &tally);
  } while (adji_chunks_shrink(c, status));
  return status;
}

/* Prepares a device: what it fills, and its buffers. */
static adj_status open_filling(filling *f, adji_run *run) {
  adji_chunks *c = f->c;
  f->by_distance = c->join.style.order == ADJ_ORDER_DISTANCE;
  f->size = c->style.distances ? adji_type_size(c->style.type) : 0;
  f->final_style = c->join.style;
  f->final_style.drop_self = f->final_style.one_way = false; /* the joins of chunks have dropped these pairs already */
  adji_inner_run_begin(&f->run, run, "join");
  if (c->source.devices > 1) f->run.run.control.progress = NULL; /* the devices report it together */
  f->run.all = (double)adji_window_entries(f->window);
  return make_buffers(f);
}

static void close_filling(filling *f, adji_tally *tally) {
  free_buffers(f);
  adji_inner_run_end(&f->run, tally);
}

adj_status adji_chunks_fill(adji_chunks *c, adji_run *run, const adji_window *window, adji_tally *tally) {
  filling each[ADJI_MOST_GPUS] = {{.c = c, .window = window}};
  uint32_t opened = 1;
  if (!adji_window_entries(window)) return ADJ_OK;
  adj_status status = open_filling(&each[0], run);
  for (; opened < c->source.devices && !status; opened++) {
    each[opened] = (filling){.c = c, .device = opened, .window = window};
    status = open_filling(&each[opened], run);
  }
  if (!status) status = opened > 1 ? fill_shared(each, run) : fill_alone(each);
  for (uint32_t i = 0; i < opened; i++)
    close_filling(&each[i], tally);
  return status;
}
