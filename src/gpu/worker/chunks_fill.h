/* SPDX-License-Identifier: MIT
 *
 * Joins in chunks: filling rows.
 */
#ifndef ADJI_GPU_WORKER_CHUNKS_FILL_H
#define ADJI_GPU_WORKER_CHUNKS_FILL_H

#include "gpu/worker/chunk_pairs.h"

adj_status adji_chunks_fill(adji_chunks *chunks, adji_run *run, const adji_window *window, adji_tally *tally);

#endif
