/* SPDX-License-Identifier: MIT
 *
 * A device as a worker of a range join: see range.h.
 *
 * A device alone counts all rows, and fills windows of rows in the order of the result (range_ordered.c). Beside the
 * cores it takes lists of queries (lists.c). In a single evaluation it keeps the pairs it finds. At the end the host
 * fetches these, or the device also gets the pairs of the cores (range_add.c).
 */
#include "gpu/worker/range.h"

#include <math.h>
#include <stdlib.h>

#include "gpu/device/staging.h"
#include "gpu/worker/devices.h"
#include "gpu/worker/place.h"
#include "gpu/worker/range_private.h"

/* The most of a list, unless the options say otherwise. */
static const uint64_t LIST_QUERIES = (uint64_t)1 << 22, LIST_BYTES = (uint64_t)512 << 20;

typedef struct range_device {
  adji_gpu *gpu;
  const char *name;
  adji_gpu_range *range;
  adji_lent right;        /* if its what is NULL, nothing was lent */
  adji_gpu_points points; /* kept until the first pass, for another index */
  adji_join join;
  uint64_t batch_bytes, slots, slices; /* as in the options */
  bool has_order;                      /* it has the order of the cores from the beginning */
  bool by_point;                       /* the papers' kernels, which count all queries at once */
  adji_point_options paper;            /* if by_point */
  adji_batch_options batches;
  bool by_tensor;    /* through tensor cores */
  uint32_t blocks;   /* most thread blocks; 0: as many as fit */
  double candidates; /* estimated; 0: not known */
  adji_lists lists;
  const adji_pass *pass;
  adji_run *run;
  adji_prefetched prefetched;
  adj_status drain_status;     /* the status of the pass */
  adji_gpu_counted found;      /* by the last count */
  bool has_all;                /* single evaluation: the device has the pairs of the cores, too */
  adji_device_stats plan_work; /* work while the plan was made, which every run counts as its own */
  adji_device_stats reported;  /* the part of the range's statistics that was reported already */
} range_device;

static void report_stats(range_device *d, adji_device_stats *to) {
  adji_device_stats now = adji_gpu_range_work(d->range);
  adji_device_stats_report(&now, &d->reported, to);
}

static uint64_t entry_bytes(const range_device *d) {
  return 4 + (adji_row_needs_sums(&d->join.style) ? adji_type_size(d->join.left->type) : 0);
}

/* ---- Alone ------------------------------------------------------------------------------------------- */

/* While the device counts, the lanes prefault the memory that the rows will go to. */
static adj_status prefault_ahead(range_device *d, const adji_ahead *ahead) {
  if (!ahead->ids) return ADJ_OK;
  adji_array arrays[] = {{NULL, ahead->ids, sizeof *ahead->ids},
                         {NULL, ahead->distances, adji_type_size(d->join.left->type)}};
  return adji_prefault_arrays(d->gpu, arrays, ahead->distances ? 2 : 1, ahead->entries);
}

/* A count is cut into slices of about SLICE_CANDIDATES candidates, so that it can be cancelled, report progress and
 * check the limit of pairs. On an H200 such a slice takes 20 ms or more, so the start of a launch does not matter. If a
 * slice takes longer than SLICE_S, the next ones are shorter. */
static const double SLICE_CANDIDATES = 4e10, SLICE_S = 0.25;

/* Slices consist of whole groups. A warp compares up to 64 consecutive queries, and a fill must use the same groups to
 * find what the count has cached. */
static uint64_t whole_groups(double queries) {
  enum { GROUP = 64 };
  uint64_t groups = (uint64_t)(queries / GROUP);
  return (groups ? groups : 1) * GROUP;
}

/* The number of queries of the first slice. */
static uint64_t first_slice(const range_device *d) {
  double slices = fmax(d->candidates / SLICE_CANDIDATES, (double)d->slices);
  return slices < 1 || d->by_point ? UINT64_MAX : whole_groups((double)d->join.left->count / slices);
}

