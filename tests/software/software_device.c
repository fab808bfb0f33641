/* SPDX-License-Identifier: MIT
 *
 * The software device itself: opening it, its memory, and the calls that a GPU implements by streams and events.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "software/software.h"

enum { NONSENSE = 0xa5, LOOKS_BUSY = 3 };

/* Bytes of a device, unless the context sets a limit. */
static const uint64_t MEMORY = (uint64_t)1 << 30;

typedef struct software {
  adji_gpu_base base;
  adji_software_staging staging;
  uint64_t marks[ADJI_MARKS]; /* nanoseconds; 0: not set */
  uint64_t candidates;
  _Atomic uint32_t busy; /* how many more calls find the device busy */
} software;

static software *device_of(adji_gpu *gpu) {
  return (software *)gpu;
}

/* ---- What there is ------------------------------------------------------------------------------------ */

bool adji_kind_is_up(adj_ctx *ctx) {
  (void)ctx;
  return true;
}

static adj_status count_devices(uint32_t *count) {
  const char *asked = getenv("ADJOIN_SOFTWARE_DEVICES");
  if (!asked) asked = "1";
  if (asked[0] < '1' || asked[0] > '0' + ADJI_MOST_GPUS || asked[1])
    return adji_fail(ADJ_E_ARGUMENT, "ADJOIN_SOFTWARE_DEVICES: \"%s\" is not 1 to %d", asked, (int)ADJI_MOST_GPUS);
  *count = (uint32_t)(asked[0] - '0');
  return ADJ_OK;
}

adj_status adji_kind_count(adj_ctx *ctx, uint32_t *count) {
  uint32_t there = 0;
  adj_status status = count_devices(&there);
  if (ctx->device_count >= 0) there = (uint32_t)ctx->device_count;
  if (!status) *count = there < ADJI_MOST_GPUS ? there : ADJI_MOST_GPUS;
  return status;
}

