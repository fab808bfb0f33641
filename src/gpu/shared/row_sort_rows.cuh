/* SPDX-License-Identifier: MIT
 *
 * The kernels that sort the rows of a window. Each kernel sorts the rows of some lengths and skips the others. A warp
 * or a block checks `rows_each` rows, up to MOST_ROWS_EACH, and sorts those whose length suits it, one after the other.
 * Most rows have another length, and starting one block per row would take longer than checking the rows.
 *
 * Rows in order of id are sorted by buckets (row_sort_buckets.cuh). Rows whose ids are too unevenly spread for that,
 * and rows in order of distance, are sorted by a network (row_sort_kernels.cuh).
 */
#ifndef ADJI_GPU_SHARED_ROW_SORT_ROWS_CUH
#define ADJI_GPU_SHARED_ROW_SORT_ROWS_CUH

#include "gpu/shared/row_sort_buckets.cuh"

namespace {

/* WARPS: the warps of a block in which each warp has its own row. */
enum { WARPS = 4, MOST_ROWS_EACH = 16 };

/* ---- Networks only ------------------------------------------------------------------------------------------- */

/* Sorts the rows of the window with more than LEAST * 32 and at most MOST * 32 entries, MOST / LEAST <= 8 (LEAST 0:
 * from 2 entries on); one warp per row. */
template <int LEAST, int MOST, class ENTRIES>
__global__ void __launch_bounds__(WARPS *ADJI_WARP)
    sort_rows(ENTRIES entries, const uint64_t *offsets, uint64_t first_row, uint64_t end_row, uint64_t base) {
  __shared__ typename ENTRIES::key room[WARPS][MOST * ADJI_WARP + MOST];
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  uint64_t row = first_row + static_cast<uint64_t>(blockIdx.x) * WARPS + warp;
  if (row >= end_row) return;
  uint64_t begin = offsets[row] - base, length = offsets[row + 1] - offsets[row];
  if (length <= LEAST * ADJI_WARP || length > MOST * ADJI_WARP || length < 2) return;
  if (MOST / 8 > LEAST && length <= MOST / 8 * ADJI_WARP)
    sort_row<MOST / 8 ? MOST / 8 : 1>(entries, room[warp], begin, static_cast<uint32_t>(length), lane);
  else if (MOST / 4 > LEAST && length <= MOST / 4 * ADJI_WARP)
    sort_row<MOST / 4 ? MOST / 4 : 1>(entries, room[warp], begin, static_cast<uint32_t>(length), lane);
  else if (MOST / 2 > LEAST && length <= MOST / 2 * ADJI_WARP)
    sort_row<MOST / 2 ? MOST / 2 : 1>(entries, room[warp], begin, static_cast<uint32_t>(length), lane);
  else
    sort_row<MOST>(entries, room[warp], begin, static_cast<uint32_t>(length), lane);
}

template <class ENTRIES>
constexpr bool WIDE = sizeof(typename ENTRIES::key) > sizeof(uint64_t);

/* Bytes of a block's keys in shared memory. */
template <int EACH, int WARPS_EACH, class ENTRIES>
constexpr uint32_t dense_bytes() {
  return gapped<EACH>(EACH * WARPS_EACH * ADJI_WARP) * sizeof(typename ENTRIES::key);
}

/* The rows that a warp checks, or a block whose warps all check the same rows: lane l has row first + l. */
struct some_rows {
  uint64_t begin;  /* of the lane's row, in the arrays of the window */
  uint32_t length; /* 0: not wanted */
  uint32_t wanted; /* a bit for each row: the same in all lanes */

