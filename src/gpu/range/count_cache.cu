/* SPDX-License-Identifier: MIT
 *
 * The count cache: memory, and moving entries from it to their rows.
 */
#include "gpu/range/count_cache.cuh"

/* ---- Room ------------------------------------------------------------------------------------------- */

/* Bytes of the blocks of a cache. */
typedef struct sizes {
  uint64_t items, ids, sums, cursors;
} sizes;

static sizes sizes_of(const adji_count_cache_request *request, uint64_t room) {
  uint64_t rows = request->rows, sum = request->sums ? adji_type_size(request->type) : 0;
  switch (request->form) {
    case ADJI_CACHE_TILE_HITS:
      return sizes{rows * sizeof(adji_tile_hits), room * ADJI_TILE_HIT_WORDS * 4, 0, 0};
    case ADJI_CACHE_QUERY_HITS:
      return sizes{room * sizeof(adji_query_hits), rows * 4, 0, 0};
    case ADJI_CACHE_PAIRS:
      return sizes{room * sizeof(adji_gpu_pair), 0, room * sum, rows * 4};
    default:
      return sizes{room * sizeof(adji_row_chunk), room * ADJI_WARP * 4, room * ADJI_WARP * sum, 0};
  }
}

static adj_status get_blocks(adji_gpu *gpu, const adji_count_cache_request *request, const sizes *bytes,
                             adji_count_cache *out) {
  const char *label = "count cache";
  adj_status status = adji_block_get(gpu, gpu->compute, bytes->items, label, &out->items);
  if (!status && bytes->ids) status = adji_block_get(gpu, gpu->compute, bytes->ids, label, &out->ids);
  if (!status && bytes->sums) status = adji_block_get(gpu, gpu->compute, bytes->sums, label, &out->sums);
  if (!status && bytes->cursors) status = adji_block_get(gpu, gpu->compute, bytes->cursors, label, &out->cursors);
  if (status || request->form == ADJI_CACHE_TILE_HITS || request->form == ADJI_CACHE_QUERY_HITS) return status;
  ADJI_CUDA(gpu, cudaMemsetAsync(out->items.at, 0xff, out->items.bytes, gpu->compute)); /* belongs to no row */
  return ADJ_OK;
}

adj_status adji_count_cache_make(adji_gpu *gpu, const adji_count_cache_request *request, adji_count_cache *out) {
  uint64_t most = adji_gpu_available(gpu) / 2;
  if (request->room > static_cast<double>(most)) return ADJ_OK; /* its bytes need not fit 64 bits */
  out->type = request->type;
  out->room = static_cast<uint64_t>(request->room);
  sizes bytes = sizes_of(request, out->room);
  if (bytes.items + bytes.ids + bytes.sums + bytes.cursors > most) return ADJ_OK;
  adj_status status = get_blocks(gpu, request, &bytes, out);
  if (!status)
    out->form = request->form;
  else
    adji_count_cache_free(gpu, out);
  return status == ADJ_E_DEVICE_MEMORY ? ADJ_OK : status; /* the join works without a cache */
}

void adji_count_cache_free(adji_gpu *gpu, adji_count_cache *cache) {
  cache->form = ADJI_CACHE_NONE;
  adji_blocks_free(gpu, {&cache->items, &cache->ids, &cache->sums, &cache->cursors});
}

void adji_count_cache_use(const adji_count_cache *cache, uint64_t queries, adji_tiles_job *job) {
  if (cache->form == ADJI_CACHE_TILE_HITS) {
    job->tile_hit_starts = adji_at<adji_tile_hits>(cache->items);
    job->tile_hits = adji_at<uint32_t>(cache->ids);
    job->tile_hit_room = cache->room;
  } else if (cache->form == ADJI_CACHE_QUERY_HITS) {
    job->query_hits = adji_at<adji_query_hits>(cache->items);
    job->without_hits = adji_at<uint32_t>(cache->ids);
  } else if (cache->form == ADJI_CACHE_PAIRS) {
    job->pairs = adji_at<adji_gpu_pair>(cache->items);
    job->pair_room = cache->room;
    job->sums = cache->sums.at;
  } else if (cache->form == ADJI_CACHE_ROW_CHUNKS) {
    job->row_chunks = adji_at<adji_row_chunk>(cache->items);
    job->own_chunks = queries;
    job->chunk_room = cache->room;
    job->ids = adji_at<uint32_t>(cache->ids);
    job->sums = cache->sums.at;
  }
}

/* ---- Placing ---------------------------------------------------------------------------------------- */

/* Copies the chunks of lane l = lane / WIDTH and of every (32 / WIDTH)-th lane after it. WIDTH lanes copy a chunk, EACH
 * entries per lane. All loads come before the stores, since memory latency is the limit. */
