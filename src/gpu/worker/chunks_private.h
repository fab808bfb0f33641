/* SPDX-License-Identifier: MIT
 *
 * What the parts of the chunk worker share. chunks_fill.c fills rows, chunks_regions.c does the joins of regions, and
 * chunks.c everything else.
 */
#ifndef ADJI_GPU_WORKER_CHUNKS_PRIVATE_H
#define ADJI_GPU_WORKER_CHUNKS_PRIVATE_H

#include "gpu/worker/chunks.h"
#include "gpu/worker/inner_run.h"
#include "index/regions.h"

/* Rows or ids first .. end - 1. */
typedef struct adji_chunk {
  uint64_t first, end;
} adji_chunk;

typedef struct adji_chunks {
  adji_join join;
  adji_chunk_source source;
  adji_measure sums;    /* the measure, but it reports sums */
  adji_row_style style; /* of a join of two chunks. If the whole is ordered by distance: any order, with sums */
  uint64_t size;        /* points per chunk, halved when the device has no room */
  uint64_t cells;
  bool try_regions;                     /* regions were asked for */
  struct adji_chunk_regions *by_region; /* NULL: joins of two chunks */
  adji_run *run;                        /* the current run */
  const adji_pass *pass;
} adji_chunks;

/* A join of two chunks, and the sets that it reads. */
typedef struct adji_chunk_pair {
  adji_chunk rows, ids;
  adj_dataset left, right;
  adji_engine engine;
} adji_chunk_pair;

/* Chunk number i of a set. */
adji_chunk adji_chunk_at(const adji_chunks *c, const adj_dataset *set, uint64_t i);
uint64_t adji_chunk_count(const adji_chunks *c, const adj_dataset *set);
/* Whether rows and ids are of one chunk of a set that is joined with itself. */
bool adji_chunk_own(const adji_chunks *c, adji_chunk rows, adji_chunk ids);
/* Whether no pair of these rows and ids is part of the result. */
bool adji_chunk_skipped(const adji_chunks *c, adji_chunk rows, adji_chunk ids);

/* Opens the join of two chunks. p->rows may be more rows than requested: a chunk with itself is opened whole, so that
 * rows and ids have the same numbers. *p must not move until it is closed. */
adj_status adji_chunk_open(adji_chunks *c, uint32_t device, adji_chunk rows, adji_chunk ids, adji_chunk_pair *p);
void adji_chunk_close(adji_chunk_pair *p);

/* After a failure: makes chunks smaller if device memory was lacking. Returns whether it did. */
bool adji_chunks_shrink(adji_chunks *c, adj_status status);

/* How often each of several devices takes regions or left chunks: more than once, so that all end at about the same
 * time. */
enum { ADJI_CHUNK_TAKES = 2 };
/* The queries of a left chunk, for adji_division. The state begins with a pointer to adji_chunks. */
uint64_t adji_chunk_queries(const void *state, uint64_t i);

/* Points by region: the left points, and the right points with those within the radius around the region. In a
 * self-join left is right. */
typedef struct adji_chunk_regions {
  adji_cuts cuts;
  adji_regions right, left_alone;
  const adji_regions *left;
} adji_chunk_regions;

/* Makes c->by_region, if regions were asked for and can be used. */
adj_status adji_chunk_regions_make(adji_chunks *c);
void adji_chunk_regions_free(adji_chunks *c);
/* The same as the functions of chunks.c and chunks_fill.c, by regions. degrees may be NULL. */
adj_status adji_regions_count(adji_chunks *c, adji_run *run, uint32_t *degrees, adji_tally *tally);
adj_status adji_regions_estimate(adji_chunks *c, uint64_t sample, double *pairs, double *candidates);
adj_status adji_regions_fill(adji_chunks *c, adji_run *run, const adji_window *window, adji_tally *tally);

adj_status adji_chunks_fill(adji_chunks *chunks, adji_run *run, const adji_window *window, adji_tally *tally);

#endif
