/* SPDX-License-Identifier: MIT
 *
 * The worker of a range join that a device does alone: with all points on the device, or in chunks.
 */
#ifndef ADJI_GPU_WORKER_RANGE_CREATE_H
#define ADJI_GPU_WORKER_RANGE_CREATE_H

#include "gpu/worker/range.h"

/* Opens the context's first device, copies the points there and builds the index. Where they do not fit, the worker
 * does so with some at a time (chunks.h). */
adj_status adji_gpu_range_create(const adji_gpu_worker_options *options, adji_engine *out);

/* From some queries spread over the order of the index, scaled up to all. */
adj_status adji_gpu_range_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);
/* Known after an estimate or a count. */
uint64_t adji_gpu_range_engine_cells(const adji_engine *engine);
/* Points of a set at a time; 0: all of them. */
uint64_t adji_gpu_range_engine_chunk(const adji_engine *engine);

#endif