template <int WIDTH, int EACH, class V>
static __device__ __forceinline__ void copy_row_chunks(const V *__restrict__ from, uint64_t place, uint32_t many, V *to,
                                                       uint32_t lane) {
  constexpr int CHUNKS = 8;
#pragma unroll 1
  for (uint32_t begin = lane / WIDTH; begin < ADJI_WARP; begin += CHUNKS * (ADJI_WARP / WIDTH)) {
    V v[CHUNKS][EACH];
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
      uint32_t l = begin + i * (ADJI_WARP / WIDTH), end = __shfl_sync(0xffffffffu, many, l);
#pragma unroll
      for (int e = 0; e < EACH; e++)
        if (lane % WIDTH + e * WIDTH < end) v[i][e] = __ldg(from + l * ADJI_WARP + lane % WIDTH + e * WIDTH);
    }
#pragma unroll
    for (int i = 0; i < CHUNKS; i++) {
      uint32_t l = begin + i * (ADJI_WARP / WIDTH), end = __shfl_sync(0xffffffffu, many, l);
      uint64_t at = __shfl_sync(0xffffffffu, place, l);
#pragma unroll
      for (int e = 0; e < EACH; e++)
        if (lane % WIDTH + e * WIDTH < end) to[at + lane % WIDTH + e * WIDTH] = v[i][e];
    }
  }
}

/* A warp has 32 chunks. Each lane finds out where one of them goes, if its row is in the window. Then the chunks are
 * copied: four at a time with eight lanes each if all have at most 16 entries; otherwise one at a time. */
template <class V>
static __global__ void place_row_chunks(const adji_row_chunk *row_chunks, uint64_t count, const V *from,
                                        const uint64_t *offsets, adji_gpu_window window, V *to) {
  uint64_t number = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x, place = 0;
  uint32_t lane = threadIdx.x % ADJI_WARP, many = 0;
  if (number < count) {
    adji_row_chunk chunk = row_chunks[number];
    if (chunk.row >= window.first_row && chunk.row < window.end_row) {
      uint64_t begin = offsets[chunk.row] + chunk.first, end = offsets[chunk.row + UINT64_C(1)];
      place = begin - window.base;
      many = end - begin < ADJI_WARP ? static_cast<uint32_t>(end - begin) : ADJI_WARP;
    }
  }
  from += (number - lane) * ADJI_WARP;
  if (__any_sync(0xffffffffu, many > 16))
    copy_row_chunks<ADJI_WARP, 1>(from, place, many, to, lane);
  else
    copy_row_chunks<8, 2>(from, place, many, to, lane);
}

template <class V>
static adj_status put_row_chunks(adji_gpu *gpu, const adji_count_cache *cache, const V *from,
                                 const adji_count_cache_place *place, V *to) {
  place_row_chunks<<<adji_blocks_for(cache->count, 256), 256, 0, gpu->compute>>>(
      adji_at<adji_row_chunk>(cache->items), cache->count, from, place->offsets, place->window, to);
  ADJI_LAUNCHED(gpu, "place_row_chunks");
  return ADJ_OK;
}

/* Appends an entry to its row, if the row is in the window. Rows were counted pair by pair, so there is room. */
template <class T>
static __device__ __forceinline__ void place_entry(const adji_count_cache_place &place, uint32_t *cursors, uint32_t row,
                                                   uint32_t id, T s) {
  if (row < place.window.first_row || row >= place.window.end_row) return;
  uint64_t at = place.offsets[row] - place.window.base + atomicAdd(cursors + row, 1u);
  place.ids[at] = id;
  if (place.sums) static_cast<T *>(place.sums)[at] = s;
}

/* One thread per pair, which goes to the rows of both points. Pairs that a warp requested but did not use belong to no
 * row. Limited by memory: each entry costs the write of a sector. */
template <class T>
static __global__ void place_pairs(const adji_gpu_pair *pairs, uint64_t count, const T *sums,
                                   adji_count_cache_place place, uint32_t *cursors) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= count) return;
  adji_gpu_pair pair = pairs[i];
  if (pair.row == UINT32_MAX) return;
  T s = place.sums ? sums[i] : T(0);
  place_entry<T>(place, cursors, pair.row, pair.id, s);
  if (!place.one_way && pair.row != pair.id) place_entry<T>(place, cursors, pair.id, pair.row, s);
}

template <class T>
static adj_status put_pairs(adji_gpu *gpu, const adji_count_cache *cache, const adji_count_cache_place *place) {
  uint32_t *cursors = adji_at<uint32_t>(cache->cursors);
  uint64_t rows = place->window.end_row - place->window.first_row;
  ADJI_CUDA(gpu, cudaMemsetAsync(cursors + place->window.first_row, 0, rows * 4, gpu->compute));
  place_pairs<T><<<adji_blocks_for(cache->count, 256), 256, 0, gpu->compute>>>(
      adji_at<adji_gpu_pair>(cache->items), cache->count, adji_at<T>(cache->sums), *place, cursors);
  ADJI_LAUNCHED(gpu, "place_pairs");
  return ADJ_OK;
}

/* Cached chunks that a warp requested but did not use belong to no row. */
adj_status adji_count_cache_put(adji_gpu *gpu, const adji_count_cache *cache, const adji_count_cache_place *place) {
  if (!cache->count) return ADJ_OK;
  if (cache->form == ADJI_CACHE_PAIRS)
    return cache->type == ADJ_F64 ? put_pairs<double>(gpu, cache, place) : put_pairs<float>(gpu, cache, place);
  adj_status status = put_row_chunks(gpu, cache, adji_at<const uint32_t>(cache->ids), place, place->ids);
  if (status || !place->sums) return status;
  if (cache->type == ADJ_F64)
    return put_row_chunks(gpu, cache, adji_at<const double>(cache->sums), place, static_cast<double *>(place->sums));
  return put_row_chunks(gpu, cache, adji_at<const float>(cache->sums), place, static_cast<float *>(place->sums));
}
