/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a kNN join: tree or brute force.
 */
#ifndef ADJI_PLAN_NEAREST_H
#define ADJI_PLAN_NEAREST_H

#include "plan/plan.h"

/* algorithm: what was asked for, NULL to choose. */
adj_status adji_plan_nearest(adj_plan *plan, const char *algorithm);
adj_status adji_plan_nearest_on_gpu(adj_plan *plan);

#endif
