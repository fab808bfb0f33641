/* SPDX-License-Identifier: MIT
 *
 * Rows in ascending order of id by buckets, in shared memory. The ids of a row are mostly spread evenly between the
 * smallest and the largest, because the input is in no particular order. So an id's value says nearly where it belongs,
 * and a network that compares 55 times is not needed:
 *
 * 1. Threads load the row, and find the smallest and the largest id.
 * 2. As many buckets as there is room for keys, of equal width, count their ids; an id learns how many came before it.
 * 3. The counts are added up: a bucket's place. Each id goes to its bucket's place, behind those that came before it.
 * 4. A thread takes EACH consecutive keys. Only keys of one bucket may be in the wrong order. So an odd-even
 *    transposition sort needs as many passes as the largest bucket has keys, for m keys are sorted after m passes,
 *    whichever of the two passes comes first, and a comparison of keys of two buckets changes nothing.
 *
 * A row whose ids are not spread like that is left to the network: a sample has several ids in one bucket, or a bucket
 * has more than MOST_IN_BUCKET. Many ids in few buckets would also make the counting slow.
 *
 * Limits: about 32 instructions a key and 100 a row, where the network for 1,024 keys has 85 a key and that for 2,048
 * has 96, half of its keys padding. Shared memory is accessed ten times a key. Three of these are at random, with about
 * 3.5 keys for the fullest of 32 banks; the others are of vectors of 16 bytes. For those EACH is four times an odd
 * number: eight threads that access 16 bytes at once, EACH keys apart, use all banks.
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_BUCKETS_CUH
#define ADJI_GPU_SHARED_ROW_SORT_BUCKETS_CUH

#include "gpu/shared/row_sort_kernels.cuh"

namespace {

/* MOST_IN_BUCKET: a pass costs about one instruction a key; the largest of 1,000 buckets has five to eight keys.
 * MOST_ALIKE: of the 32 sampled ids of a warp. Evenly spread ones have one or two in the bucket of another. */
enum { MOST_IN_BUCKET = 24, MOST_ALIKE = 12 };

/* For the threads that share a row. */
template <int WARPS_EACH>
__device__ __forceinline__ void wait_for_row() {
  if (WARPS_EACH == 1)
    __syncwarp();
  else
    __syncthreads();
}

/* What the warps of a row tell each other. */
template <int WARPS_EACH, class KEY>
struct row_notes {
  uint32_t low[WARPS_EACH], high[WARPS_EACH], total[WARPS_EACH], most[WARPS_EACH];
  KEY first[2][WARPS_EACH], last[2][WARPS_EACH];
};

/* From an id to its bucket: the same for all threads of a row. */
struct bucket_map {
  uint32_t low, scale;
  __device__ uint32_t operator()(uint32_t id) const {
    return __umulhi(id - low, scale);
  }
};

/* Ids low .. high. The scale is never too large: scale <= buckets * 2^32 / (high - low + 1), as all steps round down
 * and the divisor up. So high's bucket is at most (high - low) * buckets / (high - low + 1), less than `buckets`. A
 * scale of 2^32 and more, where buckets have room for one id, becomes 2^32 - 1, and ids 0 and 1 share one. */
__device__ __forceinline__ bucket_map map_between(uint32_t low, uint32_t high, uint32_t buckets) {
  float all = __fmul_rd(static_cast<float>(buckets), 4294967296.0f);
  return bucket_map{low, __float2uint_rd(__fmul_rd(all, __frcp_rd(__uint2float_ru(high - low + 1))))};
}

template <int WARPS_EACH, class KEY>
__device__ __forceinline__ void widest(uint32_t *low, uint32_t *high, row_notes<WARPS_EACH, KEY> *notes) {
  *low = __reduce_min_sync(ALL_LANES, *low);
  *high = __reduce_max_sync(ALL_LANES, *high);
  if (WARPS_EACH == 1) return;
  uint32_t warp = threadIdx.x / ADJI_WARP;
  notes->low[warp] = *low;
  notes->high[warp] = *high;
  __syncthreads();
#pragma unroll
  for (int w = 0; w < WARPS_EACH; w++) {
    *low = min(*low, notes->low[w]);
    *high = max(*high, notes->high[w]);
  }
}

/* What a thread's counts must begin with, from their sum. *most: the largest of all threads. */
template <int WARPS_EACH, class KEY>
__device__ __forceinline__ uint32_t add_up_threads(uint32_t total, uint32_t *most, row_notes<WARPS_EACH, KEY> *notes) {
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP, end = total;
#pragma unroll
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    uint32_t other = __shfl_up_sync(ALL_LANES, end, step);
    end += lane >= step ? other : 0;
  }
  *most = __reduce_max_sync(ALL_LANES, *most);
  if (WARPS_EACH > 1) {
    if (lane == ADJI_WARP - 1) {
      notes->total[warp] = end;
      notes->most[warp] = *most;
    }
    __syncthreads();
#pragma unroll
    for (uint32_t w = 0; w < WARPS_EACH; w++) {
      end += w < warp ? notes->total[w] : 0;
      *most = max(*most, notes->most[w]);
    }
  }
  return end - total;
}

