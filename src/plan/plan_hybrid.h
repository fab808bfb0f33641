/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a join that cores and a GPU share.
 */
#ifndef ADJI_PLAN_HYBRID_H
#define ADJI_PLAN_HYBRID_H

#include "plan/plan.h"

/* algorithm: what was asked for, NULL to choose. */
adj_status adji_plan_nearest_hybrid(adj_plan *plan, const char *algorithm);
adj_status adji_plan_range_hybrid(adj_plan *plan, const char *algorithm);

adji_share_options adji_share_of(const adji_tuning *tuning);

#endif
