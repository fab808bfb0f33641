/* SPDX-License-Identifier: MIT
 *
 * The kernels of one instruction set and type, for every metric. The instruction set's file defines
 * before it includes this:
 *
 *   T, TYPE               float and f32, or double and f64
 *   VEC, LANES            a vector of T and its number of lanes (at most 16)
 *   V_LOAD(p) V_SET1(x) V_ZERO() V_SUB(a, b) V_ADD(a, b) V_MAX(a, b) V_ABS(a) V_FMA(a, b, c)
 *   V_LE(a, b)            uint32_t, bit i set iff a[i] <= b[i]
 *   V_PACK_IDS(to, ids, mask)  stores the ids of the set lanes one behind the other
 *   V_PACK(to, v, mask)        the same for a vector of T; both may write LANES entries
 *
 * All of them are undefined again at the end.
 */
#include "distance/kernels.h"

#ifndef ADJI_INLINE
#define ADJI_INLINE static inline __attribute__((always_inline))
#define PASTE_(name, metric, type) name##_##metric##_##type
#define PASTE(name, metric, type) PASTE_(name, metric, type)
#define FN(name) PASTE(name, METRIC, TYPE)
/* Dimensions that have an instance of their own, where the queries stay in registers. */
#define FIXED_DIMENSIONS(X) X(1) X(2) X(3) X(4) X(5) X(6)
enum { MOST_FIXED = 6, SHORTC_STEP = 4 };
#endif

#define METRIC l2
#define SUM(s, t) V_FMA(t, t, s)
#include "distance/kernels_body.h"
#undef METRIC
#undef SUM

#define METRIC l1
#define SUM(s, t) V_ADD(s, V_ABS(t))
#include "distance/kernels_body.h"
#undef METRIC
#undef SUM

#define METRIC linf
#define SUM(s, t) V_MAX(s, V_ABS(t))
#include "distance/kernels_body.h"
#undef METRIC
#undef SUM

#undef T
#undef TYPE
#undef VEC
#undef LANES
#undef V_LOAD
#undef V_SET1
#undef V_ZERO
#undef V_SUB
#undef V_ADD
#undef V_MAX
#undef V_ABS
#undef V_FMA
#undef V_LE
#undef V_PACK_IDS
#undef V_PACK