adj_status adji_kind_describe(uint32_t i, adj_device *out) {
  uint32_t count = 0;
  adj_status status = count_devices(&count);
  if (status) return status;
  if (i >= count) return adji_fail(ADJ_E_UNSUPPORTED, "device %u: there are %u", i, count);
  adj_device mine = {.number = i, .multiprocessors = 1, .memory = MEMORY, .memory_free = MEMORY};
  snprintf(mine.name, sizeof mine.name, "software device, for tests");
  *out = mine;
  return ADJ_OK;
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

/* The device that is current in this thread. Negative: none, and then launches fail. */
static _Thread_local int current = -1;

int adji_kind_current(void) {
  return current;
}

void adji_kind_make_current(int device) {
  current = device;
}

void adji_kind_close(adji_gpu *gpu) {
  adji_software_staging_close(&device_of(gpu)->staging);
  adji_gpu_clear_base(&device_of(gpu)->base);
  free(gpu);
}

adj_status adji_kind_open(adj_ctx *ctx, uint32_t i, adji_gpu **out) {
  uint32_t count = 0;
  adj_status status = count_devices(&count);
  if (status) return status;
  int device = ctx->device_count > 0 ? ctx->devices[i] : (int)i;
  if (device < 0 || device >= (int)count)
    return adji_fail(ADJ_E_ARGUMENT, "devices: there is no device %d, only %u", device, count);
  software *d = calloc(1, sizeof *d);
  if (!d) return adji_fail(ADJ_E_MEMORY, "no memory for a device");
  adji_gpu_init_base(&d->base, ctx);
  d->base.device = device;
  d->base.multiprocessors = 1;
  d->base.limit = ctx->device_memory_limit ? ctx->device_memory_limit : MEMORY;
  pthread_mutex_init(&d->staging.lock, NULL);
  current = device;
  *out = (adji_gpu *)d;
  return ADJ_OK;
}

/* ---- Operations that fail ----------------------------------------------------------------------------- */

adj_status adji_software_turn(adji_gpu *gpu, const char *operation) {
  adji_gpu_base *base = &device_of(gpu)->base;
  if (!adji_gpu_turn_fails(base, false)) return ADJ_OK;
  return adji_fail(ADJ_E_DEVICE, "device %d: %s fails, as a test wants it to", base->device, operation);
}

static adj_status check_current(adji_gpu *gpu, const char *operation) {
  int device = device_of(gpu)->base.device;
  if (current == device) return ADJ_OK;
  return adji_fail(ADJ_E_INTERNAL, "device %d: %s: device %d is current", device, operation, current);
}

adj_status adji_software_launch(adji_gpu *gpu, const char *operation) {
  adj_status status = check_current(gpu, operation);
  return status ? status : adji_software_turn(gpu, operation);
}

/* ---- Memory ------------------------------------------------------------------------------------------- */

adj_status adji_software_get(adji_gpu *gpu, uint64_t bytes, const char *what, adji_software_block *out) {
  adji_gpu_base *base = &device_of(gpu)->base;
  *out = (adji_software_block){0};
  if (!bytes) bytes = 16; /* so that an empty set has an address too */
  adj_status status = check_current(gpu, what);
  if (status) return status;
  bool fails = adji_gpu_turn_fails(base, true), none = base->fault == ADJI_FAULT_MEMORY;
  if (fails && !none) return adji_fail(ADJ_E_DEVICE, "device %d: %s fails, as a test wants it to", base->device, what);
  bool fits = !fails && bytes <= base->limit && base->used <= base->limit - bytes;
  void *at = fits ? malloc(bytes) : NULL;
  if (!at)
    return adji_fail(ADJ_E_DEVICE_MEMORY, "device %d: %s: %llu bytes more, but %llu of %llu are in use", base->device,
                     what, (unsigned long long)bytes, (unsigned long long)base->used, (unsigned long long)base->limit);
  memset(at, NONSENSE, bytes);
  *out = (adji_software_block){at, bytes};
  base->used += bytes;
  if (base->used > base->peak) base->peak = base->used;
  return ADJ_OK;
}

void adji_software_free(adji_gpu *gpu, adji_software_block *block) {
  if (!block->at) return;
  device_of(gpu)->base.used -= block->bytes;
  free(block->at);
  *block = (adji_software_block){0};
}

/* ---- Streams and events ------------------------------------------------------------------------------- */

adj_status adji_gpu_wait(adji_gpu *gpu) {
  return adji_software_turn(gpu, "wait");
}

void adji_software_at_work(adji_gpu *gpu) {
  atomic_store(&device_of(gpu)->busy, LOOKS_BUSY);
}

bool adji_gpu_busy(adji_gpu *gpu) {
  uint32_t looks = atomic_load(&device_of(gpu)->busy);
  while (looks && !atomic_compare_exchange_weak(&device_of(gpu)->busy, &looks, looks - 1)) {
  }
  return looks > 0;
}

void adji_gpu_quiesce(adji_gpu *gpu) {
  adji_software_copy_all(gpu);
}

adj_status adji_gpu_mark(adji_gpu *gpu, adji_mark mark) {
  uint64_t *marks = device_of(gpu)->marks;
  if (mark == ADJI_MARK_BEGIN) memset(marks, 0, sizeof device_of(gpu)->marks);
  adj_status status = adji_software_turn(gpu, "mark");
  if (!status) marks[mark] = adji_now_ns();
  return status;
}

double adji_gpu_between(adji_gpu *gpu, adji_mark from, adji_mark to) {
  const uint64_t *marks = device_of(gpu)->marks;
  return marks[from] && marks[to] > marks[from] ? (double)(marks[to] - marks[from]) * 1e-9 : 0;
}

void adji_software_compared(adji_gpu *gpu, uint64_t candidates) {
  device_of(gpu)->candidates = candidates;
}

uint64_t adji_gpu_last_candidates(const adji_gpu *gpu) {
  return ((const software *)gpu)->candidates;
}

/* The caller's streams have no pending work here. */
adj_status adji_gpu_after(adji_gpu *gpu, void *stream) {
  (void)stream;
  return adji_software_turn(gpu, "after");
}

adj_status adji_gpu_before(adji_gpu *gpu, void *stream) {
  (void)stream;
  return adji_software_turn(gpu, "before");
}

adji_software_staging *adji_software_staging_of(adji_gpu *gpu) {
  return &device_of(gpu)->staging;
}
