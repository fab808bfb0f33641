/* SPDX-License-Identifier: MIT
 *
 * The engine of kNN joins on a GPU.
 */
#ifndef ADJI_GPU_NEAREST_ENGINE_H
#define ADJI_GPU_NEAREST_ENGINE_H

#include "distance/measure.h"
#include "queue/join.h"

/* Opens the context's device, copies the points there and builds the trees. ADJ_E_UNSUPPORTED where there is no
 * kernel for the join. */
adj_status adji_gpu_nearest_create(const adji_join *join, const adji_measure *measure, adji_engine *out);

#endif
