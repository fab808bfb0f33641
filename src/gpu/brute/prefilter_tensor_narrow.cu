/* SPDX-License-Identifier: MIT
 *
 * The scan of brute force for rows of up to 64 halves: a warp keeps the copies of 32 queries in registers. See
 * prefilter_tensor_scan.cuh.
 *
 * A block has four warps, which share the candidates and own different queries. Limits, on an H200: for 1,024 pairs a
 * scheduler takes 64 cycles to compare them, and 53 cycles for the products of every 16 dimensions.
 */
#include "gpu/brute/prefilter_tensor_scan.cuh"
#include "gpu/brute/prefilter_tensor_tiles.cuh"

namespace {

enum { MT = 2, WARPS = ADJI_TENSOR_ROWS / (MT * 16), THREADS = WARPS * ADJI_WARP, RESIDENT = 4 };

/* STEPS: instructions per copy. */
template <int STEPS_>
struct shape {
  static constexpr int STEPS = STEPS_, CHUNKS = STEPS * 2, PITCH = STEPS * 32 + 16;
  static constexpr int POINTS = STEPS == 4 ? 64 : 128;
  static constexpr int STAGE = POINTS * (PITCH + 4);
};

/* Step 1: loads the candidates of one stage, from position `first` on. A thread copies 16 bytes of every (THREADS /
 * CHUNKS)-th candidate. */
template <class S>
__device__ __forceinline__ void load_stage(const adji_tensor_scan_job &job, uint32_t to, uint64_t first, bool there) {
  if (there) {
    constexpr uint32_t ROWS = THREADS / S::CHUNKS;
    uint32_t row = threadIdx.x / S::CHUNKS, chunk = threadIdx.x % S::CHUNKS;
    const uint4 *from = job.right + first * S::CHUNKS + threadIdx.x;
    uint32_t at = to + row * S::PITCH + chunk * 16;
#pragma unroll
    for (uint32_t i = 0; i < S::POINTS / ROWS; i++)
      copy_async(at + i * ROWS * S::PITCH, from + i * THREADS);
    if (threadIdx.x < S::POINTS / 4)
      copy_async(to + S::POINTS * S::PITCH + threadIdx.x * 16, job.starts + first + threadIdx.x * 4);
  }
  asm volatile("cp.async.commit_group;");
}

/* Loads the lane's part of the copies of the warp's queries: rows l / 4 and l / 4 + 8 of every 16. row: the lane's
 * first row in the batch. */
template <class S>
__device__ __forceinline__ void load_queries(const adji_tensor_scan_job &job, uint64_t row,
                                             uint32_t (&a)[S::STEPS][MT][4], uint32_t lane) {
  const uint32_t *from = reinterpret_cast<const uint32_t *>(job.left);
#pragma unroll
  for (int k = 0; k < S::STEPS; k++)
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
      for (int i = 0; i < 4; i++) {
        uint64_t query = row + m * 16 + i % 2 * 8;
        a[k][m][i] = from[query * S::STEPS * 8 + k * 8 + lane % 4 + i / 2 * 4];
      }
}

/* Step 2: computes the values with 64 candidates. b and v: where the lane's rows of these candidates and their starts
 * begin. */
template <class S>
__device__ __forceinline__ void multiply_all(const uint32_t (&a)[S::STEPS][MT][4], uint32_t b, uint32_t v,
                                             float (&d)[MT][8][4]) {
#pragma unroll
  for (int n = 0; n < 4; n++) {
    float start[2][4];
    load_start(v + n * 64, start[0]);
    load_start(v + n * 64 + 32, start[1]);
#pragma unroll
    for (int k = 0; k < S::STEPS; k++) {
      uint32_t right[4];
      load_matrices(b + n * 16 * S::PITCH + k * 32, right);
#pragma unroll
      for (int half = 0; half < 2; half++)
#pragma unroll
        for (int m = 0; m < MT; m++)
          if (k == 0)
            multiply_from(d[m][n * 2 + half], a[k][m], right[half * 2], right[half * 2 + 1], start[half]);
          else
            multiply(d[m][n * 2 + half], a[k][m], right[half * 2], right[half * 2 + 1]);
    }
  }
}

template <class S>
__global__ void __launch_bounds__(THREADS, RESIDENT) scan_narrow(const __grid_constant__ adji_tensor_scan_job job) {
  __shared__ pending_pairs lists[WARPS];
  extern __shared__ __align__(128) unsigned char memory[];
  const uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP, stages = shared_at(memory);
  const uint32_t begin = blockIdx.y * job.block_stages;
  const uint32_t end = begin + job.block_stages < job.stages ? begin + job.block_stages : job.stages;
#pragma unroll
  for (uint32_t i = 0; i + 1 < DEPTH; i++)
    load_stage<S>(job, stages + i * S::STAGE, job.first + (begin + i) * static_cast<uint64_t>(S::POINTS),
                  begin + i < end);
  prefilter<MT> filter;
  open_prefilter(job, lists + warp, blockIdx.x * ADJI_TENSOR_ROWS, warp * MT * 16, lane, &filter);
  uint32_t a[S::STEPS][MT][4];
  load_queries<S>(job, filter.first + filter.row, a, lane);
  /* The lane loads row l % 8 of 16 candidates, of the second eight if l >= 16; the second half of a row if l / 8 is
   * odd. */
  const uint32_t b_row = (lane % 8 + lane / 16 * 8) * S::PITCH + lane / 8 % 2 * 16;
  uint32_t now = 0, next = DEPTH - 1;
#pragma unroll 1
  for (uint32_t stage = begin; stage < end; stage++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 2));
    __syncthreads(); /* this stage has arrived, and no thread reads the previous one any more */
    load_stage<S>(job, stages + next * S::STAGE, job.first + (stage + DEPTH - 1) * static_cast<uint64_t>(S::POINTS),
                  stage + DEPTH - 1 < end);
    const uint32_t at = stages + now * S::STAGE;
    now = now + 1 == DEPTH ? 0 : now + 1;
    next = next + 1 == DEPTH ? 0 : next + 1;
    uint64_t position = job.first + stage * static_cast<uint64_t>(S::POINTS) + lane % 4 * 2;
#pragma unroll 1
    for (uint32_t n = 0; n < S::POINTS; n += 64) {
      float d[MT][8][4];
      multiply_all<S>(a, at + n * S::PITCH + b_row, at + S::POINTS * S::PITCH + n * 4 + lane % 4 * 8, d);
      if (job.all)
        keep_all(job, filter, d, position + n, position + n);
      else
        list_passing(job, &filter, d, static_cast<uint32_t>(position) + n, lane);
    }
  }
  asm volatile("cp.async.wait_group 0;");
  flush_pending(job, filter.list, filter.pending, filter.first, lane);
}

