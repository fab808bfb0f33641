/* SPDX-License-Identifier: MIT
 *
 * The costs of the steps of a join, by which the planner compares methods. All measured figures that it uses are in
 * this list, with their unit and meaning; adj_calibrate (plan/calibrate.c) measures the important ones on a user's
 * machine.
 *
 * Measured with AVX-512 on 16 cores at about 3 GHz, and on an H200. Times of cores are those of one core while all are
 * busy: n cores take an n-th of it. When two methods are compared only ratios matter, so figures of older measurements
 * remain as long as they are only compared with each other.
 */
#ifndef ADJI_COSTS_H
#define ADJI_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "adjoin.h"

/* X(name, built-in value): the name ends in the unit; a name without a unit is a factor. */
#define ADJI_COSTS(X)                                                                                                  \
  /* Building the index of a range join on cores: per point, and per dimension of a point. 20 million points took 16   \
   * cores 150 ms in two dimensions and 120 to 180 in three. */                                                        \
  X(index_point_ns, 90)                                                                                                \
  X(index_dim_ns, 15)                                                                                                  \
  /* A lower bound for a join with few neighbours, as a multiple of that. */                                           \
  X(least_range, 3)                                                                                                    \
  /* Choosing axes: looking up a range of cells; comparing a vector of candidates: fixed, per dimension, and per       \
   * dimension of 8-bit codes. */                                                                                      \
  X(lookup_ns, 3)                                                                                                      \
  X(vector_ns, 1.4)                                                                                                    \
  X(vector_dim_ns, 0.45)                                                                                               \
  X(vector_code_dim_ns, 0.03)                                                                                          \
  /* The same in three dimensions, for a query in a group: a range of cells if groups are small, and a candidate. A    \
   * million points in clusters with ten neighbours each took a core 46 ns with two axes, 222 candidates and three     \
   * ranges, and 68 with three axes, 74 candidates and nine ranges. */                                                 \
  X(group_lookup_ns, 6.5)                                                                                              \
  X(group_candidate_ns, 0.12)                                                                                          \
  /* Evaluating a candidate: fixed, per dimension up to 12, and per dimension of 8-bit codes. */                       \
  X(candidate_ns, 0.1)                                                                                                 \
  X(candidate_dim_ns, 0.07)                                                                                            \
  X(candidate_code_dim_ns, 0.006)                                                                                      \
  /* Evaluating a candidate relative to counting it: counting for both points of a pair, in up to six dimensions;      \
   * listing in up to six, where counts have the queries in the lanes; listing in more; filling rows in many. */       \
  X(mirrored_evaluation, 1.1)                                                                                          \
  X(list_evaluation_few, 1.7)                                                                                          \
  X(list_evaluation, 1.1)                                                                                              \
  X(fill_evaluation, 1.4)                                                                                              \
  /* Rows: writing the length of a row, counting one, filling one in place, the part of this that is due to its        \
   * distance from the others, filling one from lists. Pairs: one found once and counted for both its rows, listed or  \
   * not; writing one to its place; staging it before that; moving it to its row; sending it to a device that does     \
   * that. A million rows of ten ids took two cores 51 ms staged and 69 counted first, of a hundred ids 216 and        \
   * 167. */                                                                                                           \
  X(degree_ns, 5)                                                                                                      \
  X(counted_row_ns, 60)                                                                                                \
  X(filled_row_ns, 50)                                                                                                 \
  X(placed_row_ns, 40)                                                                                                 \
  X(row_ns, 150)                                                                                                       \
  X(counted_pair_ns, 6)                                                                                                \
  X(mirrored_pair_ns, 4)                                                                                               \
  X(pair_ns, 3.5)                                                                                                      \
  X(staged_pair_ns, 2.2)                                                                                               \
  X(moved_pair_ns, 15)                                                                                                 \
  X(sent_pair_ns, 14)                                                                                                  \
  /* A kd-tree on cores: per point, and per dimension of a point. With 2 million points each took 160 ns in two        \
   * dimensions, 180 in three and 310 in six. */                                                                       \
  X(tree_point_ns, 85)                                                                                                 \
  X(tree_dim_ns, 37)                                                                                                   \
  /* Searching it: a query for k = 8 in two dimensions; a factor for each dimension more; a power of k / 8. 300 ns in  \
   * two dimensions, 510 in three, 3,300 in six; with k = 32 two to three times that. */                               \
  X(search_ns, 300)                                                                                                    \
  X(search_dim, 1.8)                                                                                                   \
  X(search_k_power, 0.7)                                                                                               \
  /* Whether a tree is worth building for few queries: building it, per point and dimension; brute force in few        \
   * dimensions, per pair, and its start. With 500,000 points a tree is faster from 180 queries on in two dimensions,  \
   * and from 400 on in six; with 1,000 points it always is. */                                                        \
  X(few_tree_dim_ns, 30)                                                                                               \
  X(few_pair_ns, 0.35)                                                                                                 \
  X(few_begin_ns, 700000)                                                                                              \
  /* Brute force on cores, with any prefilter: per pair, and per dimension. 0.5 ns in 16 dimensions, 1.2 in 128. */    \
  X(brute_pair_ns, 0.5)                                                                                                \
  X(brute_dim_ns, 0.005)                                                                                               \
  /* The same for each prefilter: none, products of f32, of codes by VNNI, of codes in AMX tiles; and for pairs that   \
   * pass. */                                                                                                          \
  X(plain_pair_ns, 0.15)                                                                                               \
  X(plain_dim_ns, 0.045)                                                                                               \
  X(gemm_pair_ns, 0.05)                                                                                                \
  X(gemm_dim_ns, 0.0125)                                                                                               \
  X(vnni_pair_ns, 0.12)                                                                                                \
  X(vnni_dim_ns, 0.0027)                                                                                               \
  X(amx_pair_ns, 0.1)                                                                                                  \
  X(amx_dim_ns, 0.0006)                                                                                                \
  X(passed_ns, 60)                                                                                                     \
  X(passed_dim_ns, 0.3)                                                                                                \
  /* How long a join must take the cores before a GPU is used: if CUDA is not started, which takes 0.17 to 0.23 s; if  \
   * it is, and a device takes 0.04 s to open; if a device is open. */                                                 \
  X(device_start_s, 0.25)                                                                                              \
  X(device_open_s, 0.05)                                                                                               \
  X(device_ready_s, 0.00002)                                                                                           \
  /* What sharing a join adds: waking threads, lists, passes, the last batches. 10,000 points took 2.2 to 2.5 ms more  \
   * than the cores alone take for all of them. */                                                                     \
  X(sharing_s, 0.002)                                                                                                  \
  /* Bytes a second that reach the host if cores place them; and that a link copies. */                                \
  X(copy_rate, 30e9)                                                                                                   \
  X(link_rate, 50e9)                                                                                                   \
  /* A device's tree: a multiprocessor's time for a point. 10 million points took an H200, which has 132, 1.1 to 1.5   \
   * ms. An upper bound of the search in multiples of that: for k = 8; a factor for each dimension; a power of k / 8.  \
   * 4 times in two dimensions, 90 times in six. */                                                                    \
  X(device_tree_ns, 20)                                                                                                \
  X(device_search, 6.3)                                                                                                \
  X(device_search_dim, 1.56)                                                                                           \
  X(device_search_k_power, 0.9)                                                                                        \
  /* Brute force for kNN on an H200: the start; a pair, and each of its dimensions, in a matrix (device_matrix) and    \
   * through tensor cores. 8,192 queries with 1 M points took 20 and 2.2 ms in 8 dimensions, 94 and 7 in 128; f64      \
   * twice that. Factors of a dimension with other metrics: L1 and Linf, inner products, Lp with a small whole p and   \
   * with any other. 10,000 points in 384 dimensions took 1.8 ms by L2 and L1, 1.1 by inner product, 34 with p = 3 and \
   * 179 with p = 2.5. */                                                                                              \
  X(device_brute_s, 0.0003)                                                                                            \
  X(device_matrix_ns, 0.0017)                                                                                          \
  X(device_matrix_dim_ns, 0.000077)                                                                                    \
  X(device_matrix_l1, 1.1)                                                                                             \
  X(device_matrix_dot, 0.7)                                                                                            \
  X(device_matrix_lp, 24)                                                                                              \
  X(device_matrix_power, 115)                                                                                          \
  X(device_tensor_ns, 0.00022)                                                                                         \
  X(device_tensor_dim_ns, 0.000005)                                                                                    \
  /* The usual time of a device's search by trees, as a part of its upper bound. */                                    \
  X(device_search_usual, 0.6)                                                                                          \
  /* Comparing all pairs within a radius in tiles: the start, and a pair, beside its dimensions as above. For cores: a \
   * factor on their estimate, and the start. */                                                                       \
  X(device_all_pairs_s, 0.0003)                                                                                        \
  X(device_all_pairs_ns, 0.0008)                                                                                       \
  X(cores_all_pairs, 2.5)                                                                                              \
  X(cores_all_pairs_s, 0.006)                                                                                          \
  /* Through a grid in many dimensions: a warp's time for a right point and dimension, however few queries there are,  \
   * in up to 64 dimensions, and in more; and for 32 ranges of cells. */                                               \
  X(device_step_ns, 10)                                                                                                \
  X(device_long_step_ns, 30)                                                                                           \
  X(device_lookup_ns, 2000)                                                                                            \
  /* Finding neighbours relative to counting them: from four dimensions on; in up to three in lists (2.2 to 2.8), and  \
   * in batches, whose rows are consecutive but not neighbours (4.3 to 7.4). Counting every two points once relative   \
   * to counting them twice. */                                                                                        \
  X(device_find, 1.5)                                                                                                  \
  X(device_find_lists, 2.5)                                                                                            \
  X(device_find_batches, 5)                                                                                            \
  X(device_mirrored, 0.6)                                                                                              \
  /* Metrics other than L2, which are never compared once, relative to L2, through a grid in four dimensions and more. \
   * 100,000 points took 19 to 34 ms by Linf in ten dimensions and 35 to 49 by L1 in six; comparing all pairs took 15  \
   * to 19 and 22 to 30. */                                                                                            \
  X(device_other_step, 2.2)                                                                                            \
  /* Choosing axes for a device, in instructions of a warp (gpu/range/tiles_kernel.cuh): 32 ranges of cells; a step of \
   * 32 candidates with the queries of a cell; a candidate, and each of its dimensions, compared with 32 queries of    \
   * dense cells or with one query of a sparse cell. The same for pairs that go through tensor cores, and for those    \
   * that pass. A factor for waiting on the candidates in more than six dimensions, and the instructions that an H200  \
   * issues a second. */                                                                                               \
  X(warp_lookup, 90)                                                                                                   \
  X(warp_step, 60)                                                                                                     \
  X(warp_dense, 6)                                                                                                     \
  X(warp_dense_dim, 2.3)                                                                                               \
  X(warp_sparse, 8)                                                                                                    \
  X(warp_sparse_dim, 2.2)                                                                                              \
  X(warp_tensor, 0.02)                                                                                                 \
  X(warp_tensor_step, 0.048)                                                                                           \
  X(warp_passed, 110)                                                                                                  \
  X(warp_passed_dim, 1.7)                                                                                              \
  X(warp_wait, 10)                                                                                                     \
  X(warp_rate, 9e11)

