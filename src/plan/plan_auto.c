/* SPDX-License-Identifier: MIT
 *
 * ADJ_BACKEND_AUTO: cores, unless a GPU would finish sooner (choose_backend.c). Then the plan is that of
 * ADJ_BACKEND_HYBRID, in which cores and GPU share the join or the GPU does it alone, whichever is quicker; or of
 * ADJ_BACKEND_GPU for kNN joins that cannot be shared. Cores do what a GPU cannot.
 */
#include "gpu/device/device.h"
#include "gpu/worker/devices.h"
#include "plan/plan.h"

static adji_readiness readiness(adj_ctx *ctx) {
  pthread_mutex_lock(&ctx->device_lock);
  bool open = ctx->gpus[0] != NULL;
  pthread_mutex_unlock(&ctx->device_lock);
  return open ? ADJI_OPEN : adji_gpu_is_up(ctx) ? ADJI_STARTED : ADJI_NOT_STARTED;
}

/* Whether the settings allow the backend, and it would be quicker. */
static bool device_pays(const adj_plan *plan, adj_backend backend, double cores_s) {
  if (!(plan->backends & ADJI_BIT(backend))) return false;
  return adji_worth_a_device(&plan->ctx->costs, cores_s, readiness(plan->ctx)) && adji_gpu_worker_is_there(plan->ctx);
}

/* Whether the failure is due to the device, not to the join. */
static bool is_of_device(adj_status status) {
  return status == ADJ_E_UNSUPPORTED || status == ADJ_E_DEVICE || status == ADJ_E_DEVICE_MEMORY;
}

adj_status adji_plan_knn_anywhere(adj_plan *plan, adji_algorithm algorithm) {
  bool shared =
      (!algorithm || algorithm == ADJI_ALGORITHM_KDTREE) && !adji_gpu_knn_can_share(&plan->join, &plan->measure);
  if (!device_pays(plan, shared ? ADJ_BACKEND_HYBRID : ADJ_BACKEND_GPU, adji_knn_seconds(&plan->join, shared)))
    return adji_plan_knn(plan, algorithm);
  adj_status status = shared ? adji_plan_knn_hybrid(plan, algorithm) : adji_plan_knn_on_gpu(plan, algorithm);
  if (!is_of_device(status)) return status;
  adji_engine_clear(&plan->engine);
  return adji_plan_knn(plan, algorithm);
}

/* After a failure of the device, plans for the cores, unless that has been done. */
static adj_status fall_back_to_cores(adj_plan *plan, adji_algorithm algorithm, adj_status status) {
  if (!is_of_device(status)) return status;
  adji_forget_device(plan);
  if (plan->engine.worker_count) return ADJ_OK;
  adji_forget_cores(plan);
  plan->choice = (adji_choice){0};
  return adji_plan_range_on_cores(plan, algorithm);
}

static adj_status plan_hybrid(adj_plan *plan, adji_algorithm algorithm) {
  return fall_back_to_cores(plan, algorithm, adji_plan_range_hybrid(plan, algorithm));
}

/* Decides up to three times, as early as possible so that little work is wasted: by the number of points, by a sample,
 * and with an index. */
adj_status adji_plan_range_anywhere(adj_plan *plan, adji_algorithm algorithm) {
  bool free_to_choose = !algorithm || algorithm == ADJI_ALGORITHM_GRID;
  if (free_to_choose && device_pays(plan, ADJ_BACKEND_HYBRID, adji_least_range_seconds(plan)))
    return plan_hybrid(plan, algorithm);
  adji_cores_choice cores;
  adj_status status = adji_choose_for_cores(plan, algorithm, &cores);
  if (!status && free_to_choose &&
      device_pays(plan, ADJ_BACKEND_HYBRID, adji_sampled_seconds(&plan->question, &cores.grid))) {
    adji_cores_choice_clear(plan->ctx, &cores);
    adji_forget_cores(plan);
    plan->choice = (adji_choice){0};
    return plan_hybrid(plan, algorithm);
  }
  if (!status) status = adji_prepare_cores(plan, &cores);
  if (status || !free_to_choose || !device_pays(plan, ADJ_BACKEND_HYBRID, plan->estimated_seconds)) return status;
  return fall_back_to_cores(plan, algorithm, adji_plan_range_helped(plan, algorithm));
}
