/* SPDX-License-Identifier: MIT
 *
 * Device memory, with a limit. It comes from a CUDA pool, in the order of a stream. Freed blocks are kept for the next
 * request of the same size, since a join of a few million points makes about forty requests and the pool takes
 * microseconds for each.
 */
#include "gpu/device/device.cuh"

/* Larger blocks are rare. They go back to the pool, where their memory serves any request. */
static const uint64_t MOST_KEPT = UINT64_C(64) << 20;

void adji_blocks_forget(adji_gpu *gpu) {
  for (uint32_t i = 0; i < gpu->kept_count; i++)
    cudaFreeAsync(gpu->kept[i].at, gpu->compute);
  gpu->kept_count = 0;
  gpu->kept_bytes = 0;
}

static void remove_kept(adji_gpu *gpu, uint32_t i) {
  gpu->kept_bytes -= gpu->kept[i].bytes;
  gpu->kept_count--;
  memmove(gpu->kept + i, gpu->kept + i + 1, (gpu->kept_count - i) * sizeof *gpu->kept);
}

static void *find_kept(adji_gpu *gpu, uint64_t bytes) {
  for (uint32_t i = gpu->kept_count; i--;) {
    if (gpu->kept[i].bytes != bytes) continue;
    void *at = gpu->kept[i].at;
    remove_kept(gpu, i);
    return at;
  }
  return NULL;
}

static adj_status find_memory(adji_gpu *gpu, cudaStream_t stream, uint64_t bytes, void **out) {
  cudaError_t error = cudaSuccess;
  if (adji_gpu_turn_fails(gpu, true))
    error = gpu->fault == ADJI_FAULT_MEMORY ? cudaErrorMemoryAllocation : cudaErrorUnknown;
  if (error == cudaSuccess) {
    *out = stream == gpu->compute ? find_kept(gpu, bytes) : NULL;
    if (*out) return ADJ_OK;
    if (gpu->used + gpu->kept_bytes > gpu->limit - bytes) adji_blocks_forget(gpu);
    error = cudaMallocFromPoolAsync(out, bytes, gpu->pool, stream);
    if (error == cudaErrorMemoryAllocation && gpu->kept_count) {
      cudaGetLastError();
      adji_blocks_forget(gpu);
      error = cudaMallocFromPoolAsync(out, bytes, gpu->pool, stream);
    }
  }
  return error == cudaSuccess ? ADJ_OK : adji_cuda_fail(gpu, error, "cudaMallocFromPoolAsync");
}

adj_status adji_block_get(adji_gpu *gpu, cudaStream_t stream, uint64_t bytes, const char *what, adji_block *out) {
  *out = adji_block{};
  if (!bytes) bytes = 16; /* so that an empty set has an address too */
  char need[32], held[32], limit[32];
  if (bytes > gpu->limit || gpu->used > gpu->limit - bytes)
    return adji_fail(ADJ_E_DEVICE_MEMORY, "device %d: %s: needs %s more, but %s of the limit of %s are in use",
                     gpu->device, what, adji_bytes_text(static_cast<double>(bytes), need),
                     adji_bytes_text(static_cast<double>(gpu->used), held),
                     adji_bytes_text(static_cast<double>(gpu->limit), limit));
  adj_status status = find_memory(gpu, stream, bytes, &out->at);
  if (status) {
    *out = adji_block{};
    return status;
  }
  out->bytes = bytes;
  gpu->used += bytes;
  if (gpu->used > gpu->peak) gpu->peak = gpu->used;
  return ADJ_OK;
}

void adji_block_free(adji_gpu *gpu, cudaStream_t stream, adji_block *block) {
  if (!block->at) return;
  gpu->used -= block->bytes;
  if (stream == gpu->compute && block->bytes <= MOST_KEPT) {
    if (gpu->kept_count == ADJI_KEPT_BLOCKS) { /* drop the oldest */
      cudaFreeAsync(gpu->kept[0].at, stream);
      remove_kept(gpu, 0);
    }
    gpu->kept[gpu->kept_count++] = *block;
    gpu->kept_bytes += block->bytes;
  } else {
    cudaFreeAsync(block->at, stream);
  }
  *block = adji_block{};
}

adj_status adji_block_reserve(adji_gpu *gpu, cudaStream_t stream, uint64_t bytes, adji_block *block) {
  if (block->bytes >= bytes) return ADJ_OK;
  adji_block_free(gpu, stream, block);
  return adji_block_get(gpu, stream, bytes, "room to work in", block);
}

/* If the stream is idle, the blocks need not wait for it and are kept for the next result. */
void adji_gpu_csr_free(adji_gpu_csr *csr, void *stream) {
  void *parts[] = {csr->offsets, csr->ids, csr->distances};
  cudaStream_t order = static_cast<cudaStream_t>(stream);
  if (!csr->offsets && !csr->ids && !csr->distances) return;
  cudaError_t error = cudaStreamQuery(order);
  if (error == cudaSuccess) order = csr->gpu->compute;
  if (error == cudaErrorNotReady) cudaGetLastError(); /* not a failure */
  for (int i = 0; i < 3; i++) {
    adji_block block = {parts[i], csr->bytes[i]};
    adji_block_free(csr->gpu, order, &block);
  }
}