/* ---- In tree order --------------------------------------------------------------------------- */

/* Scans the tiles of one item, PER stages each. A warp skips tiles that are not needed by its queries. */
template <class S>
__device__ __forceinline__ void scan_item(const adji_tensor_scan_job &job, const adji_tile_item &item,
                                          const uint32_t *entries, uint32_t stages, pending_pairs *list) {
  constexpr uint32_t PER = ADJI_TENSOR_TILE / S::POINTS;
  const uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP, end = item.count * PER;
  auto first_of = [&](uint32_t stage) {
    return (entries[stage / PER] & ADJI_TILE_MASK) * static_cast<uint64_t>(ADJI_TENSOR_TILE) + stage % PER * S::POINTS;
  };
#pragma unroll
  for (uint32_t i = 0; i + 1 < DEPTH; i++)
    load_stage<S>(job, stages + i * S::STAGE, i < end ? first_of(i) : 0, i < end);
  prefilter<MT> filter;
  open_prefilter(job, list, item.block * ADJI_TENSOR_ROWS, warp * MT * 16, lane, &filter);
  uint32_t a[S::STEPS][MT][4];
  load_queries<S>(job, filter.first + filter.row, a, lane);
  const uint32_t b_row = (lane % 8 + lane / 16 * 8) * S::PITCH + lane / 8 % 2 * 16;
  uint32_t now = 0, next = DEPTH - 1;
#pragma unroll 1
  for (uint32_t stage = 0; stage < end; stage++) {
    asm volatile("cp.async.wait_group %0;" ::"n"(DEPTH - 2));
    __syncthreads(); /* this stage has arrived, and no thread reads the previous one any more */
    const uint32_t ahead = stage + DEPTH - 1;
    load_stage<S>(job, stages + next * S::STAGE, ahead < end ? first_of(ahead) : 0, ahead < end);
    const uint32_t at = stages + now * S::STAGE;
    now = now + 1 == DEPTH ? 0 : now + 1;
    next = next + 1 == DEPTH ? 0 : next + 1;
    if (!(entries[stage / PER] >> ADJI_TILE_BITS >> warp & 1)) continue;
    uint64_t position = first_of(stage) + lane % 4 * 2;
#pragma unroll 1
    for (uint32_t n = 0; n < S::POINTS; n += 64) {
      float d[MT][8][4];
      multiply_all<S>(a, at + n * S::PITCH + b_row, at + S::POINTS * S::PITCH + n * 4 + lane % 4 * 8, d);
      if (job.all)
        keep_all(job, filter, d, position + n,
                 item.first * static_cast<uint64_t>(ADJI_TENSOR_TILE) + stage * S::POINTS + n + lane % 4 * 2);
      else
        list_passing(job, &filter, d, static_cast<uint32_t>(position) + n, lane);
    }
  }
  asm volatile("cp.async.wait_group 0;");
  flush_pending(job, filter.list, filter.pending, filter.first, lane);
}

