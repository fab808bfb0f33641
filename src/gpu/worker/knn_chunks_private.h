/* SPDX-License-Identifier: MIT
 *
 * What the parts of the worker for kNN joins in chunks share. knn_chunks_pieces.c handles the points by region, as
 * listed by the host, and knn_chunks_device.c those picked by the device. knn_chunks.c searches regions, and
 * knn_chunks_rows.c puts rows into the window. knn_chunks_pool.c handles rows that are not complete; knn_chunks_rest.c
 * searches for all of them at once, if the points around them fit the device. knn_chunks_shared.c lets several devices
 * share the regions.
 */
#ifndef ADJI_GPU_WORKER_KNN_CHUNKS_PRIVATE_H
#define ADJI_GPU_WORKER_KNN_CHUNKS_PRIVATE_H

#include <stdatomic.h>

#include "distance/stream_row.h"
#include "gpu/worker/knn_chunks.h"
#include "index/regions.h"

/* Members first .. end - 1 of a region. Most regions are one piece. A region with more points than fit, where many
 * points coincide, has several pieces, and no points around it. */
typedef struct adji_knn_piece {
  uint32_t region;
  uint64_t first, end;
} adji_knn_piece;

/* The pieces of a set. */
typedef struct adji_knn_pieces {
  adji_regions regions;
  adji_gather gather; /* points of several regions */
  adji_knn_piece *each;
  uint64_t count, largest;
  uint64_t *of_region; /* the first piece of each region, count + 1 entries */
} adji_knn_pieces;

/* A piece as it is sent to the device. */
typedef struct adji_knn_part {
  adji_pick pick;
  const char *points; /* gathered, or in `kept` once they are on the device; NULL: they are picked on the device */
  char *kept;         /* NULL: points are gathered instead */
  adji_gpu_pick picked;
  uint64_t rows;               /* all points, or the picked points that are the region's own */
  uint32_t *ids;               /* of rows */
  bool has_ids;                /* the host has the ids: see adji_knn_part_ids */
  uint8_t *own;                /* whether each point is the region's own; NULL: all are */
  const adji_knn_pieces *from; /* the set whose piece this is; NULL: no piece is loaded */
  uint64_t piece;
  double *box; /* low and high of the points */
  adj_dataset set;
} adji_knn_part;

/* Rows of a piece that the device has found. */
typedef struct adji_knn_found {
  adji_gpu_knn *knn; /* of which only the table remains; NULL: no rows wait */
  adji_gpu_table table;
  uint64_t first, end;       /* rows of the piece */
  const adji_knn_part *part; /* the piece; NULL: the rows are of no piece */
  const uint32_t *numbers;   /* on the device: the numbers of the part's rows; NULL: the part has them */
  uint32_t home;             /* the piece of the right set that these rows have searched */
} adji_knn_found;

/* Rows that are not complete. */
typedef struct adji_knn_pool {
  uint64_t room;
  uint32_t *rows, *lengths; /* lengths: of their lists so far */
  uint32_t *homes;          /* the piece of the right set that each has searched */
  char *points;
  uint32_t *ids;                              /* k per row */
  char *sums;                                 /* or distances, before rows visit: see adji_knn_chunks.rooted */
  uint32_t *selected;                         /* rows that visit a piece */
  _Alignas(ADJI_LINE) _Atomic uint64_t count; /* written by all lanes */
} adji_knn_pool;

