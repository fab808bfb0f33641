/* SPDX-License-Identifier: MIT
 *
 * The passes of a run. Where the planner was free to use the cores and gave the join to a GPU alone, a GPU that fails
 * does not end the run: the plan becomes one for the cores, which make the pass again. Where there are other GPUs, it
 * becomes one for these. Results have the same bits, so a run may go on with rows of the one and the other.
 */
#ifndef ADJI_PLAN_RECOVER_H
#define ADJI_PLAN_RECOVER_H

#include "plan/plan.h"

/* After a pass that ended with status: whether others can make it again, and have taken over, with a warning. If not,
 * *status says why the run ends. */
bool adji_recover(adj_plan *plan, adj_status *status);

/* As adji_engine_count and adji_engine_fill, by the cores if the GPU fails. */
adj_status adji_count_rows(adj_plan *plan, adji_run *run, uint32_t *degrees, uint64_t *total);
adj_status adji_fill_rows(adj_plan *plan, adji_run *run, const adji_window *window);

#endif
