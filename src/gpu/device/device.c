/* SPDX-License-Identifier: MIT
 *
 * The devices of a context: whether there are any, how they are opened and locked, and how much of their memory is in
 * use.
 */
#include "gpu/device/device.h"

#include "core/float_state.h"

static adji_gpu_base *base_of(const adji_gpu *gpu) {
  return (adji_gpu_base *)gpu;
}

/* ---- What there is ------------------------------------------------------------------------------------ */

static bool has_kind(void) {
#ifdef ADJI_NO_CUDA
  return adji_kind_open;
#else
  return true;
#endif
}

adj_status adji_gpu_can_be(void) {
  if (has_kind()) return ADJ_OK;
  return adji_fail(ADJ_E_UNSUPPORTED, "backend: this build has no GPU code: nvcc was not there, or left out");
}

bool adji_gpu_is_up(adj_ctx *ctx) {
  return has_kind() && adji_kind_is_up(ctx);
}

adj_status adji_gpu_count(adj_ctx *ctx, uint32_t *count) {
  adj_status status = adji_gpu_can_be();
  return status ? status : adji_kind_count(ctx, count);
}

void adj_device_init(adj_device *device, size_t struct_size) {
  adj_device defaults = {0};
  adji_init_struct(device, struct_size, &defaults, sizeof defaults);
}

static adj_status describe(uint32_t i, adj_device *out) {
  adj_status status = adji_kind_describe(i, out);
  if (status) return status;
  adji_tensor_facts tensor;
  int before = adji_kind_current();
  adji_kind_make_current((int)i);
  if (!adji_tensor_probe((int)i, &tensor) && tensor.holds) out->tensor_bits = tensor.bits;
  adji_kind_make_current(before);
  return ADJ_OK;
}

adj_status adj_device_describe(uint32_t i, adj_device *out) {
  if (!out) return adji_fail(ADJ_E_ARGUMENT, "out: must not be NULL");
  adj_status status = adji_gpu_can_be();
  if (status) return status;
  adj_device description = {.struct_size = sizeof description};
  adji_float_state floats = adji_float_state_get();
  adji_float_state_reset();
  status = describe(i, &description);
  adji_float_state_set(floats);
  return status ? status : adji_give_struct(out, &description, sizeof description, "adj_device");
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

void adji_gpu_init_base(adji_gpu_base *base, adj_ctx *ctx) {
  base->ctx = ctx;
  atomic_store(&base->fail_at, -1);
  pthread_mutex_init(&base->turn, NULL);
}

void adji_gpu_clear_base(adji_gpu_base *base) {
  pthread_mutex_destroy(&base->turn);
}

/* Opens a device. This makes it current, so the caller's current device is restored afterwards. */
static adj_status open_gpu(adj_ctx *ctx, uint32_t i, adji_gpu **out) {
  uint64_t begin = adji_now_ns();
  int before = adji_kind_current();
  adj_status status = adji_kind_open(ctx, i, out);
  if (!status) status = adji_tensor_probe(base_of(*out)->device, &base_of(*out)->tensor);
  if (status && *out) adji_kind_close(*out);
  if (status) *out = NULL;
  adji_kind_make_current(before);
  adji_trace(ctx, "open device", 0, begin, 0);
  return status;
}

static void close_gpu(void *opened) {
  adji_float_state floats = adji_float_state_get();
  int before = adji_kind_current();
  adji_float_state_reset();
  adji_kind_close(opened);
  adji_kind_make_current(before);
  adji_float_state_set(floats);
}

adj_status adji_gpu_at(adj_ctx *ctx, uint32_t i, adji_gpu **out) {
  adj_status status = adji_gpu_can_be();
  if (status) return status;
  if (!ctx->device_count)
    return adji_fail(ADJ_E_UNSUPPORTED, "backend: the context was made without a GPU (device_count 0)");
  adji_gpu *opened = NULL;
  pthread_mutex_lock(&ctx->device_lock);
  status = ctx->gpus[i] ? ADJ_OK : open_gpu(ctx, i, &opened);
  if (opened) ctx->gpus[i] = opened;
  ctx->close_gpu = close_gpu;
  opened = ctx->gpus[i];
  pthread_mutex_unlock(&ctx->device_lock);
  if (!status) *out = opened;
  return status;
}

adj_status adji_gpu_of(adj_ctx *ctx, adji_gpu **out) {
  return adji_gpu_at(ctx, 0, out);
}

adj_ctx *adji_gpu_ctx(const adji_gpu *gpu) {
  return base_of(gpu)->ctx;
}

uint32_t adji_gpu_multiprocessors(const adji_gpu *gpu) {
  return (uint32_t)base_of(gpu)->multiprocessors;
}

adj_status adji_gpu_refuse_tensor(const adji_gpu *gpu) {
  const adji_gpu_base *base = base_of(gpu);
  return adji_fail(ADJ_E_UNSUPPORTED,
                   "tuning: prefilter=tensor: the tensor cores of device %d are off by up to %.3g units, of which the "
                   "prefilter allows %d",
                   base->device, base->tensor.worst, ADJI_TENSOR_ERROR);
}

/* ---- Turns -------------------------------------------------------------------------------------------- */

/* A thread may hold locks of several devices, and release them in any order. */
static _Thread_local struct {
  uint32_t locks;
  /* The current device and the floating-point state before the thread's first lock. CUDA must not run in the caller's
   * floating-point state, also when the caller destroys something. */
  int before;
  adji_float_state floats;
} held;

void adji_gpu_use(adji_gpu *gpu) {
  adji_kind_make_current(base_of(gpu)->device);
}

void adji_gpu_lock(adji_gpu *gpu) {
  pthread_mutex_lock(&base_of(gpu)->turn);
  if (!held.locks++) {
    held.before = adji_kind_current();
    held.floats = adji_float_state_get();
    adji_float_state_reset();
  }
  adji_gpu_use(gpu);
}

void adji_gpu_unlock(adji_gpu *gpu) {
  if (!--held.locks) {
    adji_kind_make_current(held.before);
    adji_float_state_set(held.floats);
  }
  pthread_mutex_unlock(&base_of(gpu)->turn);
}

int64_t adji_gpu_fail_at(adji_gpu *gpu, int64_t n) {
  int64_t calls = adji_gpu_calls(gpu);
  adji_gpu_fail_as(gpu, n, ADJI_FAULT_ONCE);
  return calls;
}

void adji_gpu_fail_as(adji_gpu *gpu, int64_t n, adji_gpu_fault fault) {
  atomic_store(&base_of(gpu)->calls, 0);
  atomic_store(&base_of(gpu)->fault, (int)fault);
  atomic_store(&base_of(gpu)->fail_at, n);
}

int64_t adji_gpu_calls(const adji_gpu *gpu) {
  return atomic_load(&base_of(gpu)->calls);
}

/* ---- Memory ------------------------------------------------------------------------------------------- */

uint64_t adji_gpu_used(const adji_gpu *gpu) {
  return base_of(gpu)->used;
}
uint64_t adji_gpu_peak(const adji_gpu *gpu) {
  return base_of(gpu)->peak;
}
void adji_gpu_reset_peak(adji_gpu *gpu) {
  base_of(gpu)->peak = base_of(gpu)->used;
}
uint64_t adji_gpu_available(adji_gpu *gpu) {
  const adji_gpu_base *base = base_of(gpu);
  return base->used < base->limit ? base->limit - base->used : 0;
}
