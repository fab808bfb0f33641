/* SPDX-License-Identifier: MIT
 *
 * What a draining device takes batches from and reports to. All of it is called by the device's own thread.
 */
#ifndef ADJI_FEED_H
#define ADJI_FEED_H

#include "queue/drain.h"

/* Batches from the heavy end of the queue; false: there are none for this device. It may ask again before it is done
 * with those it has: how much it gets depends on how soon it will be. */
bool adji_feed_take(adji_feed *feed, const adji_batch **batches, uint64_t *count);

/* The device has computed the oldest batches it had not; their rows are not in place yet. */
void adji_feed_found(adji_feed *feed);

/* The rows of the oldest batches are in place. From now on nobody else does them. */
adj_status adji_feed_done(adji_feed *feed, const adji_tally *tally);

/* Queries of the oldest batches, before these are done, that the device could not answer: the cores do them. */
adj_status adji_feed_return(adji_feed *feed, const adji_batch *batches, uint64_t count);

/* Runs tasks 0 .. count - 1 on the host, each once: in the device's thread, and in lanes that are between two batches.
 * While there are batches, no more than enough() lanes join in. lane < threads + devices of the pass: for buffers a
 * lane. Returns when all tasks are over, with the first failure; ADJ_CANCELLED when the pass was given up. */
adj_status adji_feed_parallel(adji_feed *feed, uint64_t count, adji_task_fn fn, uint64_t (*enough)(const void *user),
                              void *user);

/* The thread begins to wait for the device, or has done so. */
void adji_feed_sleep(adji_feed *feed, bool asleep);

/* For the scheduler. First batches of a device, before its thread runs; false: there are none. The lock is held. */
bool adji_feed_open(adji_feed *feed, adji_drain *drain, uint32_t device);
/* After the worker's drain returned. */
void adji_feed_close(adji_feed *feed, adj_status status);

/* For lanes. A loop with tasks left: needed: only one that has not enough lanes. The lock is held. */
adji_feed *adji_feed_needs_help(adji_drain *drain, bool needed);
/* One task of its loop. The lock is held, but not while the task runs. */
void adji_feed_help(adji_feed *feed, uint32_t lane);

#endif
