/* SPDX-License-Identifier: MIT
 *
 * The canonical distance on a device: the steps of distance/measure.h, one rounding each. Compiled with -fmad=false,
 * so that only explicit fused operations are fused.
 */
#ifndef ADJI_GPU_SHARED_STEPS_CUH
#define ADJI_GPU_SHARED_STEPS_CUH

#include "gpu/device/device.cuh"

extern "C" {
#include "distance/measure.h"
}

template <class T>
struct adji_gpu_measure {
  adji_power power;
  const T *box; /* device; NULL where no dimension is periodic */
};

static __device__ __forceinline__ float adji_fma(float a, float b, float c) {
  return __fmaf_rn(a, b, c);
}
static __device__ __forceinline__ double adji_fma(double a, double b, double c) {
  return __fma_rn(a, b, c);
}
static __device__ __forceinline__ float adji_minus(float a, float b) {
  return __fsub_rn(a, b);
}
static __device__ __forceinline__ double adji_minus(double a, double b) {
  return __dsub_rn(a, b);
}
static __device__ __forceinline__ float adji_plus(float a, float b) {
  return __fadd_rn(a, b);
}
static __device__ __forceinline__ double adji_plus(double a, double b) {
  return __dadd_rn(a, b);
}
static __device__ __forceinline__ float adji_power_of(const adji_power *p, float x) {
  return adji_power_f32(p, x);
}
static __device__ __forceinline__ double adji_power_of(const adji_power *p, double x) {
  return adji_power_f64(p, x);
}

static __device__ __forceinline__ float adji_root(float s) {
  return __fsqrt_rn(s);
}
static __device__ __forceinline__ double adji_root(double s) {
  return __dsqrt_rn(s);
}

/* L2 in two parts, for kernels that compute differences and sums in different places: t = x - c, and s plus the square
 * of t. */
template <class T>
static __device__ __forceinline__ T adji_gpu_difference(T x, T c) {
  return adji_minus(x, c);
}
template <class T>
static __device__ __forceinline__ T adji_gpu_add_square(T s, T t) {
  return adji_fma(t, t, s);
}

/* The sum s plus the term of dimension j. */
template <int STEP, class T>
static __device__ __forceinline__ T adji_gpu_step(T s, T x, T c, const adji_gpu_measure<T> &measure, uint32_t j) {
  constexpr bool AROUND = STEP >= ADJI_STEP_L2_BOX;
  constexpr int PLAIN = AROUND ? STEP - ADJI_STEP_L2_BOX : STEP;
  if (PLAIN == ADJI_STEP_DOT) return adji_fma(x, c, s);
  T t = adji_gpu_difference(x, c);
  if (PLAIN == ADJI_STEP_L2 && !AROUND) return adji_gpu_add_square(s, t);
  t = t < 0 ? -t : t;
  if (AROUND) {
    T other = adji_minus(measure.box[j], t);
    t = other < t ? other : t;
  }
  if (PLAIN == ADJI_STEP_L2) return adji_fma(t, t, s);
  if (PLAIN == ADJI_STEP_L1) return adji_plus(s, t);
  if (PLAIN == ADJI_STEP_LP) return adji_plus(s, adji_power_of(&measure.power, t));
  return t > s ? t : s;
}

/* The final sum, after the last dimension. */
template <int STEP, class T>
static __device__ __forceinline__ T adji_gpu_finish(T s) {
  return STEP == ADJI_STEP_DOT ? adji_minus(T(0), s) : s;
}

#endif
