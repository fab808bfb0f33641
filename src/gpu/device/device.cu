/* SPDX-License-Identifier: MIT
 *
 * Opens a device and owns its streams, events and answers. Its memory is in device_blocks.cu.
 */
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/library.h"
#include "gpu/device/device.cuh"

/* ---- Failures ---------------------------------------------------------------------------------------- */

adj_status adji_cuda_fail(adji_gpu *gpu, cudaError_t error, const char *call) {
  int length = static_cast<int>(strcspn(call, "("));
  cudaGetLastError(); /* clears an error that is not sticky, since it is reported here */
  adj_status status = error == cudaErrorMemoryAllocation ? ADJ_E_DEVICE_MEMORY : ADJ_E_DEVICE;
  return adji_fail(status, "device %d: %.*s: %s (%s)", gpu ? gpu->device : 0, length, call, cudaGetErrorString(error),
                   cudaGetErrorName(error));
}

/* ---- What there is ------------------------------------------------------------------------------------- */

/* The first call of the CUDA runtime loads the driver by its name, from wherever the loader finds it. A library that is
 * already loaded is not searched again. So the driver is loaded here first, from the places that core/library.h
 * allows. */
static void load_driver() {
  static const void *const driver = adji_library_open("libcuda.so.1", NULL);
  (void)driver;
}

static adj_status count_devices(int *count) {
  load_driver();
  cudaError_t error = cudaGetDeviceCount(count);
  if (error == cudaSuccess && *count > 0) return ADJ_OK;
  cudaGetLastError();
  if (error == cudaSuccess || error == cudaErrorNoDevice)
    return adji_fail(ADJ_E_UNSUPPORTED, "backend: this machine has no GPU that CUDA can use");
  if (error == cudaErrorInsufficientDriver)
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "backend: this machine has no NVIDIA driver, or one that is too old for CUDA %d.%d",
                     CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10);
  return adji_fail(ADJ_E_DEVICE, "backend: CUDA does not start: %s (%s)", cudaGetErrorString(error),
                   cudaGetErrorName(error));
}

adj_status adji_kind_describe(uint32_t i, adj_device *out) {
  int count = 0;
  adj_status status = count_devices(&count);
  if (status) return status;
  if (i >= static_cast<uint32_t>(count)) return adji_fail(ADJ_E_UNSUPPORTED, "device %u: there are %d", i, count);
  cudaDeviceProp properties;
  adji_gpu unopened = {};
  unopened.device = static_cast<int>(i);
  unopened.fail_at = -1;
  ADJI_CUDA(&unopened, cudaGetDeviceProperties(&properties, static_cast<int>(i)));
  adj_device description = {};
  description.number = i;
  snprintf(description.name, sizeof description.name, "%s", properties.name);
  description.major = static_cast<uint32_t>(properties.major);
  description.minor = static_cast<uint32_t>(properties.minor);
  description.multiprocessors = static_cast<uint32_t>(properties.multiProcessorCount);
  description.memory = properties.totalGlobalMem;
  int before = 0, driver = 0;
  ADJI_CUDA(&unopened, cudaGetDevice(&before));
  ADJI_CUDA(&unopened, cudaSetDevice(static_cast<int>(i)));
  size_t available = 0, total = 0;
  cudaError_t error = cudaMemGetInfo(&available, &total);
  cudaSetDevice(before);
  if (error != cudaSuccess) return adji_cuda_fail(&unopened, error, "cudaMemGetInfo");
  description.memory_free = available;
  ADJI_CUDA(&unopened, cudaDriverGetVersion(&driver));
  description.driver = static_cast<uint32_t>(driver);
  description.runtime = CUDART_VERSION;
  *out = description;
  return ADJ_OK;
}

/* ---- Opening and closing --------------------------------------------------------------------------------- */

void adji_stage_free(adji_stage *stage) {
  if (stage->at) cudaFreeHost(stage->at);
  for (cudaEvent_t copied : stage->copied)
    if (copied) cudaEventDestroy(copied);
}

