/* SPDX-License-Identifier: MIT
 *
 * Selection from short rows: a row that fits shared memory is read once, and all further work is done there.
 *
 * First a bound is found that has at least k keys up to it and not many more: for small k from the least keys of groups
 * of columns, for larger k digit by digit. Both bounds are certain, not guesses: the k smallest keys are up to the
 * bound. These keys are then ordered, by buckets if possible.
 */
#include "gpu/select/select.cuh"
#include "gpu/select/select_buckets.cuh"

namespace {

enum {
  SHORT_GROUPS = 256,    /* of columns */
  MOST_BY_GROUPS = 128,  /* k; half of the groups */
  HALF_OF_GROUPS = 48,   /* k up to which half as many groups suffice */
  MOST_BY_WARP = 32,     /* k up to which a warp sorts the keys, without buckets */
  SHORT_VECTORS = 8,     /* vectors that a thread has in flight */
  LOG_MOST_COLUMNS = 14, /* the most columns are 2^14 */
};

/* The layout of shared memory, in this order: row, places, counts, sums. */
template <class T>
struct short_layout {
  uint32_t columns; /* of the row, and what it is shifted by */
  uint32_t capacity;
  uint32_t log_bins;

  __host__ __device__ uint32_t row_bytes() const {
    return (columns * static_cast<uint32_t>(sizeof(T)) + 31) / 16 * 16;
  }
  __host__ __device__ uint32_t place_bytes() const {
    return capacity * static_cast<uint32_t>(sizeof(key_of<T>));
  }
  __host__ __device__ uint32_t count_bytes() const {
    uint32_t bins = 4u << log_bins, others = SHORT_GROUPS * static_cast<uint32_t>(sizeof(key_of<T>));
    return bins > others ? bins : others;
  }
  __host__ __device__ uint32_t bytes() const {
    return row_bytes() + place_bytes() + count_bytes() + SCAN_SUMS * 4;
  }
};

/* 16 bytes of ordered numbers. */
template <class T>
struct __align__(16) order_vector {
  order_of<T> of[key_traits<T>::VECTOR];
};

/* A row in shared memory, as ordered numbers: vectors from column head on, and a few values before and after them. */
template <class T, int THREADS>
struct short_row {
  static constexpr uint32_t VECTOR = key_traits<T>::VECTOR;
  const order_of<T> *orders;
  uint32_t columns, head, vectors;
  order_of<T> low; /* see low_end */

  __device__ const order_vector<T> *begin() const {
    return reinterpret_cast<const order_vector<T> *>(orders + head);
  }
  /* Calls visit(order, column) with a thread's values. One load fetches all values of a vector; otherwise the work on
   * one value would keep the compiler from loading the next one early. */
  template <class VISIT>
  __device__ __forceinline__ void visit_all(const VISIT &visit) const {
    for (uint32_t v = threadIdx.x; v < vectors; v += THREADS) {
      order_vector<T> here = begin()[v];
#pragma unroll
      for (uint32_t e = 0; e < VECTOR; e++)
        visit(here.of[e], head + v * VECTOR + e);
    }
    if (threadIdx.x >= columns - vectors * VECTOR) return;
    uint32_t c = threadIdx.x < head ? threadIdx.x : threadIdx.x + vectors * VECTOR;
    visit(orders[c], c);
  }
  template <class VISIT>
  __device__ __forceinline__ void visit_up_to(const key_of<T> &bound, const VISIT &visit) const {
    visit_all([&](order_of<T> order, uint32_t c) {
      key_of<T> key = make_key(order, c);
      if (!less(bound, key)) visit(key);
    });
  }
};

/* The least value of every `each` consecutive values of a row: each is 2 or 4, or 1 for all values. */
template <class T, int THREADS>
struct short_minima {
  const short_row<T, THREADS> &row;
  uint32_t each;

