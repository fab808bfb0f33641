/* SPDX-License-Identifier: MIT
 *
 * What the parts of the worker for kNN joins in chunks share. knn_chunks_pieces.c has the points by region, listed by
 * the host, knn_chunks_device.c those picked by the device; knn_chunks.c searches regions, knn_chunks_rows.c puts rows
 * into the window, knn_chunks_pool.c has those that are not complete, knn_chunks_rest.c searches for them at once if
 * the points around them fit the device, knn_chunks_shared.c has several devices share the regions.
 */
#ifndef ADJI_GPU_WORKER_KNN_CHUNKS_PRIVATE_H
#define ADJI_GPU_WORKER_KNN_CHUNKS_PRIVATE_H

#include <stdatomic.h>

#include "distance/stream_row.h"
#include "gpu/worker/knn_chunks.h"
#include "index/regions.h"

/* Members first .. end - 1 of a region. Most regions are one piece; those with more points than fit, where many points
 * coincide, are several, and have no points around them. */
typedef struct adji_knn_piece {
  uint32_t region;
  uint64_t first, end;
} adji_knn_piece;

/* The pieces of a set. */
typedef struct adji_knn_pieces {
  adji_regions regions;
  adji_gather gather; /* of several regions */
  adji_knn_piece *each;
  uint64_t count, largest;
  uint64_t *of_region; /* the first piece of each region, count + 1 entries */
} adji_knn_pieces;

/* A piece on its way to the device. */
typedef struct adji_knn_part {
  adji_pick pick;
  const char *points; /* gathered, or in `kept` once they are on the device; NULL: picked on the device */
  char *kept;         /* NULL: they are gathered */
  adji_gpu_pick picked;
  uint64_t rows;               /* all points, or those picked that are the region's own */
  uint32_t *ids;               /* of rows */
  bool has_ids;                /* the host has them: see adji_knn_part_ids */
  uint8_t *own;                /* whether they are the region's own; NULL: all are */
  const adji_knn_pieces *from; /* that it is a piece of; NULL: of none */
  uint64_t piece;
  double *box; /* low and high of the points */
  adj_dataset set;
} adji_knn_part;

/* Rows that the device has found, of a piece. */
typedef struct adji_knn_found {
  adji_gpu_knn *knn; /* that has only the table any more; NULL: no rows wait */
  adji_gpu_table table;
  uint64_t first, end;       /* rows of the piece */
  const adji_knn_part *part; /* the piece; NULL: it is none */
  const uint32_t *numbers;   /* on the device: those of the part's rows; NULL: the part has them */
  uint32_t home;             /* the piece of the right set that they have searched */
} adji_knn_found;

/* Rows that are not complete. */
typedef struct adji_knn_pool {
  uint64_t room;
  uint32_t *rows, *lengths; /* of their lists so far */
  uint32_t *homes;          /* the piece of the right set that each has searched */
  char *points;
  uint32_t *ids;                              /* k of each */
  char *sums;                                 /* or distances, before they visit: see adji_knn_chunks.rooted */
  uint32_t *selected;                         /* for a visit */
  _Alignas(ADJI_LINE) _Atomic uint64_t count; /* written by all lanes */
} adji_knn_pool;

