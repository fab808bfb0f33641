/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a kNN join.
 */
#include "plan/plan_nearest.h"

#include <stdio.h>

#include "cpu/brute.h"

adj_status adji_plan_nearest(adj_plan *plan, const char *algorithm) {
  plan->choice.backend = "cpu";
  plan->choice.algorithm = algorithm ? algorithm : "brute";
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "every pair is compared");
  plan->estimated_pairs = (double)plan->left->count * adji_join_reach(&plan->join);
  plan->estimated_candidates = (double)plan->left->count * (double)plan->right->count;
  adji_brute_options options = {(adji_brute_filter)plan->tuning.filter, plan->tuning.batch};
  return adji_brute_create(&plan->join, &options, &plan->engine);
}
