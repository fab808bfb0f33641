/* SPDX-License-Identifier: MIT
 *
 * Random cases: kind, builder, type, metric, dimension, sizes, radius, k and flags are drawn from a seed.
 */
#ifndef ADJOIN_RANDOM_CASES_H
#define ADJOIN_RANDOM_CASES_H

#include "cases.h"

/* Random numbers, separate from those of the points. */
typedef struct dice {
  join_case state;
} dice;

dice dice_of(uint64_t seed);
uint64_t dice_below(dice *d, uint64_t limit);
/* Log-uniform between low and high. */
double dice_spread(dice *d, double low, double high);

/* Makes the case of a seed, the same on every machine. The caller may draw on from the dice. False: out of memory. */
bool random_case(uint64_t seed, dice *d, join_case *out);

#endif
