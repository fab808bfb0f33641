/* SPDX-License-Identifier: MIT
 *
 * Sorts rows in ascending order of id by buckets, in shared memory. The ids of a row are usually spread evenly between
 * the smallest and the largest, because the input is in no particular order. So the value of an id tells roughly where
 * it belongs, and a network with 55 comparisons per key is not needed:
 *
 * 1. Threads load the row, and find the smallest and the largest id.
 * 2. There are as many buckets of equal width as there is room for keys. Each bucket counts its ids, and an id gets the
 *    number of ids before it in its bucket.
 * 3. The counts are added up, which gives the place of each bucket. Each id goes to the place of its bucket, after the
 *    ids counted before it.
 * 4. A thread takes EACH consecutive keys. Only keys of the same bucket may be in the wrong order. So an odd-even
 *    transposition sort needs as many passes as the largest bucket has keys: m keys are sorted after m passes, whether
 *    an odd or an even pass comes first, and comparing keys of two buckets changes nothing.
 *
 * A row whose ids are not spread evenly is left to the network: that is, if too many sampled ids share a bucket, or if
 * a bucket has more than MOST_IN_BUCKET ids. Many ids in few buckets would also make the counting slow.
 *
 * Limits: about 32 instructions per key and 100 per row; the network for 1,024 keys takes 85 per key, the one for 2,048
 * takes 96, with half of its keys padding. Shared memory is accessed ten times per key. Three of these accesses are
 * random, with about 3.5 keys for the fullest of 32 banks; the others are vectors of 16 bytes. EACH is four times an
 * odd number for their sake: eight threads that access 16 bytes at once, EACH keys apart, use all banks.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_BUCKETS_CUH
#define ADJI_GPU_SHARED_ROW_SORT_BUCKETS_CUH

#include "gpu/shared/row_sort_kernels.cuh"

namespace {

/* MOST_IN_BUCKET: a pass costs about one instruction per key; the largest of 1,000 buckets has five to eight keys.
 * MOST_ALIKE: how many of the 32 sampled ids of a warp may share a bucket with another one; of evenly spread ids one or
 * two do. */
enum { MOST_IN_BUCKET = 24, MOST_ALIKE = 12 };

/* A barrier for the threads that share a row. */
template <int WARPS_EACH>
__device__ __forceinline__ void wait_for_row() {
  if (WARPS_EACH == 1)
    __syncwarp();
  else
    __syncthreads();
}

/* What the warps of a row exchange. */
template <int WARPS_EACH, class KEY>
struct row_results {
  uint32_t low[WARPS_EACH], high[WARPS_EACH], total[WARPS_EACH], most[WARPS_EACH];
  KEY first[2][WARPS_EACH], last[2][WARPS_EACH];
};

/* Maps an id to its bucket; the same for all threads of a row. */
struct bucket_map {
  uint32_t low, scale;
  __device__ uint32_t operator()(uint32_t id) const {
    return __umulhi(id - low, scale);
  }
};

/* The map for ids low .. high. The scale is never too large: scale <= buckets * 2^32 / (high - low + 1), as all steps
 * round down and the divisor is rounded up. So high's bucket is at most (high - low) * buckets / (high - low + 1), less
 * than `buckets`. A scale of 2^32 or more, where buckets are at most one id wide, becomes 2^32 - 1, and ids low and low
 * + 1 share a bucket. */
__device__ __forceinline__ bucket_map map_between(uint32_t low, uint32_t high, uint32_t buckets) {
  float all = __fmul_rd(static_cast<float>(buckets), 4294967296.0f);
  return bucket_map{low, __float2uint_rd(__fmul_rd(all, __frcp_rd(__uint2float_ru(high - low + 1))))};
}

template <int WARPS_EACH, class KEY>
__device__ __forceinline__ void find_range(uint32_t *low, uint32_t *high, row_results<WARPS_EACH, KEY> *results) {
  *low = __reduce_min_sync(ALL_LANES, *low);
  *high = __reduce_max_sync(ALL_LANES, *high);
  if (WARPS_EACH == 1) return;
  uint32_t warp = threadIdx.x / ADJI_WARP;
  results->low[warp] = *low;
  results->high[warp] = *high;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < WARPS_EACH; w++) {
    *low = min(*low, results->low[w]);
    *high = max(*high, results->high[w]);
  }
}

/* The sum of the counts of all earlier threads. total: the sum of this thread's counts. *most: in, its largest count;
 * out, the largest of all threads. */
