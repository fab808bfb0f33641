/* SPDX-License-Identifier: MIT
 *
 * The scan of brute force for rows of more than 64 halves: slice by slice. See prefilter_tensor_scan.cuh.
 *
 * A block has eight warps, two rows of four: 128 queries and 256 candidates at a time; a warp owns 64 x 64 of their
 * pairs. Slices of 64 halves of the candidates are staged; those of the queries too, unless the queries stay in shared
 * memory. The operands of the next 16 dimensions are loaded while the current ones are multiplied, also across slices.
 * Limits, on an H200: a scheduler takes 6.4 cycles for an mma.sync; shared memory is busy for 85 % of that time.
 */
#include "gpu/brute/prefilter_tensor_scan.cuh"

namespace {

enum {
  MT = 4,
  TALL = 2,
  WIDE = 4,
  THREADS = TALL * WIDE * ADJI_WARP,
  POINTS = WIDE * 64,
  SLICE = 64,
  STEPS = SLICE / 16,
  CHUNKS = SLICE / 8,
  PITCH = SLICE * 2 + 16,
  MOST_HELD = 256
};

/* HOLD: the queries stay in shared memory. */
template <bool HOLD>
struct shape {
  static constexpr int STAGE_ROWS = POINTS + (HOLD ? 0 : ADJI_TENSOR_ROWS), STAGE = STAGE_ROWS * PITCH + POINTS * 4;
};

/* What a thread copies: 16 bytes of every 32nd row, slice after slice, and then the same for the next candidates. */
struct loader {
  const uint4 *left, *right;
  const float *starts;
  uint32_t to;                  /* address for the first stage */
  uint32_t row_chunks, slices;  /* 16-byte chunks, and slices, of a whole row */
  uint32_t stage, slice, ahead; /* the next stage and slice; the number of slices still to copy */
};

template <bool HOLD>
__device__ __forceinline__ void load_stage(loader *l) {
  constexpr uint32_t ROWS = THREADS / CHUNKS;
  if (l->ahead) {
    uint32_t to = l->to + l->stage * shape<HOLD>::STAGE;
#pragma unroll
    for (uint32_t i = 0; i < POINTS / ROWS; i++)
      copy_async(to + i * ROWS * PITCH, l->right + i * ROWS * l->row_chunks);
    if (!HOLD) {
#pragma unroll
      for (uint32_t i = 0; i < ADJI_TENSOR_ROWS / ROWS; i++)
        copy_async(to + (POINTS + i * ROWS) * PITCH, l->left + i * ROWS * l->row_chunks);
    }
    if (l->slice == 0 && threadIdx.x < POINTS / 4)
      copy_async(to - (threadIdx.x / CHUNKS * PITCH + threadIdx.x % CHUNKS * 16) + shape<HOLD>::STAGE_ROWS * PITCH +
                     threadIdx.x * 16,
                 l->starts);
    l->ahead--;
    l->stage = l->stage + 1 == DEPTH ? 0 : l->stage + 1;
    l->right += CHUNKS;
    l->left += CHUNKS;
    if (++l->slice == l->slices) {
      l->slice = 0;
      l->left -= l->row_chunks;
      l->right += static_cast<uint64_t>(POINTS - 1) * l->row_chunks;
      l->starts += POINTS;
    }
  }
  asm volatile("cp.async.commit_group;");
}

__device__ __forceinline__ loader open_loader(const adji_tensor_scan_job &job, uint32_t stages, uint64_t point,
                                              uint32_t tiles) {
  uint32_t row = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
  loader l = {};
  l.row_chunks = job.rules.width / 8;
  l.slices = job.rules.width / SLICE;
  l.left = job.left + (blockIdx.x * static_cast<uint64_t>(ADJI_TENSOR_ROWS) + row) * l.row_chunks + chunk;
  l.right = job.right + (point + row) * l.row_chunks + chunk;
  l.starts = job.starts + point + threadIdx.x * 4;
  l.to = stages + row * PITCH + chunk * 16;
  l.ahead = tiles * l.slices;
  return l;
}

/* The operands for 16 dimensions of 64 queries and 64 candidates. */
struct operands {
  uint32_t a[MT][4], b[4][4];
};

__device__ __forceinline__ void load_operands(uint32_t a, uint32_t a_pitch, uint32_t b, operands *to) {
#pragma unroll
  for (int m = 0; m < MT; m++)
    load_matrices(a + m * 16 * a_pitch, to->a[m]);
#pragma unroll
  for (int n = 0; n < 4; n++)
    load_matrices(b + n * 16 * PITCH, to->b[n]);
}

__device__ __forceinline__ void multiply_all(const operands &o, float (&d)[MT][8][4]) {
#pragma unroll
  for (int n = 0; n < 8; n++)
#pragma unroll
    for (int m = 0; m < MT; m++)
      multiply(d[m][n], o.a[m], o.b[n / 2][n % 2 * 2], o.b[n / 2][n % 2 * 2 + 1]);
}

/* The values of a tile start from -v. */
__device__ __forceinline__ void start_all(uint32_t v, float (&d)[MT][8][4]) {
#pragma unroll
  for (int n = 0; n < 8; n++) {
    float start[4];
    load_start(v + n * 32, start);
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
      for (int i = 0; i < 4; i++)
        d[m][n][i] = start[i];
  }
}

template <bool HOLD>
__global__ void __launch_bounds__(THREADS, 1) scan_wide(const __grid_constant__ adji_tensor_scan_job job) {
  __shared__ pending_pairs lists[TALL * WIDE];
  extern __shared__ __align__(128) unsigned char memory[];
  const uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP, stages = shared_at(memory);
  const uint32_t begin = blockIdx.y * job.block_stages, slices = job.rules.width / SLICE;
  const uint32_t tiles = begin + job.block_stages < job.stages ? job.block_stages : job.stages - begin;
  const uint32_t held = stages + DEPTH * shape<HOLD>::STAGE, held_pitch = HOLD ? job.rules.width * 2 + 16 : PITCH;
  uint64_t position = job.first + begin * static_cast<uint64_t>(POINTS);
  loader ahead = open_loader(job, stages, position, tiles);
  if (HOLD)
    for (uint32_t i = threadIdx.x; i < ADJI_TENSOR_ROWS * ahead.row_chunks; i += THREADS)
      copy_async(held + i / ahead.row_chunks * held_pitch + i % ahead.row_chunks * 16,
                 job.left + blockIdx.x * static_cast<uint64_t>(ADJI_TENSOR_ROWS) * ahead.row_chunks + i);
#pragma unroll
  for (int i = 0; i + 1 < DEPTH; i++)
    load_stage<HOLD>(&ahead);
  prefilter<MT> filter;
  open_prefilter(job, lists + warp, blockIdx.x * ADJI_TENSOR_ROWS, warp / WIDE * 64, lane, &filter);
  position += warp % WIDE * 64 + lane % 4 * 2;
  /* Of 16 queries the lane loads row l % 16, and the second half of the 16 dimensions if l >= 16. Of 16 candidates it
   * loads row l % 8, of the second eight if l >= 16, and the second half of the dimensions if l / 8 is odd. */
  const uint32_t a_row = (warp / WIDE * 64 + lane % 16) * held_pitch + lane / 16 * 16;
  const uint32_t b_row = (warp % WIDE * 64 + lane % 8 + lane / 16 * 8) * PITCH + lane / 8 % 2 * 16;
  const uint32_t v_at = shape<HOLD>::STAGE_ROWS * PITCH + warp % WIDE * 256 + lane % 4 * 8;
  uint32_t at = stages, a = HOLD ? held + a_row : at + POINTS * PITCH + a_row;
  asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 2));
  __syncthreads();
  operands o[2];
  float d[MT][8][4];
  load_operands(a, held_pitch, at + b_row, &o[0]);
  uint32_t stage = 0;
