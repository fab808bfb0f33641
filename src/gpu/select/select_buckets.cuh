/* SPDX-License-Identifier: MIT
 *
 * Selection: the k smallest of some keys, in order, without sorting them all.
 *
 * The range of values is cut into about as many equal buckets as there are keys. Counting gives each bucket its place.
 * The keys of a bucket, one or two as a rule, are ordered by comparing each with the others. This takes about 40
 * instructions per key, where a network takes 300 or more. It depends on how the values are spread: if a bucket gets
 * too many, the function returns false and the caller sorts.
 */
#ifndef ADJI_GPU_SELECT_SELECT_BUCKETS_CUH
#define ADJI_GPU_SELECT_SELECT_BUCKETS_CUH

#include "gpu/select/select_keys.cuh"

namespace {

enum {
  BUCKET_MOST = 64, /* keys of a bucket that are compared with each other, at most */
  SCAN_SUMS = 32    /* the scratch of add_up: two per warp */
};

/* Four numbers read at once. */
struct __align__(16) four_counts {
  uint32_t of[4];
};

/* Turns each count into the sum of those before it; `many` is a multiple of 4 * THREADS. All threads of the block call
 * it after a barrier, and it ends with a barrier. Returns the largest count. */
template <int THREADS>
__device__ uint32_t add_up(uint32_t *counts, uint32_t many, uint32_t *sums) {
  constexpr uint32_t WARPS_HERE = THREADS / ADJI_WARP;
  static_assert(2 * WARPS_HERE <= SCAN_SUMS, "two for each warp");
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP, each = many / THREADS / 4;
  four_counts *mine = reinterpret_cast<four_counts *>(counts) + threadIdx.x * each;
  uint32_t sum = 0, most = 0;
  for (uint32_t i = 0; i < each; i++) {
    four_counts c = mine[i];
    sum += c.of[0] + c.of[1] + c.of[2] + c.of[3];
    most = max(max(most, max(c.of[0], c.of[1])), max(c.of[2], c.of[3]));
  }
  uint32_t up_to = sum;
#pragma unroll
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    uint32_t other = __shfl_up_sync(ALL_LANES, up_to, step);
    if (lane >= step) up_to += other;
  }
  most = __reduce_max_sync(ALL_LANES, most);
  if (lane == ADJI_WARP - 1) {
    sums[warp] = up_to;
    sums[WARPS_HERE + warp] = most;
  }
  __syncthreads();
  uint32_t before = up_to - sum;
#pragma unroll
  for (uint32_t w = 0; w < WARPS_HERE; w++) {
    if (w < warp) before += sums[w];
    most = max(most, sums[WARPS_HERE + w]);
  }
  for (uint32_t i = 0; i < each; i++) {
    four_counts c = mine[i], places;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      places.of[j] = before;
      before += c.of[j];
    }
    mine[i] = places;
  }
  __syncthreads();
  return most;
}

/* Maps keys to buckets: all up to the value of `low` to the first one, and from there on in equal steps, so that
 * `high`, which none is above, is in the last. A difference and a product round monotonically, so no key is in an
 * earlier bucket than a smaller key, whatever the values. On overflow everything above `low` is in one bucket. */
template <class T>
struct bucket_map {
  T low, scale;
  uint32_t last;
  bool possible; /* not with NaNs */

  __device__ bucket_map(order_of<T> low_order, order_of<T> high_order, uint32_t buckets)
      : low(from_order(low_order)), last(buckets - 1), possible(high_order != NOT_A_NUMBER<T>) {
    T high = from_order(high_order);
    scale = high > low ? T(buckets) / (high - low) : T(0);
  }
  __device__ uint32_t operator()(const key_of<T> &key) const {
    T value = from_order(key_order(key)), at = value > low ? (value - low) * scale : T(0);
    return at < T(last) ? static_cast<uint32_t>(at) : last;
  }
};

/* A value with a few below it, for bucket_map: the largest of the least values of 4 to 8 parts of the keys. So a value
 * far below the others, such as the distance of a point from itself, does not make all steps wide. least: the thread's
 * own, NOT_A_NUMBER if it has none; sums: shared memory, one per warp. All threads call it; it contains two barriers
 * and returns the same value in all. */
