/* SPDX-License-Identifier: MIT
 *
 * Selection: one pass over the values that collects the values not above the bound of their row.
 */
#ifndef ADJI_GPU_SELECT_SELECT_SCAN_CUH
#define ADJI_GPU_SELECT_SELECT_SCAN_CUH

#include "gpu/select/select.cuh"
#include "gpu/select/select_keys.cuh"

namespace {

/* The keys found: row r has counts[r] keys up to its bound. If they are not more than the capacity, all of them are at
 * keys[r * capacity] and after, unordered. */
template <class T>
struct findings {
  const key_of<T> *bounds;
  key_of<T> *keys;
  uint32_t *counts;
  uint32_t capacity;

  __device__ key_of<T> *row(uint32_t number) const {
    return keys + static_cast<uint64_t>(number) * capacity;
  }
  /* Whether `count` keys include the k smallest and all of them were stored; otherwise the bound was wrong. */
  __device__ bool holds(uint32_t count, uint32_t k) const {
    return count >= k && count <= capacity;
  }
};

enum {
  SCAN_WARPS = 8,
  SCAN_VECTORS = 4, /* vectors that a thread reads at once */
  SCAN_TILE = SCAN_VECTORS * ADJI_WARP
};

static_assert(SCAN_WARPS * SCAN_TILE == ADJI_SCAN_UNIT, "as planned");

template <class T>
constexpr int SCAN_VALUES = SCAN_VECTORS *key_traits<T>::VECTOR;

/* A buffer in shared memory for keys of one warp, before they go to a row's findings. There is room for all values that
 * a warp reads at once. */
template <class T>
struct collector {
  static constexpr uint32_t CAPACITY = ADJI_WARP * SCAN_VALUES<T>;
  key_of<T> *buffer;
  uint32_t held; /* the same in all lanes, as is full */
  bool full;     /* the row already exceeds its capacity */

  __device__ void flush(const findings<T> &to, uint32_t row, uint32_t lane) {
    if (!held) return;
    __syncwarp();
    uint32_t at = 0;
    if (lane == 0) at = atomicAdd(to.counts + row, held);
    at = __shfl_sync(ALL_LANES, at, 0);
    for (uint32_t i = lane; i < held; i += ADJI_WARP)
      if (at + i < to.capacity) to.row(row)[at + i] = buffer[i];
    full = at + held > to.capacity; /* cannot wrap: a row has fewer than 2^32 values */
    held = 0;
    __syncwarp();
  }

  /* Reserves places for each lane's `lane_keys` keys. */
  __device__ uint32_t reserve(const findings<T> &to, uint32_t row, uint32_t lane, uint32_t lane_keys) {
    uint32_t sum = lane_keys;
#pragma unroll
    for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
      uint32_t other = __shfl_up_sync(ALL_LANES, sum, step);
      if (lane >= step) sum += other;
    }
    uint32_t total = __shfl_sync(ALL_LANES, sum, ADJI_WARP - 1);
    if (held + total > CAPACITY) flush(to, row, lane);
    uint32_t at = held + sum - lane_keys;
    held += total;
    return at;
  }
};

/* A segment of a row: vectors begin .. end - 1, counted from the first aligned one, which is at column head. */
template <class T>
struct segment {
  const T *row;
  uint32_t head, begin, end;
  bool flip;

  /* Loads vectors first + lane, first + 32 + lane, ...; NaNs, which are above every bound, past the end. */
  __device__ void load(uint32_t first, uint32_t lane, T (&x)[SCAN_VALUES<T>]) const {
    constexpr int VECTOR = key_traits<T>::VECTOR;
    const typename key_traits<T>::vector *from =
        reinterpret_cast<const typename key_traits<T>::vector *>(row + head) + first + lane;
    if (first + SCAN_TILE <= end) {
#pragma unroll
      for (int u = 0; u < SCAN_VECTORS; u++)
        unpack(__ldcs(from + u * ADJI_WARP), x + u * VECTOR);
      return;
    }
#pragma unroll
    for (int u = 0; u < SCAN_VECTORS; u++) {
#pragma unroll
      for (int e = 0; e < VECTOR; e++)
        x[u * VECTOR + e] = from_order(NOT_A_NUMBER<T>);
      if (first + u * ADJI_WARP + lane < end) unpack(__ldcs(from + u * ADJI_WARP), x + u * VECTOR);
    }
  }

  __device__ uint32_t column(uint32_t first, uint32_t lane, int i) const {
    constexpr int VECTOR = key_traits<T>::VECTOR;
    return head + (first + i / VECTOR * ADJI_WARP + lane) * VECTOR + i % VECTOR;
  }
};

/* A bound for a segment of columns: a value is collected if it is at most `value`. But if the bound's column is inside
 * the segment (`mixed`), a value that equals `value` must not be after `column`. */
template <class T>
struct scan_bound {
  key_of<T> key;
  T value;
  uint32_t column;
  bool mixed;

  /* A NaN bound is replaced by one after all numbers: if there are k numbers, no NaN is needed; if not, too few keys
   * are found. */
  __device__ explicit scan_bound(const key_of<T> &bound) : key(bound) {
    if (key_order(key) == NOT_A_NUMBER<T>) key = make_key(in_order(T(INFINITY)), 0xffffffffu);
  }

  __device__ void apply(uint32_t first_column, uint32_t end_column) {
    order_of<T> order = key_order(key);
    column = key_column(key);
    if (column < first_column) order -= order == ZERO<T> ? 2 : 1; /* 1 below zero is -0; below -infinity is a NaN */
    mixed = column >= first_column && column < end_column;
    value = from_order(order);
  }
};

