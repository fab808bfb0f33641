/* SPDX-License-Identifier: MIT
 *
 * kNN joins on a device, through trees or by brute force: the interface for host code (gpu/worker/knn.c).
 */
#ifndef ADJI_GPU_KNN_KNN_H
#define ADJI_GPU_KNN_KNN_H

#include "gpu/brute/brute.h"
#include "gpu/device/device.h"
#include "gpu/index/index.h"
#include "gpu/index/pick.h"
#include "gpu/index/right.h"
#include "gpu/papers/knn_grid.h"
#include "queue/join.h"
#include "queue/queue.h"
#include "queue/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct adji_gpu_knn adji_gpu_knn;

/* Whether there is a kernel that searches trees for this join. Brute force has one for every join. */
enum { ADJI_MOST_TREE_DIM = 6 };
static inline bool adji_gpu_has_tree(const adji_measure *measure, uint32_t dim) {
  bool known = measure->step == ADJI_STEP_L2 || measure->step == ADJI_STEP_L1 || measure->step == ADJI_STEP_LINF;
  return known && dim <= ADJI_MOST_TREE_DIM;
}
static inline bool adji_gpu_knn_can(const adji_join *join, const adji_measure *measure) {
  return adji_gpu_has_tree(measure, join->left->dim);
}

/* Whether 32 queries per warp are worth it: fewer than FEW queries cannot keep the device busy, and if there are more
 * than 16 right points for each query, the queries of a warp are too far apart. Dense queries are not packed in their
 * own order. */
enum { ADJI_KNN_FEW = 30000, ADJI_KNN_POINTS_A_QUERY = 16 };
static inline bool adji_gpu_knn_is_dense(uint64_t queries, uint64_t points) {
  return queries >= ADJI_KNN_FEW && queries >= points / ADJI_KNN_POINTS_A_QUERY;
}

typedef struct adji_gpu_knn_options {
  const adji_join *join; /* copied */
  const adji_measure *measure;
  /* Points that are already on the device; the sets of the join then have bounds but no points. NULL: copied to the
   * device. */
  const adji_gpu_rows *left_rows, *right_rows;
  adji_gpu_right *right;         /* a tree of the right set, or its points for brute force. NULL: made for this join */
  const adji_gpu_lender *lender; /* workers: lends the right set and outlives the worker; NULL: nothing is lent */
  bool timed;                    /* adji_gpu_knn_work reports the seconds that kernels take */
  /* left_rows may have values that are not finite: adji_gpu_knn_take then fails. Only for up to ADJI_PACKED_QUERIES
   * rows that are not dense. Nothing else may use the device until adji_gpu_knn_take returns. */
  bool checks_left;
  uint64_t rows_at_once;          /* most rows of the result on the device; 0: as many as there is memory for */
  uint32_t budget;                /* leaves that a warp may search for 32 queries; 0: default */
  bool per_query, dense;          /* one query per warp, or 32; neither: chosen by their number */
  bool cut;                       /* trees are cut within runs of the curve (tree_cut.cu) */
  uint32_t blocks;                /* thread blocks that search at a time; 0: as many as fit */
  const adji_brute_choice *brute; /* uses brute force, and how; NULL: uses trees */
  adji_knn_grid_options grid;     /* searches the cells of a grid before the trees */
  /* For parts of larger sets, through trees. Both are in host memory and read by open. NULL: none. */
  const void *bounds;          /* a sum for each left row, of the type of sums: farther neighbours are not wanted */
  const uint32_t *right_names; /* ids that rows contain in place of the right points' numbers */
  /* Right points that were picked on the device, if right_rows are such points; they outlive the search. Their ids are
   * the names of right points. In a self-join the rows of the result are those of the region's own points, in their
   * order. NULL: none. */
  const adji_gpu_pick *pick;
  bool picks, no_picks; /* workers of sets in chunks: regions must be picked on the device, or must not */
} adji_gpu_knn_options;

/* Copies the points to the device and builds the trees there. */
ADJI_OP adj_status adji_gpu_knn_open(adji_gpu *gpu, const adji_gpu_knn_options *options, adji_gpu_knn **out);
ADJI_OP void adji_gpu_knn_close(adji_gpu_knn *knn);

/* Sets other queries for the same right set, through trees: a left set of its own, which must outlive them, and its
 * bounds (may be NULL). Rows found before are freed. After a failure the join can only be closed. */
