/* SPDX-License-Identifier: MIT
 *
 * The kernels in plain C, with one lane. Every other instruction set must give the same bits.
 */
#include <math.h>

#include "distance/sort_ids.h"
#include "distance/stream_row.h"

#define PACK_ONE(to, from, mask) (*(to) = (from), (void)(mask))

#define T float
#define TYPE f32
#define VEC float
#define LANES 1
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_SET1(x) (x)
#define V_ZERO() 0.0f
#define V_SUB(a, b) ((a) - (b))
#define V_ADD(a, b) ((a) + (b))
#define V_MUL(a, b) ((a) * (b))
#define V_MIN(a, b) ((a) < (b) ? (a) : (b))
#define V_MAX(a, b) ((b) <= (a) ? (a) : (b)) /* NaN in b stays, as in vectors */
#define V_ABS(a) fabsf(a)
#define V_FMA(a, b, c) fmaf(a, b, c)
#define V_LE(a, b) ((uint32_t)((a) <= (b)))
#define V_PACK_IDS(to, ids, mask) PACK_ONE(to, *(ids), mask)
#define V_PACK(to, v, mask) PACK_ONE(to, v, mask)
#define LIST_HEADER "distance/knn_list.h"
#include "distance/kernels_type.h"

#define T double
#define TYPE f64
#define VEC double
#define LANES 1
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_SET1(x) (x)
#define V_ZERO() 0.0
#define V_SUB(a, b) ((a) - (b))
#define V_ADD(a, b) ((a) + (b))
#define V_MUL(a, b) ((a) * (b))
#define V_MIN(a, b) ((a) < (b) ? (a) : (b))
#define V_MAX(a, b) ((b) <= (a) ? (a) : (b)) /* NaN in b stays, as in vectors */
#define V_ABS(a) fabs(a)
#define V_FMA(a, b, c) fma(a, b, c)
#define V_LE(a, b) ((uint32_t)((a) <= (b)))
#define V_PACK_IDS(to, ids, mask) PACK_ONE(to, *(ids), mask)
#define V_PACK(to, v, mask) PACK_ONE(to, v, mask)
#define LIST_HEADER "distance/knn_list.h"
#include "distance/kernels_type.h"

#include "distance/kernels_table.h"
static const adji_typed_kernels kernels_f32 = ADJI_KERNELS_F32, kernels_f64 = ADJI_KERNELS_F64;
const adji_kernels adji_kernels_scalar = ADJI_KERNEL_TABLE("scalar", kernels_f32, kernels_f64, adji_sort_ids_portable,
                                                           false, adji_place_ids_portable, adji_stream_row_portable);
