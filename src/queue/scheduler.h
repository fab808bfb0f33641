/* SPDX-License-Identifier: MIT
 *
 * The scheduler: workers drain the queue. Cores alone, a device alone, and cores with devices use the same scheduler
 * with different workers. A device that is alone works in the caller's thread. Otherwise every device has a thread of
 * its own, and the cores work in the caller's thread and its team.
 */
#ifndef ADJI_SCHEDULER_H
#define ADJI_SCHEDULER_H

#include "queue/worker.h"

/* Begins a pass with these workers. A device that fails to begin is left out with a warning if there are other workers.
 * A failure of the only worker, or of the cores, fails the call; then no worker is active. Sets pass->alone. */
adj_status adji_pass_begin(adji_run *run, const adji_worker *workers, uint32_t count, adji_pass *pass,
                           adji_active *out);

/* The active workers drain the pass's queue. A device that fails beside others is reported by a warning, and the others
 * finish the pass. tally: what this pass counted; may be NULL. */
adj_status adji_pass_run(adji_run *run, const adji_pass *pass, const adji_active *active,
                         const adji_share_options *share, adji_tally *tally);

/* Ends the pass for the active workers, run or not. */
void adji_pass_end(adji_run *run, const adji_active *active);

/* ---- A device's feed: called by the thread that drains ---------- */

/* Takes batches from the heavy end of the queue; false: there are none for this device. The device may ask again before
 * it has finished the batches it holds. How much it gets depends on how soon it is expected to finish them. */
bool adji_feed_take(adji_feed *feed, const adji_batch **batches, uint64_t *count);

/* Reports that the device has computed the oldest batches among those not yet computed. Their rows are not in place
 * yet. */
void adji_feed_found(adji_feed *feed);

/* Reports that the rows of the oldest batches are in place. From now on no other worker gets these batches. */
adj_status adji_feed_done(adji_feed *feed, const adji_tally *tally);

/* Returns queries of the oldest batches that the device could not answer, before these batches are reported as done.
 * Other workers answer them. */
adj_status adji_feed_return(adji_feed *feed, const adji_batch *batches, uint64_t count);

/* Reports that the device may now be able to answer queries that it returned before. It gets some of them, as the cores
 * do, when nothing else is in the queue. */
void adji_feed_again(adji_feed *feed);

/* Runs tasks 0 .. count - 1 on the host, each once: in the device's thread, and in lanes that are between two batches.
 * While there are batches, no more than enough() lanes join in. lane < threads + devices of the pass; it selects a
 * lane's buffers. Returns when all tasks are over, with the first failure; ADJ_CANCELLED when the pass was given up. */
adj_status adji_feed_parallel(adji_feed *feed, uint64_t count, adji_task_fn fn, uint64_t (*enough)(const void *user),
                              void *user);

/* Reports that the thread begins to wait for the device (asleep), or has stopped waiting. */
void adji_feed_sleep(adji_feed *feed, bool asleep);

#endif