ADJI_OP adj_status adji_gpu_knn_ask(adji_gpu_knn *knn, const adj_dataset *left, const void *bounds);

/* The number of right points on the device at a time, if brute force takes the set in chunks; 0: all of them. */
ADJI_OP uint64_t adji_gpu_knn_chunk(const adji_gpu_knn *knn);

/* Rows of the result in device memory: k ids and distances per row. They contain row `row` and as many of the
 * following rows as there is memory for, and stay valid until other rows are requested. begin returns before they are
 * found; end waits for them. */
typedef struct adji_gpu_table {
  uint64_t first_row, end_row;
  const uint32_t *ids;
  const void *distances;
} adji_gpu_table;
ADJI_OP adj_status adji_gpu_knn_begin(adji_gpu_knn *knn, uint64_t row, adji_gpu_table *out);
ADJI_OP adj_status adji_gpu_knn_end(adji_gpu_knn *knn);

/* Frees what the device has for this join, except the rows found last. Afterwards the join can only be closed. */
ADJI_OP void adji_gpu_knn_keep_table(adji_gpu_knn *knn);

/* Hands over the table, which must hold all rows: ids and distances are device blocks of the given sizes. */
ADJI_OP adj_status adji_gpu_knn_take(adji_gpu_knn *knn, adji_gpu_csr *out);

/* Queries in lists, for a device that gets only some of the queries. The host has its own order: rows[i] is the row of
 * its i-th query. NULL: the order of the device, which brute force requires. */
ADJI_OP adj_status adji_gpu_knn_follow(adji_gpu_knn *knn, const uint32_t *rows);
/* Copies the order of the device to host memory. With brute force it is the order of the rows. */
ADJI_OP adj_status adji_gpu_knn_order(adji_gpu_knn *knn, uint32_t *rows);

/* Makes ADJI_LISTS slots for up to *queries queries each, or for as many as there is memory for; *queries receives that
 * number. They serve rows first_row .. end_row - 1. */
ADJI_OP adj_status adji_gpu_knn_begin_lists(adji_gpu_knn *knn, uint64_t first_row, uint64_t end_row, uint64_t *queries);
ADJI_OP void adji_gpu_knn_end_lists(adji_gpu_knn *knn);
/* Starts to fill a slot with the rows of the queries [begin, end) of each range, if these rows were requested. *rows
 * receives their number; they are stored in that order. Ranges are copied through a pinned buffer
 * (gpu/device/staging.h). */
ADJI_OP adj_status adji_gpu_knn_list(adji_gpu_knn *knn, const adji_batch *ranges, uint64_t count, uint32_t slot,
                                     uint32_t buffer, uint64_t *rows);
/* Waits for a list. *candidates: the candidates compared since lists were opened, up to this list. */
ADJI_OP adj_status adji_gpu_knn_listed(adji_gpu_knn *knn, uint32_t slot, uint64_t *candidates);
/* Writes the queries of a finished list for which the grid found no rows, as places in the host's order. `to` has room
 * for all queries of the list. */
ADJI_OP adj_status adji_gpu_knn_missed(adji_gpu_knn *knn, uint32_t slot, uint32_t *to, uint64_t *count);
/* After a host's batch of `queries` queries, `missed` of which were missed: epsilon grows if these are too many. *grew:
 * queries that were missed may be found now. */
ADJI_OP adj_status adji_gpu_knn_judge(adji_gpu_knn *knn, uint64_t queries, uint64_t missed, bool *grew);
/* Starts to copy rows first .. first + rows - 1 of a slot to a pinned buffer: their numbers, their ids and, if
 * requested, their distances, laid out as in adji_list_piece. */
ADJI_OP adj_status adji_gpu_knn_fetch(adji_gpu_knn *knn, uint32_t slot, uint64_t first, uint64_t rows, bool distances,
                                      uint32_t buffer);
/* Where the parts of a chunk of a list are, in bytes from the beginning of the buffer. */
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

/* The work of the device for this join so far: kernels, and copies of points. */
ADJI_OP adji_device_stats adji_gpu_knn_work(adji_gpu_knn *knn);

/* For all rows so far: candidates compared, and hard queries, each of which took a warp of its own or, in brute force,
 * another method. */
typedef struct adji_gpu_knn_effort {
  uint64_t candidates, hard;
} adji_gpu_knn_effort;
ADJI_OP adji_gpu_knn_effort adji_gpu_knn_effort_of(const adji_gpu_knn *knn);

#ifdef __cplusplus
}
#endif
#endif
