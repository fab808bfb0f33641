/* SPDX-License-Identifier: MIT
 *
 * The candidates of a group of queries, copied in the order of their ids. What is then listed for each query is already
 * in order: one sort for all queries of a cell instead of one per row.
 */
#ifndef ADJI_ORDERED_H
#define ADJI_ORDERED_H

#include "cpu/walk.h"

/* The buffers of one lane. */
typedef struct adji_ordered {
  adji_memory *memory;
  uint64_t *keys, *spare; /* id << 32 | position */
  uint32_t *ids;
  void *coords;
  adji_view view; /* the candidates in order */
  adji_range all;
} adji_ordered;

/* Whether it pays for this group: enough queries to share the sort, and few enough candidates. */
bool adji_ordered_pays(const adji_join *join, const adji_group *group);

/* Replaces the candidates of the group by a copy in order. Allocates on the first call. */
adj_status adji_ordered_copy(adji_ordered *ordered, const adji_join *join, const adji_group *group, adji_group *copy);
void adji_ordered_clear(adji_ordered *ordered);

#endif
