/* SPDX-License-Identifier: MIT
 *
 * Arrays on a device that CUB sorts, adds up and filters. CUB's headers take longer to compile than most kernels, so
 * only arrays.cu includes them, and no kernel of CUB is compiled twice.
 *
 * room: CUB's workspace, which grows as needed; the caller frees it. All work is queued on the compute stream, unless a
 * stream is given.
 */
#ifndef ADJI_GPU_SHARED_ARRAYS_CUH
#define ADJI_GPU_SHARED_ARRAYS_CUH

#include "gpu/device/device.cuh"

/* ---- Sorting --------------------------------------------------------------------------------- */

/* Keys with values, and as much room again. After a sort, keys and values point to the sorted ones; they may have been
 * swapped with the others. Values may be NULL if keys have 32 bits. Sorts are stable and use the lowest `bits` bits of
 * a key. */
template <class KEY, class VALUE = uint32_t>
struct adji_pairs {
  KEY *keys, *other_keys;
  VALUE *values, *other_values;
};

/* KEY: uint32_t or uint64_t. */
template <class KEY>
adj_status adji_sort_pairs(adji_gpu *gpu, cudaStream_t stream, adji_block *room, adji_pairs<KEY> *pairs, uint64_t count,
                           uint32_t bits);
template <class KEY>
static inline adj_status adji_sort_pairs(adji_gpu *gpu, adji_block *room, adji_pairs<KEY> *pairs, uint64_t count,
                                         uint32_t bits) {
  return adji_sort_pairs(gpu, gpu->compute, room, pairs, count, bits);
}

/* Segments of the arrays, each sorted by one block; meant for long segments. Entries outside of them are undefined
 * afterwards. At most one of KEY and VALUE is uint64_t, the others are uint32_t. */
struct adji_segments {
  const int64_t *begins, *ends; /* device; NULL: contiguous segments */
  uint64_t each;                /* of this length */
  uint64_t count;
  uint64_t entries; /* of the arrays */
};
template <class KEY, class VALUE>
adj_status adji_sort_segments(adji_gpu *gpu, cudaStream_t stream, adji_block *room, adji_pairs<KEY, VALUE> *pairs,
                              const adji_segments *segments, uint32_t bits);

/* Floats as unsigned integers in the same order, and back. A zero loses its sign: -0 + 0 is 0. */
static __device__ __forceinline__ uint32_t in_order(float x) {
  uint32_t bits = __float_as_uint(x + 0.0f);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
static __device__ __forceinline__ float from_order(uint32_t bits) {
  return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}
static __device__ __forceinline__ uint64_t in_order(double x) {
  uint64_t bits = static_cast<uint64_t>(__double_as_longlong(x + 0.0));
  return bits >> 63 ? ~bits : bits | UINT64_C(0x8000000000000000);
}
static __device__ __forceinline__ double from_order(uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits >> 63 ? bits & UINT64_C(0x7fffffffffffffff) : ~bits));
}

/* ---- Adding up, filtering -------------------------------------------------------------------- */

/* to[i]: the sum of from[0] .. from[i - 1]. from and to may be the same array. */
adj_status adji_add_up(adji_gpu *gpu, adji_block *room, const uint32_t *from, uint64_t *to, uint64_t count);
adj_status adji_add_up(adji_gpu *gpu, adji_block *room, const uint64_t *from, uint64_t *to, uint64_t count);

/* numbers[i]: the largest of numbers[0] .. numbers[i]. */
adj_status adji_run_maximum(adji_gpu *gpu, adji_block *room, uint32_t *numbers, uint64_t count);

/* Lists the positions whose row, ids[position], is in first .. end - 1. Candidates are the `count` positions in from,
 * or 0 .. count - 1 if from is NULL. If places is not NULL, the row is places[ids[position]]. Positions stay in order;
 * ADJI_ANSWER_ITEMS is their number. */
struct adji_wanted_rows {
  const uint32_t *ids;
  uint64_t first, end;
  const uint32_t *places;
};
adj_status adji_list_wanted(adji_gpu *gpu, adji_block *room, const uint32_t *from, uint64_t count,
                            const adji_wanted_rows &wanted, uint32_t *to);

#endif
