/* SPDX-License-Identifier: MIT
 *
 * The range join on cores: the engine that drains the queue with the grid's candidates.
 */
#ifndef ADJI_RANGE_H
#define ADJI_RANGE_H

#include "cpu/prefilter.h"
#include "index/boxes.h"
#include "index/grid.h"
#include "queue/join.h"

typedef struct adji_range_options {
  const adji_grid *grid;
  const adji_index *left, *right;       /* the same for a self-join                                  */
  const adji_boxes *boxes;              /* of the right index; NULL: none                            */
  const adji_prefilter_plan *prefilter; /* the filter of codes; NULL: none                           */
  bool ego;                             /* candidates by recursion over the boxes, not by the cells  */
  bool symmetric;                       /* one index of one set, in which a pair can be met once     */
  uint64_t batch;                       /* queries a batch; 0: the default                           */
} adji_range_options;

adj_status adji_range_create(const adji_join *join, const adji_range_options *options, adji_engine *out);

/* Whether the degrees of a self-join are counted by evaluating each pair once, for both its points: by devices that
 * take part, too, which then must have the order of the cores' index, and need not be there otherwise. */
void adji_range_set_single(adji_engine *engine, bool once);

/* Devices that take part from now on, copied; they are the engine's then, unless this fails. What they share are whole
 * rows, but where pairs are evaluated once: each pair is evaluated from both its points, counted first and then filled
 * in place. */
adj_status adji_range_share(adji_engine *engine, const adji_partner *partners, uint32_t count,
                            const adji_share_options *share);

/* Counts the neighbours and candidates of some queries spread evenly over the order of the index,
 * and scales them up to all. */
adj_status adji_range_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);

#endif
