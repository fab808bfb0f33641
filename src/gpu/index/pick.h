/* SPDX-License-Identifier: MIT
 *
 * Copies some points out of a set on a device: those of a region of space and around it, or those in marked cells
 * (index/marked.h). This is for sets whose points fit a device, but not together with their trees and results. A device
 * reads all its points many times faster than a region of them comes from the host.
 */
#ifndef ADJI_GPU_INDEX_PICK_H
#define ADJI_GPU_INDEX_PICK_H

#include "gpu/device/device.h"
#include "index/marked.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ADJI_PICK_DIMS = 6 };

/* A region's own points have low <= x < high in every dimension. The points around it have near_low <= x <= near_high.
 * All bounds are values of the type of the points, or infinite. */
typedef struct adji_gpu_region {
  double low[ADJI_PICK_DIMS], high[ADJI_PICK_DIMS];
  double near_low[ADJI_PICK_DIMS], near_high[ADJI_PICK_DIMS];
} adji_gpu_region;

/* What to pick: a region's own points and those around it, or the points in marked cells. */
typedef struct adji_gpu_picking {
  const adji_gpu_region *region; /* NULL: marked cells */
  const adji_marked *marked;
  const uint64_t *own; /* marked cells: one bit per point of the set, 1 for own points; NULL: none is one */
  uint64_t most;       /* pick nothing if there are more points than this */
  /* The numbers of points, if adji_gpu_pick_count has found them: the call then does not wait for the device. 0: not
   * known. */
  uint64_t own_count, all_count;
} adji_gpu_picking;

/* Picked points, by ascending number in the set. All arrays are on the device. */
typedef struct adji_gpu_pick {
  adji_gpu *gpu;           /* NULL: nothing was picked */
  adji_gpu_rows rows;      /* packed by rows */
  uint64_t own;            /* the number of own points */
  const uint32_t *ids;     /* their numbers in the set */
  const uint32_t *places;  /* for each point: its number among own points; ADJ_NO_ID: it is not one */
  const uint32_t *own_ids; /* the numbers of own points in the set */
  uint64_t bytes[3];       /* of the points; of ids and places, which are contiguous; of own_ids */
} adji_gpu_pick;

/* Counts the points of a set: the region's own points, and all that would be picked. */
ADJI_OP adj_status adji_gpu_pick_count(adji_gpu *gpu, const adji_gpu_rows *set, const adji_gpu_region *region,
                                       uint64_t *own, uint64_t *all);
/* Picks points. out->rows.count is the number of points to pick, also if it is more than `most`. Device memory: 12
 * bytes and the point for each picked point; during the call also 24 bytes per 256 points of the set, and the tables of
 * marked cells and points. */
ADJI_OP adj_status adji_gpu_pick_open(adji_gpu *gpu, const adji_gpu_rows *set, const adji_gpu_picking *request,
                                      adji_gpu_pick *out);
ADJI_OP void adji_gpu_pick_close(adji_gpu_pick *pick);
/* Free parts that are no longer needed: the points; ids and places. The rest stays. */
ADJI_OP void adji_gpu_pick_drop_points(adji_gpu_pick *pick);
ADJI_OP void adji_gpu_pick_drop_ids(adji_gpu_pick *pick);

#ifdef __cplusplus
}
#endif
#endif
