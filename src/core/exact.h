/* SPDX-License-Identifier: MIT
 *
 * Stops compilation with flags that change results. Every source file includes this, most of them through core/status.h
 * or core/everywhere.h (scripts/check_modules.py checks it), so that a file compiled by hand or in another project is
 * safe too. cmake/AdjoinFlags.cmake has the whole list, and refuses flags for which compilers define no macro.
 */
#ifndef ADJI_EXACT_H
#define ADJI_EXACT_H

#include <float.h>

#if defined(__FAST_MATH__) || defined(__ASSOCIATIVE_MATH__) || defined(__RECIPROCAL_MATH__) || \
    defined(__NO_SIGNED_ZEROS__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "adjoin: results must have the same bits everywhere: no -ffast-math, -Ofast or parts of them (docs/exactness.md)"
#endif

/* 16: only half-precision numbers are wider than their type, and adjoin does not compute with these. */
#if FLT_EVAL_METHOD != 0 && FLT_EVAL_METHOD != 16
#error "adjoin: float and double must be evaluated in their own type: no -mfpmath=387 (docs/exactness.md)"
#endif

/* Products and sums must not be fused. GCC fuses them unless told not to, or compiling plain C, and has no macro that
 * says so: the build defines ADJI_UNFUSED beside -ffp-contract=off. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__FP_FAST_FMA) && !defined(__STRICT_ANSI__) && !defined(ADJI_UNFUSED)
#error "adjoin: products and sums must not be fused: -ffp-contract=off -DADJI_UNFUSED, or -std=c11 (docs/exactness.md)"
#endif

#endif
