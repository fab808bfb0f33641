/* SPDX-License-Identifier: MIT
 *
 * Counts of f64 (L2, 3 to 6 dimensions) through sums in f32, since a vector holds twice as many of them. Coordinates
 * are converted as differences to those of the first query, so that little precision is lost. A sum in f32 tells
 * whether a pair belongs, unless it is between two limits; then the canonical sum decides.
 *
 * Proof. Let u = 2^-24, D the distance of a query and a candidate, S their canonical sum, L its limit and R = sqrt(L).
 * Relative to the origin the query is at q, and copied with relative errors up to u (1 + 2^-28), where |q| <= Q in each
 * dimension; the candidate is at c, |c| <= |q| + |q - c|. So the copies' difference is off by 2 u Q + u |q - c| per
 * dimension and their distance d by E + u D, E = 2 u Q sqrt(dim), up to factors 1 + 2^-10. Subtracting, squaring and
 * adding in f32 give a sum s with factors up to 1 + (dim + 2) u of d^2. S has factors up to 1 + (dim + 4) 2^-53 of D^2.
 * With g = 1 + 2 u (dim + 4), S <= L implies s <= g (g R + E)^2, and s <= (R / g - E)^2 / g implies S <= L. Underflow
 * adds at most 2^-149 per step; with L >= 2^-80 the slack of g has room for that. A candidate that overflows has an
 * infinite sum, and is indeed out of reach, since the queries and L do not overflow.
 */
#ifndef ADJI_COUNT_NARROW_H
#define ADJI_COUNT_NARROW_H

#include <string.h>

#include "distance/kernels.h"

/* Like adji_count_fn. `wide` counts where sums in f32 do not pay or are not possible. Returns the number of unsure
 * pairs: each costs about as much as 40 candidates. */
typedef uint64_t (*adji_count_narrow_fn)(const adji_task *task, adji_count_fn wide, uint32_t *counts);

#if defined(__x86_64__)
uint64_t adji_count_narrow_avx512(const adji_task *task, adji_count_fn wide, uint32_t *counts);
#endif

/* NULL: there is no such kernel. */
static inline adji_count_narrow_fn adji_count_narrow_for(const char *isa, const adji_measure *measure, uint32_t dim) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512") && measure->step == ADJI_STEP_L2 && dim >= 3 && dim <= ADJI_FEW_DIMS)
    return adji_count_narrow_avx512;
#endif
  (void)isa;
  (void)measure;
  (void)dim;
  return NULL;
}

#endif
