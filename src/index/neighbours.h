/* SPDX-License-Identifier: MIT
 *
 * The candidates of a cell, or of consecutive cells of one row: ranges of positions whose cells are within reach, in
 * another index over the same grid or in the same one. Consecutive cells of the last axis, a row, are consecutive in
 * memory, so 3^(axes - 1) ranges cover all 3^axes neighbours.
 *
 * Ranges are found by merging, not by searching. A batch visits its cells in ascending order, so the neighbours at one
 * offset ascend too: each offset keeps a cursor that only moves forward.
 *
 * The ranges of one call are disjoint: rows are `reach` numbers apart (index/grid.c), so a range around cells of one
 * row reaches no cell of another.
 */
#ifndef ADJI_NEIGHBOURS_H
#define ADJI_NEIGHBOURS_H

#include "index/grid.h"

typedef struct adji_neighbours {
  const adji_index *right;
  uint32_t offset_count;
  uint32_t reach;    /* reach of the last axis */
  uint64_t row;      /* cell numbers per row */
  bool forward;      /* only candidates in the cell itself and in later cells */
  int64_t *offsets;  /* added to a cell number; ascending */
  uint32_t *first;   /* per offset: cursor to the first cell of the range */
  uint32_t *last;    /* cursor to the cell after its last one */
  adji_range *found; /* room for offset_count ranges */
  uint32_t found_count;
  uint64_t found_from, found_to; /* the cells that `found` is for */
} adji_neighbours;

adj_status adji_neighbours_init(adji_neighbours *n, const adji_grid *grid, const adji_index *right, bool forward);
void adji_neighbours_clear(adji_neighbours *n);

/* The last cell, from entry `cell` of the index on, that begins before a position and whose number is at most key.
 * Entry `cell` itself always counts. */
uint64_t adji_last_cell(const adji_index *index, uint64_t cell, uint64_t position, uint64_t key);

/* The cell that holds a position. This is faster if it is not far after the cell `near`. */
uint64_t adji_cell_of(const adji_index *index, uint32_t position, uint64_t near);

/* Starts a batch. The next adji_neighbours_find() is for cell number key or a later one. */
void adji_neighbours_seek(adji_neighbours *n, uint64_t key);

/* The last cell number in the row of this one. */
static inline uint64_t adji_row_end(const adji_neighbours *n, uint64_t key) {
  return n->row ? key / n->row * n->row + (n->row - 1) : UINT64_MAX;
}

/* Writes the non-empty candidate ranges of the cells from number `from` to number `to`, in one row, to n->found.
 * Returns their number. Between two seeks, `from` must not descend. */
uint32_t adji_neighbours_find(adji_neighbours *n, uint64_t from, uint64_t to);

/* Allows the next adji_neighbours_find() to end at a lower cell number than the last one. */
void adji_neighbours_shorten(adji_neighbours *n);

#endif