/* Adds a lane's values that are within the bound to the collector. All lanes of the warp call it. */
template <class T>
__device__ void collect(collector<T> &c, const findings<T> &to, uint32_t row, const segment<T> &part,
                        const scan_bound<T> &bound, const T (&x)[SCAN_VALUES<T>], uint32_t first, uint32_t lane) {
  uint32_t belongs = 0;
#pragma unroll
  for (int i = 0; i < SCAN_VALUES<T>; i++)
    belongs |= (x[i] <= bound.value ? 1u : 0u) << i;
  if (bound.mixed) {
#pragma unroll
    for (int i = 0; i < SCAN_VALUES<T>; i++)
      if (x[i] == bound.value && part.column(first, lane, i) > bound.column) belongs &= ~(1u << i);
  }
  uint32_t at = c.reserve(to, row, lane, __popc(belongs));
#pragma unroll
  for (int i = 0; i < SCAN_VALUES<T>; i++)
    if (belongs >> i & 1) c.buffer[at++] = make_key(order_of_value(x[i]), part.column(first, lane, i));
}

/* Collects the few values before and after the vectors, with one warp. */
template <class T>
__device__ void collect_ends(collector<T> &c, const findings<T> &to, const selection<T> &s, uint32_t row,
                             const key_of<T> &bound, uint32_t head, uint32_t tail, uint32_t lane) {
  uint32_t column = lane < head ? lane : tail + lane - head;
  bool there = column < s.columns;
  key_of<T> key = there ? s.key(s.row(row), column) : last_key<T>();
  there = there && !less(bound, key);
  uint32_t at = c.reserve(to, row, lane, there);
  if (there) c.buffer[at] = key;
}

/* Scans a segment with all warps of a block; each has its own collector, and none waits for another. The next values
 * are requested before the current ones are compared. now: the first values, from vector `first` on. */
template <class T>
__device__ void scan_segment(collector<T> &c, const findings<T> &to, uint32_t row, const segment<T> &part,
                             const scan_bound<T> &bound, T (&now)[SCAN_VALUES<T>], uint32_t first, uint32_t lane) {
  T next[SCAN_VALUES<T>];
  for (; first < part.end && !c.full; first += SCAN_WARPS * SCAN_TILE) {
    if (first + SCAN_WARPS * SCAN_TILE < part.end) part.load(first + SCAN_WARPS * SCAN_TILE, lane, next);
    bool some = false;
#pragma unroll
    for (int i = 0; i < SCAN_VALUES<T>; i++) {
      now[i] = flipped(now[i], part.flip);
      some |= now[i] <= bound.value;
    }
    if (__any_sync(ALL_LANES, some)) collect(c, to, row, part, bound, now, first, lane);
#pragma unroll
    for (int i = 0; i < SCAN_VALUES<T>; i++)
      now[i] = next[i];
  }
}

/* Collects the keys not above the bound of all listed rows, in segments of `length` vectors, `segments` per row; a
 * block takes one after the other. Values, bounds and findings in device memory.
 *
 * 1. A thread reads 4 x 16 bytes, with a short lifetime in the caches, and compares. The first reads are in flight
 *    before the bound is known.
 * 2. A warp that has found keys adds them to its buffer in shared memory. A full buffer goes to the row's findings, at
 *    a place that one atomic addition to the row's count gives.
 * 3. At the end of a segment the buffers are flushed. A warp stops when it learns that the row exceeds its capacity.
 *
 * A launch that overlaps the previous kernel must be for all rows, since a list is read before the wait. Several values
 * per thread and reading ahead keep 128 bytes per thread in flight. Limited by memory: if little is found, it takes
 * about 3 instructions per value, and there is time for 30. */
template <class T>
__global__ void __launch_bounds__(SCAN_WARPS *ADJI_WARP, 4)
    scan_rows(selection<T> s, row_list list, findings<T> to, uint32_t length, uint32_t segments) {
  constexpr uint32_t VECTOR = key_traits<T>::VECTOR;
  __shared__ __align__(16) unsigned char memory[SCAN_WARPS * collector<T>::CAPACITY * sizeof(key_of<T>)];
  uint32_t warp = threadIdx.x / ADJI_WARP, lane = threadIdx.x % ADJI_WARP;
  let_next_begin();
  uint64_t tasks = static_cast<uint64_t>(list.count()) * segments;
  for (uint64_t task = blockIdx.x; task < tasks; task += gridDim.x) {
    uint32_t row = list.row(static_cast<uint32_t>(task / segments)), number = static_cast<uint32_t>(task % segments);
    const T *values = s.row(row);
    uint32_t head = static_cast<uint32_t>((16 - reinterpret_cast<uintptr_t>(values) % 16) % 16 / sizeof(T));
    head = min(head, s.columns);
    uint32_t vectors = (s.columns - head) / VECTOR;
    segment<T> part = {values, head, number * length, min(number * length + length, vectors), s.flip};
    uint32_t first = part.begin + warp * SCAN_TILE;
    T now[SCAN_VALUES<T>];
    if (first < part.end) part.load(first, lane, now);
    wait_for_previous();
    scan_bound<T> bound(to.bounds[row]);
    collector<T> c = {reinterpret_cast<key_of<T> *>(memory) + warp * collector<T>::CAPACITY, 0, false};
    if (number == 0 && warp == 0) collect_ends(c, to, s, row, bound.key, head, head + vectors * VECTOR, lane);
    bound.apply(head + part.begin * VECTOR, head + part.end * VECTOR);
    scan_segment(c, to, row, part, bound, now, first, lane);
    c.flush(to, row, lane);
  }
}

}  // namespace

#endif
