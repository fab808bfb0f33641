/* SPDX-License-Identifier: MIT
 *
 * An estimate of the number of pairs of a range join, from two samples compared with each other.
 */
#ifndef ADJI_CPU_ESTIMATE_H
#define ADJI_CPU_ESTIMATE_H

#include "cpu/range_index.h"

/* In many dimensions a few points in dense regions own most pairs. A few hundred queries compared with every point are
 * then a poor and expensive sample. Thousands of queries compared with a fraction of the points are better and
 * cheaper. */
adj_status adji_estimate_pairs(const adji_join *join, const adji_range_index *index, double *pairs);

#endif
