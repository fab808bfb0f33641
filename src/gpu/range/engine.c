/* SPDX-License-Identifier: MIT
 *
 * The engine of range joins on a GPU: what a run asks for, in terms of gpu/range/range.h.
 */
#include "gpu/range/engine.h"

#include <stdlib.h>

#include "gpu/device/staging.h"
#include "gpu/range/chunks.h"
#include "gpu/range/pipeline.h"

enum { DEFAULT_SLOTS = 3, MOST_SLOTS = 8 };

typedef struct gpu_engine {
  adji_gpu *gpu;
  adji_gpu_range *range;
  adji_join join;
  uint64_t batch_bytes, slots; /* as in the options */
  adji_gpu_counted found;
  adji_device_stats made, told; /* of the plan, which every run counts as its own; of all that was told until now */
} gpu_engine;

/* What the device did since this was last asked. */
static void tell_work(gpu_engine *e, adji_device_stats *to) {
  adji_device_stats now = adji_gpu_range_work(e->range);
  adji_device_stats_report(&now, &e->told, to);
}

/* ---- Count ------------------------------------------------------------------------------------------- */

/* While the device counts, the lanes touch the memory that the rows will go to. */
static adj_status prefault_ahead(gpu_engine *e, const adji_ahead *ahead) {
  if (!ahead->ids) return ADJ_OK;
  adji_array arrays[] = {{NULL, ahead->ids, sizeof *ahead->ids},
                         {NULL, ahead->distances, adji_type_size(e->join.left->type)}};
  return adji_prefault_arrays(e->gpu, arrays, ahead->distances ? 2 : 1, ahead->entries);
}

static adj_status count_all(gpu_engine *e, adji_run *run) {
  uint64_t begin = adji_now_ns();
  adj_status status = adji_gpu_range_count(e->range, run->fills);
  if (status) return status;
  adj_status touched = prefault_ahead(e, &run->ahead);
  status = adji_gpu_range_counted(e->range, &e->found);
  if (!status) status = touched;
  if (!status) status = adji_check_cancel(e->join.ctx); /* which was called for while all of it was one batch */
  if (status) return status;
  adji_trace(e->join.ctx, "count", 0, begin, e->join.left->count);
  run->tally.pairs += e->found.pairs;
  run->tally.candidates += e->found.candidates;
  run->batches++;
  run->redone += e->found.redone;
  run->device.slots += e->found.slots;
  uint64_t most = run->control.max_pairs;
  if (most && e->found.pairs > most)
    return adji_fail(ADJ_E_LIMIT, "max_pairs: the result has more than the %llu pairs allowed",
                     (unsigned long long)most);
  return adji_run_report(run, "count", 1, e->found.pairs, false);
}

static adj_status gpu_count(void *state, adji_run *run, uint32_t *degrees, uint64_t *total) {
  gpu_engine *e = state;
  adji_gpu_lock(e->gpu);
  adj_status status = count_all(e, run);
  if (!status && degrees)
    status = adji_download(e->gpu, adji_gpu_range_degrees(e->range), e->join.left->count * sizeof *degrees, degrees,
                           &run->device);
  adji_device_stats_add(&run->device, &e->made);
  tell_work(e, &run->device);
  adji_gpu_unlock(e->gpu);
  if (!status) *total = e->found.pairs;
  return status;
}

static adj_status gpu_offsets(void *state, adji_run *run, uint64_t *offsets) {
  gpu_engine *e = state;
  adji_gpu_lock(e->gpu);
  uint64_t bytes = (e->join.left->count + 1) * sizeof *offsets;
  adj_status status = adji_download(e->gpu, adji_gpu_range_offsets(e->range), bytes, offsets, &run->device);
  adji_gpu_unlock(e->gpu);
  return status;
}

/* ---- Fill -------------------------------------------------------------------------------------------- */

