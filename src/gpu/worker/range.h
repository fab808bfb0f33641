/* SPDX-License-Identifier: MIT
 *
 * A device as a worker of a range join: alone, in the order of the result, or beside the cores, by lists.
 */
#ifndef ADJI_GPU_WORKER_RANGE_H
#define ADJI_GPU_WORKER_RANGE_H

#include "cpu/range_queue.h"
#include "gpu/papers/point_batches.h"
#include "gpu/range/range.h"
#include "queue/engine.h"

/* Bytes of one batch of the result, unless the options say otherwise: few enough that the first one is soon on its way,
 * enough for a kernel that fills the device. */
static const uint64_t ADJI_GPU_BATCH = (uint64_t)256 << 20;

typedef struct adji_gpu_worker_options {
  adji_gpu_range_options range;
  bool reopened;              /* perhaps: points are kept on the device until the first pass */
  uint64_t batch_bytes;       /* of the device, for one batch of the result; 0: the default */
  uint64_t slots;             /* batches in flight; 0: the default                          */
  uint64_t slices;            /* of a count, at least; 0: by the candidates                 */
  uint64_t chunk;             /* points of a set at a time; 0: all, if they fit             */
  adji_batch_options batches; /* of the papers' kernels                               */
} adji_gpu_worker_options;

/* Whether a device can take part in the join beside the cores: otherwise the message says why not. */
adj_status adji_gpu_range_can_share(const adji_gpu_worker_options *options);

/* Opens the number-th device of the context, copies the points there and builds the index. Measure and grid outlive the
 * worker. Any thread. */
adj_status adji_gpu_range_worker_create(const adji_gpu_worker_options *options, uint32_t number, adji_worker *out);

/* Before the first pass beside others: rows[i] is the row of their i-th query. NULL: they have this device's order. */
adj_status adji_gpu_range_worker_follow(adji_worker *worker, const uint32_t *rows);
/* The order of the device, to host memory. */
adj_status adji_gpu_range_worker_order(adji_worker *worker, uint32_t *rows);

/* Builds the index of a worker again, with another grid and order, from the points that it kept; without them they are
 * copied once more. A worker that fails can only be destroyed. */
adj_status adji_gpu_range_worker_reopen(adji_worker *worker, const adji_gpu_range_options *options);

/* The queue of HEGJoin, from the device's grid, to host memory that the caller frees. part: of the queries are counted.
 * From now on the device computes up to `streams` batches of the queue at a time, each in one list; the second function
 * does only that. */
adj_status adji_gpu_range_worker_queue(adji_worker *worker, double part, uint32_t streams, adji_range_queue *out);
void adji_gpu_range_worker_streams(adji_worker *worker, uint32_t streams);

/* Whether the device has room to keep so many pairs in a single evaluation. */
bool adji_gpu_range_worker_has_room(adji_worker *worker, uint64_t pairs);

/* From some queries spread over the order of the index, scaled up to all. */
adj_status adji_gpu_range_worker_estimate(adji_worker *worker, uint64_t sample, double *pairs, double *candidates);
/* Non-empty cells: known after an estimate or a count. */
uint64_t adji_gpu_range_worker_cells(const adji_worker *worker);

/* What the device would take for all queries, from so many of them in its own order. */
typedef struct adji_range_trial {
  double count_s; /* to count; filling takes about as long, and writes as well */
  double copy_s;  /* of the rows to the host                                   */
  double pairs, candidates;
  uint64_t queries; /* that were tried */
} adji_range_trial;
/* By the time of the kernel that estimates: rough, since few queries do not keep a device busy. */
adj_status adji_gpu_range_worker_guess(adji_worker *worker, uint64_t sample, adji_range_trial *out);
/* By the time of two lists. The first list of all includes loading kernels; then the time of the second is an upper
 * bound, too. */
adj_status adji_gpu_range_worker_try(adji_worker *worker, uint64_t queries, adji_range_trial *out);

/* ---- A device alone ---------------------------------------------------------------------------------- */

/* An engine with the context's first device as its worker: with all points on the device or, where they do not fit,
 * with some at a time (chunks.h). */
adj_status adji_gpu_range_create(const adji_gpu_worker_options *options, adji_engine *out);

/* Whether it would have all points on the device, or joins them by regions, as fast as such joins are (chunks.h). */
bool adji_gpu_range_fits(const adji_gpu_worker_options *options);
bool adji_gpu_range_by_regions(const adji_gpu_worker_options *options);

/* As above, of such an engine. */
adj_status adji_gpu_range_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);
uint64_t adji_gpu_range_engine_cells(const adji_engine *engine);
/* Points of a set at a time; 0: all of them. And whether these are regions. */
uint64_t adji_gpu_range_engine_chunk(const adji_engine *engine);
bool adji_gpu_range_engine_has_regions(const adji_engine *engine);

#endif
