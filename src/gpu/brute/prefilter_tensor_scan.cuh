/* SPDX-License-Identifier: MIT
 *
 * The scan of brute force through tensor cores: what its two kernels share.
 *
 * Computes w(x, y) = x^y^ - v(y) for all queries of a batch and a range of candidates; tensor cores make the products
 * and sums. Lists the pairs whose w is not below the bound of x, or keeps all pairs. All input and output is in device
 * memory.
 *
 * A block owns 128 queries and takes `points` candidates at a time. A warp owns MT * 16 of the queries and takes 64
 * candidates at a time; their values are in its registers. Steps:
 *
 *   1. stage     copies of candidates (for wide rows slices of them, and of the queries) go to shared memory
 *                DEPTH - 1 stages ahead of their use (cp.async). A row is padded by 16 bytes, so that eight rows are
 *                in different banks.
 *   2. product   mma.sync m16n8k16; the first one starts from -v.
 *   3. filter    all results are compared with the bounds of their rows, one comparison each. If one is not below, the
 *                pair becomes pending in its warp's list in shared memory,
 *   4. list      and is flushed from there to the list of its query: one atomic each, 32 at a time.
 *
 * Grid: x: blocks of queries, y: ranges of candidates. Blocks that run at the same time share candidates, which
 * therefore come from the device's cache. A full list loses pairs; its count then exceeds the capacity.
 */
#ifndef ADJI_GPU_BRUTE_PREFILTER_TENSOR_SCAN_CUH
#define ADJI_GPU_BRUTE_PREFILTER_TENSOR_SCAN_CUH

#include "gpu/brute/prefilter_tensor.cuh"
#include "gpu/device/tensor.cuh"

/* The parameters of the kernels. */
typedef struct adji_tensor_scan_job : adji_tensor_view {
  const uint4 *left, *right; /* halves */
  const float *starts;
  uint32_t queries;
  uint64_t first, end;           /* positions; first is a multiple of ADJI_TENSOR_TILE */
  bool all;                      /* list all values, not only those that are not below the bounds */
  uint32_t block_stages, stages; /* per block, and in total; each has `points` candidates */
  /* In tree order. entries: the work of blocks of queries, `tiles` entries for each. items: the items of this work.
   * item_counts: how many items there are, and how many are taken. */
  const uint32_t *entries;
  uint32_t tiles;
  const adji_tile_item *items;
  uint32_t *item_counts;
} adji_tensor_scan_job;

/* For rows of up to 64 halves, and for longer ones. */
adj_status adji_tensor_scan_narrow(adji_gpu *gpu, adji_tensor_scan_job job);
adj_status adji_tensor_scan_wide(adji_gpu *gpu, adji_tensor_scan_job job);
/* For rows of up to 32 halves in tree order: scans the items of work. */
adj_status adji_tensor_scan_tiles(adji_gpu *gpu, adji_tensor_scan_job job);

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu;
enum { DEPTH = 3, PENDING = 96 };

/* Chooses the grid. Blocks take `points` candidates at a time, and `resident` of them run on a multiprocessor. Cuts
 * the candidates into ranges: between four and eight rounds of blocks, such that the last round is as full as
 * possible. */
inline dim3 choose_grid(const adji_gpu *gpu, adji_tensor_scan_job *job, uint32_t points, uint32_t resident) {
  enum { FEWEST_ROUNDS = 4, FEWEST_STAGES = 8 };
  job->stages = static_cast<uint32_t>((job->end - job->first + points - 1) / points);
  uint32_t blocks = adji_blocks_for(job->queries, ADJI_TENSOR_ROWS);
  uint64_t slots = static_cast<uint64_t>(gpu->multiprocessors) * resident;
  uint64_t begin = (FEWEST_ROUNDS * slots + blocks - 1) / blocks;
  double least = INFINITY;
  for (uint64_t ranges = begin; ranges <= 2 * begin; ranges++) {
    uint64_t block_stages = (job->stages + ranges - 1) / ranges;
    if (block_stages < FEWEST_STAGES) block_stages = FEWEST_STAGES;
    uint64_t all = (job->stages + block_stages - 1) / block_stages * blocks;
    double time = static_cast<double>((all + slots - 1) / slots) * static_cast<double>(block_stages + 1);
    if (time >= least) continue;
    least = time;
    job->block_stages = static_cast<uint32_t>(block_stages);
  }
  return dim3(blocks, (job->stages + job->block_stages - 1) / job->block_stages);
}

/* ---- 2. Product ------------------------------------------------------------------------------ */

/* Loads the initial values of the lane's two columns, for both of its rows. */
__device__ __forceinline__ void load_start(uint32_t from, float (&c)[4]) {
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(c[0]), "=f"(c[1]) : "r"(from));
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(c[2]), "=f"(c[3]) : "r"(from));
}

/* ---- 3. and 4. Filter and list --------------------------------------------------------------- */

/* Pending pairs of a warp, before they go to the lists: value, position, and row in the block. */
struct pending_pairs {
  uint2 pair[PENDING];
  uint8_t row[PENDING];
};

/* The state of a warp that lists pairs. */
template <int MT>
struct prefilter {
  pending_pairs *list;
  uint32_t pending;
  uint32_t first;    /* the block's first query */
  uint32_t row;      /* the lane's first row in the block */
  float2 bounds[MT]; /* of the lane's rows l / 4 and l / 4 + 8 of every 16; infinite if absent */
};