void adji_kind_close(adji_gpu *gpu) {
  cudaSetDevice(gpu->device);
  if (gpu->compute) cudaStreamSynchronize(gpu->compute);
  if (gpu->copy) cudaStreamSynchronize(gpu->copy);
  if (gpu->side) cudaStreamSynchronize(gpu->side);
  if (gpu->close_cublas) gpu->close_cublas(gpu);
  for (uint32_t i = 0; i < gpu->staging_count; i++)
    adji_stage_free(&gpu->staging[i]);
  free(gpu->staging);
  for (cudaEvent_t mark : gpu->marks)
    if (mark) cudaEventDestroy(mark);
  if (gpu->joint) cudaEventDestroy(gpu->joint);
  if (gpu->forked) cudaEventDestroy(gpu->forked);
  if (gpu->answers) cudaFreeHost(gpu->answers);
  if (gpu->d_answers) cudaFree(gpu->d_answers);
  adji_blocks_forget(gpu);
  if (gpu->compute) cudaStreamSynchronize(gpu->compute);
  if (gpu->pool) cudaMemPoolDestroy(gpu->pool);
  if (gpu->side) cudaStreamDestroy(gpu->side);
  if (gpu->copy) cudaStreamDestroy(gpu->copy);
  if (gpu->compute) cudaStreamDestroy(gpu->compute);
  cudaGetLastError();
  adji_gpu_clear_base(gpu);
  free(gpu);
}

static adj_status make_pool(adji_gpu *gpu) {
  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = gpu->device;
  ADJI_CUDA(gpu, cudaMemPoolCreate(&gpu->pool, &properties));
  uint64_t keep = UINT64_MAX;
  ADJI_CUDA(gpu, cudaMemPoolSetAttribute(gpu->pool, cudaMemPoolAttrReleaseThreshold, &keep));
  return ADJ_OK;
}

static adj_status open_device(adji_gpu *gpu) {
  ADJI_CUDA(gpu, cudaSetDevice(gpu->device));
  int major = 0;
  ADJI_CUDA(gpu, cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, gpu->device));
  if (major < 8)
    return adji_fail(ADJ_E_UNSUPPORTED, "device %d: compute capability %d.x; the kernels need 8.0 or later",
                     gpu->device, major);
  ADJI_CUDA(gpu, cudaDeviceGetAttribute(&gpu->multiprocessors, cudaDevAttrMultiProcessorCount, gpu->device));
  ADJI_CUDA(gpu,
            cudaDeviceGetAttribute(&gpu->block_shared_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, gpu->device));
  ADJI_CUDA(gpu, cudaStreamCreateWithFlags(&gpu->compute, cudaStreamNonBlocking));
  ADJI_CUDA(gpu, cudaStreamCreateWithFlags(&gpu->copy, cudaStreamNonBlocking));
  ADJI_CUDA(gpu, cudaStreamCreateWithFlags(&gpu->side, cudaStreamNonBlocking));
  for (cudaEvent_t &mark : gpu->marks)
    ADJI_CUDA(gpu, cudaEventCreate(&mark));
  ADJI_CUDA(gpu, cudaEventCreateWithFlags(&gpu->joint, cudaEventDisableTiming));
  ADJI_CUDA(gpu, cudaEventCreateWithFlags(&gpu->forked, cudaEventDisableTiming));
  adj_status status = make_pool(gpu);
  if (status) return status;
  ADJI_CUDA(gpu, cudaHostAlloc(&gpu->answers, (1 + ADJI_KEPT_ANSWERS) * ADJI_ANSWERS * sizeof *gpu->answers,
                               cudaHostAllocDefault));
  ADJI_CUDA(gpu, cudaMalloc(&gpu->d_answers, ADJI_ANSWERS * sizeof *gpu->answers));
  size_t available = 0, total = 0;
  ADJI_CUDA(gpu, cudaMemGetInfo(&available, &total));
  gpu->limit = gpu->ctx->device_memory_limit;
  if (!gpu->limit || gpu->limit > available) gpu->limit = available / 20 * 19;
  return ADJ_OK;
}

