/* SPDX-License-Identifier: MIT
 *
 * What passed the filter: canonical distances, and ids on their way to memory. product_kernel.cuh.
 */
#ifndef ADJI_PRODUCT_PAIRS_CUH
#define ADJI_PRODUCT_PAIRS_CUH

#include "gpu/product.cuh"

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu;
enum { MOST_ROWS = 64, MOST_WAITING = 2 * ADJI_WARP, PIECES_AT_ONCE = 16 };

/* What the kernel gets: adji_tiles_job and the copies, with their types. */
struct products {
  const uint32_t *left, *right; /* halves, two a word */
  const float *u, *v;
  uint32_t steps, pitch; /* instructions along a copy; bytes from one to the next in shared memory */
  uint64_t tiles;
  adji_gpu_boxes boxes;
  const float *left_coords;
  uint64_t left_stride;
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
  uint32_t *ids;
  float *sums;
  adji_gpu_piece *pieces;
  uint64_t piece_room;
};

/* The queries of a warp, in shared memory: it alone finds their neighbours. */
struct warp_rows {
  uint64_t piece[MOST_ROWS][2]; /* that entries 32 i .. 32 i + 31 go to, by i % 2 */
  uint32_t ids[MOST_ROWS];
  uint32_t positions[MOST_ROWS]; /* UINT32_MAX: there is no such query */
  uint32_t found[MOST_ROWS];
  uint32_t waiting_at[MOST_WAITING]; /* pairs that passed: position of the candidate, and which query */
  uint8_t waiting_row[MOST_WAITING];
};

/* Pieces of 32 entries that the warp may still fill. */
struct supply {
  uint64_t next, end;
};

__device__ __forceinline__ float canonical_sum(const products &job, uint32_t left, uint32_t right) {
  const float *x = job.left_rows + left * job.left_row, *y = job.right_rows + right * job.right_row;
  adji_gpu_measure<float> measure = {};
  float s = 0;
  uint32_t j = 0;
  if (job.fours) {
#pragma unroll 4
    for (; j + 4 <= job.dim; j += 4) {
      float4 a = __ldg(reinterpret_cast<const float4 *>(x + j)), b = __ldg(reinterpret_cast<const float4 *>(y + j));
      s = adji_gpu_step<ADJI_STEP_L2>(s, a.x, b.x, measure, j);
      s = adji_gpu_step<ADJI_STEP_L2>(s, a.y, b.y, measure, j + 1);
      s = adji_gpu_step<ADJI_STEP_L2>(s, a.z, b.z, measure, j + 2);
      s = adji_gpu_step<ADJI_STEP_L2>(s, a.w, b.w, measure, j + 3);
    }
  }
#pragma unroll 4
  for (; j < job.dim; j++)
    s = adji_gpu_step<ADJI_STEP_L2>(s, __ldg(x + j * job.left_column), __ldg(y + j * job.right_column), measure, j);
  return adji_gpu_finish<ADJI_STEP_L2>(s);
}

/* Numbers of new pieces for the lanes in `due`, of which `mine` is one. */
__device__ __forceinline__ uint64_t take_piece(const products &job, supply *pieces, uint32_t due, uint32_t lane) {
  uint32_t many = __popc(due), number = __popc(due & ((1u << lane) - 1));
  uint64_t left = pieces->end - pieces->next, old = pieces->next;
  if (many <= left) {
    pieces->next += many;
    return old + number;
  }
  uint64_t missing = many - left, grab = missing > PIECES_AT_ONCE ? missing : PIECES_AT_ONCE;
  unsigned long long first = 0;
  if (lane == 0) first = atomicAdd(job.answers + ADJI_ANSWER_PIECES, static_cast<unsigned long long>(grab));
  first = __shfl_sync(ALL_LANES, first, 0);
  pieces->next = first + missing;
  pieces->end = first + grab;
  return number < left ? old + number : first + (number - left);
}

/* A pair that belongs into its row's piece; entries that begin one get it first. A warp adds at most 32 entries to a
 * row at a time, so that of the pieces before the last two none is used any more. */
