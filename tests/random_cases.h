/* SPDX-License-Identifier: MIT
 *
 * Cases that nobody wrote down: kind, builder, type, metric, dimension, sizes, radius, k and flags drawn from a seed.
 */
#ifndef ADJOIN_RANDOM_CASES_H
#define ADJOIN_RANDOM_CASES_H

#include "cases.h"

/* Random numbers apart from those of the points. */
typedef struct dice {
  join_case state;
} dice;

dice dice_of(uint64_t seed);
uint64_t dice_below(dice *d, uint64_t limit);
/* Log-uniform between low and high. */
double dice_spread(dice *d, double low, double high);

/* The case of a seed, the same on every machine. The dice go on for whoever runs it. False: out of memory. */
bool random_case(uint64_t seed, dice *d, join_case *out);

#endif
