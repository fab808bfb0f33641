/* SPDX-License-Identifier: MIT
 *
 * Rows: from the neighbours of a query, as found by a worker, to the final row in the result.
 */
#ifndef ADJI_ROWS_H
#define ADJI_ROWS_H

#include "core/context.h"
#include "distance/kernels.h"
#include "distance/measure.h"

/* How the caller wants rows. */
typedef struct adji_row_style {
  adj_type type;
  const adji_measure *measure;
  adj_order order;
  bool distances; /* stored in the result                             */
  bool drop_self; /* the row's own id is not part of it               */
  bool one_way;   /* only ids above the row's own                     */
  bool in_order;  /* workers list neighbours in ascending order of id */
  const adji_kernels *kernels;
} adji_row_style;

/* Whether workers must list sums with the ids: to store distances, or to sort by them. */
static inline bool adji_row_needs_sums(const adji_row_style *style) {
  return style->distances || style->order == ADJ_ORDER_DISTANCE;
}

/* A mutual join, which is a kNN join of two sets by brute force on cores: products of two points serve both of them,
 * and the join also finds the neighbours of right points among the left ones. */
typedef struct adji_mutual {
  uint64_t first;       /* right points before this one take no part, on either side; a multiple of 64 */
  const double *limits; /* per right point: no pair with a larger sum belongs */
  uint32_t *ids;        /* k entries for each right point, as in a window */
  void *distances;      /* NULL when not wanted */
  uint64_t pairs;       /* out: neighbours in these rows */
  bool filled;          /* out: false: the join cannot be made in this way, and no row was filled, also no left one */
} adji_mutual;

/* A block of consecutive rows with room for their entries: a whole result, or a buffer for a part of it. In a range
 * join offsets says where each row begins. In a kNN join every row has k entries: neighbours, nearest first, then
 * padding. */
typedef struct adji_window {
  uint64_t first_row, end_row;
  const uint64_t *offsets; /* of all rows; the window's first entry is offsets[first_row]. NULL: kNN */
  uint32_t *ids;
  void *distances; /* NULL when not wanted */
  uint32_t k;      /* kNN */
  /* kNN through trees on cores: */
  const uint32_t *labels; /* they replace ids, and ascend as these do. NULL: ids */
  const uint32_t *wanted; /* row i of the window is that of left point wanted[i], ascending. NULL: of point i */
  void *lasts;            /* receives the sum of each row's last neighbour; infinity: the row has padding. NULL */
  adji_mutual *mutual;    /* kNN: a mutual join is asked for; the window has all rows. NULL */
} adji_window;

/* The place of a row's first entry in the window's arrays. */
static inline uint64_t adji_window_at(const adji_window *window, uint64_t row) {
  return window->offsets ? window->offsets[row] - window->offsets[window->first_row]
                         : (row - window->first_row) * window->k;
}

static inline bool adji_window_has(const adji_window *window, uint64_t row) {
  return row >= window->first_row && row < window->end_row;
}

/* Stores the last sum of a row, if these are wanted. */
static inline void adji_window_note_last(const adji_window *window, adj_type type, uint64_t row, double last) {
  if (!window->lasts) return;
  if (type == ADJ_F64)
    ((double *)window->lasts)[row - window->first_row] = last;
  else
    ((float *)window->lasts)[row - window->first_row] = (float)last;
}

/* Entries of a row of the window; 0 for others. */
static inline uint64_t adji_window_length(const adji_window *window, uint64_t row) {
  if (!adji_window_has(window, row)) return 0;
  return window->offsets ? window->offsets[row + 1] - window->offsets[row] : window->k;
}

/* Entries of all its rows. */
static inline uint64_t adji_window_entries(const adji_window *window) {
  return adji_window_at(window, window->end_row);
}

/* How many neighbours a row of k entries has: they come before padding. */
static inline uint32_t adji_padded_row_length(const uint32_t *ids, uint32_t k) {
  uint32_t low = 0, high = k;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (ids[middle] != ADJ_NO_ID)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* The buffers of one lane: neighbours of up to ADJI_LIST_MAX queries. */
typedef struct adji_row_room {
  adji_memory *memory;
  uint32_t *ids[ADJI_LIST_MAX];
  void *sums[ADJI_LIST_MAX];
  void *entries; /* for sorting ids and sums together */
  uint64_t capacity;
} adji_row_room;

/* Grows the buffers to rows of `capacity` entries. */
adj_status adji_row_room_reserve(adji_row_room *room, adji_memory *memory, const adji_row_style *style,
                                 uint64_t capacity);
void adji_row_room_clear(adji_row_room *room);

/* Drops the neighbours in a slot that the style excludes, and sorts the others. Returns the number of these. */
uint32_t adji_row_order(const adji_row_style *style, adji_row_room *room, uint32_t slot, uint32_t row, uint32_t count);

/* Whether rows have only ids, and no neighbour but the row's own id is excluded: one kernel then drops, sorts and
 * places them. */
static inline bool adji_row_is_plain(const adji_row_style *style) {
  return !adji_row_needs_sums(style) && !style->one_way;
}

/* Finishes such a row of `count` ids; `to` has room for those that remain. If the row's own id is to be dropped, it is
 * among the ids. Returns how many remain. May overwrite ids. */
uint32_t adji_row_place_plain(const adji_row_style *style, uint32_t *ids, uint32_t count, uint32_t row, uint32_t *to);

/* Copies a sorted row to the window. ADJ_E_INTERNAL if its length differs from the counted one. */
adj_status adji_row_place(const adji_row_style *style, const adji_row_room *room, uint32_t slot, uint32_t row,
                          uint32_t count, const adji_window *window);

/* kNN: copies a row of count <= k neighbours, ordered by (sum, id), into its place and pads it. */
void adji_row_place_padded(const adji_window *window, const adji_row_style *style, uint64_t row, const uint32_t *ids,
                           const void *sums, uint32_t count);

#endif
