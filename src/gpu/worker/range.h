/* SPDX-License-Identifier: MIT
 *
 * A device as a worker of a range join: alone, in the order of the result; or beside the cores, by lists of queries.
 */
#ifndef ADJI_GPU_WORKER_RANGE_H
#define ADJI_GPU_WORKER_RANGE_H

#include "cpu/range_queue.h"
#include "gpu/papers/point_batches.h"
#include "gpu/range/range.h"
#include "queue/engine.h"

/* Bytes of one batch of the result, unless the options say otherwise: few enough that the first batch is copied soon,
 * and enough for a kernel to fill the device. */
static const uint64_t ADJI_GPU_BATCH = (uint64_t)256 << 20;

typedef struct adji_gpu_worker_options {
  adji_gpu_range_options range;
  bool reopened;              /* the worker may be reopened, so points are kept on the device until the first pass */
  uint64_t batch_bytes;       /* of the device, for one batch of the result; 0: the default */
  uint64_t slots;             /* batches in flight; 0: the default */
  uint64_t slices;            /* least slices of a count; 0: chosen by the candidates */
  uint64_t chunk;             /* points of a set at a time; 0: all, if they fit */
  adji_batch_options batches; /* of the papers' kernels */
} adji_gpu_worker_options;

/* Whether a device can take part in the join beside the cores. Otherwise the message says why not. */
adj_status adji_gpu_range_can_share(const adji_gpu_worker_options *options);

/* Opens the number-th device of the context, copies the points there and builds the index. Measure and grid outlive the
 * worker. May be called by any thread. */
adj_status adji_gpu_range_worker_create(const adji_gpu_worker_options *options, uint32_t number, adji_worker *out);

/* Called before the first pass beside other workers: rows[i] is the row of their i-th query. NULL: they use this
 * device's order. */
adj_status adji_gpu_range_worker_follow(adji_worker *worker, const uint32_t *rows);
/* Copies the order of the device to host memory. */
adj_status adji_gpu_range_worker_order(adji_worker *worker, uint32_t *rows);

/* Builds the index of a worker again, with another grid and order, from the points that it kept; if it kept none, they
 * are copied again. After a failure the worker can only be destroyed. */
adj_status adji_gpu_range_worker_reopen(adji_worker *worker, const adji_gpu_range_options *options);

/* Makes the queue of HEGJoin from the device's grid, in host memory that the caller frees. part: the fraction of the
 * queries that are counted. From now on the device computes up to `streams` batches of the queue at a time, each in one
 * list; the second function only sets that number. */
adj_status adji_gpu_range_worker_queue(adji_worker *worker, double part, uint32_t streams, adji_range_queue *out);
void adji_gpu_range_worker_streams(adji_worker *worker, uint32_t streams);

/* Whether the device has room to keep this many pairs in a single evaluation. */
bool adji_gpu_range_worker_has_room(adji_worker *worker, uint64_t pairs);

/* Estimates from some queries spread over the order of the index, scaled up to all. */
adj_status adji_gpu_range_worker_estimate(adji_worker *worker, uint64_t sample, double *pairs, double *candidates);
/* The number of non-empty cells. Known after an estimate or a count. */
uint64_t adji_gpu_range_worker_cells(const adji_worker *worker);

/* An estimate of what the device would take for all queries, from some of them in its own order. */
typedef struct adji_range_trial {
  double count_s; /* to count; filling takes about as long, plus the writing */
  double copy_s;  /* to copy the rows to the host */
  double pairs, candidates;
  uint64_t queries; /* the number of queries tried */
} adji_range_trial;
/* Estimates by the time of the kernel that samples: rough, since few queries do not keep a device busy. */
adj_status adji_gpu_range_worker_guess(adji_worker *worker, uint64_t sample, adji_range_trial *out);
/* Estimates by the time of two lists. The very first list of a process includes loading kernels; then the estimate by
 * the second list alone is an upper bound. */
adj_status adji_gpu_range_worker_try(adji_worker *worker, uint64_t queries, adji_range_trial *out);

/* ---- A device alone ---------------------------------------------------------------------------------- */

/* Makes an engine with the context's first device as its worker: with all points on the device or, if they do not fit,
 * with some at a time (chunks.h). */
adj_status adji_gpu_range_create(const adji_gpu_worker_options *options, adji_engine *out);

/* Whether that engine would have all points on the device. Whether it could join by regions if they do not fit
 * (chunks.h). */
bool adji_gpu_range_fits(const adji_gpu_worker_options *options);
bool adji_gpu_range_by_regions(const adji_gpu_worker_options *options);

/* The same as above, for such an engine. */
adj_status adji_gpu_range_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);
uint64_t adji_gpu_range_engine_cells(const adji_engine *engine);
/* The number of points of a set at a time; 0: all of them. And whether these are regions. */
uint64_t adji_gpu_range_engine_chunk(const adji_engine *engine);
bool adji_gpu_range_engine_has_regions(const adji_engine *engine);

#endif