  __device__ uint32_t count() const {
    return each > 1 ? row.vectors / FOURTH * (4 / each) : row.columns;
  }
  template <class VISIT>
  __device__ __forceinline__ void visit_all(const VISIT &visit) const {
    if (each == 1) return row.visit_all(visit);
    for (uint32_t four = threadIdx.x; four < row.vectors / FOURTH; four += THREADS) {
      order_of<T> of[4];
#pragma unroll
      for (uint32_t i = 0; i < 4; i++)
        of[i] = row.begin()[four * FOURTH + i / VECTOR].of[i % VECTOR];
      order_of<T> first = of[1] < of[0] ? of[1] : of[0], second = of[3] < of[2] ? of[3] : of[2];
      if (each == 4) {
        visit(second < first ? second : first, four);
      } else {
        visit(first, 2 * four);
        visit(second, 2 * four + 1);
      }
    }
  }

 private:
  static constexpr uint32_t VECTOR = key_traits<T>::VECTOR, FOURTH = 4 / VECTOR; /* vectors of four values */
};

/* The keys up to a bound. */
template <class T, int THREADS>
struct short_keys {
  const short_row<T, THREADS> &row;
  key_of<T> bound;
  template <class VISIT>
  __device__ __forceinline__ void visit(const VISIT &visit) const {
    row.visit_up_to(bound, visit);
  }
};

/* ---- Reading --------------------------------------------------------------------------------- */

__device__ __forceinline__ order_vector<float> orders_of(const float4 &v, bool flip) {
  return order_vector<float>{{order_of_value(flipped(v.x, flip)), order_of_value(flipped(v.y, flip)),
                              order_of_value(flipped(v.z, flip)), order_of_value(flipped(v.w, flip))}};
}
__device__ __forceinline__ order_vector<double> orders_of(const double2 &v, bool flip) {
  return order_vector<double>{{order_of_value(flipped(v.x, flip)), order_of_value(flipped(v.y, flip))}};
}

/* Reads the vectors of a row; returns the least ordered number that the thread has read. */
template <class T, int THREADS>
__device__ __forceinline__ order_of<T> read_vectors(const typename key_traits<T>::vector *from, order_vector<T> *to,
                                                    uint32_t vector_count, bool flip) {
  order_of<T> least = NOT_A_NUMBER<T>;
  for (uint32_t first = threadIdx.x; first < vector_count; first += SHORT_VECTORS * THREADS) {
    typename key_traits<T>::vector v[SHORT_VECTORS];
#pragma unroll
    for (int u = 0; u < SHORT_VECTORS; u++)
      if (first + u * THREADS < vector_count) v[u] = __ldcs(from + first + u * THREADS);
#pragma unroll
    for (int u = 0; u < SHORT_VECTORS; u++) {
      if (first + u * THREADS >= vector_count) break;
      order_vector<T> orders = orders_of(v[u], flip);
      to[first + u * THREADS] = orders;
#pragma unroll
      for (int e = 0; e < key_traits<T>::VECTOR; e++)
        least = orders.of[e] < least ? orders.of[e] : least;
    }
  }
  return least;
}

/* Reads a row. In shared memory it has the same offset from a multiple of 16 bytes as in device memory. */
template <class T, int THREADS>
__device__ short_row<T, THREADS> read_row(const selection<T> &s, uint32_t number, unsigned char *memory,
                                          order_of<T> *sums) {
  constexpr uint32_t VECTOR = key_traits<T>::VECTOR;
  const T *from = s.row(number);
  uint32_t skew = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % 16 / sizeof(T));
  uint32_t head = min((VECTOR - skew) % VECTOR, s.columns), vectors = (s.columns - head) / VECTOR;
  order_of<T> *to = reinterpret_cast<order_of<T> *>(memory) + skew;
  order_of<T> least = read_vectors<T, THREADS>(reinterpret_cast<const typename key_traits<T>::vector *>(from + head),
                                               reinterpret_cast<order_vector<T> *>(to + head), vectors, s.flip);
  uint32_t ends = s.columns - vectors * VECTOR; /* fewer than two vectors, and fewer than threads */
  if (threadIdx.x < ends) {
    uint32_t c = threadIdx.x < head ? threadIdx.x : threadIdx.x + vectors * VECTOR;
    to[c] = order_of_value(flipped(from[c], s.flip));
    least = to[c] < least ? to[c] : least;
  }
  order_of<T> low = low_end<T, THREADS>(least, sums);
  __syncthreads();
  return short_row<T, THREADS>{to, s.columns, head, vectors, low};
}

