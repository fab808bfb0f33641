/* SPDX-License-Identifier: MIT
 *
 * Names of rows, and the shortest decimal, after R. Giulietti, "The Schubfach way to render doubles" (2020).
 *
 * A finite value is c * 2^q. All reals nearer to it than to its neighbours read back as it; they
 * form the interval (c - 1/2, c + 1/2) * 2^q (its lower half is half as long when c is the smallest
 * of its binade), closed when c is even because ties go to even. With k = floor(log10(2^q)) the
 * interval is longer than 10^k, so it holds a multiple of 10^k, and it holds at most one of
 * 10^(k+1). If there is one of 10^(k+1), it is the shortest; else the multiple of 10^k nearest the
 * value is. Everything is decided in integers: 4c, 4c - 2 and 4c + 2 are multiplied by 10^-k to 128
 * bits, keeping the integer part and one sticky bit, which the paper proves enough.
 */
#include "io/write_text.h"

#include <string.h>

__extension__ typedef unsigned __int128 u128;

/* ---- The powers of ten ------------------------------------------------------------------------ */

/* Words of the exact integers below: 10^324 and 2^1152 are under 2^1216. */
enum { WORDS = 19 };

static int top_bit(const uint64_t *words) {
  int i = WORDS - 1;
  while (!words[i])
    i--;
  return 64 * i + 63 - __builtin_clzll(words[i]);
}

/* The 128 leading bits of an integer, and whether any bit below them is set. */
static u128 leading_bits(const uint64_t *words, bool *more) {
  int low = top_bit(words) - 127; /* number of the lowest of these bits; may be negative */
  u128 bits = 0;
  *more = false;
  for (int i = 0; i < WORDS; i++) {
    int shift = 64 * i - low;
    if (shift <= -64) {
      *more |= words[i] != 0;
    } else if (shift < 0) {
      bits |= words[i] >> -shift;
      *more |= words[i] << (64 + shift) != 0;
    } else if (shift < 128) {
      bits |= (u128)words[i] << shift;
    }
  }
  return bits;
}

static void store_power(adji_decimals *decimals, int k, u128 bits, bool round_up) {
  bits += round_up; /* never overflows: no power of ten begins with 128 ones */
  decimals->power[k - ADJI_DECIMAL_MIN].high = (uint64_t)(bits >> 64);
  decimals->power[k - ADJI_DECIMAL_MIN].low = (uint64_t)bits;
}

/* For k >= 0, 10^k is computed exactly by repeated multiplication. For k < 0, the floor of 2^1152 / 10^-k is computed
 * by repeated division, which is exact as well because the floor of a floor is the floor. It is never a whole number.
 */
void adji_decimals_init(adji_decimals *decimals) {
  uint64_t words[WORDS] = {1};
  bool more;
  for (int k = 0; k <= ADJI_DECIMAL_MAX; k++) {
    u128 bits = leading_bits(words, &more), carry = 0;
    store_power(decimals, k, bits, more);
    for (int i = 0; i < WORDS; i++) {
      carry += (u128)words[i] * 10;
      words[i] = (uint64_t)carry;
      carry >>= 64;
    }
  }
  memset(words, 0, sizeof words);
  words[WORDS - 1] = 1;
  for (int k = -1; k >= ADJI_DECIMAL_MIN; k--) {
    u128 rest = 0;
    for (int i = WORDS - 1; i >= 0; i--) {
      rest = rest << 64 | words[i];
      words[i] = (uint64_t)(rest / 10);
      rest %= 10;
    }
    store_power(decimals, k, leading_bits(words, &more), true);
  }
}

/* ---- From binary to decimal ------------------------------------------------------------------- */

/* digits * 10^exponent */
typedef struct decimal {
  uint64_t digits;
  int exponent;
} decimal;

/* floor(log10(2^q)), or of 3/4 * 2^q if `closer`: fixed-point logarithms, exact for |q| < 1500. */
static int floor_log10_pow2(int q, bool closer) {
  return (q * 1262611 - (closer ? 524031 : 0)) >> 22;
}

static int floor_log2_pow10(int k) {
  return (k * 1741647) >> 19;
}

/* The integer part of power * factor / 2^128. Its last bit is set if the rest is not 0. */
static uint64_t multiply_sticky(uint64_t high, uint64_t low, uint64_t factor) {
  u128 product = (u128)high * factor + (uint64_t)((u128)low * factor >> 64);
  return (uint64_t)(product >> 64) | ((uint64_t)product > 1);
}

static decimal shortest(const adji_decimals *decimals, uint64_t c, int q, bool closer) {
  int k = floor_log10_pow2(q, closer);
  int shift = q + floor_log2_pow10(-k) + 1;
  uint64_t high = decimals->power[-k - ADJI_DECIMAL_MIN].high, low = decimals->power[-k - ADJI_DECIMAL_MIN].low;
  uint64_t open = c & 1; /* the interval of an odd value excludes its ends */
  uint64_t lower = multiply_sticky(high, low, (4 * c - 2 + closer) << shift) + open;
  uint64_t value = multiply_sticky(high, low, 4 * c << shift);
  uint64_t upper = multiply_sticky(high, low, (4 * c + 2) << shift) - open;

  uint64_t s = value / 4;
  if (s >= 10) {
    uint64_t ten = s / 10;
    bool below = lower <= 40 * ten, above = 40 * ten + 40 <= upper;
    if (below != above) return (decimal){ten + above, k + 1};
  }
  bool below = lower <= 4 * s, above = 4 * s + 4 <= upper;
  if (below != above) return (decimal){s + above, k};
  uint64_t middle = 4 * s + 2;
  bool up = value > middle || (value == middle && (s & 1));
  return (decimal){s + up, k};
}