/* Called after each slice but the last. */
static adj_status check_slice(range_device *d, adji_run *run, uint64_t done) {
  adji_tally found;
  adj_status status = adji_gpu_range_so_far(d->range, &found);
  if (!status) status = adji_check_cancel(d->join.ctx);
  if (!status) status = adji_run_check_pairs(run, found.pairs);
  if (status) return status;
  return adji_run_report(run, d->pass->name, (double)done / (double)d->join.left->count, found.pairs, false);
}

static adj_status count_slices(range_device *d, adji_run *run) {
  uint64_t all = d->join.left->count, slice = first_slice(d), done = 0;
  adj_status status;
  do {
    uint64_t start = adji_now_ns();
    status = adji_gpu_range_count(d->range, d->pass->fills, done, slice);
    if (!status) status = prefault_ahead(d, &run->ahead);
    done = slice < all - done ? done + slice : all;
    if (status || done == all) break;
    status = check_slice(d, run, done);
    double took = (double)(adji_now_ns() - start) * 1e-9;
    if (took > SLICE_S) slice = whole_groups((double)slice * SLICE_S / took);
  } while (!status);
  return status;
}

/* While the device counts, the lanes prefault the memory that the counts will go to. */
static adj_status prefault_degrees(range_device *d) {
  adji_array array = {NULL, d->pass->degrees, sizeof *d->pass->degrees};
  if (!array.to || !d->join.left->count) return ADJ_OK;
  return adji_prefault_arrays(d->gpu, &array, 1, d->join.left->count);
}

static adj_status count_alone(range_device *d, adji_run *run) {
  adj_status status = count_slices(d, run);
  if (!status) status = prefault_degrees(d);
  if (!status) status = adji_gpu_range_counted(d->range, &d->found);
  if (!status) status = adji_check_cancel(d->join.ctx);
  if (status) {
    adji_gpu_quiesce(d->gpu);
    return status;
  }
  run->redone += d->found.redone;
  run->device.slots += d->found.slots;
  if (d->found.slots) run->device.compared += d->found.candidates;
  if (!d->pass->degrees) return ADJ_OK;
  return adji_download(d->gpu, adji_gpu_range_degrees(d->range), d->join.left->count * sizeof(uint32_t),
                       d->pass->degrees, &run->device);
}

static adji_ordered_fill ordered_fill(const range_device *d) {
  return (adji_ordered_fill){d->gpu, d->range, &d->join.style, d->batch_bytes, d->slots, d->found.longest};
}

static adj_status fill_batched(range_device *d, adji_run *run, const adji_window *window) {
  adji_batched_fill fill = {d->gpu,         d->range,   &d->join.style, d->paper.access,
                            d->paper.order, d->batches, d->batch_bytes, d->found.longest};
  return adji_batched_fill_window(&fill, run, window);
}

static adj_status fill_alone(range_device *d, adji_run *run) {
  adji_ordered_fill fill = ordered_fill(d);
  const adji_window *window = d->pass->window;
  if (d->by_point) return fill_batched(d, run, window);
  adj_status status = adji_ordered_fill_window(&fill, run, window, &d->prefetched);
  if (status == ADJ_E_DEVICE_MEMORY && adji_gpu_range_forget(d->range)) { /* there is room if pairs are found again */
    run->redone++;
    status = adji_ordered_fill_window(&fill, run, window, NULL);
  }
  if (window->end_row - window->first_row == d->join.left->count) adji_gpu_range_end_fills(d->range);
  return status;
}

/* Counts even if there are no queries, since offsets are requested afterwards. */
static adj_status alone(void *state, adji_tally *tally) {
  range_device *d = state;
  adji_gpu_use(d->gpu);
  if (d->pass->kind != ADJI_PASS_COUNT) return d->join.left->count ? fill_alone(d, d->run) : ADJ_OK;
  adj_status status = count_alone(d, d->run);
  if (!status) *tally = (adji_tally){d->found.pairs, d->found.candidates};
  return status;
}

