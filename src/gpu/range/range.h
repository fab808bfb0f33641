/* SPDX-License-Identifier: MIT
 *
 * The range join on a device, for the workers of devices (gpu/worker), which are host code. Rows of the result are
 * filled window by window into slots on the device; the host fetches them from there.
 */
#ifndef ADJI_GPU_RANGE_RANGE_H
#define ADJI_GPU_RANGE_RANGE_H

#include "gpu/device/device.h"
#include "gpu/index/index.h"
#include "gpu/index/right.h"
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

/* The step of a sample that takes every step-th query of a queue: about the fraction `part` of the queries. It is at
 * least 1 and at most the number of queries. */
static inline uint64_t adji_queue_step(uint64_t queries, double part) {
  double step = 1 / part;
  return step < 1 ? 1 : step > (double)queries ? (queries ? queries : 1) : (uint64_t)step;
}

/* Whether there is a kernel that compares each pair of points of a self-join only once. Its queries must fit into
 * shared memory, which limits the number of dimensions. */
enum { ADJI_MOST_MIRRORED = 64 };
static inline bool adji_gpu_can_mirror(const adji_measure *measure, uint32_t dim) {
  return measure->step == ADJI_STEP_L2 && dim > 3 && dim <= ADJI_MOST_MIRRORED;
}

/* The size of a sample where all pairs are compared. Such a sample takes its share of the time of the whole join, so it
 * has at most 1 / PART of the queries, or LEAST queries if these are more. */
static inline uint64_t adji_all_pairs_sample(uint64_t queries, uint64_t wanted) {
  enum { LEAST = 512, PART = 16 };
  uint64_t most = queries / PART > LEAST ? queries / PART : LEAST;
  return wanted < most ? wanted : most;
}

typedef struct adji_gpu_range_options {
  const adji_join *join; /* copied */
  const adji_measure *measure;
  const adji_grid *grid;
  /* Points that are on the device already; the sets of the join then hold none. NULL: points are copied to the
   * device. */
  const adji_gpu_rows *left_rows, *right_rows;
  adji_gpu_right *right;         /* a tree or a grid of the right set; NULL: made for this join, from grid */
  const adji_gpu_lender *lender; /* workers: lends the right set; NULL: nothing is lent */
  bool tree;                     /* queries are searched in a tree, not in a grid */
  /* left_rows may have values that are not finite: adji_gpu_range_counted then fails. Only with a tree and up to
   * ADJI_PACKED_QUERIES rows. Nothing else may use the device until adji_gpu_range_counted returns. */
  bool checks_left;
  /* Receives the device's copy of the right points, for another range join over them. NULL: the copy is freed. With the
   * prefilter of tensor cores nothing is received, since the prefilter needs the copy. */
  adji_gpu_points *keep;
  const adji_halves_plan *tensor; /* the prefilter of tensor cores, copied; NULL, or its use not set: none */
  bool timed;                     /* adji_gpu_range_work reports the seconds that kernels take */
  bool all_pairs;                 /* from seven dimensions on, with neither axes nor prefilter: compares in tiles */
  bool mirrored;                  /* counts by comparing each pair of points once, if there are kernels for that */
  bool single;                    /* single evaluation: a count that fills will follow caches the pairs it finds */
  uint64_t single_pairs; /* room of that cache, in pairs; 0: estimated. If it is too small, pairs are evaluated again */
  double tile_hit_candidates; /* estimated candidates per query: a count caches tile hits for a fill of all rows, if
                                 there are kernels for that; 0: it does not */
  bool query_hits;            /* the same with query hits, for few candidates, if there are kernels for that */
  const uint32_t *order;     /* in host memory, for a self-join without images: the order of another index over the same
                                grid, which this index must also have; NULL: any order */
  uint32_t blocks;           /* thread blocks that run at a time; 0: as many as fit */
  adji_point_options points; /* kernels other than the default ones; these have no single evaluation */
} adji_gpu_range_options;

/* The result of a count. */
typedef struct adji_gpu_counted {
  uint64_t pairs, candidates, longest;
  uint64_t slots; /* comparisons that the warps had lanes for; candidates: comparisons that were made */
  bool redone;    /* the count cache was too small, and pairs will be evaluated again */
} adji_gpu_counted;

typedef enum adji_gpu_part { ADJI_PART_IDS, ADJI_PART_SUMS } adji_gpu_part;

/* Copies the points to the device and builds the index there. */
ADJI_OP adj_status adji_gpu_range_open(adji_gpu *gpu, const adji_gpu_range_options *options, adji_gpu_range **out);
ADJI_OP void adji_gpu_range_close(adji_gpu_range *range);
/* The number of cells that hold right points. Known after the first count or sample. */
ADJI_OP uint64_t adji_gpu_range_cells(const adji_gpu_range *range);

/* What the device has completed for this join so far: kernels, and the copies of the points. */
ADJI_OP adji_device_stats adji_gpu_range_work(adji_gpu_range *range);

/* Starts to count the neighbours of `queries` queries, from number `first` on in the order of the index. The slices of
 * a count follow each other, from query 0 to the last one; with UINT64_MAX queries one launch does all. Degrees and
 * offsets stay on the device. fills: the rows will be filled. */
