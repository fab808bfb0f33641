/* SPDX-License-Identifier: MIT
 *
 * Shared between the parts of brute force: the engine (brute.c), the scan without a filter
 * (brute_plain.c) and the one with (brute_prefilter.c).
 */
#ifndef ADJI_BRUTE_PRIVATE_H
#define ADJI_BRUTE_PRIVATE_H

#include "cpu/brute.h"
#include "distance/rows.h"
#include "index/sketch.h"
#include "result/kbest.h"

/* A piece of work: queries [begin, end) with the right points [first, last). */
typedef struct brute_piece {
  uint64_t begin, end;
  uint64_t first, last;
  uint32_t segment; /* which part of the right points that is */
} brute_piece;

enum {
  BRUTE_LIST = 1024, /* candidates whose canonical sums are computed at once */
  BRUTE_GROUP = 4    /* queries that a canonical kernel takes                */
};

/* What the scan without a filter needs in each lane. */
typedef struct brute_plain {
  void *tile;    /* right points, one array per dimension                       */
  void *queries; /* in groups of BRUTE_GROUP, one short array per dimension     */
  uint32_t *tile_ids;
  uint32_t *ids[BRUTE_GROUP]; /* what the kernel lists                          */
  void *sums[BRUTE_GROUP];
} brute_plain;

/* And the one with. Arrays per query of the piece. */
typedef struct brute_sift {
  double *scratch; /* a row                                                      */
  char *words;     /* sketches                                                   */
  adji_sketch_query *queries;
  adji_value *least, *base; /* for the products                                  */
  double *bound;            /* no candidate with a larger sum belongs            */
  uint64_t **keys;          /* candidates that passed                            */
  uint32_t *found;          /* how many                                          */
  uint32_t *next;           /* how many it takes until the next selection        */
} brute_sift;

typedef struct brute_lane {
  _Alignas(64) void *memory; /* holds all that follows; no two lanes share a cache line */
  adji_kbest *best;          /* per query of the piece                               */
  uint32_t *list;            /* BRUTE_LIST candidates                                */
  uint64_t evaluated;        /* candidates so far                                  */
  void *sums;                /* and their sums                                       */
  uint32_t *ids;             /* a finished row                                       */
  void *row_sums;
  brute_plain plain;
  brute_sift sift;
} brute_lane;

typedef struct brute {
  adji_join join;
  adji_packed left, right; /* left is unused in a self-join                 */
  const adji_packed *queries;
  const adji_rows_kernels *rows;
  const adji_key_kernels *keys;
  bool filtered;
  adji_sketch sketch;
  uint64_t batch;     /* queries of a piece that were asked for, or 0     */
  uint32_t k;         /* the most neighbours that a row can have           */
  double cost;        /* nanoseconds a query takes a core, about           */
  uint64_t group;     /* queries of a piece, at most                       */
  uint64_t tile;      /* right points that queries pass by at once         */
  uint64_t keys_room; /* sift: entries of a query's keys                   */
  /* Of the run at work. */
  const adji_window *window;
  adji_queue *queue; /* the engine's: its batches are pieces */
  brute_piece *pieces;
  uint32_t segments;
  uint32_t *part_ids; /* several segments: the best of each, rows of k      */
  void *part_sums;
  uint32_t *part_counts;
  brute_lane *lanes;
} brute;

/* Both find the k best of the piece's queries among its right points: lane->best[q - begin]. */
adj_status adji_brute_plain(const brute *b, brute_lane *lane, const brute_piece *piece);
adj_status adji_brute_prefilter(const brute *b, brute_lane *lane, const brute_piece *piece);

/* Memory of a lane is one block, dealt out in order: with base NULL, only counted. */
typedef struct brute_room {
  char *base;
  uint64_t used;
} brute_room;

static inline void *brute_take(brute_room *room, uint64_t count, size_t size) {
  void *at = room->base ? room->base + room->used : NULL;
  room->used += (adji_mul(count, size) + 127) & ~UINT64_C(63);
  return at;
}

void adji_brute_plain_layout(const brute *b, brute_plain *plain, brute_room *room);
void adji_brute_prefilter_layout(const brute *b, brute_sift *sift, brute_room *room);

/* Puts a candidate into the list at place `at`, and has its row fetched: those of a list lie far apart. */
static inline void brute_list(const brute *b, brute_lane *lane, uint32_t at, uint32_t row) {
  lane->list[at] = row;
  __builtin_prefetch(adji_packed_row(&b->right, row));
}

/* Computes the canonical sums (L2) of one query with the first count candidates of lane->list, and adds
 * them to its best. */
void adji_brute_add_list(const brute *b, brute_lane *lane, uint64_t query, adji_kbest *best, uint32_t count);

#endif