/* The i-th device that the context names, or the i-th of all. */
static adj_status open_number(adj_ctx *ctx, uint32_t i, adji_gpu *gpu) {
  int count = 0;
  adj_status status = count_devices(&count);
  if (status) return status;
  int named = ctx->device_count;
  gpu->device = named > 0 && ctx->devices ? ctx->devices[i] : static_cast<int>(i);
  if (gpu->device < 0 || gpu->device >= count)
    return adji_fail(ADJ_E_ARGUMENT, "devices: there is no device %d, only %d", gpu->device, count);
  return open_device(gpu);
}

adj_status adji_kind_count(adj_ctx *ctx, uint32_t *count) {
  int there = 0, most = ADJI_MOST_GPUS;
  adj_status status = count_devices(&there);
  if (ctx->device_count >= 0) there = ctx->device_count;
  if (!status) *count = static_cast<uint32_t>(there < most ? there : most);
  return status;
}

adj_status adji_kind_open(adj_ctx *ctx, uint32_t i, adji_gpu **out) {
  adji_gpu *gpu = static_cast<adji_gpu *>(calloc(1, sizeof *gpu));
  if (!gpu) return adji_fail(ADJ_E_MEMORY, "no memory for a device");
  adji_gpu_init_base(gpu, ctx);
  adj_status status = open_number(ctx, i, gpu);
  if (status)
    adji_kind_close(gpu);
  else
    *out = gpu;
  return status;
}

/* Asks the driver only if it is already loaded, since loading it is what takes long. */
bool adji_kind_is_up(adj_ctx *ctx) {
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return false;
  auto state_of = reinterpret_cast<int (*)(int, unsigned *, int *)>(dlsym(driver, "cuDevicePrimaryCtxGetState"));
  unsigned flags = 0;
  int active = 0, device = ctx->device_count > 0 && ctx->devices ? ctx->devices[0] : 0;
  bool up = state_of && !state_of(device, &flags, &active) && active;
  dlclose(driver);
  return up;
}

int adji_kind_current(void) {
  int device = -1;
  load_driver();
  if (cudaGetDevice(&device) != cudaSuccess) cudaGetLastError();
  return device;
}

void adji_kind_make_current(int device) {
  if (device < 0 || device == adji_kind_current()) return;
  if (cudaSetDevice(device) != cudaSuccess) cudaGetLastError(); /* the next call reports the error */
}

adj_status adji_answer_clear(adji_gpu *gpu, cudaStream_t stream, int which, int many) {
  ADJI_CUDA(gpu, cudaMemsetAsync(gpu->d_answers + which, 0, many * sizeof(uint64_t), stream));
  return ADJ_OK;
}

adj_status adji_answers_fetch(adji_gpu *gpu, cudaStream_t stream) {
  ADJI_CUDA(gpu, cudaMemcpyAsync(gpu->answers, gpu->d_answers, ADJI_ANSWERS * sizeof(uint64_t), cudaMemcpyDeviceToHost,
                                 stream));
  ADJI_CUDA(gpu, cudaStreamSynchronize(stream));
  return ADJ_OK;
}

adj_status adji_gpu_mark(adji_gpu *gpu, adji_mark mark) {
  if (mark == ADJI_MARK_BEGIN) memset(gpu->marked, 0, sizeof gpu->marked);
  ADJI_CUDA(gpu, cudaEventRecord(gpu->marks[mark], gpu->compute));
  gpu->marked[mark] = true;
  return ADJ_OK;
}

double adji_gpu_between(adji_gpu *gpu, adji_mark from, adji_mark to) {
  float ms = 0;
  if (!gpu->marked[from] || !gpu->marked[to]) return 0;
  if (cudaEventElapsedTime(&ms, gpu->marks[from], gpu->marks[to]) != cudaSuccess) cudaGetLastError();
  return ms * 1e-3;
}

uint64_t adji_gpu_last_candidates(const adji_gpu *gpu) {
  return adji_answer_totals(gpu).candidates;
}

adj_status adji_gpu_after(adji_gpu *gpu, void *stream) {
  ADJI_CUDA(gpu, cudaEventRecord(gpu->joint, static_cast<cudaStream_t>(stream)));
  ADJI_CUDA(gpu, cudaStreamWaitEvent(gpu->compute, gpu->joint, 0));
  return ADJ_OK;
}

