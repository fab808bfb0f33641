/* SPDX-License-Identifier: MIT
 *
 * Splitting points with AVX2: a vector of values is compared at once, and its lanes are permuted to either side.
 */
#include "index/tree_split.h"

#if defined(__x86_64__)
#include <immintrin.h>

#include "distance/front_lanes_avx2.h"
#include "index/tree_split_pick.h"

/* The lowest `many` set bits of mask. */
static inline uint32_t lowest_bits(uint32_t mask, uint64_t many) {
  uint32_t bits = 0;
  for (; mask && many; many--, mask &= mask - 1)
    bits |= mask & -mask;
  return bits;
}

#define BITS(PS, a, b, how) ((uint32_t)_mm256_movemask_##PS(_mm256_cmp_##PS(a, b, how)))
#define PERMUTE_ps(v, front) _mm256_permutevar8x32_ps(v, front)
#define PERMUTE_pd(v, front) _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(v), front))
#define FRONT_ps(mask) front_lanes(mask)
#define FRONT_pd(mask) front_pairs(mask)

static inline void pack_ids_float(uint32_t *to, const uint32_t *ids, uint32_t mask) {
  __m256i v = _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(const void *)ids), front_lanes(mask));
  _mm256_storeu_si256((__m256i *)(void *)to, v);
}

static inline void pack_ids_double(uint32_t *to, const uint32_t *ids, uint32_t mask) {
  __m256i v = _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(const void *)ids));
  _mm_storeu_si128((__m128i *)(void *)to, _mm256_castsi256_si128(_mm256_permutevar8x32_epi32(v, front_lanes(mask))));
}

