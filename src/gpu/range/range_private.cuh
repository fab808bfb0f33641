/* SPDX-License-Identifier: MIT
 *
 * A range join on a device: what range.cu, range_fill.cu and range_list.cu share.
 */
#ifndef ADJI_GPU_RANGE_RANGE_PRIVATE_CUH
#define ADJI_GPU_RANGE_RANGE_PRIVATE_CUH

#include "gpu/device/stopwatch.cuh"
#include "gpu/index/right.cuh"
#include "gpu/papers/per_point.cuh"
#include "gpu/range/all_pairs.cuh"
#include "gpu/range/count_cache.cuh"
#include "gpu/range/tensor_tiles.cuh"
#include "gpu/range/tiles.cuh"

extern "C" {
#include "gpu/range/range.h"
}

enum { ADJI_MOST_SLOTS = 8 };

typedef struct adji_range_slot {
  adji_block ids, sums;
  cudaEvent_t filled, copied;
} adji_range_slot;

struct adji_gpu_range {
  adji_gpu *gpu;
  adji_join join;
  adji_measure measure;
  adji_block box;
  adji_gpu_right *lent;      /* a tree or a grid shared with other joins; NULL: own_grid and own_right */
  adji_gpu_right *own_tree;  /* or own_tree, if a tree is wanted */
  bool reports_right;        /* the work of making it counts for this join */
  const adji_gpu_tree *tree; /* searched instead of the grid; NULL: the grid is searched */
  adji_block limits;         /* with a tree: one per left row; empty: all have the same */
  bool checks_left, cleared; /* cleared: all answers are 0 */
  adji_gpu_grid own_grid;
  const adji_gpu_grid *grid;
  adji_gpu_index own_right, left_index;
  const adji_gpu_index *right;
  const adji_gpu_index *left; /* the same as right in a self-join without images */
  uint64_t rows;              /* of the result */
  bool tensor;                /* there is the prefilter of tensor cores, which has its own copies of the points */
  bool all_pairs;             /* every query is compared with every right point, in tiles */
  adji_gpu_halves halves;
  adji_tensor_tiles_rows given;         /* the points as given, for the prefilter */
  adji_block left_points, right_points; /* copies of host points */
  adji_block degrees, offsets, queries, temporary;
  adji_per_point points;               /* for kernels other than the default ones */
  adji_block queue_rows, queue_counts; /* see adji_gpu_range_make_queue */
  bool single;
  bool mirrored; /* a count compares each pair of points once */
  uint64_t single_pairs;
  double tile_hit_candidates; /* estimate per query; 0: tile hits are not cached */
  bool query_hits;            /* query hits are cached instead */
  adji_count_cache cache;     /* of the last count */
  uint64_t added_at, added;   /* pairs that other workers found, after the cached ones */
  adji_gpu_counted counted;
  uint32_t blocks; /* thread blocks at a time; 0: any number */
  bool timed;
  adji_stopwatch watch; /* of kernels, if timed */
  adji_device_stats work;
  adji_range_slot slots[ADJI_MOST_SLOTS];
  uint32_t slot_count;
  uint64_t slot_pairs;
};

/* The stopwatch costs a few microseconds, so it only runs if its result is read. */
static inline adj_status adji_range_start_watch(adji_gpu_range *r) {
  return r->timed ? adji_stopwatch_start(r->gpu, r->gpu->compute, &r->watch) : ADJ_OK;
}
static inline adj_status adji_range_stop_watch(adji_gpu_range *r) {
  return r->timed ? adji_stopwatch_stop(r->gpu, r->gpu->compute, &r->watch) : ADJ_OK;
}

/* Whether the cache has the entries of rows, so that a fill only has to put them into place. */
static inline bool adji_range_has_entries(const adji_gpu_range *r) {
  return r->cache.form == ADJI_CACHE_ROW_CHUNKS || r->cache.form == ADJI_CACHE_PAIRS;
}

/* Whether kernels add to the counts of rows. They do not report the longest row then. */
static inline bool adji_range_adds(const adji_gpu_range *r) {
  return r->mirrored || r->all_pairs;
}

static inline bool adji_range_wants_sums(const adji_gpu_range *r) {
  return r->join.style.distances || r->join.style.order == ADJ_ORDER_DISTANCE;
}

/* A job for all queries. The caller adds what makes it count or fill. */
adji_tiles_job adji_range_job(const adji_gpu_range *range);
/* Runs the kernels of a job, in one launch or several. The timed variant also runs the stopwatch. */
adj_status adji_range_compare(adji_gpu_range *range, const adji_tiles_job *job);
adj_status adji_range_compare_timed(adji_gpu_range *range, const adji_tiles_job *job);

/* Creates the events of a slot, unless it has them; frees all slots and their events. */
adj_status adji_range_make_events(adji_gpu_range *range, adji_range_slot *slot);
void adji_range_free_slots(adji_gpu_range *range);

#endif
