/* SPDX-License-Identifier: MIT
 *
 * Selection for any k by samples: "sample select" of the thesis on k-nearest neighbours on GPUs, with two splitters.
 *
 * 1. A sample of a row is sorted. Two of its keys, the splitters, are chosen so that the k-th smallest of the row is
 *    almost certainly between them, together with few other keys: a few hundred of 4,096 ranks.
 * 2. A pass over the row counts the keys below the splitters, which belong to the answer, and collects the keys between
 *    them.
 * 3. The same again for the collected keys, with a new sample, until a block can do the rest.
 * 4. This block finds the k-th smallest key digit by digit. Exactly k keys are up to it.
 *
 * If the answer may be unordered, there is one stage: each of these steps writes the keys that it finds to be below,
 * and the matrix is read once. Otherwise there is a second stage: a pass over the matrix writes all keys up to the k-th
 * smallest in the order of columns, as a stable sort of the values alone needs it. The steps before count the keys up
 * to the k-th smallest in each piece of a row, so that this pass knows the places. All bounds are keys, so equal values
 * need no special case.
 *
 * The splitters are a guess. If the counts show that they were wrong, a block does the row without them; rows too short
 * for a sample are done in the same way.
 */
#ifndef ADJI_GPU_SELECT_SELECT_SAMPLE_CUH
#define ADJI_GPU_SELECT_SELECT_SAMPLE_CUH

#include "gpu/select/select_bound.cuh"
#include "gpu/select/select_buckets.cuh"
#include "gpu/select/select_finish.cuh"
#include "gpu/select/select_radix.cuh"

namespace {

enum {
  SPLIT_THREADS = 256,
  SPLIT_WARPS = SPLIT_THREADS / ADJI_WARP,
  LIST_COLUMNS = WARP_COLUMNS, /* keys of a list that a warp visits */
  KTH_THREADS = 512,
  LOG_KTH_BINS = 11,
  KTH_READS = 8,    /* keys that a thread has in flight */
  LAST_KEYS = 32768 /* the most keys in which one block finds the k-th smallest */
};

/* Lists of keys, one per row. */
template <class T>
struct key_lists {
  key_of<T> *keys; /* NULL: the keys are those of the matrix */
  uint32_t capacity;

  __device__ key_of<T> *row(uint32_t number) const {
    return keys + static_cast<uint64_t>(number) * capacity;
  }
};

/* The state of a row's search: the rank-th of `length` keys is wanted; k - rank keys are below all of them. */
template <class T>
struct row_search {
  key_of<T> low, high;    /* splitters; in the end both are the k-th smallest key */
  uint32_t rank, length;  /* rank 0: the splitters were wrong */
  uint32_t below, inside; /* numbers of these keys, counted by a pass */

