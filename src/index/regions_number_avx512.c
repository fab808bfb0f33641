/* SPDX-License-Identifier: MIT
 *
 * The region of each point with AVX-512: a vector of points walks down the tree of cuts. The first levels are looked up
 * in registers, the others in memory.
 */
#include "index/regions_number.h"

#if defined(__x86_64__)
#include <immintrin.h>

/* A level of up to LANES nodes is one vector. A lane's node is counted from the first node of its level. */
#define LOOK_UP(T, VEC, PS, EPI, IX, LANES)                                                                            \
  static inline __attribute__((always_inline)) void look_up_##T(const adji_numbering *n, uint32_t level, __m512i node, \
                                                                VEC *at, VEC *reach, __m512i *dims) {                  \
    const T *all = (const T *)n->at + (UINT64_C(1) << level);                                                          \
    const T *near = (const T *)n->near + (UINT64_C(1) << level);                                                       \
    const char *every = (const char *)n->dims + (sizeof(T) << level);                                                  \
    if (1u << level <= (LANES)) {                                                                                      \
      *at = _mm512_permutexvar_##PS(node, _mm512_loadu_##PS(all));                                                     \
      *reach = _mm512_permutexvar_##PS(node, _mm512_loadu_##PS(near));                                                 \
      *dims = _mm512_permutexvar_##EPI(node, _mm512_loadu_si512(every));                                               \
    } else {                                                                                                           \
      *at = _mm512_##IX##gather_##PS(node, all, sizeof(T));                                                            \
      *reach = _mm512_##IX##gather_##PS(node, near, sizeof(T));                                                        \
      *dims = _mm512_##IX##gather_##EPI(node, every, sizeof(T));                                                       \
    }                                                                                                                  \
  }

/* DIM: a constant. */
#define WALK(T, VEC, PS, EPI, IX, MASK, LANES)                                                                     \
  static inline __attribute__((always_inline)) uint64_t walk_##T(const adji_number_job *job, uint32_t dim) {       \
    const adji_numbering *n = job->numbering;                                                                      \
    const __m512i one = _mm512_set1_##EPI(1);                                                                      \
    __m512i offsets, node;                                                                                         \
    VEC x[ADJI_NUMBER_DIMS], at, reach, value;                                                                     \
    bool packed = (LANES) == 16 && (dim == 2 || dim == 3) && job->row_stride == dim * sizeof(T) &&                 \
                  job->column_stride == sizeof(T);                                                                 \
    uint64_t found = 0;                                                                                            \
    offsets = offsets_##T(job->row_stride);                                                                        \
    for (uint64_t i = 0; i < job->count; i += (LANES)) {                                                           \
      MASK active = job->count - i < (LANES) ? (MASK)((1u << (job->count - i)) - 1) : (MASK)((1u << (LANES)) - 1); \
      const char *points = job->points + i * job->row_stride;                                                      \
      if (packed && job->count - i >= (LANES))                                                                     \
        unpack_##T(points, dim, x);                                                                                \
      else                                                                                                         \
        for (uint32_t j = 0; j < dim; j++)                                                                         \
          x[j] = _mm512_mask_##IX##gather_##PS(_mm512_setzero_##PS(), active, offsets,                             \
                                               points + j * job->column_stride, 1);                                \
      MASK near = 0;                                                                                               \
      node = _mm512_setzero_si512();                                                                               \
      for (uint32_t level = 0; level < n->depth; level++) {                                                        \
        __m512i dims;                                                                                              \
        look_up_##T(n, level, node, &at, &reach, &dims);                                                           \
        value = x[0];                                                                                              \
        for (uint32_t j = 1; j < dim; j++)                                                                         \
          value = _mm512_mask_mov_##PS(value, _mm512_cmpeq_##EPI##_mask(dims, _mm512_set1_##EPI(j)), x[j]);        \
        near |= _mm512_cmp_##PS##_mask(_mm512_abs_##PS(_mm512_sub_##PS(value, at)), reach, _CMP_LE_OQ);            \
        node = _mm512_add_##EPI(node, node);                                                                       \
        node = _mm512_mask_add_##EPI(node, _mm512_cmp_##PS##_mask(value, at, _CMP_GE_OQ), node, one);              \
      }                                                                                                            \
      _mm512_mask_cvt##EPI##_storeu_epi16(job->numbers + i, active,                                                \
                                          _mm512_##IX##gather_##EPI(node, n->regions, sizeof(T)));                 \
      for (uint32_t bits = near & active; bits; bits &= bits - 1)                                                  \
        job->near[found++] = (uint16_t)(i + (uint32_t)__builtin_ctz(bits));                                        \
    }                                                                                                              \
    return found;                                                                                                  \
  }