typedef struct adji_knn_chunks {
  adji_join join;
  adji_measure measure, sums; /* sums: reported as they are */
  /* Rows of a search at home have distances, which the device makes faster than cores; otherwise sums. near: of each
   * region, the k-th distance or sum up to which a row is complete. */
  bool rooted;
  double *near;
  adji_gpu_knn_options options;
  adji_gpu *gpu;
  uint32_t devices; /* that share the regions */
  /* Both sets are on the device while a window is filled, and regions are picked there. left_set: of two sets. */
  bool on_device;
  adji_gpu_right *right_set, *left_set;
  uint64_t size;        /* points of a region, at most: halved when the device has no room */
  uint64_t point, type; /* bytes of a point and of a coordinate */
  adji_cuts cuts;
  /* margins: of each region, within which the right points around it are there when its rows are searched at home.
   * inner: the same pieces without these points, for visits; made when there are any. */
  double *margins, *cells;
  adji_knn_pieces right, left_pieces, inner_pieces;
  adji_knn_pieces *left, *inner;
  /* Two of each, used in turn: rows of a piece are fetched while the device searches the next one. left_part: of two
   * sets. */
  adji_knn_part parts[2], left_parts[2], *part, *left_part;
  adji_knn_found waiting; /* rows that are still on the device */
  bool prefaulted;
  bool last;        /* no more regions: only rows of the pool are missing */
  const void *rest; /* of knn_chunks_rest.c, at work */
  adji_knn_pool pool;
  uint64_t batch; /* rows of the pool that visit at a time */
  char *query_points, *query_bounds;
  char *scratch;   /* a list for each half of a buffer */
  uint64_t paired; /* rows of the window that are kept in pairs, from its first one on; see knn_chunks_rows.c */
  adji_run *run;   /* at work */
  const adji_pass *pass;
  uint64_t candidates;
  _Alignas(ADJI_LINE) _Atomic uint64_t pairs; /* written by all lanes */
} adji_knn_chunks;

/* Some rows of a table, in host memory: k ids and sums each, padded, which may be overwritten. scratch: the number of a
 * list of c->scratch. */
typedef struct adji_knn_rows {
  const adji_knn_found *of;
  uint64_t first, count;
  const uint32_t *numbers; /* of the rows; NULL: they are of no piece */
  const uint32_t *ids;
  char *sums; /* or distances, before they visit: see adji_knn_chunks.rooted */
  uint32_t scratch;
} adji_knn_rows;
/* Fetches rows from the device, and hands out some at a time. Any lane handles them. */
typedef void (*adji_knn_rows_fn)(adji_knn_chunks *c, const adji_knn_rows *rows);
adj_status adji_knn_rows_fetch(adji_knn_chunks *c, const adji_knn_found *found, adji_knn_rows_fn handle);
/* Fetches the rows that are waiting, and closes their join. */
adj_status adji_knn_settle(adji_knn_chunks *c);

/* What to do with rows that have searched at home. */
void adji_knn_rows_take(adji_knn_chunks *c, const adji_knn_rows *rows);
/* A row into the window, from its sums, or from its distances. */
void adji_knn_row_place(adji_knn_chunks *c, uint32_t row, const uint32_t *ids, const void *sums, uint32_t length);
void adji_knn_row_place_as(adji_knn_chunks *c, const adji_measure *measure, uint32_t row, const uint32_t *ids,
                           const void *values, uint32_t length);

/* Before the first row of a window, and after the last. */
void adji_knn_pairs_open(adji_knn_chunks *c);
adj_status adji_knn_pairs_close(adji_knn_chunks *c);
enum { ADJI_MOST_PAIRED = 56 }; /* k */
static inline bool adji_knn_is_paired(const adji_knn_chunks *c, uint64_t row) {
  return row - c->pass->window->first_row < c->paired;
}
static inline char *adji_knn_paired_at(const adji_knn_chunks *c, uint64_t row) {
  uint64_t number = row - c->pass->window->first_row;
  char *base = number % 2 ? c->pass->window->distances : (char *)c->pass->window->ids;
  return base + number / 2 * 2 * c->join.k * sizeof(uint32_t);
}

/* make: cuts and margins, and the lists too unless the device picks regions. list: the host lists the points by region.
 */
adj_status adji_knn_regions_make(adji_knn_chunks *c);
adj_status adji_knn_regions_list(adji_knn_chunks *c);
void adji_knn_regions_clear(adji_knn_chunks *c);
/* For those who list them. pieces_list: from the sizes of regions. choose_near: from the margins. */
adj_status adji_knn_pieces_list(adji_knn_chunks *c, adji_knn_pieces *out);
void adji_knn_choose_near(adji_knn_chunks *c);

/* Puts both sets on the device, and counts the points of regions unless they are known. Where there is no room, or a
 * region is too large, c->on_device becomes false. */