static adj_status offsets(void *state, adji_run *run, uint64_t *to) {
  range_device *d = state;
  adji_gpu_lock(d->gpu);
  uint64_t bytes = (d->join.left->count + 1) * sizeof *to;
  adj_status status = adji_download(d->gpu, adji_gpu_range_offsets(d->range), bytes, to, &run->device);
  adji_gpu_unlock(d->gpu);
  return status;
}

static void prefetch(void *state, adji_run *run, const adji_window *window) {
  range_device *d = state;
  adji_ordered_fill fill = ordered_fill(d);
  if (d->by_point) return;
  adji_gpu_lock(d->gpu);
  adji_ordered_prefetch(&fill, run, window, &d->prefetched);
  adji_gpu_unlock(d->gpu);
}

/* ---- Beside the cores -------------------------------------------------------------------------------- */

static adj_status open_lists(range_device *d, const adji_pass *pass, uint64_t queries) {
  bool single = pass->kind == ADJI_PASS_SINGLE;
  uint64_t bytes = d->batch_bytes ? d->batch_bytes : LIST_BYTES;
  adji_lists_request request = {pass->window, single, pass->longest, queries, bytes / entry_bytes(d) + 1};
  if (pass->window && request.pairs > adji_window_entries(pass->window))
    request.pairs = adji_window_entries(pass->window);
  adj_status status = adji_staging_open(d->gpu, d->join.ctx->threads + 1);
  if (!status && single) status = adji_gpu_range_begin_count(d->range, pass->result);
  if (!status) status = adji_gpu_lists_begin(d->lists.range, &request);
  d->lists.list_queries = request.queries;
  d->lists.list_pairs = request.pairs;
  return status;
}

/* Makes the lists of a device beside other workers, when they are first needed. */
static adj_status make_lists(range_device *d) {
  if (d->lists.range) return ADJ_OK;
  return adji_gpu_lists_open(d->range, &d->lists.range);
}

static adj_status begin_lists(range_device *d, const adji_pass *pass) {
  adj_status status = adji_lists_begin(&d->lists, pass);
  if (status) return status;
  status = open_lists(d, pass, LIST_QUERIES);
  if (!status) return ADJ_OK;
  adji_gpu_quiesce(d->gpu);
  adji_gpu_range_end_fills(d->range);
  adji_lists_end(&d->lists, &(adji_device_stats){0});
  return status;
}

/* ---- Passes ------------------------------------------------------------------------------------------ */

/* The device is locked until the end of the pass, since a thread that uses the team must not wait for the device. */
static adj_status begin(void *state, adji_run *run, const adji_pass *pass) {
  range_device *d = state;
  d->pass = pass;
  d->run = run;
  d->drain_status = ADJ_OK;
  d->has_all = false;
  adji_gpu_lock(d->gpu);
  adji_gpu_points_free(&d->points);
  if (pass->alone) { /* lists of a trial are not needed */
    adji_gpu_lists_close(d->lists.range);
    d->lists.range = NULL;
    return ADJ_OK;
  }
  adj_status status = begin_lists(d, pass);
  if (status) adji_gpu_unlock(d->gpu);
  return status;
}

static adj_status drain(void *state, adji_feed *feed) {
  range_device *d = state;
  adji_gpu_use(d->gpu);
  d->drain_status = adji_lists_drain(&d->lists, feed);
  return d->drain_status;
}

static void end(void *state, adji_run *run) {
  range_device *d = state;
  if (d->pass->kind != ADJI_PASS_FILL) adji_device_stats_add(&run->device, &d->plan_work);
  if (!d->pass->alone) {
    adji_gpu_lists_end(d->lists.range);
    adji_gpu_range_end_fills(d->range);
    adji_lists_end(&d->lists, &run->device);
  }
  report_stats(d, &run->device);
  adji_gpu_unlock(d->gpu);
}

/* ---- Single evaluation ------------------------------------------------------------------------------- */

/* Called before pairs that the device found are used. The thread may have used another device before. */
static adj_status use_found(const range_device *d) {
  adji_gpu_use(d->gpu);
  if (!d->drain_status) return ADJ_OK;
  return adji_fail(ADJ_E_DEVICE, "%s has failed: %s", d->name, adj_status_text(d->drain_status));
}

