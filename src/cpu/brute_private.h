/* SPDX-License-Identifier: MIT
 *
 * Shared by the parts of brute force: the engine (brute.c), the choice of a prefilter (brute_choose.c), the scan
 * without a prefilter (brute_plain.c), the scan with one (brute_prefilter.c), and the scans in which one product serves
 * both points of a pair: of a set with itself (brute_pairs.c) and of two sets (brute_mutual.c).
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
  uint32_t segment;     /* number of this part of the right points */
  const uint32_t *list; /* not NULL: the queries are list[begin .. end - 1] */
} brute_piece;

/* Query number `at` of a piece. */
static inline uint64_t brute_query(const brute_piece *piece, uint64_t at) {
  return piece->list ? piece->list[piece->begin + at] : piece->begin + at;
}

enum {
  BRUTE_LIST = 1024, /* candidates whose canonical sums are computed in one call */
  BRUTE_GROUP = 4    /* queries per call of a canonical kernel */
};

/* The state of the scan without a prefilter, per lane. */
typedef struct brute_plain {
  void *tile;    /* right points, one array per dimension */
  void *queries; /* in groups of BRUTE_GROUP, one short array per dimension */
  uint32_t *tile_ids;
  uint32_t *ids[BRUTE_GROUP]; /* neighbours found by the kernel */
  void *sums[BRUTE_GROUP];
} brute_plain;

/* The state of the scan with a prefilter, per lane. Arrays have an entry per query of the piece. */
typedef struct brute_prefilter {
  double *scratch; /* one row */
  char *words;     /* sketches of the queries */
  adji_sketch_query *queries;
  adji_value *least, *base; /* arguments of the prefilter's kernel */
  double *bound;            /* no candidate with a larger sum belongs */
  uint64_t **keys;          /* candidates that passed */
  uint32_t *found;          /* number of keys */
  uint32_t *next;           /* number of keys at which the next selection is due */
} brute_prefilter;

typedef struct brute_lane {
  _Alignas(64) void *memory; /* holds all arrays below; no two lanes share a cache line */
  adji_kbest *best;          /* per query of the piece */
  uint32_t *list;            /* BRUTE_LIST candidates */
  uint64_t evaluated;        /* candidates evaluated so far */
  void *sums;                /* sums of the listed candidates */
  uint32_t *ids;             /* a finished row */
  void *row_sums;
  adji_tally tally; /* counts rows finished after the drain */
  brute_plain plain;
  brute_prefilter prefilter;
  uint64_t *pairs; /* brute_pairs.c, brute_mutual.c: pairs of two blocks that passed */
  int32_t *half, *reach, *candidate_reach;
} brute_lane;

/* Points for which keys are collected while other points are the queries, as one product serves both points of a pair:
 * all points in a self-join, the right points in a mutual join. Arrays have an entry per point. */
typedef struct brute_pairs {
  bool active;            /* a self-join in pairs */
  uint64_t first;         /* points before this one take no part */
  uint64_t block, blocks; /* points per block, and their number; block 0 begins at point `first` */
  uint32_t capacity;      /* keys per point */
  pthread_mutex_t *locks; /* per block: guards the entries of its points below */
  uint64_t *keys;         /* keys of candidates that passed so far */
  uint32_t *found, *next; /* number of keys; number at which the next selection is due */
  int32_t *reach;         /* half the largest value that may belong; ADJI_REACH_NONE: too many candidates, or a stray */
  double *bound;          /* no candidate with a larger sum belongs */
  adji_sketch_query *queries;
  uint32_t *order;   /* after the drain: points whose keys are complete, then the others; from point `first` on */
  uint64_t answered; /* number of points whose keys are complete */
} brute_pairs;

