/* SPDX-License-Identifier: MIT
 *
 * Pinned buffers between host and device. Pinning memory costs as much as filling it many times over, so a context
 * pins a few small buffers once, one for each lane of its team, and everything goes through them in pieces: lanes copy
 * to and from them side by side, which also is what first touches the memory of a result.
 */
#ifndef ADJI_GPU_DEVICE_STAGING_H
#define ADJI_GPU_DEVICE_STAGING_H

#include "data/dataset.h"
#include "gpu/device/device.h"
#include "queue/stats.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  ADJI_STAGE_BYTES = 4 << 20,
  ADJI_STAGE_SECOND = 1 << 30 /* added to a buffer's number: its second half, with copies of its own */
};

/* Makes `count` buffers, numbered from 0, unless they are there. */
adj_status adji_staging_open(adji_gpu *gpu, uint32_t count);
void *adji_staging_at(adji_gpu *gpu, uint32_t buffer);
/* Begin a copy; wait ends it, and here tells whether it has ended. One copy a buffer at a time. */
adj_status adji_staging_send(adji_gpu *gpu, uint32_t buffer, void *to_device, uint64_t bytes);
adj_status adji_staging_receive(adji_gpu *gpu, uint32_t buffer, const void *from_device, uint64_t bytes);
adj_status adji_staging_wait(adji_gpu *gpu, uint32_t buffer);
adj_status adji_staging_here(adji_gpu *gpu, uint32_t buffer, bool *here);

/* The points of a set to device memory, packed by rows; bytes there, and bytes back from there. All lanes take part;
 * what they did is added to work. */
adj_status adji_upload(adji_gpu *gpu, const adj_dataset *set, void *to_device, adji_device_stats *work);
adj_status adji_upload_bytes(adji_gpu *gpu, const void *from, uint64_t bytes, void *to_device, adji_device_stats *work);
adj_status adji_download(adji_gpu *gpu, const void *from_device, uint64_t bytes, void *to, adji_device_stats *work);

/* Several arrays back at once, of as many entries each. */
typedef struct adji_array {
  const void *from; /* on the device     */
  void *to;
  uint64_t size; /* bytes of an entry */
} adji_array;
adj_status adji_download_arrays(adji_gpu *gpu, const adji_array *arrays, uint32_t count, uint64_t entries,
                                adji_device_stats *work);
/* Before that, while the device computes: touches the memory that they go to, as far as it gets. */
adj_status adji_prefault_arrays(adji_gpu *gpu, const adji_array *arrays, uint32_t count, uint64_t entries);

/* The buffer of a lane: one for every thread of the context, and behind them one for the lane of a device itself. */
static inline uint32_t adji_staging_of(const adj_ctx *ctx, uint32_t lane) {
  return lane < ctx->threads ? lane : ctx->threads;
}

#ifdef __cplusplus
}
#endif
#endif
