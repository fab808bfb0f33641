/* SPDX-License-Identifier: MIT
 *
 * The kernel of range joins through tensor cores, for many dimensions.
 *
 * Computes: for each query x the candidates y with d(x, y) = x^y^ - u(x) - v(y) >= 0, where tensor cores do the
 * products and sums (gpu/shared/halves.h proves that no other candidate belongs). For these it computes the canonical
 * sum s; y belongs if s <= limit.
 *
 * A block owns WARPS * MT * 16 consecutive queries in the order of the index, a warp MT * 16 of them: their
 * copies, in registers (or, beyond 128 dimensions, in shared memory), their counts and their rows. Candidates come in
 * tiles of 128. Steps:
 *
 *   1. boxes     each thread compares the bounding box of one tile with those of the warps' queries, in the dimensions
 *                of the grid. Tiles that some warp needs go to a list.
 *   2. stage     all threads copy candidates of the list into shared memory, DEPTH - 1 stages ahead of their use
 *                (cp.async). A row is 16 bytes longer than a copy, so that eight rows are in different banks.
 *   3. product   each warp multiplies its queries with NB * 8 candidates at a time (mma.sync m16n8k16). Accumulators
 *                start from -u - v, so the sign of a result tells whether its pair passes.
 *   4. check     the signs of all results are combined; where one is not set, pairs go to the warp's list in shared
 *                memory.
 *   5. refine    when enough pairs wait, each lane computes the canonical sum of one, counts it and writes its id to
 *                the row, whose place and length are known, or to a chunk of 32 entries that stores its row. All
 *                warps of a block do so at the same time: at the next barrier they would wait for each other anyway.
 *
 * Grid: x: blocks of queries; y: parts of the candidates, more than one only if rows are not kept.
 * Synchronisation: a barrier per stage, and barriers around the list. If rows are kept, each belongs to one warp.
 *
 * Limits, on an H200: for 1,024 pairs 6.4 to 7.4 cycles per mma.sync, and then 80 for steps 3 and 4. In all that is 137
 * cycles of a scheduler in 16 dimensions, and 306 in 64. Pairs that pass cost some 140 to 220 cycles each.
 */
#ifndef ADJI_GPU_RANGE_TENSOR_TILES_KERNEL_CUH
#define ADJI_GPU_RANGE_TENSOR_TILES_KERNEL_CUH

#include "gpu/device/tensor.cuh"
#include "gpu/range/tensor_tiles_pairs.cuh"

