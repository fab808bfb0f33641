/* SPDX-License-Identifier: MIT
 *
 * Signals. mpirun passes an interrupt to every rank and kills ranks that still run a moment later. A rank that waits
 * for another one cannot finish its call, so no rank tries to: the handler removes part files and ends the process. All
 * globals are of types that a handler may use.
 */
#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "../message.h"
#include "cluster.h"

enum { PARTS = 2 };
static char parts[PARTS][PATH_MAX];
static volatile sig_atomic_t has_part[PARTS];
static volatile sig_atomic_t own_rank;

/* While a part file is created its name is not known, so a signal is deferred: hold is then HELD + its number. */
enum { FREE = 0, HELD = 1000 };
static atomic_int hold;

static void on_signal(int number) {
  static const char text[] = "adjoin-mpi: stopped\n";
  int held = HELD;
  if (atomic_compare_exchange_strong(&hold, &held, HELD + number) || held > HELD) return;
  for (int i = 0; i < PARTS; i++)
    if (has_part[i]) unlink(parts[i]);
  if (!own_rank && write(STDERR_FILENO, text, sizeof text - 1) < 0) _exit(128 + number);
  _exit(128 + number);
}

void cluster_signals(int rank) {
  static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
  own_rank = rank;
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
    struct sigaction action = {.sa_handler = on_signal}, before;
    sigfillset(&action.sa_mask);
    if (!sigaction(numbers[i], NULL, &before) && before.sa_handler != SIG_IGN) sigaction(numbers[i], &action, NULL);
  }
}

void cluster_signals_hold(void) {
  atomic_store(&hold, HELD);
}

void cluster_signals_release(void) {
  int held = atomic_exchange(&hold, FREE);
  if (held > HELD) on_signal(held - HELD);
}

void cluster_signals_part(int which, const char *path) {
  has_part[which] = 0;
  if (!path || strlen(path) >= sizeof parts[which]) return;
  memcpy(parts[which], path, strlen(path) + 1);
  has_part[which] = 1;
}
