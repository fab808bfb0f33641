/* SPDX-License-Identifier: MIT
 *
 * The options of range joins on cores.
 */
#ifndef ADJI_RANGE_OPTIONS_H
#define ADJI_RANGE_OPTIONS_H

#include "cpu/prefilter.h"
#include "index/boxes.h"
#include "index/grid.h"

typedef struct adji_range_options {
  const adji_grid *grid;
  const adji_index *left, *right;       /* the same for a self-join                                  */
  const adji_boxes *boxes;              /* of the right index; NULL: none                            */
  const adji_prefilter_plan *prefilter; /* the filter of codes; NULL: none                           */
  bool ego;                             /* candidates by recursion over the boxes, not by the cells  */
  bool symmetric;                       /* one index of one set, in which a pair can be met once     */
  uint64_t batch;                       /* queries a batch; 0: the default                           */
} adji_range_options;

#endif
