/* SPDX-License-Identifier: MIT
 *
 * Scales points so that every column reaches from 0 to 1.
 */
#ifndef ADJI_NORMALISE_H
#define ADJI_NORMALISE_H

#include "data/dataset.h"

/* Replaces x in each column by (x - low) / (high - low), computed in f64 and rounded to the type, where low and high
 * are the column's least and largest value. A column of one value becomes 0. like, unless NULL: a normalised set, whose
 * least and largest values are used instead, so that both sets have one scale. Values of this set may then be outside
 * of 0 to 1; if a column of like has one value, that value is subtracted. The set is unchanged on failure.
 * Memory: a copy of the points; the old ones are freed. */
adj_status adji_dataset_normalise(adj_dataset *set, const adj_dataset *like);

#endif