/* Coordinate j of 16 packed points of two or three dimensions, taken from the vectors that hold the points. */
static inline __attribute__((always_inline)) void unpack_float(const char *points, uint32_t dim, __m512 *x) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512 first = _mm512_loadu_ps(points), second = _mm512_loadu_ps(points + 64);
  for (uint32_t j = 0; j < dim; j++) {
    __m512i from = _mm512_add_epi32(_mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)dim)), _mm512_set1_epi32((int)j));
    x[j] = _mm512_permutex2var_ps(first, from, second);
    if (dim < 3) continue;
    __mmask16 third = _mm512_cmpge_epi32_mask(from, _mm512_set1_epi32(32));
    x[j] = _mm512_mask_permutexvar_ps(x[j], third, from, _mm512_loadu_ps(points + 128));
  }
}

/* Not used: for the eight numbers of a vector it would not pay. */
static inline void unpack_double(const char *points, uint32_t dim, __m512d *x) {
  (void)points;
  (void)dim;
  (void)x;
}

static inline __m512i offsets_float(uint64_t stride) {
  const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_mullo_epi32(lanes, _mm512_set1_epi32((int)stride));
}

static inline __m512i offsets_double(uint64_t stride) {
  return _mm512_mullo_epi64(_mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7), _mm512_set1_epi64((long long)stride));
}

LOOK_UP(float, __m512, ps, epi32, i32, 16)
LOOK_UP(double, __m512d, pd, epi64, i64, 8)
WALK(float, __m512, ps, epi32, i32, __mmask16, 16)
WALK(double, __m512d, pd, epi64, i64, __mmask8, 8)

/* One copy of the walk for each number of dimensions, whose coordinates stay in registers. */
#define DISPATCH(T, suffix)                                          \
  uint64_t adji_number_avx512_##suffix(const adji_number_job *job) { \
    switch (job->numbering->dim) {                                   \
      case 1:                                                        \
        return walk_##T(job, 1);                                     \
      case 2:                                                        \
        return walk_##T(job, 2);                                     \
      case 3:                                                        \
        return walk_##T(job, 3);                                     \
      case 4:                                                        \
        return walk_##T(job, 4);                                     \
      case 5:                                                        \
        return walk_##T(job, 5);                                     \
      default:                                                       \
        return walk_##T(job, 6);                                     \
    }                                                                \
  }
DISPATCH(float, f32)
DISPATCH(double, f64)

uint64_t adji_reached_avx512(const adji_reach_boxes *b, const double *point) {
  uint64_t found = 0;
  for (uint32_t i = 0; i < b->count; i += 8) {
    __m512d reach = _mm512_loadu_pd(b->reaches + i);
    __mmask8 in = 0xff;
    for (uint32_t j = 0; j < b->dim; j++) {
      __m512d x = _mm512_set1_pd(point[j]);
      __m512d above = _mm512_sub_pd(x, _mm512_loadu_pd(b->high + (uint64_t)j * ADJI_REACHED_REGIONS + i));
      __m512d below = _mm512_sub_pd(_mm512_loadu_pd(b->low + (uint64_t)j * ADJI_REACHED_REGIONS + i), x);
      in = _mm512_mask_cmp_pd_mask(in, _mm512_max_pd(above, below), reach, _CMP_LE_OQ);
    }
    found |= (uint64_t)in << i;
  }
  return found;
}
#endif
