/* SPDX-License-Identifier: MIT
 *
 * Staged rows: the rows of a range join on cores, found in one pass over the index and then copied to their places. In
 * few dimensions, with short rows, copying costs less than a pass that counts first.
 */
#ifndef ADJI_STAGED_H
#define ADJI_STAGED_H

#include "cpu/walk.h"
#include "queue/engine.h"

typedef struct adji_staged adji_staged;

/* Begins a pass that fills pass->result, of about `pairs` entries, or its `binned`, if it also has labels. Sets in
 * *walk what its lanes do. Memory, beyond the result: 8 bytes per row that is not empty, and as much per entry as the
 * result; about an eighth more; with labels 4 bytes per point of the right index; in the caller's bins 4 bytes per
 * row. */
adj_status adji_staged_begin(adji_walk *walk, adji_run *run, const adji_pass *pass, double pairs, adji_staged **out);
/* Copies the rows to the result, unless they are in the bins of the caller. */
adj_status adji_staged_gather(adji_staged *staged, adji_run *run);
void adji_staged_end(adji_staged *staged); /* may be NULL */

#endif
