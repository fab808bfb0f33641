/* SPDX-License-Identifier: MIT
 *
 * Where ADJ_BACKEND_AUTO computes: on cores, unless a GPU would be done sooner. From there on the plan is that of
 * ADJ_BACKEND_HYBRID, which has cores and GPU share the join, or the GPU do it alone, whichever is quicker; or of
 * ADJ_BACKEND_GPU, for kNN joins that are not shared. Cores do what a GPU cannot.
 *
 * What decides is how long the GPU takes to begin, measured on an H200 with 16 cores:
 *
 * - Loading CUDA and opening a device, in a process that has not done so: 0.17 to 0.23 s; 0.45 s in the first one on a
 *   machine. From then on a GPU takes a fifth of the cores' time or less, so a join must take them a quarter of a
 *   second before a device is even looked for.
 * - Opening one where the process has CUDA at work already, for another context or another library: 0.04 s, most of it
 *   for pinned memory.
 * - A device that is open, from an earlier join of the context: launches, copies and waits of the smallest join take
 *   0.1 ms of a kNN join and 0.2 ms of a range join. The cores take as long for having 16 threads wake in every loop of
 *   theirs. So what decides is whether there is anything to do besides: 1,000 points take a device 0.12 ms (k = 8) and
 *   0.23 ms (10 neighbours within a radius, 2-D), and the cores 0.22 and 0.31 ms.
 */
#include "plan/choose_backend.h"

#include <string.h>

#include "gpu/device/device.h"
#include "gpu/worker/devices.h"
#include "gpu/worker/knn.h"
#include "plan/choose_knn.h"
#include "plan/choose_single.h"
#include "plan/pending_devices.h"
#include "plan/plan_hybrid.h"
#include "plan/plan_knn.h"
#include "plan/plan_range.h"

bool adji_worth_a_device(const adji_costs *costs, double cores_s, adji_readiness ready) {
  return cores_s > (ready == ADJI_OPEN      ? costs->device_ready_s
                    : ready == ADJI_STARTED ? costs->device_open_s
                                            : costs->device_start_s);
}

/* Whether the settings leave the backend to choose from, and it is quicker. */
static bool device_pays(const adj_plan *plan, adj_backend backend, double cores_s) {
  if (!(plan->backends & ADJI_BIT(backend))) return false;
  adji_readiness ready = adji_a_device_is_open(plan->ctx) ? ADJI_OPEN
                         : adji_gpu_is_up(plan->ctx)      ? ADJI_STARTED
                                                          : ADJI_NOT_STARTED;
  return adji_worth_a_device(&plan->ctx->costs, cores_s, ready) && adji_gpu_worker_is_there(plan->ctx);
}

/* What is the device's fault, and none of the join's. */
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

/* Without the device, on cores that are planned for already or that have nothing of the plan yet. */
static adj_status or_on_cores(adj_plan *plan, adji_algorithm algorithm, adj_status status) {
  if (!is_of_device(status)) return status;
  adji_forget_device(plan);
  if (plan->engine.worker_count) return ADJ_OK;
  adji_forget_cores(plan);
  plan->choice = (adji_choice){0};
  return adji_plan_range_on_cores(plan, algorithm);
}

static adj_status plan_hybrid(adj_plan *plan, adji_algorithm algorithm) {
  return or_on_cores(plan, algorithm, adji_plan_range_hybrid(plan, algorithm));
}

/* Asked three times, the sooner the less was done in vain: by the number of points, by a sample, and with an index. */
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
  return or_on_cores(plan, algorithm, adji_plan_range_helped(plan, algorithm));
}
