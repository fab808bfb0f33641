/* SPDX-License-Identifier: MIT
 *
 * Selection for any k: finds the k-th smallest value of each row digit by digit, then all entries up to it, by column.
 *
 * 1. For each digit, from the highest: count how often each of its values occurs among the values with the digits found
 *    so far. The digit of the k-th smallest follows from the counts. Every digit is a pass over the matrix.
 * 2. Count the entries below the k-th smallest, and those equal to it, in each piece of a row; add up.
 * 3. Write the entries below, and as many of the equal ones as needed, from the first column on, in the order of the
 *    columns.
 */
#ifndef ADJI_GPU_SELECT_SELECT_RADIX_CUH
#define ADJI_GPU_SELECT_SELECT_RADIX_CUH

#include "gpu/select/select_buckets.cuh"

namespace {

enum {
  DIGIT_BITS = 11,
  DIGITS = 1 << DIGIT_BITS, /* values of one digit */
  RADIX_THREADS = 256,
  RADIX_READS = 8 /* values a thread has in flight */
};

/* The known part of a row's k-th smallest value. */
template <class T>
struct kth {
  order_of<T> order; /* the digits found so far, others 0 */
  uint32_t rank;     /* among the values that have these digits */
};

template <class T>
__global__ void begin_rows(uint32_t rows, uint32_t k, kth<T> *state) {
  uint32_t row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row < rows) state[row] = kth<T>{0, k};
}

/* Adds to histograms[row] the digits at `shift` of the values whose higher digits are those found so far. Values and
 * histograms in device memory, a block's counts in shared memory. A block takes one of `pieces` pieces of a row, of
 * `length` columns. above: the bits found so far; the last digit may overlap them. Limited by shared memory if many
 * values are alike, otherwise by memory. */
template <class T>
__global__ void __launch_bounds__(RADIX_THREADS)
    count_digits(selection<T> s, const kth<T> *state, uint32_t *histograms, uint32_t shift, order_of<T> above,
                 uint32_t pieces, uint32_t length) {
  __shared__ uint32_t counts[DIGITS];
  uint32_t row = static_cast<uint32_t>(blockIdx.x / pieces), piece = static_cast<uint32_t>(blockIdx.x % pieces);
  for (uint32_t d = threadIdx.x; d < DIGITS; d += RADIX_THREADS)
    counts[d] = 0;
  __syncthreads();
  const T *values = s.row(row);
  uint64_t begin = static_cast<uint64_t>(piece) * length, end = begin + length < s.columns ? begin + length : s.columns;
  order_of<T> known = state[row].order;
  for (uint64_t at = begin + threadIdx.x; at < end; at += RADIX_READS * RADIX_THREADS) {
    T x[RADIX_READS];
#pragma unroll
    for (int i = 0; i < RADIX_READS; i++)
      if (at + i * RADIX_THREADS < end) x[i] = __ldcs(values + at + i * RADIX_THREADS);
#pragma unroll
    for (int i = 0; i < RADIX_READS; i++) {
      if (at + i * RADIX_THREADS >= end) continue;
      order_of<T> order = order_of_value(flipped(x[i], s.flip));
      if ((order & above) == known) atomicAdd(counts + (order >> shift & (DIGITS - 1)), 1u);
    }
  }
  __syncthreads();
  for (uint32_t d = threadIdx.x; d < DIGITS; d += RADIX_THREADS)
    if (counts[d]) atomicAdd(histograms + static_cast<uint64_t>(row) * DIGITS + d, counts[d]);
}

/* Finds the digit of each row's k-th smallest, a block per row; clears the histogram for the next digit. Counts stay in
 * registers: with counts in shared memory (add_up) rows of 1,000 to 32,000 values took 10 to 25 % longer on an H200. */