/* PS: ps or pd. */
#define SPLIT(T, PS, VEC, LANES)                                                                                  \
  static void range_##T(const void *values, uint64_t count, double *low, double *high) {                          \
    const T *x = values;                                                                                          \
    T from[LANES], to[LANES];                                                                                     \
    VEC least = _mm256_set1_##PS(x[0]), most = least;                                                             \
    uint64_t i = 0;                                                                                               \
    for (; i + (LANES) <= count; i += (LANES)) {                                                                  \
      VEC v = _mm256_loadu_##PS(x + i);                                                                           \
      least = _mm256_min_##PS(least, v);                                                                          \
      most = _mm256_max_##PS(most, v);                                                                            \
    }                                                                                                             \
    _mm256_storeu_##PS(from, least);                                                                              \
    _mm256_storeu_##PS(to, most);                                                                                 \
    for (uint32_t l = 1; l < (LANES); l++) {                                                                      \
      from[0] = from[l] < from[0] ? from[l] : from[0];                                                            \
      to[0] = to[l] > to[0] ? to[l] : to[0];                                                                      \
    }                                                                                                             \
    for (; i < count; i++) {                                                                                      \
      from[0] = x[i] < from[0] ? x[i] : from[0];                                                                  \
      to[0] = x[i] > to[0] ? x[i] : to[0];                                                                        \
    }                                                                                                             \
    *low = (double)from[0];                                                                                       \
    *high = (double)to[0];                                                                                        \
  }                                                                                                               \
                                                                                                                  \
  static uint32_t widest_##T(const adji_columns *from, uint32_t dim, uint64_t count, double *low, double *high) { \
    uint64_t step = adji_stretch_step(count);                                                                     \
    uint32_t best = 0;                                                                                            \
    T most = -1;                                                                                                  \
    for (uint32_t j = 0; j < dim; j++) {                                                                          \
      const T *x = (const T *)from->coords + j * from->stride;                                                    \
      T ends[2][LANES];                                                                                           \
      VEC below = _mm256_set1_##PS(x[0]), above = below;                                                          \
      for (uint64_t i = 0; i + ADJI_STRETCH <= count; i += step) {                                                \
        for (uint32_t lane = 0; lane < ADJI_STRETCH; lane += (LANES)) {                                           \
          below = _mm256_min_##PS(below, _mm256_loadu_##PS(x + i + lane));                                        \
          above = _mm256_max_##PS(above, _mm256_loadu_##PS(x + i + lane));                                        \
        }                                                                                                         \
      }                                                                                                           \
      _mm256_storeu_##PS(ends[0], below);                                                                         \
      _mm256_storeu_##PS(ends[1], above);                                                                         \
      for (uint32_t lane = 1; lane < (LANES); lane++) {                                                           \
        ends[0][0] = ends[0][lane] < ends[0][0] ? ends[0][lane] : ends[0][0];                                     \
        ends[1][0] = ends[1][lane] > ends[1][0] ? ends[1][lane] : ends[1][0];                                     \
      }                                                                                                           \
      if (!(ends[1][0] - ends[0][0] > most)) continue;                                                            \
      most = ends[1][0] - ends[0][0];                                                                             \
      best = j;                                                                                                   \
      *low = (double)ends[0][0];                                                                                  \
      *high = (double)ends[1][0];                                                                                 \
    }                                                                                                             \
    return best;                                                                                                  \
  }                                                                                                               \
                                                                                                                  \
  static void count_##T(const void *values, uint64_t count, double value, uint64_t *below, uint64_t *not_above) { \
    const T *x = values, v = (T)value;                                                                            \
    VEC all = _mm256_set1_##PS(v);                                                                                \
    uint64_t less = 0, less_equal = 0, i = 0;                                                                     \
    for (; i + (LANES) <= count; i += (LANES)) {                                                                  \
      VEC at = _mm256_loadu_##PS(x + i);                                                                          \
      less += (uint64_t)__builtin_popcount(BITS(PS, at, all, _CMP_LT_OQ));                                        \
      less_equal += (uint64_t)__builtin_popcount(BITS(PS, at, all, _CMP_LE_OQ));                                  \
    }                                                                                                             \
    for (; i < count; i++) {                                                                                      \
      less += x[i] < v;                                                                                           \
      less_equal += x[i] <= v;                                                                                    \
    }                                                                                                             \
    *below = less;                                                                                                \
    *not_above = less_equal;                                                                                      \
  }                                                                                                               \
                                                                                                                  \
  static uint64_t collect_##T(const void *values, uint64_t count, double low, double high, void *to,              \
                              uint64_t *below) {                                                                  \
    const T *x = values;                                                                                          \
    T *out = to;                                                                                                  \
    VEC a = _mm256_set1_##PS((T)low), b = _mm256_set1_##PS((T)high);                                              \
    uint64_t taken = 0, less = 0, i = 0;                                                                          \
    for (; i + (LANES) <= count; i += (LANES)) {                                                                  \
      VEC at = _mm256_loadu_##PS(x + i);                                                                          \
      uint32_t under = BITS(PS, at, a, _CMP_LT_OQ), inside = BITS(PS, at, b, _CMP_LE_OQ) & ~under;                \
      _mm256_storeu_##PS(out + taken, PERMUTE_##PS(at, FRONT_##PS(inside)));                                      \
      less += (uint64_t)__builtin_popcount(under);                                                                \
      taken += (uint64_t)__builtin_popcount(inside);                                                              \
    }                                                                                                             \
    for (; i < count; i++) {                                                                                      \
      out[taken] = x[i];                                                                                          \
      less += x[i] < (T)low;                                                                                      \
      taken += x[i] >= (T)low && x[i] <= (T)high;                                                                 \
    }                                                                                                             \
    *below += less;                                                                                               \
    return taken;                                                                                                 \
  }                                                                                                               \
                                                                                                                  \
  static inline void pack_##T(const adji_split_job *job, uint64_t i, const adji_columns *to, uint64_t at,         \
                              uint32_t lanes) {                                                                   \
    const T *from = (const T *)job->from.coords + i;                                                              \
    T *out = (T *)to->coords + at;                                                                                \
    __m256i front = FRONT_##PS(lanes);                                                                            \
    for (uint32_t j = 0; j < job->dim; j++, from += job->from.stride, out += to->stride)                          \
      _mm256_storeu_##PS(out, PERMUTE_##PS(_mm256_loadu_##PS(from), front));                                      \
    pack_ids_##T(to->ids + at, job->from.ids + i, lanes);                                                         \
  }                                                                                                               \
                                                                                                                  \
  static inline void move_##T(const adji_split_job *job, uint64_t i, const adji_columns *to, uint64_t at) {       \
    const T *from = (const T *)job->from.coords + i;                                                              \
    T *out = (T *)to->coords + at;                                                                                \
    for (uint32_t j = 0; j < job->dim; j++)                                                                       \
      out[j * to->stride] = from[j * job->from.stride];                                                           \
    to->ids[at] = job->from.ids[i];                                                                               \
  }                                                                                                               \
                                                                                                                  \
  /* A whole vector is stored only if all of it is before the end of its side: later entries belong to another    \
   * slice. So the sides are counted first. */                                                                    \
  static void split_##T(const adji_split_job *job) {                                                              \
    const T *x = (const T *)job->from.coords + job->axis * job->from.stride, v = (T)job->value;                   \
    VEC all = _mm256_set1_##PS(v);                                                                                \
    uint64_t left = job->left_at, right = job->right_at, equal = job->equal, i = job->begin, below, not_above;    \
    count_##T(x + i, job->end - i, job->value, &below, &not_above);                                               \
    uint64_t same_left = not_above - below < equal ? not_above - below : equal;                                   \
    uint64_t left_end = left + below + same_left, right_end = right + (job->end - i - below - same_left);         \
    for (; i + (LANES) <= job->end && left + (LANES) <= left_end && right + (LANES) <= right_end; i += (LANES)) { \
      VEC at = _mm256_loadu_##PS(x + i);                                                                          \
      uint32_t same = lowest_bits(BITS(PS, at, all, _CMP_EQ_OQ), equal);                                          \
      uint32_t goes_left = BITS(PS, at, all, _CMP_LT_OQ) | same, goes_right = goes_left ^ ((1U << (LANES)) - 1);  \
      equal -= (uint64_t)__builtin_popcount(same);                                                                \
      pack_##T(job, i, &job->left, left, goes_left);                                                              \
      pack_##T(job, i, &job->right, right, goes_right);                                                           \
      left += (uint64_t)__builtin_popcount(goes_left);                                                            \
      right += (uint64_t)__builtin_popcount(goes_right);                                                          \
    }                                                                                                             \
    for (; i < job->end; i++) {                                                                                   \
      bool same = x[i] == v && equal, goes_right = !(x[i] < v || same);                                           \
      equal -= same;                                                                                              \
      move_##T(job, i, goes_right ? &job->right : &job->left, goes_right ? right : left);                         \
      right += goes_right;                                                                                        \
      left += !goes_right;                                                                                        \
    }                                                                                                             \
  }
SPLIT(float, ps, __m256, 8)
SPLIT(double, pd, __m256d, 4)
PICK(float, int32_t)
PICK(double, int64_t)

const adji_split_kernels adji_split_avx2_f32 = {range_float, count_float,  collect_float,
                                                split_float, widest_float, pick_float};
const adji_split_kernels adji_split_avx2_f64 = {range_double, count_double,  collect_double,
                                                split_double, widest_double, pick_double};
#endif
