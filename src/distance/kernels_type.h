/* SPDX-License-Identifier: MIT
 *
 * The kernels of one instruction set and type, for every step. Before including this, the instruction set's file
 * defines:
 *
 *   T, TYPE               float and f32, or double and f64
 *   VEC, LANES            a vector of T and its number of lanes (at most 16)
 *   V_(op)                the name of an intrinsic for T, for the macros below that use it
 *
 * which this file undefines at the end, and, for both types,
 *
 *   V_LOAD(p) V_STORE(p, v) V_SET1(x) V_ZERO()
 *   V_SUB(a, b) V_ADD(a, b) V_MUL(a, b) V_MAX(a, b) V_ABS(a) V_FMA(a, b, c)
 *   V_MIN(a, b)           a where it is less than b, otherwise b (so b where a is NaN)
 *   V_LE(a, b)            uint32_t, bit i set iff a[i] <= b[i]
 *   V_PACK_IDS(to, ids, mask)  stores the ids of the set lanes one after the other
 *   V_PACK(to, v, mask)        the same for a vector of T; both may write LANES entries
 *
 * It may define
 *
 *   COUNTS                a vector of LANES counters of type COUNT_LANE; COUNTS_ZERO()
 *   COUNTS_ADD(c, a, b)   c, plus 1 in the lanes where a <= b
 *   LOAD_FOUR(row, j, c)  coordinates j .. j + 3 of LANES rows: c[i] holds coordinate j + i of each
 *   LIST_HEADER           a file with neighbour lists in place of knn_list.h
 *   KNN_NEAR              a kernel in place of the one in knn_near_body.h
 *   TABLE                 the declaration of the table of kernels
 *   RANGE_NAME(what)      the name of the tables `counts` and `lists` of range kernels, which have a file of their own:
 *                         that file only defines RANGE_PART and includes the other file
 *   and what knn_body.h needs for k = 1
 */
#include <math.h>
#include <string.h>

#include "distance/kernels.h"

#ifndef ADJI_INLINE
#define ADJI_INLINE static inline __attribute__((always_inline))
#define PASTE_(name, type) name##_##type
#define PASTE(name, type) PASTE_(name, type)
#define TYPED(name) PASTE(name, TYPE)
#define FN(name) PASTE(PASTE(name, STEP_NAME), TYPE)
typedef uint32_t bits_f32;
typedef uint64_t bits_f64;
/* Up to MOST_FIXED dimensions, a query stays in registers if the step has an instance for its dimension; up to
 * MOST_LONG it is copied. SHORTC_STEP: dimensions between two checks for an abandoned sum. */
enum { MOST_FIXED = ADJI_FEW_DIMS, MOST_LONG = 1024, SHORTC_STEP = 4 };
/* CALL(dim, is_long), with dim a constant if the step has an instance for it. */
#define CALL_FOR(dim)       \
  switch (dim) {            \
    FIXED_DIMENSIONS(CASE_) \
    default:                \
      CALL(dim, true);      \
  }
#define CASE_(dim)    \
  case dim:           \
    CALL(dim, false); \
    break;
#endif
#ifndef LIST_HEADER
#define LIST_HEADER "distance/knn_list.h"
#endif
#ifndef TABLE
#define TABLE static const adji_typed_kernels TYPED(kernels)
#endif

ADJI_INLINE VEC TYPED(square)(VEC s, VEC t) {
  return V_FMA(t, t, s);
}

/* The smaller of a and b; b where a is NaN. */
ADJI_INLINE VEC TYPED(lesser)(VEC a, VEC b) {
  return V_MIN(a, b);
}

/* The distance |t| in a periodic dimension. It is t where length is infinite, even if t is infinite too. */
ADJI_INLINE VEC TYPED(shorter)(VEC t, VEC length) {
  return TYPED(lesser)(V_SUB(length, t), t);
}

/* Powers that are not whole numbers, in place. A separate function with one loop per stage, which compilers vectorise.
 * No choice of the compiler changes a bit. */
static __attribute__((noinline)) void TYPED(raise)(T *lanes, double exponent) {
  double wide[LANES];
  for (int i = 0; i < LANES; i++)
    wide[i] = (double)lanes[i];
  for (int i = 0; i < LANES; i++)
    wide[i] = adji_exp_log(wide[i], exponent);
  for (int i = 0; i < LANES; i++)
    lanes[i] = (T)wide[i];
}

