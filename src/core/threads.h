/* SPDX-License-Identifier: MIT
 *
 * Calls that adj_cancel can end, and a fixed team of threads that runs parallel loops. The caller is lane 0 and works
 * too.
 */
#ifndef ADJI_THREADS_H
#define ADJI_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/atomic.h"
#include "core/float_state.h"
#include "core/status.h"

/* ---- Calls --------------------------------------------------------------------------------------------
 *
 * A context counts its cancels. A call remembers the count it began with, and is cancelled once the count differs. So a
 * cancel ends every call under way and none that begins later, and there is nothing to reset. Each thread stores which
 * call it works for. A parallel loop passes this on to its lanes, and adji_thread_start to a new thread.
 *
 * A call computes in the default floating-point state of C: it rounds to the nearest, keeps denormal numbers and has
 * no traps. Otherwise results would depend on the caller's state, and a library compiled with -ffast-math changes that
 * state for the whole process. So beginning a call sets the default state, ending it restores the caller's state with
 * its exception flags, and threads of the library begin with the default.
 */

typedef struct adji_call {
  const ADJI_ATOMIC(uint32_t) * cancels; /* the context's count; NULL: no call */
  uint32_t at_begin;
  adji_float_state floats; /* the thread's floating-point state outside of the call */
} adji_call;

/* The call that the calling thread works for. */
adji_call adji_call_current(void);

/* From now on the calling thread works for this call, in its floating-point state. */
ADJI_SHARED void adji_call_set(adji_call call);

/* Begins a call in the context with this count. Returns the thread's previous call, for adji_call_set at the end. A
 * call inside a call of the same context, such as from a callback, is a part of the outer one. Every public function
 * that computes with floating-point numbers begins a call, whether it can be cancelled or not. */
ADJI_SHARED adji_call adji_call_begin(const ADJI_ATOMIC(uint32_t) * cancels);

/* Runs a callback of the caller, given as a statement. Changes that it makes to the floating-point state are undone. If
 * the thread works alone, loops of the callback still use the team. */
#define ADJI_CALL_BACK(statement)                         \
  do {                                                    \
    adji_float_state adji_ours_ = adji_float_state_get(); \
    bool adji_alone_ = adji_work_alone(false);            \
    statement;                                            \
    adji_work_alone(adji_alone_);                         \
    adji_float_state_set(adji_ours_);                     \
  } while (0)

/* Whether the call that the calling thread works for is cancelled; the second function also asks whether it is a call
 * in the context with this count. One relaxed load. */
ADJI_SHARED bool adji_call_cancelled(void);
bool adji_call_cancelled_in(const ADJI_ATOMIC(uint32_t) * cancels);

/* pthread_create for a thread that works for the caller's call, in the default floating-point state. */
ADJI_SHARED int adji_thread_start(pthread_t *thread, void *(*main)(void *), void *argument);

/* ---- The team ------------------------------------------------------------------------------------------ */

typedef struct adji_team adji_team;

/* threads >= 1 lanes, the caller's included. NULL if a thread cannot start; the message is set. */
adji_team *adji_team_create(uint32_t threads);
void adji_team_destroy(adji_team *team);
uint32_t adji_team_size(const adji_team *team);

/* One task of a loop. lane < adji_team_size: for scratch memory of each lane. */
typedef adj_status (*adji_task_fn)(void *user, uint64_t task, uint32_t lane);

/* Runs tasks 0 .. count - 1, each once, handed out in ascending order to whichever lane is free.
 * After the first failure no more tasks are handed out. With `cancellable`, the same holds once the caller's call is
 * cancelled, and the loop returns ADJ_CANCELLED. Returns the failure of the lowest task that failed, with its message:
 * the same for any number of threads. All lanes work for the caller's call. Loops of several callers take turns. A loop
 * inside a task runs in the task's own lane. */
ADJI_SHARED adj_status adji_parallel(adji_team *team, uint64_t count, adji_task_fn fn, void *user, bool cancellable);

/* From now on loops of the calling thread run in this thread, as lane 0, without waking a thread or waiting for another
 * caller's loop. For small work. Returns the previous setting. */
ADJI_SHARED bool adji_work_alone(bool alone);

/* Whether the calling thread runs a task of a team. Then it must not wait for a thread that needs the team. */
bool adji_inside_task(void);

/* Task t of count equal pieces of n items: [*begin, *end). */
static inline void adji_slice(uint64_t n, uint64_t count, uint64_t t, uint64_t *begin, uint64_t *end) {
  uint64_t each = n / count, rest = n % count;
  *begin = each * t + (t < rest ? t : rest);
  *end = *begin + each + (t < rest);
}

/* Some tens of cycles, for a thread that spins. */
static inline void adji_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

uint64_t adji_now_ns(void);    /* monotonic */
uint64_t adji_thread_ns(void); /* CPU time of the calling thread, for trials */
uint32_t adji_usable_cores(void);

#endif
