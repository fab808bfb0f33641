/* SPDX-License-Identifier: MIT
 *
 * Settings that override the planner: "indexed=4,batch=256".
 */
#ifndef ADJI_TUNING_H
#define ADJI_TUNING_H

#include "core/names.h"
#include "core/status.h"

typedef enum adji_switch { ADJI_AUTO = 0, ADJI_ON = 1, ADJI_OFF = 2 } adji_switch;

/* How cores and GPUs, or several GPUs, share a join. */
typedef enum adji_share_by {
  ADJI_SHARE_RATES = 1,
  ADJI_SHARE_FIXED,   /* with cores only */
  ADJI_SHARE_RESULTS, /* with cores only */
  ADJI_SHARE_ENTITIES /* GPUs only       */
} adji_share_by;

/* The recursion over pairs of sequences: the sort, and how threads share the join. */
typedef enum adji_ego_sorter { ADJI_EGO_QSORT = 1, ADJI_EGO_PARALLEL = 2 } adji_ego_sorter;
typedef enum adji_ego_threading { ADJI_EGO_PRODUCER = 1, ADJI_EGO_QUEUE = 2 } adji_ego_threading;

/* Every setting: type, kind, member, name, smallest and largest value, list of names, and the joins it is for.
 * docs/tuning.md says what each does.
 *
 * A NUMBER is whole, a FACTOR need not be. A NAME is one of a list in tuning.c: its value is the place in the list,
 * counted from 1, as in the enums adji_switch, adji_prefilter_kind, adji_access and so on.
 *
 * The last four columns are the backends and algorithms of range joins, and those of kNN joins. 0: not for this kind of
 * join. */