  __device__ some_rows(const uint64_t *offsets, uint64_t first, uint64_t end_row, uint64_t base, uint32_t rows_each) {
    uint64_t row = first + threadIdx.x % ADJI_WARP;
    bool is_row = threadIdx.x % ADJI_WARP < rows_each && row < end_row;
    begin = is_row ? offsets[row] : 0;
    uint64_t entries = is_row ? offsets[row + 1] - begin : 0;
    begin -= base;
    length = entries < UINT32_MAX ? static_cast<uint32_t>(entries) : UINT32_MAX;
    wanted = 0;
  }
  __device__ void want(uint32_t least, uint32_t most) {
    wanted = __ballot_sync(ALL_LANES, length > least && length <= most);
  }
  /* Takes the next row that is wanted. */
  __device__ bool next(uint64_t *row_begin, uint32_t *row_length) {
    if (!wanted) return false;
    int lane = __ffs(static_cast<int>(wanted)) - 1;
    wanted &= wanted - 1;
    *row_begin = __shfl_sync(ALL_LANES, begin, lane);
    *row_length = __shfl_sync(ALL_LANES, length, lane);
    return true;
  }
};

/* Sorts the rows of the window with at most EACH * 32 * WARPS_EACH entries, and more than half of that, with blocks of
 * WARPS_EACH warps. Threads with keys larger than ids get 128 registers. */
template <int EACH, int WARPS_EACH, class ENTRIES>
__global__ void __launch_bounds__(WARPS_EACH *ADJI_WARP, 16 / WARPS_EACH)
    sort_rows_together(ENTRIES entries, const uint64_t *offsets, uint64_t first_row, uint64_t end_row, uint64_t base,
                       uint32_t rows_each) {
  static_assert(WARPS_EACH <= EACH, "lanes that exchange keys are in one warp");
  constexpr uint32_t MOST = EACH * ADJI_WARP * WARPS_EACH;
  extern __shared__ __align__(16) unsigned char memory[];
  some_rows rows(offsets, first_row + static_cast<uint64_t>(blockIdx.x) * rows_each, end_row, base, rows_each);
  rows.want(MOST / 2, MOST);
  uint64_t begin;
  uint32_t length;
  while (rows.next(&begin, &length))
    sort_row_together<EACH, WARPS_EACH, WIDE<ENTRIES>>(entries, reinterpret_cast<typename ENTRIES::key *>(memory),
                                                       begin, length);
}

/* ---- Buckets, or a network ----------------------------------------------------------------------------------- */

/* The smallest power of two that is not below `each`, and the largest that is not above it. */
constexpr int power_above(int each) {
  int power = 1;
  while (power < each)
    power *= 2;
  return power;
}
constexpr int power_below(int each) {
  return power_above(each + 1) / 2;
}

/* The possible numbers of keys per thread, all above FULL: EACH lists the sizes that code is generated for, in
 * ascending order. A network needs a power of two. For a block it is the largest one not above the last size, which
 * then limits the length of rows. */
template <int WARPS_EACH, int FULL_, int... EACH>
struct row_shape {
  static constexpr int sizes[] = {EACH...};
  static constexpr int FULL = FULL_, LAST = sizes[sizeof...(EACH) - 1], ROWS = WARPS_EACH == 1 ? WARPS : 1;
  static constexpr int NETWORK = WARPS_EACH == 1 ? power_above(LAST) > 64 ? 64 : power_above(LAST) : power_below(LAST);
  static constexpr int THREADS = WARPS_EACH * ADJI_WARP;
  static constexpr uint32_t LEAST = FULL * THREADS, MOST = (NETWORK < LAST ? NETWORK : LAST) * THREADS;
  static constexpr uint32_t NETWORK_KEYS =
      WARPS_EACH == 1 ? NETWORK * (ADJI_WARP + 1) : gapped<NETWORK>(NETWORK * THREADS);
  /* Room for the keys of a row, in units of 16 bytes. */
  static constexpr uint32_t KEYS = ((NETWORK_KEYS > LAST * THREADS ? NETWORK_KEYS : LAST * THREADS) + 3) / 4 * 4;

  /* Sorts a row of `length` entries with the fewest keys per thread. */
  template <int FULL_HERE, int HERE, int... MORE, class ENTRIES>
  static __device__ __forceinline__ bool by_buckets(const ENTRIES &entries, typename ENTRIES::key *shared,
                                                    uint64_t begin, uint32_t length) {
    if constexpr (sizeof...(MORE) > 0) {
      if (length > HERE * THREADS) return by_buckets<HERE, MORE...>(entries, shared, begin, length);
    }
    return sort_by_buckets<FULL_HERE, HERE, WARPS_EACH>(entries, shared, begin, length);
  }

  template <class ENTRIES>
  static __device__ __forceinline__ void by_network(const ENTRIES &entries, typename ENTRIES::key *shared,
                                                    uint64_t begin, uint32_t length) {
    wait_for_row<WARPS_EACH>(); /* this memory may have been used for buckets */
    if constexpr (WARPS_EACH > 1) {
      sort_row_together<NETWORK, WARPS_EACH, false>(entries, shared, begin, length);
    } else {
      uint32_t lane = threadIdx.x % ADJI_WARP;
      if (NETWORK / 4 > FULL && length <= NETWORK / 4 * ADJI_WARP)
        sort_row<NETWORK / 4 ? NETWORK / 4 : 1>(entries, shared, begin, length, lane);
      else if (NETWORK / 2 > FULL && length <= NETWORK / 2 * ADJI_WARP)
        sort_row<NETWORK / 2>(entries, shared, begin, length, lane);
      else
        sort_row<NETWORK>(entries, shared, begin, length, lane);
    }
  }

  template <class ENTRIES>
  static __device__ __forceinline__ void sort(const ENTRIES &entries, typename ENTRIES::key *shared, uint64_t begin,
                                              uint32_t length) {
    if (FULL == 0 && length <= ADJI_WARP)
      sort_row<1>(entries, shared, begin, length, threadIdx.x % ADJI_WARP);
    else if (!by_buckets < FULL ? FULL : 1, EACH... > (entries, shared, begin, length))
      by_network(entries, shared, begin, length);
  }
};

/* Sorts the rows of the window with more than SHAPE::LEAST and at most SHAPE::MOST entries by id. A row is sorted by
 * all warps of a block, or by one of a block's WARPS warps. BLOCKS: blocks per multiprocessor. */
template <class SHAPE, int BLOCKS, class ENTRIES>
__global__ void __launch_bounds__(SHAPE::ROWS *SHAPE::THREADS, BLOCKS)
    sort_rows_by_buckets(ENTRIES entries, const uint64_t *offsets, uint64_t first_row, uint64_t end_row, uint64_t base,
                         uint32_t rows_each) {
  extern __shared__ __align__(16) unsigned char memory[];
  uint32_t here = threadIdx.x / SHAPE::THREADS;
  typename ENTRIES::key *shared = reinterpret_cast<typename ENTRIES::key *>(memory) + here * SHAPE::KEYS;
  uint64_t first = first_row + (static_cast<uint64_t>(blockIdx.x) * SHAPE::ROWS + here) * rows_each;
  some_rows rows(offsets, first, end_row, base, rows_each);
  rows.want(SHAPE::LEAST ? SHAPE::LEAST : 1, SHAPE::MOST);
  uint64_t begin;
  uint32_t length;
  while (rows.next(&begin, &length))
    SHAPE::sort(entries, shared, begin, length);
}

}  // namespace

#endif
