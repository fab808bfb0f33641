/* SPDX-License-Identifier: MIT
 *
 * A fixed team of threads that runs parallel loops. The caller is lane 0 and works too.
 */
#ifndef ADJI_THREADS_H
#define ADJI_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "core/call.h"
#include "core/status.h"

typedef struct adji_team adji_team;

/* threads >= 1 lanes, the caller's included. NULL, and the message is set, when a thread cannot start. */
adji_team *adji_team_create(uint32_t threads);
void adji_team_destroy(adji_team *team);
uint32_t adji_team_size(const adji_team *team);

/* One task of a loop. lane < adji_team_size: for scratch memory of each lane. */
typedef adj_status (*adji_task_fn)(void *user, uint64_t task, uint32_t lane);

/* Runs tasks 0 .. count - 1, each once, handed out in ascending order to whichever lane is free.
 * Hands out no more after the first failure. With `cancellable` it also hands out no more once the
 * caller's call is cancelled, and returns ADJ_CANCELLED. Returns the failure of the lowest task that
 * failed, with its message: the same for any number of threads. All lanes work for the caller's call
 * (core/call.h). Loops of several callers take turns. A loop inside a task runs in the task's own lane. */
adj_status adji_parallel(adji_team *team, uint64_t count, adji_task_fn fn, void *user, bool cancellable);

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

uint64_t adji_now_ns(void); /* monotonic */
uint32_t adji_usable_cores(void);

#endif
