/* SPDX-License-Identifier: MIT
 *
 * The pipeline. The wanted rows are cut into windows that fit a slot, and the entries of a window into pieces that fit
 * a buffer. Lanes take the pieces in order. For each piece a lane starts the copy, prefaults the memory it goes to,
 * waits for the copy and puts it into place. Any lane starts the windows ahead once all copies out of their slots were
 * started; the device keeps the order.
 *
 * Lanes wait for copies that other lanes start, so a lane that gives up must tell the others. That is why cancelling is
 * checked here and not by the parallel loop, which would silently leave out a piece.
 */
#include "gpu/worker/pipeline.h"

#include <stdio.h>
#include <string.h>

#include "gpu/device/staging.h"

typedef struct pipe_window {
  adji_gpu_window rows;
  uint64_t first_piece; /* number of its first piece */
  uint64_t id_pieces;   /* pieces of ids; those of sums follow */
  uint64_t pieces;
  uint64_t started; /* pieces whose copy was started */
} pipe_window;

typedef struct pipe {
  adji_run *run;
  const adji_pipe_job *job;
  pipe_window *windows;
  uint64_t window_count, room;
  uint64_t pieces;
  uint64_t ids_each, sums_each; /* entries per piece */
  pthread_mutex_t lock;         /* guards the members below, and the order of device calls */
  pthread_cond_t moved;
  uint64_t filled; /* windows started */
  uint64_t placed; /* entries whose ids are in place */
  uint64_t wait_ns, place_ns, bytes;
  adj_status failed; /* the status of the first failure, and its message */
  char message[512];
} pipe;

/* ---- Windows and pieces --------------------------------------------------------------------------------- */

