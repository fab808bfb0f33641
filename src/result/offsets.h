/* SPDX-License-Identifier: MIT
 *
 * Parallel loops over rows, and from the lengths of rows to their offsets.
 */
#ifndef ADJI_OFFSETS_H
#define ADJI_OFFSETS_H

#include "core/context.h"

/* Calls fn for slices of 0 .. rows - 1, in parallel. */
adj_status adji_each_row(adj_ctx *ctx, uint64_t rows, adji_slice_fn fn, void *user);

/* Adds up lengths to offsets, which have room for count + 1. Parallel because the memory of the offsets is fresh: a
 * single thread would spend more time on its page faults than all threads on a pass. */
adj_status adji_offsets_add_up(adj_ctx *ctx, const uint32_t *degrees, uint64_t count, uint64_t *offsets);

#endif
