/* SPDX-License-Identifier: MIT
 *
 * The operations of a device: one table for each kind of device. Host code knows devices only through the functions of
 * device.h, staging.h, survey.h, derive.h, result.h, range.h, range_list.h, knn.h and select.h, which say what each
 * does. ops.c and ops_devices.c define these functions: each calls the operation of the same type in the device's
 * table.
 *
 *   adji_cuda_ops      GPUs: ops_cuda.cu, in builds with CUDA
 *   adji_software_ops  host memory and plain loops, in programs of tests: tests/software/software.h
 */
#ifndef ADJI_GPU_OPS_OPS_H
#define ADJI_GPU_OPS_OPS_H

#include "gpu/device/derive.h"
#include "gpu/device/result.h"
#include "gpu/device/staging.h"
#include "gpu/device/survey.h"
#include "gpu/knn/knn.h"
#include "gpu/range/range_list.h"
#include "gpu/select/select.h"

#ifdef __cplusplus
extern "C" {
#endif

/* X(function, operation) */
#define ADJI_DEVICE_OPS(X)                               \
  X(adji_gpu_is_up, is_up)                               \
  X(adji_gpu_describe, describe)                         \
  X(adji_gpu_count, count)                               \
  X(adji_gpu_multiprocessors, multiprocessors)           \
  X(adji_gpu_wait, wait)                                 \
  X(adji_gpu_busy, busy)                                 \
  X(adji_gpu_quiesce, quiesce)                           \
  X(adji_gpu_mark, mark)                                 \
  X(adji_gpu_between, between)                           \
  X(adji_gpu_last_candidates, last_candidates)           \
  X(adji_gpu_last_slots, last_slots)                     \
  X(adji_gpu_after, after)                               \
  X(adji_gpu_before, before)                             \
  X(adji_staging_open, staging_open)                     \
  X(adji_staging_at, staging_at)                         \
  X(adji_staging_send, staging_send)                     \
  X(adji_staging_receive, staging_receive)               \
  X(adji_staging_wait, staging_wait)                     \
  X(adji_staging_here, staging_here)                     \
  X(adji_gpu_survey, survey)                             \
  X(adji_gpu_derive_units, derive_units)                 \
  X(adji_gpu_derive_sphere, derive_sphere)               \
  X(adji_gpu_points_free, points_free)                   \
  X(adji_gpu_range_open, range_open)                     \
  X(adji_gpu_range_close, range_close)                   \
  X(adji_gpu_range_cells, range_cells)                   \
  X(adji_gpu_range_work, range_work)                     \
  X(adji_gpu_range_degrees, range_degrees)               \
  X(adji_gpu_range_offsets, range_offsets)               \
  X(adji_gpu_range_counted, range_counted)               \
  X(adji_gpu_range_count, range_count)                   \
  X(adji_gpu_range_so_far, range_so_far)                 \
  X(adji_gpu_range_begin_count, range_begin_count)       \
  X(adji_gpu_range_add, range_add)                       \
  X(adji_gpu_range_end_count, range_end_count)           \
  X(adji_gpu_range_copy_degrees, range_copy_degrees)     \
  X(adji_gpu_range_forget_degrees, range_forget_degrees) \
  X(adji_gpu_range_sample, range_sample)                 \
  X(adji_gpu_range_slots, range_slots)                   \
  X(adji_gpu_range_fill, range_fill)                     \
  X(adji_gpu_range_take, range_take)                     \
  X(adji_gpu_csr_free, csr_free)                         \
  X(adji_gpu_range_fetch, range_fetch)                   \
  X(adji_gpu_range_release, range_release)               \
  X(adji_gpu_range_forget, range_forget)                 \
  X(adji_gpu_range_forget_whole, range_forget_whole)     \
  X(adji_gpu_range_end_fills, range_end_fills)           \
  X(adji_gpu_range_check, range_check)                   \
  X(adji_gpu_lists_open, lists_open)                     \
  X(adji_gpu_lists_close, lists_close)                   \
  X(adji_gpu_lists_follow, lists_follow)                 \
  X(adji_gpu_lists_begin, lists_begin)                   \
  X(adji_gpu_lists_end, lists_end)                       \
  X(adji_gpu_lists_list, lists_list)                     \
  X(adji_gpu_lists_listed, lists_listed)                 \
  X(adji_gpu_lists_fetch, lists_fetch)                   \
  X(adji_gpu_knn_open, knn_open)                         \
  X(adji_gpu_knn_close, knn_close)                       \
  X(adji_gpu_knn_chunk, knn_chunk)                       \
  X(adji_gpu_knn_begin, knn_begin)                       \
  X(adji_gpu_knn_end, knn_end)                           \
  X(adji_gpu_knn_take, knn_take)                         \
  X(adji_gpu_knn_work, knn_work)                         \
  X(adji_gpu_knn_effort_of, knn_effort_of)               \
  X(adji_gpu_knn_follow, knn_follow)                     \
  X(adji_gpu_knn_begin_lists, knn_begin_lists)           \
  X(adji_gpu_knn_end_lists, knn_end_lists)               \
  X(adji_gpu_knn_list, knn_list)                         \
  X(adji_gpu_knn_listed, knn_listed)                     \
  X(adji_gpu_knn_missed, knn_missed)                     \
  X(adji_gpu_knn_fetch, knn_fetch)                       \
  X(adji_gpu_select_rows, select_rows)

struct adji_device_ops {
  /* Opens the i-th device that a context may use, and makes it current. The rest of the device is the kind's. */
  adj_status (*open)(const adji_device_ops *ops, adj_ctx *ctx, uint32_t i, adji_gpu **out);
  void (*close)(adji_gpu *gpu);
  /* The number of the device that is current in this thread; negative: there is none. And another one, if it is not. */
  int (*current)(void);
  void (*make_current)(int device);
#define ADJI_OP_(function, operation) __typeof__(function) *operation;
  ADJI_DEVICE_OPS(ADJI_OP_)
#undef ADJI_OP_
};

extern const adji_device_ops adji_cuda_ops;

/* The kind that the devices of this program have; NULL: there are none. See ops_kind.c. */
extern const adji_device_ops *const adji_kind_ops;

/* The table of a device, and of what lives on one. */
static inline const adji_device_ops *adji_ops_of(const adji_gpu *gpu) {
  return ((const adji_gpu_base *)gpu)->ops;
}
static inline const adji_device_ops *adji_ops_on(const void *object) {
  return adji_ops_of(((const adji_on_device *)object)->gpu);
}

#ifdef __cplusplus
}
#endif
#endif