template <class T>
__global__ void __launch_bounds__(RADIX_THREADS) choose_digit(uint32_t *histograms, kth<T> *state, uint32_t shift) {
  constexpr uint32_t EACH = DIGITS / RADIX_THREADS;
  __shared__ uint32_t sums[RADIX_THREADS];
  uint32_t *own_bins = histograms + static_cast<uint64_t>(blockIdx.x) * DIGITS + threadIdx.x * EACH;
  uint32_t counts[EACH], sum = 0, rank = state[blockIdx.x].rank;
#pragma unroll
  for (uint32_t i = 0; i < EACH; i++) {
    counts[i] = own_bins[i];
    own_bins[i] = 0;
    sum += counts[i];
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (uint32_t step = 1; step < RADIX_THREADS; step *= 2) {
    uint32_t other = threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
    __syncthreads();
    sums[threadIdx.x] += other;
    __syncthreads();
  }
  uint32_t before = sums[threadIdx.x] - sum;
  if (before >= rank || sums[threadIdx.x] < rank) return; /* one thread continues */
  uint32_t i = 0;
  for (; before + counts[i] < rank; i++)
    before += counts[i];
  state[blockIdx.x].order |= static_cast<order_of<T>>(threadIdx.x * EACH + i) << shift;
  state[blockIdx.x].rank = rank - before;
}

/* Columns of a row that a warp visits in order. */
enum { WARP_COLUMNS = 4096 };

__host__ __device__ constexpr uint32_t warp_pieces(uint32_t columns) {
  return (columns - 1) / WARP_COLUMNS + 1;
}

/* Calls visit(order, column, there) with the columns of a piece, 32 at a time, in all lanes. */
template <class T, class VISIT>
__device__ __forceinline__ void visit_piece(const selection<T> &s, uint32_t row, uint32_t piece, uint32_t lane,
                                            const VISIT &visit) {
  const T *values = s.row(row);
  uint32_t begin = piece * WARP_COLUMNS, remaining = min(WARP_COLUMNS, s.columns - begin);
  for (uint32_t at = 0; at < remaining; at += RADIX_READS * ADJI_WARP) {
    T x[RADIX_READS] = {};
#pragma unroll
    for (int i = 0; i < RADIX_READS; i++)
      if (at + i * ADJI_WARP + lane < remaining) x[i] = __ldcs(values + begin + at + i * ADJI_WARP + lane);
#pragma unroll
    for (int i = 0; i < RADIX_READS; i++) {
      uint32_t here = at + i * ADJI_WARP + lane;
      visit(order_of_value(flipped(x[i], s.flip)), begin + here, here < remaining);
    }
  }
}

/* The numbers of entries of a piece that are equal to the k-th smallest value, and below it. Read as one 64-bit number,
 * they are added up over all earlier pieces (adji_add_up). The difference from the sum at the first piece of the row
 * gives the numbers within the row. No half of this difference overflows, even if the sums do. */
struct __align__(8) two_counts {
  uint32_t equal, below;
};

__device__ __forceinline__ two_counts counts_in_row(const two_counts *sums, uint64_t piece, uint64_t first) {
  const uint64_t *both = reinterpret_cast<const uint64_t *>(sums);
  uint64_t before = both[piece] - both[first];
  return two_counts{static_cast<uint32_t>(before), static_cast<uint32_t>(before >> 32)};
}

/* Counts the entries below and equal to the k-th smallest. One warp per piece of each row. */
template <class T>
__global__ void __launch_bounds__(RADIX_THREADS)
    count_pieces(selection<T> s, const kth<T> *state, two_counts *counts, uint64_t pieces) {
  uint32_t lane = threadIdx.x % ADJI_WARP, each = warp_pieces(s.columns);
  uint64_t number = static_cast<uint64_t>(blockIdx.x) * (RADIX_THREADS / ADJI_WARP) + threadIdx.x / ADJI_WARP;
  if (number >= pieces) return;
  uint32_t row = static_cast<uint32_t>(number / each), below = 0, equal = 0;
  order_of<T> limit = state[row].order;
  visit_piece(s, row, static_cast<uint32_t>(number % each), lane, [&](order_of<T> order, uint32_t, bool there) {
    below += there && order < limit;
    equal += there && order == limit;
  });
  below = __reduce_add_sync(ALL_LANES, below);
  equal = __reduce_add_sync(ALL_LANES, equal);
  if (lane == 0) counts[number] = two_counts{equal, below};
}

/* Where selected entries go: to the answer, or to arrays that are sorted afterwards, k entries per row. */
template <class T>
struct selected {
  order_of<T> *orders; /* NULL: to the answer */
  uint32_t *columns;

  __device__ void put(const selection<T> &s, uint32_t row, uint32_t at, order_of<T> order, uint32_t column) const {
    if (!orders) return s.put(row, at, make_key(order, column));
    uint64_t to = static_cast<uint64_t>(row) * s.k + at;
    orders[to] = order;
    columns[to] = column;
  }
};

/* Writes entries below the k-th smallest from the front of the row, and equal ones after them. One warp per piece of
 * each row. */
template <class T>
__global__ void __launch_bounds__(RADIX_THREADS)
    write_selected(selection<T> s, const kth<T> *state, const two_counts *places, uint64_t pieces, selected<T> to) {
  uint32_t lane = threadIdx.x % ADJI_WARP, each = warp_pieces(s.columns);
  uint64_t number = static_cast<uint64_t>(blockIdx.x) * (RADIX_THREADS / ADJI_WARP) + threadIdx.x / ADJI_WARP;
  if (number >= pieces) return;
  uint32_t row = static_cast<uint32_t>(number / each), lanes_before = (1u << lane) - 1;
  order_of<T> limit = state[row].order;
  two_counts before = counts_in_row(places, number, static_cast<uint64_t>(row) * each);
  uint32_t wanted = state[row].rank, below = before.below, equal = before.equal;
  visit_piece(s, row, static_cast<uint32_t>(number % each), lane, [&](order_of<T> order, uint32_t column, bool there) {
    uint32_t is_below = __ballot_sync(ALL_LANES, there && order < limit);
    uint32_t is_equal = __ballot_sync(ALL_LANES, there && order == limit);
    uint32_t rank = equal + __popc(is_equal & lanes_before);
    if (is_below >> lane & 1)
      to.put(s, row, below + __popc(is_below & lanes_before), order, column);
    else if ((is_equal >> lane & 1) && rank < wanted)
      to.put(s, row, s.k - wanted + rank, order, column);
    below += __popc(is_below);
    equal += __popc(is_equal);
  });
}

/* ---- To and from a sort ---------------------------------------------------------------------- */

/* Lists all values of the rows as ordered numbers, and their columns. One thread per value. */
template <class T>
__global__ void list_values(selection<T> s, order_of<T> *orders, uint32_t *columns) {
  uint64_t all = static_cast<uint64_t>(s.rows) * s.columns, i = static_cast<uint64_t>(blockIdx.x) * blockDim.x;
  for (i += threadIdx.x; i < all; i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    uint32_t row = static_cast<uint32_t>(i / s.columns), column = static_cast<uint32_t>(i % s.columns);
    orders[i] = order_of_value(flipped(__ldcs(s.row(row) + column), s.flip));
    columns[i] = column;
  }
}

/* Writes the first k of each row of `each` sorted entries as the answer. One thread per entry. */
template <class T>
__global__ void write_sorted(selection<T> s, const order_of<T> *orders, const uint32_t *columns, uint32_t each) {
  uint64_t all = static_cast<uint64_t>(s.rows) * s.k, i = static_cast<uint64_t>(blockIdx.x) * blockDim.x;
  for (i += threadIdx.x; i < all; i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    uint32_t row = static_cast<uint32_t>(i / s.k), at = static_cast<uint32_t>(i % s.k);
    uint64_t from = static_cast<uint64_t>(row) * each + at;
    s.put(row, at, make_key(orders[from], columns[from]));
  }
}

}  // namespace

#endif
