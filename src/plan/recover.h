/* SPDX-License-Identifier: MIT
 *
 * The passes of a run. If the planner was free to use the cores but gave the join to a GPU alone, a failure of the GPU
 * does not end the run: the plan becomes one for the cores, which repeat the pass. If there are other GPUs, it may
 * become one for these. Results have the same bits, so a run may combine rows of both.
 */
#ifndef ADJI_PLAN_RECOVER_H
#define ADJI_PLAN_RECOVER_H

#include "plan/plan.h"

/* Called after a pass that ended with *status. Returns whether other workers have taken over, with a warning, and can
 * repeat the pass. If not, *status says why the run ends. */
bool adji_recover(adj_plan *plan, adj_status *status);

/* As adji_engine_count and adji_engine_fill, repeated by other workers if the GPU fails. */
adj_status adji_count_rows(adj_plan *plan, adji_run *run, uint32_t *degrees, uint64_t *total);
adj_status adji_fill_rows(adj_plan *plan, adji_run *run, const adji_window *window);

#endif
