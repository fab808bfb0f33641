/* SPDX-License-Identifier: MIT
 *
 * The engine of kNN joins on a GPU.
 */
#ifndef ADJI_GPU_NEAREST_ENGINE_H
#define ADJI_GPU_NEAREST_ENGINE_H

#include "distance/measure.h"
#include "queue/join.h"

/* What is wanted, and how, as adji_gpu_nearest_options has it. */
typedef struct adji_nearest_wish {
  const adji_join *join;
  const adji_measure *measure;
  uint64_t rows_at_once;
  uint32_t budget, blocks;
  bool alone, together;
} adji_nearest_wish;

/* Opens the context's device, copies the points there and builds the trees. ADJ_E_UNSUPPORTED where there is no
 * kernel for the join. */
adj_status adji_gpu_nearest_create(const adji_nearest_wish *wish, adji_engine *out);

/* The engine of a join that is open on a device already, which is the engine's from then on. */
struct adji_gpu;
struct adji_gpu_nearest;
adj_status adji_gpu_nearest_adopt(const adji_join *join, struct adji_gpu *gpu, struct adji_gpu_nearest *nearest,
                                  adji_engine *out);

#endif
