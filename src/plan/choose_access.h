/* SPDX-License-Identifier: MIT
 *
 * How a GPU visits cells: by its default kernels, or by those of the papers.
 */
#ifndef ADJI_CHOOSE_ACCESS_H
#define ADJI_CHOOSE_ACCESS_H

#include "gpu/papers/access.h"
#include "plan/range_choice.h"

/* From the settings; the default kernels where none asks for others. ADJ_E_UNSUPPORTED for joins that those are not
 * for. */
adj_status adji_choose_access(const adji_range_question *q, const adji_grid_choice *grid, adji_point_options *out);

#endif
