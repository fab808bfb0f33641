/* SPDX-License-Identifier: MIT
 *
 * The logarithm of the generators. The one of the C library differs in its last bit from machine to
 * machine; this one uses only additions, multiplications and one division, which IEEE 754 fixes.
 */
#include <float.h>
#include <string.h>

#include "data/generate.h"

#if FLT_EVAL_METHOD != 0
#error "generated sets would differ: this target evaluates doubles in another precision"
#endif

/* x = 2^e m with m in [sqrt(1/2), sqrt(2)); with s = (m - 1) / (m + 1), |s| <= 0.1716,
 *     ln m = 2 atanh s = 2 s (1 + s^2/3 + s^4/5 + ...).
 * The terms after s^22/23 are below 0.0295^12 / 25 < 2e-20 of the sum. e ln 2 is added in two
 * parts: the first has 21 trailing zeros, so its product with e is exact. */
double adji_ln(double x) {
  static const double LN2_HIGH = 0x1.62e42fee00000p-1, LN2_LOW = 0x1.a39ef35793c76p-33;
  static const double terms[11] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                   1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int64_t exponent = (int64_t)(bits >> 52) - 1023;
  bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 0x1.6a09e667f3bcdp+0) { /* sqrt(2) */
    m *= 0.5;
    exponent++;
  }
  double s = (m - 1) / (m + 1), square = s * s;
  double series = 0;
  for (int i = 0; i < 11; i++)
    series = series * square + terms[i];
  double e = (double)exponent;
  return e * LN2_HIGH + (2 * s + (2 * s * (series * square) + e * LN2_LOW));
}
