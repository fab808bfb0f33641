/* SPDX-License-Identifier: MIT
 *
 * Makes a plan for a range join that cores and a GPU share. Each has its own grid and index, as suits it; queries are
 * numbered in the order of the cores' index.
 *
 * They share whole rows, which are counted first and then filled. Alone, either may need less work: a GPU that keeps
 * what it finds evaluates every pair once, or half of the pairs. So sharing pays if a GPU is not many times as fast as
 * the cores, and in few dimensions, where both count first anyway. In a self-join in which both would evaluate once,
 * they do so together: the device has the grid of the cores and its points in their order, and of two points the first
 * finds the other, whichever worker processes it. A GPU counts the neighbours of some queries, and does the join alone
 * if that is faster (choose_backend.c).
 *
 * Cores do not build an index before that, even if the device has to be opened first: 2 million points in two
 * dimensions with 10 neighbours took 310 ms when they did, and 237 ms on the device alone.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/ego_range.h"
#include "cpu/range.h"
#include "gpu/worker/devices.h"
#include "gpu/worker/range.h"
#include "plan/pending_devices.h"
#include "plan/plan.h"

/* A device is timed with FEW_QUERIES queries, fewer for small sets, then with one query in PART_OF_QUERIES. If that
 * takes less than LONG_ENOUGH_S, it may not have kept the whole device busy, and a larger part is timed. */
enum { FEW_QUERIES = 1 << 14, LEAST_QUERIES = 1 << 11, FIRST_PART = 12, PART_OF_QUERIES = 64, LARGE_PART = 8 };

static const double LONG_ENOUGH_S = 0.01;

static double index_seconds(const adj_plan *plan) {
  double points = (double)plan->right->count + (plan->self_join ? 0 : (double)plan->left->count);
  const adji_costs *costs = &plan->ctx->costs;
  return points * (costs->index_point_ns + costs->index_dim_ns * plan->join.left->dim) * 1e-9 / plan->ctx->threads;
}

double adji_least_range_seconds(const adj_plan *plan) {
  return plan->ctx->costs.least_range * index_seconds(plan);
}

/* Whether a GPU can share queries so that each pair is evaluated once. With many points in a cell it would not do so
 * alone, but when sharing it does: the cores gain more than the device loses. */
static bool device_shares_single(const adj_plan *plan, const adji_gpu_worker_options *options) {
  return !adji_access_by_point(options->range.points.access) && plan->self_join && plan->tuning.single != ADJI_OFF &&
         plan->tuning.mirrored != ADJI_OFF && options->range.single && !plan->device.grid.tensor.use &&
         adji_gpu_can_mirror(&plan->measure, plan->join.left->dim);
}

/* Called when the cores have an index and an estimate. A single device makes the rows of the pairs that cores find;
 * several devices leave that to the cores. */
static bool shares_single(const adj_plan *plan, const adji_gpu_worker_options *options) {
  if (!device_shares_single(plan, options) || plan->choice.algorithm != ADJI_ALGORITHM_GRID ||
      !adji_range_index_of(&plan->engine)->symmetric)
    return false;
  double pairs = plan->estimated_pairs, candidates = plan->estimated_candidates;
  return plan->choice.single ||
         (adji_gpu_worker_count(plan->ctx) == 1 && adji_sent_seconds(&plan->question, pairs, candidates) <
                                                       adji_counted_seconds(&plan->question, pairs, candidates));
}

/* The time of a device that keeps the pairs it finds. */
static double kept_seconds(const adj_plan *plan, const adji_range_trial *trial, bool mirrored) {
  return trial->count_s * (mirrored ? plan->ctx->costs.device_mirrored : 1) + fmax(0.5 * trial->count_s, trial->copy_s);
}

/* The time of a device that works alone, or does lists. */
static double find_seconds(const adj_plan *plan, const adji_gpu_worker_options *options, const adji_range_trial *trial,
                           bool alone) {
  double batch = (double)(options->batch_bytes ? options->batch_bytes : ADJI_GPU_BATCH);
  const adji_costs *costs = &plan->ctx->costs;
  double factor = costs->device_find;
  bool one = trial->pairs * (double)adji_plan_entry_bytes(plan) <= batch;
  if (plan->join.left->dim <= 3) factor = alone && !one ? costs->device_find_batches : costs->device_find_lists;
  return fmax(factor * trial->count_s, trial->copy_s);
}

