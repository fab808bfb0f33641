/* SPDX-License-Identifier: MIT
 *
 * Shared by the tests of bounds on tensor cores: pseudo-random numbers, the canonical sum, and products of copies,
 * added up as a tensor unit might.
 */
#ifndef TENSOR_MODEL_H
#define TENSOR_MODEL_H

#include <limits.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>

static uint64_t tensor_random_state = 1;

static inline double random_unit(void) {
  uint64_t x = tensor_random_state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return (double)((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

static inline float canonical(const float *x, const float *y, uint32_t dim) {
  float s = 0;
  for (uint32_t j = 0; j < dim; j++) {
    float t = x[j] - y[j];
    s = fmaf(t, t, s);
  }
  return s;
}

/* x rounded towards zero to a multiple of quantum. */
static inline double cut(double x, double quantum) {
  return trunc(x / quantum) * quantum;
}

/* A unit that adds `group` products and the sum so far at a time. All terms are cut off at 2^-bits of the largest one,
 * and the result is rounded to f32, towards zero. Real units judge the size of a product by the exponents of its
 * factors, whose sum is up to 1 below the exponent of the product. The worst case for the bounds is a unit that uses
 * the exponent of the product itself. */
typedef struct tensor_unit {
  uint32_t group;
  int bits;
  bool by_factors;
} tensor_unit;

static inline int size_of_product(tensor_unit unit, double x, double y) {
  return unit.by_factors ? ilogb(x) + ilogb(y) : ilogb(x * y);
}

/* start + xy. */
static inline double tensor_product(tensor_unit unit, double start, const double *x, const double *y, uint32_t width) {
  double sum = start;
  for (uint32_t first = 0; first < width; first += unit.group) {
    int largest = sum != 0 ? ilogb(sum) : INT_MIN;
    for (uint32_t j = first; j < first + unit.group; j++)
      if (x[j] != 0 && y[j] != 0 && size_of_product(unit, x[j], y[j]) > largest)
        largest = size_of_product(unit, x[j], y[j]);
    if (largest == INT_MIN) continue;
    double quantum = ldexp(1, largest - unit.bits), total = cut(sum, quantum);
    for (uint32_t j = first; j < first + unit.group; j++)
      total += cut(x[j] * y[j], quantum);
    sum = total != 0 ? cut(total, ldexp(1, ilogb(total) - 23)) : 0;
  }
  return sum;
}

#endif
