/* SPDX-License-Identifier: MIT
 *
 * From the lengths of rows to their offsets.
 */
#ifndef ADJI_OFFSETS_H
#define ADJI_OFFSETS_H

#include "core/context.h"

/* offsets: room for count + 1. Parallel because the memory of the offsets is fresh: a single thread would spend longer
 * on its page faults than all threads on a pass. */
adj_status adji_offsets_add_up(adj_ctx *ctx, const uint32_t *degrees, uint64_t count, uint64_t *offsets);

#endif
