/* SPDX-License-Identifier: MIT
 *
 * List entries of the dense kNN kernel in registers, and the network that sorts some of them.
 */
#ifndef ADJI_GPU_KNN_KNN_KEYS_CUH
#define ADJI_GPU_KNN_KNN_KEYS_CUH

#include "gpu/knn/knn_search.cuh"

namespace {

/* A list entry with an order by (sum, id) that takes few instructions. */
template <class T>
struct list_key;

template <>
struct list_key<float> { /* sums are not negative, so their bits have the same order */
  uint64_t bits;
  static __device__ __forceinline__ list_key of(float s, uint32_t id) {
    return list_key{static_cast<uint64_t>(__float_as_uint(s)) << 32 | id};
  }
  static __device__ __forceinline__ list_key first() { /* its sum, 0, is as valid a bound as any other */
    return list_key{0};
  }
  static __device__ __forceinline__ list_key last() {
    return of(INFINITY, ADJ_NO_ID);
  }
  __device__ __forceinline__ bool before(const list_key &other) const {
    return bits < other.bits;
  }
  __device__ __forceinline__ float sum() const {
    return __uint_as_float(static_cast<uint32_t>(bits >> 32));
  }
  __device__ __forceinline__ uint32_t id() const {
    return static_cast<uint32_t>(bits);
  }
};

template <>
struct list_key<double> {
  double s;
  uint32_t i;
  static __device__ __forceinline__ list_key of(double s, uint32_t id) {
    return list_key{s, id};
  }
  static __device__ __forceinline__ list_key first() {
    return list_key{-1, 0};
  }
  static __device__ __forceinline__ list_key last() {
    return of(INFINITY, ADJ_NO_ID);
  }
  __device__ __forceinline__ bool before(const list_key &other) const {
    return comes_before(s, i, other.s, other.i);
  }
  __device__ __forceinline__ double sum() const {
    return s;
  }
  __device__ __forceinline__ uint32_t id() const {
    return i;
  }
};

/* Orders two entries. */
template <class T>
__device__ __forceinline__ void put_in_order(list_key<T> *a, list_key<T> *b) {
  bool turned = b->before(*a);
  list_key<T> first = turned ? *b : *a, second = turned ? *a : *b;
  *a = first;
  *b = second;
}

__device__ __forceinline__ void put_in_order(uint32_t *a, uint32_t *b) {
  uint32_t first = min(*a, *b);
  *b = max(*a, *b);
  *a = first;
}

/* Sorts entries by Batcher's network: sorted runs of length SIZE are merged in steps, each half as long as the one
 * before. These are templates because entries stay in registers only if every index is a constant. */
template <int SIZE, int STEP, int N, class KEY>
__device__ __forceinline__ void merge_entries(KEY (&entries)[N]) {
#pragma unroll
  for (int i = STEP % SIZE; i + STEP < N; i++)
    if ((i - STEP % SIZE) / STEP % 2 == 0 && i / (2 * SIZE) == (i + STEP) / (2 * SIZE))
      put_in_order(&entries[i], &entries[i + STEP]);
  if constexpr (STEP > 1) merge_entries<SIZE, STEP / 2>(entries);
}

template <int SIZE = 1, int N, class KEY>
__device__ __forceinline__ void sort_entries(KEY (&entries)[N]) {
  merge_entries<SIZE, SIZE>(entries);
  if constexpr (2 * SIZE < N) sort_entries<2 * SIZE>(entries);
}

}  // namespace

#endif
