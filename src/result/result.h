/* SPDX-License-Identifier: MIT
 *
 * A finished join held in memory.
 */
#ifndef ADJI_RESULT_H
#define ADJI_RESULT_H

#include "core/context.h"

struct adj_result {
  adj_ctx *ctx;
  adj_ctx *own_ctx; /* of the simple calls: destroyed with the result */
  adj_type type;
  uint64_t rows, pairs;
  uint64_t *offsets;
  uint32_t *ids;
  void *distances;
};

/* Empty; the engine fills it in. NULL with the message set. */
adj_result *adji_result_create(adj_ctx *ctx, uint64_t rows, adj_type type);

#endif
