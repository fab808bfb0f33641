/* SPDX-License-Identifier: MIT
 *
 * The kernels in plain C, with one lane. Every other instruction set must give the same bits.
 */
#include <math.h>

/* An x86-64 CPU that needs these kernels has no FMA either. Each step is then a function call, and instances for single
 * dimensions gain nothing. */
#if defined(__x86_64__) && !defined(ADJOIN_FEW_INSTANCES)
#define ADJOIN_FEW_INSTANCES
#endif

#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_SET1(x) (x)
#define V_ZERO() ((T)0)
#define V_SUB(a, b) ((a) - (b))
#define V_ADD(a, b) ((a) + (b))
#define V_MUL(a, b) ((a) * (b))
#define V_MIN(a, b) ((a) < (b) ? (a) : (b))
#define V_MAX(a, b) ((b) <= (a) ? (a) : (b)) /* NaN in b is kept, as in vectors */
#define V_ABS(a) V_(fabs)(a)
#define V_FMA(a, b, c) V_(fma)(a, b, c)
#define V_LE(a, b) ((uint32_t)((a) <= (b)))
#define V_PACK(to, v, mask) (*(to) = (v), (void)(mask))
#define V_PACK_IDS(to, ids, mask) V_PACK(to, *(ids), mask)

#define T float
#define TYPE f32
#define VEC float
#define LANES 1
#define V_(op) op##f
#include "distance/kernels_type.h"

#define T double
#define TYPE f64
#define VEC double
#define LANES 1
#define V_(op) op
#include "distance/kernels_type.h"

const adji_kernels adji_kernels_scalar = {"scalar", {&kernels_f32, &kernels_f64}, adji_sort_ids_portable,
                                          false,    adji_place_ids_portable,      adji_stream_row_portable};
