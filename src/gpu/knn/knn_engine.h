/* SPDX-License-Identifier: MIT
 *
 * The engine of kNN joins on a GPU.
 */
#ifndef ADJI_GPU_KNN_KNN_ENGINE_H
#define ADJI_GPU_KNN_KNN_ENGINE_H

#include "core/names.h"
#include "distance/measure.h"
#include "gpu/brute/brute.h"
#include "gpu/papers/knn_grid.h"
#include "queue/join.h"

/* What is wanted, and how, as adji_gpu_knn_options has it. */
typedef struct adji_knn_request {
  const adji_join *join;
  const adji_measure *measure;
  uint64_t rows_at_once;
  uint32_t budget, blocks;
  bool alone, together, cut;
  bool brute; /* by brute force, as choice says, not through trees */
  adji_brute_choice choice;
  adji_knn_grid_options grid;
} adji_knn_request;

/* Trees, a grid or brute force: sets request->brute and request->grid.use, and *reason to why. algorithm: what was
 * asked for. Refuses what cannot be. */
adj_status adji_gpu_knn_choose(adji_knn_request *request, adji_algorithm algorithm, const char **reason);

/* Opens the context's device, copies the points there and builds the trees, if there are any. */
adj_status adji_gpu_knn_create(const adji_knn_request *request, adji_engine *out);
/* Points of the right set that the device has at a time; 0: all of them. */
uint64_t adji_gpu_knn_engine_chunk(const adji_engine *engine);

/* The engine of a join that is open on a device already, which is the engine's from then on. */
struct adji_gpu;
struct adji_gpu_knn;
adj_status adji_gpu_knn_adopt(const adji_join *join, struct adji_gpu *gpu, struct adji_gpu_knn *nearest,
                              adji_engine *out);

#endif
