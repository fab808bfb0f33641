/* SPDX-License-Identifier: MIT
 *
 * kNN joins on a device, through trees or by brute force: what the engine (knn_engine.c), which is host code, asks
 * of it.
 */
#ifndef ADJI_GPU_KNN_KNN_H
#define ADJI_GPU_KNN_KNN_H

#include "gpu/brute/brute.h"
#include "gpu/device/points.h"
#include "gpu/device/result.h"
#include "gpu/index/list_order.h"
#include "gpu/papers/knn_grid.h"
#include "queue/join.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct adji_gpu_knn adji_gpu_knn;

/* Whether trees have a kernel for it. Brute force has one for everything. */
bool adji_gpu_knn_can(const adji_join *join, const adji_measure *measure);

typedef struct adji_gpu_knn_options {
  const adji_join *join; /* copied */
  const adji_measure *measure;
  /* Points that are on the device already; the sets of the join then have bounds and no points. NULL: they are copied
   * there. */
  const adji_gpu_rows *left_rows, *right_rows;
  uint64_t rows_at_once; /* of the result, at most, that are on the device; 0: as many as there is memory for */
  uint32_t budget;       /* leaves that a warp may search for 32 queries; 0: the default                      */
  bool alone, together;  /* a warp for every query, or for 32; neither: by their number                       */
  bool cut;              /* trees in the order of cuts within runs of the curve (tree_cut.cu)                 */
  uint32_t blocks;       /* of threads that search at a time; 0: as many as there is room for                 */
  const adji_brute_choice *brute; /* by brute force, and how; NULL: through trees                              */
  adji_knn_grid_options grid;     /* searches the cells of a grid before trees                                 */
} adji_gpu_knn_options;

/* Copies the points to the device and builds trees there. */
adj_status adji_gpu_knn_open(adji_gpu *gpu, const adji_gpu_knn_options *options, adji_gpu_knn **out);
void adji_gpu_knn_close(adji_gpu_knn *nearest);

/* Points of the right set that are on the device at a time, where brute force takes it in pieces; 0: all of them. */
uint64_t adji_gpu_knn_chunk(const adji_gpu_knn *nearest);

/* Rows of the result in device memory: ids, k a row, and distances. Row `row` is among them; the others are those
 * around it, as many as there is memory for. They stay until others are asked for. begin returns before they are
 * found, and end waits for that. */
typedef struct adji_gpu_table {
  uint64_t first_row, end_row;
  const uint32_t *ids;
  const void *distances;
} adji_gpu_table;
adj_status adji_gpu_knn_begin(adji_gpu_knn *nearest, uint64_t row, adji_gpu_table *out);
adj_status adji_gpu_knn_end(adji_gpu_knn *nearest);

/* The table, which has all rows, changes hands: ids and distances are blocks of so many bytes. */
adj_status adji_gpu_knn_take(adji_gpu_knn *nearest, adji_gpu_csr *out);

/* Queries by lists, through trees, for a device that has some of the queries of a host only. The host has an order of
 * its own: rows[i] is the row of its i-th query. NULL: the device's order. */
adj_status adji_gpu_knn_follow(adji_gpu_knn *nearest, const uint32_t *rows);

/* Makes ADJI_LISTS slots for up to *queries queries each, or for as many as there is memory for; they are for the rows
 * of first_row .. end_row - 1. */
adj_status adji_gpu_knn_begin_lists(adji_gpu_knn *nearest, uint64_t first_row, uint64_t end_row, uint64_t *queries);
void adji_gpu_knn_end_lists(adji_gpu_knn *nearest);
/* Begins to fill a slot with the rows of the queries [begin, end) of each range, as many as were asked for and have
 * such rows: *rows, one after the other in that order. Ranges are copied through a pinned buffer
 * (gpu/device/staging.h). */
adj_status adji_gpu_knn_list(adji_gpu_knn *nearest, const adji_batch *ranges, uint64_t count, uint32_t slot,
                             uint32_t buffer, uint64_t *rows);
/* Waits for a list. *candidates: that were compared since lists were begun, up to this one. */
adj_status adji_gpu_knn_listed(adji_gpu_knn *nearest, uint32_t slot, uint64_t *candidates);
/* Queries of a list that is there which the grid has no rows of: their places in the host's order. Room for all of the
 * list. */
adj_status adji_gpu_knn_missed(adji_gpu_knn *nearest, uint32_t slot, uint32_t *to, uint64_t *count);
/* Begins to copy the numbers of the first .. first + rows - 1-th row of a slot to a pinned buffer, behind them their
 * ids, and distances where they are wanted: see adji_list_piece. */
adj_status adji_gpu_knn_fetch(adji_gpu_knn *nearest, uint32_t slot, uint64_t first, uint64_t rows, bool distances,
                              uint32_t buffer);
/* Where a piece of a list has its parts: bytes from the beginning of the buffer. */
typedef struct adji_list_piece {
  uint64_t ids, distances, bytes;
} adji_list_piece;
static inline adji_list_piece adji_list_piece_of(uint64_t rows, uint32_t k, uint64_t distance_bytes) {
  adji_list_piece piece;
  piece.ids = (rows * 4 + 7) / 8 * 8;
  piece.distances = piece.ids + (rows * k * 4 + 7) / 8 * 8;
  piece.bytes = piece.distances + rows * k * distance_bytes;
  return piece;
}

/* What the device did for this join until now: kernels, and the copies of the points. */
adji_device_stats adji_gpu_knn_work(adji_gpu_knn *nearest);

/* Of all rows so far: candidates that were compared, and queries that were left to a warp each, or in brute force to
 * another way. */
typedef struct adji_gpu_knn_effort {
  uint64_t candidates, hard;
} adji_gpu_knn_effort;
adji_gpu_knn_effort adji_gpu_knn_effort_of(const adji_gpu_knn *nearest);

#ifdef __cplusplus
}
#endif
#endif