/* Turns counts into places. Returns the largest count. */
template <int EACH, int WARPS_EACH, class KEY>
__device__ __forceinline__ uint32_t add_up_buckets(uint4 *own, row_notes<WARPS_EACH, KEY> *notes) {
  uint32_t total = 0, most = 0;
#pragma unroll
  for (int i = 0; i < EACH / 4; i++) {
    uint4 c = own[i];
    total += c.x + c.y + c.z + c.w;
    most = max(max(most, max(c.x, c.y)), max(c.z, c.w));
  }
  uint32_t before = add_up_threads<WARPS_EACH>(total, &most, notes);
#pragma unroll
  for (int i = 0; i < EACH / 4; i++) {
    uint4 c = own[i];
    own[i] = make_uint4(before, before + c.x, before + c.x + c.y, before + c.x + c.y + c.z);
    before += c.x + c.y + c.z + c.w;
  }
  return most;
}

/* A thread's keys, from and to shared memory. */
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

/* The key of the next lane, and of the one before. */
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

/* Odd-even transposition: two passes a step. Between threads the last key of one meets the first of the next. */
template <int EACH, int WARPS_EACH, class KEY>
__device__ __forceinline__ void settle(KEY (&v)[EACH], uint32_t passes, row_notes<WARPS_EACH, KEY> *notes) {
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
      uint32_t side = pass / 2 % 2; /* the next pass may begin before all have read these */
      if (lane == 0) notes->first[side][warp] = v[0];
      if (lane == ADJI_WARP - 1) notes->last[side][warp] = v[EACH - 1];
      __syncthreads();
      if (lane == 0 && warp > 0) previous = notes->last[side][warp - 1];
      if (lane == ADJI_WARP - 1 && warp + 1 < WARPS_EACH) next = notes->first[side][warp + 1];
    }
    bool begins = lane == 0 && warp == 0, ends = lane == ADJI_WARP - 1 && warp + 1 == WARPS_EACH;
    v[0] = !begins && less(v[0], previous) ? previous : v[0];
    v[EACH - 1] = !ends && less(next, v[EACH - 1]) ? next : v[EACH - 1];
  }
}

/* Sorts a row of up to EACH * 32 * WARPS_EACH entries by id, and at least FULL * 32 * WARPS_EACH, by as many warps: one
 * of several in a block, or all of it. shared: as many keys, of 16-byte alignment. Returns false, and leaves the row as
 * it is, if its ids are too unevenly spread; the same in all threads.
 *
 * Counts and places are in bytes of a table of 4-byte entries. A thread keeps, of each key, where its bucket is, and in
 * the upper half how many came before it there. What is behind the row is read as its last entry. */
template <int FULL, int EACH, int WARPS_EACH, class ENTRIES>
__device__ __forceinline__ bool sort_by_buckets(const ENTRIES &entries, typename ENTRIES::key *shared, uint64_t begin,
                                                uint32_t length) {
  typedef typename ENTRIES::key key;
  constexpr uint32_t THREADS = WARPS_EACH * ADJI_WARP, BUCKETS = EACH * THREADS;
  static_assert(EACH % 8 == 4 && BUCKETS * 4 < 1 << 16, "see above");
  __shared__ row_notes<WARPS_EACH, key> notes_of_row;
  row_notes<WARPS_EACH, key> *notes = WARPS_EACH == 1 ? NULL : &notes_of_row;
  uint32_t t = threadIdx.x % THREADS, low = UINT32_MAX, high = 0, slot[EACH];
  uint64_t first = begin + t;
  char *table = reinterpret_cast<char *>(shared);
  key v[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++)
    v[i] = entries.load(i < FULL ? first + i * THREADS : begin + min(i * THREADS + t, length - 1));
  wait_for_row<WARPS_EACH>(); /* the row before may still be read from this memory */
#pragma unroll
  for (int i = 0; i < EACH / 4; i++)
    reinterpret_cast<uint4 *>(table)[i * THREADS + t] = make_uint4(0, 0, 0, 0);
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    low = min(low, entries.id(v[i]));
    high = max(high, entries.id(v[i]));
  }
  widest<WARPS_EACH>(&low, &high, notes);
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
  uint32_t most = add_up_buckets<EACH, WARPS_EACH>(reinterpret_cast<uint4 *>(table) + t * (EACH / 4), notes) / 4;
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
  /* Behind the row, as many as could reach it in all passes. */
  if (t < ADJI_WARP && length + t < BUCKETS) shared[length + t] = entries.last();
  wait_for_row<WARPS_EACH>();
  take_own<EACH>(v, shared + t * EACH);
  settle<EACH, WARPS_EACH>(v, most, notes);
  put_own<EACH>(v, shared + t * EACH);
  wait_for_row<WARPS_EACH>();
#pragma unroll
  for (int i = 0; i < EACH; i++)
    if (i < FULL || i * THREADS + t < length) entries.store(first + i * THREADS, shared[i * THREADS + t]);
  return true;
}

}  // namespace

#endif