template <class T, int THREADS>
__device__ order_of<T> low_end(order_of<T> least, order_of<T> *sums) {
  constexpr int WARPS_HERE = THREADS / ADJI_WARP;
  constexpr uint32_t LANES = WARPS_HERE == 1 ? 8 : ADJI_WARP; /* of a part */
#pragma unroll
  for (uint32_t mask = 1; mask < ADJI_WARP; mask *= 2) {
    order_of<T> other = from_lane(least, mask);
    bool take = mask < LANES ? other < least : other > least && other != NOT_A_NUMBER<T>;
    if (take || (mask >= LANES && least == NOT_A_NUMBER<T>)) least = other;
  }
  if (WARPS_HERE == 1) return least;
  if (threadIdx.x % ADJI_WARP == 0) sums[threadIdx.x / ADJI_WARP] = least;
  __syncthreads();
  order_of<T> most = 0;
#pragma unroll
  for (int w = 0; w < WARPS_HERE; w++)
    if (sums[w] != NOT_A_NUMBER<T> && sums[w] > most) most = sums[w];
  __syncthreads();
  return most;
}

/* The shared memory of the buckets. */
template <class T>
struct bucket_memory {
  uint32_t *counts, *sums;
  key_of<T> *places;
  uint32_t capacity; /* of places: at least k + BUCKET_MOST */
};

/* Writes the k smallest keys of a row, or returns false in all threads. keys.visit(f) calls f with each key a thread
 * owns, the same ones each time. Needs a barrier before, and ends with one.
 *
 * 1. Count the keys of each bucket, and add up.
 * 2. Move each key to its bucket, in any order; the counts are then the ends of the buckets. Keys past what may be
 *    needed are left out.
 * 3. The rank of a key is the begin of its bucket plus the number of smaller keys in it. */
template <class T, int THREADS, class KEYS>
__device__ bool write_by_buckets(const selection<T> &s, uint32_t row, const KEYS &keys, const bucket_map<T> &map,
                                 const bucket_memory<T> &room) {
  if (!map.possible) return false;
  uint32_t buckets = map.last + 1;
  for (uint32_t i = threadIdx.x; i < buckets; i += THREADS)
    room.counts[i] = 0;
  __syncthreads();
  keys.visit([&](const key_of<T> &key) { atomicAdd(room.counts + map(key), 1u); });
  __syncthreads();
  if (add_up<THREADS>(room.counts, buckets, room.sums) > BUCKET_MOST) return false;
  keys.visit([&](const key_of<T> &key) {
    uint32_t at = atomicAdd(room.counts + map(key), 1u);
    if (at < room.capacity) room.places[at] = key;
  });
  __syncthreads();
  uint32_t held = min(room.counts[map.last], s.k + BUCKET_MOST);
  for (uint32_t at = threadIdx.x; at < held; at += THREADS) {
    key_of<T> key = room.places[at];
    uint32_t bucket = map(key), rank = bucket ? room.counts[bucket - 1] : 0, end = room.counts[bucket];
    if (rank >= s.k) continue;
    for (uint32_t i = rank; i < end; i++)
      rank += less(room.places[i], key);
    if (rank < s.k) s.put(row, rank, key);
  }
  __syncthreads();
  return true;
}

/* Sorts keys in shared memory by a network in which padding past the end would never move. A last resort. Needs a
 * barrier before, and ends with one. */
template <int THREADS, class KEY>
__device__ void sort_places(KEY *places, uint32_t length) {
  for (uint32_t size = 2; size / 2 < length; size *= 2)
    for (uint32_t stride = size / 2; stride; stride /= 2) {
      for (uint32_t i = threadIdx.x;; i += THREADS) {
        uint32_t low = i / stride * stride * 2 + i % stride;
        uint32_t high = stride == size / 2 ? low ^ (size - 1) : low + stride;
        if (low >= length) break;
        if (high < length && less(places[high], places[low])) {
          KEY key = places[low];
          places[low] = places[high];
          places[high] = key;
        }
      }
      __syncthreads();
    }
}

}  // namespace

#endif
