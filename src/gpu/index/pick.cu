/* SPDX-License-Identifier: MIT
 *
 * Points picked out of a set on a device: see pick.h.
 *
 *   1. count   each warp tests a tile of consecutive points, and stores the number of picked ones
 *   2. add up  where the points of each tile go
 *   3. copy    each warp tests its tile again, and copies the picked points; so points stay in order
 */
#include "gpu/index/index.cuh"
#include "gpu/shared/arrays.cuh"

extern "C" {
#include "gpu/index/pick.h"
}

enum { THREADS = 256, TILE = 256 };

/* The result of a test of a point. */
enum : uint32_t { NOT_PICKED = 0, PICKED = 1, OWN = 3 };

namespace {

/* ---- Tests ------------------------------------------------------------------------------------------ */

template <class T>
struct region_test {
  T low[ADJI_PICK_DIMS], high[ADJI_PICK_DIMS], near_low[ADJI_PICK_DIMS], near_high[ADJI_PICK_DIMS];

  __device__ uint32_t operator()(const T *x, uint64_t stride, uint32_t dim, uint64_t) const {
    bool own = true, near = true;
#pragma unroll
    for (uint32_t j = 0; j < ADJI_PICK_DIMS; j++) {
      if (j >= dim) break;
      T value = x[j * stride];
      own = own && value >= low[j] && value < high[j];
      near = near && value >= near_low[j] && value <= near_high[j];
    }
    return own ? OWN : near ? PICKED : NOT_PICKED;
  }
};

template <class T>
struct marked_test {
  double low[ADJI_PICK_DIMS], scale[ADJI_PICK_DIMS];
  const uint32_t *cells;
  const uint64_t *words, *own; /* own may be NULL */

  __device__ uint32_t operator()(const T *x, uint64_t stride, uint32_t dim, uint64_t i) const {
    uint64_t cell = 0;
#pragma unroll
    for (uint32_t j = 0; j < ADJI_PICK_DIMS; j++) {
      if (j >= dim) break;
      cell +=
          __ldg(cells + j * ADJI_MARKED_BINS + adji_marked_bin(low[j], scale[j], static_cast<double>(x[j * stride])));
    }
    if (!(words[cell / 64] >> cell % 64 & 1)) return NOT_PICKED;
    return own && own[i / 64] >> i % 64 & 1 ? OWN : PICKED;
  }
};

template <class T, class TEST>
__device__ __forceinline__ uint32_t test_point(const adji_gpu_rows &set, const TEST &test, uint64_t i) {
  if (i >= set.count) return NOT_PICKED;
  return test(static_cast<const T *>(set.data) + i * set.row_stride, set.column_stride, set.dim, i);
}

/* ---- Kernels ---------------------------------------------------------------------------------------- */

/* picked[t], own[t]: the number of points of tile t (TILE consecutive points of the set) that the test picks, and that
 * it finds to be own points. Both are also added to the spread totals `all` and `owned`. All arrays are in device
 * memory. A warp has a tile. Reads the points once; limited by bandwidth. */
template <class T, class TEST>
__global__ void count_tiles(adji_gpu_rows set, TEST test, uint32_t *picked, uint32_t *own, unsigned long long *all,
                            unsigned long long *owned) {
  uint64_t tile = (static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x) / ADJI_WARP;
  uint32_t lane = threadIdx.x % ADJI_WARP, picked_here = 0, own_here = 0;
  if (tile * TILE >= set.count) return; /* the whole warp */
#pragma unroll 4
  for (uint32_t step = 0; step < TILE; step += ADJI_WARP) {
    uint32_t found = test_point<T>(set, test, tile * TILE + step + lane);
    picked_here += found != NOT_PICKED;
    own_here += found == OWN;
  }
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
    picked_here += __shfl_xor_sync(0xffffffffu, picked_here, step);
    own_here += __shfl_xor_sync(0xffffffffu, own_here, step);
  }
  if (lane) return;
  if (picked) picked[tile] = picked_here;
  if (own) own[tile] = own_here;
  if (picked_here) atomicAdd(all + blockIdx.x % ADJI_SPREAD, static_cast<unsigned long long>(picked_here));
  if (own_here) atomicAdd(owned + blockIdx.x % ADJI_SPREAD, static_cast<unsigned long long>(own_here));
}

template <class T>
struct pick_arrays {
  T *points;
  uint32_t *ids, *places, *own_ids;
};

/* Copies the points that a test picks to `to`. picked and own: where the points of each tile go. A warp has a tile, 32
 * points at a time; votes give each point its place. Limited by bandwidth. */
