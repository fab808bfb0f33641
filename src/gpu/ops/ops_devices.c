/* SPDX-License-Identifier: MIT
 *
 * The devices of a context: which kind they are, opening them, taking turns, and how much of their memory is in use.
 */
#include "gpu/ops/ops.h"

static adji_gpu_base *base_of(adji_gpu *gpu) {
  return (adji_gpu_base *)gpu;
}
static const adji_gpu_base *look_at(const adji_gpu *gpu) {
  return (const adji_gpu_base *)gpu;
}

/* ---- Kinds -------------------------------------------------------------------------------------------- */

static adj_status no_gpu_code(void) {
  return adji_fail(ADJ_E_UNSUPPORTED, "backend: this build has no GPU code: nvcc was not there, or left out");
}

adj_status adji_gpu_can_be(void) {
  return adji_kind_ops ? ADJ_OK : no_gpu_code();
}

bool adji_gpu_is_up(adj_ctx *ctx) {
  return adji_kind_ops && adji_kind_ops->is_up(ctx);
}

adj_status adji_gpu_count(adj_ctx *ctx, uint32_t *count) {
  return adji_kind_ops ? adji_kind_ops->count(ctx, count) : no_gpu_code();
}

adj_status adji_gpu_describe(uint32_t i, adj_device *out) {
  return adji_kind_ops ? adji_kind_ops->describe(i, out) : no_gpu_code();
}

void adj_device_init(adj_device *device, size_t struct_size) {
  adj_device defaults = {0};
  adji_init_struct(device, struct_size, &defaults, sizeof defaults);
}

adj_status adj_device_describe(uint32_t i, adj_device *out) {
  if (!out) return adji_fail(ADJ_E_ARGUMENT, "out: must not be NULL");
  return adji_gpu_describe(i, out);
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

void adji_gpu_init_base(adji_gpu_base *base, const adji_device_ops *ops, adj_ctx *ctx) {
  base->ops = ops;
  base->ctx = ctx;
  atomic_store(&base->fail_at, -1);
  pthread_mutex_init(&base->turn, NULL);
}

void adji_gpu_clear_base(adji_gpu_base *base) {
  pthread_mutex_destroy(&base->turn);
}

/* Opening and closing a device makes it current: the caller has another one back then. */
static adj_status open_gpu(const adji_device_ops *ops, adj_ctx *ctx, uint32_t i, adji_gpu **out) {
  uint64_t begin = adji_now_ns();
  int before = ops->current();
  adj_status status = ops->open(ops, ctx, i, out);
  ops->make_current(before);
  adji_trace(ctx, "open device", 0, begin, 0);
  return status;
}

static void close_gpu(void *opened) {
  const adji_device_ops *ops = adji_ops_of(opened);
  int before = ops->current();
  ops->close(opened);
  ops->make_current(before);
}

adj_status adji_gpu_at(adj_ctx *ctx, uint32_t i, adji_gpu **out) {
  if (!adji_kind_ops) return no_gpu_code();
  if (!ctx->device_count)
    return adji_fail(ADJ_E_UNSUPPORTED, "backend: the context was made without a GPU (device_count 0)");
  adji_gpu *opened = NULL;
  pthread_mutex_lock(&ctx->device_lock);
  adj_status status = ctx->gpus[i] ? ADJ_OK : open_gpu(adji_kind_ops, ctx, i, &opened);
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
  return look_at(gpu)->ctx;
}

/* ---- Turns -------------------------------------------------------------------------------------------- */

/* A thread may hold several devices, and give them back in any order. */
static _Thread_local struct {
  uint32_t locks;
  int before; /* the device that was current when the thread had none */
} held;

void adji_gpu_use(adji_gpu *gpu) {
  adji_ops_of(gpu)->make_current(base_of(gpu)->device);
}

void adji_gpu_lock(adji_gpu *gpu) {
  pthread_mutex_lock(&base_of(gpu)->turn);
  if (!held.locks++) held.before = adji_ops_of(gpu)->current();
  adji_gpu_use(gpu);
}

void adji_gpu_unlock(adji_gpu *gpu) {
  if (!--held.locks) adji_ops_of(gpu)->make_current(held.before);
  pthread_mutex_unlock(&base_of(gpu)->turn);
}

int64_t adji_gpu_fail_at(adji_gpu *gpu, int64_t n) {
  int64_t calls = atomic_exchange(&base_of(gpu)->calls, 0);
  atomic_store(&base_of(gpu)->fail_at, n);
  return calls;
}

/* ---- Memory ------------------------------------------------------------------------------------------- */

uint64_t adji_gpu_used(const adji_gpu *gpu) {
  return look_at(gpu)->used;
}
uint64_t adji_gpu_peak(const adji_gpu *gpu) {
  return look_at(gpu)->peak;
}
void adji_gpu_reset_peak(adji_gpu *gpu) {
  base_of(gpu)->peak = base_of(gpu)->used;
}
uint64_t adji_gpu_available(adji_gpu *gpu) {
  const adji_gpu_base *base = base_of(gpu);
  return base->used < base->limit ? base->limit - base->used : 0;
}
