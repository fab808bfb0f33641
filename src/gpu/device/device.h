/* SPDX-License-Identifier: MIT
 *
 * A GPU, as the rest of the library sees it. A build without CUDA has the same functions, which say so
 * (device_describe.c). The driver is looked for when a device is first asked for, so one binary runs on machines
 * with and without it.
 */
#ifndef ADJI_GPU_DEVICE_DEVICE_H
#define ADJI_GPU_DEVICE_DEVICE_H

#include "core/context.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct adji_gpu adji_gpu;

/* The device of a context, opened the first time and kept for the context's life. ADJ_E_UNSUPPORTED says why
 * there is none. */
adj_status adji_gpu_of(adj_ctx *ctx, adji_gpu **out);

/* The same for the i-th device that a context may use, which may be one that it names twice; and how many these are. */
adj_status adji_gpu_at(adj_ctx *ctx, uint32_t i, adji_gpu **out);
adj_status adji_gpu_count(adj_ctx *ctx, uint32_t *count);

/* Whether somebody in this process has CUDA at work on the context's first device: then opening it is a matter of
 * milliseconds. Starts nothing. */
bool adji_cuda_is_up(adj_ctx *ctx);

/* In a build without CUDA: fails, and says so. */
adj_status adji_gpu_missing(void);

/* Device number i, whatever context; ADJ_E_UNSUPPORTED when there are not so many. */
adj_status adji_gpu_describe(uint32_t i, adj_device *out);

adj_ctx *adji_gpu_ctx(const adji_gpu *gpu);

uint32_t adji_gpu_multiprocessors(const adji_gpu *gpu);

/* Waits for what the device was asked to compute. */
adj_status adji_gpu_wait(adji_gpu *gpu);

/* Whether it is still computing. Any thread. */
bool adji_gpu_busy(adji_gpu *gpu);

/* Waits for everything the device was asked to do, after a failure that was told already. */
void adji_gpu_quiesce(adji_gpu *gpu);

uint64_t adji_gpu_used(const adji_gpu *gpu);
uint64_t adji_gpu_peak(const adji_gpu *gpu);
void adji_gpu_reset_peak(adji_gpu *gpu);
/* Bytes that may still be taken. */
uint64_t adji_gpu_available(adji_gpu *gpu);

/* The seconds of the device between marks of the last join: a mark is set on the way, and read when all is done. */
typedef enum adji_mark {
  ADJI_MARK_BEGIN,
  ADJI_MARK_PLANNED,
  ADJI_MARK_INDEXED,
  ADJI_MARK_COUNTED,
  ADJI_MARK_FILLED,
  ADJI_MARK_SORTED,
  ADJI_MARKS
} adji_mark;
adj_status adji_gpu_mark(adji_gpu *gpu, adji_mark mark);
double adji_gpu_between(adji_gpu *gpu, adji_mark from, adji_mark to); /* 0 where one is missing */

uint64_t adji_gpu_last_candidates(const adji_gpu *gpu); /* of the last count */
/* For how many comparisons there would have been lanes in the same time; 0 where the kernels do not count them. */
uint64_t adji_gpu_last_slots(const adji_gpu *gpu);

/* What stream was asked until now comes before what the device is asked next; and the other way round. */
adj_status adji_gpu_after(adji_gpu *gpu, void *stream);
adj_status adji_gpu_before(adji_gpu *gpu, void *stream);

/* One join at a time on a device: others wait here. */
void adji_gpu_lock(adji_gpu *gpu);
void adji_gpu_unlock(adji_gpu *gpu);
/* A thread that works for the one that has the lock. */
void adji_gpu_use(adji_gpu *gpu);

/* Tests: the n-th call of CUDA from now fails; negative: none. Returns how many were left to make. */
int64_t adji_gpu_fail_at(adji_gpu *gpu, int64_t n);

#ifdef __cplusplus
}
#endif
#endif
