/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX2 with FMA. AVX2 cannot compress: a permutation moves the set lanes to the front. pdep and pext
 * compute it from the mask.
 */
#if defined(__x86_64__)
#include "distance/kernels.h"
#include "distance/kernels_x86.h"

/* The lane numbers of the set bits of an 8-lane mask, packed to the front, as 8 x 32 bits. */
static inline __m256i front_lanes(uint32_t mask) {
  uint64_t wide = _pdep_u64(mask, UINT64_C(0x0101010101010101)) * 0xff;
  uint64_t lanes = _pext_u64(UINT64_C(0x0706050403020100), wide);
  return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)lanes));
}

/* The same for 4 lanes of 64 bits, as pairs of 32-bit lanes. */
static inline __m256i front_pairs(uint32_t mask) {
  return front_lanes((uint32_t)_pdep_u32(mask, 0x55) * 3);
}

static inline __m256 two_rows(const float *low, const float *high) {
  return _mm256_insertf128_ps(_mm256_castps128_ps256(_mm_loadu_ps(low)), _mm_loadu_ps(high), 1);
}

static inline void load_four_f32(const float *const *row, uint32_t j, __m256 *c) {
  __m256 a = two_rows(row[0] + j, row[4] + j), b = two_rows(row[1] + j, row[5] + j);
  __m256 d = two_rows(row[2] + j, row[6] + j), e = two_rows(row[3] + j, row[7] + j);
  __m256d ab_low = _mm256_castps_pd(_mm256_unpacklo_ps(a, b)), ab_high = _mm256_castps_pd(_mm256_unpackhi_ps(a, b));
  __m256d de_low = _mm256_castps_pd(_mm256_unpacklo_ps(d, e)), de_high = _mm256_castps_pd(_mm256_unpackhi_ps(d, e));
  c[0] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_low, de_low));
  c[1] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_low, de_low));
  c[2] = _mm256_castpd_ps(_mm256_unpacklo_pd(ab_high, de_high));
  c[3] = _mm256_castpd_ps(_mm256_unpackhi_pd(ab_high, de_high));
}

static inline void load_four_f64(const double *const *row, uint32_t j, __m256d *c) {
  __m256d a = _mm256_loadu_pd(row[0] + j), b = _mm256_loadu_pd(row[1] + j);
  __m256d d = _mm256_loadu_pd(row[2] + j), e = _mm256_loadu_pd(row[3] + j);
  __m256d ab_even = _mm256_unpacklo_pd(a, b), ab_odd = _mm256_unpackhi_pd(a, b);
  __m256d de_even = _mm256_unpacklo_pd(d, e), de_odd = _mm256_unpackhi_pd(d, e);
  c[0] = _mm256_permute2f128_pd(ab_even, de_even, 0x20);
  c[1] = _mm256_permute2f128_pd(ab_odd, de_odd, 0x20);
  c[2] = _mm256_permute2f128_pd(ab_even, de_even, 0x31);
  c[3] = _mm256_permute2f128_pd(ab_odd, de_odd, 0x31);
}

#define V_ABS(a) V_(andnot)(V_SET1((T)-0.0), a)
#define V_LE(a, b) ((uint32_t)V_(movemask)(V_(cmp)(a, b, _CMP_LE_OQ)))
#define V_PACK(to, v, mask) PASTE(PACK, TYPE)(to, v, mask)
#define PACK_f32(to, v, mask) _mm256_storeu_ps(to, _mm256_permutevar8x32_ps(v, front_lanes(mask)))
#define PACK_f64(to, v, mask) \
  _mm256_storeu_pd(to, _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(v), front_pairs(mask))))
#define V_PACK_IDS(to, ids, mask) PASTE(PACK_IDS, TYPE)(to, ids, mask)
#define PACK_IDS_f32(to, ids, mask)    \
  _mm256_storeu_si256((__m256i *)(to), \
                      _mm256_permutevar8x32_epi32(_mm256_loadu_si256((const __m256i *)(ids)), front_lanes(mask)))
#define PACK_IDS_f64(to, ids, mask)                                    \
  _mm_storeu_si128((__m128i *)(to),                                    \
                   _mm256_castsi256_si128(_mm256_permutevar8x32_epi32( \
                       _mm256_castsi128_si256(_mm_loadu_si128((const __m128i *)(ids))), front_lanes(mask))))

#define COUNTS __m256i
#define COUNT_LANE PASTE(COUNT_LANE, TYPE)
#define COUNT_LANE_f32 uint32_t
#define COUNT_LANE_f64 uint64_t
#define COUNTS_ZERO() _mm256_setzero_si256()
#define COUNTS_ADD(c, a, b) PASTE(COUNTS_ADD, TYPE)(c, a, b)
#define COUNTS_ADD_f32(c, a, b) _mm256_sub_epi32(c, _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_LE_OQ)))
#define COUNTS_ADD_f64(c, a, b) _mm256_sub_epi64(c, _mm256_castpd_si256(_mm256_cmp_pd(a, b, _CMP_LE_OQ)))

#define T float
#define TYPE f32
#define VEC __m256
#define LANES 8
#define V_(op) _mm256_##op##_ps
#include "distance/kernels_type.h"

#define T double
#define TYPE f64
#define VEC __m256d
#define LANES 4
#define V_(op) _mm256_##op##_pd
#include "distance/kernels_type.h"

const adji_kernels adji_kernels_avx2 = {"avx2", {&kernels_f32, &kernels_f64}, adji_sort_ids_portable,
                                        false,  adji_place_ids_portable,      adji_stream_row_portable};
#endif
