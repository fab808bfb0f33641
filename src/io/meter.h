/* SPDX-License-Identifier: MIT
 *
 * The progress of a run that writes its result. The join reports its own progress, the outputs report their bytes. The
 * caller gets the share of the time: the time so far, divided by that plus the time that is expected to follow. The
 * share decreases if writing is slower than expected: an honest figure is worth more than a steady one.
 */
#ifndef ADJI_METER_H
#define ADJI_METER_H

#include <pthread.h>

#include "core/context.h"

typedef struct adji_meter {
  adj_run_control caller; /* progress NULL: none is reported */
  pthread_mutex_t lock;   /* one call of the caller's function at a time; guards all below but the atomics */
  uint64_t begin_ns, last_ns;
  double join; /* progress of the join */
  uint64_t pairs;
  /* Bytes to write, as far as known, and bytes written; bytes to synchronise with the disk, and bytes synchronised. */
  ADJI_ATOMIC(uint64_t) expected, written, to_sync, synced;
  ADJI_ATOMIC(uint64_t) write_ns;                /* of finished periods of writing */
  ADJI_ATOMIC(uint64_t) write_since, sync_since; /* when the current period, and synchronising, began; 0: neither */
} adji_meter;

/* control may be NULL; an invalid one is ADJ_E_STRUCT. After a success the meter must be ended. */
adj_status adji_meter_begin(adji_meter *meter, const adj_run_control *control);
void adji_meter_end(adji_meter *meter);

/* The caller's control, except that progress goes to the meter. */
adj_run_control adji_meter_control(adji_meter *meter);

/* Sets the bytes of the whole result, and how many of them are synchronised with the disk at the end. */
void adji_meter_expect(adji_meter *meter, uint64_t bytes, uint64_t to_sync);

/* Called before and after each period in which the join waits for the outputs. last: the join is complete. */
void adji_meter_write_begin(adji_meter *meter, bool last);
void adji_meter_write_end(adji_meter *meter);

/* From now on the outputs are synchronised, which is the last step. */
void adji_meter_sync_begin(adji_meter *meter);

/* Report bytes that were written, from any thread, and bytes that were synchronised; user is the meter. ADJ_CANCELLED
 * if the caller stops the run. */
adj_status adji_meter_wrote(adji_meter *meter, uint64_t bytes);
adj_status adji_meter_synced(void *user, uint64_t bytes);

#endif
