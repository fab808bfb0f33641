/* SPDX-License-Identifier: MIT
 *
 * Single evaluation on cores: each candidate is evaluated once, without a pass that counts first, and in a self-join
 * each unordered pair only from its first point. Pays where computing distances costs more than moving the results.
 *
 * Devices that take part do the same for the queries they take. The results are combined at the end.
 */
#ifndef ADJI_SINGLE_H
#define ADJI_SINGLE_H

#include "cpu/walk.h"
#include "queue/engine.h"

typedef struct adji_single adji_single;

/* Begins a pass that fills pass->result, of about `pairs` entries, or only pass->degrees. Sets in *walk what its lanes
 * do. Memory for a result, beyond it: 4 bytes per point, and 4 bytes (8 or 12 with distances) per evaluated pair: half
 * of the pairs in a self-join, and all pairs that a device found. For degrees alone: 4 bytes per point, and 12 with a
 * device. Joins through bins: see single_bins.h. */
adj_status adji_single_begin(adji_walk *walk, adji_run *run, const adji_pass *pass, double pairs, adji_single **out);
/* Combines the results of the cores and the devices, using the lanes' buffers. */
adj_status adji_single_gather(adji_single *single, adji_walker *walkers, adji_run *run, const adji_active *active);
void adji_single_end(adji_single *single); /* may be NULL */

#endif
