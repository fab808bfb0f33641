/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a kNN join that cores and a GPU share: both have a tree of their own, and the order of the cores'
 * tree numbers the queries for both.
 *
 * A device that first has to be opened is slow to begin: meanwhile the cores build their tree, which then costs
 * nothing. One that is open may be done before the cores have a tree, and does the join alone where sharing would not
 * pay: with the tree built in b seconds, the join done in g by the device and in c by the cores, sharing takes
 * b + g c / (g + c). A guess from the size of the device bounds g from above; where that does not decide, it is asked
 * to search for some queries.
 */
#include "plan/plan_hybrid.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cpu/nearest.h"
#include "gpu/nearest_partner.h"
#include "plan/openings.h"
#include "plan/plan_nearest.h"

/* What sharing must take at most of the device's own time, for the estimates are rough. */
static const double WORTH_SHARING = 0.9;
enum { FEW_QUERIES = 1 << 18, PART_OF_QUERIES = 32 };

static adj_status open_partner(const void *wish, uint32_t number, adji_partner *out) {
  return adji_gpu_partner_create(wish, number, out);
}

/* The time of the cores' search in that of building their tree, which was measured on 16 cores with 10 million points:
 * for k = 8 twice in two dimensions, three times in three, 13 times in six; and about in proportion to k. */
static double search_in_trees(const adj_plan *plan) {
  return 0.9 * pow(1.56, plan->left->dim) * pow(fmax(plan->join.k, 2) / 8, 0.9);
}

double adji_tree_join_seconds(const adj_plan *plan) {
  return adji_tree_seconds(plan) * (1 + search_in_trees(plan));
}

/* The same of a device, at most: on an H200 it is 1.7 to 6.8 times as much. */
static double most_searches(const adj_plan *plan) {
  return 7 * search_in_trees(plan);
}

static bool sharing_pays(const adj_plan *plan, double tree_s, double device_s) {
  double cores_s = tree_s * search_in_trees(plan);
  return tree_s + device_s * cores_s / (device_s + cores_s) < WORTH_SHARING * device_s;
}

/* The device alone, if it is done soon enough; plan->engine tells. */
static adj_status choose_alone(adj_plan *plan, adji_opening *o) {
  double device_s = 0, tree_s = adji_tree_seconds(plan);
  if (adji_opening_end(o)) return ADJ_OK; /* which is seen to later */
  bool held = plan->tuning.device_blocks; /* when it searches, not when it builds */
  adj_status status = ADJ_OK;
  uint64_t some = plan->left->count / PART_OF_QUERIES;
  if (!held) device_s = adji_gpu_partner_guess(&o->partner, most_searches(plan));
  if (held || sharing_pays(plan, tree_s, device_s))
    status = adji_gpu_partner_try(&o->partner, some < FEW_QUERIES ? FEW_QUERIES : some, &device_s);
  if (status || sharing_pays(plan, tree_s, device_s)) return ADJ_OK; /* a device that fails will do so again */
  status = adji_gpu_partner_alone(&o->partner, &plan->engine);
  plan->choice.algorithm = "tree";
  plan->estimated_seconds = device_s;
  snprintf(plan->choice.reason, sizeof plan->choice.reason,
           "the GPU alone: it needs at most about %.2g s, and the cores at least %.2g s for their tree", device_s,
           tree_s);
  return status;
}

adji_share_options adji_share_of(const adji_tuning *t) {
  return (adji_share_options){t->share == ADJI_SHARE_FIXED, t->n_large, t->n_cwin, t->n_small, t->n_cpu};
}

/* The trees of the cores, and the engine that has the devices as partners. */
static adj_status make_shared(adj_plan *plan, adji_openings *all) {
  adji_partner partners[ADJI_MOST_DEVICES];
  const adji_tree *left = plan->self_join ? &plan->right_tree : &plan->left_tree;
  adji_nearest_options options = {.left = left,
                                  .right = &plan->right_tree,
                                  .batch = plan->tuning.batch,
                                  .partners = partners,
                                  .share = adji_share_of(&plan->tuning)};
  adj_status status = adji_build_trees(plan);
  if (!status) status = adji_openings_take(all, plan->ctx, left->ids, partners, &options.partner_count);
  if (!status) status = adji_nearest_create(&plan->join, &options, &plan->engine);
  if (status) return status;
  adji_openings_gave(all, partners, options.partner_count);
  if (!options.partner_count) plan->choice.backend = "cpu"; /* a warning says why */
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "cores and %u GPU%s have a tree each, and share queries %s",
           options.partner_count, options.partner_count == 1 ? "" : "s",
           options.share.fixed ? "in batches of fixed sizes" : "by what each gets done");
  return adji_estimate_tree(plan);
}

/* Whether the GPU does a join alone that is not shared: where cores would compare every pair too, which it is quicker
 * at. */
static bool device_takes_all(adj_plan *plan, const char *algorithm) {
  if (algorithm || !adji_surely_brute(plan) || adji_plan_nearest_on_gpu(plan, NULL)) return false;
  plan->choice.backend = "hybrid";
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "the GPU alone: brute force is not shared");
  return true;
}

/* What a GPU cannot do, cores do alone. */
static adj_status without_device(adj_plan *plan, const char *algorithm) {
  char why[256];
  snprintf(why, sizeof why, "%s", adj_last_error());
  adji_log(plan->ctx, ADJ_LOG_WARN, "the cores do this join alone: %s", why);
  return adji_plan_nearest(plan, algorithm);
}

adj_status adji_plan_nearest_hybrid(adj_plan *plan, const char *algorithm) {
  uint64_t begin = adji_now_ns();
  adji_nearest_wish wish = adji_nearest_wish_of(plan);
  adji_openings all = {.open = open_partner, .follow = adji_gpu_partner_follow, .wish = &wish};
  if (adji_gpu_partner_can(&wish)) return device_takes_all(plan, algorithm) ? ADJ_OK : without_device(plan, algorithm);
  plan->choice.backend = "hybrid";
  plan->choice.algorithm = "kdtree";
  plan->estimated_pairs = (double)plan->left->count * adji_join_reach(&plan->join);
  all.count = adji_gpu_partner_count(plan->ctx);
  bool beside = plan->tuning.share || all.count > 1 || !adji_a_device_is_open(plan->ctx);
  adji_openings_begin(&all, beside);
  adj_status status = beside ? ADJ_OK : choose_alone(plan, &all.each[0]);
  if (!status && !plan->engine.state) status = make_shared(plan, &all);
  adji_openings_drop(&all);
  plan->index_s = (double)(adji_now_ns() - begin) * 1e-9 - plan->plan_s;
  return status;
}
