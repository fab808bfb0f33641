/* SPDX-License-Identifier: MIT
 *
 * The range join on cores, through the cells of a grid.
 */
#ifndef ADJI_RANGE_H
#define ADJI_RANGE_H

#include "cpu/range_index.h"
#include "queue/engine.h"

/* An engine with the cores as its worker, which builds an index and owns it. batch: queries a batch; 0: the default.
 * The grid and the scale of the options are taken over, even on failure. */
adj_status adji_range_create(const adji_join *join, const adji_range_index_options *options, uint64_t batch,
                             adji_engine *out);
/* What the cores of such an engine search. */
const adji_range_index *adji_range_index_of(const adji_engine *engine);

/* Whether the engine evaluates each pair of a self-join once, for both its points. Devices that take part must then
 * have the order of the cores' index. */
void adji_range_set_single(adji_engine *engine, bool single);

/* Counts the neighbours and candidates of some queries spread evenly over the order of the index,
 * and scales them up to all. */
adj_status adji_range_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);

#endif
