/* SPDX-License-Identifier: MIT
 *
 * The kernels for range joins of kernels_avx2.c, compiled apart.
 */
#define RANGE_PART
#include "distance/kernels_avx2.c" /* NOLINT(bugprone-suspicious-include): their source */
