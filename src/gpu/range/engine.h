/* SPDX-License-Identifier: MIT
 *
 * The engine of range joins on a GPU.
 */
#ifndef ADJI_GPU_RANGE_ENGINE_H
#define ADJI_GPU_RANGE_ENGINE_H

#include "gpu/range/range.h"

/* Bytes of one batch of the result, unless told otherwise: few enough that the first one is soon on its way, enough for
 * a kernel that fills the device. */
static const uint64_t ADJI_GPU_BATCH = (uint64_t)256 << 20;

typedef struct adji_gpu_engine_options {
  adji_gpu_range_options range;
  uint64_t batch_bytes; /* of the device, for one batch of the result; 0: ADJI_GPU_BATCH */
  uint64_t slots;       /* batches in flight; 0: the default                          */
  uint64_t chunk;       /* points of a set at a time; 0: all, if they fit             */
} adji_gpu_engine_options;

/* Opens the context's device, copies the points there and builds the index; or, where they do not fit, makes an engine
 * that does so with some at a time (gpu/range/chunks.h). Measure and grid outlive the engine. */
adj_status adji_gpu_engine_create(const adji_gpu_engine_options *options, adji_engine *out);

/* The same for points that are on a device with their index, which is the engine's from then on. */
adj_status adji_gpu_engine_adopt(const adji_gpu_engine_options *options, adji_gpu *gpu, adji_gpu_range *range,
                                 adji_engine *out);

/* The rows of a window from a device, which is the caller's: what its range has counted, and has the offsets of. */
typedef struct adji_gpu_filling {
  adji_gpu *gpu;
  adji_gpu_range *range;
  const adji_row_style *style;
  uint64_t batch_bytes; /* as in the options */
  uint64_t slots;
  uint64_t longest; /* no row is longer */
} adji_gpu_filling;
adj_status adji_gpu_fill(const adji_gpu_filling *filling, adji_run *run, const adji_window *window);

/* From some queries spread over the order of the index, scaled up to all. */
adj_status adji_gpu_engine_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates);
/* Known after an estimate or a count. */
uint64_t adji_gpu_engine_cells(const adji_engine *engine);
/* Points of a set at a time; 0: all of them. */
uint64_t adji_gpu_engine_chunk(const adji_engine *engine);

#endif
