/* SPDX-License-Identifier: MIT
 *
 * What the parts of the chunk engine share: chunks.c opens, counts and estimates, chunks_fill.c fills.
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
  adji_measure sums;    /* the measure, reporting plain sums */
  adji_row_style style; /* of a join of two stretches; entries that will be sorted by distance */
                        /* come in any order, with their sums */
  uint64_t size;        /* points per stretch; reduced when the device has no room */
  uint64_t cells;
} adji_chunks;

/* A run of the joins of stretches, which reports its progress to the whole run. */
typedef struct adji_chunk_run {
  adji_run run, *whole;
  const char *phase;
  double done, share, all; /* the current call is `share` of `all`; `done` was done before it */
  uint64_t pairs;          /* found before it */
} adji_chunk_run;

void adji_chunk_run_begin(adji_chunk_run *r, adji_run *whole, const char *phase);
/* Adds its statistics to the whole run. */
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
/* Whether both are the same stretch of a self-join. */
bool adji_chunk_own(const adji_chunks *c, adji_stretch rows, adji_stretch ids);
/* Whether no pair of the two is part of the result. */
bool adji_chunk_skipped(const adji_chunks *c, adji_stretch rows, adji_stretch ids);

/* May open more rows than asked for: a stretch with itself is opened whole, so that rows and ids have the same
 * numbers. The pair must not move until it is closed. */
adj_status adji_chunk_open(adji_chunks *c, adji_stretch rows, adji_stretch ids, adji_chunk_pair *p);
void adji_chunk_close(adji_chunk_pair *p);

/* After a failure: whether the device was out of memory and stretches were made smaller. */
bool adji_chunks_shrink(adji_chunks *c, adj_status status);

adj_status adji_chunks_fill(void *state, adji_run *run, const adji_window *window);

#endif
