/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a kNN join: choose, index.
 */
#include "plan/plan_nearest.h"

#include <stdio.h>
#include <string.h>

#include "cpu/brute.h"
#include "cpu/nearest.h"

static adj_status build_trees(adj_plan *plan) {
  uint32_t leaf = plan->tuning.leaf >= 64 ? 64 : plan->tuning.leaf >= 32 ? 32 : ADJI_LEAF;
  adj_status status = adji_tree_build(plan->ctx, plan->join.right, leaf, &plan->right_tree);
  if (!status && !plan->self_join) status = adji_tree_build(plan->ctx, plan->join.left, leaf, &plan->left_tree);
  if (status) return status;
  adji_nearest_options options = {.left = plan->self_join ? &plan->right_tree : &plan->left_tree,
                                  .right = &plan->right_tree,
                                  .batch = plan->tuning.batch,
                                  .round_robin = plan->tuning.queue == ADJI_OFF};
  return adji_nearest_create(&plan->join, &options, &plan->engine);
}

adj_status adji_plan_nearest(adj_plan *plan, const char *algorithm) {
  uint64_t begin = adji_now_ns();
  plan->choice.backend = "cpu";
  plan->choice.algorithm = algorithm ? algorithm : adji_measure_grows(&plan->measure) ? "kdtree" : "brute";
  plan->estimated_pairs = (double)plan->left->count * adji_join_reach(&plan->join);
  plan->estimated_candidates = (double)plan->left->count * (double)plan->right->count;
  uint64_t planned = adji_now_ns();
  adj_status status;
  if (!strcmp(plan->choice.algorithm, "kdtree")) {
    snprintf(plan->choice.reason, sizeof plan->choice.reason, "a tree");
    status = build_trees(plan);
  } else {
    adji_brute_options options = {(adji_brute_filter)plan->tuning.filter, plan->tuning.batch};
    status = adji_brute_create(&plan->join, &options, &plan->engine);
    if (!status)
      snprintf(plan->choice.reason, sizeof plan->choice.reason, "every pair is compared, filter: %s",
               adji_brute_filter_name(&plan->engine));
  }
  plan->plan_s = (double)(planned - begin) * 1e-9;
  plan->index_s = (double)(adji_now_ns() - planned) * 1e-9;
  return status;
}
