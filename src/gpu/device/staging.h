/* SPDX-License-Identifier: MIT
 *
 * Pinned buffers between host and device. Pinning memory costs many times what filling it costs. So a context pins a
 * few small buffers once, one for each lane of its team, and all data goes through them in pieces. Lanes copy to and
 * from the buffers in parallel. These copies are also the first to touch the memory of a result.
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
  ADJI_STAGE_SECOND = 1 << 30 /* added to a buffer's number: its second half, with its own copies */
};

/* Makes `count` buffers, numbered from 0, unless they exist. */
ADJI_OP adj_status adji_staging_open(adji_gpu *gpu, uint32_t count);
ADJI_OP void *adji_staging_at(adji_gpu *gpu, uint32_t buffer);
/* send and receive start a copy, wait ends it, here reports whether it has ended. Several copies may be received into
 * one buffer, at different places: they end in the order they were started. */
ADJI_OP adj_status adji_staging_send(adji_gpu *gpu, uint32_t buffer, void *to_device, uint64_t bytes);
ADJI_OP adj_status adji_staging_receive(adji_gpu *gpu, uint32_t buffer, uint64_t place, const void *from_device,
                                        uint64_t bytes);
ADJI_OP adj_status adji_staging_wait(adji_gpu *gpu, uint32_t buffer);
ADJI_OP adj_status adji_staging_here(adji_gpu *gpu, uint32_t buffer, bool *here);

/* adji_upload copies the points of a set to device memory, packed by rows; adji_upload_bytes copies bytes to the
 * device, adji_download copies bytes back. All lanes take part; the time and bytes are added to work. */
adj_status adji_upload(adji_gpu *gpu, const adj_dataset *set, void *to_device, adji_device_stats *work);
adj_status adji_upload_bytes(adji_gpu *gpu, const void *from, uint64_t bytes, void *to_device, adji_device_stats *work);
adj_status adji_download(adji_gpu *gpu, const void *from_device, uint64_t bytes, void *to, adji_device_stats *work);

/* Copies several arrays back at once, with `entries` entries each. */
typedef struct adji_array {
  const void *from; /* on the device */
  void *to;
  uint64_t size; /* bytes of an entry */
} adji_array;
adj_status adji_download_arrays(adji_gpu *gpu, const adji_array *arrays, uint32_t count, uint64_t entries,
                                adji_device_stats *work);
/* Called before a download, while the device computes: prefaults the memory that the arrays go to, as far as time
 * allows. */
adj_status adji_prefault_arrays(adji_gpu *gpu, const adji_array *arrays, uint32_t count, uint64_t entries);

/* The half buffer with this number; there are two for each thread. First halves come first, since a lane that works by
 * itself uses the first half of its own buffer. */
static inline uint32_t adji_staging_half(const adj_ctx *ctx, uint32_t number) {
  return number < ctx->threads ? number : number - ctx->threads + ADJI_STAGE_SECOND;
}

/* The buffer of a lane: one for every thread of the context, then one for the device's own lane. */
static inline uint32_t adji_staging_of(const adj_ctx *ctx, uint32_t lane) {
  return lane < ctx->threads ? lane : ctx->threads;
}

#ifdef __cplusplus
}
#endif
#endif
