/* SPDX-License-Identifier: MIT
 *
 * Pairs that passed the prefilter: canonical distances, and ids on their way to memory. Part of
 * tensor_tiles_kernel.cuh.
 */
#ifndef ADJI_GPU_RANGE_TENSOR_TILES_PAIRS_CUH
#define ADJI_GPU_RANGE_TENSOR_TILES_PAIRS_CUH

#include "gpu/range/tensor_tiles.cuh"

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu;
enum { MOST_ROWS = 64, CHUNKS_AT_ONCE = 16 };
/* Waiting pairs of a warp: the number at which they are refined, and the number that there is room for. */
enum { ENOUGH_WAITING = 2 * ADJI_WARP, MOST_WAITING = 4 * ADJI_WARP };

/* adji_tiles_job and the copies, with their types. */
struct products : adji_tiles_task {
  const uint32_t *left, *right; /* halves, two per word */
  const float *u, *v;
  uint32_t steps, pitch; /* instructions along a copy; bytes from one to the next in shared memory */
  uint64_t tiles;
  adji_gpu_boxes boxes;
  const float *left_coords;
  uint64_t left_point_step, left_dim_step;
  const float *left_rows, *right_rows;                     /* the points as given, by id */
  uint64_t left_row, left_column, right_row, right_column; /* strides, in elements */
  bool fours;                                              /* four coordinates can be read at once */
  const uint32_t *left_ids, *right_ids;
  uint64_t right_count;
  float limit;
  float *sums;
};

/* The queries of a warp, in shared memory. Only this warp finds their neighbours. */
struct warp_rows {
  uint64_t next_chunk, end_chunk; /* chunks that the warp has requested and not used yet */
  uint32_t chunk[MOST_ROWS][2];   /* the chunk of entries 32 i .. 32 i + 31, by i % 2 */
  uint32_t ids[MOST_ROWS];
  uint32_t positions[MOST_ROWS]; /* UINT32_MAX: no query */
  uint32_t found[MOST_ROWS];
  /* Pairs that passed: the bit that find_passes() set, the position of the lane's first candidate, and the lane. */
  uint2 waiting[MOST_WAITING];
  uint8_t waiting_lane[MOST_WAITING];
};

/* Differences of 32 pairs, between the lanes that load and those that sum: CHUNK dimensions per pair, and four more,
 * so that eight lanes that access 16 bytes each use different banks. */
template <int CHUNK>
struct differences {
  float t[ADJI_WARP][CHUNK + 4];
};

/* Computes the differences of dimensions first .. first + CHUNK - 1. CHUNK / 4 lanes load a pair, four coordinates
 * each, so that a line of memory is requested once. If four coordinates cannot be read at once, they are loaded one by
 * one. After the last dimension, and for lanes without a pair, there are zeros, which add nothing to the sum. */
template <int CHUNK>
__device__ __forceinline__ void subtract_pairs(const products &job, differences<CHUNK> *to, uint32_t first,
                                               uint32_t left, uint32_t right, bool active, uint32_t lane) {
  uint32_t actives = __ballot_sync(ALL_LANES, active);
  if (job.fours) {
    constexpr uint32_t EACH = CHUNK / 4, AT_ONCE = ADJI_WARP / EACH;
#pragma unroll 4
    for (uint32_t begin = 0; begin < ADJI_WARP; begin += AT_ONCE) {
      uint32_t pair = begin + lane / EACH, j = first + lane % EACH * 4;
      uint64_t x = __shfl_sync(ALL_LANES, left, pair) * job.left_row + j;
      uint64_t y = __shfl_sync(ALL_LANES, right, pair) * job.right_row + j;
      float4 t = {0, 0, 0, 0};
      if ((actives >> pair & 1) && j < job.dim) {
        float4 a = __ldg(reinterpret_cast<const float4 *>(job.left_rows + x));
        float4 b = __ldg(reinterpret_cast<const float4 *>(job.right_rows + y));
        t = float4{adji_gpu_difference(a.x, b.x), adji_gpu_difference(a.y, b.y), adji_gpu_difference(a.z, b.z),
                   adji_gpu_difference(a.w, b.w)};
      }
      *reinterpret_cast<float4 *>(&to->t[pair][lane % EACH * 4]) = t;
    }
    return;
  }
  constexpr uint32_t AT_ONCE = ADJI_WARP / CHUNK;
#pragma unroll 4
  for (uint32_t begin = 0; begin < ADJI_WARP; begin += AT_ONCE) {
    uint32_t pair = begin + lane / CHUNK, j = first + lane % CHUNK;
    uint64_t x = __shfl_sync(ALL_LANES, left, pair) * job.left_row + j * job.left_column;
    uint64_t y = __shfl_sync(ALL_LANES, right, pair) * job.right_row + j * job.right_column;
    float t = 0;
    if ((actives >> pair & 1) && j < job.dim)
      t = adji_gpu_difference(__ldg(job.left_rows + x), __ldg(job.right_rows + y));
    to->t[pair][lane % CHUNK] = t;
  }
}

