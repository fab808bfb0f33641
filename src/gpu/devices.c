/* SPDX-License-Identifier: MIT
 *
 * The devices of this machine, and what a build without CUDA has in place of device.cu.
 */
#include "gpu/device.h"

#ifndef ADJI_HAVE_CUDA

adj_status adji_gpu_describe(uint32_t i, adj_device *out) {
  (void)i;
  (void)out;
  return adji_fail(ADJ_E_UNSUPPORTED, "backend: this build has no GPU code");
}

#endif

void adj_device_init(adj_device *device, size_t struct_size) {
  adj_device defaults = {0};
  adji_init_struct(device, struct_size, &defaults, sizeof defaults);
}

adj_status adj_device_describe(uint32_t i, adj_device *out) {
  if (!out) return adji_fail(ADJ_E_ARGUMENT, "out: must not be NULL");
  return adji_gpu_describe(i, out);
}