/* ---- Text ------------------------------------------------------------------------------------- */

static const char PAIRS[] =
    "00010203040506070809101112131415161718192021222324252627282930313233343536373839"
    "40414243444546474849505152535455565758596061626364656667686970717273747576777879"
    "8081828384858687888990919293949596979899";

static const uint64_t TENS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,
                                1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19};

/* The number of bits times log10(2) is exact or one too small. */
static int digit_count(uint64_t value) {
  value |= 1; /* 0 has one digit, like 1 */
  int guess = (64 - __builtin_clzll(value)) * 1233 >> 12;
  return guess + (guess < 20 && value >= TENS[guess]);
}

/* Writes exactly `digits` digits, ending before `end`. */
static void put_digits(uint64_t value, int digits, char *end) {
  for (; digits >= 2; digits -= 2, value /= 100)
    memcpy(end -= 2, PAIRS + 2 * (value % 100), 2);
  if (digits) *--end = (char)('0' + value % 10);
}

char *adji_put_count(uint64_t value, char *to) {
  int digits = digit_count(value);
  put_digits(value, digits, to + digits);
  return to + digits;
}

static char *put_scientific(uint64_t value, int digits, int exponent, char *to) {
  put_digits(value, digits, to + 1 + digits);
  to[0] = to[1];
  to[1] = '.';
  to += digits > 1 ? digits + 1 : 1;
  *to++ = 'e';
  if (exponent < 0) *to++ = '-';
  return adji_put_count((uint64_t)(exponent < 0 ? -exponent : exponent), to);
}

/* 0.00012, 120, 1.2e-5, 1.2e17: plain between 1e-4 and 1e17. */
static char *put_decimal(decimal d, char *to) {
  while (d.digits % 10 == 0) {
    d.digits /= 10;
    d.exponent++;
  }
  int digits = digit_count(d.digits);
  int whole = digits + d.exponent; /* digits before the point */
  if (whole > 17 || whole < -3) return put_scientific(d.digits, digits, whole - 1, to);
  if (whole <= 0) {
    memcpy(to, "0.000", 5);
    put_digits(d.digits, digits, to + 2 - whole + digits);
    return to + 2 - whole + digits;
  }
  if (whole >= digits) {
    put_digits(d.digits, digits, to + digits);
    memset(to + digits, '0', (size_t)(whole - digits));
    return to + whole;
  }
  uint64_t unit = TENS[digits - whole];
  put_digits(d.digits / unit, whole, to + whole);
  to[whole] = '.';
  put_digits(d.digits % unit, digits - whole, to + digits + 1);
  return to + digits + 1;
}

/* fraction and exponent are the fields of the format: fraction_bits wide, bias included. */
static char *put_binary(const adji_decimals *decimals, uint64_t fraction, int exponent, int fraction_bits, char *to) {
  int bias = fraction_bits == 52 ? 1075 : 150;
  int largest = fraction_bits == 52 ? 2047 : 255;
  if (exponent == largest) {
    memcpy(to, fraction ? "nan" : "inf", 3);
    return to + 3;
  }
  if (!exponent && !fraction) {
    *to = '0';
    return to + 1;
  }
  if (!exponent) return put_decimal(shortest(decimals, fraction, 1 - bias, false), to);
  uint64_t c = fraction | (uint64_t)1 << fraction_bits;
  return put_decimal(shortest(decimals, c, exponent - bias, !fraction && exponent > 1), to);
}

char *adji_put_double(const adji_decimals *decimals, double value, char *to) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (bits >> 63) *to++ = '-';
  return put_binary(decimals, bits & (((uint64_t)1 << 52) - 1), (int)(bits >> 52 & 2047), 52, to);
}

char *adji_put_float(const adji_decimals *decimals, float value, char *to) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (bits >> 31) *to++ = '-';
  return put_binary(decimals, bits & ((1u << 23) - 1), (int)(bits >> 23 & 255), 23, to);
}

/* ---- Names of rows ---------------------------------------------------------------------------- */

uint64_t adji_row_name_bytes(const adj_dataset *set) {
  if (!set || !set->label_ends) return ADJI_COUNT_TEXT;
  uint64_t longest = 0, begin = 0;
  for (uint64_t row = 0; row < set->count; row++) {
    uint64_t length = set->label_ends[row] - begin;
    if (length > longest) longest = length;
    begin = set->label_ends[row];
  }
  return 2 * longest + 2; /* if every character is a quote, plus the two around them */
}

/* A label needs quotes if a reader would misread it: if it has a separator, a quote or a line end, begins or ends with
 * a blank, begins like a comment, or is empty. */
static bool needs_quotes(const char *label, size_t length, char separator) {
  if (!length || label[0] == ' ' || label[0] == '#' || label[length - 1] == ' ') return true;
  for (size_t i = 0; i < length; i++) {
    char c = label[i];
    if (c == separator || c == '"' || c == '\n' || c == '\r' || c == '\t') return true;
  }
  return false;
}

char *adji_put_row_name(const adj_dataset *set, uint64_t row, char separator, char *to) {
  size_t length;
  const char *label = set ? adj_dataset_label(set, row, &length) : NULL;
  if (!label) return adji_put_count(row, to);
  if (!needs_quotes(label, length, separator)) {
    memcpy(to, label, length);
    return to + length;
  }
  *to++ = '"';
  for (size_t i = 0; i < length; i++) {
    if (label[i] == '"') *to++ = '"';
    *to++ = label[i];
  }
  *to++ = '"';
  return to;
}
