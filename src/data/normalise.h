/* SPDX-License-Identifier: MIT
 *
 * Points scaled so that every column reaches from 0 to 1.
 */
#ifndef ADJI_NORMALISE_H
#define ADJI_NORMALISE_H

#include "data/dataset.h"

/* Replaces x in each column by (x - low) / (high - low), computed in f64 and rounded to the type, where low and high
 * are the column's least and largest value. A column of one value becomes 0. like, unless NULL: a normalised set, whose
 * least and largest values are taken instead, so that both have one scale. Values of this set may then be outside of 0
 * to 1; where a column of like has one value, it is subtracted. The set is unchanged on failure.
 * Memory: a copy of the points; those before are freed. */
adj_status adji_dataset_normalise(adj_dataset *set, const adj_dataset *like);

#endif
