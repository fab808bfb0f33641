/* SPDX-License-Identifier: MIT
 *
 * The devices that a context may use, as workers see them.
 */
#ifndef ADJI_GPU_WORKER_DEVICES_H
#define ADJI_GPU_WORKER_DEVICES_H

#include "gpu/device/device.h"

/* Whether there is a device that the context may use. */
static inline bool adji_gpu_worker_is_there(adj_ctx *ctx) {
  uint32_t count = 0;
  return !adji_gpu_count(ctx, &count) && count;
}

/* How many devices the context may use. 1 if there is none: creating a worker then fails and says why. */
static inline uint32_t adji_gpu_worker_count(adj_ctx *ctx) {
  uint32_t count = 0;
  return adji_gpu_count(ctx, &count) || !count ? 1 : count;
}

/* The name of a device. Statistics keep the pointer, so it outlives a plan. */
static inline const char *adji_gpu_worker_name(uint32_t number) {
  static const char *const names[ADJI_MOST_GPUS] = {"gpu 0", "gpu 1", "gpu 2", "gpu 3",
                                                    "gpu 4", "gpu 5", "gpu 6", "gpu 7"};
  return names[number];
}

#endif
