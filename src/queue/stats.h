/* SPDX-License-Identifier: MIT
 *
 * What workers report about a run: counts of the join itself, and the work and times of devices.
 */
#ifndef ADJI_STATS_H
#define ADJI_STATS_H

#include <stdint.h>

#include "core/exact.h"

/* What a batch, a pass or a run counted. */
typedef struct adji_tally {
  uint64_t pairs, candidates;
} adji_tally;

/* The work of the cores together, or of one device, in passes that several workers shared. */
typedef struct adji_worker_stats {
  const char *name;
  const void *who; /* state of the worker; NULL: the cores   */
  uint64_t queries, batches;
  uint64_t failed; /* queries that it returned unanswered    */
  double busy_s;   /* for the cores: the mean over all lanes */
} adji_worker_stats;

/* A kNN join through a grid (gpu/papers/knn_grid.h); all 0 for others. */
typedef struct adji_knn_grid_stats {
  uint64_t queries; /* searches, including repeated ones */
  uint64_t failed;  /* searches that found fewer than k neighbours */
  uint64_t reindexed;
  double epsilon; /* the first epsilon */
  double epsilon_s, reindex_s;
} adji_knn_grid_stats;

/* A brute-force kNN join with a prefilter on a GPU (gpu/brute/); all 0 for others. */
typedef struct adji_prefilter_stats {
  uint64_t queries;
  uint64_t sums;                 /* canonical sums, of candidates that passed */
  uint64_t again, failed;        /* queries that needed longer lists; queries answered without the prefilter */
  uint64_t tiles, tiles_scanned; /* with points in tree order: pairs of a tile of candidates and 32 queries */
} adji_prefilter_stats;

/* The work of devices in a run; all 0 where none took part. Seconds of waiting and placing are summed over the
 * lanes. */
typedef struct adji_device_stats {
  double kernel_s;               /* the device's time for kernels              */
  double up_s, down_s;           /* waiting for copies to the device, and back */
  double place_s;                /* copying arrived rows to their places       */
  uint64_t bytes_up, bytes_down; /* of points; of counts and pairs             */
  uint64_t slots, compared; /* pairs that the lanes of warps had room for, and compared; where kernels count them */
  adji_knn_grid_stats grid;
  adji_prefilter_stats prefilter;
} adji_device_stats;

void adji_device_stats_add(adji_device_stats *to, const adji_device_stats *more);
/* Adds to `to` what `now` has beyond *reported, and sets *reported to `now`. */
void adji_device_stats_report(const adji_device_stats *now, adji_device_stats *reported, adji_device_stats *to);

#endif
