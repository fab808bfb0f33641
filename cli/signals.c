/* SPDX-License-Identifier: MIT
 *
 * Signals. A signal handler has no argument for what to cancel, so this file has two globals. Both have types that a
 * handler may use.
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
}

void signals_watch(adj_ctx *ctx) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  atomic_store(&watched, ctx);
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigemptyset(&action.sa_mask);
    /* A signal that was ignored from the start, as under nohup, stays ignored. Without SA_RESTART, a read or write that
     * waits for a pipe is interrupted. */
    if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
  }
}

int signals_received(void) {
  return received;
}
