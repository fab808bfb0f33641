/* SPDX-License-Identifier: MIT
 *
 * The kernels for NEON (AArch64). Vectors are short, so packing goes lane by lane.
 */
#if defined(__aarch64__)
#include <arm_neon.h>

#include "distance/sort_ids.h"
#include "distance/stream_row.h"

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

#define T float
#define TYPE f32
#define VEC float32x4_t
#define LANES 4
#define V_LOAD(p) vld1q_f32(p)
#define V_STORE(p, v) vst1q_f32(p, v)
#define V_SET1(x) vdupq_n_f32(x)
#define V_ZERO() vdupq_n_f32(0)
#define V_SUB(a, b) vsubq_f32(a, b)
#define V_ADD(a, b) vaddq_f32(a, b)
#define V_MUL(a, b) vmulq_f32(a, b)
#define V_MIN(a, b) vbslq_f32(vcltq_f32(a, b), a, b)
#define V_MAX(a, b) vmaxq_f32(a, b)
#define V_ABS(a) vabsq_f32(a)
#define V_FMA(a, b, c) vfmaq_f32(c, a, b)
#define V_LE(a, b) mask_f32(vcleq_f32(a, b))
#define V_PACK_IDS(to, ids, mask) pack_ids(to, ids, mask)
#define V_PACK(to, v, mask) pack_f32(to, v, mask)
#define LIST_HEADER "distance/knn_list.h"
#include "distance/kernels_type.h"

#define T double
#define TYPE f64
#define VEC float64x2_t
#define LANES 2
#define V_LOAD(p) vld1q_f64(p)
#define V_STORE(p, v) vst1q_f64(p, v)
#define V_SET1(x) vdupq_n_f64(x)
#define V_ZERO() vdupq_n_f64(0)
#define V_SUB(a, b) vsubq_f64(a, b)
#define V_ADD(a, b) vaddq_f64(a, b)
#define V_MUL(a, b) vmulq_f64(a, b)
#define V_MIN(a, b) vbslq_f64(vcltq_f64(a, b), a, b)
#define V_MAX(a, b) vmaxq_f64(a, b)
#define V_ABS(a) vabsq_f64(a)
#define V_FMA(a, b, c) vfmaq_f64(c, a, b)
#define V_LE(a, b) mask_f64(vcleq_f64(a, b))
#define V_PACK_IDS(to, ids, mask) pack_ids(to, ids, mask)
#define V_PACK(to, v, mask) pack_f64(to, v, mask)
#define LIST_HEADER "distance/knn_list.h"
#include "distance/kernels_type.h"

#include "distance/kernels_table.h"
static const adji_typed_kernels kernels_f32 = ADJI_KERNELS_F32, kernels_f64 = ADJI_KERNELS_F64;
const adji_kernels adji_kernels_neon = ADJI_KERNEL_TABLE("neon", kernels_f32, kernels_f64, adji_sort_ids_portable,
                                                         false, adji_place_ids_portable, adji_stream_row_portable);
#endif
