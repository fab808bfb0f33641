/* SPDX-License-Identifier: MIT
 *
 * Decimal numbers to f32 and f64, correctly rounded, independent of the locale. The scan and the common conversions are
 * inline, for the loops that read text; read_number.c has the rest.
 *
 *   number = [+-] digits [. digits] [e [+-] digits]     at least one digit before the e
 */
#ifndef ADJI_READ_NUMBER_H
#define ADJI_READ_NUMBER_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "core/exact.h"

/* digits * 10^exponent. With more than 19 digits, digits holds the first 19 significant ones and the
 * true value lies between digits and digits + 1. */
typedef struct adji_decimal {
  uint64_t digits;
  int32_t exponent;
  bool negative, cut;
  const char *begin, *end; /* of the digits, point and exponent in the text */
} adji_decimal;

/* Rescans a number that has more digits than a uint64_t holds. */
void adji_decimal_cut(adji_decimal *number);

/* The conversions of numbers that the fast path cannot handle. An overflow gives infinity. */
float adji_decimal_slow_f32(const adji_decimal *number);
double adji_decimal_slow_f64(const adji_decimal *number);

/* The number with up to eight digits, whose values (not characters) are the bytes of x, the first digit in the lowest
 * byte. Three steps join digits to pairs, pairs to fours, and fours to the result. */
static inline uint64_t adji_join_digits(uint64_t x) {
  x = (x * (10 * 256 + 1) >> 8) & UINT64_C(0x00ff00ff00ff00ff);
  x = (x * (100 * 65536 + 1) >> 16) & UINT64_C(0x0000ffff0000ffff);
  return x * (UINT64_C(10000) * 0x100000000 + 1) >> 32;
}

/* Appends the digits at p to value, which wraps if there are too many. Returns their end. */
static inline const char *adji_scan_digits(const char *p, const char *end, uint64_t *value) {
  static const uint64_t scale[9] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};
  while (end - p >= 8) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
    x ^= UINT64_C(0x3030303030303030); /* a digit becomes its value, anything else more than 9 */
    /* Sets the top bit of each byte that is not a digit. A carry can spoil only bytes after the first of these. */
    uint64_t other = ((x + UINT64_C(0x7676767676767676)) | x) & UINT64_C(0x8080808080808080);
    int many = other ? __builtin_ctzll(other) >> 3 : 8;
    if (!many) return p;
    *value = *value * scale[many] + adji_join_digits(x << (64 - 8 * many)); /* zeros go in front */
    p += many;
    if (many < 8) return p;
  }
  for (; p < end && (unsigned char)(*p - '0') < 10; p++)
    *value = *value * 10 + (unsigned char)(*p - '0');
  return p;
}

/* Reads the exponent at p, just after the e; NULL if there is none. It stops growing beyond that of any float. */
static inline const char *adji_scan_exponent(const char *p, const char *end, int32_t *exponent) {
  bool negative = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) p++;
  const char *begin = p;
  int32_t value = 0;
  for (; p < end && (unsigned char)(*p - '0') < 10; p++)
    if (value < 100000000) value = value * 10 + (*p - '0');
  if (p == begin) return NULL;
  *exponent = negative ? -value : value;
  return p;
}

/* Reads the number at p. Returns its end, or NULL if there is none. */
static inline const char *adji_scan_decimal(const char *p, const char *end, adji_decimal *number) {
  number->negative = p < end && *p == '-';
  if (p < end && (*p == '-' || *p == '+')) p++;
  number->begin = p;
  uint64_t digits = 0;
  if (end - p >= 2 && p[1] == '.' && (unsigned char)(*p - '0') < 10)
    digits = (unsigned char)(*p++ - '0'); /* a common case: one digit before the point */
  else
    p = adji_scan_digits(p, end, &digits);
  int64_t many = p - number->begin, fraction = 0;
  if (p < end && *p == '.') {
    const char *point = p + 1;
    p = adji_scan_digits(point, end, &digits);
    fraction = p - point;
  }
  many += fraction;
  if (!many) return NULL;
  int32_t power = 0;
  if (p < end && (*p == 'e' || *p == 'E')) {
    p = adji_scan_exponent(p + 1, end, &power);
    if (!p) return NULL;
  }
  number->end = p;
  number->digits = digits;
  number->exponent = (int32_t)(power - fraction);
  number->cut = false;
  if (many > 19) adji_decimal_cut(number);
  return p;
}

/* Integers to 2^53 and powers of ten to 10^22 are exact doubles, so one operation on them rounds
 * once (Clinger 1990). False if the number is not of that kind. */
static inline bool adji_decimal_simple(const adji_decimal *number, double *value) {
  static const double ten_to[23] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  int32_t e = number->exponent;
  if (number->digits > UINT64_C(1) << 53 || e < -22 || e > 22 || number->cut) return false;
  double x = (double)(int64_t)number->digits;
  *value = e < 0 ? x / ten_to[-e] : x * ten_to[e];
  return true;
}

static inline double adji_decimal_f64(const adji_decimal *number) {
  double value;
  if (!adji_decimal_simple(number, &value)) value = adji_decimal_slow_f64(number);
  return number->negative ? -value : value;
}

/* Converts through the double. Rounding twice differs from rounding once only when the double lies half way
 * between two floats: otherwise it lies on the same side of every half-way point as the true value.
 * The simple doubles are 0 or from 1e-22 to 1e38, so the floats concerned are normal and half-way
 * is a 1 and 28 zeros at the end of the double. */
static inline float adji_decimal_f32(const adji_decimal *number) {
  double wide;
  float value;
  uint64_t bits = 0;
  bool simple = adji_decimal_simple(number, &wide);
  if (simple) memcpy(&bits, &wide, sizeof bits);
  if (simple && ((bits & 0x1fffffff) != 0x10000000 || number->exponent == 0))
    value = (float)wide;
  else
    value = adji_decimal_slow_f32(number);
  return number->negative ? -value : value;
}

#endif
