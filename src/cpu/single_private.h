/* SPDX-License-Identifier: MIT
 *
 * Single evaluation: what single.c and single_rows.c share. single.c says what the steps are.
 */
#ifndef ADJI_SINGLE_PRIVATE_H
#define ADJI_SINGLE_PRIVATE_H

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
  _Alignas(64) struct adji_single *single; /* no two share a cache line */
  adji_walker walker;
  adji_row_room room;
  adji_single_chunk *chunks; /* the newest first */
} adji_single_lane;

struct adji_single {
  const adji_join *join;
  const adji_range_index *index;
  adji_row_style style; /* of the lists: nothing dropped, nothing ordered */
  bool mirror;          /* each pair belongs to two rows                  */
  bool sums;
  uint32_t sum_words; /* 32-bit words of a sum: 0, 1 or 2 */
  adji_single_lane *lanes;
  _Atomic uint32_t *degrees; /* of the rows: the caller's, or own_degrees  */
  _Atomic uint32_t *own_degrees;
  _Atomic uint64_t *places; /* per row: where its next entry goes         */
  uint64_t rows;
  const adji_pass *pass;
  adj_result *result;       /* NULL: only the degrees are wanted        */
  adji_parts parts;         /* what devices found                       */
  bool complete;            /* a device has made the whole result       */
  adji_single_chunk **todo; /* all chunks, for the parallel dealing */
  uint64_t todo_count, slices;
};

/* Whether each point is its own neighbour, which no list has. */
static inline bool adji_single_adds_selves(const adji_single *s) {
  return s->join->self_join && !s->join->style.drop_self && !s->join->style.one_way;
}

/* The row a pair is reported under, when it is reported once. */
static inline uint32_t adji_single_lower(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

/* ---- From lists, and what devices found, to rows: single_rows.c ------------------------------ */

/* Lists all chunks in single->todo. */
adj_status adji_single_gather_chunks(adji_single *single);
void adji_single_free_chunks(adji_single *single);

/* Adds what devices found to the degrees. */
adj_status adji_single_count_parts(adji_single *single);
/* Steps 2 to 4. */
adj_status adji_single_make_rows(adji_single *single, const adji_run *run);

#endif
