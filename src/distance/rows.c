/* SPDX-License-Identifier: MIT
 *
 * Sums of listed rows in plain C, and the choice of an instruction set.
 */
#include "distance/rows.h"

#include <math.h>
#include <string.h>

#define PLAIN_FOUR(row, j, c)         \
  for (uint32_t i_ = 0; i_ < 4; i_++) \
  (c)[i_] = (row)[0][(j) + i_]

#define T float
#define FN(name) name##_f32
#define VEC float
#define LANES 1
#define V_ZERO() 0.0f
#define V_SUB(a, b) ((a) - (b))
#define V_SET1(x) (x)
#define V_FMA(a, b, c) fmaf(a, b, c)
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_ANY_LE(a, b) ((a) <= (b))
#define LOAD_FOUR PLAIN_FOUR
#include "distance/rows_body.h"

#define T double
#define FN(name) name##_f64
#define VEC double
#define LANES 1
#define V_ZERO() 0.0
#define V_SUB(a, b) ((a) - (b))
#define V_SET1(x) (x)
#define V_FMA(a, b, c) fma(a, b, c)
#define V_LOAD(p) (*(p))
#define V_STORE(p, v) (*(p) = (v))
#define V_ANY_LE(a, b) ((a) <= (b))
#define LOAD_FOUR PLAIN_FOUR
#include "distance/rows_body.h"

static const adji_rows_kernels rows_kernels_scalar = {{sums_f32, sums_f64}};

const adji_rows_kernels *adji_rows_kernels_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512")) return &adji_rows_kernels_avx512;
  if (!strcmp(isa, "avx2")) return &adji_rows_kernels_avx2;
#endif
  (void)isa;
  return &rows_kernels_scalar;
}
