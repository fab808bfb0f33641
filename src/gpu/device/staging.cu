/* SPDX-License-Identifier: MIT
 *
 * Pinned buffers: allocated once, one for each lane, and sometimes one more.
 */
#include <cstdlib>

#include "gpu/device/device.cuh"

extern "C" {
#include "gpu/device/staging.h"
}

static adj_status make_buffer(adji_gpu *gpu, adji_stage *stage) {
  ADJI_CUDA(gpu, cudaHostAlloc(&stage->at, ADJI_STAGE_BYTES, cudaHostAllocDefault));
  for (cudaEvent_t &copied : stage->copied)
    ADJI_CUDA(gpu, cudaEventCreateWithFlags(&copied, cudaEventDisableTiming));
  return ADJ_OK;
}

adj_status adji_staging_open(adji_gpu *gpu, uint32_t count) {
  if (gpu->staging_count >= count) return ADJ_OK;
  void *longer = realloc(gpu->staging, count * sizeof *gpu->staging);
  if (!longer) return adji_fail(ADJ_E_MEMORY, "no memory for staging buffers");
  gpu->staging = static_cast<adji_stage *>(longer);
  for (uint32_t i = gpu->staging_count; i < count; i++) {
    gpu->staging[i] = {};
    adj_status status = make_buffer(gpu, &gpu->staging[i]);
    if (status) {
      adji_stage_free(&gpu->staging[i]);
      return status;
    }
    gpu->staging_count = i + 1;
  }
  return ADJ_OK;
}

static cudaEvent_t event_of(const adji_gpu *gpu, uint32_t buffer) {
  return gpu->staging[buffer % ADJI_STAGE_SECOND].copied[buffer / ADJI_STAGE_SECOND];
}

void *adji_staging_at(adji_gpu *gpu, uint32_t buffer) {
  return gpu->staging[buffer % ADJI_STAGE_SECOND].at + buffer / ADJI_STAGE_SECOND * (ADJI_STAGE_BYTES / 2);
}

static adj_status copy(adji_gpu *gpu, uint32_t buffer, void *to, const void *from, uint64_t bytes,
                       cudaMemcpyKind kind) {
  ADJI_CUDA(gpu, cudaMemcpyAsync(to, from, bytes, kind, gpu->copy));
  ADJI_CUDA(gpu, cudaEventRecord(event_of(gpu, buffer), gpu->copy));
  return ADJ_OK;
}

adj_status adji_staging_send(adji_gpu *gpu, uint32_t buffer, void *to_device, uint64_t bytes) {
  return copy(gpu, buffer, to_device, adji_staging_at(gpu, buffer), bytes, cudaMemcpyHostToDevice);
}

adj_status adji_staging_receive(adji_gpu *gpu, uint32_t buffer, uint64_t place, const void *from_device,
                                uint64_t bytes) {
  char *to = static_cast<char *>(adji_staging_at(gpu, buffer)) + place;
  return copy(gpu, buffer, to, from_device, bytes, cudaMemcpyDeviceToHost);
}

adj_status adji_staging_wait(adji_gpu *gpu, uint32_t buffer) {
  ADJI_CUDA(gpu, cudaEventSynchronize(event_of(gpu, buffer)));
  return ADJ_OK;
}

adj_status adji_staging_here(adji_gpu *gpu, uint32_t buffer, bool *here) {
  cudaError_t error = cudaEventQuery(event_of(gpu, buffer));
  *here = error == cudaSuccess;
  if (error == cudaErrorNotReady) {
    cudaGetLastError(); /* not a failure */
    return ADJ_OK;
  }
  if (error == cudaSuccess) error = adji_cuda_turn(gpu);
  return error == cudaSuccess ? ADJ_OK : adji_cuda_fail(gpu, error, "cudaEventQuery");
}
