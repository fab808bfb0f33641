/* SPDX-License-Identifier: MIT
 *
 * The kernels for NEON (AArch64). Vectors are short, so packing goes lane by lane.
 */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "distance/kernels.h"

static inline uint32_t mask_f32(uint32x4_t lanes) {
  const uint32x4_t bits = {1, 2, 4, 8};
  return vaddvq_u32(vandq_u32(lanes, bits));
}
static inline uint32_t mask_f64(uint64x2_t lanes) {
  const uint64x2_t bits = {1, 2};
  return (uint32_t)vaddvq_u64(vandq_u64(lanes, bits));
}
static inline void pack_ids(uint32_t *to, const uint32_t *ids, uint32_t mask) {
  for (; mask; mask &= mask - 1)
    *to++ = ids[__builtin_ctz(mask)];
}
static inline void pack_f32(float *to, float32x4_t v, uint32_t mask) {
  float lane[4];
  vst1q_f32(lane, v);
  for (; mask; mask &= mask - 1)
    *to++ = lane[__builtin_ctz(mask)];
}
static inline void pack_f64(double *to, float64x2_t v, uint32_t mask) {
  double lane[2];
  vst1q_f64(lane, v);
  for (; mask; mask &= mask - 1)
    *to++ = lane[__builtin_ctz(mask)];
}

#define V_LOAD(p) V_(ld1)(p)
#define V_STORE(p, v) V_(st1)(p, v)
#define V_SET1(x) PASTE(vdupq_n, TYPE)(x)
#define V_ZERO() V_SET1(0)
#define V_SUB(a, b) V_(sub)(a, b)
#define V_ADD(a, b) V_(add)(a, b)
#define V_MUL(a, b) V_(mul)(a, b)
#define V_MIN(a, b) V_(bsl)(V_(clt)(a, b), a, b)
#define V_MAX(a, b) V_(max)(a, b)
#define V_ABS(a) V_(abs)(a)
#define V_FMA(a, b, c) V_(fma)(c, a, b)
#define V_LE(a, b) TYPED(mask)(V_(cle)(a, b))
#define V_PACK(to, v, mask) TYPED(pack)(to, v, mask)
#define V_PACK_IDS(to, ids, mask) pack_ids(to, ids, mask)

#define COUNTS PASTE(COUNTS, TYPE)
#define COUNTS_f32 uint32x4_t
#define COUNTS_f64 uint64x2_t
#define COUNT_LANE PASTE(COUNT_LANE, TYPE)
#define COUNT_LANE_f32 uint32_t
#define COUNT_LANE_f64 uint64_t
#define COUNTS_ZERO() PASTE(COUNTS_ZERO, TYPE)
#define COUNTS_ZERO_f32 vdupq_n_u32(0)
#define COUNTS_ZERO_f64 vdupq_n_u64(0)
#define COUNTS_ADD(c, a, b) PASTE(COUNTS_ADD, TYPE)(c, V_(cle)(a, b))
#define COUNTS_ADD_f32(c, lanes) vsubq_u32(c, lanes)
#define COUNTS_ADD_f64(c, lanes) vsubq_u64(c, lanes)

#define T float
#define TYPE f32
#define VEC float32x4_t
#define LANES 4
#define V_(op) v##op##q_f32
#include "distance/kernels_type.h"

#define T double
#define TYPE f64
#define VEC float64x2_t
#define LANES 2
#define V_(op) v##op##q_f64
#include "distance/kernels_type.h"

const adji_kernels adji_kernels_neon = {"neon", {&kernels_f32, &kernels_f64}, adji_sort_ids_portable,
                                        false,  adji_place_ids_portable,      adji_stream_row_portable};
#endif