typedef struct brute {
  adji_join join;
  adji_lent base;    /* an adji_brute_base: owner of the arrays of right and sketch */
  adji_packed left;  /* unused in a self-join */
  adji_packed right; /* its arrays belong to the base */
  const adji_packed *queries;
  const adji_key_kernels *keys;
  bool prefiltered;
  adji_sketch sketch;     /* its arrays belong to the base */
  uint64_t batch;         /* requested queries per piece, or 0 */
  uint32_t k;             /* the most neighbours a row can have */
  double cost;            /* estimated nanoseconds per query on one core */
  double passed;          /* candidates evaluated per query, as far as known */
  bool pairs_expected;    /* one product will serve two points, unless a run has windows of rows */
  uint64_t group;         /* queries per piece, at most */
  uint64_t tile;          /* right points per tile, at most */
  uint64_t keys_capacity; /* prefilter: entries of a query's keys */
  /* The current run. */
  const adji_window *window;
  adji_queue *queue; /* owned by the engine; its batches are pieces */
  brute_piece *pieces;
  uint32_t segments;
  uint32_t *part_ids; /* with several segments: rows of the k best of each */
  void *part_sums;
  uint32_t *part_counts;
  brute_lane *lanes;
  brute_pairs pairs;
  struct brute_mutual *mutual; /* NULL: the run finds no neighbours of right points */
} brute;

/* A mutual join: the join the other way round, whose queries are the right points of the join, and its rows. It shares
 * the lanes, and its pairs have the keys of the right points. */
typedef struct brute_mutual {
  brute back;
  adji_window rows;
} brute_mutual;

/* The memory of a lane is one block, handed out in order. If base is NULL, the bytes are only counted. */
typedef struct brute_arena {
  char *base;
  uint64_t used;
} brute_arena;

static inline void *brute_alloc(brute_arena *arena, uint64_t count, size_t size) {
  void *at = arena->base ? arena->base + arena->used : NULL;
  arena->used += (adji_mul(count, size) + 127) & ~UINT64_C(63);
  return at;
}

/* Both find the k best neighbours of the piece's queries among its right points: lane->best[at] for query number at. */
adj_status adji_brute_plain(const brute *b, brute_lane *lane, const brute_piece *piece);
adj_status adji_brute_prefilter(const brute *b, brute_lane *lane, const brute_piece *piece);

/* The parts of adji_brute_prefilter(). The first one makes the sketches of the queries, and their first bounds. */
void adji_brute_begin_piece(const brute *b, brute_lane *lane, const brute_piece *piece);
/* Begins, and compares the queries with the right points; sets keys and bounds in lane->prefilter. */
adj_status adji_brute_scan(const brute *b, brute_lane *lane, const brute_piece *piece);
/* Lowers the bound of query number `at` by its keys, and drops the keys above it. */
void adji_brute_tighten(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at);
/* Evaluates the candidates of query number `at`: its keys in lane->prefilter. Their number and bound must be set. */
void adji_brute_evaluate(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at);
/* Adds the strays among the piece's right points to the best of query number `at`. A stray is a point about which
 * sketches prove nothing. */
void adji_brute_add_strays(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at);
/* The rank of the key that gives the bound: one more than k if a query may be among its own candidates. */
static inline uint64_t brute_wanted(const brute *b) {
  return (uint64_t)b->k + b->join.style.drop_self;
}

/* brute.c. Lays out the arrays of a lane, and the bytes they take. */
void adji_brute_layout(const brute *b, brute_lane *lane, brute_arena *arena);
uint64_t adji_brute_lane_bytes(const brute *b);

/* brute_choose.c. Sets the points per tile and the keys per query, for the sketch of `b` or without one. */
void adji_brute_choose_sizes(brute *b);
/* A lower bound of the nanoseconds of a query, with a prefilter or without (NULL). */
double adji_brute_least_cost(const brute *b, const adji_prefilter_sketch *prefilter);
/* Chooses the fastest prefilter that is available and useful, unless one is wanted. */
adj_status adji_brute_choose_prefilter(brute *b, adji_prefilter_kind wanted);

