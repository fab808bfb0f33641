/* SPDX-License-Identifier: MIT
 *
 * What tests of bounds on tensor cores share: numbers that look random, the canonical sum, and products of copies added
 * up as such a unit might.
 */
#ifndef TENSOR_MODEL_H
#define TENSOR_MODEL_H

#include <math.h>
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

/* x cut off to a multiple of quantum, towards zero. */
static inline double cut(double x, double quantum) {
  return trunc(x / quantum) * quantum;
}

/* start + xy, as a unit computes it that adds `group` products and the sum so far at a time, all cut off at 2^-23 of
 * the largest of them, and the result too: towards zero. */
static inline double tensor_product(double start, const double *x, const double *y, uint32_t width, uint32_t group) {
  double sum = start;
  for (uint32_t first = 0; first < width; first += group) {
    double largest = fabs(sum), total = 0;
    for (uint32_t j = first; j < first + group; j++)
      largest = fmax(largest, fabs(x[j] * y[j]));
    if (largest == 0) continue;
    double quantum = ldexp(1, ilogb(largest) - 23);
    for (uint32_t j = first; j < first + group; j++)
      total += cut(x[j] * y[j], quantum);
    total += cut(sum, quantum);
    sum = total != 0 ? cut(total, ldexp(1, ilogb(total) - 23)) : 0;
  }
  return sum;
}

#endif