static adj_status add(void *state, adji_run *run, const adji_found *found) {
  range_device *d = state;
  adj_status status = use_found(d);
  if (!status) status = adji_gpu_range_send_found(d->gpu, d->range, &d->join, run, found);
  d->has_all = !status;
  return status;
}

static adj_status counts(void *state, adji_run *run, uint32_t *to) {
  range_device *d = state;
  adj_status status = use_found(d);
  if (!status) status = adji_gpu_range_end_count(d->range, &d->found);
  if (status) return status;
  return adji_download(d->gpu, adji_gpu_range_degrees(d->range), d->join.left->count * 4, to, &run->device);
}

/* Fetches rows. If they are only a part of the result, their sums stay sums. */
static adj_status rows(void *state, adji_run *run, const adji_window *to) {
  static const adji_measure as_sums = {.report = ADJI_REPORT_SUM};
  range_device *d = state;
  adji_gpu_use(d->gpu);
  adji_row_style style = d->join.style;
  if (!d->has_all) style.measure = &as_sums;
  adji_ordered_fill fill = ordered_fill(d);
  fill.style = &style;
  return adji_ordered_fill_window(&fill, run, to, NULL);
}

/* ---- Making it --------------------------------------------------------------------------------------- */

adj_status adji_gpu_range_can_share(const adji_gpu_worker_options *options) {
  if (adji_access_mirrors(options->range.points.access))
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "tuning: paper.access=%s is for a GPU that does a join alone: beside cores it finds whole rows, "
                     "as with paper.access=full",
                     options->range.points.access == ADJI_ACCESS_UNICOMP ? "unicomp" : "lid-unicomp");
  if (options->batches.streams > ADJI_LISTS)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: paper.streams=%u: beside cores there are at most %d",
                     options->batches.streams, (int)ADJI_LISTS);
  if (options->chunk) return adji_fail(ADJ_E_UNSUPPORTED, "tuning: device_chunk= is for a GPU that does a join alone");
  return ADJ_OK;
}

static void close_range(range_device *d) {
  adji_gpu_lists_close(d->lists.range);
  adji_gpu_range_close(d->range);
  d->lists.range = NULL;
  d->range = NULL;
}

static void destroy(void *state) {
  range_device *d = state;
  adji_gpu_lock(d->gpu);
  close_range(d);
  adji_gpu_points_free(&d->points);
  adji_gpu_unlock(d->gpu);
  adji_give_back(&d->right);
  free(d);
}

static adj_status open_range(range_device *d, const adji_gpu_range_options *options) {
  d->has_order = options->order;
  adj_status status = adji_gpu_mark(d->gpu, ADJI_MARK_BEGIN);
  return status ? status : adji_gpu_range_open(d->gpu, options, &d->range);
}

/* Borrows a right set that is kept on the device, unless the join needs one of its own. The caller must not hold the
 * device's lock, since the set may have to be made. */
static adj_status borrow(range_device *d, const adji_gpu_worker_options *options, uint32_t number,
                         adji_gpu_range_options *range) {
  bool own = options->reopened || range->order || d->by_point || d->by_tensor;
  if (!range->lender || (own && !range->tree)) return ADJ_OK;
  adji_gpu_right_options wanted = {.form = range->tree ? ADJI_RIGHT_TREE : ADJI_RIGHT_GRID,
                                   .grid = range->grid,
                                   .limit = range->join->limit,
                                   .squares = range->measure->step == ADJI_STEP_L2};
  adj_status status = range->lender->lend(range->lender->owner, number, &wanted, &d->right);
  range->right = (adji_gpu_right *)(uintptr_t)d->right.what;
  return status;
}

