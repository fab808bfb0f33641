/* SPDX-License-Identifier: MIT
 *
 * Which dimensions the grid indexes, how wide its cells are, and how fine its last axis is.
 */
#ifndef ADJI_CHOOSE_GRID_H
#define ADJI_CHOOSE_GRID_H

#include "plan/range_choice.h"

/* brute: no axes are wanted; for a GPU there may still be a prefilter. Nothing is left behind on failure. */
adj_status adji_choose_grid(const adji_range_question *question, bool brute, adji_grid_choice *out);
void adji_grid_choice_clear(adj_ctx *ctx, adji_grid_choice *choice);

#endif
