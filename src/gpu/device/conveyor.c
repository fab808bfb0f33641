/* SPDX-License-Identifier: MIT
 *
 * The lane that starts copies runs task 0 of a loop; the other lanes run one task per piece. Piece i goes through
 * buffer i % buffers. The turns of a buffer count how often a lane has finished with it, which tells whether it may be
 * copied.
 *
 * Lanes wait for each other, so a lane that gives up records its status: a cancel may be over before the other lanes
 * check. For the same reason the lanes check for a cancel themselves; the loop does not.
 */
#include "gpu/device/conveyor.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct transfer_state {
  const adji_conveyor *conveyor;
  _Atomic uint64_t *turns;
  _Atomic uint64_t arrived; /* pieces */
  _Atomic int failed;       /* the status of the first lane that gave up */
  _Atomic uint64_t wait_ns, work_ns;
} transfer_state;

enum { SPINS = 4096 };

/* Spins for a while, then yields the core. */
static void spin_or_yield(uint32_t *spins) {
  adji_pause();
  if (++*spins > SPINS) sched_yield();
}

/* ---- The lane that asks ------------------------------------------------------------------------------- */

static bool is_ready(const transfer_state *b, uint64_t piece) {
  const adji_conveyor *c = b->conveyor;
  uint64_t turns = atomic_load_explicit(&b->turns[piece % c->buffers], memory_order_acquire);
  return turns == piece / c->buffers + (c->up ? 1 : 0);
}

static adj_status copy_all(transfer_state *b) {
  const adji_conveyor *c = b->conveyor;
  uint64_t started = 0, arrived = 0;
  uint32_t spins = 0;
  while (arrived < c->pieces) {
    if (atomic_load(&b->failed))
      return adji_fail(ADJ_CANCELLED, "stopped by the caller"); /* other lanes give up only because of a cancel */
    adj_status status = adji_check_cancel(c->ctx);
    bool here = false, ready = started < c->pieces && is_ready(b, started);
    if (!status && ready) status = c->copy(c->user, started, (uint32_t)(started % c->buffers));
    if (!status && ready) started++;
    if (!status && arrived < started) status = c->here(c->user, (uint32_t)(arrived % c->buffers), &here);
    if (status) return status;
    if (here) atomic_store_explicit(&b->arrived, ++arrived, memory_order_release);
    if (here || ready)
      spins = 0;
    else
      spin_or_yield(&spins);
  }
  return ADJ_OK;
}

/* ---- The others --------------------------------------------------------------------------------------- */

/* Waits until this many pieces have arrived. */
static adj_status await(transfer_state *b, uint64_t pieces) {
  uint64_t begin = adji_now_ns();
  uint32_t spins = 0;
  while (atomic_load_explicit(&b->arrived, memory_order_acquire) < pieces) {
    int failed = atomic_load(&b->failed);
    if (failed) return adji_fail((adj_status)failed, "a copy failed"); /* the copying lane has the message */
    adj_status status = adji_check_cancel(b->conveyor->ctx);
    if (status) return status;
    spin_or_yield(&spins);
  }
  atomic_fetch_add(&b->wait_ns, adji_now_ns() - begin);
  return ADJ_OK;
}

static void prepare(transfer_state *b, uint64_t piece) {
  const adji_conveyor *c = b->conveyor;
  uint64_t begin = adji_now_ns();
  if (c->prepare) c->prepare(c->user, piece);
  atomic_fetch_add(&b->work_ns, adji_now_ns() - begin);
}

static void handle(transfer_state *b, uint64_t piece, uint32_t buffer) {
  uint64_t begin = adji_now_ns();
  b->conveyor->handle(b->conveyor->user, piece, buffer);
  atomic_fetch_add(&b->work_ns, adji_now_ns() - begin);
}

static adj_status do_piece(transfer_state *b, uint64_t piece) {
  const adji_conveyor *c = b->conveyor;
  uint32_t buffer = (uint32_t)(piece % c->buffers);
  uint64_t before = piece < c->buffers ? 0 : piece - c->buffers + 1; /* by then its buffer is free */
  prepare(b, piece);
  adj_status status = await(b, c->up ? before : piece + 1);
  if (status) return status;
  handle(b, piece, buffer);
  atomic_fetch_add_explicit(&b->turns[buffer], 1, memory_order_release);
  return ADJ_OK;
}

static adj_status do_task(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  transfer_state *b = user;
  adj_status status = task ? do_piece(b, task - 1) : copy_all(b);
  int none = 0;
  if (status) atomic_compare_exchange_strong(&b->failed, &none, (int)status);
  return status;
}

/* ---- Or a single one, in its own buffer ---------------------------------------------------------------- */

static adj_status await_alone(transfer_state *b, uint32_t buffer) {
  const adji_conveyor *c = b->conveyor;
  uint64_t begin = adji_now_ns();
  adj_status status = ADJ_OK;
  bool here = false;
  for (uint32_t spins = 0; !here && !status; spin_or_yield(&spins))
    status = c->here(c->user, buffer, &here);
  atomic_fetch_add(&b->wait_ns, adji_now_ns() - begin);
  return status;
}

static adj_status do_alone(void *user, uint64_t piece, uint32_t lane) {
  transfer_state *b = user;
  const adji_conveyor *c = b->conveyor;
  if (c->up) handle(b, piece, lane);
  adj_status status = c->copy(c->user, piece, lane);
  prepare(b, piece);
  if (!status) status = await_alone(b, lane);
  if (!status && !c->up) handle(b, piece, lane);
  return status;
}

adj_status adji_convey(const adji_conveyor *c, adji_conveyor_times *times) {
  transfer_state b = {.conveyor = c};
  adj_status status = ADJ_OK;
  if (!c->pieces) return ADJ_OK;
  if (c->ctx->threads == 1 || adji_inside_task()) {
    status = adji_loop(c->ctx, c->pieces, do_alone, &b);
  } else {
    b.turns = calloc(c->buffers, sizeof *b.turns);
    status = b.turns ? adji_parallel(c->ctx->team, c->pieces + 1, do_task, &b, false)
                     : adji_fail(ADJ_E_MEMORY, "no memory for copies");
    free(b.turns);
  }
  times->wait_ns += atomic_load(&b.wait_ns);
  times->work_ns += atomic_load(&b.work_ns);
  return status;
}
