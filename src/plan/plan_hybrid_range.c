/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a range join that cores and a GPU share: both have a grid and an index of their own, each the one
 * that suits it, and the order of the cores' index numbers the queries for both.
 *
 * What they share are whole rows, counted first and then filled. Alone, either can do with less: a GPU that keeps what
 * it finds evaluates every pair once, or half of them. So sharing pays where a GPU is not many times as fast as the
 * cores, and for few dimensions, in which both count first in any case. A GPU is asked to count the neighbours of some
 * queries, and does the join alone where that is quicker: with the cores' index built in b seconds, the shared join
 * done in g by the device alone and in c by the cores alone, sharing takes b + g c / (g + c).
 *
 * A device that first has to be opened is slow to begin: meanwhile the cores build their index, which then costs
 * nothing.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/range.h"
#include "gpu/nearest_partner.h"
#include "gpu/range_partner.h"
#include "plan/choose_once.h"
#include "plan/openings.h"
#include "plan/plan_hybrid.h"
#include "plan/plan_range.h"

/* What sharing must take at most of the device's own time, for the estimates are rough. */
static const double WORTH_SHARING = 0.9;
enum { FEW_QUERIES = 1 << 14, PART_OF_QUERIES = 64 };

/* Nanoseconds that a point takes a core to get into the index, for each of its dimensions and beside them. On 16 cores
 * 20 million points took 150 ms in two dimensions and 120 to 180 in three. */
static const double INDEX_NS = 90, INDEX_DIM_NS = 15;

/* What finding neighbours takes of counting them, and what counting every two points once takes of counting them
 * twice: about, on an H200. */
static const double FIND = 1.5, MIRRORED = 0.6;

static double index_seconds(const adj_plan *plan) {
  double points = (double)plan->right->count + (plan->self_join ? 0 : (double)plan->left->count);
  return points * (INDEX_NS + INDEX_DIM_NS * plan->join.left->dim) * 1e-9 / plan->ctx->threads;
}

/* A join with few neighbours takes cores at least so many times what its index does. */
double adji_least_range_seconds(const adj_plan *plan) {
  return 3 * index_seconds(plan);
}

/* Seconds of a device: in lists, for cores to share; alone. */
typedef struct device_seconds {
  double shared, alone;
} device_seconds;

static device_seconds seconds_of(const adji_gpu_engine_options *options, const adji_range_trial *trial) {
  double found = fmax(FIND * trial->count_s, trial->copy_s);
  device_seconds s = {trial->count_s + found, trial->count_s + found};
  if (options->range.once)
    s.alone = trial->count_s * (options->range.mirrored ? MIRRORED : 1) + fmax(0.5 * trial->count_s, trial->copy_s);
  return s;
}

/* Both times, of which the lesser one decides. */
typedef struct verdict {
  double shared, alone;
} verdict;

static verdict judge(const adj_plan *plan, const adji_gpu_engine_options *options, const adji_range_trial *trial) {
  device_seconds device = seconds_of(options, trial);
  bool indexed = plan->right_index.ctx;
  double cores = indexed ? adji_counted_seconds(plan, plan->estimated_pairs, plan->estimated_candidates)
                         : adji_counted_seconds(plan, trial->pairs, trial->candidates);
  double both = device.shared + cores > 0 ? device.shared * cores / (device.shared + cores) : 0;
  return (verdict){both + (indexed ? 0 : index_seconds(plan)), device.alone};
}

static bool sharing_pays(const verdict *v) {
  return v->shared < WORTH_SHARING * v->alone;
}

/* Whether cores that evaluate every pair once are quicker alone: what is shared is counted first. */
static bool cores_are_quicker(adj_plan *plan, const adji_gpu_engine_options *options, const adji_range_trial *trial) {
  if (!plan->choice.once || !(trial->count_s > 0)) return false;
  double shared = judge(plan, options, trial).shared;
  if (!(plan->estimated_seconds < shared)) return false;
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "the cores alone: they evaluate every pair once in about %.2g s, and with the GPU's help need %.2g s",
           plan->estimated_seconds, shared);
  return true;
}

/* The device alone, if it is done soon enough; plan->choice.backend tells. */
static adj_status choose_alone(adj_plan *plan, const adji_gpu_engine_options *options, adji_opening *o,
                               adji_range_trial *trial) {
  uint64_t more = plan->left->count / PART_OF_QUERIES;
  if (adji_opening_end(o)) return ADJ_OK; /* which is seen to later */
  adj_status status = adji_gpu_range_partner_try(&o->partner, FEW_QUERIES, trial);
  if (status) return ADJ_OK; /* it will do so again */
  verdict v = judge(plan, options, trial);
  if (sharing_pays(&v) && more > FEW_QUERIES) {
    if (adji_gpu_range_partner_try(&o->partner, more, trial)) return ADJ_OK;
    v = judge(plan, options, trial);
  }
  if (sharing_pays(&v)) return ADJ_OK;
  adji_forget_cores(plan);
  plan->grid = plan->device_grid;
  plan->device_grid = (adji_grid){0};
  status = adji_gpu_range_partner_alone(&o->partner, &plan->engine);
  if (status) return status;
  plan->choice.backend = "gpu";
  plan->choice.algorithm = plan->grid.axis_count ? "grid" : "brute";
  plan->choice.once = false;
  plan->estimated_seconds = v.alone;
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "the GPU alone: it needs about %.2g s, and with the cores' help %.2g s", v.alone, v.shared);
  return adji_estimate_on_device(plan);
}

