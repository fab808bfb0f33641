/* SPDX-License-Identifier: MIT
 *
 * What passed the filter: canonical distances, and ids on their way to memory. tensor_tiles_kernel.cuh.
 */
#ifndef ADJI_GPU_RANGE_TENSOR_TILES_PAIRS_CUH
#define ADJI_GPU_RANGE_TENSOR_TILES_PAIRS_CUH

#include "gpu/range/tensor_tiles.cuh"

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu;
enum { MOST_ROWS = 64, PIECES_AT_ONCE = 16 };
/* Pairs of a warp that wait to be settled: when there are enough, and how many there is room for. */
enum { ENOUGH_WAITING = 2 * ADJI_WARP, MOST_WAITING = 4 * ADJI_WARP };

/* What the kernel gets: adji_tiles_job and the copies, with their types. */
struct products {
  const uint32_t *left, *right; /* halves, two a word */
  const float *u, *v;
  uint32_t steps, pitch; /* instructions along a copy; bytes from one to the next in shared memory */
  uint64_t tiles;
  adji_gpu_boxes boxes;
  const float *left_coords;
  uint64_t left_point_step, left_dim_step;
  const float *left_rows, *right_rows; /* the points as they came: by id, in elements */
  uint64_t left_row, left_column, right_row, right_column;
  bool fours; /* four coordinates can be read at once */
  const uint32_t *left_ids, *right_ids;
  uint64_t right_count;
  uint32_t dim;
  float limit;
  adji_gpu_keep keep;
  const uint32_t *queries;
  uint64_t first_query, query_count;
  uint32_t *degrees;
  unsigned long long *answers, *spread_answers;
  const uint64_t *offsets;
  uint64_t base;
  uint32_t apart; /* as in adji_tiles_job */
  uint32_t *ids;
  float *sums;
  adji_row_chunk *pieces;
  uint64_t own_pieces; /* of the queries, by their positions, before those that are taken as needed */
  uint64_t piece_room;
};

/* Where a row of the result begins and ends. */
__device__ __forceinline__ const uint64_t *bounds_of(const products &job, uint32_t row) {
  return job.offsets + (static_cast<uint64_t>(row) << job.apart);
}

/* The queries of a warp, in shared memory: it alone finds their neighbours. */
struct warp_rows {
  uint64_t next_piece, end_piece; /* pieces that the warp may still fill */
  uint32_t piece[MOST_ROWS][2];   /* that entries 32 i .. 32 i + 31 go to, by i % 2 */
  uint32_t ids[MOST_ROWS];
  uint32_t positions[MOST_ROWS]; /* UINT32_MAX: there is no such query */
  uint32_t found[MOST_ROWS];
  /* Pairs that passed: a bit, 8 for every 16 queries, and the position of the lane's first candidate; and the lane. */
  uint2 waiting[MOST_WAITING];
  uint8_t waiting_lane[MOST_WAITING];
};

/* Differences of 32 pairs on their way from those who read them to those who add them up: CHUNK dimensions a pair, and
 * four more, so that eight lanes that read or write 16 bytes each use different banks. */
template <int CHUNK>
struct differences {
  float t[ADJI_WARP][CHUNK + 4];
};

/* Differences of dimensions first .. first + CHUNK - 1: CHUNK / 4 lanes read a pair, four coordinates each, so that a
 * line of memory is asked for once. Without fours, coordinate by coordinate. Zeros behind the last dimension and for
 * lanes that have no pair add nothing. */
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

/* The canonical sum of points left and right, a pair a lane; 0 for lanes that have none. */
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
    __syncwarp(); /* the next ones take their place */
  }
  return adji_gpu_finish<ADJI_STEP_L2>(s);
}

/* Numbers of new pieces, behind the queries' own, for the lanes in `due`. */
__device__ __forceinline__ uint64_t take_piece(const products &job, warp_rows *rows, uint32_t due, uint32_t lane) {
  uint32_t many = __popc(due), number = __popc(due & ((1u << lane) - 1));
  uint64_t old = rows->next_piece, left = rows->end_piece - old, first = old, missing = 0, grab = 0;
  if (many > left) {
    missing = many - left;
    grab = missing > PIECES_AT_ONCE ? missing : PIECES_AT_ONCE;
    unsigned long long taken = 0;
    if (lane == 0) taken = atomicAdd(job.answers + ADJI_ANSWER_PIECES, static_cast<unsigned long long>(grab));
    first = job.own_pieces + __shfl_sync(ALL_LANES, taken, 0);
  }
  __syncwarp(); /* everyone has read what changes now */
  if (lane == 0) {
    rows->next_piece = missing ? first + missing : old + many;
    if (missing) rows->end_piece = first + grab;
  }
  return number < left ? old + number : first + (number - left);
}

