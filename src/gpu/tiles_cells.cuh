/* SPDX-License-Identifier: MIT
 *
 * What the kernel of the range join gets, and how it looks up the candidates around a cell: tiles_kernel.cuh.
 */
#ifndef ADJI_TILES_CELLS_CUH
#define ADJI_TILES_CELLS_CUH

#include "gpu/tiles.cuh"

namespace {

enum { MOST_WARPS = 4, TOGETHER = 4, MANY_TOGETHER = 8, CHECK_EVERY = 8 };
/* The queue: entries of a lane, of which up to 31 wait and a few are found before it is looked at again; or, where
 * candidates are shared out, of a few queries, of which each can find 32 at once. */
enum { QUEUE = 40, BETWEEN = 8, FLAT_QUERIES = 16, FLAT_QUEUE = 64 };
static_assert(QUEUE >= ADJI_WARP - 1 + BETWEEN && FLAT_QUEUE >= 2 * ADJI_WARP - 1, "a queue must not run over");
static_assert(QUEUE * (ADJI_WARP + 1) >= FLAT_QUEUE * (FLAT_QUERIES + 1), "both use the same memory");
constexpr uint32_t ALL_LANES = 0xffffffffu;

/* What the kernel gets: adji_tiles_job with its types. */
template <class T>
struct tiles {
  const T *left_coords, *right_coords;
  uint64_t left_stride, right_stride;
  const uint32_t *left_ids, *right_ids;
  const void *left_numbers;
  bool wide_numbers;
  adji_gpu_cells cells;
  const int64_t *row_steps;
  uint32_t row_count, reach;
  int64_t cell_rows;   /* rows of cells                                                           */
  uint64_t row_stride; /* numbers of cells in a row of them                                       */
  uint64_t spread;     /* over how many cells queries may be spread to be compared together       */
  uint32_t dim;
  adji_gpu_near near; /* which rows of cells are near enough to a query */
  bool staged;        /* queries and candidates of many dimensions fit into shared memory            */
  bool same_sets;     /* positions on both sides are of one index: a query is its own candidate there */
  T limit;
  adji_gpu_measure<T> measure;
  adji_gpu_keep keep;
  const uint32_t *queries;
  uint64_t first_query, query_count;
  uint32_t lanes; /* queries a warp */
  uint32_t *degrees;
  unsigned long long *answers, *spread_answers;
  const uint64_t *offsets;
  uint64_t base;
  uint32_t *ids;
  T *sums;
  adji_gpu_piece *pieces;
  uint64_t piece_room;
};

struct range {
  uint32_t begin, count;
};

/* What makes a row of cells too far away for queries at known places in their cell: see find_gaps(). Of the sum of the
 * squares over the axes, two parts for all combinations of slabs. */
enum { FIRST_SUMS = 81, REST_SUMS = 27 };
struct gaps {
  float squares[ADJI_MAX_AXES - 1][3];
  float first[FIRST_SUMS], rest[REST_SUMS];
};

/* The ranges of a round, one behind the other: entry i holds the candidates numbered first[i] and on, at positions
 * shift[i] later. */
struct range_list {
  uint32_t first[ADJI_WARP], shift[ADJI_WARP];
  uint32_t count, total;
};

/* The first of the cells low .. high - 1 that is numbered `number` or more. */
__device__ __forceinline__ uint32_t search_cells(const adji_gpu_cells &cells, uint32_t low, uint32_t high,
                                                 uint64_t number) {
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (cells.numbers[middle] < number)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Among which cells those numbered from `number` on begin: a bucket of the directory, or a row of cells. */
struct cell_span {
  uint32_t low, high;
};

__device__ __forceinline__ cell_span bucket_of(const adji_gpu_cells &cells, uint64_t number) {
  uint64_t bucket = number >> cells.shift;
  if (bucket > cells.last) return cell_span{cells.count, cells.count};
  return cell_span{cells.directory[bucket], cells.directory[bucket + 1]};
}

__device__ __forceinline__ cell_span row_span(const adji_gpu_cells &cells, uint64_t row) {
  for (uint64_t at = adji_row_hash(row) & cells.row_mask;; at = (at + 1) & cells.row_mask) {
    uint4 found = *reinterpret_cast<const uint4 *>(cells.rows + at);
    uint64_t key = static_cast<uint64_t>(found.y) << 32 | found.x;
    if (key == row) return cell_span{found.z, found.z + found.w};
    if (key == ADJI_NO_ROW) return cell_span{0, 0};
  }
}

/* The positions of the cells first .. end_cell - 1 of a row of cells. */
template <class T>
__device__ __forceinline__ range cells_of_row(const tiles<T> &job, int64_t row, uint64_t first, uint64_t end_cell) {
  if (row < 0 || row >= job.cell_rows) return range{0, 0};
  uint64_t base = static_cast<uint64_t>(row) * job.row_stride;
  uint64_t from = base + first, to = base + end_cell;
  if (to > job.cells.keys) to = job.cells.keys;
  if (!job.cells.numbers) {
    uint32_t begin = job.cells.directory[from];
    return range{begin, job.cells.directory[to] - begin};
  }
  cell_span span = job.cells.rows ? row_span(job.cells, static_cast<uint64_t>(row)) : bucket_of(job.cells, from);
  if (job.cells.rows && span.low == span.high) return range{0, 0};
  uint32_t cell = search_cells(job.cells, span.low, span.high, from), end = cell;
  uint32_t most = job.cells.rows ? span.high : job.cells.count;
  if (to - from <= 8) {
    while (end < most && job.cells.numbers[end] < to)
      end++;
  } else {
    cell_span rest = job.cells.rows ? cell_span{cell, span.high} : bucket_of(job.cells, to);
    end = search_cells(job.cells, rest.low > cell ? rest.low : cell, rest.high, to);
  }
  uint32_t begin = job.cells.starts[cell];
  return range{begin, job.cells.starts[end] - begin};
}

/* The positions of the cells first .. last of a row of cells, and `reach` more to either side. */
template <class T>
__device__ __forceinline__ range row_of_cells(const tiles<T> &job, int64_t row, uint64_t first, uint64_t last) {
  return cells_of_row(job, row, first > job.reach ? first - job.reach : 0, last + job.reach + 1);
}

/* Cells of one row: those of some queries. */
struct cell_stretch {
  int64_t row;
  uint64_t first, last; /* in the row */
};

/* Step 1: each lane one row of cells around the stretch, if it is wanted. */
template <class T>
__device__ __forceinline__ void list_ranges(const tiles<T> &job, const cell_stretch &around, uint32_t row, bool wanted,
                                            uint32_t lane, range_list *list) {
  range mine = {0, 0};
  if (wanted) mine = row_of_cells(job, around.row + job.row_steps[row], around.first, around.last);
  uint32_t some = __ballot_sync(ALL_LANES, mine.count > 0);
  uint32_t sum = mine.count;
#pragma unroll
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    uint32_t before = __shfl_up_sync(ALL_LANES, sum, step);
    if (lane >= step) sum += before;
  }
  __syncwarp(); /* nobody reads the last list any more */
  if (mine.count) {
    uint32_t at = __popc(some & ((1u << lane) - 1));
    list->first[at] = sum - mine.count;
    list->shift[at] = mine.begin - (sum - mine.count);
  }
  if (lane == ADJI_WARP - 1) {
    list->count = __popc(some);
    list->total = sum;
  }
  __syncwarp();
}

/* The position of a candidate by its number in the list. */
__device__ __forceinline__ uint32_t position_of(const range_list *list, uint32_t number) {
  uint32_t at = 0, count = list->count;
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
    if (at + step < count && list->first[at + step] <= number) at += step;
  return number + list->shift[at];
}

__device__ __forceinline__ uint64_t number_at(const void *numbers, bool wide, uint64_t position) {
  return wide ? static_cast<const uint64_t *>(numbers)[position] : static_cast<const uint32_t *>(numbers)[position];
}

}  // namespace

#endif