namespace {

enum { LIST = 512, LIST_ENOUGH = 256 };

/* STEPS: instructions along a copy; 0: a run-time number. A warp has MT * 16 queries, and takes NB * 8 candidates at a
 * time. */
template <int STEPS_, int MT_, int NB_, int STAGE_, int DEPTH_, int WARPS_, int BLOCKS_>
struct shape {
  static constexpr int STEPS = STEPS_, MT = MT_, NB = NB_;
  static constexpr int STAGE = STAGE_, DEPTH = DEPTH_;   /* candidates per stage; stages */
  static constexpr int WARPS = WARPS_, BLOCKS = BLOCKS_; /* warps of a block; blocks per multiprocessor */
  static constexpr int WARP_ROWS = MT * 16, ROWS = WARPS * WARP_ROWS, THREADS = WARPS * ADJI_WARP;
  static constexpr int CHUNK = STEPS == 1 || STEPS == 2 ? 16 : 32; /* dimensions of differences at a time */
  static constexpr int PARTS = ADJI_HALVES_TILE / STAGE;           /* stages per tile */
};

/* A block's shared memory. After it come the stages and, if STEPS is 0, the copies of the queries. */
template <class S>
struct block_shared {
  differences<S::CHUNK> differences[S::WARPS];
  warp_rows rows[S::WARPS];
  float low[S::WARPS][ADJI_MAX_AXES], high[S::WARPS][ADJI_MAX_AXES];
  uint32_t tiles[LIST];
  uint8_t wanted[LIST]; /* a bit for each warp that needs the tile */
  uint32_t listed;
};

template <class S>
__host__ __device__ constexpr uint64_t fixed_bytes() {
  return (sizeof(block_shared<S>) + 127) / 128 * 128;
}
template <class S>
__host__ __device__ __forceinline__ uint64_t stage_bytes(uint32_t pitch) {
  return S::STAGE * (pitch + 4ull);
}
template <class S>
uint64_t shared_bytes(uint32_t pitch) {
  return fixed_bytes<S>() + S::DEPTH * stage_bytes<S>(pitch) + (S::STEPS ? 0 : S::ROWS * static_cast<uint64_t>(pitch));
}

/* ---- The queries ------------------------------------------------------------------------------------------------- */

template <class S>
__device__ __forceinline__ void open_rows(const products &job, block_shared<S> *at, uint32_t warp, uint32_t lane) {
  warp_rows *rows = &at->rows[warp];
  for (uint32_t r = lane; r < S::WARP_ROWS; r += ADJI_WARP) {
    uint64_t query = blockIdx.x * static_cast<uint64_t>(S::ROWS) + warp * S::WARP_ROWS + r;
    uint32_t position = UINT32_MAX;
    if (query < job.query_count)
      position = job.queries ? job.queries[query] : static_cast<uint32_t>(job.first_query + query);
    rows->positions[r] = position;
    rows->ids[r] = position == UINT32_MAX ? 0 : job.left_ids[position];
    rows->found[r] = 0;
  }
  if (lane == 0) rows->next_chunk = rows->end_chunk = 0;
  __syncwarp();
  for (uint32_t a = 0; a < job.boxes.axes; a++) {
    float low = INFINITY, high = -INFINITY;
    for (uint32_t r = lane; r < S::WARP_ROWS; r += ADJI_WARP) {
      if (rows->positions[r] == UINT32_MAX) continue;
      float x = job.left_coords[job.boxes.dim[a] * job.left_dim_step + rows->positions[r] * job.left_point_step];
      low = fminf(low, x);
      high = fmaxf(high, x);
    }
    for (uint32_t step = ADJI_WARP / 2; step; step /= 2) {
      low = fminf(low, __shfl_xor_sync(ALL_LANES, low, step));
      high = fmaxf(high, __shfl_xor_sync(ALL_LANES, high, step));
    }
    at->low[warp][a] = low;
    at->high[warp][a] = high;
  }
}

/* The lane's part of the copies of 16 queries for one instruction, from memory. */
__device__ __forceinline__ void load_queries(const products &job, const warp_rows *rows, uint32_t first, uint32_t step,
                                             uint32_t lane, uint32_t (&a)[4]) {
#pragma unroll
  for (uint32_t i = 0; i < 4; i++) {
    uint32_t position = rows->positions[first + lane / 4 + i % 2 * 8];
    a[i] = 0;
    if (position != UINT32_MAX)
      a[i] = job.left[position * static_cast<uint64_t>(job.steps * 8) + step * 8 + lane % 4 + i / 2 * 4];
  }
}

__device__ __forceinline__ float minus_u(const products &job, const warp_rows *rows, uint32_t row) {
  uint32_t position = rows->positions[row];
  return position == UINT32_MAX ? -ADJI_HALVES_ABSENT : -job.u[position];
}

/* Copies all queries to shared memory, if registers do not hold them. */
template <class S>
__device__ __forceinline__ void stage_queries(const products &job, block_shared<S> *at, unsigned char *to) {
  uint32_t chunks = job.steps * 2;
  for (uint32_t i = threadIdx.x; i < S::ROWS * chunks; i += S::THREADS) {
    uint32_t row = i / chunks, chunk = i % chunks;
    uint32_t position = at->rows[row / S::WARP_ROWS].positions[row % S::WARP_ROWS];
    uint4 eight = {0, 0, 0, 0};
    if (position != UINT32_MAX)
      eight = reinterpret_cast<const uint4 *>(job.left)[position * static_cast<uint64_t>(chunks) + chunk];
    *reinterpret_cast<uint4 *>(to + row * job.pitch + chunk * 16) = eight;
  }
}

/* ---- 1. Boxes ---------------------------------------------------------------------------------------------------- */

/* Whether a tile may hold neighbours of a warp's queries. For x in one box and y in the other, the absolute value of
 * the canonical difference is at least that of the boxes' nearest faces, since rounding is monotone, and so is every
 * fused step of the sum. Skipped dimensions only make the sum smaller. So the sum between the boxes is at most that of
 * any pair, and no slack is needed. */
template <class S>
__device__ __forceinline__ bool boxes_meet(const products &job, const block_shared<S> *at, uint32_t warp,
                                           const float *low, const float *high) {
  float s = 0;
#pragma unroll
  for (uint32_t a = 0; a < ADJI_MAX_AXES; a++) {
    if (a >= job.boxes.axes) break;
    float t = fmaxf(adji_minus(low[a], at->high[warp][a]), adji_minus(at->low[warp][a], high[a]));
    if (t > 0) s = adji_fma(t, t, s);
  }
  return s <= job.limit;
}

/* Lists tiles from *next on until there are enough. Every thread returns their number. */
template <class S>
__device__ __forceinline__ uint32_t list_tiles(const products &job, block_shared<S> *at, uint32_t *next, uint32_t end) {
  __syncthreads(); /* the previous list is no longer used */
  if (threadIdx.x == 0) at->listed = 0;
  __syncthreads();
  for (;;) {
    uint32_t tile = *next + threadIdx.x;
    uint32_t wanted = 0;
    if (tile < end) {
      float low[ADJI_MAX_AXES], high[ADJI_MAX_AXES];
#pragma unroll
      for (uint32_t a = 0; a < ADJI_MAX_AXES; a++) {
        if (a >= job.boxes.axes) break;
        low[a] = job.boxes.bounds[2 * a * job.tiles + tile];
        high[a] = job.boxes.bounds[(2 * a + 1) * job.tiles + tile];
      }
#pragma unroll 1
      for (uint32_t warp = 0; warp < S::WARPS; warp++)
        wanted |= static_cast<uint32_t>(boxes_meet(job, at, warp, low, high)) << warp;
    }
    uint32_t some = __ballot_sync(ALL_LANES, wanted != 0), lane = threadIdx.x % ADJI_WARP, first = 0;
    if (lane == 0 && some) first = atomicAdd(&at->listed, __popc(some));
    first = __shfl_sync(ALL_LANES, first, 0);
    if (wanted) {
      uint32_t slot = first + __popc(some & ((1u << lane) - 1));
      at->tiles[slot] = tile;
      at->wanted[slot] = static_cast<uint8_t>(wanted);
    }
    *next += S::THREADS;
    __syncthreads();
    uint32_t listed = at->listed;
    if (listed >= LIST_ENOUGH || *next >= end) return listed;
    __syncthreads(); /* all threads have read it */
  }
}

/* ---- 2. Stage ---------------------------------------------------------------------------------------------------- */

template <class S>
__device__ __forceinline__ void load_stage(const products &job, const block_shared<S> *at, unsigned char *stages,
                                           uint32_t stage, uint32_t total) {
  if (stage < total) {
    uint64_t first =
        at->tiles[stage / S::PARTS] * static_cast<uint64_t>(ADJI_HALVES_TILE) + stage % S::PARTS * S::STAGE;
    uint32_t pitch = S::STEPS ? S::STEPS * 32 + 16 : job.pitch, chunks = S::STEPS ? S::STEPS * 2 : job.steps * 2;
    uint32_t to = shared_at(stages + stage % S::DEPTH * stage_bytes<S>(pitch));
    const uint4 *from = reinterpret_cast<const uint4 *>(job.right) + first * chunks;
    for (uint32_t i = threadIdx.x; i < S::STAGE * chunks; i += S::THREADS)
      copy_async(to + i / chunks * pitch + i % chunks * 16, from + i);
    if (threadIdx.x < S::STAGE / 4)
      copy_async(to + S::STAGE * pitch + threadIdx.x * 16, job.v + first + threadIdx.x * 4);
  }
  asm volatile("cp.async.commit_group;");
}

/* ---- 3. and 4. Product, and the check of signs ----------------------------------------------------------------- */

/* A warp's waiting pairs, and the memory it needs for them. */
template <class S>
struct waiting_pairs {
  warp_rows *rows;
  differences<S::CHUNK> *differences;
  uint32_t waiting;
};

/* The signs that all results of 16 queries have in common. */
template <int MT>
__device__ __forceinline__ void combine_signs(const float (&d)[MT][2][4], uint32_t (&signs)[MT]) {
#pragma unroll
  for (int m = 0; m < MT; m++) {
    signs[m] = 0xffffffffu;
#pragma unroll
    for (int i = 0; i < 8; i += 2)
      signs[m] &= __float_as_uint(d[m][i / 4][i % 4]) & __float_as_uint(d[m][i / 4][i % 4 + 1]);
  }
}

/* Refines waiting pairs, 32 at a time, until fewer than 32 remain; or, at the end, all of them. */
template <class S>
__device__ __forceinline__ void refine_waiting(const products &job, waiting_pairs<S> *pairs, bool end, uint32_t lane) {
#pragma unroll 1
  while (pairs->waiting >= ADJI_WARP || (end && pairs->waiting)) {
    uint32_t many = pairs->waiting < ADJI_WARP ? pairs->waiting : ADJI_WARP;
    refine_pairs(job, pairs->rows, pairs->differences, pairs->waiting, many, lane);
    pairs->waiting -= many;
  }
}

/* The lane's pairs with 2 * 8 candidates whose results are not negative: one bit per pair, 8 bits for every 16
 * queries. */
template <int MT>
__device__ __forceinline__ uint32_t find_passes(const float (&d)[MT][2][4], const uint32_t (&signs)[MT]) {
  uint32_t passes = 0;
#pragma unroll
  for (int m = 0; m < MT; m++) {
    if (!__any_sync(ALL_LANES, static_cast<int32_t>(signs[m]) >= 0)) continue;
    uint32_t eight = 0;
#pragma unroll
    for (int i = 7; i >= 0; i--)
      eight = __funnelshift_l(__float_as_uint(d[m][i / 4][i % 4]), eight, 1);
    passes |= (~eight & 0xff) << m * 8;
  }
  return passes;
}

/* Lists such pairs; the candidates begin at position first. In a round each lane adds one of its pairs; usually only
 * one lane has any. Entries are raw: refine_pairs() decodes 32 of them at once. */
template <class S>
__device__ __forceinline__ void list_passes(const products &job, waiting_pairs<S> *to, uint32_t passes, uint32_t first,
                                            uint32_t lane) {
  for (uint32_t some; (some = __ballot_sync(ALL_LANES, passes != 0));) {
    uint32_t slot = to->waiting, many = 1;
    if (some & (some - 1)) {
      slot += __popc(some & ((1u << lane) - 1));
      many = __popc(some);
    }
    if (passes) {
      to->rows->waiting[slot] = uint2{passes & (0u - passes), first + lane % 4 * 2};
      to->rows->waiting_lane[slot] = static_cast<uint8_t>(lane);
    }
    passes &= passes - 1;
    to->waiting += many;
    __syncwarp();
    if (to->waiting > MOST_WAITING - ADJI_WARP) refine_waiting(job, to, false, lane);
  }
}

/* Checks all results of a step, for NB * 8 candidates from position first on. Usually all are negative. */
template <class S>
__device__ __forceinline__ void check_signs(const products &job, waiting_pairs<S> *to,
                                            const float (&d)[S::NB / 2][S::MT][2][4], uint32_t first, uint32_t lane) {
  uint32_t signs[S::NB / 2][S::MT], all = 0xffffffffu, passes[S::NB / 2];
#pragma unroll
  for (int half = 0; half < S::NB / 2; half++) {
    combine_signs<S::MT>(d[half], signs[half]);
#pragma unroll
    for (int m = 0; m < S::MT; m++)
      all &= signs[half][m];
  }
  if (!__any_sync(ALL_LANES, static_cast<int32_t>(all) >= 0)) return;
#pragma unroll
  for (int half = 0; half < S::NB / 2; half++)
    passes[half] = find_passes<S::MT>(d[half], signs[half]);
#pragma unroll 1
  for (int half = 0; half < S::NB / 2; half++) { /* a loop, so that there is one copy of the code */
    uint32_t mine = passes[0];
#pragma unroll
    for (int i = 1; i < S::NB / 2; i++)
      mine = half == i ? passes[i] : mine;
    list_passes(job, to, mine, first + half * 16, lane);
  }
}

/* The queries of a warp: the copies in registers, or their place in shared memory; and -u of rows l / 4 and l / 4 + 8
 * for lane l. */
template <class S>
struct warp_queries {
  uint32_t a[S::STEPS ? S::STEPS : 1][S::MT][4];
  uint32_t copies;
  float minus_u[S::MT][2];
};

/* The input of a step for NB * 8 candidates: their copies, or only the part for the current instruction if their number
 * is a run-time one; and their v, two per lane. */
template <class S>
struct candidates {
  uint32_t b[S::STEPS ? S::STEPS : 1][S::NB / 2][4];
  float2 v[S::NB];
};

template <class S>
__device__ __forceinline__ void load_candidates(uint32_t from, uint32_t v_from, uint32_t pitch, candidates<S> *to) {
#pragma unroll
  for (int b = 0; b < S::NB; b++)
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(to->v[b].x), "=f"(to->v[b].y) : "r"(v_from + b * 32));
#pragma unroll
  for (int k = 0; k < S::STEPS; k++)
#pragma unroll
    for (int half = 0; half < S::NB / 2; half++)
      load_matrices(from + half * 16 * pitch + k * 32, to->b[k][half]);
}

