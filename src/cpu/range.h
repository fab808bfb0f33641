/* SPDX-License-Identifier: MIT
 *
 * The range join on cores, through the cells of a grid.
 */
#ifndef ADJI_RANGE_H
#define ADJI_RANGE_H

#include "cpu/range_options.h"
#include "queue/engine.h"

/* An engine with the cores as its worker. */
adj_status adji_range_create(const adji_join *join, const adji_range_options *options, adji_engine *out);

/* Whether the engine evaluates each pair of a self-join once, for both its points. Devices that take part must then
 * have the order of the cores' index. */
void adji_range_set_single(adji_engine *engine, bool single);

/* Counts the neighbours and candidates of some queries spread evenly over the order of the index,
 * and scales them up to all. */
adj_status adji_range_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);

#endif