/* ---- Bounds ---------------------------------------------------------------------------------- */

/* A warp finds the k-th smallest of the least values of EACH * 32 groups, or of pairs of groups. */
template <class T, int EACH>
__device__ __forceinline__ void choose_group(const order_of<T> *least, uint32_t groups, uint32_t k, order_of<T> *bound,
                                             uint32_t lane) {
  order_of<T> v[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    v[i] = least[i * ADJI_WARP + lane];
    if (groups == EACH * ADJI_WARP) continue;
    order_of<T> other = least[(i + EACH) * ADJI_WARP + lane];
    v[i] = other < v[i] ? other : v[i];
  }
  sort_warp<EACH>(v, lane);
#pragma unroll
  for (int i = 0; i < EACH; i++)
    if (lane * EACH + i == k - 1) *bound = v[i];
}

/* The bound is the k-th smallest of the groups' least values, so k groups have a value up to it. Column c is in group c
 * % groups. At least k groups have columns, as k <= columns and k <= groups / 2. It uses values without columns, which
 * is half the work. If too many values are equal for that, the next step finds too many keys up to the bound. least and
 * bound: shared memory. */
template <class T, int THREADS>
__device__ key_of<T> bound_by_groups(const short_row<T, THREADS> &row, uint32_t k, order_of<T> *least,
                                     order_of<T> *bound) {
  const bool few = k <= HALF_OF_GROUPS;
  const uint32_t groups = few && THREADS < SHORT_GROUPS ? SHORT_GROUPS / 2 : SHORT_GROUPS;
  for (uint32_t group = threadIdx.x; group < groups; group += THREADS) {
    order_of<T> group_least = NOT_A_NUMBER<T>;
    for (uint32_t c = group; c < row.columns; c += groups)
      group_least = row.orders[c] < group_least ? row.orders[c] : group_least;
    least[group] = group_least;
  }
  __syncthreads();
  if (threadIdx.x < ADJI_WARP) {
    constexpr int EACH = SHORT_GROUPS / ADJI_WARP;
    if (few)
      choose_group<T, EACH / 2>(least, groups, k, bound, threadIdx.x);
    else
      choose_group<T, EACH>(least, groups, k, bound, threadIdx.x);
  }
  __syncthreads();
  return make_key(*bound, 0xffffffffu);
}

/* How many consecutive values are represented by the least of them if digits give the bound. The k-th smallest of these
 * least values is a bound, as k of them are up to it. It is close to the best bound if there are at least twice as many
 * of them as needed. */
__device__ __forceinline__ uint32_t values_counted_together(uint32_t columns, uint32_t k) {
  return columns >= 8 * k ? 4 : columns >= 4 * k ? 2 : 1;
}

/* Finds a bound with at least k keys up to it and, if each is 1, no more than the capacity. Otherwise the bound is a
 * value without a column, and if many values are equal more keys are up to it. */
template <class T, int THREADS>
__device__ __forceinline__ key_of<T> bound_of_minima(const short_minima<T, THREADS> &minima, uint32_t k,
                                                     const short_layout<T> &layout, const bucket_memory<T> &room) {
  bool all = minima.each == 1;
  key_digits<T> known = no_digits<T>(k, minima.count(), LOG_MOST_COLUMNS);
  key_of<T> bound = bound_by_digits<T, THREADS>(minima, known, all ? layout.capacity : k + k / 8, layout.log_bins,
                                                room.counts, room.sums);
  return all ? bound : make_key(key_order(bound), 0xffffffffu);
}

/* ---- The kernel ------------------------------------------------------------------------------ */

/* Copies all keys up to the bound to the places, unordered; returns their number, which may be more than fit. */
template <class T, int THREADS>
__device__ uint32_t gather_short(const short_row<T, THREADS> &row, const key_of<T> &bound,
                                 const bucket_memory<T> &room) {
  if (threadIdx.x == 0) room.sums[0] = 0;
  __syncthreads();
  row.visit_up_to(bound, [&](const key_of<T> &key) {
    uint32_t at = atomicAdd(room.sums, 1u);
    if (at < room.capacity) room.places[at] = key;
  });
  __syncthreads();
  uint32_t held = room.sums[0];
  __syncthreads();
  return held;
}

