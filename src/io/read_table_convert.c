/* SPDX-License-Identifier: MIT
 *
 * Conversion of stored values to f32 or f64, in parallel over chunks of equal size. The loops convert all values and
 * only note whether one was bad. If so, a second search finds the first bad one. This keeps the loops simple.
 */
#include <math.h>
#include <string.h>

#include "io/read_table.h"

enum { CHUNK_VALUES = 1 << 17 };

/* ---- Single values ---------------------------------------------------------------------------------- */

static inline uint64_t load(const unsigned char *at, size_t size, bool swapped) {
  switch (size) {
    case 1:
      return *at;
    case 2: {
      uint16_t x;
      memcpy(&x, at, 2);
      return swapped ? __builtin_bswap16(x) : x;
    }
    case 4: {
      uint32_t x;
      memcpy(&x, at, 4);
      return swapped ? __builtin_bswap32(x) : x;
    }
    default: {
      uint64_t x;
      memcpy(&x, at, 8);
      return swapped ? __builtin_bswap64(x) : x;
    }
  }
}

/* IEEE half precision: 1 sign, 5 exponent, 10 fraction bits. Every half is a float. */
static inline float float_of_half(uint16_t half) {
  uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, fraction = half & 0x3ff;
  if (exponent == 0) { /* zero or subnormal: fraction * 2^-24 */
    float x = (float)fraction * 0x1p-24f;
    return sign ? -x : x;
  }
  uint32_t bits = sign | (exponent == 31 ? 0xffu << 23 : (exponent + 112) << 23) | fraction << 13;
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

static inline float float_of_bits(uint64_t bits) {
  uint32_t narrow = (uint32_t)bits;
  float x;
  memcpy(&x, &narrow, sizeof x);
  return x;
}

static inline double double_of_bits(uint64_t bits) {
  double x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* An integer is exact in a float type if its bits from the first 1 to the last fit into the precision. */
static inline bool fits_bits(uint64_t magnitude, int bits) {
  if (magnitude >> bits == 0) return true;
  return 64 - __builtin_clzll(magnitude) - __builtin_ctzll(magnitude) <= bits;
}

static inline uint64_t magnitude_of(int64_t x) {
  return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

/* ---- A run of values ---------------------------------------------------------------------------------- */

/* Each loop converts many values and returns whether type TO cannot represent one of them. */
#define INTEGERS(STORED, TO, BITS)                                        \
  for (uint64_t i = 0; i < many; i++) {                                   \
    STORED x = (STORED)load(from + i * sizeof x, sizeof x, swapped);      \
    to[i] = (TO)x;                                                        \
    if (sizeof x >= 4) bad |= !fits_bits(magnitude_of((int64_t)x), BITS); \
  }

#define CONVERT_RUN(TO, BITS)                                                                                \
  static bool convert_run_##TO(const adji_conversion *c, const unsigned char *from, uint64_t many, TO *to) { \
    bool swapped = c->swapped, bad = false;                                                                  \
    switch (c->stored) {                                                                                     \
      case ADJI_F16:                                                                                         \
        for (uint64_t i = 0; i < many; i++)                                                                  \
          to[i] = (TO)float_of_half((uint16_t)load(from + 2 * i, 2, swapped));                               \
        return false;                                                                                        \
      case ADJI_F32:                                                                                         \
        for (uint64_t i = 0; i < many; i++)                                                                  \
          to[i] = (TO)float_of_bits(load(from + 4 * i, 4, swapped));                                         \
        return false;                                                                                        \
      case ADJI_F64:                                                                                         \
        for (uint64_t i = 0; i < many; i++) {                                                                \
          double x = double_of_bits(load(from + 8 * i, 8, swapped));                                         \
          to[i] = (TO)x;                                                                                     \
          bad |= isinf(to[i]) && !isinf(x);                                                                  \
        }                                                                                                    \
        return bad;                                                                                          \
      case ADJI_I8:                                                                                          \
        INTEGERS(int8_t, TO, BITS)                                                                           \
        return false;                                                                                        \
      case ADJI_U8:                                                                                          \
        INTEGERS(uint8_t, TO, BITS)                                                                          \
        return false;                                                                                        \
      case ADJI_I16:                                                                                         \
        INTEGERS(int16_t, TO, BITS)                                                                          \
        return false;                                                                                        \
      case ADJI_U16:                                                                                         \
        INTEGERS(uint16_t, TO, BITS)                                                                         \
        return false;                                                                                        \
      case ADJI_I32:                                                                                         \
        INTEGERS(int32_t, TO, BITS)                                                                          \
        break;                                                                                               \
      case ADJI_U32:                                                                                         \
        INTEGERS(uint32_t, TO, BITS)                                                                         \
        break;                                                                                               \
      case ADJI_I64:                                                                                         \
        INTEGERS(int64_t, TO, BITS)                                                                          \
        break;                                                                                               \
      case ADJI_U64:                                                                                         \
        for (uint64_t i = 0; i < many; i++) {                                                                \
          uint64_t x = load(from + 8 * i, 8, swapped);                                                       \
          to[i] = (TO)x;                                                                                     \
          bad |= !fits_bits(x, BITS);                                                                        \
        }                                                                                                    \
        break;                                                                                               \
      default:                                                                                               \
        break;                                                                                               \
    }                                                                                                        \
    return bad && c->exact;                                                                                  \
  }
CONVERT_RUN(float, 24)
CONVERT_RUN(double, 53)

static bool convert_run(const adji_conversion *c, const unsigned char *from, uint64_t many, void *to) {
  return c->type == ADJ_F64 ? convert_run_double(c, from, many, to) : convert_run_float(c, from, many, to);
}

/* ---- Chunks ---------------------------------------------------------------------------------------------- */

typedef struct chunked_conversion {
  const adji_conversion *conversion;
  uint64_t values, chunks;
} chunked_conversion;

static adj_status report_value(const adji_conversion *c, const unsigned char *at, uint64_t index) {
  uint64_t run = index / c->run_length, place = index % c->run_length;
  unsigned long long row = c->first_row + (c->by_column ? place : run) + 1;
  unsigned long long column = (c->by_column ? run : place) + 1;
  uint64_t bits = load(at, adji_stored_size(c->stored), c->swapped);
  const char *type = c->type == ADJ_F64 ? "f64" : "f32";
  if (c->stored == ADJI_F64)
    return adji_fail(ADJ_E_DATA, "row %llu, column %llu: %.17g is too large for %s", row, column, double_of_bits(bits),
                     type);
  if (c->stored == ADJI_U64)
    return adji_fail(ADJ_E_DATA, "row %llu, column %llu: %llu is not exact as %s; choose a type to round it", row,
                     column, (unsigned long long)bits, type);
  return adji_fail(ADJ_E_DATA, "row %llu, column %llu: %lld is not exact as %s; choose a type to round it", row, column,
                   (long long)bits, type);
}

static adj_status convert_chunk(void *user, uint64_t chunk, uint32_t lane) {
  (void)lane;
  const chunked_conversion *job = user;
  const adji_conversion *c = job->conversion;
  size_t from_size = adji_stored_size(c->stored), to_size = adji_type_size(c->type);
  bool packed = c->run_stride == c->run_length * from_size; /* runs without gaps are one long run */
  uint64_t at, end;
  adji_slice(job->values, job->chunks, chunk, &at, &end);
  while (at < end) {
    uint64_t run = at / c->run_length, place = at % c->run_length;
    uint64_t many = end - at;
    if (!packed && many > c->run_length - place) many = c->run_length - place;
    const unsigned char *from = c->from + run * c->run_stride + place * from_size;
    char *to = (char *)c->to + at * to_size;
    if (convert_run(c, from, many, to)) {
      uint64_t i = 0;
      while (!convert_run(c, from + i * from_size, 1, to + i * to_size))
        i++;
      return report_value(c, from + i * from_size, at + i);
    }
    at += many;
  }
  return ADJ_OK;
}

adj_status adji_convert(adj_ctx *ctx, const adji_conversion *conversion) {
  uint64_t values = adji_mul(conversion->runs, conversion->run_length);
  chunked_conversion job = {conversion, values, values / CHUNK_VALUES + 1};
  return values ? adji_loop(ctx, job.chunks, convert_chunk, &job) : ADJ_OK;
}