template <int MT>
__device__ __forceinline__ void open_prefilter(const adji_tensor_scan_job &job, pending_pairs *list, uint32_t first,
                                               uint32_t first_row, uint32_t lane, prefilter<MT> *of) {
  of->list = list;
  of->pending = 0;
  of->first = first;
  of->row = first_row + lane / 4;
#pragma unroll
  for (int m = 0; m < MT; m++) {
    uint32_t query = first + of->row + m * 16;
    of->bounds[m] = float2{query < job.queries ? job.bounds[query] : INFINITY,
                           query + 8 < job.queries ? job.bounds[query + 8] : INFINITY};
  }
}

/* Flushes the warp's pairs to the lists of their queries. A point is not its own neighbour. */
__device__ __noinline__ void flush_pending(const adji_tensor_scan_job &job, const pending_pairs *list, uint32_t pending,
                                           uint32_t first, uint32_t lane) {
  __syncwarp();
  for (uint32_t i = lane; i < pending; i += ADJI_WARP) {
    uint2 pair = list->pair[i];
    uint32_t query = first + list->row[i];
    if (job.drop_self && job.right_first + adji_tensor_point(job, pair.y) == job.query_info[query].row) continue;
    uint32_t slot = atomicAdd(job.counts + query, 1);
    if (slot < job.capacity) job.passed[query * static_cast<uint64_t>(job.capacity) + slot] = pair;
  }
  __syncwarp();
}

/* The lane's result number `which`. Registers cannot be indexed, so every bit of the number halves the remaining
 * results. */
__device__ __forceinline__ float pick(const float (&d)[8][4], uint32_t which) {
  float sixteen[16], eight[8], four[4];
#pragma unroll
  for (int i = 0; i < 16; i++)
    sixteen[i] = which & 16 ? d[i / 4 + 4][i % 4] : d[i / 4][i % 4];
#pragma unroll
  for (int i = 0; i < 8; i++)
    eight[i] = which & 8 ? sixteen[i + 8] : sixteen[i];
#pragma unroll
  for (int i = 0; i < 4; i++)
    four[i] = which & 4 ? eight[i + 4] : eight[i];
  float low = which & 2 ? four[2] : four[0], high = which & 2 ? four[3] : four[1];
  return which & 1 ? high : low;
}

/* Lists the results of 16 queries that are not below their bounds. row: the lane's first row in the block; position:
 * its first candidate. In one pass each lane lists one result; usually only one lane has a result. */
template <int MT>
__device__ __forceinline__ void list_results(const adji_tensor_scan_job &job, prefilter<MT> *to, const float (&d)[8][4],
                                             float2 bound, uint32_t row, uint32_t position, uint32_t lane) {
  uint32_t passes = 0;
#pragma unroll
  for (int i = 0; i < 32; i++)
    if (d[i / 4][i % 4] >= (i % 4 < 2 ? bound.x : bound.y)) passes |= 1u << i;
#pragma unroll 1
  for (uint32_t some; (some = __ballot_sync(ALL_LANES, passes != 0));) {
    if (passes) {
      uint32_t which = __ffs(static_cast<int>(passes)) - 1;
      uint32_t slot = to->pending + __popc(some & ((1u << lane) - 1));
      to->list->pair[slot] = uint2{__float_as_uint(pick(d, which)), position + which / 4 * 8 + which % 2};
      to->list->row[slot] = static_cast<uint8_t>(row + which / 2 % 2 * 8);
      passes &= passes - 1;
    }
    to->pending += __popc(some);
    if (to->pending > PENDING - ADJI_WARP) {
      flush_pending(job, to->list, to->pending, to->first, lane);
      to->pending = 0;
    }
  }
}

/* Filters all results of 64 candidates: usually all are below the bounds. */
template <int MT>
__device__ __forceinline__ void list_passing(const adji_tensor_scan_job &job, prefilter<MT> *to,
                                             const float (&d)[MT][8][4], uint32_t position, uint32_t lane) {
  bool some[MT], any = false;
#pragma unroll
  for (int m = 0; m < MT; m++) {
    some[m] = false;
#pragma unroll
    for (int i = 0; i < 32; i++)
      some[m] = some[m] || d[m][i / 4][i % 4] >= (i % 4 < 2 ? to->bounds[m].x : to->bounds[m].y);
    any = any || some[m];
  }
  if (!__any_sync(ALL_LANES, any)) return;
#pragma unroll
  for (int m = 0; m < MT; m++)
    if (__any_sync(ALL_LANES, some[m])) list_results(job, to, d[m], to->bounds[m], to->row + m * 16, position, lane);
}

/* Writes every result to its place in the list of its query. slot: the place of the lane's first candidate, which is
 * its position unless the points are in tree order. */
template <int MT>
__device__ __forceinline__ void keep_all(const adji_tensor_scan_job &job, const prefilter<MT> &from,
                                         const float (&d)[MT][8][4], uint64_t position, uint64_t slot) {
#pragma unroll
  for (int m = 0; m < MT; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      uint32_t query = from.first + from.row + m * 16 + half * 8;
      if (query >= job.queries) continue;
      uint2 *row = job.passed + query * static_cast<uint64_t>(job.capacity);
#pragma unroll
      for (int i = 0; i < 16; i++) {
        uint32_t step = i / 2 * 8 + i % 2;
        if (slot + step < job.end)
          row[slot + step] =
              uint2{__float_as_uint(d[m][i / 2][half * 2 + i % 2]), static_cast<uint32_t>(position) + step};
      }
    }
}

}  // namespace

#endif
