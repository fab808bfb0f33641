/* SPDX-License-Identifier: MIT
 *
 * A device, as the rest of the library sees it. Host code calls these functions, and those of staging.h, survey.h,
 * derive.h, range.h, range_list.h, knn.h and select.h.
 */
#ifndef ADJI_GPU_DEVICE_DEVICE_H
#define ADJI_GPU_DEVICE_DEVICE_H

#include "gpu/device/tensor_probe.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct adji_gpu adji_gpu;

/* How a device fails in a test. ONCE: one call fails. LOST: all calls from one on fail, as when the device is lost.
 * MEMORY: one request for memory fails. */
typedef enum adji_gpu_fault { ADJI_FAULT_ONCE, ADJI_FAULT_LOST, ADJI_FAULT_MEMORY } adji_gpu_fault;

/* The part of adji_gpu that host code knows. Only the operations know the rest. */
typedef struct adji_gpu_base {
  adj_ctx *ctx;
  int device, multiprocessors; /* the device's number; how many multiprocessors it has */
  adji_tensor_facts tensor;
  uint64_t used, peak, limit;          /* bytes of its memory */
  ADJI_ATOMIC(int64_t) fail_at, calls; /* see adji_gpu_fail_at */
  ADJI_ATOMIC(int) fault;              /* an adji_gpu_fault */
  pthread_mutex_t turn;                /* see adji_gpu_lock */
} adji_gpu_base;

/* Operations for device.c alone. */
ADJI_OP bool adji_kind_is_up(adj_ctx *ctx);
ADJI_OP adj_status adji_kind_count(adj_ctx *ctx, uint32_t *count);
ADJI_OP adj_status adji_kind_describe(uint32_t i, adj_device *out);
/* Opens the i-th device that a context may use, and makes it current. */
ADJI_OP adj_status adji_kind_open(adj_ctx *ctx, uint32_t i, adji_gpu **out);
ADJI_OP void adji_kind_close(adji_gpu *gpu);
/* The number of the device that is current in this thread; negative: none. make_current makes another one current, if
 * it is not already. */
ADJI_OP int adji_kind_current(void);
ADJI_OP void adji_kind_make_current(int device);
/* For adji_kind_open and adji_kind_close. */
void adji_gpu_init_base(adji_gpu_base *base, adj_ctx *ctx);
void adji_gpu_clear_base(adji_gpu_base *base);

/* Points on a device. Coordinate j of row i is at data[i * row_stride + j * column_stride], in elements. */
typedef struct adji_gpu_rows {
  const void *data;
  adj_type type;
  uint32_t dim;
  uint64_t count;
  uint64_t row_stride, column_stride;
} adji_gpu_rows;

/* Points that own their memory, packed by rows. */
typedef struct adji_gpu_points {
  adji_gpu *gpu; /* NULL: none */
  adji_gpu_rows rows;
  uint64_t bytes;
} adji_gpu_points;
/* Frees in the order of the device's work. */
ADJI_OP void adji_gpu_points_free(adji_gpu_points *points);

/* Rows first_row .. end_row - 1 of a result. */
typedef struct adji_gpu_window {
  uint64_t first_row, end_row;
  uint64_t base, pairs; /* its entries in the whole result: base .. base + pairs - 1 */
} adji_gpu_window;

/* A whole result, owned by the holder of this struct. distances is NULL unless requested; a table of neighbours has no
 * offsets. */
typedef struct adji_gpu_csr {
  adji_gpu *gpu;
  uint64_t rows, pairs; /* kNN: padding is not counted */
  uint64_t *offsets;
  uint32_t *ids;
  void *distances;
  uint64_t bytes[3]; /* of offsets, ids and distances */
} adji_gpu_csr;
/* Frees in the order of the stream. */
ADJI_OP void adji_gpu_csr_free(adji_gpu_csr *csr, void *stream);

/* The context's first device. It is opened on the first call and stays open as long as the context. ADJ_E_UNSUPPORTED:
 * there is no device; the message says why. */
adj_status adji_gpu_of(adj_ctx *ctx, adji_gpu **out);

