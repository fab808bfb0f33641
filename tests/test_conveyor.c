/* SPDX-License-Identifier: MIT
 *
 * The conveyor between host and device, with a simulated device. A copy happens when the host tests for the second time
 * whether it has ended. The test checks what would go wrong on a real device: a buffer must be copied once for each
 * piece, after it was packed and before it is packed again, or before it is placed.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check.h"
#include "gpu/device/conveyor.h"

enum { MOST_BUFFERS = 8, MOST_PIECES = 250 };

typedef struct simulated {
  adj_ctx *ctx;
  bool up;
  uint64_t host[MOST_PIECES], device[MOST_PIECES], buffers[MOST_BUFFERS];
  uint64_t piece_of[MOST_BUFFERS];
  int looked[MOST_BUFFERS];
  _Atomic uint64_t handled[MOST_PIECES];
  uint64_t next;                /* next piece to copy, in order */
  int64_t fail_copy, fail_here; /* the piece whose call fails; negative: none */
  uint64_t cancel_at;           /* the piece at which the call is cancelled; UINT64_MAX: none */
  bool cancel_here;             /* cancel in the lane that asks for copies, not in one that handles a piece */
  bool wrong;
} simulated;

static uint64_t value_of(uint64_t piece) {
  return piece * 0x9e3779b97f4a7c15u + 1;
}

static adj_status sim_copy(void *user, uint64_t piece, uint32_t buffer) {
  simulated *s = user;
  if ((int64_t)piece == s->fail_copy) return adji_fail(ADJ_E_DEVICE, "copy %llu", (unsigned long long)piece);
  if (piece != s->next++) s->wrong = true;
  s->piece_of[buffer] = piece;
  s->looked[buffer] = 0;
  return ADJ_OK;
}

static adj_status sim_here(void *user, uint32_t buffer, bool *here) {
  simulated *s = user;
  uint64_t piece = s->piece_of[buffer];
  if (s->cancel_here && piece == s->cancel_at) {
    adj_cancel(s->ctx);
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); /* lets the other lanes see the cancel first */
  }
  if ((int64_t)piece == s->fail_here) return adji_fail(ADJ_E_DEVICE, "look %llu", (unsigned long long)piece);
  *here = ++s->looked[buffer] == 2;
  if (*here && s->up) s->device[piece] = s->buffers[buffer];
  if (*here && !s->up) s->buffers[buffer] = s->device[piece];
  return ADJ_OK;
}

static void sim_handle(void *user, uint64_t piece, uint32_t buffer) {
  simulated *s = user;
  if (s->up)
    s->buffers[buffer] = s->host[piece];
  else
    s->host[piece] = s->buffers[buffer];
  atomic_fetch_add(&s->handled[piece], 1);
  if (piece == s->cancel_at && !s->cancel_here) adj_cancel(s->ctx);
}

static adj_status convey(simulated *s, uint64_t pieces, uint32_t buffers) {
  adji_conveyor conveyor = {.ctx = s->ctx, .user = s, .pieces = pieces, .buffers = buffers, .up = s->up};
  conveyor.copy = sim_copy;
  conveyor.here = sim_here;
  conveyor.handle = sim_handle;
  adji_conveyor_times times = {0};
  adji_call outer = adji_call_begin(&s->ctx->cancels);
  adj_status status = adji_convey(&conveyor, &times);
  adji_call_set(outer);
  return status;
}

static simulated *simulate(adj_ctx *ctx, bool up) {
  simulated *s = calloc(1, sizeof *s);
  assert_non_null(s);
  s->ctx = ctx;
  s->up = up;
  s->fail_copy = s->fail_here = -1;
  s->cancel_at = UINT64_MAX;
  for (uint64_t i = 0; i < MOST_PIECES; i++)
    *(up ? &s->host[i] : &s->device[i]) = value_of(i);
  return s;
}

static adj_ctx *context(uint32_t threads) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = threads;
  adj_ctx *ctx;
  assert_int_equal(adj_ctx_create(&options, &ctx), ADJ_OK);
  return ctx;
}

static void check_all(simulated *s, uint64_t pieces, uint32_t buffers) {
  assert_int_equal(convey(s, pieces, buffers), ADJ_OK);
  assert_false(s->wrong);
  for (uint64_t i = 0; i < MOST_PIECES; i++) {
    assert_int_equal(atomic_load(&s->handled[i]), i < pieces);
    assert_int_equal(s->up ? s->device[i] : s->host[i], i < pieces ? value_of(i) : 0);
  }
}

static void all_pieces_cross(void **state) {
  (void)state;
  static const uint64_t counts[] = {0, 1, 2, 7, 8, 9, 64, MOST_PIECES};
  for (uint32_t threads = 1; threads <= 4; threads++) {
    adj_ctx *ctx = context(threads);
    for (uint32_t buffers = 1; buffers <= MOST_BUFFERS; buffers++)
      for (size_t i = 0; i < 2 * sizeof counts / sizeof *counts; i++) {
        bool some = buffers > 1 && buffers < MOST_BUFFERS; /* other combinations send many pieces */
        if (some && counts[i / 2] == MOST_PIECES) continue;
        simulated *s = simulate(ctx, i % 2);
        check_all(s, counts[i / 2], buffers);
        free(s);
      }
    adj_ctx_destroy(ctx);
  }
}

static void failures_are_told(void **state) {
  (void)state;
  static const int64_t at[] = {0, 1, 5, 50, 99};
  for (uint32_t threads = 1; threads <= 4; threads++) {
    adj_ctx *ctx = context(threads);
    for (size_t i = 0; i < 4 * sizeof at / sizeof *at; i++) {
      simulated *s = simulate(ctx, i % 2);
      bool look = i / 2 % 2;
      *(look ? &s->fail_here : &s->fail_copy) = at[i / 4];
      assert_int_equal(convey(s, 100, 3), ADJ_E_DEVICE);
      assert_non_null(strstr(adj_last_error(), look ? "look " : "copy "));
      free(s);
    }
    adj_ctx_destroy(ctx);
  }
}

/* Cancels a call at a piece. The next call is complete. */
static void cancel_calls(bool cancel_here) {
  for (uint32_t threads = 1; threads <= 4; threads++)
    for (int up = 0; up < 2; up++) {
      adj_ctx *ctx = context(threads);
      simulated *s = simulate(ctx, up);
      s->cancel_at = 40;
      s->cancel_here = cancel_here;
      assert_int_equal(convey(s, MOST_PIECES, 3), ADJ_CANCELLED);
      free(s);
      s = simulate(ctx, up);
      check_all(s, MOST_PIECES, 3);
      free(s);
      adj_ctx_destroy(ctx);
    }
}

static void a_call_can_be_cancelled(void **state) {
  (void)state;
  cancel_calls(false);
}

/* The lane that asks for copies is the last to see the cancel. */
static void a_call_can_be_cancelled_by_the_lane_that_asks(void **state) {
  (void)state;
  cancel_calls(true);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_pieces_cross),
      cmocka_unit_test(failures_are_told),
      cmocka_unit_test(a_call_can_be_cancelled),
      cmocka_unit_test(a_call_can_be_cancelled_by_the_lane_that_asks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
