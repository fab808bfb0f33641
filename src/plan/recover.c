/* SPDX-License-Identifier: MIT
 *
 * If a GPU fails during a run, the cores or other GPUs do its work. In joins that workers share, the scheduler handles
 * this (queue/scheduler_feed.c); this file is for joins that a GPU does alone.
 */
#include "plan/recover.h"

#include <stdio.h>

#include "gpu/worker/devices.h"

/* A join requested on the GPU ends with its failure, and so does one with settings for GPUs only. */
static bool may_use_cores(const adj_plan *plan, adj_status status) {
  bool failed = status == ADJ_E_DEVICE || status == ADJ_E_DEVICE_MEMORY;
  bool free_to_choose = plan->spec.backend == ADJ_BACKEND_AUTO || plan->spec.backend == ADJ_BACKEND_HYBRID;
  bool alone = !plan->engine.workers[0].process;
  return failed && free_to_choose && alone && !adji_tuning_not_for(&plan->tuning, plan->spec.kind, ADJ_BACKEND_CPU);
}

/* Whether one of several GPUs did the join alone, because it is small or cannot be shared. */
static bool may_use_others(const adj_plan *plan, adj_status status) {
  bool failed = status == ADJ_E_DEVICE || status == ADJ_E_DEVICE_MEMORY;
  bool alone = plan->engine.worker_count == 1 && plan->engine.workers[0].is_device;
  return failed && plan->spec.backend == ADJ_BACKEND_GPU && alone && !plan->tuning.share &&
         adji_gpu_worker_count(plan->ctx) > 1;
}

/* From now on all working GPUs share the join, as if the settings asked for it. If they cannot, the join fails. */
static bool use_others(adj_plan *plan, adj_status *status) {
  char why[512];
  snprintf(why, sizeof why, "%s", adj_last_error());
  adji_forget_cores(plan); /* which frees the engine of any worker */
  adji_forget_device(plan);
  plan->device_chunk = 0;
  plan->tuning.share = ADJI_SHARE_RATES;
  adj_status again =
      plan->spec.kind == ADJ_KNN ? adji_plan_knn_on_gpu(plan, plan->asked) : adji_plan_range_on_gpu(plan, plan->asked);
  plan->tuning.share = 0;
  if (!again) again = adji_engine_prepare(&plan->engine);
  if (!again) adji_log(plan->ctx, ADJ_LOG_WARN, "a GPU failed, and the others do the join: %s", why);
  if (again) adji_fail(*status, "%s", why);
  if (!again) *status = ADJ_OK;
  return !again;
}

bool adji_recover(adj_plan *plan, adj_status *status) {
  if (may_use_others(plan, *status)) return use_others(plan, status);
  if (!may_use_cores(plan, *status)) return false;
  adji_log(plan->ctx, ADJ_LOG_WARN, "the GPU failed, and the cores do the join: %s", adj_last_error());
  adji_forget_cores(plan); /* which frees the engine of any worker */
  adji_forget_device(plan);
  plan->device_chunk = 0;
  plan->choice.division[0] = 0;
  *status = plan->spec.kind == ADJ_KNN ? adji_plan_knn(plan, plan->asked) : adji_plan_range_on_cores(plan, plan->asked);
  if (!*status) *status = adji_engine_prepare(&plan->engine);
  return !*status;
}

adj_status adji_count_rows(adj_plan *plan, adji_run *run, uint32_t *degrees, uint64_t *total) {
  adj_status status = adji_engine_count(&plan->engine, run, degrees, total);
  return adji_recover(plan, &status) ? adji_engine_count(&plan->engine, run, degrees, total) : status;
}

adj_status adji_fill_rows(adj_plan *plan, adji_run *run, const adji_window *window) {
  adj_status status = adji_engine_fill(&plan->engine, run, window);
  return adji_recover(plan, &status) ? adji_engine_fill(&plan->engine, run, window) : status;
}
