/* SPDX-License-Identifier: MIT
 *
 * The kernels for range joins of kernels_f64_avx512.c.
 */
#define RANGE_PART
#include "distance/kernels_f64_avx512.c" /* NOLINT(bugprone-suspicious-include): what they are made of */