#define ADJI_SETTINGS(X)                                                                             \
  X(uint64_t, NUMBER, batch, "batch", 1, 1e9, NULL, CORES, ANY, CORES, ANY)                          \
  X(uint64_t, NUMBER, buffer, "buffer", 1, 1e15, NULL, EVERYWHERE, ANY, EVERYWHERE, ANY)             \
  X(uint64_t, NUMBER, sample, "sample", 1, 1e9, NULL, PLANNED, ANY, 0, 0)                            \
  X(uint64_t, NUMBER, indexed, "indexed", 1, 10, NULL, PLANNED, GRID | EGO, 0, 0)                    \
  X(double, FACTOR, cell, "cell", 1, 1e6, NULL, PLANNED, GRID | EGO, 0, 0)                           \
  X(uint64_t, NUMBER, fine, "fine", 1, 64, NULL, PLANNED, GRID | EGO, 0, 0)                          \
  X(uint64_t, NAME, single, "single", 0, 0, switches, PLANNED, GRID | EGO | BRUTE, 0, 0)             \
  X(uint64_t, NAME, staged, "staged", 0, 0, switches, CPU, GRID | EGO | BRUTE, 0, 0)                 \
  X(uint64_t, NAME, prefilter, "prefilter", 0, 0, prefilters, PLANNED, ANY, PLANNED, ANY)            \
  X(uint64_t, NAME, share, "share", 0, 0, shares, DEVICE, ANY, DEVICE, ANY)                          \
  X(uint64_t, NUMBER, device_batch, "device_batch", 1, 1e12, NULL, DEVICE, ANY, 0, 0)                \
  X(uint64_t, NUMBER, device_chunk, "device_chunk", 1, 1e12, NULL, GPU, ANY, GPU, KDTREE | BRUTE)    \
  X(uint64_t, NUMBER, device_rows, "device_rows", 1, 1e12, NULL, 0, 0, DEVICE, ANY)                  \
  X(uint64_t, NAME, access, "paper.access", 0, 0, accesses, DEVICE, GRID, 0, 0)                      \
  X(uint64_t, NAME, order, "paper.order", 0, 0, orders, DEVICE, GRID, 0, 0)                          \
  X(uint64_t, NAME, point_threads, "paper.point_threads", 0, 0, powers, DEVICE, GRID, DEVICE, GRID)  \
  X(uint64_t, NAME, reorder, "paper.reorder", 0, 0, switches, PLANNED, GRID | EGO, 0, 0)             \
  X(uint64_t, NAME, indexed_by, "paper.indexed", 0, 0, indexings, GPU, GRID, 0, 0)                   \
  X(uint64_t, NAME, shortc, "paper.shortc", 0, 0, switches, DEVICE, GRID, 0, 0)                      \
  X(uint64_t, NAME, sortidu, "paper.sortidu", 0, 0, switches, DEVICE, GRID, 0, 0)                    \
  X(uint64_t, NUMBER, paper_streams, "paper.streams", 1, 8, NULL, DEVICE, GRID, 0, 0)                \
  X(uint64_t, NUMBER, batch_size, "paper.batch_size", 1, 1e9, NULL, DEVICE, GRID, 0, 0)              \
  X(double, FACTOR, sample_part, "paper.sample_part", 1e-9, 1, NULL, DEVICE, GRID, 0, 0)             \
  X(double, FACTOR, n_large, "paper.n_large", 1e-9, 1, NULL, HYBRID, ANY, HYBRID, TREES)             \
  X(double, FACTOR, n_cwin, "paper.n_cwin", 0, 1, NULL, HYBRID, ANY, HYBRID, TREES)                  \
  X(double, FACTOR, n_small, "paper.n_small", 1e-9, 1, NULL, HYBRID, ANY, HYBRID, TREES)             \
  X(double, FACTOR, n_cpu, "paper.n_cpu", 1e-9, 1, NULL, HYBRID, ANY, HYBRID, TREES)                 \
  X(uint64_t, NUMBER, query_sets, "paper.query_sets", 1, 1e9, NULL, GPU, ANY, GPU, ANY)              \
  X(uint64_t, NAME, queue, "paper.queue", 0, 0, queues, 0, 0, CORES, TREES)                          \
  X(uint64_t, NUMBER, grid_sample, "paper.sample", 1, 1e9, NULL, 0, 0, DEVICE, GRID)                 \
  X(uint64_t, NUMBER, bins, "paper.bins", 1, 10000, NULL, 0, 0, DEVICE, GRID)                        \
  X(double, FACTOR, mean_part, "paper.mean_part", 1e-9, 1, NULL, 0, 0, DEVICE, GRID)                 \
  X(double, FACTOR, epsilon, "paper.epsilon", 1e-6, 1e6, NULL, 0, 0, DEVICE, GRID)                   \
  X(double, FACTOR, widen, "paper.widen", 1e-6, 1e6, NULL, 0, 0, DEVICE, GRID)                       \
  X(double, FACTOR, failures, "paper.failures", 1e-9, 1, NULL, 0, 0, DEVICE, GRID)                   \
  X(double, FACTOR, tail, "paper.tail", 0, 1, NULL, 0, 0, DEVICE, GRID)                              \
  X(double, FACTOR, stall, "paper.stall", 1e-9, 1, NULL, 0, 0, DEVICE, GRID)                         \
  X(uint64_t, NAME, boxes, "test.boxes", 0, 0, switches, CORES, GRID | BRUTE, 0, 0)                  \
  X(uint64_t, NAME, leaf, "test.leaf", 0, 0, leaves, 0, 0, CORES, TREES)                             \
  X(uint64_t, NUMBER, narrow, "test.narrow", 1, 4, NULL, DEVICE, GRID, 0, 0)                         \
  X(uint64_t, NUMBER, streams, "test.streams", 1, 8, NULL, GPU, ANY, 0, 0)                           \
  X(uint64_t, NUMBER, slices, "test.slices", 1, 1e6, NULL, GPU, ANY, 0, 0)                           \
  X(uint64_t, NUMBER, device_pairs, "test.device_pairs", 1, 1e12, NULL, DEVICE, ANY, 0, 0)           \
  X(uint64_t, NUMBER, device_blocks, "test.device_blocks", 1, 1e6, NULL, DEVICE, ANY, DEVICE, TREES) \
  X(uint64_t, NAME, mirrored, "test.mirrored", 0, 0, switches, DEVICE, GRID | BRUTE, 0, 0)           \
  X(uint64_t, NAME, all_pairs, "test.all_pairs", 0, 0, switches, DEVICE, BRUTE, 0, 0)                \
  X(uint64_t, NAME, tile_hits, "test.tile_hits", 0, 0, switches, GPU, GRID, 0, 0)                    \
  X(uint64_t, NAME, query_hits, "test.query_hits", 0, 0, switches, GPU, GRID, 0, 0)                  \
  X(uint64_t, NAME, per_query, "test.per_query", 0, 0, switches, 0, 0, DEVICE, TREES)                \
  X(uint64_t, NAME, cut, "test.cut", 0, 0, switches, 0, 0, DEVICE, TREES)                            \
  X(uint64_t, NUMBER, budget, "test.budget", 1, 1e9, NULL, 0, 0, DEVICE, TREES)                      \
  X(uint64_t, NAME, pick, "test.pick", 0, 0, switches, 0, 0, GPU, KDTREE)                            \
  X(uint64_t, NAME, skip, "test.skip", 0, 0, switches, 0, 0, GPU, BRUTE)                             \
  X(uint64_t, NAME, distance, "paper.distance", 0, 0, distances, 0, 0, GPU, BRUTE)                   \
  X(uint64_t, NAME, select, "paper.select", 0, 0, selections, 0, 0, GPU, BRUTE)                      \
  X(uint64_t, NAME, dual, "paper.dual", 0, 0, switches, CORES, EGO, 0, 0)                            \
  X(uint64_t, NUMBER, ego_leaf, "paper.leaf", 1, 65536, NULL, CORES, EGO, 0, 0)                      \
  X(uint64_t, NAME, ego_sort, "paper.sort", 0, 0, ego_sorts, CORES, EGO, 0, 0)                       \
  X(uint64_t, NAME, ego_threads, "paper.threads", 0, 0, ego_threads, CORES, EGO, 0, 0)               \
  X(uint64_t, NUMBER, partitions, "paper.partitions", 1, 1024, NULL, 0, 0, GPU, BRUTE)               \
  X(uint64_t, NUMBER, reads, "paper.reads", 1, 8, NULL, 0, 0, GPU, BRUTE)                            \
  X(uint64_t, NAME, prefetch, "paper.prefetch", 0, 0, switches, 0, 0, GPU, BRUTE)                    \
  X(uint64_t, NUMBER, sort_streams, "paper.sort_streams", 1, 16, NULL, 0, 0, GPU, BRUTE)