/* The end of the longest range of rows, from first on, that fits a slot. */
static uint64_t window_end(const adji_window *to, uint64_t first, uint64_t pairs) {
  uint64_t low = first, high = to->end_row; /* rows up to low fit */
  while (low < high) {
    uint64_t middle = low + (high - low + 1) / 2;
    if (to->offsets[middle] - to->offsets[first] <= pairs)
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

/* The number of entries of the result before a window. */
static uint64_t entries_before(const pipe *p, const adji_gpu_window *rows) {
  return rows->base - p->job->to->offsets[p->job->to->first_row];
}

/* The number of pieces of a window. Pieces end at multiples of a piece in the result, so that only one lane writes to a
 * huge page. */
static uint64_t pieces_of(const pipe *p, const adji_gpu_window *rows, uint64_t each) {
  return (entries_before(p, rows) % each + rows->pairs + each - 1) / each;
}

static adj_status add_window(pipe *p, uint64_t first, uint64_t end) {
  const adji_window *to = p->job->to;
  if (p->window_count == p->room) {
    uint64_t room = 2 * p->room + 16, keep = p->window_count * sizeof *p->windows;
    if (!adji_grow(&p->run->ctx->memory, (void **)&p->windows, room, sizeof *p->windows, keep, "batches"))
      return ADJ_E_MEMORY;
    p->room = room;
  }
  pipe_window w = {{first, end, to->offsets[first], to->offsets[end] - to->offsets[first]}, p->pieces, 0, 0, 0};
  w.id_pieces = pieces_of(p, &w.rows, p->ids_each);
  w.pieces = w.id_pieces + (to->distances ? pieces_of(p, &w.rows, p->sums_each) : 0);
  p->pieces += w.pieces;
  p->windows[p->window_count++] = w;
  return ADJ_OK;
}

static adj_status cut_windows(pipe *p) {
  const adji_window *to = p->job->to;
  adj_status status = ADJ_OK;
  for (uint64_t first = to->first_row; first < to->end_row && !status;) {
    uint64_t end = window_end(to, first, p->job->slot_pairs);
    if (end == first) return adji_fail(ADJ_E_INTERNAL, "row %llu does not fit a batch", (unsigned long long)first);
    if (to->offsets[end] > to->offsets[first]) status = add_window(p, first, end);
    first = end;
  }
  return status;
}

static pipe_window *window_of(const pipe *p, uint64_t piece) {
  uint64_t low = 0, high = p->window_count - 1;
  while (low < high) {
    uint64_t middle = low + (high - low + 1) / 2;
    if (p->windows[middle].first_piece <= piece)
      low = middle;
    else
      high = middle - 1;
  }
  return &p->windows[low];
}

/* ---- One piece -------------------------------------------------------------------------------------------- */

/* Starts every window whose slot is free, which means that all copies out of the slot were started. The lane may have
 * used another device before. */
static adj_status fill_ahead(pipe *p) {
  const adji_pipe_job *job = p->job;
  while (p->filled < p->window_count) {
    uint64_t next = p->filled;
    const pipe_window *before = next >= job->slots ? &p->windows[next - job->slots] : NULL;
    if (before && before->started < before->pieces) return ADJ_OK;
    adji_gpu_use(job->gpu);
    adj_status status = adji_gpu_range_fill(job->range, &p->windows[next].rows, (uint32_t)(next % job->slots));
    if (status) return status;
    p->filled++;
    pthread_cond_broadcast(&p->moved);
  }
  return ADJ_OK;
}

typedef struct piece {
  pipe_window *window;
  adji_gpu_part part;
  uint64_t first, entries; /* in the pipe_window */
} piece;

static piece find_piece(const pipe *p, uint64_t number) {
  pipe_window *w = window_of(p, number);
  uint64_t at = number - w->first_piece;
  bool ids = at < w->id_pieces;
  uint64_t each = ids ? p->ids_each : p->sums_each, lead = entries_before(p, &w->rows) % each;
  if (!ids) at -= w->id_pieces;
  uint64_t first = at ? at * each - lead : 0, end = (at + 1) * each - lead;
  if (end > w->rows.pairs) end = w->rows.pairs;
  return (piece){w, ids ? ADJI_PART_IDS : ADJI_PART_SUMS, first, end - first};
}

/* Starts the copy of a piece, once its window was started. The caller holds the lock. */
static adj_status start_copy(pipe *p, const piece *wanted, uint32_t lane) {
  adji_gpu_range *range = p->job->range;
  uint64_t number = (uint64_t)(wanted->window - p->windows);
  adj_status status = p->failed ? ADJ_OK : fill_ahead(p);
  while (!status && !p->failed && p->filled <= number)
    pthread_cond_wait(&p->moved, &p->lock);
  if (p->failed) return adji_fail(p->failed, "%s", p->message);
  uint32_t slot = (uint32_t)(number % p->job->slots);
  if (!status) status = adji_gpu_range_fetch(range, slot, wanted->part, wanted->first, wanted->entries, lane);
  if (!status && ++wanted->window->started == wanted->window->pieces) {
    status = adji_gpu_range_release(range, slot);
    if (!status) status = fill_ahead(p);
  }
  return status;
}

static size_t entry_size(const pipe *p, const piece *some) {
  return some->part == ADJI_PART_IDS ? sizeof *p->job->to->ids : adji_type_size(p->job->style->type);
}

/* Where a piece goes. */
static char *place_of(const pipe *p, const piece *some) {
  const adji_window *to = p->job->to;
  char *array = some->part == ADJI_PART_IDS ? (char *)to->ids : to->distances;
  return array + (entries_before(p, &some->window->rows) + some->first) * entry_size(p, some);
}

static void place(const pipe *p, const piece *arrived, const void *from) {
  const adji_row_style *style = p->job->style;
  char *to = place_of(p, arrived);
  if (arrived->part == ADJI_PART_IDS)
    memcpy(to, from, arrived->entries * sizeof(uint32_t));
  else
    adji_report_distances(style->measure, style->type, from, arrived->entries, to);
}

/* Records a failure. A lane that failed must not leave others waiting for its work. The caller holds the lock. */
static adj_status give_up(pipe *p, adj_status status) {
  if (!p->failed) {
    snprintf(p->message, sizeof p->message, "%s", adj_last_error());
    p->failed = status;
  }
  pthread_cond_broadcast(&p->moved);
  return status;
}

static adj_status give_up_alone(pipe *p, adj_status status) {
  pthread_mutex_lock(&p->lock);
  give_up(p, status);
  pthread_mutex_unlock(&p->lock);
  return status;
}

static adj_status fetch_piece(void *user, uint64_t number, uint32_t lane) {
  pipe *p = user;
  piece current = find_piece(p, number);
  uint64_t begin = p->run->ctx->trace ? adji_now_ns() : 0;
  pthread_mutex_lock(&p->lock);
  adj_status status = adji_check_cancel(p->run->ctx);
  if (!status) status = start_copy(p, &current, lane);
  if (status) give_up(p, status);
  pthread_mutex_unlock(&p->lock);
  if (status) return status;
  uint64_t started = adji_now_ns();
  adji_prefault(place_of(p, &current), current.entries * entry_size(p, &current)); /* while the copy is in progress */
  uint64_t prefaulted = adji_now_ns();
  status = adji_staging_wait(p->job->gpu, lane);
  if (status) return give_up_alone(p, status);
  uint64_t arrived = adji_now_ns();
  place(p, &current, adji_staging_at(p->job->gpu, lane));
  uint64_t placing = adji_now_ns() - arrived;
  adji_trace(p->run->ctx, "place", lane, begin, current.entries);
  pthread_mutex_lock(&p->lock);
  p->wait_ns += arrived - prefaulted;
  p->place_ns += placing + (prefaulted - started);
  p->bytes += current.entries * entry_size(p, &current);
  if (current.part == ADJI_PART_IDS) p->placed += current.entries;
  uint64_t placed = p->placed;
  pthread_mutex_unlock(&p->lock);
  double all = (double)adji_window_entries(p->job->to);
  status = adji_run_report(p->run, "join", (double)placed / all, placed, false);
  return status ? give_up_alone(p, status) : ADJ_OK;
}

/* ---- All of them ------------------------------------------------------------------------------------------ */

static adj_status open_pipe(pipe *p, adji_run *run, const adji_pipe_job *job) {
  *p = (pipe){.run = run, .job = job, .ids_each = job->buffer_bytes / 4, .filled = job->filled};
  p->sums_each = job->buffer_bytes / adji_type_size(job->style->type);
  pthread_mutex_init(&p->lock, NULL);
  pthread_cond_init(&p->moved, NULL);
  return cut_windows(p);
}

static void close_pipe(pipe *p) {
  pthread_cond_destroy(&p->moved);
  pthread_mutex_destroy(&p->lock);
  adji_free(&p->run->ctx->memory, p->windows);
}

adj_status adji_pipe_begin(adji_run *run, adji_pipe_job *job) {
  pipe p;
  adj_status status = open_pipe(&p, run, job);
  if (!status) status = fill_ahead(&p);
  if (!status) job->filled = p.filled;
  close_pipe(&p);
  return status;
}

adj_status adji_pipe_run(adji_run *run, const adji_pipe_job *job) {
  pipe p;
  adj_status status = open_pipe(&p, run, job);
  if (!status) status = adji_parallel(run->ctx->team, p.pieces, fetch_piece, &p, false);
  run->batches += p.filled;
  run->device.down_s += (double)p.wait_ns * 1e-9;
  run->device.place_s += (double)p.place_ns * 1e-9;
  run->device.bytes_down += p.bytes;
  close_pipe(&p);
  return status;
}