  /* Continues with the keys between the splitters. A list has all of them if they are not more than its capacity. */
  __device__ bool descend(uint32_t capacity) {
    bool correct = below < rank && rank - below <= inside && inside <= capacity;
    rank = correct ? rank - below : 0;
    length = correct ? inside : 0;
    return correct;
  }
};

/* ---- Splitters ------------------------------------------------------------------------------- */

/* The ranks of the splitters in a sorted sample of `size` keys, counted from 0, for the key that has this share of all
 * keys up to it. The number of sampled keys below that key varies at most as a binomial one; 6 deviations are added,
 * and 5 for the tail if few are expected. A rank below 0, or of `size` and above, means that there is no such
 * splitter. */
struct splitter_ranks {
  float low, high;
};

__host__ __device__ inline splitter_ranks ranks_of_splitters(float size, float share) {
  float mean = size * share, spread = 6 * sqrtf(mean * (1 - share)) + 5;
  return splitter_ranks{floorf(mean - spread), ceilf(mean + spread)};
}

/* Sorts a sample of a row, or of its list, and keeps the splitters. */
template <class T>
struct sample_to_splitters {
  typedef key_of<T> key;
  const selection<T> &s;
  const T *values;
  const key *list; /* NULL: the row is sampled */
  adji_sampling how;
  uint32_t length;
  splitter_ranks ranks;
  row_search<T> *to;
  __device__ key last() const {
    return last_key<T>();
  }
  __device__ key load(uint64_t i) const {
    uint32_t at = sample_column(how, length, static_cast<uint32_t>(i));
    return list ? list[at] : s.key(values, at);
  }
  __device__ void store(uint64_t at, const key &k) const {
    float rank = static_cast<float>(at);
    if (rank == ranks.low) to->low = k;
    if (rank == ranks.high) to->high = k;
  }
};

template <int EACH>
constexpr uint32_t SAMPLE_KEYS = EACH *FINISH_THREADS;

/* Chooses the splitters of each row, a block per row: from the matrix, or from the keys that the last pass collected,
 * both in device memory. A sample has EACH keys per thread, each from another part of the row. Limited by the latency
 * of the reads and the instruction issue of the sort, about 10 microseconds per block. */
template <class T, int EACH>
__global__ void __launch_bounds__(FINISH_THREADS, 2)
    choose_splitters(selection<T> s, key_lists<T> from, row_search<T> *searches) {
  extern __shared__ __align__(16) unsigned char memory[];
  uint32_t row = blockIdx.x;
  row_search<T> now = {};
  if (from.keys) {
    now = searches[row];
    if (now.rank) now.descend(from.capacity);
  } else {
    now.rank = s.k;
    now.length = s.columns;
  }
  __syncthreads();
  now.low = make_key(order_of<T>(0), 0);
  now.high = last_key<T>();
  now.below = now.inside = 0;
  if (threadIdx.x == 0) searches[row] = now;
  if (!now.rank) return;
  uint32_t log_size = 31 - __clz(static_cast<int>(SAMPLE_KEYS<EACH>));
  float share = static_cast<float>(now.rank) / static_cast<float>(now.length);
  sample_to_splitters<T> entries = {s,
                                    s.row(row),
                                    from.keys ? from.row(row) : NULL,
                                    adji_sampling{log_size, 0, 1, 1},
                                    now.length,
                                    ranks_of_splitters(SAMPLE_KEYS<EACH>, share),
                                    searches + row};
  sort_row_together<EACH, FINISH_WARPS, true>(entries, reinterpret_cast<key_of<T> *>(memory), 0, SAMPLE_KEYS<EACH>);
}

/* ---- Passes ---------------------------------------------------------------------------------- */

/* A buffer in shared memory for keys of a warp, before they go to a list. */
template <class T>
struct warp_buffer {
  static constexpr uint32_t CAPACITY = 2048 / sizeof(key_of<T>);
  key_of<T> *keys;
  uint32_t held; /* the same in all lanes */

  /* Calls to(at, key) for each key, at consecutive places from the old value of `count` on. */
  template <class TO>
  __device__ void flush(uint32_t *count, uint32_t lane, const TO &to) {
    if (!held) return;
    __syncwarp();
    uint32_t at = 0;
    if (lane == 0) at = atomicAdd(count, held);
    at = __shfl_sync(ALL_LANES, at, 0);
    for (uint32_t i = lane; i < held; i += ADJI_WARP)
      to(at + i, keys[i]);
    held = 0;
    __syncwarp();
  }

