/* SPDX-License-Identifier: MIT
 *
 * Where rows begin that are as long as was counted.
 */
#ifndef ADJI_OFFSETS_H
#define ADJI_OFFSETS_H

#include "core/context.h"

/* offsets: room for count + 1. All threads take part, for the memory of the offsets is fresh: one alone would take
 * longer for its pages than all of them for many a pass. */
adj_status adji_offsets_add_up(adj_ctx *ctx, const uint32_t *degrees, uint64_t count, uint64_t *offsets);

#endif
