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

/* The powers of five from 5^-64 to 5^64, which are those of ten up to a power of two: the 128 most significant bits of
 * each, rounded down, as two halves. tests/readers compares results with those of the C library. */
enum { POWER_LOW = -64, POWER_HIGH = 64 };

/* clang-format off */
static const struct {
  uint64_t high, low;
} powers_of_five[POWER_HIGH - POWER_LOW + 1] = {
    {0xa87fea27a539e9a5, 0x3f2398d747b36224}, /* -64 */
    {0xd29fe4b18e88640e, 0x8eec7f0d19a03aad}, /* -63 */
    {0x83a3eeeef9153e89, 0x1953cf68300424ac}, /* -62 */
    {0xa48ceaaab75a8e2b, 0x5fa8c3423c052dd7}, /* -61 */
    {0xcdb02555653131b6, 0x3792f412cb06794d}, /* -60 */
    {0x808e17555f3ebf11, 0xe2bbd88bbee40bd0}, /* -59 */
    {0xa0b19d2ab70e6ed6, 0x5b6aceaeae9d0ec4}, /* -58 */
    {0xc8de047564d20a8b, 0xf245825a5a445275}, /* -57 */
    {0xfb158592be068d2e, 0xeed6e2f0f0d56712}, /* -56 */
    {0x9ced737bb6c4183d, 0x55464dd69685606b}, /* -55 */
    {0xc428d05aa4751e4c, 0xaa97e14c3c26b886}, /* -54 */
    {0xf53304714d9265df, 0xd53dd99f4b3066a8}, /* -53 */
    {0x993fe2c6d07b7fab, 0xe546a8038efe4029}, /* -52 */
    {0xbf8fdb78849a5f96, 0xde98520472bdd033}, /* -51 */
    {0xef73d256a5c0f77c, 0x963e66858f6d4440}, /* -50 */
    {0x95a8637627989aad, 0xdde7001379a44aa8}, /* -49 */
    {0xbb127c53b17ec159, 0x5560c018580d5d52}, /* -48 */
    {0xe9d71b689dde71af, 0xaab8f01e6e10b4a6}, /* -47 */
    {0x9226712162ab070d, 0xcab3961304ca70e8}, /* -46 */
    {0xb6b00d69bb55c8d1, 0x3d607b97c5fd0d22}, /* -45 */
    {0xe45c10c42a2b3b05, 0x8cb89a7db77c506a}, /* -44 */
    {0x8eb98a7a9a5b04e3, 0x77f3608e92adb242}, /* -43 */
    {0xb267ed1940f1c61c, 0x55f038b237591ed3}, /* -42 */
    {0xdf01e85f912e37a3, 0x6b6c46dec52f6688}, /* -41 */
    {0x8b61313bbabce2c6, 0x2323ac4b3b3da015}, /* -40 */
    {0xae397d8aa96c1b77, 0xabec975e0a0d081a}, /* -39 */
    {0xd9c7dced53c72255, 0x96e7bd358c904a21}, /* -38 */
    {0x881cea14545c7575, 0x7e50d64177da2e54}, /* -37 */
    {0xaa242499697392d2, 0xdde50bd1d5d0b9e9}, /* -36 */
    {0xd4ad2dbfc3d07787, 0x955e4ec64b44e864}, /* -35 */
    {0x84ec3c97da624ab4, 0xbd5af13bef0b113e}, /* -34 */
    {0xa6274bbdd0fadd61, 0xecb1ad8aeacdd58e}, /* -33 */
    {0xcfb11ead453994ba, 0x67de18eda5814af2}, /* -32 */
    {0x81ceb32c4b43fcf4, 0x80eacf948770ced7}, /* -31 */
    {0xa2425ff75e14fc31, 0xa1258379a94d028d}, /* -30 */
    {0xcad2f7f5359a3b3e, 0x096ee45813a04330}, /* -29 */
    {0xfd87b5f28300ca0d, 0x8bca9d6e188853fc}, /* -28 */
    {0x9e74d1b791e07e48, 0x775ea264cf55347d}, /* -27 */
    {0xc612062576589dda, 0x95364afe032a819d}, /* -26 */
    {0xf79687aed3eec551, 0x3a83ddbd83f52204}, /* -25 */
    {0x9abe14cd44753b52, 0xc4926a9672793542}, /* -24 */
    {0xc16d9a0095928a27, 0x75b7053c0f178293}, /* -23 */
    {0xf1c90080baf72cb1, 0x5324c68b12dd6338}, /* -22 */
    {0x971da05074da7bee, 0xd3f6fc16ebca5e03}, /* -21 */
    {0xbce5086492111aea, 0x88f4bb1ca6bcf584}, /* -20 */
    {0xec1e4a7db69561a5, 0x2b31e9e3d06c32e5}, /* -19 */
    {0x9392ee8e921d5d07, 0x3aff322e62439fcf}, /* -18 */
    {0xb877aa3236a4b449, 0x09befeb9fad487c2}, /* -17 */
    {0xe69594bec44de15b, 0x4c2ebe687989a9b3}, /* -16 */
    {0x901d7cf73ab0acd9, 0x0f9d37014bf60a10}, /* -15 */
    {0xb424dc35095cd80f, 0x538484c19ef38c94}, /* -14 */
    {0xe12e13424bb40e13, 0x2865a5f206b06fb9}, /* -13 */
    {0x8cbccc096f5088cb, 0xf93f87b7442e45d3}, /* -12 */
    {0xafebff0bcb24aafe, 0xf78f69a51539d748}, /* -11 */
    {0xdbe6fecebdedd5be, 0xb573440e5a884d1b}, /* -10 */
    {0x89705f4136b4a597, 0x31680a88f8953030}, /* -9 */
    {0xabcc77118461cefc, 0xfdc20d2b36ba7c3d}, /* -8 */
    {0xd6bf94d5e57a42bc, 0x3d32907604691b4c}, /* -7 */
    {0x8637bd05af6c69b5, 0xa63f9a49c2c1b10f}, /* -6 */
    {0xa7c5ac471b478423, 0x0fcf80dc33721d53}, /* -5 */
    {0xd1b71758e219652b, 0xd3c36113404ea4a8}, /* -4 */
    {0x83126e978d4fdf3b, 0x645a1cac083126e9}, /* -3 */
    {0xa3d70a3d70a3d70a, 0x3d70a3d70a3d70a3}, /* -2 */
    {0xcccccccccccccccc, 0xcccccccccccccccc}, /* -1 */
    {0x8000000000000000, 0x0000000000000000}, /* 0 */
    {0xa000000000000000, 0x0000000000000000}, /* 1 */
    {0xc800000000000000, 0x0000000000000000}, /* 2 */
    {0xfa00000000000000, 0x0000000000000000}, /* 3 */
    {0x9c40000000000000, 0x0000000000000000}, /* 4 */
    {0xc350000000000000, 0x0000000000000000}, /* 5 */
    {0xf424000000000000, 0x0000000000000000}, /* 6 */
    {0x9896800000000000, 0x0000000000000000}, /* 7 */
    {0xbebc200000000000, 0x0000000000000000}, /* 8 */
    {0xee6b280000000000, 0x0000000000000000}, /* 9 */
    {0x9502f90000000000, 0x0000000000000000}, /* 10 */
    {0xba43b74000000000, 0x0000000000000000}, /* 11 */
    {0xe8d4a51000000000, 0x0000000000000000}, /* 12 */
    {0x9184e72a00000000, 0x0000000000000000}, /* 13 */
    {0xb5e620f480000000, 0x0000000000000000}, /* 14 */
    {0xe35fa931a0000000, 0x0000000000000000}, /* 15 */
    {0x8e1bc9bf04000000, 0x0000000000000000}, /* 16 */
    {0xb1a2bc2ec5000000, 0x0000000000000000}, /* 17 */
    {0xde0b6b3a76400000, 0x0000000000000000}, /* 18 */
    {0x8ac7230489e80000, 0x0000000000000000}, /* 19 */
    {0xad78ebc5ac620000, 0x0000000000000000}, /* 20 */
    {0xd8d726b7177a8000, 0x0000000000000000}, /* 21 */
    {0x878678326eac9000, 0x0000000000000000}, /* 22 */
    {0xa968163f0a57b400, 0x0000000000000000}, /* 23 */
    {0xd3c21bcecceda100, 0x0000000000000000}, /* 24 */
    {0x84595161401484a0, 0x0000000000000000}, /* 25 */
    {0xa56fa5b99019a5c8, 0x0000000000000000}, /* 26 */
    {0xcecb8f27f4200f3a, 0x0000000000000000}, /* 27 */
    {0x813f3978f8940984, 0x4000000000000000}, /* 28 */
    {0xa18f07d736b90be5, 0x5000000000000000}, /* 29 */
    {0xc9f2c9cd04674ede, 0xa400000000000000}, /* 30 */
    {0xfc6f7c4045812296, 0x4d00000000000000}, /* 31 */
    {0x9dc5ada82b70b59d, 0xf020000000000000}, /* 32 */
    {0xc5371912364ce305, 0x6c28000000000000}, /* 33 */
    {0xf684df56c3e01bc6, 0xc732000000000000}, /* 34 */
    {0x9a130b963a6c115c, 0x3c7f400000000000}, /* 35 */
    {0xc097ce7bc90715b3, 0x4b9f100000000000}, /* 36 */
    {0xf0bdc21abb48db20, 0x1e86d40000000000}, /* 37 */
    {0x96769950b50d88f4, 0x1314448000000000}, /* 38 */
    {0xbc143fa4e250eb31, 0x17d955a000000000}, /* 39 */
    {0xeb194f8e1ae525fd, 0x5dcfab0800000000}, /* 40 */
    {0x92efd1b8d0cf37be, 0x5aa1cae500000000}, /* 41 */
    {0xb7abc627050305ad, 0xf14a3d9e40000000}, /* 42 */
    {0xe596b7b0c643c719, 0x6d9ccd05d0000000}, /* 43 */
    {0x8f7e32ce7bea5c6f, 0xe4820023a2000000}, /* 44 */
    {0xb35dbf821ae4f38b, 0xdda2802c8a800000}, /* 45 */
    {0xe0352f62a19e306e, 0xd50b2037ad200000}, /* 46 */
    {0x8c213d9da502de45, 0x4526f422cc340000}, /* 47 */
    {0xaf298d050e4395d6, 0x9670b12b7f410000}, /* 48 */
    {0xdaf3f04651d47b4c, 0x3c0cdd765f114000}, /* 49 */
    {0x88d8762bf324cd0f, 0xa5880a69fb6ac800}, /* 50 */
    {0xab0e93b6efee0053, 0x8eea0d047a457a00}, /* 51 */
    {0xd5d238a4abe98068, 0x72a4904598d6d880}, /* 52 */
    {0x85a36366eb71f041, 0x47a6da2b7f864750}, /* 53 */
    {0xa70c3c40a64e6c51, 0x999090b65f67d924}, /* 54 */
    {0xd0cf4b50cfe20765, 0xfff4b4e3f741cf6d}, /* 55 */
    {0x82818f1281ed449f, 0xbff8f10e7a8921a4}, /* 56 */
    {0xa321f2d7226895c7, 0xaff72d52192b6a0d}, /* 57 */
    {0xcbea6f8ceb02bb39, 0x9bf4f8a69f764490}, /* 58 */
    {0xfee50b7025c36a08, 0x02f236d04753d5b4}, /* 59 */
    {0x9f4f2726179a2245, 0x01d762422c946590}, /* 60 */
    {0xc722f0ef9d80aad6, 0x424d3ad2b7b97ef5}, /* 61 */
    {0xf8ebad2b84e0d58b, 0xd2e0898765a7deb2}, /* 62 */
    {0x9b934c3b330c8577, 0x63cc55f49f88eb2f}, /* 63 */
    {0xc2781f49ffcfa6d5, 0x3cbf6b71c76b25fb}, /* 64 */
};
/* clang-format on */

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

