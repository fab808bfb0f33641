/* SPDX-License-Identifier: MIT
 *
 * Settings that override the planner: "indexed=4,batch=256".
 */
#ifndef ADJI_TUNING_H
#define ADJI_TUNING_H

#include <stdbool.h>
#include <stdint.h>

#include "core/status.h"

typedef enum adji_switch { ADJI_AUTO = 0, ADJI_ON = 1, ADJI_OFF = 2 } adji_switch;

/* How cores and a GPU share a join. */
typedef enum adji_share_by { ADJI_SHARE_RATES = 1, ADJI_SHARE_FIXED = 2 } adji_share_by;

/* 0 means: the planner decides. docs/tuning.md says what each is for. */
typedef struct adji_tuning {
  uint64_t indexed;       /* axes of the grid                                              */
  double cell;            /* width of a cell in radii, >= 1                                */
  uint64_t narrow;        /* slabs a radius on the other axes, on a GPU                     */
  uint64_t fine;          /* slabs a radius on the last axis                               */
  uint64_t batch;         /* queries a batch                                               */
  uint64_t buffer;        /* bytes of the buffer of a stream                               */
  uint64_t once;          /* adji_switch: each pair evaluated once (self-join, adj_collect) */
  uint64_t boxes;         /* adji_switch: bounding boxes of blocks of points               */
  uint64_t codes;         /* adji_switch: the filter of 8-bit codes                        */
  uint64_t sample;        /* queries that the estimate looks at                            */
  uint64_t filter;        /* adji_brute_prefilter_kind: of brute force                             */
  uint64_t leaf;          /* points a leaf of the tree: 16, 32 or 64                       */
  uint64_t queue;         /* adji_switch: off, batches are dealt out in turns              */
  uint64_t device_batch;  /* bytes of a batch of the result on a GPU                  */
  uint64_t device_pairs;  /* pairs that a GPU has room for when it evaluates once     */
  uint64_t device_chunk;  /* points of a set that a GPU has at a time                 */
  uint64_t device_rows;   /* rows of a kNN join that a GPU has at a time              */
  uint64_t device_blocks; /* blocks of threads of a join that a GPU runs at a time    */
  uint64_t alone;         /* adji_switch: a warp of a GPU for every query of a kNN join */
  uint64_t cut;           /* adji_switch: its tree by cuts within runs of the curve    */
  uint64_t budget;        /* leaves that a warp searches for 32 queries                */
  uint64_t way;           /* adji_brute_method: of brute force on a GPU                   */
  uint64_t distance;      /* adji_brute_distance: its kernel for distances             */
  uint64_t select;        /* adji_select_algorithm: and for selection                  */
  uint64_t mirror;        /* adji_switch: a GPU compares every two points once        */
  uint64_t stages;        /* adji_switch: a GPU's count keeps which candidates belong to whom */
  uint64_t marks;         /* adji_switch: the same where each query has candidates of its own */
  uint64_t streams;       /* such batches in flight                                   */
  uint64_t access;        /* adji_access: how a GPU visits cells (gpu/papers/access.h)       */
  uint64_t order;         /* adji_work: in which order its queries are compared       */
  uint64_t point_threads; /* 1 + the binary logarithm of the threads of a query      */
  uint64_t reorder;       /* adji_switch: indexed are the dimensions of most variance, or the first */
  uint64_t shortc;        /* adji_switch: sums are left early                         */
  uint64_t sortidu;       /* adji_switch: points of a cell are sorted by one dimension more */
  uint64_t product;       /* adji_switch: the filter of products on a GPU             */
  uint64_t share;         /* adji_share_by: hybrid joins                              */
  /* Its fixed sizes (queue/share.h), as parts of all queries. */
  double n_large, n_cwin, n_small, n_cpu;
  /* kNN through a grid on a GPU: see adji_knn_grid_options, in gpu/papers/knn_grid.h. */
  uint64_t bins;
  double mean_part, epsilon, widen, failures, tail, stall;
} adji_tuning;

adj_status adji_tuning_parse(const char *text, adji_tuning *out); /* text may be NULL */

/* Refuses settings that would mean nothing to such a join. algorithm: what was asked for, or NULL. */
adj_status adji_tuning_fits(const adji_tuning *tuning, adj_join_kind join, const char *algorithm);

#endif