static adj_status open_device(range_device *d, const adji_gpu_worker_options *options, uint32_t number) {
  adji_gpu_range_options range = options->range;
  if (options->reopened) range.keep = &d->points;
  adj_status status = adji_gpu_at(d->join.ctx, number, &d->gpu);
  if (!status) status = borrow(d, options, number, &range);
  if (status) return status;
  adji_gpu_lock(d->gpu);
  status = open_range(d, &range);
  if (status) adji_gpu_points_free(&d->points);
  adji_gpu_unlock(d->gpu);
  if (status) adji_give_back(&d->right);
  if (status) d->right = (adji_lent){0};
  return status;
}

adj_status adji_gpu_range_worker_reopen(adji_worker *worker, const adji_gpu_range_options *options) {
  range_device *d = worker->state;
  adji_gpu_range_options reopened_options = *options;
  adji_gpu_lock(d->gpu);
  report_stats(d, &d->plan_work); /* the statistics of the next range begin at 0 */
  d->reported = (adji_device_stats){0};
  close_range(d);
  if (d->points.gpu) reopened_options.right_rows = &d->points.rows;
  adj_status status = open_range(d, &reopened_options);
  adji_gpu_points_free(&d->points);
  adji_gpu_unlock(d->gpu);
  return status;
}

adj_status adji_gpu_range_worker_create(const adji_gpu_worker_options *options, uint32_t number, adji_worker *out) {
  range_device *d = calloc(1, sizeof *d);
  if (!d) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  d->name = adji_gpu_worker_name(number);
  d->join = *options->range.join;
  d->batch_bytes = options->batch_bytes;
  d->slots = options->slots;
  d->slices = options->slices;
  d->paper = options->range.points;
  d->by_point = adji_access_by_point(d->paper.access);
  d->batches = options->batches;
  d->by_tensor = options->range.tensor && options->range.tensor->use;
  d->blocks = options->range.blocks;
  const adji_gpu_lender *lender = options->range.lender;
  adj_status status = open_device(d, options, number);
  while (status == ADJ_E_DEVICE_MEMORY && lender && lender->drop(lender->owner, number))
    status = open_device(d, options, number);
  if (status) {
    free(d);
    return status;
  }
  d->lists = (adji_lists){.gpu = d->gpu, .join = &d->join, .placer = &adji_row_placer};
  *out = (adji_worker){.state = d,
                       .name = d->name,
                       .is_device = true,
                       .begin = begin,
                       .drain = drain,
                       .alone = alone,
                       .end = end,
                       .destroy = destroy,
                       .counts = counts,
                       .rows = rows,
                       .add = add,
                       .offsets = offsets,
                       .prefetch = prefetch};
  return ADJ_OK;
}

/* Single evaluation uses at most half of the available memory. A pair takes two numbers and the sum. */
bool adji_gpu_range_worker_has_room(adji_worker *worker, uint64_t pairs) {
  range_device *d = worker->state;
  adji_gpu_lock(d->gpu);
  uint64_t available = adji_gpu_available(d->gpu);
  adji_gpu_unlock(d->gpu);
  return pairs <= available / 2 / (4 + entry_bytes(d));
}

adj_status adji_gpu_range_worker_follow(adji_worker *worker, const uint32_t *rows) {
  range_device *d = worker->state;
  adji_gpu_lock(d->gpu);
  adj_status status = make_lists(d);
  if (!status && !d->has_order) {
    status = adji_gpu_lists_follow(d->lists.range, rows);
    if (!status) status = adji_gpu_wait(d->gpu);
  }
  adji_gpu_unlock(d->gpu);
  return status;
}

adj_status adji_gpu_range_worker_order(adji_worker *worker, uint32_t *rows) {
  range_device *d = worker->state;
  adji_gpu_lock(d->gpu);
  adj_status status = make_lists(d);
  if (!status) status = adji_gpu_lists_order(d->lists.range, rows);
  adji_gpu_unlock(d->gpu);
  return status;
}

/* ---- The queue of HEGJoin ---------------------------------------------------------------------------- */

