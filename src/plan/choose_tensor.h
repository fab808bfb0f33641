/* SPDX-License-Identifier: MIT
 *
 * Whether a range join on a GPU has the filter of products (gpu/shared/halves.h).
 */
#ifndef ADJI_CHOOSE_PRODUCT_H
#define ADJI_CHOOSE_PRODUCT_H

#include "plan/plan.h"

/* Whether products can be the filter of this join at all, and were not turned off. */
bool adji_may_choose_tensor(const adj_plan *plan);

/* Refuses prefilter=tensor where it cannot be had. */
adj_status adji_check_tensor(const adj_plan *plan);

/* Sets plan->product from a sample of the right set: coordinate j of row i is at values[j * sample + i]. */
adj_status adji_choose_tensor(adj_plan *plan, const double *values, uint64_t sample);
/* And gives it back. */
void adji_drop_tensor(adj_plan *plan);

/* What a pair costs there, in instructions of a warp. */
double adji_product_cost(const adj_plan *plan);

#endif