/* Writes the k smallest of the keys up to a bound; false: there are too many keys, or they are too close together. */
template <class T, int THREADS>
__device__ bool write_short(const selection<T> &s, uint32_t number, const short_row<T, THREADS> &row,
                            const key_of<T> &bound, uint32_t buckets, const bucket_memory<T> &room) {
  if (s.k > MOST_BY_WARP) {
    bucket_map<T> map(row.low, key_order(bound), buckets);
    return write_by_buckets<T, THREADS>(s, number, short_keys<T, THREADS>{row, bound}, map, room);
  }
  static_assert(MOST_BY_WARP * 3 / 2 + BUCKET_MOST <= 4 * ADJI_WARP, "a warp sorts what there is room for");
  uint32_t held = gather_short(row, bound, room);
  if (held > room.capacity) return false;
  if (threadIdx.x < ADJI_WARP) {
    sorted_list<T> entries = list_to_answer<T>(room.places, s, number);
    key_of<T> *through = reinterpret_cast<key_of<T> *>(room.counts);
    if (held <= 2 * ADJI_WARP)
      sort_row<2>(entries, through, 0, held, threadIdx.x);
    else
      sort_row<4>(entries, through, 0, held, threadIdx.x);
  }
  __syncthreads();
  return true;
}

/* Selects from all rows, a block per row, one after the other. Values and answer in device memory.
 * 1 <= k <= columns <= 2^LOG_MOST_COLUMNS, k <= ADJI_SELECT_MOST.
 *
 * 1. The row goes to shared memory, with 8 x 16 bytes per thread in flight.
 * 2. Find a bound with at least k keys up to it: from the groups' least values, or digit by digit, from the least of
 *    every few values if k is a small share of them.
 * 3. Keys up to the bound go to buckets and are written from there.
 * 4. If that fails, because values are equal or unevenly spread, find a bound with no more keys than the capacity, and
 *    sort these keys.
 *
 * Limits: for small k the read, since the blocks of a multiprocessor are at different steps; for large k shared memory,
 * with one addition per value or few values, and about ten accesses per selected key. */
template <class T, int THREADS>
__global__ void __launch_bounds__(THREADS, (sizeof(T) == 4 ? 1024 : 768) / THREADS)
    select_short(selection<T> s, short_layout<T> layout) {
  extern __shared__ __align__(16) unsigned char memory[];
  unsigned char *after_row = memory + layout.row_bytes(), *after_places = after_row + layout.place_bytes();
  uint32_t *sums = reinterpret_cast<uint32_t *>(after_places + layout.count_bytes());
  bucket_memory<T> room = {reinterpret_cast<uint32_t *>(after_places), sums, reinterpret_cast<key_of<T> *>(after_row),
                           layout.capacity};
  const uint32_t bins = 1u << layout.log_bins;
  for (uint32_t number = blockIdx.x; number < s.rows; number += gridDim.x) {
    short_row<T, THREADS> row = read_row<T, THREADS>(s, number, memory, reinterpret_cast<order_of<T> *>(sums));
    if (s.k <= MOST_BY_GROUPS) {
      key_of<T> bound = bound_by_groups(row, s.k, reinterpret_cast<order_of<T> *>(after_places),
                                        reinterpret_cast<order_of<T> *>(sums));
      __syncthreads();
      if (write_short(s, number, row, bound, bins, room)) continue;
    }
    short_minima<T, THREADS> minima = {row, s.k > MOST_BY_GROUPS ? values_counted_together(row.columns, s.k) : 1};
    bool written = false;
    key_of<T> bound;
    for (;; minima.each = 1) {
      bound = bound_of_minima(minima, s.k, layout, room);
      written = s.k > MOST_BY_GROUPS && write_short(s, number, row, bound, bins, room);
      if (written || minima.each == 1) break;
    }
    if (written) continue;
    uint32_t held = gather_short(row, bound, room);
    sort_places<THREADS>(room.places, held);
    for (uint32_t at = threadIdx.x; at < s.k; at += THREADS)
      s.put(number, at, room.places[at]);
    __syncthreads();
  }
}

