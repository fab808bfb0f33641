/* SPDX-License-Identifier: MIT
 *
 * The kernel of range joins that compare every query with every right point.
 *
 * Computes: for each query x the right points y with canonical sum s(x, y) <= limit: their number (counting), also with
 * the pairs in a list (caching), or their ids in the row of x (filling).
 *
 * A block owns a tile of queries, 128 in f32 and 64 in f64, and a stretch of the right points, in tiles of the same
 * size. All coordinates are in the index, dimension by dimension. Steps, for each tile of right points:
 *
 *   1. sums      each lane sums its 8 x 8 pairs (f64: 4 x 4) in registers: gpu/shared/register_tile.cuh. Coordinates
 *                are copied 16 bytes at a time; those of listed queries one by one.
 *   2. hits      a bit is set for each sum within the limit, except for pairs that do not count. If the block has no
 *                hits, the next tile follows.
 *   3. count     the bits of a row are added over its lanes, then in shared memory, and at the end to the counts in
 *                memory. If mirrored, each pair of points is compared once and counts for both: bits of a column are
 *                added as well, and tiles before the diagonal are skipped.
 *   4. keep      caching: a warp requests room for all its pairs, and each lane writes its own. Filling: a lane takes
 *                the next entries of a row for its bits there.
 *
 * Grid: x: tiles of queries; y: stretches of right points, enough to keep all multiprocessors busy. When filling there
 * is one stretch, since a row then belongs to one block. Synchronisation: barriers of register_tile.cuh, and around
 * steps 2 and 3.
 * Full buffer: pairs beyond the room are counted, not written; entries beyond the end of a row are not written, and the
 * row is reported as broken.
 *
 * Limits: instruction issue: 10,000 points in 384 dimensions are 1.9e10 steps of 2 instructions if mirrored.
 */
#ifndef ADJI_GPU_RANGE_ALL_PAIRS_KERNEL_CUH
#define ADJI_GPU_RANGE_ALL_PAIRS_KERNEL_CUH

#include "gpu/range/all_pairs.cuh"
#include "gpu/shared/register_tile.cuh"

namespace {

constexpr uint32_t NO_POSITION = UINT32_MAX, ALL_LANES = 0xffffffffu;

template <class T>
struct all_pairs : adji_tiles_task {
  const T *left, *right; /* coordinate j of position p is at p + j * step */
  uint64_t left_step, right_step;
  const uint32_t *left_ids, *right_ids;
  uint32_t right_count;
  uint32_t column_tiles, stretch; /* tiles of right points: of all, and of a block */
  bool aligned;                   /* queries can be copied 16 bytes at a time */
  T limit;
  T *sums;
  adji_gpu_measure<T> measure;
};

template <class T, class S>
struct block_shared {
  register_tile<T, S> tiles[2];
  uint32_t positions[S::ROWS], row_ids[S::ROWS], row_found[S::ROWS];
  uint32_t column_ids[S::COLUMNS], column_found[S::COLUMNS];
};

/* ---- 1. Coordinates ----------------------------------------------------------------------------------------- */

/* Copies coordinates of queries and points from the index to a tile: 16 bytes at a time, or one by one if queries are
 * listed or not aligned. */
template <class T, class S>
struct index_source {
  enum { ROW_CHUNKS = S::ROWS / S::VECTOR, COLUMN_CHUNKS = S::COLUMNS / S::VECTOR };
  const all_pairs<T> *job;
  const uint32_t *positions;
  uint64_t first_query; /* a position, if the queries are not listed */
  uint32_t queries;     /* number of queries in the tile */
  uint64_t first_point;

