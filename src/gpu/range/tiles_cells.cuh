/* SPDX-License-Identifier: MIT
 *
 * The input of the range join's kernels, and the look-up of the candidates around a cell. Part of tiles_kernel.cuh.
 */
#ifndef ADJI_GPU_RANGE_TILES_CELLS_CUH
#define ADJI_GPU_RANGE_TILES_CELLS_CUH

#include "gpu/range/tiles_job.cuh"

namespace {

enum { DENSE_QUERIES = 8, MOST_WARPS = 4, TILED_CANDIDATES = 4, TILED_CANDIDATES_ANY = 8, CHECK_EVERY = 8 };
/* The room of a queue, in entries. A lane's queue has up to 31 waiting entries and a few that are found before the next
 * check. Where rows are short it is half as long, which leaves more memory to the cache. In many dimensions a queue
 * belongs to one of a few queries, and each of these can find 64 entries at once. */
enum { QUEUE = 40, SHORT_QUEUE = 24, BETWEEN = 8, HIGH_DIM_QUERIES = 6, HIGH_DIM_QUEUE = 96 };
static_assert(SHORT_QUEUE >= ADJI_WARP / 2 - 1 + BETWEEN && QUEUE >= ADJI_WARP - 1 + BETWEEN &&
                  HIGH_DIM_QUEUE >= 3 * ADJI_WARP - 1,
              "a queue must not run over");
constexpr uint32_t ALL_LANES = 0xffffffffu;

/* The points of an index. */
template <class T>
struct coordinates {
  const T *coords;
  uint64_t point_step, dim_step;
  __device__ __forceinline__ const T &at(uint64_t position, uint32_t j) const {
    return coords[position * point_step + j * dim_step];
  }
};

/* The cells of the right set, as kernels look them up. */
struct cell_index {
  bool wide_numbers;
  adji_gpu_cells cells;
  const int64_t *row_steps;
  const uint32_t *row_reach;
  uint32_t row_count, reach;
  int64_t cell_rows;   /* rows of cells */
  uint64_t row_stride; /* number of cell numbers in a row of cells */
  bool exact;          /* look up exactly the candidates of the requested cells, and no others */
};

inline cell_index index_of_cells(const adji_gpu_grid *grid, const adji_gpu_index *right, bool exact) {
  int64_t rows = static_cast<int64_t>((grid->keys + grid->row_stride - 1) / grid->row_stride);
  return cell_index{
      right->wide_numbers, right->cells, grid->row_steps, grid->row_reach, grid->row_count, grid->reach, rows,
      grid->row_stride,    exact};
}

/* adji_tiles_job with types, as kernels read it. */
template <class T>
struct tiles : adji_tiles_task, cell_index {
  coordinates<T> left, right;
  const uint32_t *left_ids, *right_ids;
  const void *left_numbers;
  uint64_t spread;    /* most cells that the queries of a dense place may span */
  uint32_t group;     /* where cells hold few points: number of cells of a row that share look-ups */
  adji_gpu_near near; /* tests which rows of cells are near enough to a query */
  bool staged;        /* queries and candidates in many dimensions fit into shared memory */
  bool same_sets;     /* both sets are the same index, so a query is its own candidate */
  T limit;
  adji_gpu_measure<T> measure;
  uint32_t line, queue; /* entries that a lane's queue writes at once, and its room */
  T *sums;
  adji_step step; /* for kernels of RARE_STEP */
};

/* Steps that are too rare for kernels of their own share one, which reads the step from the job. The loops over
 * dimensions are inside SWITCH_RARE_STEP, so that the switch costs next to nothing. */
constexpr int RARE_STEP = -1;
#define SWITCH_RARE_STEP(step, DO) \
  switch (step) {                  \
    case ADJI_STEP_L1_BOX:         \
      DO(ADJI_STEP_L1_BOX);        \
      break;                       \
    case ADJI_STEP_LINF_BOX:       \
      DO(ADJI_STEP_LINF_BOX);      \
      break;                       \
    case ADJI_STEP_LP_BOX:         \
      DO(ADJI_STEP_LP_BOX);        \
      break;                       \
    default:                       \
      DO(ADJI_STEP_LP);            \
  }

/* The sum s plus the term of dimension j. */
template <class W, class T>
__device__ __forceinline__ T add_term(const tiles<T> &job, T s, T x, T c, uint32_t j) {
  if constexpr (W::STEP != RARE_STEP) return adji_gpu_step<W::STEP>(s, x, c, job.measure, j);
#define ADD(STEP) s = adji_gpu_step<STEP>(s, x, c, job.measure, j)
  SWITCH_RARE_STEP(job.step, ADD)
#undef ADD
  return s;
}

struct range {
  uint32_t begin, count;
};

/* Finds rows of cells that are too far from queries whose places in their cell are known: see find_gaps(). The squared
 * gaps, summed over the axes in two parts, for all combinations of slabs. */
struct gaps {
  float squares[ADJI_MAX_AXES - 1][3];
  float first[ADJI_NEAR_FIRST], rest[ADJI_NEAR_REST];
  float least, most; /* where the queries are on the last axis, in cells, relative to the first */
};

/* Non-empty ranges, one after the other, in shared memory: entry i holds the candidates from number first[i] on;
 * their positions are shift[i] higher. */
struct range_list {
  uint32_t first[2 * ADJI_WARP], shift[2 * ADJI_WARP];
};

/* How far the list is filled and read. The same in all lanes. */
struct progress {
  uint32_t count, total; /* ranges, and their candidates */
  uint32_t range;        /* the range of the next candidate, or the one before */
};

__device__ __forceinline__ uint64_t number_at(const void *numbers, bool wide, uint64_t position) {
  return wide ? static_cast<const uint64_t *>(numbers)[position] : static_cast<const uint32_t *>(numbers)[position];
}

/* The first of positions low .. high - 1 whose cell number is at least `number`. */
__device__ __forceinline__ uint32_t search_positions(const adji_gpu_cells &cells, bool wide, uint32_t low,
                                                     uint32_t high, uint64_t number) {
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (number_at(cells.position_numbers, wide, middle) < number)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

/* Rows of cells with no more points than this are compared whole: that takes less time than a search. */
enum { SHORT_ROW = 4 };

/* The positions of cells from .. to - 1 of a row, and perhaps those of other cells of the row. */
__device__ __forceinline__ range range_in_row(const cell_index &job, uint64_t row, uint64_t from, uint64_t to) {
  const adji_gpu_cells &cells = job.cells;
  for (uint64_t at = adji_row_hash(row) & cells.row_mask;; at = (at + 1) & cells.row_mask) {
    uint4 found = __ldg(reinterpret_cast<const uint4 *>(cells.rows + at));
    uint64_t key = static_cast<uint64_t>(found.y) << 32 | found.x;
    if (key == ADJI_NO_ROW) return range{0, 0};
    if (key != row) continue;
    uint32_t begin = found.z, end = found.z + found.w;
    if (found.w > (job.exact ? 0 : SHORT_ROW)) {
      begin = search_positions(cells, job.wide_numbers, begin, end, from);
      end = search_positions(cells, job.wide_numbers, begin, end, to);
    }
    return range{begin, end - begin};
  }
}

/* The positions of the cells first .. last of a row of cells. */
__device__ __forceinline__ range range_of_cells(const cell_index &job, int64_t row, uint64_t first, uint64_t last) {
  if (row < 0 || row >= job.cell_rows) return range{0, 0};
  uint64_t base = static_cast<uint64_t>(row) * job.row_stride, from = base + first, to = base + last + 1;
  if (to > job.cells.keys) to = job.cells.keys;
  const adji_gpu_cells &cells = job.cells;
  if (cells.rows) return range_in_row(job, static_cast<uint64_t>(row), from, to);
  uint64_t low = from >> cells.shift, high = to >> cells.shift;
  uint32_t begin = cells.directory[low], end = cells.directory[high];
  if (cells.shift) {
    begin = search_positions(cells, job.wide_numbers, begin, cells.directory[low + 1], from);
    end = search_positions(cells, job.wide_numbers, begin > end ? begin : end, cells.directory[high + 1], to);
  }
  return range{begin, end - begin};
}

/* The positions of the cells first .. last, and of those within reach on either side, in row number `number` of the
 * rows around row `around`. */
__device__ __forceinline__ range row_of_cells(const cell_index &job, int64_t around, uint32_t number, uint64_t first,
                                              uint64_t last) {
  uint32_t reach = job.row_reach ? job.row_reach[number] : job.reach;
  if (reach == ADJI_NO_REACH) return range{0, 0};
  return range_of_cells(job, around + job.row_steps[number], first > reach ? first - reach : 0, last + reach);
}

/* Consecutive cells of one row, which hold some queries. */
struct cell_stretch {
  int64_t row;
  uint32_t first, last; /* within the row */
};

/* Step 1: appends each lane's range to the list, unless it is empty. There must be room for 32. */
__device__ __forceinline__ void add_ranges(range_list *list, progress *p, range own_range, uint32_t lane) {
  uint32_t some = __ballot_sync(ALL_LANES, own_range.count > 0);
  uint32_t sum = own_range.count;
#pragma unroll
  for (uint32_t step = 1; step < ADJI_WARP; step *= 2) {
    uint32_t before = __shfl_up_sync(ALL_LANES, sum, step);
    if (lane >= step) sum += before;
  }
  if (own_range.count) {
    uint32_t at = p->count + __popc(some & ((1u << lane) - 1)), first = p->total + sum - own_range.count;
    list->first[at] = first;
    list->shift[at] = own_range.begin - first;
  }
  p->count += __popc(some);
  p->total += __shfl_sync(ALL_LANES, sum, ADJI_WARP - 1);
  __syncwarp();
}

/* The position of candidate number done + lane. p->range is the range of candidate number `done`, or the one before it.
 * The ranges that begin among these 32 candidates are bits of a word; each lane counts those up to its own
 * candidate. */
__device__ __forceinline__ uint32_t next_position(const range_list *list, progress *p, uint32_t done, uint32_t lane) {
  uint32_t next = p->range + 1 + lane;
  uint32_t ahead = next < p->count ? list->first[next] - done : ADJI_WARP;
  uint32_t heads = __reduce_or_sync(ALL_LANES, ahead < ADJI_WARP ? 1u << ahead : 0);
  uint32_t range = p->range + __popc(heads & ((2u << lane) - 1));
  p->range += __popc(heads);
  return done + lane + list->shift[range];
}

}  // namespace

#endif
