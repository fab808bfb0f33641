/* SPDX-License-Identifier: MIT
 *
 * Includes BODY, the name of a file, once for every step of distance/measure.h: one list of the canonical operations
 * for all kernels. It defines for the body:
 *
 *   STEP_NAME                 the step's name in FN(name), the name of a function of this instance
 *   STEP(s, x, c, measure, j) the sum s plus the term of dimension j, of vectors x and c of coordinates
 *   FINISH(s)                 applied to the sum after the last dimension
 *   GROWS                     1: sums never decrease from one dimension to the next
 *   PERIODIC                  1: coordinates wrap round a box
 *   MONOTONE                  1: terms never decrease when points are farther apart; 0: only up to a slack
 *   FIXED_DIMENSIONS(X)       dimensions worth an instance of their own, at most MOST_FIXED
 *   STEP_WIDTHS(X)            widths of neighbour lists worth an instance of their own (knn_list.h)
 *
 * It needs the instruction set's vectors and the functions of kernels_type.h. The body undefines STEP_NAME and STEP.
 */
#define DIFFERENCE(x, c) V_ABS(V_SUB(x, c))
#define AROUND(x, c, measure, j) TYPED(shorter)(DIFFERENCE(x, c), V_SET1(((const T *)(measure)->box)[j]))
#define FINISH(s) (s)
#define GROWS 1
#define PERIODIC 0
#define MONOTONE 1

/* ADJOIN_FEW_INSTANCES: for builds that do not have to be fast. */
#ifdef ADJOIN_FEW_INSTANCES
#define FIXED_DIMENSIONS(X) X(2) X(3)
#else
#define FIXED_DIMENSIONS(X) X(1) X(2) X(3) X(4) X(5) X(6)
#endif
#define STEP_WIDTHS LIST_WIDTHS
#define STEP_NAME l2
#define STEP(s, x, c, measure, j) TYPED(square)(s, V_SUB(x, c))
#include BODY

/* Fewer for the other steps: every instance is compiled for each type and instruction set. */
#undef FIXED_DIMENSIONS
#undef STEP_WIDTHS
#define STEP_WIDTHS LIST_FEW_WIDTHS
#ifdef ADJOIN_FEW_INSTANCES
#define FIXED_DIMENSIONS(X)
#else
#define FIXED_DIMENSIONS(X) X(2) X(3)
#endif
#define STEP_NAME l1
#define STEP(s, x, c, measure, j) V_ADD(s, DIFFERENCE(x, c))
#include BODY

#define STEP_NAME linf
#define STEP(s, x, c, measure, j) V_MAX(s, DIFFERENCE(x, c))
#include BODY

#undef PERIODIC
#define PERIODIC 1
#define STEP_NAME l2_box
#define STEP(s, x, c, measure, j) TYPED(square)(s, AROUND(x, c, measure, j))
#include BODY

#define STEP_NAME l1_box
#define STEP(s, x, c, measure, j) V_ADD(s, AROUND(x, c, measure, j))
#include BODY

#define STEP_NAME linf_box
#define STEP(s, x, c, measure, j) V_MAX(s, AROUND(x, c, measure, j))
#include BODY
#undef FIXED_DIMENSIONS

/* Powers cost far more than an instance for a dimension saves. */
#undef MONOTONE
#define MONOTONE 0
#define FIXED_DIMENSIONS(X)
#define STEP_NAME lp_box
#define STEP(s, x, c, measure, j) V_ADD(s, TYPED(power)(AROUND(x, c, measure, j), &(measure)->power))
#include BODY

#undef PERIODIC
#define PERIODIC 0
#define STEP_NAME lp
#define STEP(s, x, c, measure, j) V_ADD(s, TYPED(power)(DIFFERENCE(x, c), &(measure)->power))
#include BODY

#undef FINISH
#undef GROWS
#define FINISH(s) V_SUB(V_ZERO(), s)
#define GROWS 0
#define STEP_NAME dot
#define STEP(s, x, c, measure, j) V_FMA(x, c, s)
#include BODY
#undef FIXED_DIMENSIONS
#undef STEP_WIDTHS
#undef FINISH
#undef GROWS
#undef PERIODIC
#undef MONOTONE
#undef AROUND
#undef DIFFERENCE