  __device__ __forceinline__ void copy_listed(uint32_t from, register_tile<T, S> *tile) const {
    for (uint32_t i = threadIdx.x; i < S::DEPTH * S::ROWS; i += S::THREADS) {
      uint32_t k = i / S::ROWS, row = i % S::ROWS, position = positions[row];
      if (from + k < job->dim && position != NO_POSITION)
        copy_async(&tile->queries[k][row], job->left + (from + k) * job->left_step + position);
    }
  }
  __device__ __forceinline__ void copy_queries(uint32_t from, register_tile<T, S> *tile) const {
#pragma unroll
    for (uint32_t i = threadIdx.x; i < S::DEPTH * ROW_CHUNKS; i += S::THREADS) {
      uint32_t k = i / ROW_CHUNKS, row = i % ROW_CHUNKS * S::VECTOR;
      if (from + k < job->dim && row < queries)
        copy_async_16(&tile->queries[k][row], job->left + (from + k) * job->left_step + first_query + row);
    }
  }
  /* The last copy may reach past the last point, but not past the end of the dimension's column (index.cu). */
  __device__ __forceinline__ void fill(uint32_t from, register_tile<T, S> *tile) const {
    if (job->aligned)
      copy_queries(from, tile);
    else
      copy_listed(from, tile);
#pragma unroll
    for (uint32_t i = threadIdx.x; i < S::DEPTH * COLUMN_CHUNKS; i += S::THREADS) {
      uint32_t k = i / COLUMN_CHUNKS, column = i % COLUMN_CHUNKS * S::VECTOR;
      if (from + k < job->dim && first_point + column < job->right_count)
        copy_async_16(&tile->points[k][column], job->right + (from + k) * job->right_step + first_point + column);
    }
    end_group();
  }
};

template <class T, class S>
__device__ __forceinline__ void open_rows(const all_pairs<T> &job, block_shared<T, S> *at) {
  for (uint32_t r = threadIdx.x; r < S::ROWS; r += S::THREADS) {
    uint64_t query = blockIdx.x * static_cast<uint64_t>(S::ROWS) + r;
    uint32_t position = NO_POSITION;
    if (query < job.query_count)
      position = job.queries ? job.queries[query] : static_cast<uint32_t>(job.first_query + query);
    at->positions[r] = position;
    at->row_ids[r] = position == NO_POSITION ? 0 : job.left_ids[position];
    at->row_found[r] = 0;
  }
  __syncthreads();
}

template <class T, class S>
__device__ __forceinline__ void open_columns(const all_pairs<T> &job, uint32_t first, block_shared<T, S> *at) {
  for (uint32_t c = threadIdx.x; c < S::COLUMNS; c += S::THREADS) {
    at->column_ids[c] = first + c < job.right_count ? job.right_ids[first + c] : 0;
    at->column_found[c] = 0;
  }
}

/* ---- 2. Hits ------------------------------------------------------------------------------------------------ */

/* Bit i * EACH + j is for the lane's i-th row and j-th column. rows: pairs that count for the row. columns: mirrored
 * pairs that count for the column. */
struct hits {
  uint64_t rows, columns;
};

template <int STEP, class T, class S>
__device__ __forceinline__ uint64_t find_near(const all_pairs<T> &job, const T (&sums)[S::EACH][S::EACH]) {
  uint64_t near = 0;
#pragma unroll
  for (int i = 0; i < S::EACH; i++)
#pragma unroll
    for (int j = 0; j < S::EACH; j++)
      near |= static_cast<uint64_t>(adji_gpu_finish<STEP>(sums[i][j]) <= job.limit) << (i * S::EACH + j);
  return near;
}

/* The bits of rows and columns that exist. */
template <class T, class S>
__device__ __forceinline__ uint64_t find_present(const all_pairs<T> &job, const block_shared<T, S> &at,
                                                 uint32_t first_column) {
  uint64_t present = 0;
  uint32_t columns = 0;
#pragma unroll
  for (int j = 0; j < S::EACH; j++)
    columns |= static_cast<uint32_t>(first_column + column_of<S>(j) < job.right_count) << j;
#pragma unroll
  for (int i = 0; i < S::EACH; i++)
    if (at.positions[row_of<S>(i)] != NO_POSITION) present |= static_cast<uint64_t>(columns) << (i * S::EACH);
  return present;
}

/* If mirrored, the first of two points in the order of the index finds the other, and itself if that counts. */
template <class T, class S>
__device__ __forceinline__ hits mirror(const all_pairs<T> &job, const block_shared<T, S> &at, uint32_t first_column,
                                       uint64_t near) {
  hits found = {0, 0};
#pragma unroll
  for (int i = 0; i < S::EACH; i++) {
    uint32_t position = at.positions[row_of<S>(i)], id = at.row_ids[row_of<S>(i)];
#pragma unroll
    for (int j = 0; j < S::EACH; j++) {
      uint64_t bit = near & UINT64_C(1) << (i * S::EACH + j);
      uint32_t column = first_column + column_of<S>(j);
      if (column < position || (column == position && job.keep != ADJI_KEEP_ALL)) bit = 0;
      bool above = job.keep != ADJI_KEEP_ABOVE || at.column_ids[column_of<S>(j)] > id;
      bool other = column != position && (job.keep != ADJI_KEEP_ABOVE || !above);
      if (above) found.rows |= bit;
      if (other) found.columns |= bit;
    }
  }
  return found;
}

/* If not mirrored, every query finds its own neighbours. */
template <class T, class S>
__device__ __forceinline__ hits keep_own(const all_pairs<T> &job, const block_shared<T, S> &at, uint64_t near) {
  if (job.keep == ADJI_KEEP_ALL) return hits{near, 0};
  uint64_t kept = 0;
#pragma unroll
  for (int i = 0; i < S::EACH; i++) {
    uint32_t query_id = at.row_ids[row_of<S>(i)];
#pragma unroll
    for (int j = 0; j < S::EACH; j++) {
      uint32_t id = at.column_ids[column_of<S>(j)];
      bool stays = job.keep == ADJI_KEEP_ABOVE ? id > query_id : id != query_id;
      kept |= static_cast<uint64_t>(stays) << (i * S::EACH + j);
    }
  }
  return hits{near & kept, 0};
}

/* ---- 3. Counts ---------------------------------------------------------------------------------------------- */

/* Counts the bits of each line, a row or a column, and packs four counts into a word. The sum over the lanes of a warp
 * that share a line is at most 64 for rows and 32 for columns, so it fits. STRIDE: from a bit of a line to the next;
 * APART: from a line to the next. */
template <class S, int STRIDE, int APART>
__device__ __forceinline__ void pack_counts(uint64_t bits, uint32_t (&words)[(S::EACH + 3) / 4]) {
  uint64_t line = 0;
#pragma unroll
  for (int j = 0; j < S::EACH; j++)
    line |= UINT64_C(1) << (j * STRIDE);
#pragma unroll
  for (int i = 0; i < S::EACH; i++) {
    uint32_t many = __popcll(bits >> (i * APART) & line);
    words[i / 4] = (i % 4 ? words[i / 4] : 0) | many << (i % 4 * 8);
  }
}

template <class S>
__device__ __forceinline__ void add_words(uint32_t (&words)[(S::EACH + 3) / 4], uint32_t first, uint32_t last) {
#pragma unroll
  for (int w = 0; w < (S::EACH + 3) / 4; w++)
    for (uint32_t step = first; step <= last; step *= 2)
      words[w] += __shfl_xor_sync(ALL_LANES, words[w], step);
}

template <class T, class S>
__device__ __forceinline__ void count_rows(uint64_t bits, block_shared<T, S> *at) {
  uint32_t words[(S::EACH + 3) / 4];
  pack_counts<S, 1, S::EACH>(bits, words);
  add_words<S>(words, 1, 4);
  if (threadIdx.x % 8) return;
#pragma unroll
  for (int i = 0; i < S::EACH; i++) {
    uint32_t many = words[i / 4] >> (i % 4 * 8) & 255;
    if (many) atomicAdd(&at->row_found[row_of<S>(i)], many);
  }
}

template <class T, class S>
__device__ __forceinline__ void count_columns(uint64_t bits, block_shared<T, S> *at) {
  uint32_t words[(S::EACH + 3) / 4];
  pack_counts<S, S::EACH, 1>(bits, words);
  add_words<S>(words, 8, 16);
  if (threadIdx.x % ADJI_WARP >= 8) return;
#pragma unroll
  for (int j = 0; j < S::EACH; j++) {
    uint32_t many = words[j / 4] >> (j % 4 * 8) & 255;
    if (many) atomicAdd(&at->column_found[column_of<S>(j)], many);
  }
}

/* ---- 4. What is kept ---------------------------------------------------------------------------------------- */

template <int STEP, class T, class S>
__device__ __forceinline__ void write_pairs(const all_pairs<T> &job, const block_shared<T, S> &at, const hits &found,
                                            const T (&sums)[S::EACH][S::EACH]) {
  uint32_t lane = threadIdx.x % ADJI_WARP;
  uint64_t bits = found.rows | found.columns;
  uint32_t many = __popcll(bits), before = many;
#pragma unroll
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    uint32_t other = __shfl_up_sync(ALL_LANES, before, step);
    if (lane >= step) before += other;
  }
  uint32_t all = __shfl_sync(ALL_LANES, before, ADJI_WARP - 1);
  if (!all) return;
  uint64_t to = request_items(job, all, lane) + before - many;
#pragma unroll
  for (int i = 0; i < S::EACH; i++)
#pragma unroll
    for (int j = 0; j < S::EACH; j++) {
      if (!(bits >> (i * S::EACH + j) & 1)) continue;
      uint32_t row = at.row_ids[row_of<S>(i)], id = at.column_ids[column_of<S>(j)];
      bool swap = job.keep == ADJI_KEEP_ABOVE && id < row;
      if (to < job.pair_room) {
        job.pairs[to] = swap ? adji_gpu_pair{id, row} : adji_gpu_pair{row, id};
        if (job.sums) job.sums[to] = adji_gpu_finish<STEP>(sums[i][j]);
      }
      to++;
    }
}

