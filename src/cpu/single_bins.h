/* SPDX-License-Identifier: MIT
 *
 * Single evaluation of a self-join on cores alone, in few dimensions, for results of ids. Each pair is found once, for
 * the earlier of its points in the order of the index, and goes to the rows of both points through bins.
 */
#ifndef ADJI_SINGLE_BINS_H
#define ADJI_SINGLE_BINS_H

#include "cpu/walk.h"
#include "queue/engine.h"

typedef struct adji_single_bins adji_single_bins;

/* Whether a self-join of about `pairs` entries is done this way. Memory, beyond the result: as much per entry as the
 * result, and 8 bytes per row; about a sixteenth more. */
bool adji_single_bins_suits(const adji_join *join, double pairs);

/* Begins a pass that fills pass->result. Sets in *walk what its lanes do. */
adj_status adji_single_bins_begin(adji_walk *walk, adji_run *run, const adji_pass *pass, double pairs,
                                  adji_single_bins **out);
/* Makes the rows. */
adj_status adji_single_bins_gather(adji_single_bins *m, adji_run *run);
void adji_single_bins_end(adji_single_bins *m); /* may be NULL */

#endif
