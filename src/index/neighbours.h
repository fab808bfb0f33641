/* SPDX-License-Identifier: MIT
 *
 * The candidates of a cell: the ranges of positions, in another (or the same) index over the same
 * grid, whose cells are within reach. Consecutive cells of the last axis are consecutive in memory,
 * so 3^(axes - 1) ranges cover all 3^axes neighbours.
 *
 * Ranges are found by merging, not by searching: as the cells of a batch are visited in ascending
 * order, the neighbours at one offset ascend too, so each offset keeps a cursor that only moves
 * forward.
 */
#ifndef ADJI_NEIGHBOURS_H
#define ADJI_NEIGHBOURS_H

#include "index/grid.h"

typedef struct adji_neighbours {
  const adji_index *right;
  uint32_t offset_count;
  uint32_t reach;    /* of the last axis                                        */
  bool forward;      /* only candidates in the cell itself and in later ones    */
  bool wide;         /* the CPU compares eight cell numbers at once              */
  int64_t *offsets;  /* in the number of a cell, ascending                      */
  uint32_t *first;   /* per offset: cursor to the first cell of the range       */
  adji_range *found; /* room for offset_count ranges                            */
} adji_neighbours;

adj_status adji_neighbours_init(adji_neighbours *n, const adji_grid *grid, const adji_index *right, bool forward);
void adji_neighbours_clear(adji_neighbours *n);

/* Starts a batch: the next call of find is for the cell numbered key or a later one. */
void adji_neighbours_seek(adji_neighbours *n, uint64_t key);

/* The non-empty candidate ranges of the cell numbered key, in n->found: returns how many. Keys
 * must not descend between two seeks. */
uint32_t adji_neighbours_find(adji_neighbours *n, uint64_t key);

#endif
