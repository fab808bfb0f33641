/* SPDX-License-Identifier: MIT
 *
 * Where ADJ_BACKEND_AUTO computes: on cores, unless they would take so long that a GPU is worth asking. From there on
 * the plan is that of ADJ_BACKEND_HYBRID, which has cores and GPU share the join, or the GPU do it alone, whichever is
 * quicker; or of ADJ_BACKEND_GPU, for kNN joins that are not shared. Cores do what a GPU cannot.
 *
 * Loading CUDA and opening a device takes 0.35 to 0.45 s (H200, 16 cores), in which cores join millions of points, so a
 * device that is not open is not even looked for before a join of a second. One that is open, from an earlier join of
 * the context, is done with a join sooner than cores from some 20 ms on: 10 million points in 29 ms instead of 227
 * (2-D, k = 8), 20 million in 250 ms instead of 1,280 (2-D, within a radius, 100 neighbours).
 */
#include "plan/choose_backend.h"

#include <string.h>

#include "gpu/nearest_partner.h"
#include "plan/openings.h"
#include "plan/plan_hybrid.h"
#include "plan/plan_nearest.h"
#include "plan/plan_range.h"

static const double WORTH_OPENING_S = 1, WORTH_ASKING_S = 0.02;

bool adji_worth_a_device(double cores_s, bool open) {
  return cores_s > (open ? WORTH_ASKING_S : WORTH_OPENING_S);
}

static bool device_pays(const adj_plan *plan, double cores_s) {
  return adji_worth_a_device(cores_s, adji_a_device_is_open(plan->ctx)) && adji_gpu_partner_there(plan->ctx);
}

/* What is the device's fault, and none of the join's. */
static bool is_of_device(adj_status status) {
  return status == ADJ_E_UNSUPPORTED || status == ADJ_E_DEVICE || status == ADJ_E_DEVICE_MEMORY;
}

adj_status adji_plan_nearest_anywhere(adj_plan *plan, const char *algorithm) {
  adji_nearest_wish wish = adji_nearest_wish_of(plan);
  bool shared = (!algorithm || !strcmp(algorithm, "kdtree")) && !adji_gpu_partner_can(&wish);
  if (!device_pays(plan, adji_least_nearest_seconds(plan, shared))) return adji_plan_nearest(plan, algorithm);
  adj_status status = shared ? adji_plan_nearest_hybrid(plan, algorithm) : adji_plan_nearest_on_gpu(plan, algorithm);
  if (!is_of_device(status)) return status;
  adji_tree_clear(&plan->left_tree);
  adji_tree_clear(&plan->right_tree);
  return adji_plan_nearest(plan, algorithm);
}

adj_status adji_plan_range_anywhere(adj_plan *plan, const char *algorithm) {
  bool open = adji_a_device_is_open(plan->ctx), free_to_choose = !algorithm || !strcmp(algorithm, "grid");
  if (free_to_choose && open && device_pays(plan, adji_least_range_seconds(plan)))
    return adji_plan_range_hybrid(plan, algorithm);
  adj_status status = adji_plan_range_on_cores(plan, algorithm);
  if (status || !free_to_choose || !device_pays(plan, plan->estimated_seconds)) return status;
  return adji_plan_range_helped(plan, algorithm);
}
