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
  adj_ctx *own_ctx; /* made by a simple call: destroyed with the result */
  adj_type type;
  uint64_t rows;
  uint64_t pairs; /* neighbours; padding of kNN rows is not counted */
  /* kNN: every row has `each` entries. Offsets are rarely needed; the first call of adj_result_offsets writes them.
   * With labels there are none. 0: a range join, which always has offsets. */
  uint32_t each;
  ADJI_ATOMIC(bool) filled;
  pthread_mutex_t lock;
  uint64_t *offsets;
  uint32_t *ids;
  void *distances;
  /* Labels that replace ids, ascending by id; NULL: none. Only some methods replace ids, where it costs little; these
   * set labelled. */
  const uint32_t *labels;
  bool labelled;
  struct adji_binned *binned; /* a join that stages rows may leave them here, with labels; see cpu/bins.h. Or NULL */
  const uint32_t *wanted;     /* kNN: the left points whose rows these are, as in adji_window; NULL: all */
  void *lasts;                /* kNN: the caller's array for the last sum of each row (result/rows.h), or NULL */
  struct adji_mutual *mutual; /* a mutual join is asked for (result/rows.h), or NULL */
};

/* Creates a result without arrays, which the run adds. NULL: failed, the message is set. */
ADJI_SHARED adj_result *adji_result_create(adj_ctx *ctx, uint64_t rows, adj_type type);

#endif
