/* SPDX-License-Identifier: MIT
 *
 * The lane that starts copies has task 0 of a loop; the other lanes have a task for each piece. Piece i goes through
 * buffer i % buffers. The turns of a buffer count how often a lane has finished with it, which says whether it may be
 * copied.
 *
 * Lanes wait for each other, so a lane that gives up records its status: a cancel may be over before the others look.
 * For the same reason the lanes check for a cancel themselves; the loop does not.
 */
#include "gpu/device/conveyor.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

typedef struct belt {
  const adji_conveyor *conveyor;
  _Atomic uint64_t *turns;
  _Atomic uint64_t arrived; /* pieces */
  _Atomic int failed;       /* the status of the first lane that gave up */
  _Atomic uint64_t wait_ns, work_ns;
} belt;

enum { LOOKS = 4096 };

/* Spins for a while, then yields the core. */
static void look_again(uint32_t *looks) {
  adji_pause();
  if (++*looks > LOOKS) sched_yield();
}

/* ---- The lane that asks ------------------------------------------------------------------------------- */

static bool is_ready(const belt *b, uint64_t piece) {
  const adji_conveyor *c = b->conveyor;
  uint64_t turns = atomic_load_explicit(&b->turns[piece % c->buffers], memory_order_acquire);
  return turns == piece / c->buffers + (c->up ? 1 : 0);
}

static adj_status ask_for_all(belt *b) {
  const adji_conveyor *c = b->conveyor;
  uint64_t asked = 0, arrived = 0;
  uint32_t looks = 0;
  while (arrived < c->pieces) {
    if (atomic_load(&b->failed))
      return adji_fail(ADJ_CANCELLED, "stopped by the caller"); /* other lanes give up only for that */
    adj_status status = adji_check_cancel(c->ctx);
    bool here = false, ready = asked < c->pieces && is_ready(b, asked);
    if (!status && ready) status = c->copy(c->user, asked, (uint32_t)(asked % c->buffers));
    if (!status && ready) asked++;
    if (!status && arrived < asked) status = c->here(c->user, (uint32_t)(arrived % c->buffers), &here);
    if (status) return status;
    if (here) atomic_store_explicit(&b->arrived, ++arrived, memory_order_release);
    if (here || ready)
      looks = 0;
    else
      look_again(&looks);
  }
  return ADJ_OK;
}

/* ---- The others --------------------------------------------------------------------------------------- */

/* Waits until this many pieces have arrived. */
static adj_status await(belt *b, uint64_t pieces) {
  uint64_t begin = adji_now_ns();
  uint32_t looks = 0;
  while (atomic_load_explicit(&b->arrived, memory_order_acquire) < pieces) {
    int failed = atomic_load(&b->failed);
    if (failed) return adji_fail((adj_status)failed, "a copy failed"); /* the copying lane has the message */
    adj_status status = adji_check_cancel(b->conveyor->ctx);
    if (status) return status;
    look_again(&looks);
  }
  atomic_fetch_add(&b->wait_ns, adji_now_ns() - begin);
  return ADJ_OK;
}

static void prepare(belt *b, uint64_t piece) {
  const adji_conveyor *c = b->conveyor;
  uint64_t begin = adji_now_ns();
  if (c->prepare) c->prepare(c->user, piece);
  atomic_fetch_add(&b->work_ns, adji_now_ns() - begin);
}

static void handle(belt *b, uint64_t piece, uint32_t buffer) {
  uint64_t begin = adji_now_ns();
  b->conveyor->handle(b->conveyor->user, piece, buffer);
  atomic_fetch_add(&b->work_ns, adji_now_ns() - begin);
}

static adj_status do_piece(belt *b, uint64_t piece) {
  const adji_conveyor *c = b->conveyor;
  uint32_t buffer = (uint32_t)(piece % c->buffers);
  uint64_t before = piece < c->buffers ? 0 : piece - c->buffers + 1; /* then its buffer is free */
  prepare(b, piece);
  adj_status status = await(b, c->up ? before : piece + 1);
  if (status) return status;
  handle(b, piece, buffer);
  atomic_fetch_add_explicit(&b->turns[buffer], 1, memory_order_release);
  return ADJ_OK;
}

static adj_status do_task(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  belt *b = user;
  adj_status status = task ? do_piece(b, task - 1) : ask_for_all(b);
  int none = 0;
  if (status) atomic_compare_exchange_strong(&b->failed, &none, (int)status);
  return status;
}

/* ---- Or a single one, in its own buffer ---------------------------------------------------------------- */

static adj_status await_alone(belt *b, uint32_t buffer) {
  const adji_conveyor *c = b->conveyor;
  uint64_t begin = adji_now_ns();
  adj_status status = ADJ_OK;
  bool here = false;
  for (uint32_t looks = 0; !here && !status; look_again(&looks))
    status = c->here(c->user, buffer, &here);
  atomic_fetch_add(&b->wait_ns, adji_now_ns() - begin);
  return status;
}

static adj_status do_alone(void *user, uint64_t piece, uint32_t lane) {
  belt *b = user;
  const adji_conveyor *c = b->conveyor;
  if (c->up) handle(b, piece, lane);
  adj_status status = c->copy(c->user, piece, lane);
  prepare(b, piece);
  if (!status) status = await_alone(b, lane);
  if (!status && !c->up) handle(b, piece, lane);
  return status;
}

adj_status adji_convey(const adji_conveyor *c, adji_conveyor_times *times) {
  belt b = {.conveyor = c};
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