/* By any lane, whose device it need not be yet. */
static adj_status pipe_fill(void *state, const adji_gpu_window *window, uint32_t slot) {
  const adji_gpu_filling *f = state;
  adji_gpu_use(f->gpu);
  return adji_gpu_range_fill(f->range, window, slot);
}
static adj_status pipe_fetch(void *state, uint32_t slot, adji_gpu_part part, uint64_t first, uint64_t entries,
                             uint32_t buffer) {
  return adji_gpu_range_fetch(((const adji_gpu_filling *)state)->range, slot, part, first, entries, buffer);
}
static adj_status pipe_release(void *state, uint32_t slot) {
  return adji_gpu_range_release(((const adji_gpu_filling *)state)->range, slot);
}
static adj_status pipe_wait(void *state, uint32_t buffer) {
  return adji_staging_wait(((const adji_gpu_filling *)state)->gpu, buffer);
}
static const void *pipe_buffer(void *state, uint32_t buffer) {
  return adji_staging_at(((const adji_gpu_filling *)state)->gpu, buffer);
}

/* Less memory for the slots of a job, down to one for the longest row; false: there is no less. */
static bool take_less(const adji_gpu_filling *f, adji_pipe_job *job) {
  if (job->slot_pairs > f->longest) {
    job->slot_pairs = job->slot_pairs / 2 > f->longest ? job->slot_pairs / 2 : f->longest;
    return true;
  }
  if (job->slots == 1) return false;
  job->slots = 1;
  return true;
}

/* Slots for batches of a window: of the size wanted, and of half as long as the device has no room for them. */
static adj_status make_slots(const adji_gpu_filling *f, adji_pipe_job *job, uint64_t window_pairs) {
  for (;;) {
    if (job->slot_pairs < window_pairs) adji_gpu_range_forget_whole(f->range);
    adj_status status = adji_gpu_range_slots(f->range, job->slots, job->slot_pairs);
    if (status == ADJ_E_DEVICE_MEMORY && adji_gpu_range_forget_whole(f->range))
      status = adji_gpu_range_slots(f->range, job->slots, job->slot_pairs);
    if (status != ADJ_E_DEVICE_MEMORY || !take_less(f, job)) return status;
  }
}

/* All batches; again with smaller ones where there was no room beside them for what brings long rows into order. */
static adj_status fill_batches(const adji_gpu_filling *f, adji_run *run, adji_pipe_job *job, uint64_t pairs) {
  for (;;) {
    adj_status status = make_slots(f, job, pairs);
    if (!status) status = adji_pipe_run(run, job);
    if (!status) return ADJ_OK;
    adji_gpu_quiesce(f->gpu); /* copies under way still write to buffers */
    if (status != ADJ_E_DEVICE_MEMORY || !take_less(f, job)) return status;
    run->redone++;
  }
}

adj_status adji_gpu_fill(const adji_gpu_filling *f, adji_run *run, const adji_window *window) {
  adji_pipe_device device = {(void *)f, pipe_fill, pipe_fetch, pipe_release, pipe_wait, pipe_buffer};
  adji_pipe_job job = {.device = &device, .style = f->style, .to = window};
  job.buffer_bytes = ADJI_HUGE_PAGE; /* a page of the result, which is still in the cache when it is written to */
  uint64_t pairs = window->offsets[window->end_row] - window->offsets[window->first_row];
  uint64_t entry = 4 + (adji_row_needs_sums(f->style) ? adji_type_size(f->style->type) : 0);
  if (!pairs) return ADJ_OK;
  job.slots = f->slots ? (uint32_t)f->slots : DEFAULT_SLOTS;
  if (job.slots > MOST_SLOTS) job.slots = MOST_SLOTS;
  job.slot_pairs = (f->batch_bytes ? f->batch_bytes : ADJI_GPU_BATCH) / entry;
  if (job.slot_pairs > pairs) job.slot_pairs = pairs;
  if (job.slot_pairs < f->longest) job.slot_pairs = f->longest;
  adj_status status = adji_staging_open(f->gpu, run->ctx->threads);
  if (!status) status = fill_batches(f, run, &job, pairs);
  return status ? status : adji_gpu_range_check(f->range);
}