template <int WARPS_EACH, class KEY>
__device__ __forceinline__ uint32_t add_up_threads(uint32_t total, uint32_t *most,
                                                   row_results<WARPS_EACH, KEY> *results) {
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP, end = total;
#pragma unroll
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    uint32_t other = __shfl_up_sync(ALL_LANES, end, step);
    end += lane >= step ? other : 0;
  }
  *most = __reduce_max_sync(ALL_LANES, *most);
  if (WARPS_EACH > 1) {
    if (lane == ADJI_WARP - 1) {
      results->total[warp] = end;
      results->most[warp] = *most;
    }
    __syncthreads();
#pragma unroll
    for (uint32_t w = 0; w < WARPS_EACH; w++) {
      end += w < warp ? results->total[w] : 0;
      *most = max(*most, results->most[w]);
    }
  }
  return end - total;
}

/* Turns counts into places. Returns the largest count. */
template <int EACH, int WARPS_EACH, class KEY>
__device__ __forceinline__ uint32_t add_up_buckets(uint4 *own, row_results<WARPS_EACH, KEY> *results) {
  uint32_t total = 0, most = 0;
#pragma unroll
  for (int i = 0; i < EACH / 4; i++) {
    uint4 c = own[i];
    total += c.x + c.y + c.z + c.w;
    most = max(max(most, max(c.x, c.y)), max(c.z, c.w));
  }
  uint32_t before = add_up_threads<WARPS_EACH>(total, &most, results);
#pragma unroll
  for (int i = 0; i < EACH / 4; i++) {
    uint4 c = own[i];
    own[i] = make_uint4(before, before + c.x, before + c.x + c.y, before + c.x + c.y + c.z);
    before += c.x + c.y + c.z + c.w;
  }
  return most;
}

/* Loads a thread's keys from shared memory; put_own stores them there. */
template <int EACH, class KEY>
__device__ __forceinline__ void take_own(KEY (&v)[EACH], const KEY *own) {
  constexpr int IN_16 = 16 / sizeof(KEY);
#pragma unroll
  for (int i = 0; i < EACH; i += IN_16) {
    uint4 c = *reinterpret_cast<const uint4 *>(own + i);
    memcpy(v + i, &c, sizeof c);
  }
}

template <int EACH, class KEY>
__device__ __forceinline__ void put_own(const KEY (&v)[EACH], KEY *own) {
  constexpr int IN_16 = 16 / sizeof(KEY);
#pragma unroll
  for (int i = 0; i < EACH; i += IN_16) {
    uint4 c;
    memcpy(&c, v + i, sizeof c);
    *reinterpret_cast<uint4 *>(own + i) = c;
  }
}

/* The key of the next lane, and that of the previous one. */
template <class KEY>
__device__ __forceinline__ KEY from_next(KEY key) {
  return __shfl_down_sync(ALL_LANES, key, 1);
}
template <class KEY>
__device__ __forceinline__ KEY from_previous(KEY key) {
  return __shfl_up_sync(ALL_LANES, key, 1);
}
template <>
__device__ __forceinline__ wide_key from_next(wide_key key) {
  return wide_key{from_next(key.high), from_next(key.low)};
}
template <>
__device__ __forceinline__ wide_key from_previous(wide_key key) {
  return wide_key{from_previous(key.high), from_previous(key.low)};
}

/* Odd-even transposition sort, two passes per step. Across threads, the last key of one is compared with the first key
 * of the next. */
template <int EACH, int WARPS_EACH, class KEY>
__device__ __forceinline__ void transpose_odd_even(KEY (&v)[EACH], uint32_t passes,
                                                   row_results<WARPS_EACH, KEY> *results) {
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = WARPS_EACH == 1 ? 0 : threadIdx.x / ADJI_WARP;
#pragma unroll 1
  for (uint32_t pass = 0; pass < passes; pass += 2) {
#pragma unroll
    for (int i = 0; i < EACH; i += 2)
      exchange(v[i], v[i + 1]);
#pragma unroll
    for (int i = 1; i + 1 < EACH; i += 2)
      exchange(v[i], v[i + 1]);
    KEY next = from_next(v[0]), previous = from_previous(v[EACH - 1]);
    if (WARPS_EACH > 1) {
      uint32_t side = pass / 2 % 2; /* the next step may begin before all warps have read these */
      if (lane == 0) results->first[side][warp] = v[0];
      if (lane == ADJI_WARP - 1) results->last[side][warp] = v[EACH - 1];
      __syncthreads();
      if (lane == 0 && warp > 0) previous = results->last[side][warp - 1];
      if (lane == ADJI_WARP - 1 && warp + 1 < WARPS_EACH) next = results->first[side][warp + 1];
    }
    bool begins = lane == 0 && warp == 0, ends = lane == ADJI_WARP - 1 && warp + 1 == WARPS_EACH;
    v[0] = !begins && less(v[0], previous) ? previous : v[0];
    v[EACH - 1] = !ends && less(next, v[EACH - 1]) ? next : v[EACH - 1];
  }
}