template <class T, class TEST>
__global__ void copy_tiles(adji_gpu_rows set, TEST test, const uint64_t *picked, const uint64_t *own,
                           pick_arrays<T> to) {
  uint64_t tile = (static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x) / ADJI_WARP;
  if (tile * TILE >= set.count) return; /* the whole warp */
  uint32_t lane = threadIdx.x % ADJI_WARP, below = (1u << lane) - 1;
  uint64_t at = picked[tile], own_at = own[tile];
#pragma unroll 2
  for (uint32_t step = 0; step < TILE; step += ADJI_WARP) {
    uint64_t i = tile * TILE + step + lane;
    uint32_t found = test_point<T>(set, test, i);
    uint32_t all = __ballot_sync(0xffffffffu, found != NOT_PICKED), owned = __ballot_sync(0xffffffffu, found == OWN);
    if (found != NOT_PICKED) {
      uint64_t place = at + __popc(all & below), own_place = own_at + __popc(owned & below);
      const T *from = static_cast<const T *>(set.data) + i * set.row_stride;
      for (uint32_t j = 0; j < set.dim; j++)
        to.points[place * set.dim + j] = from[j * set.column_stride];
      to.ids[place] = static_cast<uint32_t>(i);
      to.places[place] = found == OWN ? static_cast<uint32_t>(own_place) : ADJ_NO_ID;
      if (found == OWN) to.own_ids[own_place] = static_cast<uint32_t>(i);
    }
    at += __popc(all);
    own_at += __popc(owned);
  }
}

/* ---- Picking ---------------------------------------------------------------------------------------- */

struct picking {
  adji_gpu *gpu;
  const adji_gpu_rows *set;
  uint64_t tiles;
  adji_block counts[2], starts[2], temporary; /* for all picked points, for own ones */
};

void clear(picking *p) {
  adji_blocks_free(p->gpu, {&p->counts[0], &p->counts[1], &p->starts[0], &p->starts[1], &p->temporary});
}

uint32_t blocks_of(const picking *p) {
  return adji_blocks_for(p->tiles, THREADS / ADJI_WARP);
}

/* own, all: the numbers of points; NULL: the call does not wait for them. */
template <class T, class TEST>
adj_status count(picking *p, const TEST &test, uint64_t *own, uint64_t *all) {
  adji_gpu *gpu = p->gpu;
  if (own) *own = *all = 0;
  if (!p->tiles) return ADJ_OK;
  adj_status status = adji_answer_clear(gpu, gpu->compute, ADJI_ANSWER_SPREAD, 2 * ADJI_SPREAD);
  if (status) return status;
  count_tiles<T><<<blocks_of(p), THREADS, 0, gpu->compute>>>(
      *p->set, test, adji_at<uint32_t>(p->counts[0]), adji_at<uint32_t>(p->counts[1]),
      adji_answer_at(gpu, ADJI_ANSWER_SPREAD), adji_answer_at(gpu, ADJI_ANSWER_SPREAD + ADJI_SPREAD));
  ADJI_LAUNCHED(gpu, "count_tiles");
  if (!own) return ADJ_OK;
  status = adji_answers_fetch(gpu, gpu->compute);
  for (int i = 0; i < ADJI_SPREAD && !status; i++) {
    *all += gpu->answers[ADJI_ANSWER_SPREAD + i];
    *own += gpu->answers[ADJI_ANSWER_SPREAD + ADJI_SPREAD + i];
  }
  return status;
}

template <class T>
adj_status get_memory(adji_gpu *gpu, const adji_gpu_rows *set, uint64_t own, uint64_t all, adji_gpu_pick *out) {
  uint64_t sizes[] = {adji_mul(all, set->dim * sizeof(T)), 2 * all * sizeof(uint32_t), (own + 1) * sizeof(uint32_t)};
  adji_block blocks[3] = {};
  adj_status status = ADJ_OK;
  for (int i = 0; i < 3 && !status; i++)
    status = adji_block_get(gpu, gpu->compute, sizes[i], "points of a region", &blocks[i]);
  if (status) {
    adji_blocks_free(gpu, {&blocks[0], &blocks[1], &blocks[2]});
    return status;
  }
  uint32_t *ids = adji_at<uint32_t>(blocks[1]);
  *out = adji_gpu_pick{gpu,
                       {blocks[0].at, set->type, set->dim, all, set->dim, 1},
                       own,
                       ids,
                       ids + all,
                       adji_at<uint32_t>(blocks[2]),
                       {blocks[0].bytes, blocks[1].bytes, blocks[2].bytes}};
  return ADJ_OK;
}

template <class T, class TEST>
adj_status copy(picking *p, const TEST &test, const adji_gpu_pick *out) {
  adj_status status = ADJ_OK;
  for (int i = 0; i < 2 && !status; i++)
    status =
        adji_add_up(p->gpu, &p->temporary, adji_at<uint32_t>(p->counts[i]), adji_at<uint64_t>(p->starts[i]), p->tiles);
  if (status) return status;
  pick_arrays<T> to = {static_cast<T *>(const_cast<void *>(out->rows.data)), const_cast<uint32_t *>(out->ids),
                       const_cast<uint32_t *>(out->places), const_cast<uint32_t *>(out->own_ids)};
  copy_tiles<T><<<blocks_of(p), THREADS, 0, p->gpu->compute>>>(*p->set, test, adji_at<uint64_t>(p->starts[0]),
                                                               adji_at<uint64_t>(p->starts[1]), to);
  ADJI_LAUNCHED(p->gpu, "copy_tiles");
  return ADJ_OK;
}