typedef struct adji_knn_chunks {
  adji_join join;
  adji_measure measure, sums; /* sums: the measure, but it reports sums */
  /* Rows of a search at home have distances instead of sums, since the device takes roots faster than the cores. near:
   * for each region, the k-th distance or sum up to which a row is complete. */
  bool rooted;
  double *near;
  adji_gpu_knn_options options;
  adji_gpu *gpu;
  uint32_t devices; /* devices that share the regions */
  /* Both sets are on the device while a window is filled, and regions are picked there. left_set: in a join of two
   * sets. */
  bool on_device;
  adji_gpu_right *right_set, *left_set;
  uint64_t size;        /* most points of a region; halved when the device has no room */
  uint64_t point, type; /* bytes of a point and of a coordinate */
  adji_cuts cuts;
  /* margins: for each region, how far around it right points are included when its rows are searched at home. inner:
   * the same pieces without these points, for visits; made when there are any. */
  double *margins, *cells;
  adji_knn_pieces right, left_pieces, inner_pieces;
  adji_knn_pieces *left, *inner;
  /* Two of each, used in turn, since rows of a piece are fetched while the device searches the next one. left_part: in
   * a join of two sets. */
  adji_knn_part parts[2], left_parts[2], *part, *left_part;
  adji_knn_found waiting; /* rows that are still on the device */
  bool prefaulted;
  bool last;        /* there are no more regions: only rows of the pool are missing */
  const void *rest; /* the state of knn_chunks_rest.c while it works */
  adji_knn_pool pool;
  uint64_t batch; /* how many rows of the pool visit at a time */
  char *query_points, *query_bounds;
  char *scratch;   /* a list for each half of a buffer */
  uint64_t paired; /* rows of the window, from its first one on, that are kept in pairs: see knn_chunks_rows.c */
  adji_run *run;   /* the current run */
  const adji_pass *pass;
  uint64_t candidates;
  _Alignas(ADJI_LINE) _Atomic uint64_t pairs; /* written by all lanes */
} adji_knn_chunks;

/* Some rows of a table, in host memory: k ids and k sums each, padded, which may be overwritten. scratch: the number of
 * a list in c->scratch. */
typedef struct adji_knn_rows {
  const adji_knn_found *of;
  uint64_t first, count;
  const uint32_t *numbers; /* of the rows; NULL: the rows are of no piece */
  const uint32_t *ids;
  char *sums; /* or distances, before rows visit: see adji_knn_chunks.rooted */
  uint32_t scratch;
} adji_knn_rows;
/* Fetches rows from the device, and passes some at a time to `handle`, which any lane may run. */
typedef void (*adji_knn_rows_fn)(adji_knn_chunks *c, const adji_knn_rows *rows);
adj_status adji_knn_rows_fetch(adji_knn_chunks *c, const adji_knn_found *found, adji_knn_rows_fn handle);
/* Fetches the waiting rows, if there are any, and closes their join. */
adj_status adji_knn_fetch_waiting(adji_knn_chunks *c);

/* Handles rows that have searched at home: into the window, or to the pool. */
void adji_knn_rows_take(adji_knn_chunks *c, const adji_knn_rows *rows);
/* Puts a row into the window. values: sums or distances, according to the measure. */
void adji_knn_row_place(adji_knn_chunks *c, uint32_t row, const uint32_t *ids, const void *sums, uint32_t length);
void adji_knn_row_place_as(adji_knn_chunks *c, const adji_measure *measure, uint32_t row, const uint32_t *ids,
                           const void *values, uint32_t length);

/* Called before the first row of a window, and after the last one: rows in pairs (knn_chunks_rows.c). */
void adji_knn_pairs_open(adji_knn_chunks *c);
adj_status adji_knn_pairs_close(adji_knn_chunks *c);
enum { ADJI_MOST_PAIRED = 56 }; /* the largest k of rows in pairs */
static inline bool adji_knn_is_paired(const adji_knn_chunks *c, uint64_t row) {
  return row - c->pass->window->first_row < c->paired;
}
static inline char *adji_knn_paired_at(const adji_knn_chunks *c, uint64_t row) {
  uint64_t number = row - c->pass->window->first_row;
  char *base = number % 2 ? c->pass->window->distances : (char *)c->pass->window->ids;
  return base + number / 2 * 2 * c->join.k * sizeof(uint32_t);
}

/* make: cuts and margins, and also the lists, unless the device picks regions. list: the host lists the points by
 * region. */
adj_status adji_knn_regions_make(adji_knn_chunks *c);
adj_status adji_knn_regions_list(adji_knn_chunks *c);
void adji_knn_regions_clear(adji_knn_chunks *c);
/* Used where regions are listed or counted. pieces_list: makes the pieces from the sizes of regions. choose_near: sets
 * c->near from the margins. */
adj_status adji_knn_pieces_list(adji_knn_chunks *c, adji_knn_pieces *out);
void adji_knn_choose_near(adji_knn_chunks *c);

