/* SPDX-License-Identifier: MIT
 *
 * The prefilter of sketches (index/sketch.h) for brute force on cores: blocked dot products of many queries with a tile
 * of candidates, which show what pairs may be close. The canonical distance then decides about the pairs that pass
 * (cpu/brute_prefilter.c).
 *
 * A sketch is a row of 4-byte words; a word is either four codes (8-bit integers) or one f32. Candidates are stored in
 * blocks of 16: word g of the 16 points of a block takes 64 bytes, and the words follow each other. With P the dot
 * product of a query and a candidate, and `half` half the candidate's squared norm, C = P - half is compared with the
 * query's `least`: C grows as the distance falls. Pairs that pass are appended to the query's keys as value << 32 |
 * position, where value = max(base - 2C, 0). Values order as the distances of the sketches do, and ties go to the lower
 * position.
 *
 *   codes   queries are signed, candidates unsigned (the code + 128); all arithmetic is in exact integers
 *   f32     value holds the bits of a float; the function that sets least bounds the rounding (index/sketch.c)
 */
#ifndef ADJI_PREFILTER_SKETCH_H
#define ADJI_PREFILTER_SKETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "core/exact.h"

enum {
  ADJI_SKETCH_BLOCK = 16,   /* candidates per block */
  ADJI_TILE_MULTIPLE = 64,  /* tiles begin at multiples of this, and their memory ends at one */
  ADJI_QUERY_MULTIPLE = 32, /* query rows, least and base are readable up to a multiple of this */
  ADJI_SKETCH_PAD = 16      /* entries of keys that may be written past the last */
};

typedef union adji_value {
  int32_t code;
  float f32;
} adji_value;

/* ADJI_LEAST_NONE: a value of `least` that no candidate reaches. ADJI_LEAST_ALL: one that all reach, except those whose
 * `minus` is ADJI_ABSENT. */
enum { ADJI_LEAST_NONE = INT32_MAX, ADJI_LEAST_ALL = -(1 << 29), ADJI_ABSENT = -(1 << 30) };

typedef struct adji_prefilter_sketch_task {
  const char *queries;
  uint64_t query_stride; /* bytes */
  uint32_t query_count;
  uint32_t groups;         /* words of a sketch */
  const char *blocks;      /* blocks of the tile */
  const adji_value *minus; /* minus half the squared norm of each candidate of the tile */
  uint32_t first, count;   /* position of the tile's first candidate, and their number */
  const adji_value *least; /* per query */
  const adji_value *base;
  uint64_t *const *keys; /* per query; found[q] is the next free entry */
  uint32_t *found;
} adji_prefilter_sketch_task;

/* The same for the pairs of two sets of queries: each candidate of the tile is a query as well, and a product serves
 * both points of a pair. Halves of values are compared, so that norms may be odd: a pair passes if half its value is at
 * most the reach of either point. Codes only. least, keys and found of the tile are not used. */
typedef struct adji_sketch_pairs_task {
  adji_prefilter_sketch_task tile; /* at most 2^16 queries and candidates */
  const int32_t *half;        /* per query: half its base, rounded down; ADJI_HALF_NONE: none of its pairs passes */
  const int32_t *query_reach; /* per query, and per candidate; readable up to the same multiples as the tile */
  const int32_t *candidate_reach;
  uint64_t *pairs; /* out: value << 32 | query << 16 | candidate; room for all pairs and ADJI_SKETCH_PAD */
} adji_sketch_pairs_task;

/* Reaches are from ADJI_REACH_NONE to ADJI_REACH_ALL. Products are below 2^28, so ADJI_HALF_NONE minus a product is
 * beyond every reach. */
enum { ADJI_HALF_NONE = 1 << 30, ADJI_REACH_NONE = -(1 << 29), ADJI_REACH_ALL = 1 << 29 };

typedef struct adji_prefilter_sketch {
  const char *name;
  bool codes;
  void (*run)(const adji_prefilter_sketch_task *task);
  uint64_t (*run_pairs)(const adji_sketch_pairs_task *task); /* returns the number of pairs that pass; NULL: f32 */
} adji_prefilter_sketch;

/* The prefilter by name: "amx" and "vnni" use codes, "gemm" uses f32. NULL if this CPU or the given instruction set has
 * none. */
const adji_prefilter_sketch *adji_prefilter_sketch_for(const char *isa, const char *name);

/* Words of a sketch of dim coordinates, padded so that every kernel can take them. */
uint32_t adji_sketch_groups(bool codes, uint32_t dim);

#if defined(__x86_64__)
void adji_prefilter_sketch_avx512(const adji_prefilter_sketch_task *task);
void adji_prefilter_sketch_vnni(const adji_prefilter_sketch_task *task);
void adji_prefilter_sketch_amx(const adji_prefilter_sketch_task *task);
uint64_t adji_sketch_pairs_vnni(const adji_sketch_pairs_task *task);
uint64_t adji_sketch_pairs_amx(const adji_sketch_pairs_task *task);
bool adji_amx_usable(void); /* asks the system for permission to use the tiles */
#endif

#endif
