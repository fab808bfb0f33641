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

/* Every setting: member, name, values, and the joins it is for. docs/tuning.md says what each does.
 *
 * NUMBER (whole) and FACTOR have a least and a most value. NAME has a list of names in tuning.c: the value is the place
 * in the list, counted from 1, as in the enums adji_switch, adji_prefilter_kind, adji_access and so on.
 *
 * Then come the backends and algorithms of range joins, and those of kNN joins. 0: not in this kind of join. */
#define ADJI_SETTINGS(NUMBER, FACTOR, NAME)                                       \
  NUMBER(batch, "batch", 1, 1e9, CORES, ANY, CORES, ANY)                          \
  NUMBER(buffer, "buffer", 1, 1e15, EVERYWHERE, ANY, EVERYWHERE, ANY)             \
  NUMBER(sample, "sample", 1, 1e9, PLANNED, ANY, 0, 0)                            \
  NUMBER(indexed, "indexed", 1, 8, PLANNED, GRID | EGO, 0, 0)                     \
  FACTOR(cell, "cell", 1, 1e6, PLANNED, GRID | EGO, 0, 0)                         \
  NUMBER(fine, "fine", 1, 64, PLANNED, GRID | EGO, 0, 0)                          \
  NAME(single, "single", switches, PLANNED, ANY, 0, 0)                            \
  NAME(prefilter, "prefilter", prefilters, PLANNED, ANY, PLANNED, ANY)            \
  NAME(share, "share", shares, HYBRID, ANY, HYBRID, TREES)                        \
  NUMBER(device_batch, "device_batch", 1, 1e12, DEVICE, ANY, 0, 0)                \
  NUMBER(device_chunk, "device_chunk", 1, 1e12, GPU, ANY, GPU, BRUTE)             \
  NUMBER(device_rows, "device_rows", 1, 1e12, 0, 0, DEVICE, ANY)                  \
  NAME(access, "paper.access", accesses, GPU, GRID, 0, 0)                         \
  NAME(order, "paper.order", orders, GPU, GRID, 0, 0)                             \
  NAME(point_threads, "paper.point_threads", powers, GPU, GRID, DEVICE, GRID)     \
  NAME(reorder, "paper.reorder", switches, PLANNED, GRID | EGO, 0, 0)             \
  NAME(shortc, "paper.shortc", switches, GPU, GRID, 0, 0)                         \
  NAME(sortidu, "paper.sortidu", switches, GPU, GRID, 0, 0)                       \
  FACTOR(n_large, "paper.n_large", 1e-9, 1, HYBRID, ANY, HYBRID, TREES)           \
  FACTOR(n_cwin, "paper.n_cwin", 1e-9, 1, HYBRID, ANY, HYBRID, TREES)             \
  FACTOR(n_small, "paper.n_small", 1e-9, 1, HYBRID, ANY, HYBRID, TREES)           \
  FACTOR(n_cpu, "paper.n_cpu", 1e-9, 1, HYBRID, ANY, HYBRID, TREES)               \
  NAME(queue, "paper.queue", switches, 0, 0, CPU, KDTREE)                         \
  NUMBER(grid_sample, "paper.sample", 1, 1e9, 0, 0, DEVICE, GRID)                 \
  NUMBER(bins, "paper.bins", 1, 10000, 0, 0, DEVICE, GRID)                        \
  FACTOR(mean_part, "paper.mean_part", 1e-9, 1, 0, 0, DEVICE, GRID)               \
  FACTOR(epsilon, "paper.epsilon", 1e-6, 1e6, 0, 0, DEVICE, GRID)                 \
  FACTOR(widen, "paper.widen", 1e-6, 1e6, 0, 0, DEVICE, GRID)                     \
  FACTOR(failures, "paper.failures", 1e-9, 1, 0, 0, DEVICE, GRID)                 \
  FACTOR(tail, "paper.tail", 1e-9, 1, 0, 0, DEVICE, GRID)                         \
  FACTOR(stall, "paper.stall", 1e-9, 1, 0, 0, DEVICE, GRID)                       \
  NAME(boxes, "test.boxes", switches, CORES, GRID | BRUTE, 0, 0)                  \
  NAME(leaf, "test.leaf", leaves, 0, 0, CORES, TREES)                             \
  NUMBER(narrow, "test.narrow", 1, 4, DEVICE, GRID, 0, 0)                         \
  NUMBER(streams, "test.streams", 1, 8, GPU, ANY, 0, 0)                           \
  NUMBER(slices, "test.slices", 1, 1e6, GPU, ANY, 0, 0)                           \
  NUMBER(device_pairs, "test.device_pairs", 1, 1e12, DEVICE, ANY, 0, 0)           \
  NUMBER(device_blocks, "test.device_blocks", 1, 1e6, DEVICE, ANY, DEVICE, TREES) \
  NAME(mirrored, "test.mirrored", switches, DEVICE, GRID | BRUTE, 0, 0)           \
  NAME(tile_hits, "test.tile_hits", switches, GPU, GRID, 0, 0)                    \
  NAME(query_hits, "test.query_hits", switches, GPU, GRID, 0, 0)                  \
  NAME(per_query, "test.per_query", switches, 0, 0, DEVICE, TREES)                \
  NAME(cut, "test.cut", switches, 0, 0, DEVICE, TREES)                            \
  NUMBER(budget, "test.budget", 1, 1e9, 0, 0, DEVICE, TREES)                      \
  NAME(distance, "test.distance", distances, 0, 0, GPU, BRUTE)                    \
  NAME(select, "test.select", selections, 0, 0, GPU, BRUTE)

/* 0 means: the planner decides. */
typedef struct adji_tuning {
  uint64_t given; /* bit i: the i-th setting of the table was given */
#define ADJI_WHOLE(member, ...) uint64_t member;
#define ADJI_FRACTION(member, ...) double member;
  ADJI_SETTINGS(ADJI_WHOLE, ADJI_FRACTION, ADJI_WHOLE)
#undef ADJI_WHOLE
#undef ADJI_FRACTION
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
