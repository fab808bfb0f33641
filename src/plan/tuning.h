/* SPDX-License-Identifier: MIT
 *
 * Settings that override the planner: "indexed=4,batch=256".
 */
#ifndef ADJI_TUNING_H
#define ADJI_TUNING_H

#include "core/names.h"
#include "core/status.h"

typedef enum adji_switch { ADJI_AUTO = 0, ADJI_ON = 1, ADJI_OFF = 2 } adji_switch;

/* How cores and a GPU share a join. */
typedef enum adji_share_by { ADJI_SHARE_RATES = 1, ADJI_SHARE_FIXED = 2 } adji_share_by;

/* 0 means: the planner decides. docs/tuning.md says what each is for. */
typedef struct adji_tuning {
  uint64_t given; /* bit i: the i-th setting of the table was given */

  uint64_t indexed;      /* axes of the grid                                             */
  double cell;           /* width of a cell in radii, >= 1                               */
  uint64_t fine;         /* slabs a radius on the last axis                              */
  uint64_t batch;        /* queries a batch                                              */
  uint64_t buffer;       /* bytes of the buffer of a stream                              */
  uint64_t sample;       /* queries that the estimate looks at                           */
  uint64_t single;       /* adji_switch: each pair is evaluated once                     */
  uint64_t prefilter;    /* adji_prefilter_kind                                            */
  uint64_t share;        /* adji_share_by: hybrid joins                                  */
  uint64_t device_batch; /* bytes of a batch of the result on a GPU                      */
  uint64_t device_chunk; /* points of a set that a GPU has at a time                     */
  uint64_t device_rows;  /* rows of a kNN join that a GPU has at a time                  */

  /* paper.: GPU-Join and LBJoin. */
  uint64_t access;        /* adji_access: how a GPU visits cells (gpu/papers/access.h)              */
  uint64_t order;         /* adji_work: in which order its queries are compared                     */
  uint64_t point_threads; /* 1 + the binary logarithm of the threads of a query                     */
  uint64_t reorder;       /* adji_switch: indexed are the dimensions of most variance, or the first */
  uint64_t shortc;        /* adji_switch: sums are left early                                       */
  uint64_t sortidu;       /* adji_switch: points of a cell are sorted by one dimension more         */
  /* paper.: HybridKNN-Join. Sizes of batches are parts of all queries (queue/share.h); the rest is for its grid, see
   * adji_knn_grid_options in gpu/papers/knn_grid.h. */
  double n_large, n_cwin, n_small, n_cpu;
  uint64_t queue; /* adji_switch: off, batches are dealt out in turns */
  uint64_t grid_sample, bins;
  double mean_part, epsilon, widen, failures, tail, stall;

  /* test.: which kernel, and rooms far too small. */
  uint64_t boxes;         /* adji_switch: bounding boxes of blocks of points                          */
  uint64_t leaf;          /* 1, 2, 3: 16, 32, 64 points a leaf of the tree                            */
  uint64_t narrow;        /* slabs a radius on the other axes, on a GPU                               */
  uint64_t streams;       /* batches of the result in flight                                          */
  uint64_t device_pairs;  /* pairs that a GPU has room for when it evaluates once                     */
  uint64_t device_blocks; /* blocks of threads of a join that a GPU runs at a time                    */
  uint64_t mirrored;      /* adji_switch: a GPU compares every two points once                        */
  uint64_t tile_hits;     /* adji_switch: a GPU's count keeps which candidates of a tile belong       */
  uint64_t query_hits;    /* adji_switch: the same where each query has candidates of its own         */
  uint64_t per_query;     /* adji_switch: a warp of a GPU for every query of a kNN join               */
  uint64_t cut;           /* adji_switch: its tree by cuts within runs of the curve                   */
  uint64_t budget;        /* leaves that a warp searches for 32 queries                               */
  uint64_t distance;      /* adji_brute_distance: the kernel for distances of brute force on a GPU    */
  uint64_t select;        /* adji_select_algorithm: and for selection                                 */
} adji_tuning;

/* text may be NULL. Refuses what is no setting, no value of one, and what contradicts each other. */
adj_status adji_tuning_parse(const char *text, adji_tuning *out);

/* What settings must fit: the join that is asked for. */
typedef struct adji_tuning_scope {
  adj_join_kind kind;
  adj_metric metric;
  adj_backend backend;
  adji_algorithm algorithm;
  uint32_t backends; /* out: those that ADJ_BACKEND_AUTO may choose from */
} adji_tuning_scope;

/* Refuses settings that such a join does not have. Where the backend or the algorithm is to be chosen, the settings
 * narrow the choice: to->backend and to->algorithm become the one that is left. */
adj_status adji_tuning_fit(const adji_tuning *t, adji_tuning_scope *to);

/* The name of a setting that was given and that such joins on the backend do not have; NULL: there is none. */
const char *adji_tuning_not_for(const adji_tuning *t, adj_join_kind kind, adj_backend backend);

#endif
