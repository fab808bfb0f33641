/* SPDX-License-Identifier: MIT
 *
 * Where ADJ_BACKEND_AUTO computes.
 */
#ifndef ADJI_CHOOSE_BACKEND_H
#define ADJI_CHOOSE_BACKEND_H

#include "plan/plan.h"

/* What must be done before a device can begin: CUDA be started, the device be opened, or nothing. */
typedef enum adji_readiness { ADJI_NOT_STARTED, ADJI_STARTED, ADJI_OPEN } adji_readiness;

/* Whether a join that takes the cores so long is worth asking a device. */
bool adji_worth_a_device(const adji_costs *costs, double cores_s, adji_readiness ready);

/* Makes the plan. algorithm: what was asked for. */
adj_status adji_plan_knn_anywhere(adj_plan *plan, adji_algorithm algorithm);
adj_status adji_plan_range_anywhere(adj_plan *plan, adji_algorithm algorithm);

#endif