#pragma unroll 1
  for (uint32_t tile = 0; tile < tiles; tile++) {
    start_all(at + v_at, d);
#pragma unroll 1
    for (uint32_t slice = 1; slice <= slices; slice++) {
      load_stage<HOLD>(&ahead);
#pragma unroll
      for (int k = 0; k < STEPS; k++) {
        if (k + 1 < STEPS) {
          load_operands(a + (k + 1) * 32, held_pitch, at + b_row + (k + 1) * 32, &o[(k + 1) % 2]);
        } else {
          /* Wait until the next slice has arrived and no thread reads this one any more. */
          asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 2));
          __syncthreads();
          stage = stage + 1 == DEPTH ? 0 : stage + 1;
          at = stages + stage * shape<HOLD>::STAGE;
          a = HOLD ? held + (slice < slices ? slice : 0) * SLICE * 2 + a_row : at + POINTS * PITCH + a_row;
          load_operands(a, held_pitch, at + b_row, &o[0]);
        }
        multiply_all(o[k % 2], d);
      }
    }
    if (job.all)
      keep_all(job, filter, d, position, position);
    else
      list_passing(job, &filter, d, static_cast<uint32_t>(position), lane);
    position += POINTS;
  }
  asm volatile("cp.async.wait_group 0;");
  flush_pending(job, filter.list, filter.pending, filter.first, lane);
}

template <bool HOLD>
adj_status launch(adji_gpu *gpu, adji_tensor_scan_job job) {
  dim3 grid = choose_grid(gpu, &job, POINTS, 1);
  uint32_t bytes = DEPTH * shape<HOLD>::STAGE + (HOLD ? ADJI_TENSOR_ROWS * (job.rules.width * 2 + 16) : 0);
  ADJI_ALLOW_SHARED(gpu, scan_wide<HOLD>);
  scan_wide<HOLD><<<grid, THREADS, bytes, gpu->compute>>>(job);
  ADJI_LAUNCHED(gpu, "scan_wide");
  return ADJ_OK;
}

}  // namespace

adj_status adji_tensor_scan_wide(adji_gpu *gpu, adji_tensor_scan_job job) {
  return job.rules.width <= MOST_HELD ? launch<true>(gpu, job) : launch<false>(gpu, job);
}