ADJI_OP adj_status adji_gpu_range_count(adji_gpu_range *range, bool fills, uint64_t first, uint64_t queries);
/* Between two slices: waits for the device and reports what was found so far. */
ADJI_OP adj_status adji_gpu_range_so_far(adji_gpu_range *range, adji_tally *found);
/* After the last slice: waits for the device and reports the totals. */
ADJI_OP adj_status adji_gpu_range_counted(adji_gpu_range *range, adji_gpu_counted *out);
/* A count of queries that come in lists between these two calls (gpu/range/range_list.h). Each query finds only the
 * neighbours after it in the order of the index, and each such pair counts for both points. keep: pairs are cached for
 * fills, which then have no other source. Both calls fail with ADJ_E_DEVICE_MEMORY if there is no room for the
 * cache. */
ADJI_OP adj_status adji_gpu_range_begin_count(adji_gpu_range *range, bool keep);
ADJI_OP adj_status adji_gpu_range_end_count(adji_gpu_range *range, adji_gpu_counted *out);
/* Before adji_gpu_range_end_count, if pairs are cached: room on the device for `pairs` more pairs, which the caller
 * copies there. A pair has two words, row and id; if it belongs to one row only, the lower one comes first. sums: room
 * for their sums; NULL: sums are not cached. May be called once per count. */
typedef struct adji_gpu_more {
  void *pairs, *sums;
} adji_gpu_more;
ADJI_OP adj_status adji_gpu_range_add(adji_gpu_range *range, uint64_t pairs, adji_gpu_more *out);
/* Counts `sample` queries spread over the order of the index, and scales the totals up. */
ADJI_OP adj_status adji_gpu_range_sample(adji_gpu_range *range, uint64_t sample, double *pairs, double *candidates);
/* The queue of HEGJoin (sections 3.1 and 4.2), with the papers' kernels only. rows: the rows of all queries, those with
 * the most candidates first. counts: the number of neighbours of every step-th of them, `samples` in all. Both are
 * device memory and stay valid until adji_gpu_range_forget_queue or the end of the join. */
typedef struct adji_gpu_queue {
  const uint32_t *rows, *counts;
  uint64_t samples, step;
} adji_gpu_queue;
ADJI_OP adj_status adji_gpu_range_make_queue(adji_gpu_range *range, double part, adji_gpu_queue *out);
ADJI_OP void adji_gpu_range_forget_queue(adji_gpu_range *range);

/* The results of the count, in device memory. */
ADJI_OP const uint32_t *adji_gpu_range_degrees(const adji_gpu_range *range);
ADJI_OP const uint64_t *adji_gpu_range_offsets(const adji_gpu_range *range);

/* Copies the counts of the rows to other device memory. */
ADJI_OP adj_status adji_gpu_range_copy_degrees(adji_gpu_range *range, uint32_t *to);

/* Frees the counts of the rows. Fills only need the offsets. */
ADJI_OP void adji_gpu_range_forget_degrees(adji_gpu_range *range);

/* Makes `count` slots of `pairs` entries each, in place of earlier ones. ADJ_E_DEVICE_MEMORY when they do not fit. */
ADJI_OP adj_status adji_gpu_range_slots(adji_gpu_range *range, uint32_t count, uint64_t pairs);
/* Starts to fill a slot with the rows of a window, in order. Returns before it is done. */
ADJI_OP adj_status adji_gpu_range_fill(adji_gpu_range *range, const adji_gpu_window *window, uint32_t slot);
/* Starts to copy entries of a slot into a pinned buffer (gpu/device/staging.h), in any order. */
ADJI_OP adj_status adji_gpu_range_fetch(adji_gpu_range *range, uint32_t slot, adji_gpu_part part, uint64_t first,
                                        uint64_t entries, uint32_t buffer);
/* Allows the slot to be filled again, once the copies started so far are done. */
ADJI_OP adj_status adji_gpu_range_release(adji_gpu_range *range, uint32_t slot);
/* Hands a filled slot and the offsets over to the caller, who owns them from then on. If distances were requested, they
 * replace the sums. */
ADJI_OP adj_status adji_gpu_range_take(adji_gpu_range *range, uint32_t slot, adji_gpu_csr *out);

/* Frees the count cache, and returns whether there was one. Later fills compare again, which is impossible after
 * adji_gpu_range_begin_count. forget_whole: frees only tile hits and query hits, which serve a fill of all rows. */
ADJI_OP bool adji_gpu_range_forget(adji_gpu_range *range);
ADJI_OP bool adji_gpu_range_forget_whole(adji_gpu_range *range);
/* Frees the count cache and the slots, once all slots were fetched. No fill follows. */
ADJI_OP void adji_gpu_range_end_fills(adji_gpu_range *range);
/* After all fills: fails with ADJ_E_INTERNAL if the length of a row differs from its count. */
ADJI_OP adj_status adji_gpu_range_check(adji_gpu_range *range);

#ifdef __cplusplus
}
#endif
#endif