template <int STEP, class T, class S>
__device__ __forceinline__ void fill_rows(const all_pairs<T> &job, block_shared<T, S> *at, uint64_t bits,
                                          const T (&sums)[S::EACH][S::EACH]) {
#pragma unroll
  for (int i = 0; i < S::EACH; i++) {
    uint32_t line = static_cast<uint32_t>(bits >> (i * S::EACH)) & ((1u << S::EACH) - 1);
    if (!line) continue;
    const uint64_t *bounds = bounds_of(job, at->row_ids[row_of<S>(i)]);
    uint64_t entry = atomicAdd(&at->row_found[row_of<S>(i)], __popc(line)), length = bounds[1] - bounds[0];
    uint64_t begin = bounds[0] - job.base;
#pragma unroll
    for (int j = 0; j < S::EACH; j++) {
      if (!(line >> j & 1)) continue;
      if (entry < length) {
        job.ids[begin + entry] = at->column_ids[column_of<S>(j)];
        if (job.sums) job.sums[begin + entry] = adji_gpu_finish<STEP>(sums[i][j]);
      }
      entry++;
    }
  }
}

/* ---- The kernel --------------------------------------------------------------------------------------------- */

/* The number of right points of a tile that the query at a position is compared with. */
template <class T, class S>
__device__ __forceinline__ uint32_t candidates_of(const all_pairs<T> &job, uint32_t position, uint32_t first) {
  uint32_t end = job.right_count - first < S::COLUMNS ? job.right_count : first + S::COLUMNS;
  if (position == NO_POSITION) return 0;
  uint32_t begin = !job.mirrored ? 0 : position + (job.keep != ADJI_KEEP_ALL);
  if (begin < first) begin = first;
  return begin < end ? end - begin : 0;
}

