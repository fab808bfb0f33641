/* SPDX-License-Identifier: MIT
 *
 * What workers report of a run: counts of the join itself, and what devices did and how long it took them.
 */
#ifndef ADJI_STATS_H
#define ADJI_STATS_H

#include <stdint.h>

#include "core/exact.h"

/* What a batch, a pass or a run counted. */
typedef struct adji_tally {
  uint64_t pairs, candidates;
} adji_tally;

/* What the cores together, or one device, did in the passes that several workers shared. */
typedef struct adji_worker_stats {
  const char *name;
  const void *who; /* state of the worker; NULL: the cores       */
  uint64_t queries, batches;
  uint64_t failed; /* queries that it returned                   */
  double busy_s;   /* of the cores: the mean over all lanes      */
} adji_worker_stats;

/* A kNN join through a grid (gpu/papers/knn_grid.h); all 0 for others. */
typedef struct adji_knn_grid_stats {
  uint64_t queries; /* searches, counting repeated ones   */
  uint64_t failed;  /* that found fewer than k neighbours */
  uint64_t reindexed;
  double epsilon; /* the first one */
  double epsilon_s, reindex_s;
} adji_knn_grid_stats;

/* A brute-force kNN join with a prefilter on a GPU (gpu/brute/); all 0 for others. */
typedef struct adji_prefilter_stats {
  uint64_t queries;
  uint64_t sums;                 /* canonical ones, of candidates that passed                         */
  uint64_t again, failed;        /* queries that needed longer lists; that were done without it       */
  uint64_t tiles, tiles_scanned; /* with points in tree order: of candidates, for 32 queries each */
} adji_prefilter_stats;

/* What devices did for a run; all 0 where none took part. Waiting and placing are summed over the lanes. */
typedef struct adji_device_stats {
  double kernel_s;               /* the device's time for kernels              */
  double up_s, down_s;           /* waiting for copies to the device, and back */
  double place_s;                /* putting what arrived into place            */
  uint64_t bytes_up, bytes_down; /* points; counts and pairs                   */
  uint64_t slots, compared;      /* comparisons that warps had lanes for, where kernels count these, and made */
  adji_knn_grid_stats grid;
  adji_prefilter_stats prefilter;
} adji_device_stats;

void adji_device_stats_add(adji_device_stats *to, const adji_device_stats *more);
/* Adds to `to` what `now` has beyond *reported, and sets *reported to `now`. */
void adji_device_stats_report(const adji_device_stats *now, adji_device_stats *reported, adji_device_stats *to);

#endif
