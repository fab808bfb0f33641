/* SPDX-License-Identifier: MIT
 *
 * Making a plan for the range joins of Super-EGO and SEGO-New on cores, alone or beside devices. Settings decide
 * everything: there is nothing to choose.
 */
#include <stdio.h>

#include "cpu/ego_range.h"
#include "plan/plan.h"

/* A sample of few queries, spread over the whole order; each has its own recursion. */
enum { SAMPLE = 256, SAMPLE_SHARE = 40, FEWEST = 16 };

static adj_status estimate(adj_plan *plan) {
  uint64_t count = plan->left->count, queries = count / SAMPLE_SHARE;
  if (queries > SAMPLE) queries = SAMPLE;
  if (queries < FEWEST) queries = FEWEST;
  if (plan->tuning.sample) queries = plan->tuning.sample;
  adji_ego_sample sample;
  adj_status status = adji_ego_range_try(&plan->engine, queries, &sample);
  plan->sampled = queries < count ? queries : count;
  plan->estimated_pairs = sample.pairs;
  plan->estimated_candidates = sample.candidates;
  plan->estimated_count_seconds = sample.query_ns * 1e-9 * (double)count / plan->ctx->threads;
  plan->estimated_seconds = 2 * plan->estimated_count_seconds;
  plan->question.count_ns = sample.query_ns * (double)count;
  return status;
}

adj_status adji_choose_dual(adj_plan *plan) {
  adji_step step = plan->measure.step;
  if (step != ADJI_STEP_L2 && step != ADJI_STEP_L1 && step != ADJI_STEP_LINF)
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "tuning: paper.dual=on is for L2, L1 and Linf (and what is computed from these), without a "
                     "periodic box");
  uint32_t dim = plan->join.left->dim;
  if (plan->tuning.indexed > dim && plan->tuning.share != ADJI_SHARE_RESULTS)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: indexed=%llu: of these %u dimensions only %u can be indexed",
                     (unsigned long long)plan->tuning.indexed, dim, dim);
  plan->choice.algorithm = ADJI_ALGORITHM_EGO;
  snprintf(
      plan->choice.reason, sizeof plan->choice.reason,
      "asked for: recursion over pairs of sequences in epsilon grid order, %s",
      plan->tuning.ego_threads == ADJI_EGO_PRODUCER ? "which threads share" : "for batches of queries by workload");
  return ADJ_OK;
}

adj_status adji_prepare_dual(adj_plan *plan) {
  const adji_tuning *t = &plan->tuning;
  bool queued = t->share == ADJI_SHARE_RESULTS; /* then the other settings are for the device's grid */
  adji_ego_range_options options = {.order = {.reorder = t->reorder != ADJI_OFF,
                                              .indexed = queued ? 0 : (uint32_t)t->indexed,
                                              .cell = queued ? 0 : t->cell},
                                    .unsorted = queued,
                                    .by_qsort = t->ego_sort == ADJI_EGO_QSORT,
                                    .producers = t->ego_threads == ADJI_EGO_PRODUCER,
                                    .leaf = (uint32_t)t->ego_leaf,
                                    .batch = t->batch};
  uint64_t begin = adji_now_ns();
  adj_status status = adji_ego_range_create(&plan->join, &options, &plan->engine);
  if (status) return status;
  plan->ego = adji_ego_range_seconds(&plan->engine);
  uint64_t indexed = adji_now_ns();
  plan->index_s = (double)(indexed - begin) * 1e-9;
  status = estimate(plan);
  plan->plan_s += (double)(adji_now_ns() - indexed) * 1e-9;
  adji_trace(plan->ctx, "plan", 0, begin, 0);
  return status;
}