/* One instruction's part of the products of all queries and candidates of a step. */
template <class S>
__device__ __forceinline__ void add_products(const uint32_t (&a)[S::MT][4], const uint32_t (&b)[S::NB / 2][4],
                                             float (&d)[S::NB / 2][S::MT][2][4]) {
#pragma unroll
  for (int half = 0; half < S::NB / 2; half++)
#pragma unroll
    for (int i = 0; i < 2; i++)
#pragma unroll
      for (int m = 0; m < S::MT; m++)
        multiply(d[half][m][i], a[m], b[half][2 * i], b[half][2 * i + 1]);
}

/* Compares all candidates of a stage, which begin at position first. */
template <class S>
__device__ __forceinline__ void compare_stage(const products &job, const warp_queries<S> &mine, waiting_pairs<S> *to,
                                              const unsigned char *stage, uint32_t first, uint32_t lane) {
  const uint32_t pitch = S::STEPS ? S::STEPS * 32 + 16 : job.pitch;
  /* What lane l loads for 16 candidates and one instruction: row l % 8, of the second eight rows if l >= 16; the second
   * half of the row if l / 8 is odd. */
  uint32_t from = shared_at(stage) + (lane % 8 + lane / 16 * 8) * pitch + lane / 8 % 2 * 16;
  uint32_t v_from = shared_at(stage) + S::STAGE * pitch + lane % 4 * 8;
  candidates<S> c;
#pragma unroll 1
  for (uint32_t n = 0; n < S::STAGE; n += S::NB * 8) {
    load_candidates(from, v_from, pitch, &c);
    float d[S::NB / 2][S::MT][2][4];
#pragma unroll
    for (int b = 0; b < S::NB; b++)
#pragma unroll
      for (int m = 0; m < S::MT; m++)
#pragma unroll
        for (int i = 0; i < 4; i++)
          d[b / 2][m][b % 2][i] = adji_minus(mine.minus_u[m][i / 2], i % 2 ? c.v[b].y : c.v[b].x);
#pragma unroll
    for (int k = 0; k < S::STEPS; k++)
      add_products<S>(mine.a[k], c.b[k], d);
#pragma unroll 2
    for (uint32_t k = 0; k < job.steps && !S::STEPS; k++) {
      uint32_t a[S::MT][4];
#pragma unroll
      for (int m = 0; m < S::MT; m++)
        load_matrices(mine.copies + m * 16 * pitch + k * 32, a[m]);
#pragma unroll
      for (int half = 0; half < S::NB / 2; half++)
        load_matrices(from + half * 16 * pitch + k * 32, c.b[0][half]);
      add_products<S>(a, c.b[0], d);
    }
    from += S::NB * 8 * pitch;
    v_from += S::NB * 32;
    check_signs(job, to, d, first + n, lane);
  }
}