static adj_status fetch_queue(range_device *d, const adji_gpu_queue *from, adji_range_queue *out) {
  adji_memory *memory = &d->join.ctx->memory;
  uint64_t count = d->join.left->count;
  *out = (adji_range_queue){.count = count, .samples = from->samples, .step = from->step};
  out->rows = adji_alloc(memory, count, sizeof *out->rows, "queue");
  out->counts = adji_alloc(memory, from->samples, sizeof *out->counts, "queue");
  adj_status status = out->rows && out->counts ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_download(d->gpu, from->rows, count * sizeof *out->rows, out->rows, &d->plan_work);
  if (!status)
    status = adji_download(d->gpu, from->counts, from->samples * sizeof *out->counts, out->counts, &d->plan_work);
  if (status) adji_range_queue_clear(memory, out);
  return status;
}

void adji_gpu_range_worker_streams(adji_worker *worker, uint32_t streams) {
  range_device *d = worker->state;
  d->lists.most = streams < ADJI_LISTS ? streams : ADJI_LISTS;
}

adj_status adji_gpu_range_worker_queue(adji_worker *worker, double part, uint32_t streams, adji_range_queue *out) {
  range_device *d = worker->state;
  adji_gpu_queue queue;
  adji_gpu_range_worker_streams(worker, streams);
  adji_gpu_lock(d->gpu);
  adj_status status = adji_gpu_range_make_queue(d->range, part, &queue);
  if (!status) status = fetch_queue(d, &queue, out);
  adji_gpu_range_forget_queue(d->range);
  report_stats(d, &d->plan_work);
  adji_gpu_unlock(d->gpu);
  return status;
}

/* ---- Estimates and trials ---------------------------------------------------------------------------- */

adj_status adji_gpu_range_worker_estimate(adji_worker *worker, uint64_t sample, double *pairs, double *candidates) {
  range_device *d = worker->state;
  adji_gpu_lock(d->gpu);
  adj_status status = adji_gpu_range_sample(d->range, sample, pairs, candidates);
  if (!status) d->candidates = *candidates;
  report_stats(d, &d->plan_work);
  adji_gpu_unlock(d->gpu);
  return status;
}

uint64_t adji_gpu_range_worker_cells(const adji_worker *worker) {
  return adji_gpu_range_cells(((const range_device *)worker->state)->range);
}

/* A sample of 4,096 queries does not keep a device busy: on an H200 it takes about 600 queries per multiprocessor to do
 * so, and fewer take as long. In few dimensions a lane of a warp has a query of its own, and a sample fills two lanes
 * of 32. That takes as long as if all lanes were filled, which would have twice as many candidates. In more dimensions
 * a warp of a sample has two queries instead of 32, which look up cells for themselves: two fifths of the time of a
 * whole warp. So a sample takes as long as these fractions of the queries that keep the device busy. */
enum { LANE_DIM = 3, LANE_QUERIES = 8, BUSY_QUERIES = 606, BLOCK_QUERIES = 128 };
static const double SAMPLED_IN_FEW = 0.5, SAMPLED = 0.128;

/* The factor by which a sample overstates the time of all queries. */
static double sample_excess(const range_device *d) {
  bool few = d->join.left->dim <= LANE_DIM;
  double busy = (double)adji_gpu_multiprocessors(d->gpu) * BUSY_QUERIES, all = (double)d->join.left->count;
  if (d->blocks) busy = fmin(busy, (double)d->blocks * BLOCK_QUERIES);
  double share = fmin(all / busy, 1), sampled = few ? SAMPLED_IN_FEW : SAMPLED;
  return fmax(share / sampled, 1) * (few ? LANE_QUERIES : 1);
}

/* The time of launches and waits in a trial, however few queries it has: by a sample, and by a list. */
static const double SAMPLE_S = 30e-6, LIST_S = 200e-6;

static double less_begin(double seconds, double begin) {
  return fmax(seconds - begin, 0.1 * seconds);
}

/* The time, pairs and candidates of some queries, scaled up to all. */
static adji_range_trial scale_up(const range_device *d, uint64_t queries, double seconds, double pairs,
                                 double candidates) {
  double scale = (double)d->join.left->count / (double)queries;
  adji_range_trial t = {seconds * scale, 0, pairs * scale, candidates * scale, queries};
  t.copy_s = t.pairs * (4 + (d->join.style.distances ? (double)adji_type_size(d->join.left->type) : 0)) /
             d->join.ctx->costs.copy_rate;
  return t;
}

