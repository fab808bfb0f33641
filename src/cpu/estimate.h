/* SPDX-License-Identifier: MIT
 *
 * How many pairs a join has, from two samples compared with each other.
 */
#ifndef ADJI_CPU_ESTIMATE_H
#define ADJI_CPU_ESTIMATE_H

#include "cpu/range.h"

/* In many dimensions a few points in dense places own most pairs, so that some hundred queries
 * compared with every point are a poor sample, and a dear one. Thousands of queries compared with a
 * fraction of the points are a better one for less. */
adj_status adji_estimate_pairs(const adji_join *join, const adji_range_options *options, double *pairs);

#endif
