/* SPDX-License-Identifier: MIT
 *
 * Signals. A signal handler has no argument that could tell it what to cancel, so this file has two globals. Both have
 * types that a handler may use.
 *
 * A cancel ends the call that is under way, but no call that begins later. Therefore the program calls signals_status()
 * between two calls. A signal may also arrive after that and before the next call has begun, so an alarm repeats the
 * cancel every second.
 */
#include "signals.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

static _Atomic(adj_ctx *) watched;
static volatile sig_atomic_t received;

/* A second signal, or one with nothing to cancel, ends the program here. Unfinished output is in a temporary file, so
 * nothing needs to be undone. */
static void on_signal(int number) {
  adj_ctx *ctx = atomic_load(&watched);
  if (received || !ctx) _exit(128 + number);
  received = number;
  adj_cancel(ctx);
  alarm(1);
}

static void on_alarm(int number) {
  (void)number;
  adj_ctx *ctx = atomic_load(&watched);
  if (!ctx) return;
  adj_cancel(ctx);
  alarm(1);
}

void signals_watch(adj_ctx *ctx) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  struct sigaction repeat = {.sa_handler = on_alarm};
  sigemptyset(&repeat.sa_mask);
  sigaction(SIGALRM, &repeat, NULL);
  atomic_store(&watched, ctx);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigemptyset(&action.sa_mask);
    /* A signal that was ignored from the start, as under nohup, stays ignored. There is no SA_RESTART, so that a read
     * or write that waits for a pipe is interrupted. */
    if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
  }
}

int signals_received(void) {
  return received;
}

adj_status signals_status(adj_status status) {
  return status == ADJ_OK && received ? ADJ_CANCELLED : status;
}
