/* SPDX-License-Identifier: MIT
 *
 * From sums to distances: one thread per value.
 */
#include "gpu/shared/report.cuh"

extern "C" {
#include "core/angles.h"
}

template <class T>
static __device__ T distance_of(const adji_measure &measure, T s) {
  switch (measure.report) {
    case ADJI_REPORT_ROOT:
      return adji_root(s);
    case ADJI_REPORT_POWER:
      return static_cast<T>(adji_exp_log(s, measure.power.inverse));
    case ADJI_REPORT_HALF:
      return s / 2;
    case ADJI_REPORT_NEGATED:
      return adji_minus(T(0), s);
    case ADJI_REPORT_ARC: {
      if (isinf(s)) return s; /* padding after the last neighbour, since no chord is infinite */
      double half = adji_root(static_cast<double>(s)) * 0.5;
      return static_cast<T>(2 * adji_arc(half < 1 ? half : 1) * measure.unit);
    }
    default:
      return s;
  }
}

template <class T>
static __global__ void report(adji_measure measure, uint64_t count, T *values) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) values[i] = distance_of(measure, values[i]);
}

adj_status adji_gpu_report(adji_gpu *gpu, cudaStream_t stream, const adji_measure *measure, adj_type type,
                           uint64_t count, void *values) {
  if (!count || measure->report == ADJI_REPORT_SUM) return ADJ_OK;
  if (type == ADJ_F64)
    report<<<adji_blocks_for(count, 256), 256, 0, stream>>>(*measure, count, static_cast<double *>(values));
  else
    report<<<adji_blocks_for(count, 256), 256, 0, stream>>>(*measure, count, static_cast<float *>(values));
  ADJI_LAUNCHED(gpu, "report");
  return ADJ_OK;
}