/* Sorts a row of FULL * 32 * WARPS_EACH to EACH * 32 * WARPS_EACH entries by id, with WARPS_EACH warps: one of several
 * in a block, or the whole block. shared: room for EACH * 32 * WARPS_EACH keys, aligned to 16 bytes. If the ids are too
 * unevenly spread, it leaves the row unchanged and returns false, in all threads.
 *
 * Counts and places are byte offsets in a table of 4-byte entries. For each key a thread keeps the offset of its bucket
 * and, in the upper half, the number of keys before it there. Entries past the end of the row are read as its last
 * entry. */
template <int FULL, int EACH, int WARPS_EACH, class ENTRIES>
__device__ __forceinline__ bool sort_by_buckets(const ENTRIES &entries, typename ENTRIES::key *shared, uint64_t begin,
                                                uint32_t length) {
  typedef typename ENTRIES::key key;
  constexpr uint32_t THREADS = WARPS_EACH * ADJI_WARP, BUCKETS = EACH * THREADS;
  static_assert(EACH % 8 == 4 && BUCKETS * 4 < 1 << 16, "see above");
  __shared__ row_results<WARPS_EACH, key> results_of_row;
  row_results<WARPS_EACH, key> *results = WARPS_EACH == 1 ? NULL : &results_of_row;
  uint32_t t = threadIdx.x % THREADS, low = UINT32_MAX, high = 0, slot[EACH];
  uint64_t first = begin + t;
  char *table = reinterpret_cast<char *>(shared);
  key v[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++)
    v[i] = entries.load(i < FULL ? first + i * THREADS : begin + min(i * THREADS + t, length - 1));
  wait_for_row<WARPS_EACH>(); /* the previous row may still be read from this memory */
#pragma unroll
  for (int i = 0; i < EACH / 4; i++)
    reinterpret_cast<uint4 *>(table)[i * THREADS + t] = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    low = min(low, entries.id(v[i]));
    high = max(high, entries.id(v[i]));
  }
  find_range<WARPS_EACH>(&low, &high, results);
  bucket_map bucket = map_between(low, high, BUCKETS);
  uint32_t alike = __match_any_sync(ALL_LANES, bucket(entries.id(v[0])));
  bool uneven = __popc(__ballot_sync(ALL_LANES, alike & (alike - 1))) > MOST_ALIKE;
  if (WARPS_EACH > 1 ? __syncthreads_or(uneven) : uneven) return false;
  wait_for_row<WARPS_EACH>();
#pragma unroll
  for (int i = 0; i < EACH; i++)
    if (i < FULL || i * THREADS + t < length) {
      uint32_t at = bucket(entries.id(v[i])) * 4;
      slot[i] = at + (atomicAdd(reinterpret_cast<uint32_t *>(table + at), 4u) << 16);
    }
  wait_for_row<WARPS_EACH>();
  uint32_t most = add_up_buckets<EACH, WARPS_EACH>(reinterpret_cast<uint4 *>(table) + t * (EACH / 4), results) / 4;
  if (most > MOST_IN_BUCKET) return false;
  wait_for_row<WARPS_EACH>();
#pragma unroll
  for (int i = 0; i < EACH; i++)
    if (i < FULL || i * THREADS + t < length)
      slot[i] = *reinterpret_cast<uint32_t *>(table + (slot[i] & 0xffff)) + (slot[i] >> 16);
  wait_for_row<WARPS_EACH>();
#pragma unroll
  for (int i = 0; i < EACH; i++)
    if (i < FULL || i * THREADS + t < length) *reinterpret_cast<key *>(table + slot[i] * (sizeof(key) / 4)) = v[i];
  /* Padding after the row: as many keys as could reach it in all passes. */
  if (t < ADJI_WARP && length + t < BUCKETS) shared[length + t] = entries.last();
  wait_for_row<WARPS_EACH>();
  take_own<EACH>(v, shared + t * EACH);
  transpose_odd_even<EACH, WARPS_EACH>(v, most, results);
  put_own<EACH>(v, shared + t * EACH);
  wait_for_row<WARPS_EACH>();
#pragma unroll
  for (int i = 0; i < EACH; i++)
    if (i < FULL || i * THREADS + t < length) entries.store(first + i * THREADS, shared[i * THREADS + t]);
  return true;
}

}  // namespace

#endif