  /* All lanes call it; lanes with `own` add a key. */
  template <class TO>
  __device__ void add(bool own, const key_of<T> &key, uint32_t *count, uint32_t lane, const TO &to) {
    uint32_t mask = __ballot_sync(ALL_LANES, own), added = __popc(mask);
    if (!added) return;
    if (held + added > CAPACITY) flush(count, lane, to);
    if (own) keys[held + __popc(mask & ((1u << lane) - 1))] = key;
    held += added;
  }
};

/* Pieces of a row of the matrix. */
template <class T>
struct row_pieces {
  static constexpr bool OF_MATRIX = true;
  __device__ uint32_t length(const selection<T> &s, const row_search<T> &) const {
    return s.columns;
  }
  template <class VISIT>
  __device__ __forceinline__ void visit(const selection<T> &s, uint32_t row, uint32_t piece, uint32_t, uint32_t lane,
                                        const VISIT &visit) const {
    visit_piece(s, row, piece, lane,
                [&](order_of<T> order, uint32_t column, bool there) { visit(make_key(order, column), there); });
  }
};

/* Pieces of a list. */
template <class T>
struct list_pieces {
  static constexpr bool OF_MATRIX = false;
  key_lists<T> lists;
  __device__ uint32_t length(const selection<T> &, const row_search<T> &search) const {
    return search.length;
  }
  template <class VISIT>
  __device__ __forceinline__ void visit(const selection<T> &, uint32_t row, uint32_t piece, uint32_t length,
                                        uint32_t lane, const VISIT &visit) const {
    const key_of<T> *from = lists.row(row) + piece * LIST_COLUMNS;
    uint32_t remaining = min(LIST_COLUMNS, length - piece * LIST_COLUMNS);
    for (uint32_t at = 0; at < remaining; at += KTH_READS * ADJI_WARP) {
      key_of<T> keys[KTH_READS];
#pragma unroll
      for (int i = 0; i < KTH_READS; i++) {
        uint32_t here = at + i * ADJI_WARP + lane;
        keys[i] = here < remaining ? from[here] : last_key<T>();
      }
#pragma unroll
      for (int i = 0; i < KTH_READS; i++)
        visit(keys[i], at + i * ADJI_WARP + lane < remaining);
    }
  }
};

/* The parameters of a pass. */
template <class T>
struct splitting {
  row_search<T> *searches;
  two_counts *pieces; /* per piece of the matrix: keys up to the k-th smallest; NULL: keys are written */
  key_lists<T> to;    /* gets the keys between the splitters */
  uint32_t each;      /* pieces per row of the input */
};

/* Splits the keys of each row at its splitters, a warp per piece of a row. Input and output in device memory. Keys
 * between the splitters go to the row's list. WRITE: keys below are written, from the current end of the row's answer
 * on; otherwise they are counted, for the row and for their piece of the matrix. A piece has WARP_COLUMNS or
 * LIST_COLUMNS keys.
 *
 * Keys pass through 2 KiB of shared memory per warp, so that one atomic addition reserves places for a few hundred
 * keys, and writes are coalesced. Limited by memory; about 15 instructions per value. */
template <class T, class FROM, bool WRITE>
__global__ void __launch_bounds__(SPLIT_THREADS) split_rows(selection<T> s, FROM from, splitting<T> p) {
  __shared__ __align__(16) unsigned char memory[(WRITE ? 2 : 1) * SPLIT_WARPS * 2048];
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  uint64_t number = static_cast<uint64_t>(blockIdx.x) * SPLIT_WARPS + warp;
  if (number >= static_cast<uint64_t>(s.rows) * p.each) return;
  uint32_t row = static_cast<uint32_t>(number / p.each), piece = static_cast<uint32_t>(number % p.each);
  row_search<T> *search = p.searches + row;
  uint32_t rank = search->rank, length = from.length(s, *search), begin = s.k - rank, own = 0;
  if (!rank || static_cast<uint64_t>(piece) * LIST_COLUMNS >= length) return;
  key_of<T> low = search->low, high = search->high;
  warp_buffer<T> inside = {reinterpret_cast<key_of<T> *>(memory + warp * 2048), 0};
  warp_buffer<T> below = {reinterpret_cast<key_of<T> *>(memory + (WRITE ? SPLIT_WARPS + warp : 0) * 2048), 0};
  auto to_list = [&](uint32_t at, const key_of<T> &key) {
    if (at < p.to.capacity) p.to.row(row)[at] = key;
  };
  auto to_answer = [&](uint32_t at, const key_of<T> &key) {
    if (at < rank) s.put(row, begin + at, key); /* more keys are below only if the splitters are wrong */
  };
  from.visit(s, row, piece, length, lane, [&](const key_of<T> &key, bool there) {
    bool is_below = there && less(key, low);
    inside.add(there && !is_below && !less(high, key), key, &search->inside, lane, to_list);
    if (WRITE) {
      below.add(is_below, key, &search->below, lane, to_answer);
    } else {
      own += is_below;
      if (!FROM::OF_MATRIX && is_below)
        atomicAdd(&p.pieces[static_cast<uint64_t>(row) * warp_pieces(s.columns) + key_column(key) / WARP_COLUMNS].below,
                  1u);
    }
  });
  inside.flush(&search->inside, lane, to_list);
  if (WRITE) return below.flush(&search->below, lane, to_answer);
  own = __reduce_add_sync(ALL_LANES, own);
  if (lane == 0 && own) atomicAdd(&search->below, own);
  if (lane == 0 && FROM::OF_MATRIX) p.pieces[number] = two_counts{0, own};
}

/* ---- The k-th smallest ----------------------------------------------------------------------- */

/* Visits all keys of a list or of a row with the threads of a block. */
template <class T>
struct block_keys {
  const selection<T> &s;
  const T *values;
  const key_of<T> *list; /* NULL: the keys of the row */
  uint32_t length;

