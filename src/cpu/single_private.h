/* SPDX-License-Identifier: MIT
 *
 * Evaluating each candidate once: what single.c and single_rows.c share. single.c says what the steps are.
 */
#ifndef ADJI_ONCE_PRIVATE_H
#define ADJI_ONCE_PRIVATE_H

#include "cpu/single.h"
#include "cpu/single_parts.h"
#include "cpu/walk.h"

/* Lists, one behind the other. */
typedef struct adji_single_chunk {
  struct adji_single_chunk *next;
  uint64_t used, room; /* words */
  uint64_t pairs;      /* in its lists */
  uint32_t words[];
} adji_single_chunk;

typedef struct adji_single_lane {
  _Alignas(64) struct adji_single *once; /* no two share a cache line */
  adji_walker walker;
  adji_row_room room;
  adji_single_chunk *chunks; /* the newest first */
} adji_single_lane;

typedef struct adji_single {
  const adji_join *join;
  const adji_range_options *options;
  adji_row_style style; /* of the lists: nothing dropped, nothing ordered */
  bool mirror;          /* each pair belongs to two rows                  */
  bool sums;
  uint32_t sum_words; /* 32-bit words of a sum: 0, 1 or 2 */
  adji_single_lane *lanes;
  _Atomic uint32_t *degrees; /* of the rows                                */
  _Atomic uint64_t *places;  /* per row: where its next entry goes         */
  uint64_t rows;
  adj_result *result;       /* NULL: the counts are all that is wanted */
  adji_parts parts;         /* what devices found                     */
  bool hands_over;          /* a device gets what lanes find         */
  bool complete;            /* the result, by that device             */
  adji_single_chunk **todo; /* all chunks, for the parallel dealing */
  uint64_t todo_count, slices;
} adji_single;

/* Whether each point is a neighbour of its own, which no list has. */
static inline bool adji_single_adds_selves(const adji_single *o) {
  return o->join->self_join && !o->join->style.drop_self && !o->join->style.one_way;
}

/* The row a pair is reported under, when it is reported once. */
static inline uint32_t adji_single_lower(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

/* All chunks to once->todo. */
adj_status adji_single_gather(adji_single *once);
void adji_single_free_chunks(adji_single *once);

/* Adds what devices found to the degrees. */
adj_status adji_single_count_parts(adji_single *once);
/* Steps 2 to 4. */
adj_status adji_single_make_rows(adji_single *once, uint64_t max_pairs);

#endif
