/* SPDX-License-Identifier: MIT
 *
 * Points with the same number on the curve are in no particular order. These are most of the points where a set has
 * structure at many scales: clusters that are thousands of times smaller than the box, or one axis a million times
 * longer than the others. A long run of such points gets a curve of its own, through the box of its points, and so do
 * the long runs that remain after that. Every order is valid; only the time of searches depends on it.
 *
 *   1. check   count the points in long runs of different points; if there are few, all is done
 *   2. select  the points of long runs, with their places in the order
 *   3. boxes   of the runs
 *   4. number  the points on the curve of their run; the run's number comes before that number
 *   5. sort    and put the points into the places of their run; then step 1 again, for these points only
 *
 * A round separates coordinates that differ by 2^-bits of the run's box, so points at many scales take several rounds.
 *
 * Memory: 12 bytes per point; 32 bytes per point of a long run, and the same again between rounds. Limited by memory:
 * the check takes 0.03 ms for 10 million points on an H200, a round of all of them about 3 ms.
 */
#include <cmath>
#include <utility>

#include "gpu/index/index_private.cuh"
#include "gpu/shared/arrays.cuh"

namespace {

/* RUN: longer runs are called long; a power of two. One point in ENOUGH may be in a long run without a further round.
 * Fewer points than FEW are searched fast in any order. */
enum { THREADS = 256, RUN = 64, RUN_BITS = 6, ENOUGH = 128, MOST_ROUNDS = 16, FEW = 1024 };
static_assert(RUN == 1 << RUN_BITS, "so that a run begins in a block of its own");

/* Points along the curve: their numbers and rows. places: their positions in the index; NULL: point i is at position
 * i. */
template <class KEY>
struct items {
  const KEY *numbers;
  const uint32_t *ids, *places;
  uint64_t count;
};

/* The memory of a round's points. */
struct round_memory {
  adji_block numbers[2], ids[2], places, runs, boxes;
};

template <class T>
__device__ __forceinline__ bool differ(const adji_gpu_rows &rows, uint32_t a, uint32_t b) {
  bool equal = true;
  for (uint32_t j = 0; j < rows.dim; j++)
    equal = equal && static_cast<const T *>(rows.data)[a * rows.row_stride + j * rows.column_stride] ==
                         static_cast<const T *>(rows.data)[b * rows.row_stride + j * rows.column_stride];
  return !equal;
}

/* Step 1. Counts the points that have the same number as the point RUN positions later, but are not equal to it. */
template <class T, class KEY>
__global__ void count_long(items<KEY> all, adji_gpu_rows rows, unsigned long long *found) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  bool is_long =
      i + RUN < all.count && all.numbers[i] == all.numbers[i + RUN] && differ<T>(rows, all.ids[i], all.ids[i + RUN]);
  int block_count = __syncthreads_count(is_long);
  if (threadIdx.x == 0 && block_count) atomicAdd(found, static_cast<unsigned long long>(block_count));
}

/* Step 2. The running maximum of these entries is where the run of each point begins. */
template <class KEY>
__global__ void mark_begins(items<KEY> all, uint32_t *begins) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < all.count) begins[i] = i && all.numbers[i] == all.numbers[i - 1] ? 0 : static_cast<uint32_t>(i);
}

/* Replaces the begin of each point's run by 1 if the run is long, and by 0 otherwise. */
template <class KEY>
__global__ void mark_long(items<KEY> all, uint32_t *begins) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= all.count) return;
  uint64_t last = static_cast<uint64_t>(begins[i]) + RUN;
  begins[i] = last < all.count && all.numbers[last] == all.numbers[i];
}

/* Copies the selected points, and marks where each run begins among them. */
template <class KEY>
__global__ void take_long(items<KEY> all, const uint32_t *selected, uint64_t count, uint32_t *ids, uint32_t *places,
                          uint32_t *runs) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= count) return;
  uint32_t from = selected[i];
  ids[i] = all.ids[from];
  places[i] = all.places ? all.places[from] : from;
  runs[i] = i && all.numbers[from] == all.numbers[selected[i - 1]] ? 0 : static_cast<uint32_t>(i);
}

/* Runs are longer than RUN, so no two of them begin in the same RUN points. */
__device__ __forceinline__ uint32_t run_of(const uint32_t *runs, uint64_t i) {
  return runs[i] >> RUN_BITS;
}