/* Times for rows that are counted first and then filled. */
static adji_share_times times_counted(const adj_plan *plan, const adji_gpu_worker_options *options,
                                      const adji_range_trial *trial) {
  bool indexed = plan->engine.worker_count;
  adji_share_times t = {.place = trial->copy_s, .extra = plan->ctx->costs.sharing_s};
  t.device = trial->count_s + find_seconds(plan, options, trial, false);
  t.alone = trial->count_s + find_seconds(plan, options, trial, true);
  if (options->range.single) t.alone = kept_seconds(plan, trial, options->range.mirrored);
  t.index = indexed ? 0 : index_seconds(plan);
  t.cores = indexed ? adji_counted_seconds(&plan->question, plan->estimated_pairs, plan->estimated_candidates)
                    : adji_counted_seconds(&plan->question, trial->pairs, trial->candidates);
  return t;
}

adji_share_times adji_range_times(const adj_plan *plan, const adji_range_trial *trial) {
  return times_counted(plan, &plan->device.options, trial);
}

/* The same, or with each pair evaluated once if that is faster. */
static adji_share_times times_of(const adj_plan *plan, const adji_gpu_worker_options *options,
                                 const adji_range_trial *trial) {
  bool indexed = plan->engine.worker_count;
  adji_share_times t = times_counted(plan, options, trial), single = t;
  if (indexed ? !shares_single(plan, options) : !device_shares_single(plan, options)) return t;
  single.cores = indexed ? adji_sent_seconds(&plan->question, plan->estimated_pairs, plan->estimated_candidates)
                         : adji_sent_seconds(&plan->question, trial->pairs, trial->candidates);
  single.device = kept_seconds(plan, trial, true);
  return adji_shared_seconds(&single) < adji_shared_seconds(&t) ? single : t;
}

/* Whether cores that evaluate every pair once, or stage rows, are faster alone: a shared join is often counted first.
 */
static bool cores_are_quicker(adj_plan *plan, const adji_gpu_worker_options *options, const adji_range_trial *trial) {
  bool once = plan->choice.single || plan->choice.staged;
  if (!once || !(trial->count_s > 0)) return false;
  adji_share_times t = times_of(plan, options, trial);
  double shared = adji_shared_seconds(&t);
  t.alone = plan->estimated_seconds;
  if (shares_single(plan, options) ? adji_sharing_pays(&t) : shared < plan->estimated_seconds) return false;
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "the cores alone: they do it in one pass in about %.2g s, and with the GPU's help need %.2g s",
           plan->estimated_seconds, shared);
  return true;
}

/* Estimates the device's time as precisely as needed. A sample may show that it finishes before cores could help;
 * otherwise some queries are timed, and then more. */
static adj_status ask_device(const adj_plan *plan, const adji_gpu_worker_options *options, adji_worker *worker,
                             adji_range_trial *trial, adji_share_times *t) {
  uint64_t all = plan->left->count, few = all / FIRST_PART;
  if (few < LEAST_QUERIES) few = LEAST_QUERIES;
  if (few > FEW_QUERIES) few = FEW_QUERIES;
  uint64_t many[] = {adji_device_sample(plan), few, all / PART_OF_QUERIES, all / LARGE_PART};
  adj_status status = ADJ_OK;
  for (int i = 0; i < 4 && !status; i++) {
    if (i >= 2 && many[i] <= FEW_QUERIES) continue;
    if (i == 3 && trial->count_s * (double)trial->queries > LONG_ENOUGH_S * (double)all) break;
    status =
        i ? adji_gpu_range_worker_try(worker, many[i], trial) : adji_gpu_range_worker_guess(worker, many[i], trial);
    *t = times_of(plan, options, trial);
    if (!adji_sharing_pays(t)) break;
  }
  return status;
}

