/* SPDX-License-Identifier: MIT
 *
 * Describes the devices of this machine; and what a build without CUDA has instead of device.cu.
 */
#include "gpu/device/device.h"

#ifdef ADJI_HAVE_CUDA

#include <dlfcn.h>

/* Asks the driver only if the process has loaded it already: loading it is what takes long. */
bool adji_cuda_is_up(adj_ctx *ctx) {
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return false;
  int (*state_of)(int device, unsigned *flags, int *active);
  *(void **)&state_of = dlsym(driver, "cuDevicePrimaryCtxGetState");
  unsigned flags = 0;
  int active = 0, device = ctx->device_count > 0 && ctx->devices ? ctx->devices[0] : 0;
  bool up = state_of && !state_of(device, &flags, &active) && active;
  dlclose(driver);
  return up;
}

#else

bool adji_cuda_is_up(adj_ctx *ctx) {
  (void)ctx;
  return false;
}

adj_status adji_gpu_missing(void) {
  return adji_fail(ADJ_E_UNSUPPORTED, "backend: this build has no GPU code: nvcc was not there, or left out");
}

adj_status adji_gpu_describe(uint32_t i, adj_device *out) {
  (void)i;
  (void)out;
  return adji_gpu_missing();
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
