/* SPDX-License-Identifier: MIT
 *
 * The cores' side of a pass: every thread of the context's team is a lane that takes one batch after the other.
 */
#ifndef ADJI_LANES_H
#define ADJI_LANES_H

#include "queue/worker.h"

/* Does a batch. lane < threads of the context: for buffers a lane. Adds to tally, which is the lane's own. */
typedef adj_status (*adji_process_fn)(void *user, const adji_batch *batch, uint32_t lane, adji_tally *tally);

/* Drains the queue by all lanes: the drain of a worker that is made of cores. NULL process: lanes take no batches, and
 * only help devices. */
adj_status adji_lanes_drain(adji_feed *feed, adji_process_fn process, void *user);

#endif
