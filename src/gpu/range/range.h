/* SPDX-License-Identifier: MIT
 *
 * The range join on a device: what the engine (engine.c), which is host code, asks of it. Rows of the result are
 * filled window by window into slots on the device; the engine fetches them from there.
 */
#ifndef ADJI_GPU_RANGE_RANGE_H
#define ADJI_GPU_RANGE_RANGE_H

#include "gpu/device/device.h"
#include "gpu/papers/access.h"
#include "gpu/shared/halves.h"
#include "index/grid.h"
#include "queue/join.h"
#include "queue/queue.h"
#include "queue/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct adji_gpu_range adji_gpu_range;

/* In few dimensions the coordinates of a point lie together in the index, in so many elements that a lane loads them at
 * once; where one of these is left over, the last holds the bits of the id. 0: dimension by dimension. */
#define ADJI_GPU_WIDTH(dim) ((dim) <= 2 ? (dim) : (dim) <= 4 ? 4 : (dim) <= 6 ? 8 : 0)

/* Most entries of a directory of cells, a little less than two a point: the directory, the numbers and the ids of
 * points in a plane then take less than twice the bytes of the points. */
#define ADJI_GPU_BUCKETS(points) (2 * (points) - (points) / 16 + 1024)

/* Points on the device, as they came: coordinate j of row i is at data[i * row_stride + j * column_stride], in
 * elements. */
typedef struct adji_gpu_rows {
  const void *data;
  adj_type type;
  uint32_t dim;
  uint64_t count;
  uint64_t row_stride, column_stride;
} adji_gpu_rows;

/* Whether there is a kernel that compares every two points of a self-join once: in so many dimensions queries fit into
 * shared memory. */
enum { ADJI_MOST_MIRRORED = 64 };
static inline bool adji_gpu_can_mirror(const adji_measure *measure, uint32_t dim) {
  return measure->step == ADJI_STEP_L2 && dim > 3 && dim <= ADJI_MOST_MIRRORED;
}

typedef struct adji_gpu_range_options {
  const adji_join *join; /* copied */
  const adji_measure *measure;
  const adji_grid *grid;
  /* Points that are on the device already; the sets of the join then hold none. NULL: they are copied there. */
  const adji_gpu_rows *left_rows, *right_rows;
  const adji_halves_plan *tensor; /* the prefilter of tensor cores; not used, or NULL: none. Copied */
  bool timed;                     /* adji_gpu_range_work tells the seconds of kernels */
  bool mirrored;                  /* counts by comparing every two points once, where there are kernels for that   */
  bool single;                /* evaluates pairs once: a count that is followed by fills keeps what it finds         */
  uint64_t single_pairs;      /* room for so many pairs is made for that; 0: by an estimate. Too few: evaluated again */
  double tile_hit_candidates; /* of a query, estimated: a count keeps which of them belong to it, for a fill of all
                              rows, where there are kernels for that; 0: it does not */
  bool query_hits;            /* the same with few candidates: instead of tile hits, where there are kernels for that */
  const uint32_t *order;      /* host, for a self-join without images: the rows in the order of another index over the
                                 same grid, which this one must have too; NULL: any order                         */
  uint32_t blocks;            /* of threads that compare at a time; 0: as many as there is room for             */
  adji_point_options points;  /* kernels other than the default ones, which do not evaluate once                */
} adji_gpu_range_options;

/* What a count found. */
typedef struct adji_gpu_counted {
  uint64_t pairs, candidates, longest;
  uint64_t slots; /* comparisons that the warps had lanes for while counting; candidates are those that were made */
  bool redone;    /* what was kept did not fit its room, and pairs will be evaluated again */
} adji_gpu_counted;

/* Rows first .. end - 1 of the result. */
typedef struct adji_gpu_window {
  uint64_t first_row, end_row;
  uint64_t base, pairs; /* entries of the whole result it holds: base .. base + pairs - 1 */
} adji_gpu_window;

typedef enum adji_gpu_part { ADJI_PART_IDS, ADJI_PART_SUMS } adji_gpu_part;

/* Copies the points to the device and builds the index there. */
adj_status adji_gpu_range_open(adji_gpu *gpu, const adji_gpu_range_options *options, adji_gpu_range **out);
void adji_gpu_range_close(adji_gpu_range *range);
/* Known after the first count or sample. */
uint64_t adji_gpu_range_cells(const adji_gpu_range *range);

/* What a plan needs to know of points on the device: bounds to low and high (dim entries each), and `sample` rows
 * spread over them, packed, to rows. Every coordinate must be finite. */
