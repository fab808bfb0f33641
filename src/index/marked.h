/* SPDX-License-Identifier: MIT
 *
 * Marked cells of space, and the points of a set in them: a filter for points that may be near some other points. Each
 * dimension is cut into slabs; a cell is one slab of each dimension.
 */
#ifndef ADJI_MARKED_H
#define ADJI_MARKED_H

#include "core/atomic.h"
#include "core/everywhere.h"
#include "data/dataset.h"

/* BINS: bins of equal width, of which the slabs of a dimension consist. BITS: the most bits of a cell number. */
enum { ADJI_MARKED_BINS = 2048, ADJI_MARKED_BITS = 21, ADJI_MARKED_DIMS = 8 };
enum { ADJI_MARKED_WORDS = 1 << (ADJI_MARKED_BITS - 6) };

typedef struct adji_marked {
  uint32_t dim, bits; /* bits: per slab number */
  double low[ADJI_MARKED_DIMS], scale[ADJI_MARKED_DIMS];
  uint32_t *cells;               /* per bin of each dimension: what its slab adds to a cell number */
  ADJI_ATOMIC(uint64_t) * words; /* one bit per cell */
} adji_marked;

/* The bin of a coordinate. It ascends with finite x: rounding is monotone, and scale is not negative. If scale is 0,
 * low is 0 too. The first bin is below `low`, the last one above the others. */
ADJI_EVERYWHERE uint32_t adji_marked_bin(double low, double scale, double x) {
  double q = (x - low) * scale + 1;
  q = q > 0 ? q : 0;
  return (uint32_t)(q < ADJI_MARKED_BINS - 1 ? q : ADJI_MARKED_BINS - 1);
}

/* slabs: about how many a dimension gets. dim: at most ADJI_MARKED_DIMS. Memory: 2^18 bytes, and 8 KiB per
 * dimension. */
adj_status adji_marked_open(adj_ctx *ctx, uint32_t dim, uint64_t slabs, adji_marked *out);
void adji_marked_clear(adj_ctx *ctx, adji_marked *marked);
/* Makes slabs of dimension j with equally many of the values, at least one value. Sorts the values. */
void adji_marked_cut(adji_marked *marked, uint32_t j, double *values, uint32_t count);

/* The cells of points within a box, given by low and high of each dimension, and the number of their words. Any lane
 * may mark them. */
typedef struct adji_cell_box {
  uint32_t low[ADJI_MARKED_DIMS], high[ADJI_MARKED_DIMS];
  uint64_t words;
} adji_cell_box;
adji_cell_box adji_marked_box(const adji_marked *marked, const double *low, const double *high);
void adji_marked_mark(adji_marked *marked, const adji_cell_box *box);

/* Tests rows first .. first + count - 1, up to 64: a bit for each row in a marked cell. */
typedef uint64_t (*adji_marked_fn)(const adji_marked *marked, const adj_dataset *set, uint64_t first, uint64_t count);
adji_marked_fn adji_marked_find_for(const char *isa, const adj_dataset *set);

#if defined(__x86_64__)
/* f32, with rows of up to ADJI_MARKED_STRIDE bytes. */
enum { ADJI_MARKED_STRIDE = 1 << 20 };
uint64_t adji_marked_find_avx512(const adji_marked *marked, const adj_dataset *set, uint64_t first, uint64_t count);
#endif

#endif
