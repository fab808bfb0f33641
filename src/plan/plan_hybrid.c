/* SPDX-License-Identifier: MIT
 *
 * Makes a plan for a kNN join that cores and a GPU share. Each has its own tree; queries are numbered in the order of
 * the cores' tree.
 *
 * A device may finish before the cores have built a tree. It does the join alone if sharing would not pay
 * (choose_backend.c). The size of the join bounds the device's time from above. If that does not decide, some queries
 * are timed. Cores do not build a tree before that, even if the device has to be opened first: with 10 million points
 * in two dimensions opening took 75 ms longer while the cores built, and sharing the queries took 56 ms longer than the
 * device alone.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/knn.h"
#include "gpu/device/staging.h"
#include "gpu/worker/devices.h"
#include "plan/pending_devices.h"
#include "plan/plan.h"

enum { FEW_QUERIES = 1 << 18, PART_OF_QUERIES = 32 };

static adj_status open_worker(const void *options, uint32_t number, adji_worker *out) {
  return adji_gpu_knn_worker_create(options, number, out);
}

double adji_most_searches(const adj_plan *plan) {
  const adji_costs *costs = &plan->ctx->costs;
  return costs->device_search * pow(costs->device_search_dim, plan->left->dim) *
         pow(fmax(plan->join.k, 2) / 8, costs->device_search_k_power);
}

adji_share_times adji_knn_times(const adj_plan *plan, double device_s) {
  double bytes = (double)plan->left->count * plan->join.k * (double)adji_plan_entry_bytes(plan);
  return (adji_share_times){.index = adji_tree_seconds(&plan->join),
                            .cores = adji_search_seconds(&plan->join),
                            .device = device_s,
                            .place = bytes / plan->ctx->costs.copy_rate,
                            .alone = device_s,
                            .extra = plan->ctx->costs.sharing_s};
}

/* Gives the join to the device alone if that is fast enough: plan->engine then has a worker. With few queries a trial
 * would be as long as the join; then the usual time decides. */
static adj_status choose_alone(adj_plan *plan, adji_pending_device *device) {
  double device_s = 0;
  if (adji_pending_wait(device)) return ADJ_OK; /* handled by adji_pending_add() */
  bool held = plan->tuning.device_blocks;       /* limits the search, not the building of the tree */
  adj_status status = ADJ_OK;
  uint64_t some = plan->left->count / PART_OF_QUERIES;
  if (!held) device_s = adji_gpu_knn_worker_guess(&device->worker, adji_most_searches(plan));
  adji_share_times t = adji_knn_times(plan, device_s);
  bool tried = held || (adji_sharing_pays(&t) && plan->left->count > FEW_QUERIES);
  if (tried)
    status = adji_gpu_knn_worker_try(&device->worker, some < FEW_QUERIES ? FEW_QUERIES : some, &device_s);
  else
    device_s *= plan->ctx->costs.device_search_usual;
  t = adji_knn_times(plan, device_s);
  if (status || adji_sharing_pays(&t)) return ADJ_OK; /* a device that fails will do so again */
  adji_pending_give(device, &plan->engine, &plan->join);
  plan->choice.algorithm = ADJI_ALGORITHM_KDTREE;
  plan->estimated_seconds = device_s;
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "the GPU alone: it needs about %.2g s, and with the cores' help %.2g s", device_s, adji_shared_seconds(&t));
  return ADJ_OK;
}

adji_share_options adji_share_of(const adji_tuning *t) {
  return (adji_share_options){.fixed = t->share == ADJI_SHARE_FIXED,
                              .large = t->n_large,
                              .reserved = t->n_cwin,
                              .small = t->n_small,
                              .cpu = t->n_cpu,
                              .unreserved = ADJI_TUNING_IS_ZERO(t, n_cwin)};
}