/* ---- Launching ------------------------------------------------------------------------------ */

/* Threads per row: few, so that each has 32 values or more and many rows are done at once. A single warp has no
 * barriers to wait at, but takes long if k is large. */
uint32_t threads_of(uint32_t columns, uint32_t k) {
  if (k <= MOST_BY_GROUPS && columns <= 2048) return 32;
  return columns <= (k <= MOST_BY_GROUPS ? 4096 : 2048) ? 128 : 256;
}

/* The capacity is half as many keys again as requested if groups give the bound, a quarter if digits do. There are
 * enough bins for add_up to have four per thread and, if k is large, for a digit of 11 bits. */
template <class T>
short_layout<T> layout_of(uint32_t columns, uint32_t k) {
  uint32_t capacity = k + k / (k <= MOST_BY_GROUPS ? 2 : 4) + BUCKET_MOST, threads = threads_of(columns, k);
  uint32_t log_bins = k > MOST_BY_GROUPS ? 11 : threads == 32 ? 8 : threads == 128 ? 9 : 10;
  return short_layout<T>{columns, capacity + capacity % 2, log_bins};
}

template <class T, int THREADS>
adj_status launch_short(adji_gpu *gpu, const selection<T> &s, const short_layout<T> &layout) {
  int blocks = 0, bytes = static_cast<int>(layout.bytes());
  ADJI_ALLOW_SHARED(gpu, select_short<T, THREADS>);
  ADJI_CUDA(gpu, cudaFuncSetAttribute(select_short<T, THREADS>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                      cudaSharedmemCarveoutMaxShared));
  ADJI_CUDA(gpu, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, select_short<T, THREADS>, THREADS,
                                                               static_cast<size_t>(bytes)));
  uint32_t most = static_cast<uint32_t>(gpu->multiprocessors) * static_cast<uint32_t>(blocks < 1 ? 1 : blocks);
  uint32_t grid = s.rows < most ? s.rows : most;
  select_short<T, THREADS><<<grid, THREADS, layout.bytes(), gpu->compute>>>(s, layout);
  ADJI_LAUNCHED(gpu, "select_short");
  return ADJ_OK;
}

template <class T>
adj_status select_rows(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k) {
  uint32_t columns = static_cast<uint32_t>(job->columns), threads = threads_of(columns, job->k);
  short_layout<T> layout = layout_of<T>(columns, job->k);
  const uint64_t at_once = 1 << 30;
  for (uint64_t first = 0; first < job->rows; first += at_once) {
    uint64_t here = job->rows - first < at_once ? job->rows - first : at_once;
    selection<T> s = selection_of<T>(job, out_k, first, here);
    adj_status status = threads == 32    ? launch_short<T, 32>(gpu, s, layout)
                        : threads == 128 ? launch_short<T, 128>(gpu, s, layout)
                                         : launch_short<T, 256>(gpu, s, layout);
    if (status) return status;
  }
  return ADJ_OK;
}

}  // namespace

adj_status adji_select_short(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k) {
  return job->type == ADJ_F64 ? select_rows<double>(gpu, job, out_k) : select_rows<float>(gpu, job, out_k);
}

adj_status adji_select_short_fits(adji_gpu *gpu, const adji_gpu_select *job, uint32_t blocks, bool *out) {
  *out = false;
  if (job->k > ADJI_SELECT_MOST || job->columns > 1 << LOG_MOST_COLUMNS) return ADJ_OK;
  uint32_t columns = static_cast<uint32_t>(job->columns);
  uint32_t bytes =
      job->type == ADJ_F64 ? layout_of<double>(columns, job->k).bytes() : layout_of<float>(columns, job->k).bytes();
  int of_block = gpu->block_shared_bytes, of_all = 0;
  ADJI_CUDA(gpu, cudaDeviceGetAttribute(&of_all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, gpu->device));
  *out = bytes <= static_cast<uint32_t>(of_block) && blocks * (bytes + 1024) <= static_cast<uint32_t>(of_all);
  return ADJ_OK;
}
