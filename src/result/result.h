/* SPDX-License-Identifier: MIT
 *
 * A finished join in memory.
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
  /* kNN: every row has `each` entries. Offsets are rarely asked for; the first call that does writes them. 0: a range
   * join, which has its offsets. */
  uint32_t each;
  ADJI_ATOMIC(bool) filled;
  pthread_mutex_t lock;
  uint64_t *offsets;
  uint32_t *ids;
  void *distances;
  /* What ids are to be called, ascending by id; NULL: as they are. Only some ways to make rows do that, where it costs
   * little; these set labelled. */
  const uint32_t *labels;
  bool labelled;
};

/* Without arrays: the run adds them. NULL: failed, the message is set. */
ADJI_SHARED adj_result *adji_result_create(adj_ctx *ctx, uint64_t rows, adj_type type);

#endif
