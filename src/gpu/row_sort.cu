/* SPDX-License-Identifier: MIT
 *
 * Rows into order: a warp sorts a row in its registers, by a bitonic network over EACH * 32 keys. A key is an id, or an
 * id and a sum in one number, so that one network serves all orders. Rows too long for that go to CUB.
 *
 * In the network, lane l holds keys l * EACH .. l * EACH + EACH - 1 of the sorted row. Merges of up to EACH keys stay
 * inside a lane; wider ones exchange whole registers between lanes. What comes in may be in any order, so it is read as
 * it lies, coalesced; what goes out passes through shared memory for that.
 *
 * Limits: instruction issue, about 1.1 instructions a key for each level inside a lane and 3 for each between lanes:
 * 85 for rows of 1,024 ids.
 */
#include <cub/cub.cuh>

#include "gpu/row_sort.cuh"

namespace {

enum { WARPS = 4 };
constexpr uint32_t ALL_LANES = 0xffffffffu;

/* ---- Keys ------------------------------------------------------------------------------------------------------ */

/* Floats as unsigned numbers in the same order, and back. */
__device__ __forceinline__ uint32_t in_order(float x) {
  uint32_t bits = __float_as_uint(x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}
__device__ __forceinline__ float from_order(uint32_t bits) {
  return __uint_as_float(bits >> 31 ? bits & 0x7fffffffu : ~bits);
}
__device__ __forceinline__ uint64_t in_order(double x) {
  uint64_t bits = static_cast<uint64_t>(__double_as_longlong(x));
  return bits >> 63 ? ~bits : bits | UINT64_C(0x8000000000000000);
}
__device__ __forceinline__ double from_order(uint64_t bits) {
  return __longlong_as_double(static_cast<long long>(bits >> 63 ? bits & UINT64_C(0x7fffffffffffffff) : ~bits));
}

/* Two numbers, the first of which decides. */
struct wide_key {
  uint64_t high, low;
};

__device__ __forceinline__ bool less(uint32_t a, uint32_t b) {
  return a < b;
}
__device__ __forceinline__ bool less(uint64_t a, uint64_t b) {
  return a < b;
}
__device__ __forceinline__ bool less(const wide_key &a, const wide_key &b) {
  return a.high < b.high || (a.high == b.high && a.low < b.low);
}

__device__ __forceinline__ uint32_t from_lane(uint32_t key, uint32_t mask) {
  return __shfl_xor_sync(ALL_LANES, key, mask);
}
__device__ __forceinline__ uint64_t from_lane(uint64_t key, uint32_t mask) {
  return __shfl_xor_sync(ALL_LANES, key, mask);
}
__device__ __forceinline__ wide_key from_lane(const wide_key &key, uint32_t mask) {
  return wide_key{__shfl_xor_sync(ALL_LANES, key.high, mask), __shfl_xor_sync(ALL_LANES, key.low, mask)};
}

/* How rows become keys: ids alone, ids with sums of T by id, or by sum. */
struct ids_alone {
  typedef uint32_t key;
  uint32_t *ids;
  __device__ key last() const {
    return UINT32_MAX;
  }
  __device__ key load(uint64_t at) const {
    return ids[at];
  }
  __device__ void store(uint64_t at, key k) const {
    ids[at] = k;
  }
};

template <bool BY_SUM>
struct with_floats {
  typedef uint64_t key;
  uint32_t *ids;
  float *sums;
  __device__ key last() const {
    return UINT64_MAX;
  }
  __device__ key load(uint64_t at) const {
    uint64_t id = ids[at], sum = in_order(sums[at]);
    return BY_SUM ? sum << 32 | id : id << 32 | sum;
  }
  __device__ void store(uint64_t at, key k) const {
    ids[at] = static_cast<uint32_t>(BY_SUM ? k : k >> 32);
    sums[at] = from_order(static_cast<uint32_t>(BY_SUM ? k >> 32 : k));
  }
};

template <bool BY_SUM>
struct with_doubles {
  typedef wide_key key;
  uint32_t *ids;
  double *sums;
  __device__ key last() const {
    return wide_key{UINT64_MAX, UINT64_MAX};
  }
  __device__ key load(uint64_t at) const {
    uint64_t id = ids[at], sum = in_order(sums[at]);
    return BY_SUM ? wide_key{sum, id} : wide_key{id, sum};
  }
  __device__ void store(uint64_t at, key k) const {
    ids[at] = static_cast<uint32_t>(BY_SUM ? k.low : k.high);
    sums[at] = from_order(BY_SUM ? k.high : k.low);
  }
};

/* ---- The network --------------------------------------------------------------------------------------------------
 */

template <class KEY>
__device__ __forceinline__ void exchange(KEY &a, KEY &b) {
  KEY low = less(b, a) ? b : a, high = less(b, a) ? a : b;
  a = low;
  b = high;
}

/* Merges inside of a lane: strides STRIDE, STRIDE / 2, ... 1. */
template <int EACH, int STRIDE, class KEY>
__device__ __forceinline__ void merge_inside(KEY (&v)[EACH]) {
#pragma unroll
  for (int stride = STRIDE; stride > 0; stride /= 2)
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (!(i & stride)) exchange(v[i], v[i + stride]);
}

/* Sorts each lane's keys. The first level of a merge pairs ends with ends, so that all go the same way. */
template <int EACH, class KEY>
__device__ __forceinline__ void sort_inside(KEY (&v)[EACH]) {
#pragma unroll
  for (int size = 2; size <= EACH; size *= 2) {
#pragma unroll
    for (int i = 0; i < EACH; i++)
      if (!(i & (size / 2))) exchange(v[i], v[i ^ (size - 1)]);
#pragma unroll
    for (int stride = size / 4; stride > 0; stride /= 2)
#pragma unroll
      for (int i = 0; i < EACH; i++)
        if (!(i & stride)) exchange(v[i], v[i + stride]);
  }
}

/* Sorts EACH * 32 keys. */
template <int EACH, class KEY>
__device__ __forceinline__ void sort_warp(KEY (&v)[EACH], uint32_t lane) {
  sort_inside<EACH>(v);
#pragma unroll 1
  for (uint32_t lanes = 2; lanes <= ADJI_WARP; lanes *= 2) {
    bool upper = lane & (lanes / 2);
#pragma unroll
    for (int i = 0; i < (EACH + 1) / 2; i++) { /* ends with ends: lane and register mirrored */
      int j = EACH - 1 - i;
      KEY other_i = from_lane(v[j], lanes - 1), other_j = from_lane(v[i], lanes - 1);
      v[i] = less(other_i, v[i]) != upper ? other_i : v[i];
      if (i != j) v[j] = less(other_j, v[j]) != upper ? other_j : v[j];
    }
#pragma unroll 1
    for (uint32_t mask = lanes / 4; mask; mask /= 2) {
      bool high = lane & mask;
#pragma unroll
      for (int i = 0; i < EACH; i++) {
        KEY other = from_lane(v[i], mask);
        v[i] = less(other, v[i]) != high ? other : v[i];
      }
    }
    merge_inside<EACH, EACH / 2>(v);
  }
}

/* ---- Rows -----------------------------------------------------------------------------------------------------------
 */

/* Entry i of a row is kept in shared memory with a gap behind every 32, so that lanes that are EACH apart do not meet
 * in one bank. */
template <int EACH>
__device__ __forceinline__ uint32_t padded(uint32_t i) {
  return EACH > 1 ? i + i / 32 : i;
}

template <int EACH, class ENTRIES>
__device__ void sort_row(const ENTRIES &entries, typename ENTRIES::key *shared, uint64_t begin, uint32_t length,
                         uint32_t lane) {
  typename ENTRIES::key v[EACH];
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    uint32_t at = i * ADJI_WARP + lane;
    v[i] = at < length ? entries.load(begin + at) : entries.last();
  }
  sort_warp<EACH>(v, lane);
  if (EACH == 1) {
    if (lane < length) entries.store(begin + lane, v[0]);
    return;
  }
#pragma unroll
  for (int i = 0; i < EACH; i++)
    shared[padded<EACH>(lane * EACH + i)] = v[i];
  __syncwarp();
  for (uint32_t at = lane; at < length; at += ADJI_WARP)
    entries.store(begin + at, shared[padded<EACH>(at)]);
}

/* Rows of the window with more than LEAST * 32 and at most MOST * 32 entries, MOST / LEAST <= 8 (LEAST 0: from 2
 * entries on); a warp each. */
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

template <int LEAST, int MOST, class ENTRIES>
adj_status sort_class(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, const ENTRIES &entries) {
  if (job->longest <= LEAST * ADJI_WARP || job->longest < 2) return ADJ_OK;
  uint64_t rows = job->end_row - job->first_row;
  sort_rows<LEAST, MOST><<<adji_blocks_for(rows, WARPS), WARPS * ADJI_WARP, 0, stream>>>(
      entries, job->offsets, job->first_row, job->end_row, job->base);
  ADJI_LAUNCHED(gpu, "sort_rows");
  return ADJ_OK;
}

/* ---- Long rows
 * -------------------------------------------------------------------------------------------------------- */

/* Where the rows longer than `least` begin and end, in no order; *count says how many. */
__global__ void list_long(const uint64_t *offsets, uint64_t first_row, uint64_t end_row, uint64_t base, uint64_t least,
                          int64_t *begins, int64_t *ends, unsigned long long *count) {
  uint64_t row = first_row + static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (row >= end_row || offsets[row + 1] - offsets[row] <= least) return;
  unsigned long long at = atomicAdd(count, 1ull);
  begins[at] = static_cast<int64_t>(offsets[row] - base);
  ends[at] = static_cast<int64_t>(offsets[row + 1] - base);
}

/* A block for each row: from one array to another. */
template <class V>
__global__ void copy_long(const int64_t *begins, const int64_t *ends, const V *from, V *to) {
  for (int64_t i = begins[blockIdx.x] + threadIdx.x; i < ends[blockIdx.x]; i += blockDim.x)
    to[i] = from[i];
}

struct long_rows {
  adji_gpu *gpu;
  cudaStream_t stream;
  const adji_row_sort_job *job;
  adji_block begins, ends, ids, sums, temporary;
  uint64_t count;
};

#define SEGMENTED(l, function, ...)                                                                                    \
  do {                                                                                                                 \
    size_t bytes_ = 0;                                                                                                 \
    const int64_t *begins_ = adji_at<int64_t>((l)->begins), *ends_ = adji_at<int64_t>((l)->ends);                      \
    int64_t items_ = static_cast<int64_t>((l)->job->pairs), rows_ = static_cast<int64_t>((l)->count);                  \
    ADJI_CUDA((l)->gpu, function(NULL, bytes_, __VA_ARGS__, items_, rows_, begins_, ends_, (l)->stream));              \
    adj_status status_ = adji_block_reserve((l)->gpu, (l)->stream, bytes_, &(l)->temporary);                           \
    if (status_) return status_;                                                                                       \
    ADJI_CUDA((l)->gpu, function((l)->temporary.at, bytes_, __VA_ARGS__, items_, rows_, begins_, ends_, (l)->stream)); \
  } while (0)

template <class V>
adj_status copy_back(long_rows *l, const adji_block &from, void *to) {
  copy_long<V><<<static_cast<uint32_t>(l->count), 256, 0, l->stream>>>(
      adji_at<int64_t>(l->begins), adji_at<int64_t>(l->ends), adji_at<V>(from), static_cast<V *>(to));
  ADJI_LAUNCHED(l->gpu, "copy_long");
  return ADJ_OK;
}

adj_status sort_long_ids(long_rows *l) {
  const uint32_t *ids = l->job->ids;
  SEGMENTED(l, cub::DeviceSegmentedSort::SortKeys, ids, adji_at<uint32_t>(l->ids));
  return copy_back<uint32_t>(l, l->ids, l->job->ids);
}

/* By id, and where it is asked for by sum after that: the second sort is stable. */
template <class T>
adj_status sort_long_pairs(long_rows *l) {
  const uint32_t *ids = l->job->ids;
  T *sums = static_cast<T *>(l->job->sums);
  SEGMENTED(l, cub::DeviceSegmentedSort::SortPairs, ids, adji_at<uint32_t>(l->ids), static_cast<const T *>(sums),
            adji_at<T>(l->sums));
  if (l->job->order == ADJ_ORDER_ID) {
    adj_status status = copy_back<uint32_t>(l, l->ids, l->job->ids);
    return status ? status : copy_back<T>(l, l->sums, sums);
  }
  adj_status status = ADJ_OK;
  SEGMENTED(l, cub::DeviceSegmentedSort::StableSortPairs, static_cast<const T *>(adji_at<T>(l->sums)), sums,
            static_cast<const uint32_t *>(adji_at<uint32_t>(l->ids)), l->job->ids);
  return status;
}

adj_status find_long(long_rows *l, uint64_t least) {
  const adji_row_sort_job *job = l->job;
  uint64_t most = job->pairs / least + 1, rows = job->end_row - job->first_row;
  adj_status status = adji_block_get(l->gpu, l->stream, most * 8, "long rows", &l->begins);
  if (!status) status = adji_block_get(l->gpu, l->stream, most * 8, "long rows", &l->ends);
  if (!status) status = adji_answer_clear(l->gpu, l->stream, ADJI_ANSWER_LONG, 1);
  if (status) return status;
  list_long<<<adji_blocks_for(rows, 256), 256, 0, l->stream>>>(
      job->offsets, job->first_row, job->end_row, job->base, least, adji_at<int64_t>(l->begins),
      adji_at<int64_t>(l->ends), adji_answer_at(l->gpu, ADJI_ANSWER_LONG));
  ADJI_LAUNCHED(l->gpu, "list_long");
  status = adji_answers_fetch(l->gpu, l->stream);
  l->count = l->gpu->answers[ADJI_ANSWER_LONG];
  return status;
}

adj_status sort_found(long_rows *l) {
  const adji_row_sort_job *job = l->job;
  size_t size = job->type == ADJ_F64 ? 8 : 4;
  adj_status status = adji_block_get(l->gpu, l->stream, job->pairs * 4, "long rows", &l->ids);
  if (!status && job->sums) status = adji_block_get(l->gpu, l->stream, job->pairs * size, "long rows", &l->sums);
  if (status) return status;
  if (!job->sums) return sort_long_ids(l);
  return job->type == ADJ_F64 ? sort_long_pairs<double>(l) : sort_long_pairs<float>(l);
}

adj_status sort_long(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job, uint64_t least) {
  if (job->longest <= least) return ADJ_OK;
  long_rows l = {gpu, stream, job, {}, {}, {}, {}, {}, 0};
  adj_status status = find_long(&l, least);
  if (!status && l.count) status = sort_found(&l);
  adji_block *blocks[] = {&l.begins, &l.ends, &l.ids, &l.sums, &l.temporary};
  for (adji_block *block : blocks)
    adji_block_free(gpu, stream, block);
  return status;
}

/* ---- All rows
 * ----------------------------------------------------------------------------------------------------------- */

adj_status sort_ids(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  ids_alone entries = {job->ids};
  adj_status status = sort_class<0, 8>(gpu, stream, job, entries);
  if (!status) status = sort_class<8, 32>(gpu, stream, job, entries);
  if (!status) status = sort_class<32, 64>(gpu, stream, job, entries);
  return status ? status : sort_long(gpu, stream, job, 64 * ADJI_WARP);
}

template <bool BY_SUM>
adj_status sort_with_sums(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  if (job->type == ADJ_F64) {
    with_doubles<BY_SUM> entries = {job->ids, static_cast<double *>(job->sums)};
    adj_status status = sort_class<0, 8>(gpu, stream, job, entries);
    return status ? status : sort_long(gpu, stream, job, 8 * ADJI_WARP);
  }
  with_floats<BY_SUM> entries = {job->ids, static_cast<float *>(job->sums)};
  adj_status status = sort_class<0, 8>(gpu, stream, job, entries);
  if (!status) status = sort_class<8, 32>(gpu, stream, job, entries);
  return status ? status : sort_long(gpu, stream, job, 32 * ADJI_WARP);
}

}  // namespace

adj_status adji_row_sort(adji_gpu *gpu, cudaStream_t stream, const adji_row_sort_job *job) {
  if (!job->pairs || job->end_row == job->first_row) return ADJ_OK;
  if (!job->sums) return sort_ids(gpu, stream, job);
  return job->order == ADJ_ORDER_DISTANCE ? sort_with_sums<true>(gpu, stream, job)
                                          : sort_with_sums<false>(gpu, stream, job);
}