  template <class VISIT>
  __device__ __forceinline__ void visit(const VISIT &visit) const {
    for (uint64_t first = threadIdx.x; first < length; first += KTH_READS * KTH_THREADS) {
      key_of<T> keys[KTH_READS];
#pragma unroll
      for (int i = 0; i < KTH_READS; i++) {
        uint64_t at = first + i * KTH_THREADS;
        if (at < length) keys[i] = list ? list[at] : s.key(values, static_cast<uint32_t>(at));
      }
#pragma unroll
      for (int i = 0; i < KTH_READS; i++)
        if (first + i * KTH_THREADS < length) visit(keys[i]);
    }
  }
  template <class VISIT>
  __device__ __forceinline__ void visit_all(const VISIT &f) const {
    visit([&](const key_of<T> &key) { f(key_order(key), key_column(key)); });
  }
};

__device__ __forceinline__ uint32_t bits_of(uint32_t x) {
  return 32 - __clz(static_cast<int>(x));
}
__device__ __forceinline__ uint32_t bits_of(uint64_t x) {
  return 64 - __clzll(static_cast<long long>(x));
}

/* The digits that all keys between the splitters share. */
template <class T>
__device__ key_digits<T> common_digits(const row_search<T> &search, uint32_t log_columns) {
  key_digits<T> known = no_digits<T>(search.rank, search.length, log_columns);
  known.unknown_bits = bits_of(key_order(search.low) ^ key_order(search.high));
  known.order_mask = known.unknown_bits < sizeof(T) * 8 ? ~order_of<T>(0) << known.unknown_bits : 0;
  known.order = key_order(search.low) & known.order_mask;
  return known;
}

/* Finds the k-th smallest key of each row, a block per row, among the keys that the last pass collected, or among all
 * keys of the row if there was no pass (from.keys NULL) or the splitters were wrong. WRITE: writes all remaining keys
 * up to it; otherwise counts them in the pieces. Limited by latency: three to six passes over a list that is in the
 * caches, and about thirty barriers. */
template <class T, bool WRITE>
__global__ void __launch_bounds__(KTH_THREADS)
    find_kth_keys(selection<T> s, key_lists<T> from, row_search<T> *searches, two_counts *pieces) {
  __shared__ __align__(16) uint32_t counts[1 << LOG_KTH_BINS];
  __shared__ uint32_t sums[SCAN_SUMS], written;
  uint32_t row = blockIdx.x, each = warp_pieces(s.columns);
  two_counts *own = WRITE ? NULL : pieces + static_cast<uint64_t>(row) * each;
  row_search<T> search = {};
  if (from.keys) search = searches[row];
  bool whole = !from.keys || !search.rank || !search.descend(from.capacity);
  if (whole) search = row_search<T>{make_key(order_of<T>(0), 0), last_key<T>(), s.k, s.columns, 0, 0};
  if (whole && !WRITE)
    for (uint32_t i = threadIdx.x; i < each; i += KTH_THREADS)
      own[i] = two_counts{0, 0};
  if (threadIdx.x == 0) written = s.k - search.rank;
  __syncthreads();
  block_keys<T> keys = {s, s.row(row), whole ? NULL : from.row(row), search.length};
  key_of<T> kth = search.high;
  if (search.rank < search.length)
    kth = bound_by_digits<T, KTH_THREADS>(keys, common_digits(search, bits_of(s.columns - 1)), search.rank,
                                          LOG_KTH_BINS, counts, sums);
  if (threadIdx.x == 0) searches[row].low = searches[row].high = kth;
  keys.visit([&](const key_of<T> &key) {
    if (less(kth, key)) return;
    if (WRITE)
      s.put(row, atomicAdd(&written, 1u), key);
    else
      atomicAdd(&own[key_column(key) / WARP_COLUMNS].below, 1u);
  });
}

/* Writes all keys up to the k-th smallest, by column, to arrays that are sorted afterwards. One warp per piece of each
 * row. places: the number of these keys before each piece. */
template <class T>
__global__ void __launch_bounds__(RADIX_THREADS)
    write_up_to(selection<T> s, const row_search<T> *searches, const two_counts *places, uint64_t pieces,
                selected<T> to) {
  uint32_t lane = threadIdx.x % ADJI_WARP, each = warp_pieces(s.columns);
  uint64_t number = static_cast<uint64_t>(blockIdx.x) * (RADIX_THREADS / ADJI_WARP) + threadIdx.x / ADJI_WARP;
  if (number >= pieces) return;
  uint32_t row = static_cast<uint32_t>(number / each);
  uint32_t before = counts_in_row(places, number, static_cast<uint64_t>(row) * each).below;
  key_of<T> kth = searches[row].high;
  visit_piece(s, row, static_cast<uint32_t>(number % each), lane, [&](order_of<T> order, uint32_t column, bool there) {
    bool own = there && !less(kth, make_key(order, column));
    uint32_t mask = __ballot_sync(ALL_LANES, own);
    if (own) to.put(s, row, before + __popc(mask & ((1u << lane) - 1)), order, column);
    before += __popc(mask);
  });
}

}  // namespace

#endif
