/* SPDX-License-Identifier: MIT
 *
 * Single evaluation: the rows that devices found, which become parts of the rows of the result.
 */
#ifndef ADJI_SINGLE_PARTS_H
#define ADJI_SINGLE_PARTS_H

#include "queue/engine.h"

typedef struct adji_part {
  uint64_t *offsets; /* of all rows, and one more          */
  uint32_t *ids;     /* NULL: they were counted only       */
  void *sums;        /* NULL: not wanted                   */
} adji_part;

typedef struct adji_parts {
  adji_part each[ADJI_MOST_DEVICES];
  uint32_t count;
} adji_parts;

/* Fetches what a device has found after its pass; keep: with the rows. Memory: 8 bytes a row, and as the result for
 * each entry. */
adj_status adji_parts_add(adji_parts *parts, const adji_join *join, adji_run *run, const adji_worker *from, bool keep);
/* The same of a device that has all pairs: the result. */
adj_status adji_parts_whole(const adji_join *join, adji_run *run, const adji_worker *from, adj_result *result);
void adji_parts_clear(adji_parts *parts, adji_memory *memory);

static inline uint64_t adji_part_length(const adji_part *part, uint64_t row) {
  return part->offsets[row + 1] - part->offsets[row];
}

#endif