template <class S>
__device__ __forceinline__ void open_queries(const products &job, block_shared<S> *at, unsigned char *copies,
                                             uint32_t warp, uint32_t lane, warp_queries<S> *mine) {
  const warp_rows *rows = &at->rows[warp];
#pragma unroll
  for (int m = 0; m < S::MT; m++) {
    for (int i = 0; i < 2; i++)
      mine->minus_u[m][i] = minus_u(job, rows, m * 16 + lane / 4 + i * 8);
#pragma unroll
    for (int k = 0; k < S::STEPS; k++)
      load_queries(job, rows, m * 16, k, lane, mine->a[k][m]);
  }
  if (S::STEPS) return;
  stage_queries(job, at, copies);
  /* What lane l loads for 16 queries and one instruction: row l % 16, the second half if l >= 16. */
  mine->copies = shared_at(copies) + (warp * S::WARP_ROWS + lane % 16) * job.pitch + lane / 16 * 16;
}

/* ---- The kernel -------------------------------------------------------------------------------------------------- */

template <class S>
__global__ void __launch_bounds__(S::THREADS, S::BLOCKS) join_products(const products job) {
  extern __shared__ __align__(128) unsigned char memory[];
  block_shared<S> *at = reinterpret_cast<block_shared<S> *>(memory);
  unsigned char *stages = memory + fixed_bytes<S>();
  const uint32_t pitch = S::STEPS ? S::STEPS * 32 + 16 : job.pitch;
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  open_rows(job, at, warp, lane);
  __syncthreads();
  warp_queries<S> mine;
  open_queries(job, at, stages + S::DEPTH * stage_bytes<S>(pitch), warp, lane, &mine);
  uint32_t actives = 0;
  for (uint32_t r = lane; r < S::WARP_ROWS; r += ADJI_WARP)
    actives += at->rows[warp].positions[r] != UINT32_MAX;
  actives = __reduce_add_sync(ALL_LANES, actives);
  waiting_pairs<S> found = {&at->rows[warp], &at->differences[warp], 0};
  uint32_t candidates = 0; /* each is compared at most once */
  uint32_t tiles = static_cast<uint32_t>(job.tiles), each = (tiles + gridDim.y - 1) / gridDim.y;
  uint32_t next = each * blockIdx.y, end = next + each < tiles ? next + each : tiles;
  while (next < end) {
    uint32_t total = list_tiles(job, at, &next, end) * S::PARTS;
    for (uint32_t stage = 0; stage + 1 < S::DEPTH; stage++)
      load_stage(job, at, stages, stage, total);
    for (uint32_t stage = 0; stage < total; stage++) {
      asm volatile("cp.async.wait_group %0;" ::"n"(S::DEPTH - 2));
      /* The stage has arrived, and the one before it is no longer read. */
      bool enough = __syncthreads_or(found.waiting >= ENOUGH_WAITING);
      load_stage(job, at, stages, stage + S::DEPTH - 1, total);
      if (enough) refine_waiting(job, &found, false, lane);
      if (!(at->wanted[stage / S::PARTS] >> warp & 1)) continue;
      uint64_t first =
          at->tiles[stage / S::PARTS] * static_cast<uint64_t>(ADJI_HALVES_TILE) + stage % S::PARTS * S::STAGE;
      compare_stage(job, mine, &found, stages + stage % S::DEPTH * stage_bytes<S>(pitch), static_cast<uint32_t>(first),
                    lane);
      uint64_t there = job.right_count > first ? job.right_count - first : 0;
      candidates += there < S::STAGE ? static_cast<uint32_t>(there) : S::STAGE;
    }
    asm volatile("cp.async.wait_group 0;");
  }
  refine_waiting(job, &found, true, lane);
  uint64_t compared = lane == 0 ? candidates : 0;
  store_counts(job, &at->rows[warp], S::WARP_ROWS, compared * actives, compared * S::WARP_ROWS, lane);
}

}  // namespace

#endif
