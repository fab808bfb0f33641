/* SPDX-License-Identifier: MIT
 *
 * Pinned buffers: made once, used by one lane each.
 */
#include <cstdlib>

#include "gpu/cuda.cuh"

extern "C" {
#include "gpu/staging.h"
}

static adj_status make_buffer(adji_gpu *gpu, uint32_t i) {
  ADJI_CUDA(gpu, cudaHostAlloc(&gpu->staging[i], ADJI_STAGE_BYTES, cudaHostAllocDefault));
  ADJI_CUDA(gpu, cudaEventCreateWithFlags(&gpu->staged[i], cudaEventDisableTiming));
  return ADJ_OK;
}

adj_status adji_staging_open(adji_gpu *gpu, uint32_t count) {
  if (gpu->staging_count >= count) return ADJ_OK;
  void **buffers = static_cast<void **>(realloc(gpu->staging, count * sizeof *buffers));
  if (!buffers) return adji_fail(ADJ_E_MEMORY, "no memory for staging buffers");
  gpu->staging = buffers;
  cudaEvent_t *events = static_cast<cudaEvent_t *>(realloc(gpu->staged, count * sizeof *events));
  if (!events) return adji_fail(ADJ_E_MEMORY, "no memory for staging buffers");
  gpu->staged = events;
  for (uint32_t i = gpu->staging_count; i < count; i++) {
    buffers[i] = NULL;
    events[i] = NULL;
    adj_status status = make_buffer(gpu, i);
    if (status) {
      if (buffers[i]) cudaFreeHost(buffers[i]);
      return status;
    }
    gpu->staging_count = i + 1;
  }
  return ADJ_OK;
}

void *adji_staging_at(adji_gpu *gpu, uint32_t buffer) {
  return gpu->staging[buffer];
}

adj_status adji_staging_send(adji_gpu *gpu, uint32_t buffer, void *to_device, uint64_t bytes) {
  ADJI_CUDA(gpu, cudaMemcpyAsync(to_device, gpu->staging[buffer], bytes, cudaMemcpyHostToDevice, gpu->copy));
  ADJI_CUDA(gpu, cudaEventRecord(gpu->staged[buffer], gpu->copy));
  return ADJ_OK;
}

adj_status adji_staging_receive(adji_gpu *gpu, uint32_t buffer, const void *from_device, uint64_t bytes) {
  ADJI_CUDA(gpu, cudaMemcpyAsync(gpu->staging[buffer], from_device, bytes, cudaMemcpyDeviceToHost, gpu->copy));
  ADJI_CUDA(gpu, cudaEventRecord(gpu->staged[buffer], gpu->copy));
  return ADJ_OK;
}

adj_status adji_staging_wait(adji_gpu *gpu, uint32_t buffer) {
  ADJI_CUDA(gpu, cudaEventSynchronize(gpu->staged[buffer]));
  return ADJ_OK;
}

adj_status adji_staging_here(adji_gpu *gpu, uint32_t buffer, bool *here) {
  cudaError_t error = cudaEventQuery(gpu->staged[buffer]);
  *here = error == cudaSuccess;
  if (error == cudaErrorNotReady) {
    cudaGetLastError(); /* which is no failure */
    return ADJ_OK;
  }
  if (error == cudaSuccess) error = adji_cuda_turn(gpu);
  return error == cudaSuccess ? ADJ_OK : adji_cuda_fail(gpu, error, "cudaEventQuery");
}