/* Builds the trees of the cores, and shares the queries with the devices. */
static adj_status make_shared(adj_plan *plan, adji_pending_devices *all) {
  uint32_t devices = 0;
  double epsilon = -1;
  bool by_cells = plan->tuning.queue == ADJI_KNN_QUEUE_CELLS;
  if (by_cells && !adji_pending_wait(&all->each[0])) epsilon = adji_gpu_knn_worker_epsilon(&all->each[0].worker);
  adj_status status = adji_make_trees(plan, epsilon, &plan->engine);
  if (!status) status = adji_pending_add(all, &plan->engine, &devices);
  if (status) return status;
  plan->engine.share = adji_share_of(&plan->tuning);
  if (!devices) { /* a warning says why */
    plan->choice.backend = ADJ_BACKEND_CPU;
    plan->choice.algorithm = ADJI_ALGORITHM_KDTREE;
  }
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "cores and %u GPU%s have a tree each%s, and share queries %s", devices, devices == 1 ? "" : "s",
           plan->choice.algorithm == ADJI_ALGORITHM_GRID ? " and the GPU a grid, whose failed queries go back" : "",
           plan->engine.share.fixed ? "in batches of fixed sizes" : "by what each gets done");
  return adji_estimate_tree(plan);
}

/* A join that is not shared, and that cores too would do by brute force, goes to the GPU, which is faster. */
static bool device_takes_all(adj_plan *plan, adji_algorithm algorithm) {
  if (algorithm || !adji_surely_brute(&plan->join) || adji_plan_knn_on_gpu(plan, ADJI_ALGORITHM_AUTO)) return false;
  plan->choice.backend = ADJ_BACKEND_HYBRID;
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "the GPU alone: brute force is not shared");
  return true;
}

/* Sets that do not fit the device are not shared: a device working in chunks is still many times as fast as cores. */
static bool device_takes_chunks(adj_plan *plan, adji_algorithm algorithm, const adji_gpu_knn_options *options) {
  if (adji_gpu_knn_fits(options)) return false;
  adj_status status = adji_plan_knn_on_gpu(plan, algorithm ? algorithm : ADJI_ALGORITHM_KDTREE);
  if (status) return false;
  plan->choice.backend = ADJ_BACKEND_HYBRID;
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "the GPU alone, in chunks: its memory does not hold the points and their trees");
  return true;
}

/* The cores do a join alone that a GPU cannot, unless a setting is for GPUs only. */
static adj_status without_device(adj_plan *plan, adji_algorithm algorithm, adj_status status) {
  const char *setting = adji_tuning_not_for(&plan->tuning, ADJ_KNN, ADJ_BACKEND_CPU);
  char why[256];
  snprintf(why, sizeof why, "%s", adj_last_error());
  if (setting) return adji_fail(status, "tuning: %s=: %s", setting, why);
  adji_log(plan->ctx, ADJ_LOG_WARN, "the cores do this join alone: %s", why);
  return adji_plan_knn(plan, algorithm);
}

adj_status adji_plan_knn_hybrid(adj_plan *plan, adji_algorithm algorithm) {
  uint64_t begin = adji_now_ns();
  adji_gpu_knn_options options = adji_knn_request_of(plan).options;
  adji_pending_devices all = {.open = open_worker, .follow = adji_gpu_knn_worker_follow, .options = &options};
  options.grid.use = algorithm == ADJI_ALGORITHM_GRID; /* the papers' method, which is always shared */
  adj_status status = adji_check_knn_kernels(plan);
  if (!status) status = adji_check_knn_queue(plan);
  if (!status) status = adji_gpu_can_be();
  if (status) return status;
  status = adji_gpu_knn_can_share(&plan->join, &plan->measure);
  if (status && options.grid.use) return status;
  if (status) return device_takes_all(plan, algorithm) ? ADJ_OK : without_device(plan, algorithm, status);
  plan->choice.backend = ADJ_BACKEND_HYBRID;
  plan->choice.algorithm = options.grid.use ? ADJI_ALGORITHM_GRID : ADJI_ALGORITHM_KDTREE;
  plan->estimated_pairs = (double)plan->left->count * adji_join_reach(&plan->join);
  all.count = adji_gpu_worker_count(plan->ctx);
  bool beside = plan->tuning.share || all.count > 1 || options.grid.use || plan->tuning.queue;
  if (!beside && device_takes_chunks(plan, algorithm, &options)) return ADJ_OK;
  adji_pending_open(&all, beside);
  if (!beside) status = choose_alone(plan, &all.each[0]);
  if (!status && !plan->engine.worker_count) status = make_shared(plan, &all);
  adji_pending_drop(&all);
  adji_note_device(plan);
  plan->index_s = (double)(adji_now_ns() - begin) * 1e-9 - plan->plan_s;
  return status;
}
