/* SPDX-License-Identifier: MIT
 *
 * Cells of space that are marked, and the points of a set that are in them: a filter for points that may be near some
 * others. Each dimension is cut into slabs, thin where that is asked for; a cell is a slab of each.
 */
#ifndef ADJI_MARKED_H
#define ADJI_MARKED_H

#include "core/atomic.h"
#include "core/everywhere.h"
#include "data/dataset.h"

/* BINS: of equal width, that the slabs of a dimension consist of. CELL_BITS: of the number of a cell, at most. */
enum { ADJI_MARKED_BINS = 2048, ADJI_MARKED_BITS = 21, ADJI_MARKED_DIMS = 8 };
enum { ADJI_MARKED_WORDS = 1 << (ADJI_MARKED_BITS - 6) };

typedef struct adji_marked {
  uint32_t dim, bits; /* bits: of the number of a slab */
  double low[ADJI_MARKED_DIMS], scale[ADJI_MARKED_DIMS];
  uint32_t *cells;               /* of each bin of each dimension: what its slab adds to the number of a cell */
  ADJI_ATOMIC(uint64_t) * words; /* a bit a cell */
} adji_marked;

/* The bin of a coordinate. Ascends with finite x: rounding is monotone, and scale is not negative. If it is 0, low is
 * too. The first bin is below `low`, the last one behind the others. */
ADJI_EVERYWHERE uint32_t adji_marked_bin(double low, double scale, double x) {
  double q = (x - low) * scale + 1;
  q = q > 0 ? q : 0;
  return (uint32_t)(q < ADJI_MARKED_BINS - 1 ? q : ADJI_MARKED_BINS - 1);
}

/* slabs: of a dimension, about; dim: up to ADJI_MARKED_DIMS. Memory: 2^18 bytes and 8 KiB a dimension. */
adj_status adji_marked_open(adj_ctx *ctx, uint32_t dim, uint64_t slabs, adji_marked *out);
void adji_marked_clear(adj_ctx *ctx, adji_marked *marked);
/* The slabs of dimension j, with equally many of the values, which it sorts; at least one. */
void adji_marked_cut(adji_marked *marked, uint32_t j, double *values, uint32_t count);

/* The cells with points within a box, low and high of each dimension; and how many words of them there are. Any lane
 * marks them. */
typedef struct adji_cell_box {
  uint32_t low[ADJI_MARKED_DIMS], high[ADJI_MARKED_DIMS];
  uint64_t words;
} adji_cell_box;
adji_cell_box adji_marked_box(const adji_marked *marked, const double *low, const double *high);
void adji_marked_mark(adji_marked *marked, const adji_cell_box *box);

/* Of rows first .. first + count - 1, up to 64: a bit for each that is in a marked cell. */
typedef uint64_t (*adji_marked_fn)(const adji_marked *marked, const adj_dataset *set, uint64_t first, uint64_t count);
adji_marked_fn adji_marked_find_for(const char *isa, const adj_dataset *set);

#if defined(__x86_64__)
/* f32, with rows of up to ADJI_MARKED_STRIDE bytes. */
enum { ADJI_MARKED_STRIDE = 1 << 20 };
uint64_t adji_marked_find_avx512(const adji_marked *marked, const adj_dataset *set, uint64_t first, uint64_t count);
#endif

#endif
