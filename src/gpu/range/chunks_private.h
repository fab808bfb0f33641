/* SPDX-License-Identifier: MIT
 *
 * What the parts of the engine of chunks share: chunks.c opens, counts and estimates, chunks_fill.c fills.
 */
#ifndef ADJI_GPU_RANGE_CHUNKS_PRIVATE_H
#define ADJI_GPU_RANGE_CHUNKS_PRIVATE_H

#include "gpu/range/chunks.h"

/* Rows or ids first .. end - 1. */
typedef struct adji_stretch {
  uint64_t first, end;
} adji_stretch;

typedef struct adji_chunks {
  adji_join join;
  adji_chunk_source source;
  adji_measure sums;    /* the measure, reporting sums as they are                                */
  adji_row_style style; /* what is asked of a join of two stretches; entries that are by distance */
                        /* come in any order, with their sums                                     */
  uint64_t size;        /* points a stretch: less after the device said that it has no room       */
  uint64_t cells;
} adji_chunks;

/* A run of the joins of stretches, which tells the whole run how far it is. */
typedef struct adji_chunk_run {
  adji_run run, *whole;
  const char *phase;
  double done, share, all; /* the call at work is `share` of `all`, and `done` was done before it */
  uint64_t pairs;          /* found before it */
} adji_chunk_run;

void adji_chunk_run_begin(adji_chunk_run *r, adji_run *whole, const char *phase);
/* Adds to the whole run what was done. */
void adji_chunk_run_end(adji_chunk_run *r);
/* Before each call of an engine. */
void adji_chunk_run_next(adji_chunk_run *r, double done, double share, uint64_t pairs);

/* A join of two stretches, and the sets that it reads. */
typedef struct adji_chunk_pair {
  adji_stretch rows, ids;
  adj_dataset left, right;
  adji_engine engine;
} adji_chunk_pair;

/* Stretch number i of a set. */
adji_stretch adji_stretch_of(const adji_chunks *c, const adj_dataset *set, uint64_t i);
uint64_t adji_stretch_count(const adji_chunks *c, const adj_dataset *set);
/* Whether these are of one stretch of a set that is joined with itself. */
bool adji_chunk_own(const adji_chunks *c, adji_stretch rows, adji_stretch ids);
/* Whether no pair of them is part of the result. */
bool adji_chunk_skipped(const adji_chunks *c, adji_stretch rows, adji_stretch ids);

/* The rows that were opened may be more than were asked for: a stretch with itself is opened whole, so that rows and
 * ids are numbered alike. The pair stays where it is until it is closed. */
adj_status adji_chunk_open(adji_chunks *c, adji_stretch rows, adji_stretch ids, adji_chunk_pair *p);
void adji_chunk_close(adji_chunk_pair *p);

/* After a failure: whether it was a lack of device memory, and stretches could be made smaller. */
bool adji_chunks_shrink(adji_chunks *c, adj_status status);

adj_status adji_chunks_fill(void *state, adji_run *run, const adji_window *window);

#endif