template <class T, class TEST>
adj_status pick_by(adji_gpu *gpu, const adji_gpu_rows *set, const TEST &test, const adji_gpu_picking *request,
                   adji_gpu_pick *out) {
  picking p = {gpu, set, (set->count + TILE - 1) / TILE, {}, {}, {}};
  adj_status status = ADJ_OK;
  uint64_t own = request->own_count, all = request->all_count;
  for (int i = 0; i < 2 && !status; i++) {
    status = adji_block_get(gpu, gpu->compute, (p.tiles + 1) * sizeof(uint32_t), "points of a region", &p.counts[i]);
    if (!status)
      status = adji_block_get(gpu, gpu->compute, (p.tiles + 1) * sizeof(uint64_t), "points of a region", &p.starts[i]);
  }
  if (!status) status = count<T>(&p, test, all ? NULL : &own, all ? NULL : &all);
  out->rows = adji_gpu_rows{NULL, set->type, set->dim, all, set->dim, 1};
  if (!status && all && all <= request->most) {
    status = get_memory<T>(gpu, set, own, all, out);
    if (!status) status = copy<T>(&p, test, out);
  }
  clear(&p);
  if (status) adji_gpu_pick_close(out);
  return status;
}

template <class T>
region_test<T> test_of(const adji_gpu_region *region) {
  region_test<T> test;
  for (int j = 0; j < ADJI_PICK_DIMS; j++) {
    test.low[j] = static_cast<T>(region->low[j]);
    test.high[j] = static_cast<T>(region->high[j]);
    test.near_low[j] = static_cast<T>(region->near_low[j]);
    test.near_high[j] = static_cast<T>(region->near_high[j]);
  }
  return test;
}

/* The tables of marked cells and points, on the device. */
struct marks {
  adji_block cells, words, own;
};

template <class T>
adj_status pick_marked(adji_gpu *gpu, const adji_gpu_rows *set, const adji_gpu_picking *request, adji_gpu_pick *out) {
  const adji_marked *m = request->marked;
  marks there = {};
  marked_test<T> test = {};
  adji_device_stats work = {};
  const char *name = "marked cells";
  adj_status status =
      adji_gpu_send_bytes(gpu, m->cells, m->dim * ADJI_MARKED_BINS * sizeof(uint32_t), name, &there.cells, &work);
  if (!status)
    status = adji_gpu_send_bytes(gpu, m->words, ADJI_MARKED_WORDS * sizeof(uint64_t), name, &there.words, &work);
  if (!status)
    status = adji_gpu_send_bytes(gpu, request->own, (set->count / 64 + 1) * sizeof(uint64_t), name, &there.own, &work);
  for (uint32_t j = 0; j < m->dim; j++) {
    test.low[j] = m->low[j];
    test.scale[j] = m->scale[j];
  }
  test.cells = adji_at<uint32_t>(there.cells);
  test.words = adji_at<uint64_t>(there.words);
  test.own = adji_at<uint64_t>(there.own);
  if (!status) status = pick_by<T>(gpu, set, test, request, out);
  adji_blocks_free(gpu, {&there.cells, &there.words, &there.own});
  return status;
}

template <class T>
adj_status pick(adji_gpu *gpu, const adji_gpu_rows *set, const adji_gpu_picking *request, adji_gpu_pick *out) {
  if (!request->region) return pick_marked<T>(gpu, set, request, out);
  return pick_by<T>(gpu, set, test_of<T>(request->region), request, out);
}

}  // namespace

adj_status adji_gpu_pick_count(adji_gpu *gpu, const adji_gpu_rows *set, const adji_gpu_region *region, uint64_t *own,
                               uint64_t *all) {
  picking p = {gpu, set, (set->count + TILE - 1) / TILE, {}, {}, {}};
  return set->type == ADJ_F64 ? count<double>(&p, test_of<double>(region), own, all)
                              : count<float>(&p, test_of<float>(region), own, all);
}

adj_status adji_gpu_pick_open(adji_gpu *gpu, const adji_gpu_rows *set, const adji_gpu_picking *request,
                              adji_gpu_pick *out) {
  *out = adji_gpu_pick{};
  return set->type == ADJ_F64 ? pick<double>(gpu, set, request, out) : pick<float>(gpu, set, request, out);
}

/* Frees one block of a pick. */
static void drop(adji_gpu_pick *pick, int number, const void *at) {
  adji_block block = {const_cast<void *>(at), pick->bytes[number]};
  if (at) adji_block_free(pick->gpu, pick->gpu->compute, &block);
}

void adji_gpu_pick_drop_points(adji_gpu_pick *pick) {
  drop(pick, 0, pick->rows.data);
  pick->rows.data = NULL;
}

void adji_gpu_pick_drop_ids(adji_gpu_pick *pick) {
  drop(pick, 1, pick->ids);
  pick->ids = pick->places = NULL;
}

void adji_gpu_pick_close(adji_gpu_pick *pick) {
  adji_gpu_pick_drop_points(pick);
  adji_gpu_pick_drop_ids(pick);
  drop(pick, 2, pick->own_ids);
  *pick = adji_gpu_pick{};
}
