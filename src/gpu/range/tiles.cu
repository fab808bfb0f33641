/* SPDX-License-Identifier: MIT
 *
 * The range join's default kernels: chooses the one that a job needs. Also the kernel that fills rows from query hits,
 * which a count has cached (tiles_per_query.cuh).
 */
#include "gpu/range/tiles.cuh"

namespace {

/* ---- Rows from query hits ---------------------------------------------------------------------------------------
 *
 * Computes: for each row of a query with hits, the ids of the candidates whose bits are set. Nothing is compared.
 *
 * A warp has 32 consecutive rows of the result, lane i the i-th of them. Lanes put the positions of their entries into
 * shared memory, in the order of the result; this reads nothing but the hits from memory. Then all lanes look up ids
 * and write whole lines. Written in the order of the grid, each row would be far from the one before: at 10 entries a
 * row, two million rows would keep the memory busy for 0.28 ms.
 *
 * Grid: one warp for 32 rows. No block waits for another.
 *
 * Limits: instruction issue, and the latency of the hits and ids: 32 bytes read per row in two dimensions, 96 in
 * three; 4 read and 4 written per entry.
 */

enum { WARPS = 4, ROOM = 640 }; /* entries that a warp writes at a time */
constexpr uint32_t NO_POSITION = UINT32_MAX, ALL = 0xffffffffu;

struct query_hits_job : adji_tiles_task {
  const uint32_t *right_ids;
  uint64_t first_row, end_row;
};

/* A lane's row. */
template <int GROUPS>
struct query_hits_row {
  adji_query_hits hits[GROUPS];
  uint64_t next, end; /* those of its entries in the result that are not written yet */
  bool has_hits;
};

/* Lanes after the last row have an empty row. */
template <int GROUPS>
__device__ __forceinline__ query_hits_row<GROUPS> open_row(const query_hits_job &job, uint64_t row, uint32_t lane) {
  query_hits_row<GROUPS> r = {};
  bool active = row < job.end_row;
  r.next = r.end = job.offsets[active ? row : job.end_row] - job.base;
  uint32_t bits = 0;
  if (active) {
    r.end = job.offsets[row + 1] - job.base;
#pragma unroll
    for (int g = 0; g < GROUPS; g++) {
      r.hits[g] = job.query_hits[row * GROUPS + g];
      for (int k = 0; k < ADJI_QUERY_HIT_GROUP; k++)
        bits += __popc(r.hits[g].bits[k]);
    }
    r.has_hits = r.hits[0].begin[0] != ADJI_NO_QUERY_HITS;
  }
  bool broken = r.has_hits && bits != r.end - r.next;
  adji_answer_add(job.spread_answers + 2 * ADJI_SPREAD, broken, lane);
  r.has_hits = r.has_hits && !broken;
  return r;
}

/* Puts the positions of the lane's next entries into the buffer, which begins with entry number start of the result.
 * A row without hits gets placeholders. */
template <int GROUPS>
__device__ __forceinline__ void put_positions(query_hits_row<GROUPS> *r, uint64_t start, uint32_t *buffer) {
  uint64_t stop = r->end < start + ROOM ? r->end : start + ROOM;
  if (!r->has_hits) {
    for (uint64_t i = r->next > start ? r->next : start; i < stop; i++)
      buffer[i - start] = NO_POSITION;
    return;
  }
  uint32_t at = static_cast<uint32_t>(r->next - start), end = static_cast<uint32_t>(stop - start);
  if (r->next >= stop) return;
#pragma unroll
  for (int i = 0; i < GROUPS * ADJI_QUERY_HIT_GROUP; i++) {
    uint32_t *bits = &r->hits[i / ADJI_QUERY_HIT_GROUP].bits[i % ADJI_QUERY_HIT_GROUP];
    uint32_t begin = r->hits[i / ADJI_QUERY_HIT_GROUP].begin[i % ADJI_QUERY_HIT_GROUP];
    while (*bits && at < end) {
      buffer[at++] = begin + __ffs(*bits) - 1;
      *bits &= *bits - 1;
    }
  }
  r->next = start + at;
}

template <int GROUPS>
__global__ void __launch_bounds__(WARPS *ADJI_WARP) fill_query_hits(const query_hits_job job) {
  __shared__ uint32_t buffers[WARPS][ROOM];
  uint32_t lane = threadIdx.x % ADJI_WARP, *buffer = buffers[threadIdx.x / ADJI_WARP];
  uint64_t row = job.first_row + static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  query_hits_row<GROUPS> r = open_row<GROUPS>(job, row, lane);
  uint64_t last = __shfl_sync(ALL, r.end, ADJI_WARP - 1);
  for (;;) {
    uint32_t remaining = __ballot_sync(ALL, r.has_hits && r.next < r.end);
    if (!remaining) return;
    uint64_t start = __shfl_sync(ALL, r.next, __ffs(remaining) - 1);
    uint32_t many = last - start < ROOM ? static_cast<uint32_t>(last - start) : ROOM;
    put_positions(&r, start, buffer);
    __syncwarp();
#pragma unroll 4
    for (uint32_t i = lane; i < many; i += ADJI_WARP) {
      uint32_t position = buffer[i];
      if (position != NO_POSITION) job.ids[start + i] = __ldg(job.right_ids + position);
    }
    __syncwarp();
  }
}

}  // namespace

bool adji_tiles_can_keep_tile_hits(const adji_tiles_job *job) {
  return job->measure->step == ADJI_STEP_L2 && job->type == ADJ_F32 && (job->dim == 2 || job->dim == 3) &&
         job->grid->row_count <= ADJI_WARP;
}

bool adji_tiles_can_keep_query_hits(const adji_tiles_job *job) {
  bool by_position = job->keep == ADJI_KEEP_ALL || (job->keep == ADJI_KEEP_OTHERS && job->left == job->right);
  uint32_t ranges = job->grid->row_count;
  return job->measure->step == ADJI_STEP_L2 && (job->dim == 2 || job->dim == 3) && by_position &&
         (ranges == ADJI_QUERY_HIT_GROUP || ranges == 3 * ADJI_QUERY_HIT_GROUP) && !job->right->images;
}

adj_status adji_tiles_fill_query_hits(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  if (job->first_row == job->end_row) return ADJ_OK;
  query_hits_job hits = {*job, job->right->ids, job->first_row, job->end_row};
  uint32_t threads = WARPS * ADJI_WARP, blocks = adji_blocks_for(job->end_row - job->first_row, threads);
  if (job->grid->row_count == ADJI_QUERY_HIT_GROUP)
    fill_query_hits<1><<<blocks, threads, 0, stream>>>(hits);
  else
    fill_query_hits<3><<<blocks, threads, 0, stream>>>(hits);
  ADJI_LAUNCHED(gpu, "fill_query_hits");
  return ADJ_OK;
}

adj_status adji_tiles_run(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job) {
  if (!job->query_count || !job->right->count) return ADJ_OK;
  bool f64 = job->type == ADJ_F64;
  if (job->measure->step == ADJI_STEP_L2)
    return f64 ? adji_tiles_f64(gpu, stream, job) : adji_tiles_f32(gpu, stream, job);
  return f64 ? adji_tiles_metrics_f64(gpu, stream, job) : adji_tiles_metrics_f32(gpu, stream, job);
}
