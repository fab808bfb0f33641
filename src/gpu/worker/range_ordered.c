/* SPDX-License-Identifier: MIT
 *
 * Fills the rows of a window from a device, in the order of the result, which is the fast way for a device that does a
 * join alone. Batches of the result are computed in slots on the device, and are copied to the host through the
 * pipeline.
 */
#include "gpu/device/staging.h"
#include "gpu/worker/pipeline.h"
#include "gpu/worker/range_private.h"

enum { DEFAULT_SLOTS = 3, MOST_SLOTS = 8 };

/* ---- Slots ------------------------------------------------------------------------------------------- */

static adji_pipe_job job_of(const adji_ordered_fill *f, const adji_window *window) {
  adji_pipe_job job = {.gpu = f->gpu, .range = f->range, .style = f->style, .to = window};
  uint64_t pairs = adji_window_entries(window);
  uint64_t entry = 4 + (adji_row_needs_sums(f->style) ? adji_type_size(f->style->type) : 0);
  job.buffer_bytes = ADJI_HUGE_PAGE; /* one page of the result, which is still in the cache when it is written */
  job.slots = f->slots ? (uint32_t)f->slots : DEFAULT_SLOTS;
  if (job.slots > MOST_SLOTS) job.slots = MOST_SLOTS;
  job.slot_pairs = (f->batch_bytes ? f->batch_bytes : ADJI_GPU_BATCH) / entry;
  if (job.slot_pairs > pairs) job.slot_pairs = pairs;
  if (job.slot_pairs < f->longest) job.slot_pairs = f->longest;
  return job;
}

/* Reduces the memory of the slots, down to one slot for the longest row. False: it cannot be less. */
static bool take_less(const adji_ordered_fill *f, adji_pipe_job *job) {
  if (job->slot_pairs > f->longest) {
    job->slot_pairs = job->slot_pairs / 2 > f->longest ? job->slot_pairs / 2 : f->longest;
    return true;
  }
  if (job->slots == 1) return false;
  job->slots = 1;
  return true;
}

/* Makes slots of the wanted size, which is halved as long as the device has no room. Query hits and tile hits serve a
 * fill of all rows at once, and are given up first. */
static adj_status make_slots(const adji_ordered_fill *f, adji_pipe_job *job) {
  uint64_t pairs = adji_window_entries(job->to);
  for (;;) {
    if (job->slot_pairs < pairs) adji_gpu_range_forget_whole(f->range);
    adj_status status = adji_gpu_range_slots(f->range, job->slots, job->slot_pairs);
    if (status == ADJ_E_DEVICE_MEMORY && adji_gpu_range_forget_whole(f->range))
      status = adji_gpu_range_slots(f->range, job->slots, job->slot_pairs);
    if (status != ADJ_E_DEVICE_MEMORY || !take_less(f, job)) return status;
  }
}

/* ---- Filling ----------------------------------------------------------------------------------------- */

/* Fills all batches. If there is no room beside the slots to sort long rows, fills again with smaller slots. */
static adj_status fill_batches(const adji_ordered_fill *f, adji_run *run, adji_pipe_job *job) {
  for (;;) {
    adj_status status = job->filled ? ADJ_OK : make_slots(f, job);
    if (!status) status = adji_pipe_run(run, job);
    if (!status) return ADJ_OK;
    adji_gpu_quiesce(f->gpu); /* copies in progress still write to buffers */
    job->filled = 0;
    if (status != ADJ_E_DEVICE_MEMORY || !take_less(f, job)) return status;
    run->redone++;
  }
}

adj_status adji_ordered_fill_window(const adji_ordered_fill *f, adji_run *run, const adji_window *window,
                                    adji_prefetched *prefetched) {
  adji_pipe_job job = job_of(f, window);
  if (!adji_window_entries(window)) return ADJ_OK;
  if (prefetched && prefetched->filled) {
    if (prefetched->first_row == window->first_row && prefetched->end_row == window->end_row) {
      job.slots = prefetched->slots;
      job.slot_pairs = prefetched->slot_pairs;
      job.filled = prefetched->filled;
    } else {
      adji_gpu_quiesce(f->gpu);
    }
    prefetched->filled = 0;
  }
  adj_status status = adji_staging_open(f->gpu, run->ctx->threads);
  if (!status) status = fill_batches(f, run, &job);
  return status ? status : adji_gpu_range_check(f->range);
}

void adji_ordered_prefetch(const adji_ordered_fill *f, adji_run *run, const adji_window *window, adji_prefetched *out) {
  adji_pipe_job job = job_of(f, window);
  out->filled = 0;
  if (!adji_window_entries(window)) return;
  if (make_slots(f, &job) || adji_pipe_begin(run, &job)) {
    adji_gpu_quiesce(f->gpu);
    return;
  }
  *out = (adji_prefetched){window->first_row, window->end_row, job.slots, job.slot_pairs, job.filled};
}
