/* SPDX-License-Identifier: MIT
 *
 * From a request to the join that the engines see.
 */
#ifndef ADJI_DESCRIBE_H
#define ADJI_DESCRIBE_H

#include "plan/plan.h"

/* Fills plan->join and what it points to: the measure, the box, and the sets that are joined, which are
 * derived ones for some metrics. adji_forget_join frees them. */
adj_status adji_describe_join(adj_plan *plan);
/* The same where plan->left and plan->right are derived already. */
adj_status adji_describe_derived(adj_plan *plan);
void adji_forget_join(adj_plan *plan);

#endif