/* The bits of the number, or 0 if round_decimal() is undecided. */
static uint64_t decimal_bits(const adji_decimal *number, const format *to) {
  rounded r = round_decimal(number, to);
  if (!r.mantissa) return 0;
  int fraction_bits = to->precision - 1;
  return (uint64_t)(r.exponent + to->most) << fraction_bits | (r.mantissa & ((UINT64_C(1) << fraction_bits) - 1));
}

/* The text for strtod: significant digits and an exponent. Digits beyond those that can matter are
 * replaced by a single 1, which keeps the number on its side of every half-way point. */
static const char *plain_text(const adji_decimal *number, char text[MOST_DIGITS + 24]) {
  bool dropped;
  int64_t scale;
  int many = copy_digits(number, text, MOST_DIGITS, &dropped, &scale);
  if (dropped) {
    text[many++] = '1';
    scale--;
  }
  if (!many) text[many++] = '0';
  snprintf(text + many, 16, "e%d", clamp_exponent(scale + written_exponent(number)));
  return text;
}

double adji_decimal_slow_f64(const adji_decimal *number) {
  uint64_t bits = decimal_bits(number, &f64_format);
  char text[MOST_DIGITS + 24];
  double value;
  if (!bits) return strtod(plain_text(number, text), NULL);
  memcpy(&value, &bits, sizeof value);
  return value;
}

float adji_decimal_slow_f32(const adji_decimal *number) {
  uint32_t bits = (uint32_t)decimal_bits(number, &f32_format);
  char text[MOST_DIGITS + 24];
  float value;
  if (!bits) return strtof(plain_text(number, text), NULL);
  memcpy(&value, &bits, sizeof value);
  return value;
}