/* What a thread adds to the totals. */
struct thread_totals {
  uint64_t found, candidates, slots;
};

/* Steps 2 to 4. */
template <int STEP, class T, class S>
__device__ __forceinline__ void use_sums(const all_pairs<T> &job, block_shared<T, S> *at, uint32_t first_column,
                                         const T (&sums)[S::EACH][S::EACH], thread_totals *totals) {
  uint64_t near = find_near<STEP, T, S>(job, sums);
  if (near) near &= find_present<T, S>(job, *at, first_column);
  hits found = {0, 0};
  if (near) found = job.mirrored ? mirror<T, S>(job, *at, first_column, near) : keep_own<T, S>(job, *at, near);
  if (!__syncthreads_or((found.rows | found.columns) != 0)) return; /* the tiles are no longer read */
  totals->found += __popcll(found.rows) + __popcll(found.columns);
  if (job.ids) {
    fill_rows<STEP, T, S>(job, at, found.rows, sums);
  } else {
    if (job.degrees) count_rows<T, S>(found.rows, at);
    if (job.pairs) write_pairs<STEP, T, S>(job, *at, found, sums);
  }
  if (job.mirrored && job.degrees) count_columns<T, S>(found.columns, at);
  __syncthreads(); /* the counts of columns are complete */
  for (uint32_t c = threadIdx.x; job.mirrored && job.degrees && c < S::COLUMNS; c += S::THREADS) {
    uint32_t many = at->column_found[c];
    if (many) atomicAdd(job.degrees + at->column_ids[c], many);
  }
}

