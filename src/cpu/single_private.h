/* SPDX-License-Identifier: MIT
 *
 * Single evaluation: declarations for single.c, single_devices.c and single_rows.c. See single.c for the steps.
 */
#ifndef ADJI_SINGLE_PRIVATE_H
#define ADJI_SINGLE_PRIVATE_H

#include "cpu/single.h"

/* A chunk of lists, one after the other. */
typedef struct adji_single_chunk {
  struct adji_single_chunk *next;
  uint64_t used, room; /* words */
  uint64_t pairs;      /* pairs in its lists */
  uint32_t words[];
} adji_single_chunk;

/* Parts of the result's rows that a device found. Memory: 8 bytes per row, and as much per entry as the result. */
typedef struct adji_part {
  uint64_t *offsets; /* one more than there are rows */
  uint32_t *ids;     /* NULL: the pairs were only counted */
  void *sums;        /* NULL: not wanted                   */
} adji_part;

static inline uint64_t adji_part_length(const adji_part *part, uint64_t row) {
  return part->offsets[row + 1] - part->offsets[row];
}

struct adji_single {
  const adji_join *join;
  adji_row_style style; /* style of the lists: nothing is dropped or sorted */
  bool mirror;          /* each pair belongs to two rows                  */
  bool sums;
  uint32_t sum_words;         /* 32-bit words of a sum: 0, 1 or 2          */
  adji_walker *walkers;       /* one per lane, while rows are made */
  adji_single_chunk **chunks; /* per lane, the newest first */
  _Atomic uint32_t *degrees;  /* degrees of the rows: the caller's, or own_degrees */
  _Atomic uint32_t *own_degrees;
  _Atomic uint64_t *places; /* per row: where its next entry goes         */
  uint64_t rows;
  const adji_pass *pass;
  adj_result *result; /* NULL: only the degrees are wanted        */
  adji_part parts[ADJI_MOST_DEVICES];
  uint32_t part_count;
  struct adji_single_bins *bins;  /* if not NULL, the join goes through bins */
  bool complete;                  /* a device has made the whole result       */
  adji_single_chunk **all_chunks; /* all chunks, to be dealt out in parallel */
  uint64_t all_chunk_count;
};

/* Whether each point is its own neighbour. No list has such pairs. */
static inline bool adji_single_adds_selves(const adji_single *s) {
  return s->join->self_join && !s->join->style.drop_self && !s->join->style.one_way;
}

/* The row of a pair that is reported once. */
static inline uint32_t adji_single_lower(uint32_t a, uint32_t b) {
  return a < b ? a : b;
}

/* Makes the pairs of devices parts, or the whole result. The queries of a device that failed are listed again. */
adj_status adji_single_fetch(adji_single *single, const adji_active *active, adji_run *run);
void adji_part_clear(adji_part *part, adji_memory *memory);

/* Lists all chunks in single->all_chunks. */
adj_status adji_single_gather_chunks(adji_single *single);
void adji_single_free_chunks(adji_single *single);

/* Adds the counts of devices to the degrees. */
adj_status adji_single_count_parts(adji_single *single);
/* Steps 2 to 4. */
adj_status adji_single_make_rows(adji_single *single, const adji_run *run);

#endif
