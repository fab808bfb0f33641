/* SPDX-License-Identifier: MIT
 *
 * Functions by which all kinds of generated sets draw and write their rows. They use only additions, multiplications,
 * divisions, square roots and adji_ln, which give the same bits on every machine.
 */
#ifndef ADJI_GENERATE_DRAW_H
#define ADJI_GENERATE_DRAW_H

#include <float.h>
#include <math.h>

#include "data/generate.h"

#if FLT_EVAL_METHOD != 0
#error "generated sets would differ: this target evaluates doubles in another precision"
#endif

/* A seed has a separate key for each purpose. */
enum {
  ADJI_FOR_ROWS,
  ADJI_FOR_CENTRES,
  ADJI_FOR_WEIGHTS,
  ADJI_FOR_WIDTHS,
  ADJI_FOR_AXES,
  ADJI_FOR_REGIONS,
  ADJI_FOR_FIELD
};

static inline uint64_t adji_key_of(const adji_generator *g, unsigned purpose, uint64_t index) {
  return adji_random(adji_random(g->key, purpose), index);
}

/* The counter of an attempt at a column; a dimension is below 2^25. */
static inline uint64_t adji_draw(uint64_t key, uint64_t column, uint64_t attempt) {
  return adji_random(key, column + (attempt << 25));
}

/* Uniform in [0, 1), all 53 bits. */
static inline double adji_unit(uint64_t bits) {
  return (double)(bits >> 11) * 0x1p-53;
}

/* Standard normal, by Marsaglia's polar method, which needs no sine. The first coordinate of the
 * pair is an odd multiple of 2^-52, so the result is never 0. */
static inline double adji_normal(uint64_t key, uint64_t column, uint64_t *attempt) {
  for (;; ++*attempt) {
    uint64_t bits = adji_draw(key, column, 2 * *attempt);
    double v = ((double)(bits >> 12) + 0.5) * 0x1p-51 - 1;
    double w = 2 * adji_unit(adji_draw(key, column, 2 * *attempt + 1)) - 1;
    double s = v * v + w * w;
    if (s < 1 && s >= 0x1p-1000) return v * sqrt(-2 * adji_ln(s) / s);
  }
}

static inline void adji_put(const adji_generator *g, uint64_t row, uint32_t j, double value) {
  uint64_t at = row * g->dim + j;
  if (g->type == ADJ_F64)
    ((double *)g->data)[at] = value;
  else
    ((float *)g->data)[at] = (float)value;
}

/* The value that was written there. */
static inline double adji_written(const adji_generator *g, uint64_t row, uint32_t j) {
  uint64_t at = row * g->dim + j;
  return g->type == ADJ_F64 ? ((double *)g->data)[at] : (double)((float *)g->data)[at];
}

#endif
