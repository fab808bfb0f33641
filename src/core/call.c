/* SPDX-License-Identifier: MIT
 *
 * The call that each thread works for.
 */
#include "core/call.h"

#include <errno.h>
#include <stdlib.h>

static _Thread_local adji_call current;

adji_call adji_call_current(void) {
  return current;
}

void adji_call_set(adji_call call) {
  current = call;
}

adji_call adji_call_begin(const _Atomic uint32_t *cancels) {
  adji_call before = current;
  if (before.cancels != cancels) current = (adji_call){cancels, atomic_load(cancels)};
  return before;
}

bool adji_call_cancelled(void) {
  return current.cancels && atomic_load_explicit(current.cancels, memory_order_relaxed) != current.at_begin;
}

/* ---- Threads ------------------------------------------------------------------------------------------ */

typedef struct thread_start {
  adji_call call;
  void *(*main)(void *);
  void *argument;
} thread_start;

static void *thread_main(void *argument) {
  thread_start start = *(thread_start *)argument;
  free(argument);
  adji_call_set(start.call);
  return start.main(start.argument);
}

int adji_thread_start(pthread_t *thread, void *(*main)(void *), void *argument) {
  thread_start *start = malloc(sizeof *start);
  if (!start) return ENOMEM;
  *start = (thread_start){current, main, argument};
  int failed = pthread_create(thread, NULL, thread_main, start);
  if (failed) free(start);
  return failed;
}
