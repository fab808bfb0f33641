/* SPDX-License-Identifier: MIT
 *
 * Shared by the parts of brute force: the engine (brute.c), the scan without a prefilter (brute_plain.c) and the scan
 * with one (brute_prefilter.c).
 */
#ifndef ADJI_BRUTE_PRIVATE_H
#define ADJI_BRUTE_PRIVATE_H

#include "cpu/brute.h"
#include "index/sketch.h"
#include "result/kbest.h"

/* A piece of work: queries [begin, end) with right points [first, last). */
typedef struct brute_piece {
  uint64_t begin, end;
  uint64_t first, last;
  uint32_t segment; /* number of this part of the right points */
} brute_piece;

enum {
  BRUTE_LIST = 1024, /* candidates whose canonical sums are computed in one call */
  BRUTE_GROUP = 4    /* queries per call of a canonical kernel */
};

/* The state of the scan without a prefilter, per lane. */
typedef struct brute_plain {
  void *tile;    /* right points, one array per dimension */
  void *queries; /* in groups of BRUTE_GROUP, one short array per dimension */
  uint32_t *tile_ids;
  uint32_t *ids[BRUTE_GROUP]; /* what the kernel lists */
  void *sums[BRUTE_GROUP];
} brute_plain;

/* The state of the scan with a prefilter, per lane. Arrays have an entry per query of the piece. */
typedef struct brute_prefilter {
  double *scratch; /* a row */
  char *words;     /* sketches */
  adji_sketch_query *queries;
  adji_value *least, *base; /* for the prefilter */
  double *bound;            /* no candidate with a larger sum belongs */
  uint64_t **keys;          /* candidates that passed */
  uint32_t *found;          /* how many passed */
  uint32_t *next;           /* how many must pass before the next selection */
} brute_prefilter;

typedef struct brute_lane {
  _Alignas(64) void *memory; /* holds all that follows; no two lanes share a cache line */
  adji_kbest *best;          /* per query of the piece */
  uint32_t *list;            /* BRUTE_LIST candidates */
  uint64_t evaluated;        /* candidates evaluated so far */
  void *sums;                /* sums of the listed candidates */
  uint32_t *ids;             /* a finished row */
  void *row_sums;
  brute_plain plain;
  brute_prefilter prefilter;
} brute_lane;

typedef struct brute {
  adji_join join;
  adji_lent base;    /* an adji_brute_base: right and sketch are of it */
  adji_packed left;  /* unused in a self-join */
  adji_packed right; /* whose arrays are the base's */
  const adji_packed *queries;
  const adji_key_kernels *keys;
  bool prefiltered;
  adji_sketch sketch;     /* the same */
  uint64_t batch;         /* requested queries per piece, or 0 */
  uint32_t k;             /* the most neighbours a row can have */
  double cost;            /* nanoseconds per query on one core, about */
  uint64_t group;         /* queries per piece, at most */
  uint64_t tile;          /* right points per tile */
  uint64_t keys_capacity; /* prefilter: entries of a query's keys */
  /* Of the current run. */
  const adji_window *window;
  adji_queue *queue; /* the engine's: its batches are pieces */
  brute_piece *pieces;
  uint32_t segments;
  uint32_t *part_ids; /* with several segments: the best of each, rows of k */
  void *part_sums;
  uint32_t *part_counts;
  brute_lane *lanes;
} brute;

/* Both find the k best of the piece's queries among its right points: lane->best[q - begin]. */
adj_status adji_brute_plain(const brute *b, brute_lane *lane, const brute_piece *piece);
adj_status adji_brute_prefilter(const brute *b, brute_lane *lane, const brute_piece *piece);

/* The memory of a lane is one block, handed out in order. If base is NULL it is only counted. */
typedef struct brute_arena {
  char *base;
  uint64_t used;
} brute_arena;

static inline void *brute_alloc(brute_arena *arena, uint64_t count, size_t size) {
  void *at = arena->base ? arena->base + arena->used : NULL;
  arena->used += (adji_mul(count, size) + 127) & ~UINT64_C(63);
  return at;
}

void adji_brute_plain_layout(const brute *b, brute_plain *plain, brute_arena *arena);
void adji_brute_prefilter_layout(const brute *b, brute_prefilter *prefilter, brute_arena *arena);

/* Puts a candidate into the list at `at` and prefetches its row: listed rows are scattered. */
static inline void brute_list(const brute *b, brute_lane *lane, uint32_t at, uint32_t row) {
  lane->list[at] = row;
  __builtin_prefetch(adji_packed_row(&b->right, row));
}

/* Computes the canonical sums (L2) of one query with the first count candidates of lane->list, and adds them to its
 * best. */
void adji_brute_add_list(const brute *b, brute_lane *lane, uint64_t query, adji_kbest *best, uint32_t count);

#endif