__device__ __forceinline__ void extend(uint32_t *low, uint32_t *high, uint32_t least, uint32_t most) {
  atomicMin(low, least);
  atomicMax(high, most);
}
__device__ __forceinline__ void extend(uint64_t *low, uint64_t *high, uint64_t least, uint64_t most) {
  atomicMin(reinterpret_cast<unsigned long long *>(low), static_cast<unsigned long long>(least));
  atomicMax(reinterpret_cast<unsigned long long *>(high), static_cast<unsigned long long>(most));
}

/* Step 3. Boxes have integers in the order of coordinates: for each run and dimension the least and the largest. */
template <class T, class ORDER>
__global__ void clear_boxes(uint64_t values, ORDER *boxes) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < values) boxes[i] = i % 2 ? 0 : static_cast<ORDER>(-1);
}

template <class T, class ORDER>
__global__ void find_boxes(adji_gpu_rows rows, const uint32_t *ids, const uint32_t *runs, uint64_t count,
                           ORDER *boxes) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  uint32_t run = i < count ? run_of(runs, i) : UINT32_MAX;
  bool one_run = __all_sync(0xffffffffu, run == __shfl_sync(0xffffffffu, run, 0)); /* if so, one lane writes */
  if (one_run && run == UINT32_MAX) return;
  for (uint32_t j = 0; j < rows.dim; j++) {
    ORDER least = static_cast<ORDER>(-1), most = 0;
    if (i < count)
      least = most = in_order(static_cast<const T *>(rows.data)[ids[i] * rows.row_stride + j * rows.column_stride]);
    ORDER *box = boxes + (static_cast<uint64_t>(run) * rows.dim + j) * 2;
    for (uint32_t step = one_run ? ADJI_WARP / 2 : 0; step; step /= 2) {
      ORDER l = __shfl_xor_sync(0xffffffffu, least, step), m = __shfl_xor_sync(0xffffffffu, most, step);
      least = l < least ? l : least;
      most = m > most ? m : most;
    }
    if (one_run ? threadIdx.x % ADJI_WARP == 0 : i < count) extend(box, box + 1, least, most);
  }
}

/* Step 4. Uses half of each coordinate, so that differences do not overflow. All dimensions have the same scale. */
template <class T, int DIM, class ORDER>
__global__ void number_in_runs(adji_gpu_rows rows, const uint32_t *ids, const uint32_t *runs, uint64_t count,
                               uint32_t bits, const ORDER *boxes, uint64_t *numbers) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i >= count) return;
  uint32_t run = run_of(runs, i), whole[DIM];
  double offset[DIM], widest = 0, end = static_cast<double>(1u << bits);
#pragma unroll
  for (int j = 0; j < DIM; j++) {
    const ORDER *box = boxes + (static_cast<uint64_t>(run) * DIM + j) * 2;
    double low = 0.5 * static_cast<double>(from_order(box[0])), high = 0.5 * static_cast<double>(from_order(box[1]));
    double x = static_cast<const T *>(rows.data)[ids[i] * rows.row_stride + j * rows.column_stride];
    offset[j] = 0.5 * x - low;
    widest = fmax(widest, high - low);
  }
  double scale = widest > 0 ? end / widest : 0;
#pragma unroll
  for (int j = 0; j < DIM; j++) {
    double q = offset[j] * scale;
    whole[j] = q > 0 ? q < end ? static_cast<uint32_t>(q) : (1u << bits) - 1 : 0;
  }
  numbers[i] = static_cast<uint64_t>(run) << (bits * DIM) | adji_curve_number<uint64_t>(bits, whole);
}

template <class T, int DIM, class ORDER>
void launch_number(const adji_building *b, const round_memory *m, uint64_t count, uint32_t bits, const ORDER *boxes) {
  if constexpr (DIM > 1)
    if (b->rows->dim < DIM) return launch_number<T, DIM - 1>(b, m, count, bits, boxes);
  number_in_runs<T, DIM><<<adji_blocks_for(count, THREADS), THREADS, 0, b->gpu->compute>>>(
      *b->rows, adji_at<uint32_t>(m->ids[0]), adji_at<uint32_t>(m->runs), count, bits, boxes,
      adji_at<uint64_t>(m->numbers[0]));
}

/* Step 5. */
__global__ void put_back(const uint32_t *ids, const uint32_t *places, uint64_t count, uint32_t *to) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) to[places[i]] = ids[i];
}

void free_round(adji_gpu *gpu, round_memory *m) {
  adji_blocks_free(gpu, {&m->numbers[0], &m->numbers[1], &m->ids[0], &m->ids[1], &m->places, &m->runs, &m->boxes});
}

