/* SPDX-License-Identifier: MIT
 *
 * Lists of the best neighbours so far: finishing and merging them. Limited by memory, and small beside what finds them.
 */
#include "gpu/brute/brute_lists.cuh"

#include <cmath>

#include "gpu/shared/steps.cuh"

namespace {

enum { THREADS = 256, MOST_BLOCKS = 1 << 20 };

template <class T>
struct lists {
  uint32_t *ids;
  T *sums;
};

template <class T>
lists<T> typed(const adji_brute_lists &l) {
  return lists<T>{l.ids, static_cast<T *>(l.sums)};
}

__device__ __forceinline__ float root_of(float s) {
  return __fsqrt_rn(s);
}
__device__ __forceinline__ double root_of(double s) {
  return __dsqrt_rn(s);
}

/* Writes list entry i: its id and distance, or padding. One thread per entry; lists in device memory. */
template <class T>
__global__ void finish(adji_brute_finish job, lists<T> from, lists<T> to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x, entries = job.rows * job.k;
  for (; i < entries; i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    T s = from.sums[i];
    uint32_t id = from.ids[i];
    bool none = s != s || id == ADJ_NO_ID;
    uint64_t at = job.numbers ? (job.numbers[i / job.k] - job.first_row) * job.k + i % job.k : i;
    to.ids[at] = none ? ADJ_NO_ID : id + job.first;
    to.sums[at] = none ? T(INFINITY) : job.root ? root_of(s) : s;
  }
}

/* How many of k entries come before (s, id); equal ones count if `equal`. Only padding is equal. */
template <class T>
__device__ uint32_t rank_in(const uint32_t *ids, const T *sums, uint32_t k, T s, uint32_t id, bool equal) {
  uint32_t low = 0, high = k;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2, other = __ldg(ids + middle);
    T sum = __ldg(sums + middle);
    bool before = sum != s ? sum < s : equal ? other <= id : other < id;
    low = before ? middle + 1 : low;
    high = before ? high : middle;
  }
  return low;
}

/* Merges two lists per row: the place of an entry is its own number plus the entries of the other list before it. One
 * thread per entry of either list; lists in device memory. */
template <class T>
__global__ void merge(uint64_t rows, uint32_t k, lists<T> a, lists<T> b, lists<T> to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x, entries = rows * k;
  for (; i < 2 * entries; i += static_cast<uint64_t>(gridDim.x) * blockDim.x) {
    bool second = i >= entries;
    uint64_t at = second ? i - entries : i, row = at / k * k;
    uint32_t id = (second ? b : a).ids[at];
    T s = (second ? b : a).sums[at];
    const lists<T> &other = second ? a : b;
    uint64_t place = at - row + rank_in(other.ids + row, other.sums + row, k, s, id, second);
    if (place >= k) continue;
    to.ids[row + place] = id;
    to.sums[row + place] = s;
  }
}

uint32_t blocks_for(uint64_t items) {
  uint64_t blocks = (items + THREADS - 1) / THREADS;
  return static_cast<uint32_t>(blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS);
}

template <class T>
void launch_finish(adji_gpu *gpu, const adji_brute_finish *job) {
  finish<T><<<blocks_for(job->rows * job->k), THREADS, 0, gpu->compute>>>(*job, typed<T>(job->from), typed<T>(job->to));
}

template <class T>
void launch_merge(adji_gpu *gpu, const adji_brute_merge &job) {
  merge<T><<<blocks_for(2 * job.rows * job.k), THREADS, 0, gpu->compute>>>(job.rows, job.k, typed<T>(job.a),
                                                                           typed<T>(job.b), typed<T>(job.to));
}

}  // namespace

adj_status adji_brute_lists_get(adji_gpu *gpu, adj_type type, uint64_t entries, adji_brute_list_memory *out) {
  uint64_t size = adji_type_size(type);
  adj_status status = adji_block_get(gpu, gpu->compute, adji_mul(entries, 4), "lists of neighbours", &out->ids);
  if (!status) status = adji_block_get(gpu, gpu->compute, adji_mul(entries, size), "lists of neighbours", &out->sums);
  if (status) adji_brute_lists_free(gpu, out);
  return status;
}

void adji_brute_lists_free(adji_gpu *gpu, adji_brute_list_memory *memory) {
  adji_blocks_free(gpu, {&memory->ids, &memory->sums});
}

adj_status adji_brute_finish_lists(adji_gpu *gpu, const adji_brute_finish *job) {
  if (!job->rows) return ADJ_OK;
  if (job->type == ADJ_F64)
    launch_finish<double>(gpu, job);
  else
    launch_finish<float>(gpu, job);
  ADJI_LAUNCHED(gpu, "finish");
  return ADJ_OK;
}

adj_status adji_brute_merge_lists(adji_gpu *gpu, const adji_brute_merge &job) {
  if (!job.rows) return ADJ_OK;
  if (job.type == ADJ_F64)
    launch_merge<double>(gpu, job);
  else
    launch_merge<float>(gpu, job);
  ADJI_LAUNCHED(gpu, "merge");
  return ADJ_OK;
}

adj_status adji_brute_running_get(adji_gpu *gpu, adji_brute_running *s, const adji_brute_lists *best, bool several) {
  for (int i = best ? 1 : 0; i < (several ? 3 : 1); i++) {
    adj_status status = adji_brute_lists_get(gpu, s->type, adji_mul(s->rows, s->k), &s->memory[i]);
    if (status) return status;
  }
  s->best = best ? *best : adji_brute_lists_in(s->memory[0]);
  s->more = adji_brute_lists_in(s->memory[1]);
  s->both = adji_brute_lists_in(s->memory[2]);
  return ADJ_OK;
}

void adji_brute_running_free(adji_gpu *gpu, adji_brute_running *s) {
  for (adji_brute_list_memory &memory : s->memory)
    adji_brute_lists_free(gpu, &memory);
}

adj_status adji_brute_running_add(adji_gpu *gpu, adji_brute_running *s) {
  adj_status status = ADJ_OK;
  if (s->started) {
    status = adji_brute_merge_lists(gpu, adji_brute_merge{s->type, s->rows, s->k, s->best, s->more, s->both});
    adji_brute_lists spare = s->best;
    s->best = s->both;
    s->both = spare;
  }
  s->started = true;
  return status;
}

adj_status adji_brute_running_add_columns(adji_gpu *gpu, adji_brute_running *s, uint64_t first) {
  adji_brute_finish f = {};
  f.type = s->type;
  f.rows = s->rows;
  f.k = s->k;
  f.first = static_cast<uint32_t>(first);
  f.from = f.to = adji_brute_running_next(s);
  adj_status status = adji_brute_finish_lists(gpu, &f);
  return status ? status : adji_brute_running_add(gpu, s);
}

adj_status adji_brute_select(const adji_brute_work *w, uint64_t columns, const adji_brute_lists &to) {
  adji_gpu_select s = {};
  s.type = w->job->type;
  s.values = w->matrix.at;
  s.rows = w->tile.rows;
  s.columns = columns;
  s.row_stride = w->tile.stride;
  s.k = w->k;
  s.sorted = true;
  s.columns_out = to.ids;
  s.values_out = to.sums;
  s.algorithm = w->choice->select;
  return adji_gpu_select_rows(w->gpu, &s);
}
