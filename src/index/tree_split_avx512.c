/* SPDX-License-Identifier: MIT
 *
 * Splitting points with AVX-512: a vector of values is compared at once and its lanes are compressed to either side.
 */
#include "index/tree_split.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <string.h>

#include "distance/sort_network_avx512.h"
#include "index/tree_split_pick.h"

/* The lowest `many` set bits of mask. */
static inline uint32_t lowest_bits(uint32_t mask, uint64_t many) {
  if (many >= 32) return mask;
  return _pdep_u32((UINT32_C(1) << many) - 1, mask);
}

/* The numbers of the lanes in a mask, in order. */
static inline __m512i list_of_16(__mmask16 lanes) {
  return _mm512_maskz_compress_epi32(lanes, _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0));
}
static inline __m512i list_of_8(__mmask8 lanes) {
  return _mm512_maskz_compress_epi64(lanes, _mm512_set_epi64(7, 6, 5, 4, 3, 2, 1, 0));
}

/* PS: ps or pd. MASK: the type of a mask. IDS_*: operations on as many ids as a vector has lanes. */
#define SPLIT(T, PS, VEC, MASK, LANES, LIST, IDS, IDS_LOAD, IDS_STORE)                                            \
  static inline MASK first_##T(uint64_t many) {                                                                   \
    return many >= (LANES) ? (MASK)((UINT32_C(1) << (LANES)) - 1) : (MASK)((UINT32_C(1) << many) - 1);            \
  }                                                                                                               \
                                                                                                                  \
  static void range_##T(const void *values, uint64_t count, double *low, double *high) {                          \
    const T *x = values;                                                                                          \
    VEC least = _mm512_set1_##PS(x[0]), most = least;                                                             \
    for (uint64_t i = 0; i < count; i += (LANES)) {                                                               \
      VEC v = _mm512_mask_loadu_##PS(_mm512_set1_##PS(x[0]), first_##T(count - i), x + i);                        \
      least = _mm512_min_##PS(least, v);                                                                          \
      most = _mm512_max_##PS(most, v);                                                                            \
    }                                                                                                             \
    *low = (double)_mm512_reduce_min_##PS(least);                                                                 \
    *high = (double)_mm512_reduce_max_##PS(most);                                                                 \
  }                                                                                                               \
                                                                                                                  \
  static uint32_t widest_##T(const adji_columns *from, uint32_t dim, uint64_t count, double *low, double *high) { \
    uint64_t step = adji_stretch_step(count);                                                                     \
    uint32_t best = 0;                                                                                            \
    T most = -1;                                                                                                  \
    for (uint32_t j = 0; j < dim; j++) {                                                                          \
      const T *x = (const T *)from->coords + j * from->stride;                                                    \
      VEC below = _mm512_set1_##PS(x[0]), above = below;                                                          \
      for (uint64_t i = 0; i + ADJI_STRETCH <= count; i += step) {                                                \
        for (uint32_t lane = 0; lane < ADJI_STRETCH; lane += (LANES)) {                                           \
          below = _mm512_min_##PS(below, _mm512_loadu_##PS(x + i + lane));                                        \
          above = _mm512_max_##PS(above, _mm512_loadu_##PS(x + i + lane));                                        \
        }                                                                                                         \
      }                                                                                                           \
      T least = _mm512_reduce_min_##PS(below), largest = _mm512_reduce_max_##PS(above);                           \
      if (!(largest - least > most)) continue;                                                                    \
      most = largest - least;                                                                                     \
      best = j;                                                                                                   \
      *low = (double)least;                                                                                       \
      *high = (double)largest;                                                                                    \
    }                                                                                                             \
    return best;                                                                                                  \
  }                                                                                                               \
                                                                                                                  \
  static void count_##T(const void *values, uint64_t count, double value, uint64_t *below, uint64_t *not_above) { \
    const T *x = values;                                                                                          \
    VEC v = _mm512_set1_##PS((T)value);                                                                           \
    uint64_t less = 0, less_equal = 0;                                                                            \
    for (uint64_t i = 0; i < count; i += (LANES)) {                                                               \
      MASK lanes = first_##T(count - i);                                                                          \
      VEC at = _mm512_maskz_loadu_##PS(lanes, x + i);                                                             \
      less += (uint64_t)__builtin_popcount(_mm512_mask_cmp_##PS##_mask(lanes, at, v, _CMP_LT_OQ));                \
      less_equal += (uint64_t)__builtin_popcount(_mm512_mask_cmp_##PS##_mask(lanes, at, v, _CMP_LE_OQ));          \
    }                                                                                                             \
    *below = less;                                                                                                \
    *not_above = less_equal;                                                                                      \
  }                                                                                                               \
                                                                                                                  \
  static uint64_t collect_##T(const void *values, uint64_t count, double low, double high, void *to,              \
                              uint64_t *below) {                                                                  \
    const T *x = values;                                                                                          \
    T *out = to;                                                                                                  \
    VEC a = _mm512_set1_##PS((T)low), b = _mm512_set1_##PS((T)high);                                              \
    uint64_t taken = 0, less = 0;                                                                                 \
    for (uint64_t i = 0; i < count; i += (LANES)) {                                                               \
      MASK lanes = first_##T(count - i);                                                                          \
      VEC at = _mm512_maskz_loadu_##PS(lanes, x + i);                                                             \
      MASK under = _mm512_mask_cmp_##PS##_mask(lanes, at, a, _CMP_LT_OQ);                                         \
      MASK inside = (MASK)(_mm512_mask_cmp_##PS##_mask(lanes, at, b, _CMP_LE_OQ) & ~under);                       \
      _mm512_storeu_##PS(out + taken, _mm512_maskz_compress_##PS(inside, at));                                    \
      less += (uint64_t)__builtin_popcount(under);                                                                \
      taken += (uint64_t)__builtin_popcount(inside);                                                              \
    }                                                                                                             \
    *below += less;                                                                                               \
    return taken;                                                                                                 \
  }                                                                                                               \
                                                                                                                  \
  /* A permutation by a list of lanes costs less than compressing every column. Stores are masked, since the      \
   * entries after them belong to another slice. */                                                               \
  static inline void store_##T(const adji_split_job *job, uint64_t i, const adji_columns *to, uint64_t at,        \
                               MASK lanes) {                                                                      \
    const MASK many = first_##T((uint64_t)__builtin_popcount(lanes));                                             \
    const __m512i list = LIST(lanes);                                                                             \
    const uint64_t from_stride = job->from.stride, to_stride = to->stride, dim = job->dim;                        \
    const T *from = (const T *)job->from.coords + i;                                                              \
    T *out = (T *)to->coords + at;                                                                                \
    for (uint64_t j = 0; j < dim; j++, from += from_stride, out += to_stride)                                     \
      _mm512_mask_storeu_##PS(out, many, _mm512_permutexvar_##PS(list, _mm512_maskz_loadu_##PS(lanes, from)));    \
    IDS_STORE(to->ids + at, many, IDS##_maskz_compress_epi32(lanes, IDS_LOAD(lanes, job->from.ids + i)));         \
  }                                                                                                               \
                                                                                                                  \
  static void split_##T(const adji_split_job *job) {                                                              \
    const T *x = (const T *)job->from.coords + job->axis * job->from.stride;                                      \
    VEC v = _mm512_set1_##PS((T)job->value);                                                                      \
    uint64_t left = job->left_at, right = job->right_at, equal = job->equal;                                      \
    for (uint64_t i = job->begin; i < job->end; i += (LANES)) {                                                   \
      MASK lanes = first_##T(job->end - i);                                                                       \
      VEC at = _mm512_maskz_loadu_##PS(lanes, x + i);                                                             \
      MASK less = _mm512_mask_cmp_##PS##_mask(lanes, at, v, _CMP_LT_OQ);                                          \
      MASK same = (MASK)lowest_bits(_mm512_mask_cmp_##PS##_mask(lanes, at, v, _CMP_EQ_OQ), equal);                \
      MASK goes_left = (MASK)(less | same), goes_right = (MASK)(lanes & ~goes_left);                              \
      equal -= (uint64_t)__builtin_popcount(same);                                                                \
      store_##T(job, i, &job->left, left, goes_left);                                                             \
      store_##T(job, i, &job->right, right, goes_right);                                                          \
      left += (uint64_t)__builtin_popcount(goes_left);                                                            \
      right += (uint64_t)__builtin_popcount(goes_right);                                                          \
    }                                                                                                             \
  }
#define IDS16_LOAD(lanes, ids) _mm512_maskz_loadu_epi32(lanes, ids)
#define IDS16_STORE(to, lanes, v) _mm512_mask_storeu_epi32(to, lanes, v)
#define IDS8_LOAD(lanes, ids) _mm256_maskz_loadu_epi32(lanes, ids)
#define IDS8_STORE(to, lanes, v) _mm256_mask_storeu_epi32(to, lanes, v)
SPLIT(float, ps, __m512, __mmask16, 16, list_of_16, _mm512, IDS16_LOAD, IDS16_STORE)
SPLIT(double, pd, __m512d, __mmask8, 8, list_of_8, _mm256, IDS8_LOAD, IDS8_STORE)

/* Bits of floats as integers that order as the floats do: the bits of negative floats are inverted. */
static inline __m512i to_ordinals(__m512i bits) {
  __m512i turn = _mm512_or_si512(_mm512_srai_epi32(bits, 31), _mm512_set1_epi32(INT32_MIN));
  return _mm512_xor_si512(bits, turn);
}

static inline __attribute__((always_inline)) double pick_padded(const float *x, uint32_t count, uint32_t rank,
                                                                const uint32_t many) {
  __m512i v[ADJI_FEW / 16];
  for (uint32_t i = 0; i < many; i++) {
    __mmask16 lanes = 16 * i < count ? first_float(count - 16 * i) : 0;
    __m512i bits = _mm512_maskz_loadu_epi32(lanes, x + (uint64_t)16 * i);
    v[i] = _mm512_mask_mov_epi32(_mm512_set1_epi32(-1), lanes, to_ordinals(bits));
  }
  sort_registers(v, many);
  uint32_t sorted[ADJI_FEW];
  for (uint32_t i = 0; i < many; i++)
    _mm512_storeu_si512(sorted + (uint64_t)16 * i, v[i]);
  uint32_t bits = sorted[rank] >> 31 ? sorted[rank] & INT32_MAX : ~sorted[rank];
  float value;
  memcpy(&value, &bits, sizeof value);
  return (double)value;
}

static double pick_float(const void *x, uint32_t count, uint32_t rank) {
  if (count <= 32) return pick_padded(x, count, rank, 2);
  if (count <= 64) return pick_padded(x, count, rank, 4);
  return pick_padded(x, count, rank, 8);
}

PICK(double, int64_t)

/* The same through f32, for which there is a network. Rounding keeps the order, so the value of this rank is one of
 * those that are rounded to the f32 of this rank, most often the only one. */
static double pick_rounded(const void *values, uint32_t count, uint32_t rank) {
  const double *x = values;
  float rounded[ADJI_FEW] = {0};
  double near[ADJI_FEW + 8];
  uint32_t below = 0, taken = 0;
  near[0] = x[0];
  for (uint32_t i = 0; i < count; i += 8) {
    _mm256_storeu_ps(rounded + i, _mm512_cvtpd_ps(_mm512_maskz_loadu_pd(first_double(count - i), x + i)));
  }
  const __m256 wanted = _mm256_set1_ps((float)pick_float(rounded, count, rank));
  for (uint32_t i = 0; i < count; i += 8) {
    __mmask8 lanes = first_double(count - i);
    __m256 eight = _mm256_maskz_loadu_ps(lanes, rounded + i);
    __mmask8 same = _mm256_mask_cmp_ps_mask(lanes, eight, wanted, _CMP_EQ_OQ);
    below += (uint32_t)__builtin_popcount(_mm256_mask_cmp_ps_mask(lanes, eight, wanted, _CMP_LT_OQ));
    _mm512_storeu_pd(near + taken, _mm512_maskz_compress_pd(same, _mm512_maskz_loadu_pd(lanes, x + i)));
    taken += (uint32_t)__builtin_popcount(same);
  }
  return taken == 1 ? near[0] : pick_double(near, taken, rank - below);
}

const adji_split_kernels adji_split_avx512_f32 = {range_float, count_float,  collect_float,
                                                  split_float, widest_float, pick_float};
const adji_split_kernels adji_split_avx512_f64 = {range_double, count_double,  collect_double,
                                                  split_double, widest_double, pick_rounded};
#endif