adj_status get_round(const adji_building *b, uint64_t count, uint64_t box_bytes, round_memory *m) {
  adji_gpu *gpu = b->gpu;
  adj_status status = ADJ_OK;
  for (int i = 0; i < 2 && !status; i++) {
    status = adji_block_get(gpu, gpu->compute, count * 8, "runs of the curve", &m->numbers[i]);
    if (!status) status = adji_block_get(gpu, gpu->compute, count * 4, "runs of the curve", &m->ids[i]);
  }
  if (!status) status = adji_block_get(gpu, gpu->compute, count * 4, "runs of the curve", &m->places);
  if (!status) status = adji_block_get(gpu, gpu->compute, count * 4, "runs of the curve", &m->runs);
  if (!status) status = adji_block_get(gpu, gpu->compute, box_bytes, "runs of the curve", &m->boxes);
  return status;
}

uint32_t bits_of(uint64_t number) {
  uint32_t bits = 0;
  while (number >> bits)
    bits++;
  return bits;
}

/* Bits per dimension: enough to separate the points of one run, plus five, but no more than fit beside the run's
 * number. */
uint32_t bits_per_dim(uint32_t dim, uint64_t count) {
  uint32_t room = (64 - bits_of(count >> RUN_BITS)) / dim, wanted = (bits_of(count) + 10 + dim - 1) / dim + 5;
  uint32_t bits = room < wanted ? room : wanted;
  return bits < 31 ? bits : 31;
}

/* Whether another round is worth it. */
template <class T, class KEY>
adj_status check(const adji_building *b, const items<KEY> &all, bool *again) {
  adji_gpu *gpu = b->gpu;
  *again = false;
  if (all.count <= RUN) return ADJ_OK;
  adj_status status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_ITEMS, 1);
  if (status) return status;
  count_long<T><<<adji_blocks_for(all.count, THREADS), THREADS, 0, gpu->compute>>>(
      all, *b->rows, adji_answer_at(gpu, ADJI_ANSWER_ITEMS));
  ADJI_LAUNCHED(gpu, "count_long");
  status = adji_answers_fetch(gpu, gpu->compute);
  *again = !status && gpu->answers[ADJI_ANSWER_ITEMS] > b->rows->count / ENOUGH;
  return status;
}

/* Step 2: lists the positions of the points of long runs in `selected`. */
template <class KEY>
adj_status select_long(adji_building *b, const items<KEY> &all, adji_block *marks, adji_block *selected,
                       uint64_t *count) {
  adji_gpu *gpu = b->gpu;
  uint32_t blocks = adji_blocks_for(all.count, THREADS), *begins = adji_at<uint32_t>(*marks);
  mark_begins<<<blocks, THREADS, 0, gpu->compute>>>(all, begins);
  ADJI_LAUNCHED(gpu, "mark_begins");
  adj_status status = adji_run_maximum(gpu, &b->temporary, begins, all.count);
  if (status) return status;
  mark_long<<<blocks, THREADS, 0, gpu->compute>>>(all, begins);
  ADJI_LAUNCHED(gpu, "mark_long");
  adji_wanted_rows marked = {begins, 1, 2};
  status = adji_list_wanted(gpu, &b->temporary, NULL, all.count, marked, adji_at<uint32_t>(*selected));
  if (!status) status = adji_answers_fetch(gpu, gpu->compute);
  *count = gpu->answers[ADJI_ANSWER_ITEMS];
  return status;
}