/* A pair that belongs into its row's piece; entries that begin one get it first. The first one is the query's own. A
 * warp adds at most 32 entries to a row at a time, so that of the pieces before the last two none is used any more. */
__device__ __forceinline__ void keep_in_pieces(const products &job, warp_rows *rows, bool belongs, uint32_t row,
                                               uint32_t entry, uint32_t id, float s, uint32_t lane) {
  bool begins = belongs && entry % ADJI_WARP == 0;
  uint32_t due = __ballot_sync(ALL_LANES, begins && entry);
  if (__any_sync(ALL_LANES, begins)) {
    uint64_t piece = due ? take_piece(job, rows, due, lane) : 0;
    if (begins && !entry) piece = rows->positions[row];
    if (begins) {
      rows->piece[row][entry / ADJI_WARP % 2] = piece < UINT32_MAX ? static_cast<uint32_t>(piece) : UINT32_MAX;
      if (piece < job.piece_room && piece < UINT32_MAX) job.pieces[piece] = adji_row_chunk{rows->ids[row], entry};
    }
  }
  __syncwarp();
  if (!belongs) return;
  uint64_t piece = rows->piece[row][entry / ADJI_WARP % 2];
  if (piece >= job.piece_room || piece == UINT32_MAX) return;
  job.ids[piece * ADJI_WARP + entry % ADJI_WARP] = id;
  if (job.sums) job.sums[piece * ADJI_WARP + entry % ADJI_WARP] = s;
}

/* The last `many` pairs that wait, one a lane. */
template <int CHUNK>
__device__ __forceinline__ void settle_pairs(const products &job, warp_rows *rows, differences<CHUNK> *at,
                                             uint32_t waiting, uint32_t many, uint32_t lane) {
  uint32_t row = 0, own = 0, id = 0, entry = 0;
  bool active = lane < many;
  if (active) {
    uint2 pair = rows->waiting[waiting - many + lane];
    uint32_t i = __ffs(pair.x) - 1, from = rows->waiting_lane[waiting - many + lane];
    /* Results 0 .. 3 and 4 .. 7 of a lane are those of 8 candidates: two of them with two queries, 8 apart. */
    row = i / 8 * 16 + i % 4 / 2 * 8 + from / 4;
    id = job.right_ids[pair.y + i % 8 / 4 * 8 + i % 2];
    own = rows->ids[row];
    active = job.keep == ADJI_KEEP_ALL || (job.keep == ADJI_KEEP_ABOVE ? id > own : id != own);
  }
  float s = canonical_sum(job, at, own, id, active, lane);
  bool belongs = active && s <= job.limit;
  if (belongs) entry = atomicAdd(&rows->found[row], 1u);
  if (job.pieces) {
    keep_in_pieces(job, rows, belongs, row, entry, id, s, lane);
  } else if (job.ids && belongs) {
    const uint64_t *bounds = bounds_of(job, rows->ids[row]);
    uint64_t begin = bounds[0], end = bounds[1];
    if (entry < end - begin) {
      job.ids[begin - job.base + entry] = id;
      if (job.sums) job.sums[begin - job.base + entry] = s;
    }
  }
  __syncwarp(); /* what was read may be written again */
}

/* Counts to where they belong, and totals. candidates and slots are the lane's: pairs compared, and places for them in
 * the matrices. */
__device__ __forceinline__ void settle_rows(const products &job, const warp_rows *rows, uint32_t count,
                                            uint64_t candidates, uint64_t slots, uint32_t lane) {
  uint64_t found = 0, broken = 0;
  uint32_t longest = 0;
  for (uint32_t r = lane; r < count; r += ADJI_WARP) {
    if (rows->positions[r] == UINT32_MAX) continue;
    uint32_t many = rows->found[r];
    found += many;
    longest = many > longest ? many : longest;
    const uint64_t *bounds = bounds_of(job, rows->ids[r]);
    if (job.ids && !job.pieces)
      broken += many != bounds[1] - bounds[0];
    else if (job.degrees)
      job.degrees[rows->ids[r]] = many;
  }
  if (job.ids && !job.pieces) {
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