adj_status adji_gpu_range_worker_guess(adji_worker *worker, uint64_t sample, adji_range_trial *out) {
  range_device *d = worker->state;
  uint64_t all = d->join.left->count, queries = sample < all ? sample : all;
  double pairs = 0, candidates = 0, part = all ? (double)queries / (double)all : 0;
  *out = (adji_range_trial){0};
  if (!all) return ADJ_OK;
  adji_gpu_lock(d->gpu);
  double before = adji_gpu_range_work(d->range).kernel_s;
  adj_status status = adji_gpu_range_sample(d->range, queries, &pairs, &candidates);
  double seconds = adji_gpu_range_work(d->range).kernel_s - before;
  adji_gpu_unlock(d->gpu);
  if (queries < all && !d->by_tensor) seconds /= sample_excess(d);
  if (!status) *out = scale_up(d, queries, less_begin(seconds, SAMPLE_S), pairs * part, candidates * part);
  d->candidates = out->candidates;
  return status;
}

static adj_status count_some(range_device *d, uint64_t wanted, adji_range_trial *out) {
  uint64_t queries, listed;
  adji_tally found = {0};
  if (wanted > d->lists.list_queries) wanted = d->lists.list_queries;
  adji_list_ranges list = {d->lists.ranges, 0, 0};
  list.count = adji_lists_sample(d->join.left->count, wanted, d->lists.ranges, &queries);
  uint64_t start = adji_now_ns();
  adj_status status = adji_gpu_lists_list(d->lists.range, &list, 0, d->join.ctx->threads, &listed);
  if (!status) status = adji_gpu_lists_listed(d->lists.range, 0, &found);
  double seconds = (double)(adji_now_ns() - start) * 1e-9;
  if (!status) *out = scale_up(d, queries, less_begin(seconds, LIST_S), (double)found.pairs, (double)found.candidates);
  return status;
}

/* Times a quarter of the queries first, then all. The difference is the time that more queries would take, since few
 * queries do not keep a device busy. In a short list most of it is the wait for a few long queries. If the first list
 * takes longer than the second, it has loaded kernels, and its time is ignored. */
static adj_status count_twice(range_device *d, uint64_t queries, adji_range_trial *out) {
  static const double LOADED = 1.5, SHORT_S = 0.01;
  adji_range_trial few;
  adj_status status = count_some(d, queries / 4 + 1, &few);
  if (!status) status = count_some(d, queries, out);
  if (status) return status;
  double all = (double)d->join.left->count, many = (double)out->queries, less = (double)few.queries;
  double took = out->count_s * many / all, few_took = few.count_s * less / all;
  double more = fmax(took - few_took, took / 8);
  if (took < SHORT_S) more = fmin(more, took / 4);
  if (many > less && few_took < LOADED * took) out->count_s = took + more * (all - many) / (many - less);
  return ADJ_OK;
}

adj_status adji_gpu_range_worker_try(adji_worker *worker, uint64_t queries, adji_range_trial *out) {
  range_device *d = worker->state;
  adji_pass pass = {.kind = ADJI_PASS_COUNT};
  *out = (adji_range_trial){0};
  if (!d->join.left->count) return ADJ_OK;
  adji_gpu_lock(d->gpu);
  adj_status status = make_lists(d);
  if (!status) status = adji_lists_begin(&d->lists, &pass);
  if (!status) {
    status = open_lists(d, &pass, queries < LIST_QUERIES ? queries : LIST_QUERIES);
    if (!status) status = count_twice(d, queries, out);
    if (status) adji_gpu_quiesce(d->gpu);
    adji_gpu_lists_end(d->lists.range);
    adji_lists_end(&d->lists, &(adji_device_stats){0});
  }
  adji_gpu_unlock(d->gpu);
  return status;
}
