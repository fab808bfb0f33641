/* SPDX-License-Identifier: MIT
 *
 * Selection: rows of values, which become keys (gpu/shared/value_keys.cuh). The k largest are the k smallest of the
 * values with their signs flipped.
 */
#ifndef ADJI_GPU_SELECT_SELECT_KEYS_CUH
#define ADJI_GPU_SELECT_SELECT_KEYS_CUH

#include "gpu/select/select.h"
#include "gpu/shared/value_keys.cuh"

namespace {

__device__ __forceinline__ float flipped(float x, bool flip) {
  return __uint_as_float(__float_as_uint(x) ^ (flip ? 0x80000000u : 0u));
}
__device__ __forceinline__ double flipped(double x, bool flip) {
  uint64_t bits = static_cast<uint64_t>(__double_as_longlong(x)) ^ (flip ? UINT64_C(0x8000000000000000) : 0);
  return __longlong_as_double(static_cast<long long>(bits));
}

/* ---- Vectors --------------------------------------------------------------------------------- */

__device__ __forceinline__ void unpack(const float4 &v, float *to) {
  to[0] = v.x;
  to[1] = v.y;
  to[2] = v.z;
  to[3] = v.w;
}
__device__ __forceinline__ void unpack(const double2 &v, double *to) {
  to[0] = v.x;
  to[1] = v.y;
}

/* ---- Overlapping kernels ---------------------------------------------------------------------
 *
 * A kernel launched to overlap the previous one (select.cu) may begin when all blocks of that one have called
 * let_next_begin() or ended. Its work before wait_for_previous() must not depend on the previous kernel. All threads
 * wait, in all kernels of such a sequence but the first. So when a kernel continues, all kernels before it have ended.
 * Below compute capability 9.0 kernels are not launched in this way. */

__device__ __forceinline__ void let_next_begin() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
#endif
}
__device__ __forceinline__ void wait_for_previous() {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
  cudaGridDependencySynchronize();
#endif
}

/* The values, and where the answer goes. */
template <class T>
struct selection {
  const T *values;
  uint64_t stride; /* from row to row, in values */
  uint32_t rows, columns;
  uint32_t k, out_k; /* requested, at most columns; entries per row of the answer */
  bool flip;         /* select the largest: flip signs */
  const uint32_t *ids;
  uint32_t *columns_out;
  T *values_out;

  __device__ const T *row(uint32_t number) const {
    return values + number * stride;
  }
  __device__ key_of<T> key(const T *row, uint32_t column) const {
    return make_key(order_of_value(flipped(__ldg(row + column), flip)), column);
  }
  /* Writes entry `at` of a row of the answer. Zeros and NaNs are copied from the matrix, with their signs. */
  __device__ void put(uint32_t number, uint32_t at, const key_of<T> &key) const {
    uint64_t to = static_cast<uint64_t>(number) * out_k + at;
    uint32_t column = key_column(key);
    columns_out[to] = ids ? __ldg(ids + column) : column;
    if (!values_out) return;
    order_of<T> order = key_order(key);
    values_out[to] =
        order == ZERO<T> || order == NOT_A_NUMBER<T> ? __ldg(row(number) + column) : flipped(from_order(order), flip);
  }
};

/* What a sort reads and writes: it writes the k smallest keys of a list to the front of that list or of another one, or
 * to the answer of a row. One type serves all cases, so that the sort is compiled once. */
template <class T>
struct sorted_list {
  typedef key_of<T> key;
  const key *from;
  key *to; /* NULL: the answer */
  uint32_t k;
  const selection<T> *s;
  uint32_t row;
  __device__ key last() const {
    return last_key<T>();
  }
  __device__ key load(uint64_t at) const {
    return from[at];
  }
  __device__ void store(uint64_t at, const key &value) const {
    if (at >= k) return;
    if (to)
      to[at] = value;
    else
      s->put(row, static_cast<uint32_t>(at), value);
  }
};
template <class T>
__device__ __forceinline__ sorted_list<T> list_to_list(const key_of<T> *from, key_of<T> *to, uint32_t k) {
  return sorted_list<T>{from, to, k, NULL, 0};
}
template <class T>
__device__ __forceinline__ sorted_list<T> list_to_answer(const key_of<T> *from, const selection<T> &s, uint32_t row) {
  return sorted_list<T>{from, NULL, s.k, &s, row};
}

/* Rows first .. first + rows - 1 of a job. */
template <class T>
selection<T> selection_of(const adji_gpu_select *job, uint64_t out_k, uint64_t first, uint64_t rows) {
  selection<T> s = {};
  s.values = static_cast<const T *>(job->values) + first * job->row_stride;
  s.stride = job->row_stride;
  s.rows = static_cast<uint32_t>(rows);
  s.columns = static_cast<uint32_t>(job->columns);
  s.k = job->k;
  s.out_k = static_cast<uint32_t>(out_k);
  s.flip = job->largest;
  s.ids = job->ids;
  s.columns_out = job->columns_out + first * out_k;
  s.values_out = job->values_out ? static_cast<T *>(job->values_out) + first * out_k : NULL;
  return s;
}

/* Device memory of a selection. Only free() frees it, in the order of the compute stream. */
struct scratch {
  adji_gpu *gpu;
  adji_block blocks[8];
  uint32_t count;

  template <class V>
  adj_status get(uint64_t entries, V **out) {
    adj_status status = adji_block_get(gpu, gpu->compute, entries * sizeof(V), "selection", &blocks[count]);
    if (!status) *out = adji_at<V>(blocks[count++]);
    return status;
  }
  void free() {
    while (count)
      adji_block_free(gpu, gpu->compute, &blocks[--count]);
  }
};

/* The rows to be done: all, or those listed from the front of an array, from its end, or both. */
struct row_list {
  const uint32_t *rows;         /* NULL: all */
  const uint32_t *front, *back; /* how many rows from the front and from the back; NULL: none */
  uint32_t all;                 /* the number of all rows, and of entries of the array */

  __device__ uint32_t count() const {
    return rows ? (front ? *front : 0) + (back ? *back : 0) : all;
  }
  __device__ uint32_t row(uint32_t i) const {
    if (!rows) return i;
    uint32_t front_count = front ? *front : 0;
    return i < front_count ? rows[i] : rows[all - 1 - (i - front_count)];
  }
};

}  // namespace

#endif