/* Puts both sets on the device, and counts the points of regions unless they are known. If there is no room, or a
 * region is too large, c->on_device becomes false. */
adj_status adji_knn_hold(adji_knn_chunks *c);
void adji_knn_release(adji_knn_chunks *c);
/* Only puts both sets on the device. Fails with ADJ_E_DEVICE_MEMORY if there is no room. */
adj_status adji_knn_hold_sets(adji_knn_chunks *c);
/* pick: picks a piece on the device. ids: makes sure that the host has the ids of its rows. */
adj_status adji_knn_part_pick(adji_knn_chunks *c, adji_knn_pieces *from, uint64_t number, adji_knn_part *part);
adj_status adji_knn_part_ids(adji_knn_chunks *c, adji_knn_part *part);
/* Frees what a part has on the device, except the ids of its rows. */
void adji_knn_part_drop(adji_knn_part *part);
/* Makes a join use picked points. */
void adji_knn_use_pick(const adji_gpu_pick *pick, adji_gpu_knn_options *options);
adj_status adji_knn_part_open(adji_knn_chunks *c, adji_knn_pieces *of, adji_knn_part *part);
void adji_knn_part_free(adji_knn_chunks *c, adji_knn_part *part);
/* Loads a piece into a part, unless it is there. Waiting rows are fetched before the points of their piece are
 * freed. */
adj_status adji_knn_part_fill(adji_knn_chunks *c, adji_knn_pieces *from, uint64_t number, adji_knn_part *part);
/* Sets the box of a piece: that of its region, with the margin. */
void adji_knn_part_set_box(const adji_knn_chunks *c, adji_knn_part *part, uint32_t region);
/* Makes c->inner, unless it exists. */
adj_status adji_knn_inner_make(adji_knn_chunks *c);
void adji_knn_inner_clear(adji_knn_chunks *c);
/* Closes a join on the device, and adds what it did to the statistics. Takes NULL. */
void adji_knn_chunks_close(adji_knn_chunks *c, adji_gpu_knn *knn);

/* The limit of a row's search: the k-th sum of its list, or the join's limit if the list is shorter. */
static inline double adji_knn_bound(const adji_knn_chunks *c, const void *sums, uint32_t length) {
  if (length < c->join.k) return c->join.limit;
  return c->join.left->type == ADJ_F64 ? ((const double *)sums)[length - 1] : (double)((const float *)sums)[length - 1];
}

/* The same, or a little more if the list has distances, which are roots rounded to the type. */
static inline double adji_knn_bound_above(const adji_knn_chunks *c, const void *values, uint32_t length) {
  double bound = adji_knn_bound(c, values, length), eps = c->type == 8 ? 0x1p-52 : 0x1p-23;
  if (!c->rooted || length < c->join.k) return bound;
  bound *= 1 + 8 * eps;
  return bound * bound * (1 + 8 * eps);
}

adj_status adji_knn_pool_open(adji_knn_chunks *c, uint64_t rows);
void adji_knn_pool_close(adji_knn_chunks *c);
/* reserve: takes places for `rows` rows, for which there must be room. put: stores a row in one of them; the point is
 * read from the left set. Both may be called by any lane. */
static inline uint64_t adji_knn_pool_reserve(adji_knn_chunks *c, uint64_t rows) {
  return atomic_fetch_add_explicit(&c->pool.count, rows, memory_order_relaxed);
}
void adji_knn_pool_put(adji_knn_chunks *c, uint64_t at, uint32_t row, uint32_t home, const uint32_t *ids,
                       const void *sums, uint32_t length);
/* If the right points around the rows of the pool fit the device, searches for these rows and puts them into the
 * window. *done: it did. */
adj_status adji_knn_rest_search(adji_knn_chunks *c, bool *done);
/* Completes the rows of the pool, puts them into the window and empties the pool. */
adj_status adji_knn_pool_flush(adji_knn_chunks *c);

/* Finds the rows of left pieces first .. end - 1, and puts all of them into the window. Frees the sets on the
 * device. */
adj_status adji_knn_pieces_search(adji_knn_chunks *c, uint64_t first, uint64_t end);
/* Does all pieces with all devices. */
adj_status adji_knn_share(adji_knn_chunks *c);

#endif