/* brute_pairs.c. Whether the pass can work in pairs. Sets the size of blocks and the keys per point. */
bool adji_brute_pairs_choose(brute *b);
/* The part of it that mutual joins need: the keys per point, `spare` more than twice as many as are needed; 0: one
 * product cannot serve both points, or the keys would take too much memory. */
uint32_t adji_brute_pairs_keys(const brute *b, uint32_t spare);
void adji_brute_pairs_layout(const brute *b, brute_lane *lane, brute_arena *arena);
/* Allocates memory, which adji_brute_pairs_end() frees even after a failure. */
adj_status adji_brute_pairs_open(brute *b);
/* The same, and scans each block with itself. */
adj_status adji_brute_pairs_begin(brute *b);
/* The points of a block, as queries and as right points. */
brute_piece adji_brute_pairs_points(const brute *b, uint64_t number);
void adji_brute_pairs_copy_reaches(const brute *b, uint64_t number, int32_t *to);
/* Half the largest value that may belong, for a bound of the sum. */
int32_t adji_brute_pairs_reach(const brute *b, const adji_sketch_query *query, double bound);
/* Lowers the bound of a point by the keys it has, drops the keys above it, and sets its reach. */
void adji_brute_pairs_tighten(const brute *b, uint64_t point);
static inline void brute_pairs_add(const brute *b, uint64_t point, uint64_t value, uint64_t other) {
  const brute_pairs *p = &b->pairs;
  if ((int32_t)(value >> 1) > p->reach[point]) return;
  p->keys[point * p->capacity + p->found[point]++] = value << 32 | other;
  if (p->found[point] >= p->next[point]) adji_brute_pairs_tighten(b, point);
}
/* Compares a block with all later ones. */
adj_status adji_brute_pairs_block(brute *b, brute_lane *lane, uint64_t number);
/* After the drain: sets pairs.order and pairs.answered. */
void adji_brute_pairs_order(brute *b);
/* After the drain: evaluates the candidates of query number `at` of a piece of pairs.order. */
void adji_brute_pairs_take(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at);
void adji_brute_pairs_end(brute *b);

/* brute_mutual.c. Whether the join can be a mutual one, memory aside. */
bool adji_brute_mutual_fits(const brute *b);
/* Opens a mutual join, if the pass can be one: otherwise b->mutual stays NULL. */
adj_status adji_brute_mutual_open(brute *b);
/* Once the lanes are open: gives the right points their first bounds. */
adj_status adji_brute_mutual_begin(brute *b);
/* A block of left points, and all right points that take part. */
brute_piece adji_brute_mutual_piece(const brute *b, uint64_t number);
/* Compares the two; finds the k best of the left points, in lane->best, and keys of the right points. */
adj_status adji_brute_mutual_block(brute *b, brute_lane *lane, const brute_piece *piece, uint64_t number);
void adji_brute_mutual_end(brute *b);

void adji_brute_plain_layout(const brute *b, brute_plain *plain, brute_arena *arena);
void adji_brute_prefilter_layout(const brute *b, brute_prefilter *prefilter, brute_arena *arena);

/* Puts a candidate into the list at `at` and prefetches its row: listed rows are scattered. */
static inline void brute_list(const brute *b, brute_lane *lane, uint32_t at, uint32_t row) {
  lane->list[at] = row;
  __builtin_prefetch(adji_packed_row(&b->right, row));
}

/* Prefetches the rows of the first keys, which are about to be evaluated. */
static inline void brute_fetch(const brute *b, const uint64_t *keys, uint64_t count) {
  enum { MOST = 24 };
  for (uint64_t i = 0; i < count && i < MOST; i++)
    __builtin_prefetch(adji_packed_row(&b->right, (uint32_t)keys[i]));
}

/* Computes the canonical sums (L2) of one query with the first `count` candidates of lane->list, and adds them to its
 * best. */
void adji_brute_add_list(const brute *b, brute_lane *lane, uint64_t query, adji_kbest *best, uint32_t count);

#endif
