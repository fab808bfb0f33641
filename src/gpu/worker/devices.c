/* SPDX-License-Identifier: MIT
 *
 * The devices of a context: see devices.h.
 */
#include "gpu/worker/devices.h"

#include "gpu/device/device.h"

const char *adji_gpu_worker_name(uint32_t number) {
  static const char *const names[ADJI_MOST_GPUS] = {"gpu 0", "gpu 1", "gpu 2", "gpu 3",
                                                    "gpu 4", "gpu 5", "gpu 6", "gpu 7"};
  return names[number];
}

bool adji_gpu_worker_is_there(adj_ctx *ctx) {
  uint32_t count = 0;
  return !adji_gpu_count(ctx, &count) && count;
}

uint32_t adji_gpu_worker_count(adj_ctx *ctx) {
  uint32_t count = 0;
  return adji_gpu_count(ctx, &count) || !count ? 1 : count;
}
