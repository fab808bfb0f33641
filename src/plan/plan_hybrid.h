/* SPDX-License-Identifier: MIT
 *
 * Making a plan for a join that cores and a GPU share.
 */
#ifndef ADJI_PLAN_HYBRID_H
#define ADJI_PLAN_HYBRID_H

#include "plan/plan.h"

/* algorithm: what was asked for. */
adj_status adji_plan_knn_hybrid(adj_plan *plan, adji_algorithm algorithm);
adj_status adji_plan_range_hybrid(adj_plan *plan, adji_algorithm algorithm);
/* The same for a plan of the cores: it stays one where a GPU cannot help. */
adj_status adji_plan_range_helped(adj_plan *plan, adji_algorithm algorithm);

/* What cores take at least, without a look at the points: index and rows. */
double adji_least_range_seconds(const adj_plan *plan);

adji_share_options adji_share_of(const adji_tuning *tuning);

#endif