/* The canonical sum of points left and right, one pair per lane; 0 for lanes without one. */
template <int CHUNK>
__device__ __forceinline__ float canonical_sum(const products &job, differences<CHUNK> *at, uint32_t left,
                                               uint32_t right, bool active, uint32_t lane) {
  float s = 0;
#pragma unroll 1
  for (uint32_t first = 0; first < job.dim; first += CHUNK) {
    subtract_pairs(job, at, first, left, right, active, lane);
    __syncwarp();
#pragma unroll
    for (int k = 0; k < CHUNK; k += 4) {
      float4 t = *reinterpret_cast<const float4 *>(&at->t[lane][k]);
      s = adji_gpu_add_square(s, t.x);
      s = adji_gpu_add_square(s, t.y);
      s = adji_gpu_add_square(s, t.z);
      s = adji_gpu_add_square(s, t.w);
    }
    __syncwarp(); /* the next differences replace them */
  }
  return adji_gpu_finish<ADJI_STEP_L2>(s);
}

/* The numbers of new chunks, which come after the queries' own, for the lanes in `due`. */
__device__ __forceinline__ uint64_t take_chunk(const products &job, warp_rows *rows, uint32_t due, uint32_t lane) {
  uint32_t many = __popc(due), number = __popc(due & ((1u << lane) - 1));
  uint64_t old = rows->next_chunk, remaining = rows->end_chunk - old, first = old, missing = 0, grab = 0;
  if (many > remaining) {
    missing = many - remaining;
    grab = missing > CHUNKS_AT_ONCE ? missing : CHUNKS_AT_ONCE;
    first = job.own_chunks + request_items(job, grab, lane);
  }
  __syncwarp(); /* all lanes have read the numbers that change now */
  if (lane == 0) {
    rows->next_chunk = missing ? first + missing : old + many;
    if (missing) rows->end_chunk = first + grab;
  }
  return number < remaining ? old + number : first + (number - remaining);
}

/* Adds a pair that belongs to its row's chunk. Entries that begin a chunk request it first, except that the first chunk
 * is the query's own. A warp adds at most 32 entries to a row at a time, so only its last two chunks are in use. */
__device__ __forceinline__ void keep_in_chunks(const products &job, warp_rows *rows, bool belongs, uint32_t row,
                                               uint32_t entry, uint32_t id, float s, uint32_t lane) {
  bool begins = belongs && entry % ADJI_WARP == 0;
  uint32_t due = __ballot_sync(ALL_LANES, begins && entry);
  if (__any_sync(ALL_LANES, begins)) {
    uint64_t chunk = due ? take_chunk(job, rows, due, lane) : 0;
    if (begins && !entry) chunk = rows->positions[row];
    if (begins) {
      rows->chunk[row][entry / ADJI_WARP % 2] = chunk < UINT32_MAX ? static_cast<uint32_t>(chunk) : UINT32_MAX;
      if (chunk < job.chunk_room && chunk < UINT32_MAX) job.row_chunks[chunk] = adji_row_chunk{rows->ids[row], entry};
    }
  }
  __syncwarp();
  if (!belongs) return;
  uint64_t chunk = rows->chunk[row][entry / ADJI_WARP % 2];
  if (chunk >= job.chunk_room || chunk == UINT32_MAX) return;
  job.ids[chunk * ADJI_WARP + entry % ADJI_WARP] = id;
  if (job.sums) job.sums[chunk * ADJI_WARP + entry % ADJI_WARP] = s;
}

