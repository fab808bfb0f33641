/* SPDX-License-Identifier: MIT
 *
 * The candidates of a cell: ranges of positions whose cells are within reach, in another index over the same grid or in
 * the same one. Consecutive cells of the last axis are consecutive in memory, so 3^(axes - 1) ranges cover all 3^axes
 * neighbours.
 *
 * Ranges are found by merging, not by searching. A batch visits its cells in ascending order, so the neighbours at one
 * offset ascend too: each offset keeps a cursor that only moves forward.
 */
#ifndef ADJI_NEIGHBOURS_H
#define ADJI_NEIGHBOURS_H

#include "index/grid.h"

typedef struct adji_neighbours {
  const adji_index *right;
  uint32_t offset_count;
  uint32_t reach;    /* of the last axis */
  bool forward;      /* only candidates in the cell itself and in later cells */
  bool wide;         /* the CPU compares eight cell numbers at once */
  int64_t *offsets;  /* added to a cell number; ascending */
  uint32_t *first;   /* per offset: cursor to the first cell of the range */
  adji_range *found; /* room for offset_count ranges */
} adji_neighbours;

adj_status adji_neighbours_init(adji_neighbours *n, const adji_grid *grid, const adji_index *right, bool forward);
void adji_neighbours_clear(adji_neighbours *n);

/* Starts a batch. The next adji_neighbours_find() is for cell number key or a later one. */
void adji_neighbours_seek(adji_neighbours *n, uint64_t key);

/* Writes the non-empty candidate ranges of cell number key to n->found and returns how many there are. Keys must not
 * descend between two seeks. */
uint32_t adji_neighbours_find(adji_neighbours *n, uint64_t key);

#endif
