/* SPDX-License-Identifier: MIT
 *
 * CRC-32, eight bytes per step. The polynomials are bit-reversed: bit 31 is the coefficient of x^0.
 */
#include "io/write_crc.h"

#include <string.h>

static const uint32_t POLYNOMIAL = 0xedb88320u;

void adji_crc_init(adji_crc_tables *tables) {
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t rest = b;
    for (int bit = 0; bit < 8; bit++)
      rest = rest >> 1 ^ (rest & 1 ? POLYNOMIAL : 0);
    tables->byte[0][b] = rest;
  }
  for (int k = 1; k < 8; k++)
    for (uint32_t b = 0; b < 256; b++) {
      uint32_t rest = tables->byte[k - 1][b];
      tables->byte[k][b] = rest >> 8 ^ tables->byte[0][rest & 255];
    }
}

uint32_t adji_crc(const adji_crc_tables *tables, const void *bytes, size_t count) {
  const unsigned char *at = bytes;
  uint32_t crc = UINT32_MAX;
  for (; count >= 8; count -= 8, at += 8) {
    uint32_t low, high;
    memcpy(&low, at, 4);
    memcpy(&high, at + 4, 4);
    low ^= crc;
    crc = tables->byte[7][low & 255] ^ tables->byte[6][low >> 8 & 255] ^ tables->byte[5][low >> 16 & 255] ^
          tables->byte[4][low >> 24] ^ tables->byte[3][high & 255] ^ tables->byte[2][high >> 8 & 255] ^
          tables->byte[1][high >> 16 & 255] ^ tables->byte[0][high >> 24];
  }
  for (; count; count--, at++)
    crc = crc >> 8 ^ tables->byte[0][(crc ^ *at) & 255];
  return ~crc;
}

/* a * b modulo the polynomial. */
static uint32_t multiply(uint32_t a, uint32_t b) {
  uint32_t product = 0;
  for (; a; a <<= 1) {
    if (a & 0x80000000u) product ^= b;
    b = b >> 1 ^ (b & 1 ? POLYNOMIAL : 0);
  }
  return product;
}

/* Appending n bytes multiplies the first part by x^(8n). The complements at the start and the end of a CRC cancel, so
 * the sum of the two is the CRC of the whole. */
uint32_t adji_crc_join(uint32_t first, uint32_t second, uint64_t second_bytes) {
  uint32_t power = 0x00800000u; /* x^8 */
  for (; second_bytes; second_bytes >>= 1) {
    if (second_bytes & 1) first = multiply(power, first);
    power = multiply(power, power);
  }
  return first ^ second;
}