/* Gives the join to the device alone if that is faster: plan->choice.backend is then ADJ_BACKEND_GPU. */
static adj_status choose_alone(adj_plan *plan, const adji_gpu_worker_options *options, adji_pending_device *device,
                               adji_range_trial *trial) {
  adji_share_times t;
  if (adji_pending_wait(device)) return ADJ_OK;                             /* handled by adji_pending_add() */
  if (ask_device(plan, options, &device->worker, trial, &t)) return ADJ_OK; /* it will fail again */
  if (adji_sharing_pays(&t)) return ADJ_OK;
  adji_forget_cores(plan);
  adji_pending_give(device, &plan->engine, &plan->join);
  plan->choice.backend = ADJ_BACKEND_GPU;
  plan->choice.algorithm = plan->device.grid.grid.axis_count ? ADJI_ALGORITHM_GRID : ADJI_ALGORITHM_BRUTE;
  plan->choice.single = plan->choice.staged = false;
  plan->estimated_seconds = t.alone;
  plan->estimated_count_seconds = trial->count_s;
  plan->estimated_pairs = trial->pairs;
  plan->estimated_candidates = trial->candidates;
  plan->sampled = trial->queries;
  plan->cells = adji_gpu_range_engine_cells(&plan->engine);
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "the GPU alone: it needs about %.2g s, and with the cores' help %.2g s", t.alone, adji_shared_seconds(&t));
  return ADJ_OK;
}

/* Adds the devices to the engine of the cores. */
static adj_status share(adj_plan *plan, adji_pending_devices *all, bool single) {
  uint32_t count = 0;
  adj_status status = adji_pending_add(all, &plan->engine, &count);
  if (!count) adji_forget_device(plan);
  if (status || !count) return status; /* a warning says why */
  plan->engine.share = adji_share_of(&plan->tuning);
  plan->choice.backend = ADJ_BACKEND_HYBRID;
  plan->choice.single = single;
  plan->choice.staged = false;
  if (!adji_plan_is_dual(plan)) adji_range_set_single(&plan->engine, single, single);
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "cores and %u GPU%s have %s, and share queries %s", count,
           count == 1 ? "" : "s",
           single ? "the same order, in which the first of two points finds the other" : "an index each",
           plan->engine.share.fixed ? "in batches of fixed sizes" : "by what each gets done");
  return ADJ_OK;
}

/* ---- HEGJoin ---------------------------------------------------------------------------------------- */

/* The results of a batch of the device: as many as it has room for, but so few that there are at least twice as many
 * batches as streams. Then it does not take more than half of the queries at once (section 4.2). */
static double batch_results(const adj_plan *plan, uint32_t streams, double results) {
  uint64_t room = plan->tuning.batch_size ? plan->tuning.batch_size : ADJI_BATCH_PAIRS;
  return fmin((double)room, results / (2 * streams));
}

/* Sets the queue of the cores, which search as planned: by EGO-Join as published, or with a grid. */
static adj_status set_queue(adj_plan *plan, adji_range_queue *queue, double *results) {
  return adji_plan_is_dual(plan) ? adji_ego_range_set_queue(&plan->engine, queue, results)
                                 : adji_range_set_queue(&plan->engine, queue, results);
}

/* The device makes a queue from its grid, from which the cores take their queries too. If it cannot, the join is shared
 * by rates. */
static adj_status share_results(adj_plan *plan, adji_pending_devices *all) {
  const adji_tuning *t = &plan->tuning;
  adji_memory *memory = &plan->ctx->memory;
  adji_range_queue queue = {0};
  double part = t->sample_part > 0 ? t->sample_part : ADJI_BATCH_SAMPLE, results = 0;
  uint32_t streams = t->paper_streams ? (uint32_t)t->paper_streams : ADJI_BATCH_STREAMS;
  adj_status status = adji_pending_wait(&all->each[0]);
  if (!status) status = adji_gpu_range_worker_queue(&all->each[0].worker, part, streams, &queue);
  for (uint32_t i = 1; i < all->count && !status; i++) /* the others follow */
    if (!adji_pending_wait(&all->each[i])) adji_gpu_range_worker_streams(&all->each[i].worker, streams);
  if (!status) status = set_queue(plan, &queue, &results);
  adji_range_queue_clear(memory, &queue);
  if (status == ADJ_E_MEMORY) return status;
  if (status && all->each[0].worker.destroy) adji_pending_note(&all->each[0], status);
  bool made = !status;
  status = share(plan, all, false);
  if (plan->choice.backend != ADJ_BACKEND_HYBRID) return status ? status : set_queue(plan, NULL, NULL);
  if (made) plan->engine.share.equal = batch_results(plan, streams, results);
  if (made)
    snprintf(plan->choice.reason, sizeof plan->choice.reason,
             "a GPU takes the queries with the most candidates, in batches of about %.3g results, and the cores those "
             "with the fewest",
             plan->engine.share.equal);
  return status;
}