/* The i-th device that a context may use; the number of these devices. A context may name a device twice. */
adj_status adji_gpu_at(adj_ctx *ctx, uint32_t i, adji_gpu **out);
adj_status adji_gpu_count(adj_ctx *ctx, uint32_t *count);

/* Whether CUDA is already running in this process on the context's first device, so that opening it takes only
 * milliseconds. Starts nothing. */
bool adji_gpu_is_up(adj_ctx *ctx);

/* ADJ_OK if there can be devices. A build without CUDA fails with a message that says so. The driver is loaded only
 * when a device is first requested, so one binary runs on machines with and without it. */
adj_status adji_gpu_can_be(void);

adj_ctx *adji_gpu_ctx(const adji_gpu *gpu);

uint32_t adji_gpu_multiprocessors(const adji_gpu *gpu);

/* Refuses a prefilter on tensor cores that failed the check when the device was opened. */
adj_status adji_gpu_refuse_tensor(const adji_gpu *gpu);

/* Waits until the compute stream is idle. */
ADJI_OP adj_status adji_gpu_wait(adji_gpu *gpu);

/* Whether the compute stream is busy. Any thread may ask. */
ADJI_OP bool adji_gpu_busy(adji_gpu *gpu);

/* Waits for everything in progress on the device, after a failure that was already reported. */
ADJI_OP void adji_gpu_quiesce(adji_gpu *gpu);

uint64_t adji_gpu_used(const adji_gpu *gpu);
uint64_t adji_gpu_peak(const adji_gpu *gpu);
void adji_gpu_reset_peak(adji_gpu *gpu);
/* Bytes that can still be allocated. */
uint64_t adji_gpu_available(adji_gpu *gpu);

/* Seconds of device time between two marks of the last join. Marks are set during the join and read when it is done. */
typedef enum adji_mark {
  ADJI_MARK_BEGIN,
  ADJI_MARK_PLANNED,
  ADJI_MARK_INDEXED,
  ADJI_MARK_COUNTED,
  ADJI_MARK_FILLED,
  ADJI_MARK_SORTED,
  ADJI_MARKS
} adji_mark;
ADJI_OP adj_status adji_gpu_mark(adji_gpu *gpu, adji_mark mark);
ADJI_OP double adji_gpu_between(adji_gpu *gpu, adji_mark from, adji_mark to); /* 0 when a mark is missing */

ADJI_OP uint64_t adji_gpu_last_candidates(const adji_gpu *gpu); /* candidates of the last count */

/* after: later work of the device waits for the work that is on `stream` so far. before: the reverse. */
ADJI_OP adj_status adji_gpu_after(adji_gpu *gpu, void *stream);
ADJI_OP adj_status adji_gpu_before(adji_gpu *gpu, void *stream);

/* One join at a time uses a device; others wait here. The device is current in the thread that has the lock. When a
 * thread releases its last lock, the device that was current before its first lock becomes current again. */
void adji_gpu_lock(adji_gpu *gpu);
void adji_gpu_unlock(adji_gpu *gpu);
/* Makes the device current in a thread that works on behalf of the lock's owner. */
void adji_gpu_use(adji_gpu *gpu);

/* For tests: the n-th call of the device from now on fails; negative: none fails. Returns the number of device calls
 * since the previous call of this function. */
int64_t adji_gpu_fail_at(adji_gpu *gpu, int64_t n);
/* The same for any kind of fault; adji_gpu_calls: the device calls since then. With ADJI_FAULT_MEMORY only requests for
 * memory count. */
void adji_gpu_fail_as(adji_gpu *gpu, int64_t n, adji_gpu_fault fault);
int64_t adji_gpu_calls(const adji_gpu *gpu);

/* Asked before each call of a device: whether a test wants it to fail. memory: the call requests memory. */
static inline bool adji_gpu_turn_fails(adji_gpu_base *base, bool memory) {
  if (base->fault == ADJI_FAULT_MEMORY && !memory) return false;
  base->calls++;
  if (base->fail_at < 0 || base->fail_at-- != 0) return false;
  if (base->fault == ADJI_FAULT_LOST) base->fail_at = 0;
  return true;
}

#ifdef __cplusplus
}
#endif
#endif
