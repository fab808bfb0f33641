/* SPDX-License-Identifier: MIT
 *
 * The kernels for AVX-512 (F, BW, DQ, VL), of f32; those of f64 are in kernels_f64_avx512.c.
 */
#if defined(__x86_64__)
#include "distance/kernels.h"
#include "distance/kernels_x86.h"
#include "distance/knn_near.h"

/* A vector whose quarter q has four coordinates of row first + 4 * q. */
static inline __m512 four_rows(const float *const *row, uint32_t first, uint32_t j) {
  __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(row[first] + j));
  v = _mm512_mask_broadcast_f32x4(v, 0x00f0, _mm_loadu_ps(row[first + 4] + j));
  v = _mm512_mask_broadcast_f32x4(v, 0x0f00, _mm_loadu_ps(row[first + 8] + j));
  return _mm512_mask_broadcast_f32x4(v, 0xf000, _mm_loadu_ps(row[first + 12] + j));
}

/* Lane 4 * q + r belongs to row 4 * q + r: each quarter is transposed on its own. */
static inline void load_four_f32(const float *const *row, uint32_t j, __m512 *c) {
  __m512 a = four_rows(row, 0, j), b = four_rows(row, 1, j), d = four_rows(row, 2, j), e = four_rows(row, 3, j);
  __m512d ab_low = _mm512_castps_pd(_mm512_unpacklo_ps(a, b)), ab_high = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
  __m512d de_low = _mm512_castps_pd(_mm512_unpacklo_ps(d, e)), de_high = _mm512_castps_pd(_mm512_unpackhi_ps(d, e));
  c[0] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_low, de_low));
  c[1] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_low, de_low));
  c[2] = _mm512_castpd_ps(_mm512_unpacklo_pd(ab_high, de_high));
  c[3] = _mm512_castpd_ps(_mm512_unpackhi_pd(ab_high, de_high));
}

#define T float
#define TYPE f32
#define VEC __m512
#define LANES 16
#define V_(op) _mm512_##op##_ps
#define MASK __mmask16
#define IDS __m512i
#define IDS_(op) _mm512_##op
#define IDS_LOAD(p) _mm512_loadu_si512(p)
#define IDS_STORE(p, v) _mm512_storeu_si512(p, v)
#define KNN_NEAR adji_knn_near_avx512
#define LIST_HEADER "distance/knn_list_avx512.h"
#define RANGE_NAME(what) adji_##what##_f32_avx512
#include "distance/kernels_type.h"

#ifndef RANGE_PART
#include "distance/kernels_sort_avx512.h"
#include "distance/stream_row.h"

/* Copies up to 60 bytes. An empty masked store writes nothing but is slow on fresh memory. */
static inline void copy_few(char *to, const char *from, uint64_t bytes) {
  if (!bytes) return;
  __mmask16 few = (__mmask16)((1u << bytes / 4) - 1);
  _mm512_mask_storeu_epi32(to, few, _mm512_maskz_loadu_epi32(few, from));
}

static inline void stream_line(char *to, const char *from) {
  _mm512_stream_si512((__m512i *)(void *)to, _mm512_loadu_si512(from));
}

/* In joins where all cores placed rows of 400 bytes this took 256 ms; adji_stream_row_portable took 294. */
static void stream_row_avx512(void *row, const void *from, uint64_t bytes) {
  adji_stream_by(copy_few, stream_line, row, from, bytes);
}

const adji_kernels adji_kernels_avx512 = {
    "avx512", {&kernels_f32, &adji_kernels_f64_avx512}, sort_ids_avx512, true, place_ids_avx512, stream_row_avx512};
#endif
#endif
