/* SPDX-License-Identifier: MIT
 *
 * The kernels for range joins of kernels_avx512.c, compiled apart.
 */
#define RANGE_PART
#include "distance/kernels_avx512.c" /* NOLINT(bugprone-suspicious-include): their source */