__device__ __forceinline__ void keep_in_pieces(const products &job, warp_rows *rows, supply *pieces, bool belongs,
                                               uint32_t row, uint32_t entry, uint32_t id, float s, uint32_t lane) {
  bool begins = belongs && entry % ADJI_WARP == 0;
  uint32_t due = __ballot_sync(ALL_LANES, begins);
  if (due) {
    uint64_t piece = take_piece(job, pieces, due, lane);
    if (begins) {
      rows->piece[row][entry / ADJI_WARP % 2] = piece;
      if (piece < job.piece_room) job.pieces[piece] = adji_gpu_piece{rows->ids[row], entry};
    }
  }
  __syncwarp();
  if (!belongs) return;
  uint64_t piece = rows->piece[row][entry / ADJI_WARP % 2];
  if (piece >= job.piece_room) return;
  job.ids[piece * ADJI_WARP + entry % ADJI_WARP] = id;
  if (job.sums) job.sums[piece * ADJI_WARP + entry % ADJI_WARP] = s;
}

/* The last `many` pairs that wait, one a lane. */
__device__ __forceinline__ void settle_pairs(const products &job, warp_rows *rows, supply *pieces, uint32_t waiting,
                                             uint32_t many, uint32_t lane) {
  uint32_t row = 0, id = 0, entry = 0;
  float s = 0;
  bool belongs = false;
  if (lane < many) {
    row = rows->waiting_row[waiting - many + lane];
    id = job.right_ids[rows->waiting_at[waiting - many + lane]];
    uint32_t own = rows->ids[row];
    if (job.keep == ADJI_KEEP_ALL || (job.keep == ADJI_KEEP_ABOVE ? id > own : id != own)) {
      s = canonical_sum(job, own, id);
      belongs = s <= job.limit;
    }
  }
  if (belongs) entry = atomicAdd(&rows->found[row], 1u);
  if (job.pieces) {
    keep_in_pieces(job, rows, pieces, belongs, row, entry, id, s, lane);
  } else if (job.ids && belongs) {
    uint64_t begin = job.offsets[rows->ids[row]], end = job.offsets[rows->ids[row] + UINT64_C(1)];
    if (entry < end - begin) {
      job.ids[begin - job.base + entry] = id;
      if (job.sums) job.sums[begin - job.base + entry] = s;
    }
  }
  __syncwarp(); /* what was read may be written again */
}

/* Adds up a number over the warp and to an answer, in one of several places. */
__device__ __forceinline__ void add_answer(unsigned long long *answer, unsigned long long mine, uint32_t lane) {
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
    mine += __shfl_xor_sync(ALL_LANES, mine, step);
  if (lane == 0 && mine) atomicAdd(answer + blockIdx.x % ADJI_SPREAD, mine);
}

/* Counts to where they belong, and totals. */
__device__ __forceinline__ void settle_rows(const products &job, const warp_rows *rows, uint32_t count,
                                            uint64_t candidates, uint32_t lane) {
  uint64_t found = 0, broken = 0;
  uint32_t longest = 0;
  for (uint32_t r = lane; r < count; r += ADJI_WARP) {
    if (rows->positions[r] == UINT32_MAX) continue;
    uint32_t many = rows->found[r];
    found += many;
    longest = many > longest ? many : longest;
    if (job.ids && !job.pieces)
      broken += many != job.offsets[rows->ids[r] + UINT64_C(1)] - job.offsets[rows->ids[r]];
    else if (job.degrees)
      job.degrees[rows->ids[r]] = many;
  }
  if (job.ids && !job.pieces) {
    add_answer(job.spread_answers + 2 * ADJI_SPREAD, broken, lane);
    return;
  }
  longest = __reduce_max_sync(ALL_LANES, longest);
  if (lane == 0)
    atomicMax(job.spread_answers + 3 * ADJI_SPREAD + blockIdx.x % ADJI_SPREAD,
              static_cast<unsigned long long>(longest));
  add_answer(job.spread_answers, found, lane);
  add_answer(job.spread_answers + ADJI_SPREAD, candidates, lane);
}

}  // namespace

#endif
