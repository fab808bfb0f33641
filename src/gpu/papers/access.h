/* SPDX-License-Identifier: MIT
 *
 * The access patterns of LBJoin (Gallet and Gowanlock): which cells a query is compared with by the per_point kernels
 * (per_point.cuh), and the other choices for these kernels.
 *
 * The cells around a cell are in 3^(axes - 1) rows along the last axis. A row's number is made of its slabs along the
 * other axes, -1, 0 or 1 each, the first axis most significant. So the row of the cell itself is the middle one, and
 * the row opposite to row i is rows - 1 - i.
 *
 *   full: a cell is compared with every cell around it, so each pair of points is compared twice.
 *
 *   unicomp (section II-C.4 there, Algorithm 2): of two cells let a be the first axis along which they differ. Their
 *   slabs differ by one there, so exactly one of them is odd: that cell is compared with the other.
 *
 *   lid-unicomp (section III-B, Algorithm 3): of two cells the one with the lower number is compared with the other.
 *
 * With the last two, each pair of cells is compared once, and neighbours are written to the rows of both points. A cell
 * is always compared with itself in full.
 */
#ifndef ADJI_GPU_PAPERS_ACCESS_H
#define ADJI_GPU_PAPERS_ACCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/everywhere.h"
#include "index/grid.h"

/* The values of the settings access= and order=; 0: not given. */
typedef enum adji_access {
  ADJI_ACCESS_TILES = 1, /* the default kernels, tiles.cuh */
  ADJI_ACCESS_FULL,
  ADJI_ACCESS_UNICOMP,
  ADJI_ACCESS_LID_UNICOMP
} adji_access;

typedef enum adji_work {
  ADJI_WORK_INDEX_ORDER = 1, /* in the order of the index */
  ADJI_WORK_SORTED,          /* queries with the most candidates first */
  ADJI_WORK_QUEUE            /* the same, and a free warp takes the next queries from a queue on the device */
} adji_work;

typedef struct adji_point_options {
  adji_access access; /* 0 or ADJI_ACCESS_TILES: the other options are not used */
  adji_work order;    /* 0: ADJI_WORK_INDEX_ORDER */
  uint32_t threads;   /* per query: a power of two up to 32; 0: one */
  bool shortc;        /* abandon a sum as soon as it exceeds the limit */
  bool sortidu;       /* points of a cell are sorted by dimension sort_dim and searched by it */
  uint32_t sort_dim;
  const uint32_t *dims; /* with shortc: the dimensions in the order of reorder.h, on the host; NULL: no filter */
} adji_point_options;

/* Whether queries have threads of their own. */
ADJI_EVERYWHERE bool adji_access_by_point(adji_access access) {
  return access >= ADJI_ACCESS_FULL;
}

/* Whether each pair of cells is compared only once. */
ADJI_EVERYWHERE bool adji_access_mirrors(adji_access access) {
  return access >= ADJI_ACCESS_UNICOMP;
}

/* The difference in cell numbers between neighbouring slabs, per axis. */
typedef struct adji_strides {
  uint32_t axes;
  uint64_t each[ADJI_MAX_AXES];
} adji_strides;

/* Bit a is set if the cell's slab along axis a is odd. */
ADJI_EVERYWHERE uint32_t adji_odd_slabs(const adji_strides *strides, uint64_t number) {
  uint32_t odd = 0;
  for (uint32_t a = 0; a < strides->axes; a++) {
    uint64_t slab = number / strides->each[a];
    number -= slab * strides->each[a];
    odd |= (uint32_t)(slab & 1) << a;
  }
  return odd;
}

/* Whether a cell is compared with row number `row` around it. Unless the access is full, this excludes its own row,
 * which adji_access_visits_cell() decides about. */
ADJI_EVERYWHERE bool adji_access_visits_row(adji_access access, uint32_t row, uint32_t rows, uint32_t odd) {
  if (!adji_access_mirrors(access)) return true;
  if (access == ADJI_ACCESS_LID_UNICOMP) return row > rows / 2; /* row numbers ascend */
  uint32_t first = 0, third = rows / 3;
  for (uint32_t a = 0; third; a++, third /= 3) {
    if (row < first + third || row >= first + 2 * third) return odd >> a & 1;
    first += third;
  }
  return false;
}

/* The same for the cell `step` slabs further along the last axis, in the cell's own row; step is at most 1 for
 * unicomp. odd_last: the cell's slab along that axis is odd. */
ADJI_EVERYWHERE bool adji_access_visits_cell(adji_access access, int64_t step, bool odd_last) {
  if (!step) return true;
  return access == ADJI_ACCESS_LID_UNICOMP ? step > 0 : odd_last;
}

#endif