/* A member that is 0 means: the planner decides. */
typedef struct adji_tuning {
  uint64_t given[2]; /* bit i: the i-th setting of the table was given */
#define ADJI_SETTING_MEMBER(type, kind, member, ...) type member;
  ADJI_SETTINGS(ADJI_SETTING_MEMBER)
#undef ADJI_SETTING_MEMBER
} adji_tuning;

/* text may be NULL. Refuses unknown settings and values, and settings that contradict each other.
 * adji_tuning_parse_over: settings of text override those of defaults. */
adj_status adji_tuning_parse(const char *text, adji_tuning *out);
adj_status adji_tuning_parse_over(const char *defaults, const char *text, adji_tuning *out);

static inline bool adji_tuning_is_given(const adji_tuning *t, int i) {
  return t->given[i / 64] >> i % 64 & 1;
}

/* The index of each setting in the table. */
enum adji_setting_place {
#define ADJI_SETTING_PLACE(type, kind, member, ...) ADJI_SETTING_##member,
  ADJI_SETTINGS(ADJI_SETTING_PLACE)
#undef ADJI_SETTING_PLACE
};

/* Whether a setting was given as 0, which otherwise means that the planner decides. */
#define ADJI_TUNING_IS_ZERO(t, member) (adji_tuning_is_given(t, ADJI_SETTING_##member) && !((t)->member > 0))

/* Whether any setting was given. */
static inline bool adji_tuning_any(const adji_tuning *t) {
  return t->given[0] || t->given[1];
}

/* The requested join, which settings must fit. */
typedef struct adji_tuning_scope {
  adj_join_kind kind;
  adj_metric metric;
  adj_backend backend;
  adji_algorithm algorithm;
  uint32_t backends; /* out: those that ADJ_BACKEND_AUTO may choose from */
} adji_tuning_scope;

/* Refuses settings that such a join does not have. If the backend or the algorithm is still to be chosen, the settings
 * narrow the choice: to->backend and to->algorithm become the remaining one. */
adj_status adji_tuning_fit(const adji_tuning *t, adji_tuning_scope *to);

/* The name of a given setting that joins of this kind do not have on this backend; NULL: there is none. */
const char *adji_tuning_not_for(const adji_tuning *t, adj_join_kind kind, adj_backend backend);

#endif
