/* SPDX-License-Identifier: MIT
 *
 * Selection: the k smallest of some keys, in order, without sorting them all.
 *
 * The range of values is cut into about as many equal buckets as there are keys. Counting gives each bucket its place.
 * The keys of a bucket, usually one or two, are ordered by comparing each with the others. This takes about 40
 * instructions per key; a network takes 300 or more. It depends on how the values are spread: if a bucket gets too many
 * keys, the function returns false and the caller sorts.
 *
 * This file also finds the k-th smallest of such keys, digit by digit.
 */
#ifndef ADJI_GPU_SELECT_SELECT_BUCKETS_CUH
#define ADJI_GPU_SELECT_SELECT_BUCKETS_CUH

#include "gpu/select/select_keys.cuh"

namespace {

enum {
  BUCKET_MOST = 64, /* the most keys of a bucket, which are compared with each other */
  SCAN_SUMS = 32    /* the scratch of add_up: two per warp */
};

/* Four numbers read at once. */
struct __align__(16) four_counts {
  uint32_t of[4];
};

/* Turns each count into the sum of the counts before it; `total` is the number of counts, a multiple of 4 * THREADS.
 * All threads of the block call it after a barrier, and it ends with a barrier. Returns the largest count. */
template <int THREADS>
__device__ uint32_t add_up(uint32_t *counts, uint32_t total, uint32_t *sums) {
  constexpr uint32_t WARPS_HERE = THREADS / ADJI_WARP;
  static_assert(2 * WARPS_HERE <= SCAN_SUMS, "two for each warp");
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP, each = total / THREADS / 4;
  four_counts *own_counts = reinterpret_cast<four_counts *>(counts) + threadIdx.x * each;
  uint32_t sum = 0, most = 0;
  for (uint32_t i = 0; i < each; i++) {
    four_counts c = own_counts[i];
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
    four_counts c = own_counts[i], places;
#pragma unroll
    for (int j = 0; j < 4; j++) {
      places.of[j] = before;
      before += c.of[j];
    }
    own_counts[i] = places;
  }
  __syncthreads();
  return most;
}

/* Maps keys to buckets: all keys up to the value of `low` to the first bucket, and the others in equal steps, so that
 * `high`, the largest value, is in the last. A difference and a product round monotonically, so no key is in an earlier
 * bucket than a smaller key, whatever the values. On overflow all keys above `low` are in one bucket. */
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

/* A low value for bucket_map with few values below it: the largest of the least values of 4 to 8 parts of the keys. So
 * a value far below the others, such as the distance of a point from itself, does not make all steps wide. least: the
 * least value of the thread, NOT_A_NUMBER if it has none; sums: shared memory, one per warp. All threads call it; it
 * contains two barriers and returns the same value in all threads. */
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

/* Writes the k smallest keys of a row, or returns false in all threads. keys.visit(f) calls f with each key of the
 * calling thread, the same keys each time. Needs a barrier before, and ends with one.
 *
 * 1. Count the keys of each bucket, and add up.
 * 2. Move each key to its bucket, in any order; the counts are then the ends of the buckets. Keys beyond the capacity
 *    are not needed and are left out.
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

/* Sorts keys in shared memory by a network in which padding past the end would never move. Only used as a last resort.
 * Needs a barrier before, and ends with one. */
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

/* ---- Digits ---------------------------------------------------------------------------------- */

/* The known part of the k-th smallest key: its upper bits, of the value and then of the column. */
template <class T>
struct key_digits {
  order_of<T> order, order_mask;
  uint32_t column, column_mask;
  uint32_t rank;         /* among the keys with these bits */
  uint32_t matching;     /* keys with these bits */
  uint32_t unknown_bits; /* unknown bits of the value, then of the column */
  uint32_t log_columns;  /* columns are below 2^log_columns */
  bool of_columns;

  __device__ bool match(order_of<T> other, uint32_t c) const {
    return (other & order_mask) == order && (c & column_mask) == column;
  }
  __device__ void add(uint32_t digit, uint32_t mask, uint32_t shift) {
    if (of_columns) {
      column |= digit << shift;
      column_mask |= mask << shift;
    } else {
      order |= static_cast<order_of<T>>(digit) << shift;
      order_mask |= static_cast<order_of<T>>(mask) << shift;
    }
  }
  __device__ void turn_to_columns() {
    of_columns = true;
    unknown_bits = log_columns;
    column_mask = log_columns < 32 ? ~0u << log_columns : 0;
  }
  /* The largest key with these bits. */
  __device__ key_of<T> bound() const {
    return make_key(order | ~order_mask, column | ~column_mask);
  }
};

/* The state in which only the number of keys is known. */
template <class T>
__device__ __forceinline__ key_digits<T> no_digits(uint32_t k, uint32_t matching, uint32_t log_columns) {
  return key_digits<T>{0, 0, 0, 0, k, matching, static_cast<uint32_t>(sizeof(T) * 8), log_columns, false};
}

/* Finds a bound with at least k and at most `most` keys up to it; determines at least one digit. keys.visit_all(f)
 * calls f with the value and the column of each key of the calling thread, the same keys each time. Digits of the
 * columns follow the digits of the values, so it ends even if many values are equal. counts: 2^log_bins in shared
 * memory, a multiple of 4 * THREADS; sums: SCAN_SUMS for add_up, the first of which also pass on the digit. Needs a
 * barrier before, and ends with one. */
template <class T, int THREADS, class KEYS>
__device__ key_of<T> bound_by_digits(const KEYS &keys, key_digits<T> known, uint32_t most, uint32_t log_bins,
                                     uint32_t *counts, uint32_t *sums) {
  const uint32_t bins = 1u << log_bins, k = known.rank;
  for (;;) {
    if (!known.unknown_bits) known.turn_to_columns();
    uint32_t shift = known.unknown_bits > log_bins ? known.unknown_bits - log_bins : 0,
             mask = (1u << (known.unknown_bits - shift)) - 1;
    for (uint32_t i = threadIdx.x; i < bins; i += THREADS)
      counts[i] = 0;
    __syncthreads();
    keys.visit_all([&](order_of<T> order, uint32_t c) {
      uint32_t digit = (known.of_columns ? c >> shift : static_cast<uint32_t>(order >> shift)) & mask;
      if (known.match(order, c)) atomicAdd(counts + digit, 1u);
    });
    __syncthreads();
    add_up<THREADS>(counts, bins, sums);
    for (uint32_t i = threadIdx.x; i <= mask; i += THREADS) {
      uint32_t before = counts[i], up_to = i < mask ? counts[i + 1] : known.matching;
      if (before >= known.rank || up_to < known.rank) continue; /* exactly one digit continues */
      sums[0] = i;
      sums[1] = before;
      sums[2] = up_to;
    }
    __syncthreads();
    uint32_t digit = sums[0], before = sums[1], up_to = sums[2];
    __syncthreads();
    known.add(digit, mask, shift);
    known.unknown_bits = shift;
    if (k - known.rank + up_to <= most) return known.bound(); /* at the latest with all bits known: one key */
    known.rank -= before;
    known.matching = up_to - before;
  }
}

}  // namespace

#endif