static adj_status open_worker(const void *options, uint32_t number, adji_worker *out) {
  return adji_gpu_range_worker_create(options, number, out);
}

/* It is not known which part of the pairs a device finds: this is room for all of them, and for what warps leave
 * unused. */
static uint64_t room_for_pairs(const adj_plan *plan) {
  double entries = plan->estimated_pairs * (plan->join.style.one_way ? 1.2 : 0.6);
  return (uint64_t)(entries + 1.3 * (double)plan->left->count) + 1024;
}

/* The same with devices that use the grid and the order of the cores. They have the points already. */
static adj_status share_single(adj_plan *plan, adji_pending_devices *all, const adji_gpu_worker_options *options) {
  adji_gpu_range_options range = options->range;
  range.grid = &adji_range_index_of(&plan->engine)->grid;
  range.order = plan->engine.order;
  range.mirrored = true;
  if (!range.single_pairs) range.single_pairs = room_for_pairs(plan);
  for (uint32_t i = 0; i < all->count; i++)
    if (adji_pending_wait(&all->each[i]) || !adji_gpu_range_worker_has_room(&all->each[i].worker, range.single_pairs))
      return share(plan, all, false); /* which handles a missing device */
  for (uint32_t i = 0; i < all->count; i++)
    adji_pending_note(&all->each[i], adji_gpu_range_worker_reopen(&all->each[i].worker, &range));
  adji_forget_device(plan); /* its own grid is not needed now */
  return share(plan, all, true);
}

/* Opens the devices, and lets them and the cores share the join, or one device do it alone. If queries are so few that
 * the cores take them in their own order, there is no order to share them by. If the cores are not planned for yet,
 * this happens while several devices are opened, or after a single device has been timed. */
static adj_status with_devices(adj_plan *plan, adji_algorithm algorithm) {
  adji_gpu_worker_options *options = &plan->device.options;
  uint64_t begin = adji_now_ns();
  double before = plan->index_s + plan->plan_s;
  adji_pending_devices all = {.open = open_worker, .follow = adji_gpu_range_worker_follow, .options = options};
  all.count = adji_gpu_worker_count(plan->ctx);
  options->reopened = device_shares_single(plan, options);
  bool chosen = plan->tuning.share || all.count > 1;
  adji_range_trial trial = {0};
  bool beside = chosen || plan->engine.worker_count;
  adji_pending_open(&all, beside);
  adj_status status = beside ? ADJ_OK : choose_alone(plan, options, &all.each[0], &trial);
  if (!status && !plan->engine.worker_count) status = adji_plan_range_on_cores(plan, algorithm);
  if (!status && beside && !chosen) status = choose_alone(plan, options, &all.each[0], &trial);
  bool shared = plan->choice.backend != ADJ_BACKEND_GPU && plan->engine.order;
  if (!status && shared && !cores_are_quicker(plan, options, &trial))
    status = plan->tuning.share == ADJI_SHARE_RESULTS ? share_results(plan, &all)
             : shares_single(plan, options)           ? share_single(plan, &all, options)
                                                      : share(plan, &all, false);
  adji_pending_drop(&all);
  adji_note_device(plan);
  if (!status && plan->choice.backend == ADJ_BACKEND_CPU) adji_forget_device(plan);
  plan->index_s = before + (double)(adji_now_ns() - begin) * 1e-9 - plan->plan_s;
  return status;
}

/* Sets that do not fit the device are not shared: a device that works region by region is still many times as fast as
 * cores. */
static bool device_takes_regions(adj_plan *plan, adji_algorithm algorithm) {
  const adji_gpu_worker_options *options = &plan->device.options;
  if (plan->tuning.share || adji_gpu_worker_count(plan->ctx) > 1 || !adji_gpu_range_by_regions(options) ||
      adji_gpu_range_fits(options))
    return false;
  adji_forget_device(plan); /* it is planned again below */
  adj_status status = adji_plan_range_on_gpu(plan, algorithm);
  if (status) { /* a plan with cores says why */
    adji_forget_cores(plan);
    adji_forget_device(plan);
    plan->choice = (adji_choice){0};
    (void)adji_choose_for_device(&plan->question, algorithm, &plan->device);
    return false;
  }
  plan->choice.backend = ADJ_BACKEND_HYBRID;
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "the GPU alone, in chunks: its memory does not hold the points and their index");
  return true;
}

