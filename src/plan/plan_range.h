/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a range join: what plans with cores, with a GPU and with both have in common.
 */
#ifndef ADJI_PLAN_RANGE_H
#define ADJI_PLAN_RANGE_H

#include "gpu/worker/range.h"
#include "plan/plan.h"

/* Grid, index and engine of the cores, and what is expected of them. algorithm: what was asked for. */
adj_status adji_plan_range_on_cores(adj_plan *plan, adji_algorithm algorithm);
/* The same in two steps, the first of which only looks at a sample. The second clears the choice. */
adj_status adji_choose_for_cores(adj_plan *plan, adji_algorithm algorithm, adji_cores_choice *out);
adj_status adji_prepare_cores(adj_plan *plan, adji_cores_choice *chosen);
void adji_cores_choice_clear(adj_ctx *ctx, adji_cores_choice *choice);
/* Destroys the engine of the cores, if there is one. */
void adji_forget_cores(adj_plan *plan);

/* The same on a GPU, which builds the index; the grid is chosen here. */
adj_status adji_plan_range_on_gpu(adj_plan *plan, adji_algorithm algorithm);
/* The grid for a device, and what its engine is to do. */
adj_status adji_choose_for_device(const adji_range_question *question, adji_algorithm algorithm,
                                  adji_device_choice *out);
void adji_forget_device(adj_plan *plan);
/* Queries that a device is asked for, to tell what is to be expected. */
uint64_t adji_device_sample(const adj_plan *plan);

#endif
