/* SPDX-License-Identifier: MIT
 *
 * The range join on cores, through the cells of a grid.
 */
#ifndef ADJI_RANGE_H
#define ADJI_RANGE_H

#include "cpu/range_index.h"
#include "cpu/range_queue.h"
#include "queue/engine.h"

/* An engine with the cores as its worker. base: an adji_range_base. batch: queries per batch; 0: the default. */
adj_status adji_range_create(const adji_join *join, const adji_lent *base, uint64_t batch, adji_engine *out);
/* The index that the cores of such an engine search. */
const adji_range_index *adji_range_index_of(const adji_engine *engine);

/* Whether the engine evaluates each pair of a self-join once, for both of its points: when it collects (single), and
 * when it counts (single_count). Devices that take part must then have the order of the cores' index. */
void adji_range_set_single(adji_engine *engine, bool single, bool single_count);

/* Puts the queries into the order of a queue that a device has made. The engine takes over its memory. NULL: queries
 * are in the order of the index again. To be called before devices are added. *results: the estimated pairs. */
adj_status adji_range_set_queue(adji_engine *engine, adji_range_queue *queue, double *results);

/* Whether cores that work alone collect a result, of about `pairs` entries, by staging its rows (cpu/staged.h). */
void adji_range_set_staged(adji_engine *engine, bool stages, double pairs);

/* Estimates for all queries from a sample of them. */
typedef struct adji_range_estimates {
  double pairs, candidates;
  double filled;   /* share of the queries that have neighbours; 0: not known */
  double count_ns; /* for one core to count the neighbours of all queries; 0: not known */
} adji_range_estimates;

/* Counts the neighbours and candidates of some queries spread evenly over the order of the index, scaled up to all
 * queries. Times about as many queries that are next to each other, as in a batch. may_ego: also times the recursion
 * over boxes, if the index has boxes, and keeps it if it is faster. */
adj_status adji_range_estimate(adji_engine *engine, uint64_t sample, bool may_ego, adji_range_estimates *out);
bool adji_range_is_ego(const adji_engine *engine);

#endif
