/* SPDX-License-Identifier: MIT
 *
 * What selections on the host and on a device have in common.
 */
#ifndef ADJI_RESULT_SELECT_H
#define ADJI_RESULT_SELECT_H

#include "core/context.h"

/* What a matrix, a k and an order must be. */
adj_status adji_check_selection(const adj_matrix *matrix, uint32_t k, adj_order order);

#endif
