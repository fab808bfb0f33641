/* SPDX-License-Identifier: MIT
 *
 * The power in the Lp metrics, for C and CUDA alike. pow() of a C library differs in its last bits from machine to
 * machine. This one uses only operations that IEEE 754 fixes (+, -, *, /, fma) and the bits of doubles. It has no
 * branches, so loops over it vectorise, and it leaves no product and sum for a compiler to fuse.
 */
#ifndef ADJI_POWER_H
#define ADJI_POWER_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "core/everywhere.h"

/* The exponent p of a metric, p > 1. */
typedef struct adji_power {
  double exponent;
  double inverse; /* 1 / p, rounded */
  uint32_t whole; /* p if it is a small whole number; 0: exp2(p log2 x) */
} adji_power;

enum { ADJI_MOST_WHOLE = 16 };

/* The relative error of the power below: it is x^p times a factor within 1 +- this, where u is half an ulp of the type.
 * A whole power takes p - 1 roundings, counting a square's twice. Other powers are within 2^-45 and round once. A
 * denormal power may also be off by a few times the smallest positive number. */
#define ADJI_POWER_SLACK(u) (16 * (u) + 0x1p-44)

ADJI_EVERYWHERE uint64_t adji_bits_of(double x) {
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

ADJI_EVERYWHERE double adji_from_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* Selects a or b by their bits: compilers turn a conditional expression into a jump. */
ADJI_EVERYWHERE double adji_select(int condition, double a, double b) {
  uint64_t mask = 0 - (uint64_t)condition;
  return adji_from_bits((adji_bits_of(a) & mask) | (adji_bits_of(b) & ~mask));
}

/* The base-2 logarithm of a positive, finite x in two parts, *high + *low.
 *
 * x = 2^e m with m in [sqrt(1/2), sqrt(2)). With f = (m - 1) / (m + 1), |f| <= 0.1716, in two parts,
 *     ln m = 2 atanh f = 2 f + f^3 (2/3 + 2/5 f^2 + ... + 2/23 f^20).
 * The terms left out are below 2^-64 of the sum, and the rounded ones below 2^-57 of it. So the relative error is
 * below 2^-56, also where x is next to 1 and e is 0. */
ADJI_EVERYWHERE void adji_log2(double x, double *high, double *low) {
  const double LOG2_E = 0x1.71547652b82fep+0, LOG2_E_LOW = 0x1.777d0ffda0d24p-56;
  const uint64_t ROOT_HALF = UINT64_C(0x3fe6a09e667f3bcd), ONE = UINT64_C(0x3ff0000000000000);
  double lift = adji_select(x < 0x1p-1022, 0x1p54, 1), e_lift = adji_select(x < 0x1p-1022, 54, 0);
  uint64_t moved = adji_bits_of(x * lift) + (ONE - ROOT_HALF);
  double m = adji_from_bits((moved & UINT64_C(0x000fffffffffffff)) + ROOT_HALF);
  double e = adji_from_bits((moved >> 52) | UINT64_C(0x4330000000000000)) - (0x1p52 + 1023 + e_lift);
  double up = m + 1, f = (m - 1) / up;
  double f_low = fma(-f, m - (up - 1), fma(-f, up, m - 1)) / up;
  double z = f * f, sum = 2.0 / 23;
  sum = fma(sum, z, 2.0 / 21);
  sum = fma(sum, z, 2.0 / 19);
  sum = fma(sum, z, 2.0 / 17);
  sum = fma(sum, z, 2.0 / 15);
  sum = fma(sum, z, 2.0 / 13);
  sum = fma(sum, z, 2.0 / 11);
  sum = fma(sum, z, 2.0 / 9);
  sum = fma(sum, z, 2.0 / 7);
  sum = fma(sum, z, 2.0 / 5);
  sum = fma(sum, z, 2.0 / 3);
  double rest = fma(f * z, sum, 2 * f_low);
  double ln = fma(2.0, f, rest), ln_low = rest - fma(-2.0, f, ln);
  double a = ln * LOG2_E, b = fma(ln, LOG2_E, -a) + fma(ln, LOG2_E_LOW, ln_low * LOG2_E);
  *high = e + a;
  *low = ((e - *high) + a) + b;
}

/* 2^(high + low), for any high: 0 and infinity beyond the range.
 *
 * With n the integer nearest to high and r the remainder, |r| <= 0.5: 2^n times the Taylor series of 2^r up to its
 * 13th power, whose remainder is below 2^-57. The result is scaled in two steps, so that a denormal result rounds
 * once. Adding 1.5 * 2^52 rounds to an integer and leaves it in the low bits. */
ADJI_EVERYWHERE double adji_exp2(double high, double low) {
  const double ROUND = 0x1.8p52;
  low = adji_select((high < 1200) & (high > -1200), low, 0);
  high = adji_select(high < 1200, high, 1200);
  high = adji_select(high > -1200, high, -1200);
  double n = (high + ROUND) - ROUND, half = n * 0.5 + ROUND;
  double r = (high - n) + low, sum = 0x1.816193166d0f9p-40;
  sum = fma(sum, r, 0x1.c3bd650fc2986p-36);
  sum = fma(sum, r, 0x1.e8cac7351bb25p-32);
  sum = fma(sum, r, 0x1.e4cf5158b8ecap-28);
  sum = fma(sum, r, 0x1.b5253d395e7c4p-24);
  sum = fma(sum, r, 0x1.62c0223a5c824p-20);
  sum = fma(sum, r, 0x1.ffcbfc588b0c7p-17);
  sum = fma(sum, r, 0x1.430912f86c787p-13);
  sum = fma(sum, r, 0x1.5d87fe78a6731p-10);
  sum = fma(sum, r, 0x1.3b2ab6fba4e77p-7);
  sum = fma(sum, r, 0x1.c6b08d704a0c0p-5);
  sum = fma(sum, r, 0x1.ebfbdff82c58fp-3);
  sum = fma(sum, r, 0x1.62e42fefa39efp-1);
  sum = fma(sum, r, 1.0);
  double first = adji_from_bits((adji_bits_of(half) + 1023) << 52);
  double second = adji_from_bits((adji_bits_of((n - (half - ROUND)) + ROUND) + 1023) << 52);
  return sum * first * second;
}

/* x^y for x >= 0 and y > 0, infinity included. The relative error of y log2 x is below 2^-56, and its size is below
 * 1100 unless the power over- or underflows. So the relative error of the power is below 2^-45. */
ADJI_EVERYWHERE double adji_exp_log(double x, double y) {
  double high, low;
  adji_log2(x, &high, &low);
  double product = y * high;
  double power = adji_exp2(product, fma(y, low, fma(y, high, -product)));
  return adji_select(x < INFINITY, adji_select(x > 0, power, 0), INFINITY);
}

/* x^p for x >= 0, in the type. Whole powers are computed by squaring, from the highest bit of p: every product is
 * monotone in x, and none overflows unless the power does. Other powers take one rounding of adji_exp_log(). */
#define ADJI_POWER_OF(T, name)                                     \
  ADJI_EVERYWHERE T name(const adji_power *p, T x) {               \
    if (!p->whole) return (T)adji_exp_log((double)x, p->exponent); \
    uint32_t bit = ADJI_MOST_WHOLE;                                \
    while (!(p->whole & bit))                                      \
      bit >>= 1;                                                   \
    T power = x;                                                   \
    while (bit >>= 1) {                                            \
      power = power * power;                                       \
      if (p->whole & bit) power = power * x;                       \
    }                                                              \
    return power;                                                  \
  }
ADJI_POWER_OF(float, adji_power_f32)
ADJI_POWER_OF(double, adji_power_f64)
#undef ADJI_POWER_OF

#endif