typedef struct adji_costs {
#define ADJI_COST_MEMBER(name, value) double name;
  ADJI_COSTS(ADJI_COST_MEMBER)
#undef ADJI_COST_MEMBER
} adji_costs;

extern const adji_costs adji_built_in_costs;

/* The file that contexts read: $ADJOIN_COSTS, or adjoin/costs below $XDG_CACHE_HOME or ~/.cache. False: there is none;
 * $ADJOIN_COSTS can say so too. *asked: whether $ADJOIN_COSTS decided. If it did not, all existing folders of the path
 * belong to the user or root and are not writable by all: with the HOME of another user, as under sudo, there is no
 * file. */
bool adji_costs_path(char *path, size_t capacity, bool *asked);

/* Makes the folders that a file is in; existing ones stay as they are. Failures show when the file is opened. */
void adji_costs_make_folders(const char *path);

typedef enum adji_costs_read {
  ADJI_COSTS_READ,
  ADJI_COSTS_MISSING,
  ADJI_COSTS_REFUSED, /* another user's, too large, or not a regular file */
  ADJI_COSTS_OTHER,   /* for another machine or version of the library         */
  ADJI_COSTS_DAMAGED  /* not what adji_costs_save writes                       */
} adji_costs_read;

/* Reads a file for this machine and version into *out, which otherwise stays unchanged; why receives the reason. */
adji_costs_read adji_costs_load(const char *path, const char *isa, adji_costs *out, char *why, size_t capacity);

/* Replaces the file, or on failure leaves it as it was. Makes the folders it is in. A link in its place is replaced,
 * not followed. */
adj_status adji_costs_save(const char *path, const char *isa, const adji_costs *costs);

/* Describes the machine that costs are for: CPU, usable cores, instruction set, and the GPUs that the driver names. */
void adji_machine_text(const char *isa, char *text, size_t capacity);

#endif
