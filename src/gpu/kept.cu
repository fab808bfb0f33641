/* SPDX-License-Identifier: MIT
 *
 * What a count keeps, and how it gets to its rows.
 */
#include "gpu/kept.cuh"

/* ---- Room ------------------------------------------------------------------------------------------- */

adj_status adji_kept_make(adji_gpu *gpu, double room, adj_type type, bool sums, adji_gpu_kept *out) {
  uint64_t size = sums ? adji_type_size(type) : 0;
  if (room * (ADJI_WARP * static_cast<double>(4 + size) + 8) > static_cast<double>(adji_gpu_left(gpu) / 2))
    return ADJ_OK;
  out->type = type;
  out->room = static_cast<uint64_t>(room);
  const char *what = "pieces of rows";
  adj_status status = adji_block_get(gpu, gpu->compute, out->room * sizeof(adji_gpu_piece), what, &out->pieces);
  if (!status) status = adji_block_get(gpu, gpu->compute, out->room * ADJI_WARP * 4, what, &out->ids);
  if (!status && size) status = adji_block_get(gpu, gpu->compute, out->room * ADJI_WARP * size, what, &out->sums);
  if (!status) {
    ADJI_CUDA(gpu, cudaMemsetAsync(out->pieces.at, 0xff, out->pieces.bytes, gpu->compute)); /* of no row */
    out->there = true;
    return ADJ_OK;
  }
  adji_kept_free(gpu, out);
  return status == ADJ_E_DEVICE_MEMORY ? ADJ_OK : status; /* it can do without */
}

void adji_kept_free(adji_gpu *gpu, adji_gpu_kept *kept) {
  kept->there = false;
  adji_block_free(gpu, gpu->compute, &kept->pieces);
  adji_block_free(gpu, gpu->compute, &kept->ids);
  adji_block_free(gpu, gpu->compute, &kept->sums);
}

/* ---- Placing ---------------------------------------------------------------------------------------- */

/* Copies the piece of lane l = lane / WIDTH, and that of every 32 / WIDTH lanes behind it, WIDTH lanes each, EACH
 * entries a lane. What is copied is loaded before any of it is stored: memory is what this waits for. */
template <int WIDTH, int EACH, class V>
static __device__ __forceinline__ void copy_pieces(const V *__restrict__ from, uint64_t place, uint32_t many, V *to,
                                                   uint32_t lane) {
  constexpr int PIECES = 8;
#pragma unroll 1
  for (uint32_t begin = lane / WIDTH; begin < ADJI_WARP; begin += PIECES * (ADJI_WARP / WIDTH)) {
    V v[PIECES][EACH];
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
      uint32_t l = begin + i * (ADJI_WARP / WIDTH), end = __shfl_sync(0xffffffffu, many, l);
#pragma unroll
      for (int e = 0; e < EACH; e++)
        if (lane % WIDTH + e * WIDTH < end) v[i][e] = __ldg(from + l * ADJI_WARP + lane % WIDTH + e * WIDTH);
    }
#pragma unroll
    for (int i = 0; i < PIECES; i++) {
      uint32_t l = begin + i * (ADJI_WARP / WIDTH), end = __shfl_sync(0xffffffffu, many, l);
      uint64_t at = __shfl_sync(0xffffffffu, place, l);
#pragma unroll
      for (int e = 0; e < EACH; e++)
        if (lane % WIDTH + e * WIDTH < end) to[at + lane % WIDTH + e * WIDTH] = v[i][e];
    }
  }
}

/* A warp has 32 pieces. Every lane finds out where one of them goes, if its row is in the window; then they are copied,
 * four at a time with eight lanes each where all are short, else one at a time. */
template <class V>
static __global__ void place_pieces(const adji_gpu_piece *pieces, uint64_t count, const V *from,
                                    const uint64_t *offsets, adji_gpu_window window, V *to) {
  uint64_t mine = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x, place = 0;
  uint32_t lane = threadIdx.x % ADJI_WARP, many = 0;
  if (mine < count) {
    adji_gpu_piece piece = pieces[mine];
    if (piece.row >= window.first_row && piece.row < window.end_row) {
      uint64_t begin = offsets[piece.row] + piece.first, end = offsets[piece.row + UINT64_C(1)];
      place = begin - window.base;
      many = end - begin < ADJI_WARP ? static_cast<uint32_t>(end - begin) : ADJI_WARP;
    }
  }
  from += (mine - lane) * ADJI_WARP;
  if (__any_sync(0xffffffffu, many > 16))
    copy_pieces<ADJI_WARP, 1>(from, place, many, to, lane);
  else
    copy_pieces<8, 2>(from, place, many, to, lane);
}

template <class V>
static adj_status put(adji_gpu *gpu, const adji_gpu_kept *kept, const V *from, const adji_kept_place *place, V *to) {
  place_pieces<<<adji_blocks_for(kept->count, 256), 256, 0, gpu->compute>>>(
      adji_at<adji_gpu_piece>(kept->pieces), kept->count, from, place->offsets, place->window, to);
  ADJI_LAUNCHED(gpu, "place_pieces");
  return ADJ_OK;
}

/* Pieces that a warp asked for and left are of no row. */
adj_status adji_kept_put(adji_gpu *gpu, const adji_gpu_kept *kept, const adji_kept_place *place) {
  if (!kept->count) return ADJ_OK;
  adj_status status = put(gpu, kept, adji_at<const uint32_t>(kept->ids), place, place->ids);
  if (status || !place->sums) return status;
  if (kept->type == ADJ_F64)
    return put(gpu, kept, adji_at<const double>(kept->sums), place, static_cast<double *>(place->sums));
  return put(gpu, kept, adji_at<const float>(kept->sums), place, static_cast<float *>(place->sums));
}