adj_status adji_gpu_before(adji_gpu *gpu, void *stream) {
  ADJI_CUDA(gpu, cudaEventRecord(gpu->joint, gpu->compute));
  ADJI_CUDA(gpu, cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), gpu->joint, 0));
  return ADJ_OK;
}

adj_status adji_gpu_fork(adji_gpu *gpu, cudaStream_t stream) {
  ADJI_CUDA(gpu, cudaEventRecord(gpu->forked, stream));
  ADJI_CUDA(gpu, cudaStreamWaitEvent(gpu->side, gpu->forked, 0));
  return ADJ_OK;
}

static adj_status wait_for_side(adji_gpu *gpu, cudaStream_t stream) {
  ADJI_CUDA(gpu, cudaEventRecord(gpu->forked, gpu->side));
  ADJI_CUDA(gpu, cudaStreamWaitEvent(stream, gpu->forked, 0));
  return ADJ_OK;
}

adj_status adji_gpu_rejoin(adji_gpu *gpu, cudaStream_t stream, adj_status status) {
  if (!status) status = wait_for_side(gpu, stream);
  if (status) cudaStreamSynchronize(gpu->side); /* the side stream still uses blocks that the caller frees next */
  return status;
}

adj_status adji_gpu_wait(adji_gpu *gpu) {
  ADJI_CUDA(gpu, cudaStreamSynchronize(gpu->compute));
  return ADJ_OK;
}

bool adji_gpu_busy(adji_gpu *gpu) {
  bool busy = cudaStreamQuery(gpu->compute) == cudaErrorNotReady;
  if (busy) cudaGetLastError(); /* not a failure */
  return busy;
}

void adji_gpu_quiesce(adji_gpu *gpu) {
  cudaStreamSynchronize(gpu->compute);
  cudaStreamSynchronize(gpu->copy);
  cudaStreamSynchronize(gpu->side);
  cudaGetLastError();
}

adji_totals adji_totals_of(const uint64_t *answers) {
  adji_totals t = {};
  const uint64_t *spread = answers + ADJI_ANSWER_SPREAD;
  for (int i = 0; i < ADJI_SPREAD; i++) {
    t.pairs += spread[i];
    t.candidates += spread[ADJI_SPREAD + i];
    t.broken += spread[2 * ADJI_SPREAD + i];
    if (spread[3 * ADJI_SPREAD + i] > t.longest) t.longest = spread[3 * ADJI_SPREAD + i];
    t.slots += spread[4 * ADJI_SPREAD + i];
  }
  return t;
}

adji_totals adji_answer_totals(const adji_gpu *gpu) {
  return adji_totals_of(gpu->answers);
}

static uint64_t *kept_answers(const adji_gpu *gpu, uint32_t which) {
  return gpu->answers + (1 + which) * ADJI_ANSWERS;
}

adj_status adji_answers_keep_from(adji_gpu *gpu, cudaStream_t stream, const void *from, uint32_t which) {
  ADJI_CUDA(gpu, cudaMemcpyAsync(kept_answers(gpu, which), from, ADJI_ANSWERS * sizeof(uint64_t),
                                 cudaMemcpyDeviceToHost, stream));
  return ADJ_OK;
}

adj_status adji_answers_keep(adji_gpu *gpu, cudaStream_t stream, uint32_t which) {
  return adji_answers_keep_from(gpu, stream, gpu->d_answers, which);
}

adji_totals adji_totals_kept(const adji_gpu *gpu, uint32_t which) {
  return adji_totals_of(kept_answers(gpu, which));
}

uint64_t adji_answer_kept(const adji_gpu *gpu, uint32_t which, int answer) {
  return kept_answers(gpu, which)[answer];
}

void adji_gpu_points_free(adji_gpu_points *points) {
  if (!points->gpu) return;
  adji_block block = {const_cast<void *>(points->rows.data), points->bytes};
  adji_block_free(points->gpu, points->gpu->compute, &block);
  *points = adji_gpu_points{};
}
