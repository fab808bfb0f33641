/* SPDX-License-Identifier: MIT
 *
 * kNN joins in few dimensions on a device: what the engine (nearest_engine.c), which is host code, asks of it.
 */
#ifndef ADJI_GPU_NEAREST_H
#define ADJI_GPU_NEAREST_H

#include "gpu/range.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct adji_gpu_nearest adji_gpu_nearest;

/* Whether there is a kernel for it. */
bool adji_gpu_nearest_can(const adji_join *join, const adji_measure *measure);

/* Copies the points to the device and builds the trees there. */
adj_status adji_gpu_nearest_open(adji_gpu *gpu, const adji_join *join, const adji_measure *measure,
                                 adji_gpu_nearest **out, adji_device_work *work);
void adji_gpu_nearest_close(adji_gpu_nearest *nearest);

/* All rows: ids, k a row, and distances, to memory of the device that stays there. */
adj_status adji_gpu_nearest_run(adji_gpu_nearest *nearest);
const uint32_t *adji_gpu_nearest_ids(const adji_gpu_nearest *nearest);
const void *adji_gpu_nearest_distances(const adji_gpu_nearest *nearest);

#ifdef __cplusplus
}
#endif
#endif
