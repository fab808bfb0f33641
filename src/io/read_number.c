/* SPDX-License-Identifier: MIT
 *
 * The numbers that one double operation cannot convert: many digits, large exponents, values near a half-way point.
 *
 * digits * 10^q is bounded from both sides by one multiplication. Let W be digits shifted up to 64
 * bits, and T the 128 leading bits of 5^q, rounded down, so that the true power is in [T, T + 1) in
 * units of its last place. The true product is in [W T, W T + W), hence with H = floor(W T / 2^64),
 * it is in [H, H + 2) in units of 2^64. If H and H + 2 round to the same float, that is the result. If not (once in
 * 2^70 cases for random digits), or if the result is not a normal number, the C library converts it. It gets digits and
 * an exponent without a decimal point, so the result does not depend on the locale.
 */
#include "io/read_number.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/read_number_powers.h"

/* Half-way points between doubles have at most 767 significant digits. */
enum { MOST_DIGITS = 800 };

__extension__ typedef unsigned __int128 wide;

/* A float format: its precision, and the exponents of its normal numbers 1.x * 2^e. */
typedef struct format {
  int precision, least, most;
} format;
static const format f32_format = {24, -126, 127}, f64_format = {53, -1022, 1023};

typedef struct rounded {
  uint64_t mantissa; /* precision bits, the first set; 0: not decided */
  int exponent;      /* of the first bit */
} rounded;

/* Copies the significant digits of number's text, without leading zeros, at most room of them. Sets dropped if a digit
 * other than 0 did not fit, and scale to the exponent of the copied digits. */
static int copy_digits(const adji_decimal *number, char *to, int room, bool *dropped, int64_t *scale) {
  int many = 0;
  bool fraction = false; /* after the point */
  *dropped = false;
  *scale = 0;
  for (const char *p = number->begin; p < number->end && *p != 'e' && *p != 'E'; p++) {
    if (*p == '.') {
      fraction = true;
      continue;
    }
    bool copied = many < room && (many || *p != '0');
    if (copied) to[many++] = *p;
    bool leading = !copied && !many;
    if (!copied && !leading) *dropped |= *p != '0';
    if (fraction && (copied || leading)) --*scale;
    if (!fraction && !copied && !leading) ++*scale;
  }
  return many;
}

/* The exponent as written in the text. */
static int64_t written_exponent(const adji_decimal *number) {
  for (const char *p = number->begin; p < number->end; p++)
    if (*p == 'e' || *p == 'E') {
      int32_t power = 0;
      adji_scan_exponent(p + 1, number->end, &power);
      return power;
    }
  return 0;
}

static int32_t clamp_exponent(int64_t exponent) {
  const int32_t most = 1000000000;
  return exponent > most ? most : exponent < -most ? -most : (int32_t)exponent;
}

void adji_decimal_cut(adji_decimal *number) {
  char text[19];
  int64_t scale;
  int many = copy_digits(number, text, 19, &number->cut, &scale);
  number->digits = 0;
  for (int i = 0; i < many; i++)
    number->digits = number->digits * 10 + (uint64_t)(text[i] - '0');
  number->exponent = clamp_exponent(scale + written_exponent(number));
}

/* Rounds digits * 10^power; the mantissa is 0 if the two bounds round differently. */
static rounded round_product(uint64_t digits, int power, const format *to) {
  rounded result = {0, 0};
  int shift = __builtin_clzll(digits);
  uint64_t w = digits << shift;
  wide high = (wide)w * powers_of_five[power - POWER_LOW].high;
  wide low = (wide)w * powers_of_five[power - POWER_LOW].low;
  wide product = high + (low >> 64); /* H of the design note */
  int length = product >> 127 ? 128 : 127;
  int rest_bits = length - to->precision;
  wide half = (wide)1 << (rest_bits - 1);
  wide rest = product & (((wide)1 << rest_bits) - 1);
  uint64_t mantissa = (uint64_t)(product >> rest_bits);
  if (rest + 2 > half && rest <= half) return result;
  /* 10^power is in [2^k, 2^(k+1)) for this k, checked for the whole table. */
  int k = (217706 * power) >> 16;
  result.exponent = length - 1 + k - 63 - shift;
  if (rest > half && ++mantissa >> to->precision) {
    mantissa >>= 1;
    result.exponent++;
  }
  result.mantissa = mantissa;
  return result;
}

static rounded round_decimal(const adji_decimal *number, const format *to) {
  rounded undecided = {0, 0};
  if (number->exponent < POWER_LOW || number->exponent > POWER_HIGH || !number->digits) return undecided;
  rounded r = round_product(number->digits, number->exponent, to);
  if (number->cut) {
    rounded above = round_product(number->digits + 1, number->exponent, to);
    if (above.mantissa != r.mantissa || above.exponent != r.exponent) return undecided;
  }
  return r.exponent < to->least || r.exponent > to->most ? undecided : r;
}

/* The text for strtod: significant digits and an exponent. Digits beyond those that can matter are
 * replaced by a single 1, which keeps the number on its side of every half-way point. */
static void write_plain(const adji_decimal *number, char *text) {
  bool dropped;
  int64_t scale;
  int many = copy_digits(number, text, MOST_DIGITS, &dropped, &scale);
  if (dropped) {
    text[many++] = '1';
    scale--;
  }
  if (!many) text[many++] = '0';
  snprintf(text + many, 16, "e%d", clamp_exponent(scale + written_exponent(number)));
}

double adji_decimal_slow_f64(const adji_decimal *number) {
  rounded r = round_decimal(number, &f64_format);
  if (r.mantissa) {
    uint64_t bits = (uint64_t)(r.exponent + 1023) << 52 | (r.mantissa & ((UINT64_C(1) << 52) - 1));
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  char text[MOST_DIGITS + 24];
  write_plain(number, text);
  return strtod(text, NULL);
}

float adji_decimal_slow_f32(const adji_decimal *number) {
  rounded r = round_decimal(number, &f32_format);
  if (r.mantissa) {
    uint32_t bits = (uint32_t)(r.exponent + 127) << 23 | ((uint32_t)r.mantissa & 0x7fffff);
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
  }
  char text[MOST_DIGITS + 24];
  write_plain(number, text);
  return strtof(text, NULL);
}