/* Steps 3 to 5 for the points in *m. */
template <class T>
adj_status refine_runs(adji_building *b, uint64_t count, round_memory *m) {
  typedef decltype(in_order(T(0))) order;
  adji_gpu *gpu = b->gpu;
  uint32_t blocks = adji_blocks_for(count, THREADS), bits = bits_per_dim(b->rows->dim, count);
  uint32_t *runs = adji_at<uint32_t>(m->runs);
  adj_status status = adji_run_maximum(gpu, &b->temporary, runs, count);
  if (status) return status;
  uint64_t values = ((count >> RUN_BITS) + 1) * b->rows->dim * 2;
  order *boxes = adji_at<order>(m->boxes);
  clear_boxes<T><<<adji_blocks_for(values, THREADS), THREADS, 0, gpu->compute>>>(values, boxes);
  ADJI_LAUNCHED(gpu, "clear_boxes");
  find_boxes<T><<<blocks, THREADS, 0, gpu->compute>>>(*b->rows, adji_at<uint32_t>(m->ids[0]), runs, count, boxes);
  ADJI_LAUNCHED(gpu, "find_boxes");
  launch_number<T, ADJI_CURVE_DIMS>(b, m, count, bits, boxes);
  ADJI_LAUNCHED(gpu, "number_in_runs");
  adji_pairs<uint64_t> pairs = {adji_at<uint64_t>(m->numbers[0]), adji_at<uint64_t>(m->numbers[1]),
                                adji_at<uint32_t>(m->ids[0]), adji_at<uint32_t>(m->ids[1])};
  status = adji_sort_pairs(gpu, &b->temporary, &pairs, count, bits * b->rows->dim + bits_of(count >> RUN_BITS));
  if (status) return status;
  if (pairs.keys != adji_at<uint64_t>(m->numbers[0])) std::swap(m->numbers[0], m->numbers[1]);
  if (pairs.values != adji_at<uint32_t>(m->ids[0])) std::swap(m->ids[0], m->ids[1]);
  put_back<<<blocks, THREADS, 0, gpu->compute>>>(pairs.values, adji_at<uint32_t>(m->places), count, b->index->ids);
  ADJI_LAUNCHED(gpu, "put_back");
  return ADJ_OK;
}

/* One round: selects the points of long runs of `all` into *m and refines them. */
template <class T, class KEY>
adj_status refine_round(adji_building *b, const items<KEY> &all, adji_block *marks, adji_block *selected,
                        uint64_t *count, round_memory *m) {
  adji_gpu *gpu = b->gpu;
  adj_status status = select_long(b, all, marks, selected, count);
  uint64_t box_bytes = ((*count >> RUN_BITS) + 1) * b->rows->dim * 2 * sizeof(T);
  if (!status) status = get_round(b, *count, box_bytes, m);
  if (status || !*count) return status;
  take_long<<<adji_blocks_for(*count, THREADS), THREADS, 0, gpu->compute>>>(
      all, adji_at<uint32_t>(*selected), *count, adji_at<uint32_t>(m->ids[0]), adji_at<uint32_t>(m->places),
      adji_at<uint32_t>(m->runs));
  ADJI_LAUNCHED(gpu, "take_long");
  return refine_runs<T>(b, *count, m);
}

/* All rounds. The first one uses the numbers of the index. */
template <class T, class KEY>
adj_status refine_all(adji_building *b, const items<KEY> &all, adji_block *marks, adji_block *selected,
                      round_memory *now, round_memory *next) {
  uint64_t count = 0;
  adj_status status = refine_round<T>(b, all, marks, selected, &count, now);
  for (int round = 1; round < MOST_ROUNDS && !status; round++) {
    items<uint64_t> rest = {adji_at<uint64_t>(now->numbers[0]), adji_at<uint32_t>(now->ids[0]),
                            adji_at<uint32_t>(now->places), count};
    bool again;
    status = check<T>(b, rest, &again);
    if (status || !again) return status;
    status = refine_round<T>(b, rest, marks, selected, &count, next);
    free_round(b->gpu, now);
    std::swap(*now, *next);
  }
  return status;
}

template <class T, class KEY>
adj_status refine(adji_building *b) {
  adji_gpu *gpu = b->gpu;
  const adji_gpu_index *index = b->index;
  items<KEY> all = {static_cast<const KEY *>(index->numbers), index->ids, NULL, index->count};
  bool again = false;
  adj_status status = check<T>(b, all, &again);
  if (status || !again) return status;
  adji_block marks = {}, selected = {};
  round_memory now = {}, next = {};
  status = adji_block_get(gpu, gpu->compute, index->count * 4, "runs of the curve", &marks);
  if (!status) status = adji_block_get(gpu, gpu->compute, index->count * 4, "runs of the curve", &selected);
  if (!status) status = refine_all<T>(b, all, &marks, &selected, &now, &next);
  free_round(gpu, &now);
  free_round(gpu, &next);
  adji_blocks_free(gpu, {&marks, &selected});
  return status == ADJ_E_DEVICE_MEMORY ? ADJ_OK : status; /* the order so far is valid */
}

}  // namespace

adj_status adji_index_refine(adji_building *b) {
  if (b->index->count < FEW) return ADJ_OK;
  if (b->rows->type == ADJ_F64)
    return b->index->wide_numbers ? refine<double, uint64_t>(b) : refine<double, uint32_t>(b);
  return b->index->wide_numbers ? refine<float, uint64_t>(b) : refine<float, uint32_t>(b);
}