/* The same operations as adji_power_f32 and adji_power_f64. */
ADJI_INLINE VEC TYPED(power)(VEC x, const adji_power *p) {
  if (!p->whole) {
    T lanes[LANES];
    V_STORE(lanes, x);
    TYPED(raise)(lanes, p->exponent);
    return V_LOAD(lanes);
  }
  uint32_t bit = ADJI_MOST_WHOLE;
  while (!(p->whole & bit))
    bit >>= 1;
  VEC power = x;
  while (bit >>= 1) {
    power = V_MUL(power, power);
    if (p->whole & bit) power = V_MUL(power, x);
  }
  return power;
}

#if defined(RANGE_PART) || !defined(RANGE_NAME)
#ifdef RANGE_PART
#define RANGE_TABLE const
#else
#define RANGE_TABLE static const
#define RANGE_NAME(what) TYPED(what)
#endif
#define BODY "distance/kernels_body.h"
#include "distance/steps.h"
#undef BODY
#define COUNT_(name, NAME) [ADJI_STEP_##NAME] = PASTE(count_##name, TYPE),
#define LIST_(name, NAME) [ADJI_STEP_##NAME] = PASTE(list_##name, TYPE),
RANGE_TABLE adji_count_fn RANGE_NAME(counts)[ADJI_STEPS] = {ADJI_STEP_LIST(COUNT_)};
RANGE_TABLE adji_list_fn RANGE_NAME(lists)[ADJI_STEPS] = {ADJI_STEP_LIST(LIST_)};
#endif

#ifndef RANGE_PART
#include LIST_HEADER
#define BODY "distance/knn_body.h"
#include "distance/steps.h"
#undef BODY
#define STEP_NAME l2
#ifdef ADJOIN_FEW_INSTANCES
#define FIXED_DIMENSIONS(X) X(3)
#else
#define FIXED_DIMENSIONS(X) X(2) X(3) X(4) X(5) X(6)
#endif
#include "distance/knn_tree_body.h"
#undef FIXED_DIMENSIONS
#ifndef KNN_NEAR
#define KNN_NEAR PASTE(knn_near_l2, TYPE)
#ifdef ADJOIN_FEW_INSTANCES
#define FIXED_DIMENSIONS(X)
#else
#define FIXED_DIMENSIONS(X) X(5) X(6)
#endif
#include "distance/knn_near_body.h"
#undef FIXED_DIMENSIONS
#endif
#undef STEP_NAME
#include "distance/rows_body.h"

static void TYPED(add_leaves)(adji_leaves *leaves, uint32_t dim, uint32_t mask, uint32_t first, const void *boxes,
                              const uint32_t *least_ids) {
  for (uint32_t i = 0; i < ADJI_BOX_LANES && mask; i += LANES, mask >>= LANES) {
    uint32_t part = mask & (uint32_t)((UINT64_C(1) << LANES) - 1), at = leaves->count;
    if (!part) continue;
    uint32_t numbers[LANES];
    for (uint32_t lane = 0; lane < LANES; lane++)
      numbers[lane] = first + i + lane;
    V_PACK_IDS(leaves->number + at, numbers, part);
    V_PACK_IDS(leaves->least_ids + at, least_ids + i, part);
    const T *from = (const T *)boxes + i;
    T *to = (T *)leaves->bounds + at;
    for (uint32_t j = 0; j < 2 * dim; j++)
      V_PACK(to + (size_t)j * ADJI_LEAF_ROOM, V_LOAD(from + (size_t)j * ADJI_BOX_LANES), part);
    leaves->count += (uint32_t)__builtin_popcount(part);
  }
}

#define TREE_(name, NAME)                                                                                        \
  [ADJI_STEP_##NAME] = {PASTE(knn_##name, TYPE), PASTE(list_leaves_##name, TYPE), PASTE(list_tree_##name, TYPE), \
                        PASTE(list_near_##name, TYPE), PASTE(box_bounds_##name, TYPE)},
TABLE = {.count = RANGE_NAME(counts),
         .list = RANGE_NAME(lists),
         .tree = {ADJI_GROWING_STEP_LIST(TREE_)},
         .rows = TYPED(sums_of_list),
         .add_leaves = TYPED(add_leaves),
         .knn_tree = PASTE(knn_tree_l2, TYPE),
         .knn_near = KNN_NEAR,
         .knn_select = PASTE(knn_select_l2, TYPE),
         .locate = PASTE(locate_l2, TYPE)};
#endif

#undef RANGE_NAME
#undef KNN_NEAR
#undef T
#undef TYPE
#undef VEC
#undef LANES
#undef V_