uint64_t adji_gpu_survey_rows(uint32_t dim, adj_type type); /* the largest sample that it can take, at least 1 */
adj_status adji_gpu_survey(adji_gpu *gpu, const adji_gpu_rows *points, double *low, double *high, uint64_t sample,
                           void *rows);
/* The failure of a coordinate that is not, number row * dim + column. */
adj_status adji_gpu_refuse_value(uint64_t value, uint32_t dim);

/* What the device did for this join until now, as far as it is over: kernels, and the copies of the points. */
adji_device_stats adji_gpu_range_work(adji_gpu_range *range);

/* Begins to count all rows, whose degrees and offsets stay on the device, and waits for the end of it. fills: some will
 * follow. */
adj_status adji_gpu_range_count(adji_gpu_range *range, bool fills);
adj_status adji_gpu_range_counted(adji_gpu_range *range, adji_gpu_counted *out);
/* The same for queries that are not known at once and are compared in between (gpu/range/range_list.h): each finds what
 * comes behind it in the order, and that is counted for both. keep: for fills, which then have what was found and no
 * more. Both fail with ADJ_E_DEVICE_MEMORY where there is no room for it. */
adj_status adji_gpu_range_begin_count(adji_gpu_range *range, bool keep);
adj_status adji_gpu_range_end_count(adji_gpu_range *range, adji_gpu_counted *out);
/* Before the second of them, where pairs are kept: room on the device for so many more, of two words each, row and id,
 * the lower one first if each is to be in one row only; and for their sums, unless NULL. They are copied there by who
 * asks, once. */
typedef struct adji_gpu_more {
  void *pairs, *sums;
} adji_gpu_more;
adj_status adji_gpu_range_add(adji_gpu_range *range, uint64_t pairs, adji_gpu_more *out);
/* Counts `sample` queries spread over the order of the index, and scales up. */
adj_status adji_gpu_range_sample(adji_gpu_range *range, uint64_t sample, double *pairs, double *candidates);
/* Where the results of the count are: device memory. */
const uint32_t *adji_gpu_range_degrees(const adji_gpu_range *range);
const uint64_t *adji_gpu_range_offsets(const adji_gpu_range *range);

/* The counts of the rows to other memory of the device. */
adj_status adji_gpu_range_copy_degrees(adji_gpu_range *range, uint32_t *to);

/* Gives the counts of the rows back: a fill goes by the offsets, and nobody asks for the counts again. */
void adji_gpu_range_forget_degrees(adji_gpu_range *range);

/* Makes `count` slots for `pairs` entries each; what was there before goes. ADJ_E_DEVICE_MEMORY when they do not fit.
 */
adj_status adji_gpu_range_slots(adji_gpu_range *range, uint32_t count, uint64_t pairs);
/* Begins to fill a slot with the rows of a window, in order. Returns before it is done. */
adj_status adji_gpu_range_fill(adji_gpu_range *range, const adji_gpu_window *window, uint32_t slot);
/* Begins to copy entries of a slot into a pinned buffer (gpu/device/staging.h), in any order. */
adj_status adji_gpu_range_fetch(adji_gpu_range *range, uint32_t slot, adji_gpu_part part, uint64_t first,
                                uint64_t entries, uint32_t buffer);
/* The slot is filled again only after the copies that were asked for until now. */
adj_status adji_gpu_range_release(adji_gpu_range *range, uint32_t slot);
/* A filled slot and the offsets change hands: from now on they are the caller's. Distances take the place of sums where
 * they were asked for. */
typedef struct adji_gpu_csr {
  adji_gpu *gpu;
  uint64_t rows, pairs; /* kNN: padding is not counted */
  uint64_t *offsets;
  uint32_t *ids;
  void *distances;
  uint64_t bytes[3]; /* of the three */
} adji_gpu_csr;
adj_status adji_gpu_range_take(adji_gpu_range *range, uint32_t slot, adji_gpu_csr *out);
/* After what stream was asked before. */
void adji_gpu_csr_free(adji_gpu_csr *csr, void *stream);

/* Gives back what the count kept: fills compare again, unless what was kept is all they have. Returns whether there was
 * any; and the same of what is for a fill of all rows only, tile hits and query hits. */
bool adji_gpu_range_forget(adji_gpu_range *range);
bool adji_gpu_range_forget_whole(adji_gpu_range *range);
/* Gives back what the count kept, and the slots, all of which were fetched: no fill follows. */
void adji_gpu_range_end_fills(adji_gpu_range *range);
/* After all fills: ADJ_E_INTERNAL when rows were not as long as counted. */
adj_status adji_gpu_range_check(adji_gpu_range *range);

#ifdef __cplusplus
}
#endif
#endif