template <class T, class S>
__device__ __forceinline__ void close_rows(const all_pairs<T> &job, const block_shared<T, S> &at,
                                           thread_totals totals) {
  uint32_t lane = threadIdx.x % ADJI_WARP, broken = 0;
  __syncthreads();
  for (uint32_t r = threadIdx.x; r < S::ROWS; r += S::THREADS) {
    if (at.positions[r] == NO_POSITION) continue;
    uint32_t many = at.row_found[r];
    const uint64_t *bounds = bounds_of(job, at.row_ids[r]);
    if (job.ids)
      broken += many != bounds[1] - bounds[0];
    else if (job.degrees && many)
      atomicAdd(job.degrees + at.row_ids[r], many);
  }
  __syncwarp();
  if (job.ids) {
    adji_answer_add(job.spread_answers + 2 * ADJI_SPREAD, broken, lane);
    return;
  }
  adji_answer_add(job.spread_answers, totals.found, lane);
  adji_answer_add(job.spread_answers + ADJI_SPREAD, totals.candidates, lane);
  adji_answer_add(job.spread_answers + 4 * ADJI_SPREAD, totals.slots, lane);
}

template <class T, int STEP, class S>
__global__ void __launch_bounds__(S::THREADS, 512 / S::THREADS)
    join_all_pairs(const __grid_constant__ all_pairs<T> job) {
  __shared__ __align__(16) block_shared<T, S> at;
  open_rows(job, &at);
  uint64_t first_query = job.first_query + blockIdx.x * static_cast<uint64_t>(S::ROWS);
  uint64_t remaining = job.query_count - blockIdx.x * static_cast<uint64_t>(S::ROWS);
  /* The last stretches come first: if mirrored, these are compared with all queries. */
  uint32_t tile = (gridDim.y - 1 - blockIdx.y) * job.stretch, end = tile + job.stretch;
  uint32_t diagonal = at.positions[0] / S::COLUMNS;
  if (end > job.column_tiles) end = job.column_tiles;
  if (job.mirrored && tile < diagonal) tile = diagonal; /* the positions of queries ascend */
  index_source<T, S> source = {&job, at.positions, first_query,
                               remaining < S::ROWS ? static_cast<uint32_t>(remaining) : static_cast<uint32_t>(S::ROWS),
                               0};
  thread_totals totals = {0, 0, 0};
  for (; tile < end; tile++) {
    uint32_t first_column = tile * S::COLUMNS;
    source.first_point = first_column;
    open_columns(job, first_column, &at);
    T sums[S::EACH][S::EACH];
    sum_tile<STEP, T, S>(job.measure, job.dim, &source, at.tiles, sums);
    if (threadIdx.x < S::ROWS) totals.candidates += candidates_of<T, S>(job, at.positions[threadIdx.x], first_column);
    totals.slots += S::EACH * S::EACH;
    use_sums<STEP, T, S>(job, &at, first_column, sums, &totals);
  }
  close_rows(job, at, totals);
}

