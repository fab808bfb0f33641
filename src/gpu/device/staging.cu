/* SPDX-License-Identifier: MIT
 *
 * Pinned buffers: made once, one for each lane or one more.
 */
#include <cstdlib>

#include "gpu/device/device.cuh"

extern "C" {
#include "gpu/device/staging.h"
}

static adj_status make_buffer(adji_gpu *gpu, uint32_t i) {
  ADJI_CUDA(gpu, cudaHostAlloc(&gpu->staging[i], ADJI_STAGE_BYTES, cudaHostAllocDefault));
  ADJI_CUDA(gpu, cudaEventCreateWithFlags(&gpu->staged[i], cudaEventDisableTiming));
  ADJI_CUDA(gpu, cudaEventCreateWithFlags(&gpu->staged_second[i], cudaEventDisableTiming));
  return ADJ_OK;
}

/* Frees the parts of a buffer that could not be completed. */
static void drop_buffer(adji_gpu *gpu, uint32_t i) {
  if (gpu->staging[i]) cudaFreeHost(gpu->staging[i]);
  if (gpu->staged[i]) cudaEventDestroy(gpu->staged[i]);
}

template <typename T>
static bool lengthen(T **list, uint32_t count) {
  T *longer = static_cast<T *>(realloc(*list, count * sizeof **list));
  if (longer) *list = longer;
  return longer;
}

adj_status adji_staging_open(adji_gpu *gpu, uint32_t count) {
  if (gpu->staging_count >= count) return ADJ_OK;
  if (!lengthen(&gpu->staging, count) || !lengthen(&gpu->staged, count) || !lengthen(&gpu->staged_second, count))
    return adji_fail(ADJ_E_MEMORY, "no memory for staging buffers");
  for (uint32_t i = gpu->staging_count; i < count; i++) {
    gpu->staging[i] = NULL;
    gpu->staged[i] = gpu->staged_second[i] = NULL;
    adj_status status = make_buffer(gpu, i);
    if (status) {
      drop_buffer(gpu, i);
      return status;
    }
    gpu->staging_count = i + 1;
  }
  return ADJ_OK;
}

static cudaEvent_t event_of(const adji_gpu *gpu, uint32_t buffer) {
  bool second = buffer & ADJI_STAGE_SECOND;
  return second ? gpu->staged_second[buffer - ADJI_STAGE_SECOND] : gpu->staged[buffer];
}

void *adji_staging_at(adji_gpu *gpu, uint32_t buffer) {
  bool second = buffer & ADJI_STAGE_SECOND;
  return second ? static_cast<char *>(gpu->staging[buffer - ADJI_STAGE_SECOND]) + ADJI_STAGE_BYTES / 2
                : gpu->staging[buffer];
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

adj_status adji_staging_receive(adji_gpu *gpu, uint32_t buffer, const void *from_device, uint64_t bytes) {
  return copy(gpu, buffer, adji_staging_at(gpu, buffer), from_device, bytes, cudaMemcpyDeviceToHost);
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
