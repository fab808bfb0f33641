/* SPDX-License-Identifier: MIT
 *
 * A finished join held in memory.
 */
#ifndef ADJI_RESULT_H
#define ADJI_RESULT_H

#include <pthread.h>

#include "core/atomic.h"
#include "core/context.h"

struct adj_result {
  adj_ctx *ctx;
  adj_ctx *own_ctx; /* of the simple calls: destroyed with the result */
  adj_type type;
  uint64_t rows;
  uint64_t pairs; /* neighbours; padding of kNN rows is not counted */
  /* Rows of a kNN join have `each` entries, and hardly anybody asks where they begin: their offsets have room, and are
   * filled in by the first who does. 0: offsets are there. */
  uint32_t each;
  ADJI_ATOMIC(bool) filled;
  pthread_mutex_t lock;
  uint64_t *offsets;
  uint32_t *ids;
  void *distances;
};

/* Empty; the engine fills it in. NULL with the message set. */
adj_result *adji_result_create(adj_ctx *ctx, uint64_t rows, adj_type type);

#endif
