/* SPDX-License-Identifier: MIT
 *
 * The progress of a run that writes its result. The join reports how much of itself is done, the outputs report their
 * bytes. What the caller is told is the share of the time: the time so far, of that and what is expected to follow. It
 * decreases where writing turns out to be slower than was expected: an honest figure is worth more than a steady one.
 */
#ifndef ADJI_METER_H
#define ADJI_METER_H

#include <pthread.h>

#include "core/context.h"

typedef struct adji_meter {
  adj_run_control caller; /* progress NULL: nobody asks */
  pthread_mutex_t lock;   /* one call of the caller's function at a time; for all that follows but the atomics */
  uint64_t begin_ns, last_ns;
  double join; /* share of the join that is done */
  uint64_t pairs;
  /* Bytes to write, as far as is known, and written; to synchronise with the disk, and synchronised. */
  ADJI_ATOMIC(uint64_t) expected, written, to_sync, synced;
  ADJI_ATOMIC(uint64_t) write_ns;                /* so far, but for the writing that is under way */
  ADJI_ATOMIC(uint64_t) write_since, sync_since; /* when that began, and when synchronising began; 0: not */
} adji_meter;

/* control may be NULL. ADJ_E_STRUCT if it is wrong. After a success the meter must be ended. */
adj_status adji_meter_begin(adji_meter *meter, const adj_run_control *control);
void adji_meter_end(adji_meter *meter);

/* The caller's control, but for progress, which goes to the meter. */
adj_run_control adji_meter_control(adji_meter *meter);

/* The bytes of the whole result, and how many of them are synchronised with the disk in the end. */
void adji_meter_expect(adji_meter *meter, uint64_t bytes, uint64_t to_sync);

/* Around the time in which the join waits for the outputs. last: nothing of the join follows. */
void adji_meter_write_begin(adji_meter *meter, bool last);
void adji_meter_write_end(adji_meter *meter);

/* From now on the outputs are synchronised; nothing else follows. */
void adji_meter_sync_begin(adji_meter *meter);

/* Bytes that are written, from any thread; and synchronised, where user is the meter. ADJ_CANCELLED if the caller wants
 * to stop. */
adj_status adji_meter_wrote(adji_meter *meter, uint64_t bytes);
adj_status adji_meter_synced(void *user, uint64_t bytes);

#endif
