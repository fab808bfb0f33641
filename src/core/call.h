/* SPDX-License-Identifier: MIT
 *
 * Calls that adj_cancel can end. A context counts its cancels. A call remembers the count it began with, and is
 * cancelled once the count differs: so a cancel ends every call under way and none that begins later, and there is
 * nothing to reset.
 *
 * Which call a thread works for is a property of the thread. A parallel loop hands it to the lanes (core/threads.h),
 * and adji_thread_start to a new thread.
 */
#ifndef ADJI_CALL_H
#define ADJI_CALL_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/atomic.h"

typedef struct adji_call {
  const ADJI_ATOMIC(uint32_t) * cancels; /* the context's count; NULL: no call */
  uint32_t at_begin;
} adji_call;

/* The call that the calling thread works for. */
adji_call adji_call_current(void);

/* From now on the calling thread works for this call. */
void adji_call_set(adji_call call);

/* Begins a call in the context with this count. Returns the call so far, for adji_call_set at the end. A call inside
 * a call of the same context, such as from a callback, is a part of that one. */
adji_call adji_call_begin(const ADJI_ATOMIC(uint32_t) * cancels);

/* Whether the call that the calling thread works for is cancelled. One relaxed load. */
bool adji_call_cancelled(void);

/* pthread_create for a thread that works for the caller's call. */
int adji_thread_start(pthread_t *thread, void *(*main)(void *), void *argument);

#endif
