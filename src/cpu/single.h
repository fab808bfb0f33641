/* SPDX-License-Identifier: MIT
 *
 * Single evaluation on cores: each candidate is evaluated once, without a pass that counts first, and in a self-join
 * each unordered pair only from its first point. Pays where distances cost more than moving what was found.
 *
 * Devices that take part do the same for the queries they take, and the results are put together at the end.
 */
#ifndef ADJI_SINGLE_H
#define ADJI_SINGLE_H

#include "cpu/walk.h"
#include "queue/engine.h"

typedef struct adji_single adji_single;

/* Begins a pass that fills pass->result, of about `pairs` entries, or else pass->degrees, and says in *walk what its
 * lanes do. Memory, beyond the result: 4 bytes a point and, per pair that was evaluated, 4 bytes (8 or 12 with
 * distances): half of the pairs in a self-join, and all of those that a device found. For degrees alone 4 bytes a
 * point, and 12 with a device. Where there is enough, as single_bins.h says. */
adj_status adji_single_begin(adji_walk *walk, adji_run *run, const adji_pass *pass, double pairs, adji_single **out);
/* Puts together what the cores and the devices found, with the lanes' buffers. */
adj_status adji_single_gather(adji_single *single, adji_walker *walkers, adji_run *run, const adji_active *active);
void adji_single_end(adji_single *single); /* may be NULL */

#endif
