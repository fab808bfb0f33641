/* SPDX-License-Identifier: MIT
 *
 * The choice of a kernel table, the canonical distance of one pair, and the functions that finish rows where no
 * instruction set has better ones.
 */
#include "distance/kernels.h"

#include <math.h>
#include <string.h>

#include "distance/stream_row.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

const adji_kernels *adji_kernels_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512")) return &adji_kernels_avx512;
  if (!strcmp(isa, "avx2")) return &adji_kernels_avx2;
#elif defined(__aarch64__)
  if (!strcmp(isa, "neon")) return &adji_kernels_neon;
#endif
  (void)isa;
  return &adji_kernels_scalar;
}

#define SUM_OF(T, suffix, FMA, ABS)                                                                              \
  static T dot_##suffix(const T *a, uint64_t a_stride, const T *b, uint64_t b_stride, uint32_t dim) {            \
    T s = 0;                                                                                                     \
    for (uint32_t j = 0; j < dim; j++)                                                                           \
      s = FMA(a[j * a_stride], b[j * b_stride], s);                                                              \
    return 0 - s;                                                                                                \
  }                                                                                                              \
                                                                                                                 \
  T adji_sum_##suffix(const adji_measure *measure, const T *a, uint64_t a_stride, const T *b, uint64_t b_stride, \
                      uint32_t dim) {                                                                            \
    if (measure->step == ADJI_STEP_DOT) return dot_##suffix(a, a_stride, b, b_stride, dim);                      \
    const T *box = measure->box;                                                                                 \
    T s = 0;                                                                                                     \
    for (uint32_t j = 0; j < dim; j++) {                                                                         \
      T t = ABS(a[j * a_stride] - b[j * b_stride]);                                                              \
      if (box && box[j] - t < t) t = box[j] - t;                                                                 \
      s = adji_step_##suffix(measure, s, t);                                                                     \
    }                                                                                                            \
    return s;                                                                                                    \
  }
SUM_OF(float, f32, fmaf, fabsf)
SUM_OF(double, f64, fma, fabs)

/* ---- Rows ------------------------------------------------------------------------------------ */

static void insertion(uint32_t *ids, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    uint32_t id = ids[i], j = i;
    for (; j && ids[j - 1] > id; j--)
      ids[j] = ids[j - 1];
    ids[j] = id;
  }
}

enum { SHORT = 48, BITS = 8, BUCKETS = 1 << BITS };

/* Sorts ids that agree in all bits from shift + BITS upwards. */
static void radix(uint32_t *ids, uint32_t count, int shift) {
  uint32_t begin[BUCKETS + 1] = {0}, next[BUCKETS];
  for (uint32_t i = 0; i < count; i++)
    begin[(ids[i] >> shift & (BUCKETS - 1)) + 1]++;
  for (int b = 0; b < BUCKETS; b++) {
    next[b] = begin[b];
    begin[b + 1] += begin[b];
  }
  for (int b = 0; b < BUCKETS; b++) {
    while (next[b] < begin[b + 1]) {
      uint32_t id = ids[next[b]];
      uint32_t home = id >> shift & (BUCKETS - 1);
      ids[next[b]] = ids[next[home]];
      ids[next[home]++] = id;
    }
  }
  if (!shift) return;
  for (int b = 0; b < BUCKETS; b++) {
    uint32_t many = begin[b + 1] - begin[b];
    if (many <= SHORT)
      insertion(ids + begin[b], many);
    else
      radix(ids + begin[b], many, shift > BITS ? shift - BITS : 0);
  }
}

void adji_sort_ids_portable(uint32_t *ids, uint32_t count) {
  if (count <= SHORT) {
    insertion(ids, count);
    return;
  }
  uint32_t highest = 0;
  for (uint32_t i = 0; i < count; i++)
    highest |= ids[i];
  int bits = 32 - __builtin_clz(highest | 1);
  radix(ids, count, bits > BITS ? bits - BITS : 0);
}

uint32_t adji_place_ids_portable(uint32_t *ids, uint32_t count, uint32_t drop, bool sort, uint32_t *to) {
  for (uint32_t i = 0; drop != ADJ_NO_ID && i < count; i++) {
    if (ids[i] != drop) continue;
    ids[i] = ids[--count];
    break;
  }
  if (sort) adji_sort_ids_portable(ids, count);
  if (count) memcpy(to, ids, count * sizeof *ids);
  return count;
}

#ifdef __SSE2__
static inline void copy_few(char *to, const char *from, uint64_t bytes) {
  memcpy(to, from, bytes);
}

static inline void stream_line(char *to, const char *from) {
  for (int i = 0; i < ADJI_LINE; i += 16)
    _mm_stream_si128((__m128i *)(void *)(to + i), _mm_loadu_si128((const __m128i *)(const void *)(from + i)));
}
#endif

void adji_stream_row_portable(void *row, const void *from, uint64_t bytes) {
#ifdef __SSE2__
  adji_stream_by(copy_few, stream_line, row, from, bytes);
#else
  memcpy(row, from, bytes);
#endif
}