adj_status adji_knn_hold(adji_knn_chunks *c);
void adji_knn_release(adji_knn_chunks *c);
/* The first of these alone: ADJ_E_DEVICE_MEMORY if there is no room. */
adj_status adji_knn_hold_sets(adji_knn_chunks *c);
/* Picks a piece on the device; and makes sure that the host has the ids of its rows. */
adj_status adji_knn_part_pick(adji_knn_chunks *c, adji_knn_pieces *from, uint64_t number, adji_knn_part *part);
adj_status adji_knn_part_ids(adji_knn_chunks *c, adji_knn_part *part);
/* Frees what a part has on the device, except the ids of its rows. */
void adji_knn_part_drop(adji_knn_part *part);
/* What a join takes from picked points. */
void adji_knn_use_pick(const adji_gpu_pick *pick, adji_gpu_knn_options *options);
adj_status adji_knn_part_open(adji_knn_chunks *c, adji_knn_pieces *of, adji_knn_part *part);
void adji_knn_part_free(adji_knn_chunks *c, adji_knn_part *part);
/* Picks a piece, unless it is the part. Rows that wait are settled before the points of their piece go. */
adj_status adji_knn_part_fill(adji_knn_chunks *c, adji_knn_pieces *from, uint64_t number, adji_knn_part *part);
/* The box of a piece: that of its region, and the margin. */
void adji_knn_part_set_box(const adji_knn_chunks *c, adji_knn_part *part, uint32_t region);
/* Makes c->inner, unless it is there. */
adj_status adji_knn_inner_make(adji_knn_chunks *c);
void adji_knn_inner_clear(adji_knn_chunks *c);
/* Closes a join on the device, and adds what it did to the statistics. Takes NULL. */
void adji_knn_chunks_close(adji_knn_chunks *c, adji_gpu_knn *knn);

/* The limit of a row's search: the k-th sum of its list, or the join's limit. */
static inline double adji_knn_bound(const adji_knn_chunks *c, const void *sums, uint32_t length) {
  if (length < c->join.k) return c->join.limit;
  return c->join.left->type == ADJ_F64 ? ((const double *)sums)[length - 1] : (double)((const float *)sums)[length - 1];
}

/* The same, or a little more, if the list has distances: these are roots, rounded to the type. */
static inline double adji_knn_bound_above(const adji_knn_chunks *c, const void *values, uint32_t length) {
  double bound = adji_knn_bound(c, values, length), eps = c->type == 8 ? 0x1p-52 : 0x1p-23;
  if (!c->rooted || length < c->join.k) return bound;
  bound *= 1 + 8 * eps;
  return bound * bound * (1 + 8 * eps);
}

adj_status adji_knn_pool_open(adji_knn_chunks *c, uint64_t rows);
void adji_knn_pool_close(adji_knn_chunks *c);
/* Places for so many rows, for which there must be room; and a row into one of them: the point is read where it is. Any
 * lane. */
static inline uint64_t adji_knn_pool_reserve(adji_knn_chunks *c, uint64_t rows) {
  return atomic_fetch_add_explicit(&c->pool.count, rows, memory_order_relaxed);
}
void adji_knn_pool_put(adji_knn_chunks *c, uint64_t at, uint32_t row, uint32_t home, const uint32_t *ids,
                       const void *sums, uint32_t length);
/* Searches for the rows of the pool, and puts them into the window, if the right points around them fit the device.
 * *done: they do. */
adj_status adji_knn_rest_search(adji_knn_chunks *c, bool *done);
/* Completes the rows of the pool, puts them into the window and empties the pool. */
adj_status adji_knn_pool_flush(adji_knn_chunks *c);

/* The rows of left pieces first .. end - 1 into the window, all of them complete. Releases what is held on the device.
 */
adj_status adji_knn_pieces_search(adji_knn_chunks *c, uint64_t first, uint64_t end);
/* All pieces, by all devices. */
adj_status adji_knn_share(adji_knn_chunks *c);

#endif
