/* SPDX-License-Identifier: MIT
 *
 * The range join on cores, through the cells of a grid.
 */
#ifndef ADJI_RANGE_H
#define ADJI_RANGE_H

#include "cpu/prefilter.h"
#include "index/boxes.h"
#include "index/grid.h"
#include "queue/engine.h"

typedef struct adji_range_options {
  const adji_grid *grid;
  const adji_index *left, *right;       /* the same for a self-join                                  */
  const adji_boxes *boxes;              /* of the right index; NULL: none                            */
  const adji_prefilter_plan *prefilter; /* the filter of codes; NULL: none                           */
  bool ego;                             /* candidates by recursion over the boxes, not by the cells  */
  bool symmetric;                       /* one index of one set, in which a pair can be met once     */
  uint64_t batch;                       /* queries a batch; 0: the default                           */
} adji_range_options;

/* An engine with the cores as its worker. */
adj_status adji_range_create(const adji_join *join, const adji_range_options *options, adji_engine *out);

/* Whether the engine evaluates each pair of a self-join once, for both its points. Devices that take part must then
 * have the order of the cores' index. */
void adji_range_set_single(adji_engine *engine, bool single);

/* Counts the neighbours and candidates of some queries spread evenly over the order of the index,
 * and scales them up to all. */
adj_status adji_range_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);

#endif
