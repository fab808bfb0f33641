/* SPDX-License-Identifier: MIT
 *
 * Shared by selections on the host and on a device.
 */
#ifndef ADJI_RESULT_SELECT_H
#define ADJI_RESULT_SELECT_H

#include "core/context.h"

/* Checks the arguments of a selection. */
adj_status adji_check_selection(const adj_matrix *matrix, uint32_t k, adj_order order);

#endif
