/* SPDX-License-Identifier: MIT
 *
 * Marked cells: see marked.h.
 */
#include "index/marked.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BINS = ADJI_MARKED_BINS, MOST_SLAB_BITS = 10 };

/* ---- Slabs -------------------------------------------------------------------------------------------- */

adj_status adji_marked_open(adj_ctx *ctx, uint32_t dim, uint64_t slabs, adji_marked *out) {
  *out = (adji_marked){.dim = dim, .bits = 2};
  while (out->bits < ADJI_MARKED_BITS / dim && UINT64_C(1) << out->bits < slabs && out->bits < MOST_SLAB_BITS)
    out->bits++;
  out->cells = adji_alloc(&ctx->memory, (uint64_t)dim * BINS, sizeof *out->cells, "cells");
  out->words = adji_alloc_zero(&ctx->memory, ADJI_MARKED_WORDS, sizeof *out->words, "cells");
  return out->cells && out->words ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_marked_clear(adj_ctx *ctx, adji_marked *m) {
  adji_free(&ctx->memory, m->cells);
  adji_free(&ctx->memory, (void *)m->words);
  *m = (adji_marked){0};
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* There is one slab below the values and one above. Outliers are in the outermost bins. */
void adji_marked_cut(adji_marked *m, uint32_t j, double *values, uint32_t count) {
  uint32_t each = UINT32_C(1) << m->bits, shift = m->bits * (m->dim - 1 - j), *cells = m->cells + (uint64_t)j * BINS;
  qsort(values, count, sizeof *values, compare);
  double low = values[count / 64], extent = values[count - 1 - count / 64] - low;
  bool sound = extent > 0 && isfinite(extent) && isfinite((BINS - 2) / extent);
  m->low[j] = sound ? low : 0;
  m->scale[j] = sound ? (BINS - 2) / extent : 0;
  memset(cells, 0, BINS * sizeof *cells);
  cells[1] = cells[BINS - 1] = 1;
  for (uint32_t t = 1; t < each - 2; t++)
    cells[adji_marked_bin(m->low[j], m->scale[j], values[(uint64_t)t * count / (each - 2)])]++;
  for (uint32_t bin = 0, slab = 0; bin < BINS; bin++) {
    slab += cells[bin];
    cells[bin] = slab << shift;
  }
}

/* ---- Marks -------------------------------------------------------------------------------------------- */

/* Bins ascend, so the cell of a point within the box is between the cells of its corners. */
adji_cell_box adji_marked_box(const adji_marked *m, const double *low, const double *high) {
  adji_cell_box box = {.words = 1};
  for (uint32_t j = 0; j < m->dim; j++) {
    const uint32_t *cells = m->cells + (uint64_t)j * BINS;
    box.low[j] = cells[adji_marked_bin(m->low[j], m->scale[j], fmax(low[j], -DBL_MAX))];
    box.high[j] = cells[adji_marked_bin(m->low[j], m->scale[j], fmin(high[j], DBL_MAX))];
    uint32_t across = (box.high[j] - box.low[j]) >> m->bits * (m->dim - 1 - j);
    box.words *= (j + 1 < m->dim ? across : across / 64) + UINT64_C(1);
  }
  return box;
}

static void mark_word(adji_marked *m, uint64_t word, uint64_t bits) {
  if ((atomic_load_explicit(&m->words[word], memory_order_relaxed) & bits) != bits)
    atomic_fetch_or_explicit(&m->words[word], bits, memory_order_relaxed);
}

static void mark_cells(adji_marked *m, uint64_t first, uint64_t last) {
  uint64_t from = UINT64_MAX << first % 64, to = UINT64_MAX >> (63 - last % 64);
  if (first / 64 == last / 64) {
    mark_word(m, first / 64, from & to);
    return;
  }
  mark_word(m, first / 64, from);
  for (uint64_t word = first / 64 + 1; word < last / 64; word++)
    mark_word(m, word, UINT64_MAX);
  mark_word(m, last / 64, to);
}

static void mark_from(adji_marked *m, const adji_cell_box *box, uint32_t j, uint64_t base) {
  uint64_t stride = UINT64_C(1) << m->bits * (m->dim - 1 - j);
  if (j + 1 == m->dim) {
    mark_cells(m, base + box->low[j], base + box->high[j]);
    return;
  }
  for (uint64_t at = box->low[j]; at <= box->high[j]; at += stride)
    mark_from(m, box, j + 1, base + at);
}

void adji_marked_mark(adji_marked *m, const adji_cell_box *box) {
  mark_from(m, box, 0, 0);
}

/* ---- Points ------------------------------------------------------------------------------------------- */

#define FIND(T)                                                                                            \
  static uint64_t find_##T(const adji_marked *m, const adj_dataset *set, uint64_t first, uint64_t count) { \
    uint64_t bits = 0;                                                                                     \
    for (uint64_t i = 0; i < count; i++) {                                                                 \
      const char *point = set->data + (first + i) * set->row_stride;                                       \
      uint64_t cell = 0;                                                                                   \
      for (uint32_t j = 0; j < m->dim; j++) {                                                              \
        T x = *(const T *)(const void *)(point + j * set->column_stride);                                  \
        cell += m->cells[(uint64_t)j * BINS + adji_marked_bin(m->low[j], m->scale[j], (double)x)];         \
      }                                                                                                    \
      bits |= (atomic_load_explicit(&m->words[cell / 64], memory_order_relaxed) >> cell % 64 & 1) << i;    \
    }                                                                                                      \
    return bits;                                                                                           \
  }
FIND(float)
FIND(double)
#undef FIND

adji_marked_fn adji_marked_find_for(const char *isa, const adj_dataset *set) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512") && set->type == ADJ_F32 && set->row_stride <= ADJI_MARKED_STRIDE)
    return adji_marked_find_avx512;
#else
  (void)isa;
#endif
  return set->type == ADJ_F64 ? find_double : find_float;
}