/* ---- All pairs ------------------------------------------------------------------------------------------ */

/* Without a grid and tensor cores a device compares its queries with every right point: in many dimensions in tiles,
 * and inner products always. It is not timed first: the time is known well enough. */
static bool compares_all(const adj_plan *plan) {
  bool all = plan->device.options.range.all_pairs || !adji_measure_grows(&plan->measure);
  return all && !plan->tuning.share && adji_gpu_worker_count(plan->ctx) == 1;
}

/* The time of one pass of the cores over all pairs. */
static double cores_pass_seconds(const adj_plan *plan) {
  const adji_costs *costs = &plan->ctx->costs;
  double pairs = (double)plan->left->count * (double)plan->right->count;
  double ns = costs->plain_pair_ns + costs->plain_dim_ns * plan->join.left->dim;
  return costs->cores_all_pairs_s + costs->cores_all_pairs * pairs * ns * 1e-9 / plan->ctx->threads;
}

/* Pairs that the device has found and kept are copied into the result; without room to keep them they are found
 * again. */
static void forecast_all(adj_plan *plan, double pass_s) {
  double bytes = plan->estimated_pairs * (double)adji_plan_entry_bytes(plan);
  plan->estimated_count_seconds = pass_s;
  plan->estimated_seconds = (plan->device.options.range.single ? 1.1 : 3) * pass_s + bytes / plan->ctx->costs.copy_rate;
}

/* Plans for the cores or for the device alone, whichever should be faster. */
static adj_status compare_all(adj_plan *plan, adji_algorithm algorithm) {
  double device_s = adji_all_pairs_seconds(&plan->question, (double)plan->left->count);
  double cores_s = cores_pass_seconds(plan);
  bool cores = cores_s < device_s;
  if (cores) adji_forget_device(plan);
  adj_status status = cores ? ADJ_OK : adji_plan_range_as_chosen(plan, algorithm);
  if (status == ADJ_E_DEVICE || status == ADJ_E_DEVICE_MEMORY) {
    adji_log(plan->ctx, ADJ_LOG_WARN, "the cores do this join alone: %s", adj_last_error());
    adji_forget_cores(plan); /* which frees the engine of any worker */
    adji_forget_device(plan);
    plan->choice = (adji_choice){.alone = plan->choice.alone};
    return adji_plan_range_on_cores(plan, algorithm);
  }
  if (cores) status = adji_plan_range_on_cores(plan, algorithm);
  if (status) return status;
  if (!cores) plan->choice.algorithm = ADJI_ALGORITHM_BRUTE;
  if (!cores) forecast_all(plan, device_s);
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "the %s alone: comparing all pairs takes the cores about %.2g s, and the GPU %.2g s",
           cores ? "cores" : "GPU", cores_s, device_s);
  return ADJ_OK;
}

adj_status adji_plan_range_hybrid(adj_plan *plan, adji_algorithm algorithm) {
  const adji_gpu_worker_options *options = &plan->device.options;
  adj_status status = adji_choose_for_device(&plan->question, algorithm, &plan->device);
  if (!status) status = adji_gpu_range_can_share(options);
  if (!status) status = adji_gpu_can_be();
  if (!status && compares_all(plan)) return compare_all(plan, algorithm);
  if (!status && device_takes_regions(plan, algorithm)) return ADJ_OK;
  return status ? status : with_devices(plan, algorithm);
}

adj_status adji_plan_range_helped(adj_plan *plan, adji_algorithm algorithm) {
  const adji_gpu_worker_options *options = &plan->device.options;
  adj_status status = adji_choose_for_device(&plan->question, algorithm, &plan->device);
  if (!status) status = adji_gpu_range_can_share(options);
  if (!status) return with_devices(plan, algorithm);
  adji_forget_device(plan);
  return status == ADJ_E_UNSUPPORTED ? ADJ_OK : status;
}