/* Refines the last `many` waiting pairs, one per lane. */
template <int CHUNK>
__device__ __forceinline__ void refine_pairs(const products &job, warp_rows *rows, differences<CHUNK> *at,
                                             uint32_t waiting, uint32_t many, uint32_t lane) {
  uint32_t row = 0, query_id = 0, id = 0, entry = 0;
  bool active = lane < many;
  if (active) {
    uint2 pair = rows->waiting[waiting - many + lane];
    uint32_t i = __ffs(pair.x) - 1, from = rows->waiting_lane[waiting - many + lane];
    /* Of a lane's results, 0 .. 3 belong to the first 8 candidates and 4 .. 7 to the second: two candidates with two
     * queries, which are 8 rows apart. */
    row = i / 8 * 16 + i % 4 / 2 * 8 + from / 4;
    id = job.right_ids[pair.y + i % 8 / 4 * 8 + i % 2];
    query_id = rows->ids[row];
    active = job.keep == ADJI_KEEP_ALL || (job.keep == ADJI_KEEP_ABOVE ? id > query_id : id != query_id);
  }
  float s = canonical_sum(job, at, query_id, id, active, lane);
  bool belongs = active && s <= job.limit;
  if (belongs) entry = atomicAdd(&rows->found[row], 1u);
  if (job.row_chunks) {
    keep_in_chunks(job, rows, belongs, row, entry, id, s, lane);
  } else if (job.ids && belongs) {
    const uint64_t *bounds = bounds_of(job, rows->ids[row]);
    uint64_t begin = bounds[0], end = bounds[1];
    if (entry < end - begin) {
      job.ids[begin - job.base + entry] = id;
      if (job.sums) job.sums[begin - job.base + entry] = s;
    }
  }
  __syncwarp(); /* after this, the pairs that were read may be overwritten */
}

/* Stores counts and totals. candidates: the pairs that this lane reports as compared; slots: their places in the
 * matrices. */
__device__ __forceinline__ void store_counts(const products &job, const warp_rows *rows, uint32_t count,
                                             uint64_t candidates, uint64_t slots, uint32_t lane) {
  uint64_t found = 0, broken = 0;
  uint32_t longest = 0;
  for (uint32_t r = lane; r < count; r += ADJI_WARP) {
    if (rows->positions[r] == UINT32_MAX) continue;
    uint32_t many = rows->found[r];
    found += many;
    longest = many > longest ? many : longest;
    const uint64_t *bounds = bounds_of(job, rows->ids[r]);
    if (job.ids && !job.row_chunks)
      broken += many != bounds[1] - bounds[0];
    else if (job.degrees && gridDim.y > 1)
      atomicAdd(job.degrees + rows->ids[r], many);
    else if (job.degrees)
      job.degrees[rows->ids[r]] = many;
  }
  if (job.ids && !job.row_chunks) {
    adji_answer_add(job.spread_answers + 2 * ADJI_SPREAD, broken, lane);
    return;
  }
  longest = __reduce_max_sync(ALL_LANES, longest);
  if (lane == 0)
    atomicMax(job.spread_answers + 3 * ADJI_SPREAD + blockIdx.x % ADJI_SPREAD,
              static_cast<unsigned long long>(longest));
  adji_answer_add(job.spread_answers, found, lane);
  adji_answer_add(job.spread_answers + ADJI_SPREAD, candidates, lane);
  adji_answer_add(job.spread_answers + 4 * ADJI_SPREAD, slots, lane);
}

}  // namespace

#endif
