/* SPDX-License-Identifier: MIT
 *
 * The scheduler: workers drain the queue. Cores alone, a device alone, and cores with devices are the same scheduler
 * with different workers. A device that is alone works in the caller's thread. Beside the cores, which work in the
 * caller's thread and its team, every device has a thread of its own.
 */
#ifndef ADJI_SCHEDULER_H
#define ADJI_SCHEDULER_H

#include "queue/worker.h"

/* Begins a pass with these workers. A device that refuses beside others is left out with a warning; a worker that is
 * the only one, and the cores, must not fail. On failure none is active. Sets pass->alone. */
adj_status adji_pass_begin(adji_run *run, const adji_worker *workers, uint32_t count, adji_pass *pass,
                           adji_active *out);

/* The active workers drain the pass's queue. A device that fails beside others is reported by a warning, and the others
 * finish the pass. tally: what this pass counted; may be NULL. */
adj_status adji_pass_run(adji_run *run, const adji_pass *pass, const adji_active *active,
                         const adji_share_options *share, adji_tally *tally);

/* Ends the pass for the active workers, run or not. */
void adji_pass_end(adji_run *run, const adji_active *active);

/* ---- What a draining device takes batches from and reports to, from the thread that drains ---------- */

/* Batches from the heavy end of the queue; false: there are none for this device. It may ask again before it is done
 * with those it has: how much it gets depends on how soon it will be. */
bool adji_feed_take(adji_feed *feed, const adji_batch **batches, uint64_t *count);

/* The device has computed the oldest batches it had not; their rows are not in place yet. */
void adji_feed_found(adji_feed *feed);

/* The rows of the oldest batches are in place. From now on nobody else does them. */
adj_status adji_feed_done(adji_feed *feed, const adji_tally *tally);

/* Queries of the oldest batches, before these are done, that the device could not answer: others do them. */
adj_status adji_feed_return(adji_feed *feed, const adji_batch *batches, uint64_t count);

/* The device may be able to answer now what it returned before: it gets some of these queries, as the cores do, when
 * nothing else is in the queue. */
void adji_feed_again(adji_feed *feed);

/* Runs tasks 0 .. count - 1 on the host, each once: in the device's thread, and in lanes that are between two batches.
 * While there are batches, no more than enough() lanes join in. lane < threads + devices of the pass: for buffers a
 * lane. Returns when all tasks are over, with the first failure; ADJ_CANCELLED when the pass was given up. */
adj_status adji_feed_parallel(adji_feed *feed, uint64_t count, adji_task_fn fn, uint64_t (*enough)(const void *user),
                              void *user);

/* The thread begins to wait for the device, or has done so. */
void adji_feed_sleep(adji_feed *feed, bool asleep);

#endif
