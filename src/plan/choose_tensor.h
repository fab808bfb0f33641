/* SPDX-License-Identifier: MIT
 *
 * Whether a range join on a GPU has the prefilter of tensor cores (gpu/shared/halves.h).
 */
#ifndef ADJI_CHOOSE_TENSOR_H
#define ADJI_CHOOSE_TENSOR_H

#include "plan/range_choice.h"

/* Whether there can be one at all, and it was not turned off. */
bool adji_may_choose_tensor(const adji_range_question *q);

/* Refuses prefilter=tensor where it cannot be had. */
adj_status adji_check_tensor(const adji_range_question *q);

/* From a sample of the right set: coordinate j of row i is at values[j * sample + i]. */
adj_status adji_choose_tensor(const adji_range_question *q, const double *values, uint64_t sample,
                              adji_halves_plan *out);

/* What a pair costs there, in instructions of a warp. */
double adji_tensor_cost(const adji_costs *costs, const adji_halves_plan *tensor);

#endif