static adj_status gpu_fill(void *state, adji_run *run, const adji_window *window) {
  gpu_engine *e = state;
  adji_gpu_filling filling = {e->gpu, e->range, &e->join.style, e->batch_bytes, e->slots, e->found.longest};
  if (window->offsets[window->end_row] == window->offsets[window->first_row]) return ADJ_OK;
  adji_gpu_lock(e->gpu);
  adj_status status = adji_gpu_fill(&filling, run, window);
  if (status == ADJ_E_DEVICE_MEMORY && adji_gpu_range_forget(e->range)) { /* there is room, if pairs are found again */
    run->redone++;
    status = adji_gpu_fill(&filling, run, window);
  }
  if (window->end_row - window->first_row == e->join.left->count) adji_gpu_range_end_fills(e->range);
  tell_work(e, &run->device);
  adji_gpu_unlock(e->gpu);
  return status;
}

/* ---- Making it --------------------------------------------------------------------------------------- */

static void gpu_destroy(void *state) {
  gpu_engine *e = state;
  adji_gpu_lock(e->gpu);
  adji_gpu_range_close(e->range);
  adji_gpu_unlock(e->gpu);
  free(e);
}

/* Around a range that is there. */
adj_status adji_gpu_engine_adopt(const adji_gpu_engine_options *options, adji_gpu *gpu, adji_gpu_range *range,
                                 adji_engine *out) {
  gpu_engine *e = calloc(1, sizeof *e);
  if (!e) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  e->gpu = gpu;
  e->range = range;
  e->join = *options->range.join;
  e->batch_bytes = options->batch_bytes;
  e->slots = options->slots;
  *out =
      (adji_engine){.state = e, .count = gpu_count, .offsets = gpu_offsets, .fill = gpu_fill, .destroy = gpu_destroy};
  return ADJ_OK;
}

/* All points at once. */
static adj_status create_whole(const adji_gpu_engine_options *options, adji_engine *out) {
  adji_gpu *gpu;
  adji_gpu_range *range = NULL;
  adj_status status = adji_gpu_of(options->range.join->ctx, &gpu);
  if (status) return status;
  adji_gpu_lock(gpu);
  status = adji_gpu_mark(gpu, ADJI_MARK_BEGIN);
  if (!status) status = adji_gpu_range_open(gpu, &options->range, &range);
  if (!status) status = adji_gpu_engine_adopt(options, gpu, range, out);
  if (status) adji_gpu_range_close(range);
  adji_gpu_unlock(gpu);
  return status;
}

static adj_status estimate_whole(adji_engine *engine, uint64_t sample, double *pairs, double *candidates) {
  gpu_engine *e = engine->state;
  adji_gpu_lock(e->gpu);
  adj_status status = adji_gpu_range_sample(e->range, sample, pairs, candidates);
  tell_work(e, &e->made);
  adji_gpu_unlock(e->gpu);
  return status;
}

static uint64_t cells_of_whole(const adji_engine *engine) {
  return adji_gpu_range_cells(((const gpu_engine *)engine->state)->range);
}

/* ---- In chunks --------------------------------------------------------------------------------------- */

static adj_status chunk_open(void *state, const adji_join *join, adji_engine *out) {
  adji_gpu_engine_options options = *(const adji_gpu_engine_options *)state;
  options.range.join = join;
  if (!join->self_join && adji_access_mirrors(options.range.points.access))
    options.range.points.access = ADJI_ACCESS_FULL; /* two stretches have no rows in common */
  return create_whole(&options, out);
}

static adj_status create_chunks(const adji_gpu_engine_options *options, uint64_t chunk, adji_engine *out) {
  adji_gpu_engine_options *mine = malloc(sizeof *mine);
  if (!mine) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  *mine = *options;
  adji_chunk_source source = {mine, chunk_open, estimate_whole, cells_of_whole, free};
  adj_status status = adji_chunks_create(options->range.join, &source, chunk, out);
  if (status) free(mine);
  return status;
}

static uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* Bytes that so many points take at least (the header of index.cu): the most of when the right ones are sorted or
 * gathered, when the left ones are, and when both are there with counts and offsets. Directory, batches, copies for
 * products and images of points come on top. */
static uint64_t least_bytes(const adji_gpu_engine_options *options, uint64_t left, uint64_t right) {
  const adji_join *join = options->range.join;
  uint64_t dim = join->left->dim, size = adji_type_size(join->left->type), point = dim * size;
  uint64_t placed = (ADJI_GPU_WIDTH(dim) ? ADJI_GPU_WIDTH(dim) : dim) * size; /* in the index */
  uint64_t number = 4 + (options->range.grid->key_bits > 32 ? 8 : 4);         /* and id */
  uint64_t building = point + number + larger(number, placed), built = placed + number;
  if (join->self_join) return larger(right * building, right * built + left * 12);
  return larger(larger(right * building, right * built + left * building), (right + left) * built + left * 12);
}

/* How many points may be there at a time so that half of the memory is left for what comes on top; 0: all. */
static adj_status choose_chunk(const adji_gpu_engine_options *options, uint64_t *chunk) {
  const adji_join *join = options->range.join;
  uint64_t left = join->left->count, right = join->right->count, most = left > right ? left : right;
  *chunk = options->chunk < most ? options->chunk : 0;
  if (options->chunk) return ADJ_OK;
  adji_gpu *gpu;
  adj_status status = adji_gpu_of(join->ctx, &gpu);
  if (status) return status;
  adji_gpu_lock(gpu);
  uint64_t room = adji_gpu_available(gpu);
  adji_gpu_unlock(gpu);
  if (least_bytes(options, left, right) <= room) return ADJ_OK;
  for (uint64_t many = 2; !*chunk || most / many > 1024; many++) {
    *chunk = most / many + 1;
    uint64_t some_left = left < *chunk ? left : *chunk, some_right = right < *chunk ? right : *chunk;
    if (2 * least_bytes(options, some_left, some_right) <= room) break;
  }
  return ADJ_OK;
}

/* Whether the points fit, and leave hardly any room for batches of the result. */
static bool is_cramped(const gpu_engine *e, uint64_t bytes) {
  adji_gpu_lock(e->gpu);
  uint64_t left = adji_gpu_available(e->gpu);
  adji_gpu_unlock(e->gpu);
  return left < bytes / 8;
}

adj_status adji_gpu_engine_create(const adji_gpu_engine_options *options, adji_engine *out) {
  uint64_t left = options->range.join->left->count, right = options->range.join->right->count, chunk = 0;
  uint64_t most = left > right ? left : right;
  adj_status status = choose_chunk(options, &chunk);
  if (status) return status;
  if (chunk) return create_chunks(options, chunk, out);
  status = create_whole(options, out);
  bool cramped = !status && is_cramped(out->state, least_bytes(options, left, right));
  if ((status != ADJ_E_DEVICE_MEMORY && !cramped) || options->chunk || most < 2) return status;
  if (cramped) gpu_destroy(out->state);
  *out = (adji_engine){0};
  return create_chunks(options, most / 2 + 1, out);
}

adj_status adji_gpu_engine_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates) {
  if (adji_is_chunks(engine)) return adji_chunks_estimate(engine, sample, pairs, candidates);
  return estimate_whole(engine, sample, pairs, candidates);
}

uint64_t adji_gpu_engine_cells(const adji_engine *engine) {
  return adji_is_chunks(engine) ? adji_chunks_cells(engine) : cells_of_whole(engine);
}

uint64_t adji_gpu_engine_chunk(const adji_engine *engine) {
  return adji_is_chunks(engine) ? adji_chunks_size(engine) : 0;
}
