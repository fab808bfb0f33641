/* SPDX-License-Identifier: MIT
 *
 * Selection: the k-th smallest of the keys of a block, digit by digit.
 */
#ifndef ADJI_GPU_SELECT_SELECT_DIGITS_CUH
#define ADJI_GPU_SELECT_SELECT_DIGITS_CUH

#include "gpu/select/select_buckets.cuh"

namespace {

/* What is known of the k-th smallest key: its upper bits, of the value and then of the column. */
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

/* Nothing is known but how many keys there are. */
template <class T>
__device__ __forceinline__ key_digits<T> no_digits(uint32_t k, uint32_t matching, uint32_t log_columns) {
  return key_digits<T>{0, 0, 0, 0, k, matching, static_cast<uint32_t>(sizeof(T) * 8), log_columns, false};
}

/* Finds a bound with at least k and at most `most` keys up to it; finds at least one digit. keys.visit_all(f) calls f
 * with the value and the column of each key a thread owns, the same ones every time. Digits of the columns follow
 * those of the values, so it ends even if many values are equal. counts: 2^log_bins in shared memory, a multiple of
 * 4 * THREADS; sums: SCAN_SUMS for add_up, the first of which also pass on the digit. Needs a barrier before, and ends
 * with one. */
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
    if (k - known.rank + up_to <= most) return known.bound(); /* at the latest when all bits are known, of one key */
    known.rank -= before;
    known.matching = up_to - before;
  }
}

}  // namespace

#endif