/* Blocks take items until there are none. An item is the work of scan_narrow for a block of queries and some tiles. */
template <class S>
__global__ void __launch_bounds__(THREADS, RESIDENT) scan_tiles(const __grid_constant__ adji_tensor_scan_job job) {
  __shared__ pending_pairs lists[WARPS];
  __shared__ uint32_t entries[ADJI_ITEM_TILES], taken;
  extern __shared__ __align__(128) unsigned char memory[];
  const uint32_t warp = threadIdx.x / ADJI_WARP, made = job.item_counts[0];
  uint32_t scanned = 0;
#pragma unroll 1
  for (;;) {
    __syncthreads(); /* no thread reads the previous item any more */
    if (threadIdx.x == 0) taken = atomicAdd(job.item_counts + 1, 1);
    __syncthreads();
    if (taken >= made) break;
    const adji_tile_item item = job.items[taken];
    const uint32_t *from = job.entries + item.block * static_cast<uint64_t>(job.tiles) + item.first;
    if (threadIdx.x < item.count) {
      uint32_t entry = from[threadIdx.x];
      entries[threadIdx.x] = entry;
      scanned += __popc(entry >> ADJI_TILE_BITS);
    }
    __syncthreads();
    scan_item<S>(job, item, entries, shared_at(memory), lists + warp);
  }
  if (scanned) atomicAdd(job.failed + ADJI_TENSOR_TILES, scanned);
}

template <class S>
adj_status launch_tiles(adji_gpu *gpu, const adji_tensor_scan_job &job) {
  constexpr int bytes = DEPTH * S::STAGE;
  ADJI_CUDA(gpu, cudaFuncSetAttribute(scan_tiles<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  scan_tiles<S><<<gpu->multiprocessors * RESIDENT, THREADS, bytes, gpu->compute>>>(job);
  ADJI_LAUNCHED(gpu, "scan_tiles");
  return ADJ_OK;
}

template <class S>
adj_status launch(adji_gpu *gpu, adji_tensor_scan_job job) {
  dim3 grid = choose_grid(gpu, &job, S::POINTS, RESIDENT);
  constexpr int bytes = DEPTH * S::STAGE;
  ADJI_CUDA(gpu, cudaFuncSetAttribute(scan_narrow<S>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
  scan_narrow<S><<<grid, THREADS, bytes, gpu->compute>>>(job);
  ADJI_LAUNCHED(gpu, "scan_narrow");
  return ADJ_OK;
}

}  // namespace

adj_status adji_tensor_scan_narrow(adji_gpu *gpu, adji_tensor_scan_job job) {
  return job.rules.width == 16   ? launch<shape<1>>(gpu, job)
         : job.rules.width == 32 ? launch<shape<2>>(gpu, job)
                                 : launch<shape<4>>(gpu, job);
}

adj_status adji_tensor_scan_tiles(adji_gpu *gpu, adji_tensor_scan_job job) {
  return job.rules.width == 16 ? launch_tiles<shape<1>>(gpu, job) : launch_tiles<shape<2>>(gpu, job);
}
