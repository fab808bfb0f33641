/* SPDX-License-Identifier: MIT
 *
 * Single evaluation: from lists, and what devices found, to rows.
 */
#ifndef ADJI_SINGLE_ROWS_H
#define ADJI_SINGLE_ROWS_H

#include "cpu/single_private.h"

/* Lists all chunks in single->todo. */
adj_status adji_single_gather_chunks(adji_single *single);
void adji_single_free_chunks(adji_single *single);

/* Adds what devices found to the degrees. */
adj_status adji_single_count_parts(adji_single *single);
/* Steps 2 to 4. */
adj_status adji_single_make_rows(adji_single *single, const adji_run *run);

#endif