/* ---- Launching ---------------------------------------------------------------------------------------------- */

template <class T>
all_pairs<T> with_types(const adji_tiles_job *job) {
  all_pairs<T> p = {*job};
  p.left = static_cast<const T *>(job->left->coords);
  p.right = static_cast<const T *>(job->right->coords);
  p.left_step = job->left->dim_step;
  p.right_step = job->right->dim_step;
  p.left_ids = job->left->ids;
  p.right_ids = job->right->ids;
  p.right_count = static_cast<uint32_t>(job->right->count);
  p.aligned = !job->queries && job->first_query % (16 / sizeof(T)) == 0;
  p.limit = static_cast<T>(job->limit);
  p.sums = static_cast<T *>(job->sums);
  p.measure = adji_gpu_measure<T>{job->measure->power, static_cast<const T *>(job->box)};
  return p;
}

/* Stretches are short enough for WAVES times as many blocks as run at a time, so that the last blocks end at about the
 * same time. */
enum { WAVES = 8, LONGEST_STRETCH = 16, MOST_STRETCHES = 65535 };

template <class T, int STEP, class S>
adj_status launch_shape(adji_gpu *gpu, cudaStream_t stream, all_pairs<T> p, bool whole) {
  uint32_t row_tiles = adji_blocks_for(p.query_count, S::ROWS);
  p.column_tiles = adji_blocks_for(p.right_count, S::COLUMNS);
  uint32_t wanted = static_cast<uint32_t>(gpu->multiprocessors) * WAVES * (512 / S::THREADS) / row_tiles + 1;
  uint32_t longest = adji_blocks_for(p.column_tiles, MOST_STRETCHES);
  p.stretch = adji_blocks_for(p.column_tiles, wanted);
  if (p.stretch > LONGEST_STRETCH) p.stretch = LONGEST_STRETCH;
  if (p.stretch < longest) p.stretch = longest;
  if (p.ids || whole) p.stretch = p.column_tiles;
  dim3 grid(row_tiles, adji_blocks_for(p.column_tiles, p.stretch));
  join_all_pairs<T, STEP, S><<<grid, S::THREADS, 0, stream>>>(p);
  ADJI_LAUNCHED(gpu, "join_all_pairs");
  return ADJ_OK;
}

/* Kernels for powers have smaller tiles: their steps are long, and none of them waits for a load. */
template <class T>
adj_status launch_step(adji_gpu *gpu, cudaStream_t stream, const adji_tiles_job *job, bool whole) {
  all_pairs<T> p = with_types<T>(job);
  switch (job->measure->step) {
#define LAUNCH(NAME, GROUPS) \
  case ADJI_STEP_##NAME:     \
    return launch_shape<T, ADJI_STEP_##NAME, register_shape<T, 4, 2, GROUPS>>(gpu, stream, p, whole);
    LAUNCH(L2, 2)
    LAUNCH(L1, 2)
    LAUNCH(LINF, 2)
    LAUNCH(DOT, 2)
    LAUNCH(LP, 1)
    LAUNCH(L2_BOX, 2)
    LAUNCH(L1_BOX, 2)
    LAUNCH(LINF_BOX, 2)
    LAUNCH(LP_BOX, 1)
#undef LAUNCH
    default:
      return adji_fail(ADJ_E_INTERNAL, "measure: step %d has no kernel", static_cast<int>(job->measure->step));
  }
}

}  // namespace

#endif
