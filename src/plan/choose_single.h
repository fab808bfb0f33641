/* SPDX-License-Identifier: MIT
 *
 * Whether adj_collect counts first and fills in place, or evaluates each candidate once.
 */
#ifndef ADJI_CHOOSE_ONCE_H
#define ADJI_CHOOSE_ONCE_H

#include "plan/plan.h"

/* Candidates of a query, if a GPU that counts them keeps which belong to it, so that filling all rows takes no second
 * look; otherwise 0. whole: all rows are filled at once. sample: rows by which the grid was chosen. */
double adji_choose_device_tile_hits(const adj_plan *plan, bool whole, uint64_t sample);

/* Whether it does so with marks, where queries have few candidates. */
bool adji_choose_device_query_hits(const adj_plan *plan, bool whole);

/* Sets plan->choice.once and plan->estimated_seconds, from the estimates. Refuses single=on where it cannot be had. */
adj_status adji_choose_single(adj_plan *plan);

/* Refuses settings that ask for kernels of a GPU which this join has not. The grid must have been chosen. */
adj_status adji_check_device_kernels(const adj_plan *plan);

/* What the cores take to count a join first and then fill it in place. */
double adji_counted_seconds(const adj_plan *plan, double pairs, double candidates);

/* What they take to evaluate each candidate once; and if a device deals out what they find to its rows. */
double adji_single_seconds(const adj_plan *plan, double pairs, double candidates);
double adji_sent_seconds(const adj_plan *plan, double pairs, double candidates);

/* Whether they can: a self-join is evaluated once from one of a pair's points, which takes one index, and a distance of
 * 0 from each point to itself. */
bool adji_can_single(const adj_plan *plan);

/* What the cores take, in the better way, by plan->choice.candidates. */
double adji_sampled_seconds(const adj_plan *plan);

/* Whether a GPU keeps what it finds while counting. */
bool adji_choose_device_single(const adj_plan *plan);
/* The same for comparing every two points of a self-join once. */
bool adji_choose_device_mirrored(const adj_plan *plan);

#endif
