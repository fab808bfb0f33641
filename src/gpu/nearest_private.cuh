/* SPDX-License-Identifier: MIT
 *
 * A kNN join on a device: what nearest.cu and nearest_list.cu share.
 */
#ifndef ADJI_NEAREST_PRIVATE_CUH
#define ADJI_NEAREST_PRIVATE_CUH

#include "gpu/brute.cuh"
#include "gpu/nearest.cuh"
#include "gpu/nearest_grid.cuh"
#include "gpu/stopwatch.cuh"

extern "C" {
#include "gpu/nearest.h"
#include "gpu/staging.h"
}

/* Rows of a list of queries. */
typedef struct adji_nearest_slot {
  adji_block ranges; /* of the host's order, and where each begins in the list */
  adji_block rows, ids, sums;
  adji_block failed; /* queries of the cores' order, where they search for them */
  bool handed;       /* there may be some                                       */
  uint64_t indexed;  /* how often points had been indexed again by then         */
  uint64_t count;
  cudaEvent_t found;
} adji_nearest_slot;

struct adji_gpu_nearest {
  adji_gpu *gpu;
  adji_join join;
  adji_measure measure;
  adji_gpu_brute *brute; /* in the place of trees; NULL: there are trees */
  adji_gpu_tree right, left_tree;
  const adji_gpu_tree *left;
  uint64_t rows_at_once;
  uint32_t budget, blocks;
  bool alone, together, cut;
  adji_nearest_grid grid;
  adji_block ids, sums; /* rows first_row .. end_row - 1 */
  uint64_t first_row, end_row;
  bool begun;                          /* and not ended: they are being found */
  adji_block queries, hard, temporary; /* while they are found */
  /* Lists: the device's position of the host's i-th query, or nothing; the place of a row in the list at work; the
   * queries of a list, before and after they are put in order. */
  adji_block order, places, listed[2];
  adji_nearest_slot slots[ADJI_LISTS];
  uint64_t list_first, list_end; /* the rows that are wanted */
  adji_device_work work;
  adji_stopwatch watch;
  adji_gpu_nearest_effort effort;
};

/* What a search is for, and where it goes, as adji_nearest_job has it. n->hard has room for the queries. */
typedef struct adji_nearest_target {
  const uint32_t *queries;
  uint64_t query_count;
  uint64_t first_row;
  const uint32_t *places;
  uint32_t *ids;
  void *sums;
} adji_nearest_target;

/* Adds the candidates to the answers. */
adj_status adji_nearest_search(adji_gpu_nearest *n, const adji_nearest_target *target);

/* The grid, where it is asked for: search finds what it can and leaves the other queries in the job, for the tree. */
adj_status adji_nearest_grid_open(adji_gpu_nearest *n, const adji_nearest_grid_options *options);
adj_status adji_nearest_grid_search(adji_gpu_nearest *n, adji_nearest_job *job);
void adji_nearest_grid_free_lists(adji_gpu_nearest *n); /* after a search */
/* From now on what fails is for cores, whose i-th query is at position order[i] of the left tree: a search leaves
 * nothing in the job, and says by grid.handed whether some of it may have failed. Their queries then go to a block with
 * room for them all, as many as ADJI_ANSWER_HEAD says; and so many of a list failed, for which points had been indexed
 * again so often: epsilon grows where they are too many, and where that does not help the tree searches from then on.
 * Lists of an epsilon that has grown since say nothing of the present one. */
adj_status adji_nearest_grid_hand_back(adji_gpu_nearest *n, const uint32_t *order);
adj_status adji_nearest_grid_tell(adji_gpu_nearest *n, uint64_t queries, const adji_block *to);
adj_status adji_nearest_grid_listed(adji_gpu_nearest *n, uint64_t queries, uint64_t failed, uint64_t indexed);
void adji_nearest_grid_keep(adji_gpu_nearest *n); /* what fails is for the tree again */
void adji_nearest_grid_close(adji_gpu_nearest *n);
adji_grid_work adji_nearest_grid_work(adji_gpu_nearest *n);

#endif
