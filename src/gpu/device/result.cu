/* SPDX-License-Identifier: MIT
 *
 * Results on a device: freeing their memory.
 */
#include "gpu/device/device.cuh"

extern "C" {
#include "gpu/device/result.h"
}

void adji_gpu_csr_free(adji_gpu_csr *csr, void *stream) {
  void *parts[] = {csr->offsets, csr->ids, csr->distances};
  for (int i = 0; i < 3; i++) {
    adji_block block = {parts[i], csr->bytes[i]};
    adji_block_free(csr->gpu, static_cast<cudaStream_t>(stream), &block);
  }
}
