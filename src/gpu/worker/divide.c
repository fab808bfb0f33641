/* SPDX-License-Identifier: MIT
 *
 * Several devices share the parts of a join: see divide.h.
 */
#include "gpu/worker/divide.h"

#include "gpu/worker/devices.h"
#include "gpu/worker/inner_run.h"

typedef struct dividing {
  const adji_division *division;
  adji_queue queue;
  uint64_t *parts; /* the part of each batch of the queue */
  struct device {
    struct dividing *all;
    uint32_t number;
  } devices[ADJI_MOST_DEVICES];
} dividing;

/* ---- The queue ---------------------------------------------------------------------------------------- */

static adj_status fill_queue(dividing *d, adj_ctx *ctx) {
  const adji_division *job = d->division;
  uint64_t position = 0;
  d->parts = adji_alloc(&ctx->memory, job->parts ? job->parts : 1, sizeof *d->parts, "work queue");
  if (!d->parts) return ADJ_E_MEMORY;
  adj_status status = adji_queue_init(&d->queue, ctx, job->parts ? job->parts : 1);
  for (uint64_t i = 0; i < job->parts && !status; i++) {
    uint64_t queries = job->queries(job->state, i);
    if (!queries) continue;
    d->parts[d->queue.count] = i;
    status =
        adji_queue_add(&d->queue, (adji_batch){(uint32_t)position, (uint32_t)(position + queries), (double)queries});
    position += queries;
  }
  return status;
}

/* ---- A device ----------------------------------------------------------------------------------------- */

static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  (void)run;
  (void)pass;
  const struct device *device = state;
  const adji_division *job = device->all->division;
  return job->begin ? job->begin(job->state, device->number) : ADJ_OK;
}

static void end(void *state, adji_run *run) {
  (void)run;
  const struct device *device = state;
  const adji_division *job = device->all->division;
  if (job->end) job->end(job->state, device->number);
}

/* Batches that were taken together belong to consecutive parts, unless some parts were left out. */
static adj_status work(const struct device *device, const adji_batch *batches, uint64_t count, adji_tally *tally) {
  const dividing *d = device->all;
  const uint64_t *parts = d->parts + (batches - d->queue.batches);
  adj_status status = ADJ_OK;
  for (uint64_t from = 0, to; from < count && !status; from = to) {
    for (to = from + 1; to < count && parts[to] == parts[to - 1] + 1;)
      to++;
    status = d->division->work(d->division->state, device->number, parts[from], parts[to - 1] + 1, tally);
  }
  return status;
}

static adj_status drain(void *state, adji_feed *feed) {
  const struct device *device = state;
  const adji_batch *batches;
  uint64_t count;
  adj_status status = ADJ_OK;
  while (!status && adji_feed_take(feed, &batches, &count)) {
    adji_tally tally = {0};
    status = work(device, batches, count, &tally);
    if (status) break;
    adji_feed_found(feed);
    status = adji_feed_done(feed, &tally);
  }
  return status;
}

/* ---- The host ----------------------------------------------------------------------------------------- */

/* Devices begin before the host does. */
static adj_status begin_host(void *state, adji_run *run, const adji_pass *pass) {
  (void)state;
  (void)run;
  return pass->alone ? pass->refused : ADJ_OK;
}

static adj_status run_pass(dividing *d, adji_run *run, adji_tally *tally) {
  const adji_division *job = d->division;
  adji_worker workers[1 + ADJI_MOST_DEVICES] = {{.name = "cpu", .idle = true, .begin = begin_host}};
  for (uint32_t i = 0; i < job->devices; i++) {
    d->devices[i] = (struct device){d, i};
    workers[1 + i] = (adji_worker){.state = &d->devices[i],
                                   .name = adji_gpu_worker_name(i),
                                   .is_device = true,
                                   .begin = begin,
                                   .drain = drain,
                                   .end = end};
  }
  adji_queue_rewind(&d->queue);
  adji_share_options share = {.equal = d->queue.remaining / ((double)job->devices * job->takes) + 1};
  adji_pass pass = {.kind = ADJI_PASS_FILL, .name = job->name, .queue = &d->queue};
  adji_active active;
  adj_status status = adji_pass_begin(run, workers, 1 + job->devices, &pass, &active);
  if (status) return status;
  status = adji_pass_run(run, &pass, &active, &share, tally);
  adji_pass_end(run, &active);
  return status;
}

adj_status adji_divide(const adji_division *division, adji_run *run, adji_tally *tally) {
  dividing d = {.division = division};
  adji_memory *memory = &run->ctx->memory;
  adji_inner_run nested;
  adji_tally ignored = {0}; /* the caller adds these itself */
  adji_inner_run_begin(&nested, run, division->name);
  adji_inner_run_next(&nested, 0, 1, 0);
  nested.all = 1;
  adj_status status = fill_queue(&d, run->ctx);
  if (!status && d.queue.count) status = run_pass(&d, &nested.run, tally);
  adji_run_add_workers(run, &nested.run);
  adji_inner_run_end(&nested, &ignored);
  adji_queue_clear(&d.queue);
  adji_free(memory, d.parts);
  return status;
}
