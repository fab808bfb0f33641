/* SPDX-License-Identifier: MIT
 *
 * The scheduler: workers drain the queue. Cores alone, a device alone, and cores with devices are the same scheduler
 * with different workers.
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

#endif
