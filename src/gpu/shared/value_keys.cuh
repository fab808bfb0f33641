/* SPDX-License-Identifier: MIT
 *
 * Values as keys. A key is a value and its column in one number. So no two keys of a row are equal, and all algorithms
 * give the same order: by value, ties by the lower column, NaN after every number. -0 equals 0.
 */
#ifndef ADJI_GPU_SHARED_VALUE_KEYS_CUH
#define ADJI_GPU_SHARED_VALUE_KEYS_CUH

#include "gpu/shared/row_sort_kernels.cuh"

namespace {

template <class T>
struct key_traits;

template <>
struct key_traits<float> {
  typedef uint64_t key;
  typedef uint32_t order; /* a value as an unsigned number */
  typedef float4 vector;
  static constexpr order SIGN = 0x80000000u;
  enum {
    VECTOR = 4, /* values per 16 bytes */
    EACH = 32   /* keys that a thread can hold in registers while sorting */
  };
};

template <>
struct key_traits<double> {
  typedef wide_key key;
  typedef uint64_t order;
  typedef double2 vector;
  static constexpr order SIGN = UINT64_C(0x8000000000000000);
  enum { VECTOR = 2, EACH = 16 };
};

template <class T>
using key_of = typename key_traits<T>::key;
template <class T>
using order_of = typename key_traits<T>::order;

/* The ordered number of zeros, which have no sign as keys. */
template <class T>
constexpr order_of<T> ZERO = key_traits<T>::SIGN;
/* The ordered number of NaNs. */
template <class T>
constexpr order_of<T> NOT_A_NUMBER = ~order_of<T>(0);

template <class T>
__device__ __forceinline__ order_of<T> order_of_value(T x) {
  return x != x ? NOT_A_NUMBER<T> : in_order(x);
}

__device__ __forceinline__ uint64_t make_key(uint32_t order, uint32_t column) {
  return static_cast<uint64_t>(order) << 32 | column;
}
__device__ __forceinline__ wide_key make_key(uint64_t order, uint32_t column) {
  return wide_key{order, column};
}
__device__ __forceinline__ uint32_t key_order(uint64_t key) {
  return static_cast<uint32_t>(key >> 32);
}
__device__ __forceinline__ uint64_t key_order(const wide_key &key) {
  return key.high;
}
__device__ __forceinline__ uint32_t key_column(uint64_t key) {
  return static_cast<uint32_t>(key);
}
__device__ __forceinline__ uint32_t key_column(const wide_key &key) {
  return static_cast<uint32_t>(key.low);
}

/* A key after all others: no column has this number. */
template <class T>
__device__ __forceinline__ key_of<T> last_key() {
  return make_key(NOT_A_NUMBER<T>, 0xffffffffu);
}

}  // namespace

#endif