/* The engine of the cores has the devices as partners. */
static adj_status share(adj_plan *plan, adji_openings *all) {
  adji_partner partners[ADJI_MOST_DEVICES];
  uint32_t count = 0;
  adji_share_options options = adji_share_of(&plan->tuning);
  const adji_index *left = plan->one_index ? &plan->right_index : &plan->left_index;
  adj_status status = adji_openings_take(all, plan->ctx, left->view.ids, partners, &count);
  if (!count) adji_grid_clear(plan->ctx, &plan->device_grid);
  if (status || !count) return status; /* a warning says why */
  status = adji_range_share(&plan->engine, partners, count, &options);
  if (status) return status;
  adji_openings_gave(all, partners, count);
  plan->choice.backend = "hybrid";
  plan->choice.once = false;
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "cores and %u GPU%s have an index each, and share queries %s", count, count == 1 ? "" : "s",
           options.fixed ? "in batches of fixed sizes" : "by what each gets done");
  return ADJ_OK;
}

/* The grid of the devices beside that of the cores: chosen as if the join were a GPU's. */
static adj_status choose_for_devices(adj_plan *plan, const char *algorithm, adji_gpu_engine_options *out) {
  adj_plan device = *plan;
  adj_status status = adji_choose_for_device(&device, algorithm, out);
  if (status) adji_grid_clear(plan->ctx, &device.grid);
  if (status) return status;
  plan->device_grid = device.grid;
  plan->product = device.product;
  out->range.join = &plan->join;
  out->range.measure = &plan->measure;
  out->range.grid = &plan->device_grid;
  out->range.product = &plan->product;
  return ADJ_OK;
}

/* What a GPU cannot do, cores do alone. */
static adj_status without_device(adj_plan *plan, const char *algorithm) {
  char why[256];
  snprintf(why, sizeof why, "%s", adj_last_error());
  adji_log(plan->ctx, ADJ_LOG_WARN, "the cores do this join alone: %s", why);
  adji_grid_clear(plan->ctx, &plan->device_grid);
  return adji_plan_range_on_cores(plan, algorithm);
}

static adj_status open_partner(const void *wish, uint32_t number, adji_partner *out) {
  return adji_gpu_range_partner_create(wish, number, out);
}

/* Opens the devices, and has them and the cores share the join, or one of them do it alone. Cores that are not planned
 * for yet are while the devices are opened, or after one that is open has said how long it would take. */
static adj_status with_devices(adj_plan *plan, const char *algorithm, const adji_gpu_engine_options *options) {
  uint64_t begin = adji_now_ns();
  double before = plan->index_s + plan->plan_s;
  adji_openings all = {.open = open_partner, .follow = adji_gpu_range_partner_follow, .wish = options};
  all.count = adji_gpu_partner_count(plan->ctx);
  bool chosen = plan->tuning.share || all.count > 1;
  adji_range_trial trial = {0};
  bool beside = chosen || plan->engine.state || !adji_a_device_is_open(plan->ctx);
  adji_openings_begin(&all, beside);
  adj_status status = beside ? ADJ_OK : choose_alone(plan, options, &all.each[0], &trial);
  if (!status && !plan->engine.state) status = adji_plan_range_on_cores(plan, algorithm);
  if (!status && beside && !chosen) status = choose_alone(plan, options, &all.each[0], &trial);
  if (!status && strcmp(plan->choice.backend, "gpu") && !cores_are_quicker(plan, options, &trial))
    status = share(plan, &all);
  adji_openings_drop(&all);
  if (!status && !strcmp(plan->choice.backend, "cpu")) adji_grid_clear(plan->ctx, &plan->device_grid);
  plan->index_s = before + (double)(adji_now_ns() - begin) * 1e-9 - plan->plan_s;
  return status;
}

adj_status adji_plan_range_hybrid(adj_plan *plan, const char *algorithm) {
  adji_gpu_engine_options options;
  adj_status status = choose_for_devices(plan, algorithm, &options);
  if (!status) status = adji_gpu_range_partner_can(&options);
  if (status == ADJ_E_UNSUPPORTED) return without_device(plan, algorithm);
  return status ? status : with_devices(plan, algorithm, &options);
}

adj_status adji_plan_range_helped(adj_plan *plan, const char *algorithm) {
  adji_gpu_engine_options options;
  adj_status status = choose_for_devices(plan, algorithm, &options);
  if (!status) status = adji_gpu_range_partner_can(&options);
  if (!status) return with_devices(plan, algorithm, &options);
  adji_grid_clear(plan->ctx, &plan->device_grid);
  return status == ADJ_E_UNSUPPORTED ? ADJ_OK : status;
}
