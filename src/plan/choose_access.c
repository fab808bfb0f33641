/* SPDX-License-Identifier: MIT
 *
 * The papers' kernels are there to be measured beside the default ones: only settings ask for them.
 */
#include "plan/choose_access.h"

#include "index/grid.h"

/* A pair of cells that is met once must be a pair of one index, in which both points have their row. */
static adj_status check_mirrors(const adji_range_question *q, const adji_grid *grid) {
  const char *name = q->tuning->access == ADJI_ACCESS_UNICOMP ? "unicomp" : "lid-unicomp";
  if (!q->join->self_join)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: paper.access=%s is for points with themselves, not for two sets",
                     name);
  if (adji_grid_is_periodic(grid))
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: paper.access=%s: in a periodic box points are in the index twice",
                     name);
  return ADJ_OK;
}

/* See narrow() in gpu/papers/per_point_kernel.cuh. */
static adj_status check_sortidu(const adji_measure *measure) {
  adji_step step = measure->step;
  if (step == ADJI_STEP_L2 || step == ADJI_STEP_L1 || step == ADJI_STEP_LINF) return ADJ_OK;
  return adji_fail(ADJ_E_UNSUPPORTED, "tuning: paper.sortidu=on is for L2, L1 and Linf without a periodic box");
}

adj_status adji_choose_access(const adji_range_question *q, const adji_grid_choice *grid, adji_point_options *out) {
  const adji_tuning *tuning = q->tuning;
  *out = (adji_point_options){.access = ADJI_ACCESS_TILES};
  if (!adji_access_by_point((adji_access)tuning->access)) return ADJ_OK;
  *out = (adji_point_options){.access = (adji_access)tuning->access,
                              .order = tuning->order ? (adji_work)tuning->order : ADJI_WORK_INDEX_ORDER,
                              .threads = tuning->point_threads ? 1u << (tuning->point_threads - 1) : 1,
                              .shortc = tuning->shortc == ADJI_ON,
                              .sortidu = tuning->sortidu == ADJI_ON,
                              .sort_dim = grid->next_dim};
  adj_status status = adji_access_mirrors(out->access) ? check_mirrors(q, &grid->grid) : ADJ_OK;
  if (!status && out->sortidu) status = check_sortidu(q->measure);
  return status;
}
