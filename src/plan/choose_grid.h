/* SPDX-License-Identifier: MIT
 *
 * Which dimensions the grid indexes, how wide its cells are, and how fine its last axis is.
 */
#ifndef ADJI_CHOOSE_GRID_H
#define ADJI_CHOOSE_GRID_H

#include "plan/plan.h"

/* Sets plan->grid and adds the reason to plan->choice.reason. */
adj_status adji_choose_grid(adj_plan *plan);

#endif
