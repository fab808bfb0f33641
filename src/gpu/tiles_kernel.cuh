/* SPDX-License-Identifier: MIT
 *
 * The kernel of the range join.
 *
 * Computes: for each query q, the candidates c in cells within reach of q's whose canonical sum s(q, c) is at most
 * the limit: how many (counting), or their ids in q's row of the result (filling).
 *
 * A warp owns 32 queries that follow each other in the order of the grid, lane i the i-th of them: its coordinates, its
 * count, its row. A stretch of them that lies in one row of cells, not spread wider than a few cells, is compared
 * together with the candidates of all of them:
 *
 *   1. ranges     lanes look up rows of cells, 32 at a time: each is one range of positions. Non-empty ones go to a
 *                 list in shared memory, with their lengths added up, as if they were one long range.
 *   2. stage      lanes take one candidate each from the long range, and put its coordinates into shared memory.
 *   3. compare    every lane its own query with the 32 candidates, which all lanes read at once.
 *
 * Where cells hold few points, in up to three dimensions, queries are compared each with its own candidates only: every
 * lane looks up its own ranges and reads from them what it needs; what neighbours read is near. In more dimensions
 * there are too many rows of cells for that: the warp takes the queries cell by cell, lanes look up the rows that are
 * not provably too far away, and share out their candidates.
 *
 * Counting adds up in registers. Otherwise ids wait in a queue in shared memory, and when there are enough for a line
 * the warp writes them: to the row, of which place and length are known (filling), or to a piece of 32 entries that
 * remembers its row (pieces, when the lengths are being counted). No position is counted in memory but that of the
 * pieces, by 16 of them; rows are written front to back, and never get more entries than were counted.
 *
 * Grid: one warp for 32 queries. No block waits for another.
 *
 * Limits: instruction issue for dense cells (2-D: about 10 instructions for 32 comparisons when counting); latency
 * of the look-ups where a cell has few points.
 */
#ifndef ADJI_TILES_KERNEL_CUH
#define ADJI_TILES_KERNEL_CUH

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

/* The positions of the cells first .. last of a row of cells, and `reach` more to either side. */
template <class T>
__device__ __forceinline__ range row_of_cells(const tiles<T> &job, int64_t row, uint64_t first, uint64_t last) {
  if (row < 0 || row >= job.cell_rows) return range{0, 0};
  uint64_t base = static_cast<uint64_t>(row) * job.row_stride;
  uint64_t from = base + (first > job.reach ? first - job.reach : 0), to = base + last + job.reach + 1;
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

/* ---- A warp -------------------------------------------------------------------------------------------------- */

/* A lane's own query. */
template <class T, int DIM>
struct own {
  uint64_t position;
  int64_t cell_row; /* its cell: the row of cells, and where in it */
  uint64_t cell;
  uint32_t row;            /* of the result                         */
  uint32_t found, written; /* entries found, and already written   */
  uint32_t tail;           /* where in the queue the next one goes  */
  uint32_t past;           /* how far its row begins behind a multiple of 32; 0 once that is reached */
  T x[DIM ? DIM : 1];
};

/* Where a query's entries go, for the lanes that write them. */
struct target {
  uint64_t place;   /* of its row in ids; or the number of its row */
  uint32_t written; /* entries that are there                      */
  uint32_t room;    /* entries the row has room for                */
};

/* Pieces of 32 entries that the warp may still fill. */
struct supply {
  uint64_t next, end;
};

/* Where the warp's shared memory is. */
template <class T>
struct shared {
  range_list *list;
  T *candidates; /* 32 a dimension                                        */
  uint32_t *ids; /* of them                                               */
  T *queries;    /* 32 a dimension, where they do not fit into registers  */
  T *points;     /* the warp's queries, 8 values each, where candidates are shared out */
  uint32_t *found, *rows;
  gaps *gap;
  target *targets; /* one a lane                                            */
  uint32_t *queue; /* entry e of lane l: see slot_of                        */
  T *sums;
};

/* What a kernel does: its template arguments in one. */
enum work { COUNT, IDS, IDS_AND_SUMS };

template <class TYPE, int STEP_, int DIM_, work WORK>
struct what {
  typedef TYPE T;
  static constexpr int STEP = STEP_, DIM = DIM_;
  static constexpr bool FILL = WORK != COUNT; /* ids are wanted, in rows or in pieces: not only how many there are */
  static constexpr bool SUMS = WORK == IDS_AND_SUMS;
  static constexpr bool FLAT = DIM == 0 || DIM > 3; /* many rows of cells around few queries */
  /* Whether a NaN among a candidate's coordinates makes sure that it does not belong. */
  static constexpr bool NAN_STAYS_OUT = STEP == ADJI_STEP_L2 || STEP == ADJI_STEP_L1 || STEP == ADJI_STEP_DOT;
};

/* ---- The queue ------------------------------------------------------------------------------------------------- */

enum { PIECES_AT_ONCE = 16 };

/* The number of a piece to fill; those beyond the room there is are counted, and not written. */
template <class T>
__device__ __forceinline__ uint64_t next_piece(const tiles<T> &job, supply *pieces, uint32_t lane) {
  if (pieces->next == pieces->end) {
    unsigned long long first = 0;
    if (lane == 0) first = atomicAdd(job.answers + ADJI_ANSWER_PIECES, static_cast<unsigned long long>(PIECES_AT_ONCE));
    pieces->next = __shfl_sync(ALL_LANES, first, 0);
    pieces->end = pieces->next + PIECES_AT_ONCE;
  }
  return pieces->next++;
}

/* Where entry e of lane l is in the queue; where candidates are shared out, first is the first of the lanes. Entries
 * that follow each other are in banks that do. */
enum layout { BY_LANE, SHARED_OUT };

template <layout LAYOUT>
__device__ __forceinline__ uint32_t slot_of(uint32_t e, uint32_t l, uint32_t first) {
  if (LAYOUT == BY_LANE) return e % QUEUE * (ADJI_WARP + 1) + l;
  return e % FLAT_QUEUE * (FLAT_QUERIES + 1) + l - first;
}

/* Writes the oldest `many` entries of lane l's queue. */
template <class W, layout LAYOUT, class T>
__device__ __forceinline__ void write_out(const tiles<T> &job, const shared<T> &at, supply *pieces, uint32_t many,
                                          uint32_t l, uint32_t first, uint32_t lane) {
  target to = at.targets[l];
  uint32_t entry = to.written + lane, slot = slot_of<LAYOUT>(entry, l, first);
  if (!job.pieces) {
    if (lane >= many || entry >= to.room) return;
    job.ids[to.place + entry] = at.queue[slot];
    if (W::SUMS) job.sums[to.place + entry] = at.sums[slot];
    return;
  }
  uint64_t piece = next_piece(job, pieces, lane);
  if (piece >= job.piece_room) return;
  if (lane == 0) job.pieces[piece] = adji_gpu_piece{static_cast<uint32_t>(to.place), to.written};
  if (lane >= many) return;
  job.ids[piece * ADJI_WARP + lane] = at.queue[slot];
  if (W::SUMS) job.sums[piece * ADJI_WARP + lane] = at.sums[slot];
}

/* The rest of all queues into pieces of their own, four queries at a time with eight lanes each: sectors are written
 * whole. It is called when no queue holds more than a piece. */
template <class W, layout LAYOUT, class T, int DIM>
__device__ __forceinline__ void end_in_pieces(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                              uint32_t first, uint32_t lane) {
  uint32_t pending = mine->found - mine->written;
  uint32_t due = __ballot_sync(ALL_LANES, pending > 0);
  if (!due) return;
  unsigned long long taken = 0;
  if (lane == 0) taken = atomicAdd(job.answers + ADJI_ANSWER_PIECES, static_cast<unsigned long long>(__popc(due)));
  uint64_t piece = __shfl_sync(ALL_LANES, taken, 0) + __popc(due & ((1u << lane) - 1));
  if (pending && piece < job.piece_room) job.pieces[piece] = adji_gpu_piece{mine->row, mine->written};
  uint32_t many = piece < job.piece_room ? pending : 0;
  __syncwarp();
  for (uint32_t l = lane / 8; l < ADJI_WARP; l += 4) {
    uint64_t to = __shfl_sync(ALL_LANES, piece, l) * ADJI_WARP;
    uint32_t end = __shfl_sync(ALL_LANES, many, l), written = __shfl_sync(ALL_LANES, mine->written, l);
    for (uint32_t e = lane % 8; e < end; e += 8) {
      uint32_t slot = slot_of<LAYOUT>(written + e, l, first);
      job.ids[to + e] = at.queue[slot];
      if (W::SUMS) job.sums[to + e] = at.sums[slot];
    }
  }
  __syncwarp();
  mine->written += pending;
  at.targets[lane].written = mine->written;
}

/* Writes of every queue that holds as much the entries up to the next multiple of 32 in memory, so that lines are
 * written once and whole; at the end, what is left in all of them. */
template <class W, layout LAYOUT, class T, int DIM>
__device__ __forceinline__ void flush(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, supply *pieces,
                                      bool end, uint32_t first, uint32_t lane) {
  if (end && job.pieces) {
    end_in_pieces<W, LAYOUT>(job, at, mine, first, lane);
    return;
  }
  uint32_t pending = mine->found - mine->written, line = ADJI_WARP - mine->past;
  uint32_t due = __ballot_sync(ALL_LANES, end ? pending > 0 : pending >= line);
  if (!due) return;
  __syncwarp();
  for (uint32_t left = due; left; left &= left - 1) {
    uint32_t l = __ffs(left) - 1;
    write_out<W, LAYOUT>(job, at, pieces, __shfl_sync(ALL_LANES, pending < line ? pending : line, l), l, first, lane);
  }
  __syncwarp();
  if (due >> lane & 1) {
    mine->written += pending < line ? pending : line;
    mine->past = 0;
    at.targets[lane].written = mine->written;
  }
}

template <class W, class T, int DIM>
__device__ __forceinline__ void finish_queue(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                             supply *pieces, uint32_t lane) {
  while (__any_sync(ALL_LANES, mine->found > mine->written))
    flush<W, BY_LANE>(job, at, mine, pieces, true, 0, lane);
}

template <class W, class T, int DIM>
__device__ __forceinline__ void keep(const shared<T> &at, own<T, DIM> *mine, bool belongs, uint32_t id, T s,
                                     uint32_t lane) {
  if (W::FILL && belongs) {
    at.queue[mine->tail] = id;
    if (W::SUMS) at.sums[mine->tail] = s;
    mine->tail += ADJI_WARP + 1;
    if (mine->tail >= QUEUE * (ADJI_WARP + 1)) mine->tail -= QUEUE * (ADJI_WARP + 1);
  }
  mine->found += belongs;
}

/* Whether a candidate that belongs is kept. The query itself, when it is only counted, is taken off at the end. */
template <class W, class T>
__device__ __forceinline__ bool stays(const tiles<T> &job, uint32_t id, uint32_t row) {
  if (job.keep == ADJI_KEEP_ABOVE) return id > row;
  return !W::FILL || job.keep == ADJI_KEEP_ALL || id != row;
}

/* Consecutive values of shared memory, 16 bytes at a time: from is aligned to as much. */
template <int MANY, class V>
__device__ __forceinline__ void load_all(const V *from, V (&to)[MANY]) {
  constexpr int EACH = 16 / sizeof(V);
#pragma unroll
  for (int i = 0; i < MANY; i += EACH) {
    uint4 four = *reinterpret_cast<const uint4 *>(from + i);
    memcpy(&to[i], &four, sizeof four);
  }
}

/* A candidate on its way to the stage. */
template <class W>
struct candidate {
  typename W::T x[W::DIM ? W::DIM : 1];
  uint32_t position, id;
};

/* ---- Together: all lanes with the same candidates ------------------------------------------------ */

/* Compares candidates first .. first + MANY - 1 of the stage. limit is NaN for lanes that do not take part. BY_ID: what
 * belongs also depends on the ids. */
template <class W, int MANY, bool BY_ID, class T, int DIM>
__device__ __forceinline__ void compare_some(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, T limit,
                                             uint32_t first, uint32_t valid, uint32_t lane) {
  T s[MANY];
#pragma unroll
  for (int u = 0; u < MANY; u++)
    s[u] = 0;
  if (DIM) {
#pragma unroll
    for (int j = 0; j < DIM; j++) {
      T c[MANY];
      load_all(at.candidates + j * ADJI_WARP + first, c);
#pragma unroll
      for (int u = 0; u < MANY; u++)
        s[u] = adji_gpu_step<W::STEP>(s[u], mine->x[j], c[u], job.measure, j);
    }
  } else {
    for (uint32_t j = 0; j < job.dim;) {
      uint32_t end = j + CHECK_EVERY < job.dim ? j + CHECK_EVERY : job.dim;
      for (; j < end; j++) {
        T x = at.queries[j * ADJI_WARP + lane], c[MANY];
        load_all(at.candidates + j * ADJI_WARP + first, c);
#pragma unroll
        for (int u = 0; u < MANY; u++)
          s[u] = adji_gpu_step<W::STEP>(s[u], x, c[u], job.measure, j);
      }
      if (W::STEP == ADJI_STEP_DOT) continue;
      T least = s[0];
#pragma unroll
      for (int u = 1; u < MANY; u++)
        least = s[u] < least ? s[u] : least;
      if (!__any_sync(ALL_LANES, least <= limit)) return; /* sums grow: none of these belongs */
    }
  }
  uint32_t ids[MANY] = {0};
  if (W::FILL || BY_ID) load_all(at.ids + first, ids);
#pragma unroll
  for (int u = 0; u < MANY; u++) {
    s[u] = adji_gpu_finish<W::STEP>(s[u]);
    bool belongs = s[u] <= limit;
    if (!W::NAN_STAYS_OUT) belongs = belongs && first + u < valid;
    if (BY_ID) belongs = belongs && (job.keep == ADJI_KEEP_ABOVE ? ids[u] > mine->row : ids[u] != mine->row);
    keep<W>(at, mine, belongs, ids[u], s[u], lane);
  }
}

template <class W, bool BY_ID, class T, int DIM>
__device__ __forceinline__ void compare_stage(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, T limit,
                                              uint32_t valid, supply *pieces, uint32_t lane) {
  constexpr int MANY = DIM ? TOGETHER : MANY_TOGETHER;
#pragma unroll 1
  for (uint32_t first = 0; first < valid; first += BETWEEN) {
#pragma unroll
    for (uint32_t more = 0; more < BETWEEN; more += MANY)
      compare_some<W, MANY, BY_ID>(job, at, mine, limit, first + more, valid, lane);
    if (W::FILL) flush<W, BY_LANE>(job, at, mine, pieces, false, 0, lane);
  }
}

/* Step 2: number is that of the lane's candidate in the list; behind the last one it is NaN. */
template <class W, class T>
__device__ __forceinline__ candidate<W> fetch(const tiles<T> &job, const range_list *list, uint32_t number) {
  candidate<W> c;
  bool valid = number < list->total;
  c.position = valid ? position_of(list, number) : UINT32_MAX;
  c.id = valid && (W::FILL || job.keep == ADJI_KEEP_ABOVE) ? job.right_ids[c.position] : ADJ_NO_ID;
#pragma unroll
  for (int j = 0; j < W::DIM; j++)
    c.x[j] = valid ? job.right_coords[j * job.right_stride + c.position] : static_cast<T>(NAN);
  return c;
}

template <class W, class T>
__device__ __forceinline__ void put(const tiles<T> &job, const shared<T> &at, const candidate<W> &c, uint32_t lane) {
  __syncwarp(); /* nobody reads the last ones any more */
#pragma unroll
  for (int j = 0; j < W::DIM; j++)
    at.candidates[j * ADJI_WARP + lane] = c.x[j];
  if (!W::DIM)
    for (uint32_t j = 0; j < job.dim; j++)
      at.candidates[j * ADJI_WARP + lane] =
          c.position != UINT32_MAX ? job.right_coords[j * job.right_stride + c.position] : static_cast<T>(NAN);
  at.ids[lane] = c.id;
  __syncwarp();
}

/* The queries of lanes [begin, end), which are in one row of cells. Returns how many comparisons it took. */
template <class W, class T, int DIM>
__device__ __forceinline__ uint64_t join_together(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                                  uint32_t begin, uint32_t end, supply *pieces, uint32_t lane) {
  uint64_t candidates = 0;
  cell_stretch around = {__shfl_sync(ALL_LANES, mine->cell_row, begin), __shfl_sync(ALL_LANES, mine->cell, begin),
                         __shfl_sync(ALL_LANES, mine->cell, end - 1)};
  uint32_t low = static_cast<uint32_t>(__shfl_sync(ALL_LANES, mine->position, begin));
  uint32_t high = static_cast<uint32_t>(__shfl_sync(ALL_LANES, mine->position, end - 1));
  T limit = lane >= begin && lane < end ? job.limit : static_cast<T>(NAN);
  for (uint32_t round = 0; round * ADJI_WARP < job.row_count; round++) {
    uint32_t row = round * ADJI_WARP + lane;
    list_ranges(job, around, row, row < job.row_count, lane, at.list);
    uint32_t total = at.list->total;
    candidates += total;
    candidate<W> next = fetch<W>(job, at.list, lane);
    for (uint32_t done = 0; done < total;) {
      candidate<W> now = next;
      put<W>(job, at, now, lane);
      uint32_t valid = total - done < ADJI_WARP ? total - done : ADJI_WARP;
      done += valid;
      if (done < total) next = fetch<W>(job, at.list, done + lane);
      bool met = now.position >= low && now.position <= high; /* perhaps one of the queries themselves */
      bool by_id = job.keep == ADJI_KEEP_ABOVE ||
                   (job.keep == ADJI_KEEP_OTHERS && W::FILL && (!job.same_sets || __any_sync(ALL_LANES, met)));
      if (by_id)
        compare_stage<W, true>(job, at, mine, limit, valid, pieces, lane);
      else
        compare_stage<W, false>(job, at, mine, limit, valid, pieces, lane);
    }
  }
  return candidates * (end - begin);
}

/* ---- Alone: each lane with candidates of its own ------------------------------------------------- */

template <class W, class T, int DIM>
__device__ __forceinline__ T sum_of(const tiles<T> &job, const own<T, DIM> &mine, uint32_t position) {
  T s = 0;
  if (DIM) {
#pragma unroll
    for (int j = 0; j < DIM; j++)
      s = adji_gpu_step<W::STEP>(s, mine.x[j], job.right_coords[j * job.right_stride + position], job.measure, j);
  } else {
    for (uint32_t j = 0; j < job.dim; j++) {
      T x = job.left_coords[j * job.left_stride + mine.position];
      s = adji_gpu_step<W::STEP>(s, x, job.right_coords[j * job.right_stride + position], job.measure, j);
      if (W::STEP != ADJI_STEP_DOT && !(s <= job.limit)) break;
    }
  }
  return adji_gpu_finish<W::STEP>(s);
}

/* One candidate of the lane's own. */
template <class W, class T, int DIM>
__device__ __forceinline__ void meet(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, uint32_t position,
                                     uint32_t lane) {
  uint32_t id = W::FILL || job.keep == ADJI_KEEP_ABOVE ? job.right_ids[position] : 0;
  T s = sum_of<W>(job, *mine, position);
  keep<W>(at, mine, s <= job.limit && stays<W>(job, id, mine->row), id, s, lane);
}

/* The queries of the lanes that take part. Returns the lane's comparisons. Three rows of cells at a time, so that
 * looking them up takes one wait. */
template <class W, class T, int DIM>
__device__ __forceinline__ uint64_t join_alone(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                               bool takes_part, supply *pieces, uint32_t lane) {
  uint64_t candidates = 0;
  for (uint32_t row = 0; row < job.row_count; row += 3) {
    range r[3];
#pragma unroll
    for (int k = 0; k < 3; k++) {
      r[k] = range{0, 0};
      if (takes_part && row + k < job.row_count)
        r[k] = row_of_cells(job, mine->cell_row + job.row_steps[row + k], mine->cell, mine->cell);
    }
#pragma unroll
    for (int k = 0; k < 3; k++) {
      candidates += r[k].count;
      uint32_t position = r[k].begin, end = position + r[k].count;
      while (W::FILL ? __any_sync(ALL_LANES, position < end) : position < end) {
        /* As much as the queue has room for. */
        uint32_t stop = !W::FILL || end - position < BETWEEN ? end : position + BETWEEN;
#pragma unroll 2
        for (; position < stop; position++)
          meet<W>(job, at, mine, position, lane);
        if (W::FILL) flush<W, BY_LANE>(job, at, mine, pieces, false, 0, lane);
      }
    }
  }
  return candidates;
}

/* ---- Flat: lanes share out the candidates of a few queries --------------------------------------- */

/* The sums of the squares of axes begin .. end - 1 for all combinations of slabs, the last axis fastest. */
__device__ __forceinline__ void sum_gaps(const gaps *g, uint32_t begin, uint32_t end, uint32_t lane, float *to) {
  uint32_t many = 1;
  for (uint32_t a = begin; a < end; a++)
    many *= 3;
  for (uint32_t i = lane; i < many; i += ADJI_WARP) {
    float sum = 0;
    for (uint32_t a = end, rest = i; a-- > begin; rest /= 3)
      sum += g->squares[a][rest % 3];
    to[i] = sum;
  }
}

/* Rows of cells that are too far away for the queries of lanes [begin, end), all of one cell.
 *
 * Along axis a let q = (x - low) * inverse as computed, f = q - floor(q) a query's place in its cell. A point one slab
 * below has a computed q' < floor(q). Computed values are within 2^-20.9 of the true ones (index/grid.c), so the points
 * are at least (f - 2^-19.9) / inverse apart, and one slab above (1 - f - 2^-19.9) / inverse; the canonical t is that
 * up to a factor 1 - 2^-24, and the canonical sum at least the sum of the t^2 up to a factor 1 - dim * 2^-24. The
 * constants below leave out more than that, and roundings of this function with it: 1e-5 of a cell, factors of 1 - 1e-5
 * and, in far_away(), 1 + 1e-3, which is enough for 16,000 dimensions. Squares that underflow have no such factors, so
 * tiny limits have no gaps (adji_gpu_near). Only the metric L2 has them. */
template <class T, int DIM>
__device__ __forceinline__ void find_gaps(const tiles<T> &job, const own<T, DIM> &mine, uint32_t begin, uint32_t end,
                                          uint32_t lane, gaps *to) {
  uint32_t members = (end - begin < 32 ? (1u << (end - begin)) - 1 : ALL_LANES) << begin;
  __syncwarp();
  if (members >> lane & 1) {
    for (uint32_t a = 0; a < job.near.axes; a++) {
      double x = job.left_coords[job.near.dim[a] * job.left_stride + mine.position];
      double q = (x - job.near.low[a]) * job.near.inverse[a];
      float f = static_cast<float>(q - floor(q));
      float least = __uint_as_float(__reduce_min_sync(members, __float_as_uint(f)));
      float most = __uint_as_float(__reduce_max_sync(members, __float_as_uint(f)));
      if (lane == begin) {
        float below = fmaxf(least - 1e-5f, 0.0f) * job.near.width[a],
              above = fmaxf(1 - most - 1e-5f, 0.0f) * job.near.width[a];
        to->squares[a][0] = below * below;
        to->squares[a][1] = 0;
        to->squares[a][2] = above * above;
      }
    }
  }
  __syncwarp();
  sum_gaps(to, 0, job.near.first_axes, lane, to->first);
  sum_gaps(to, job.near.first_axes, job.near.axes, lane, to->rest);
  __syncwarp();
}

template <class T>
__device__ __forceinline__ bool far_away(const tiles<T> &job, const gaps *g, uint32_t row) {
  adji_gpu_parts parts = job.near.parts[row];
  return g->first[parts.first] + g->rest[parts.rest] > job.near.limit;
}

/* Compares the lane's candidate with the queries of lanes [begin, end). found counts for all of them. */
template <class W, class T>
__device__ __forceinline__ void compare_flat(const tiles<T> &job, const shared<T> &at, const candidate<W> &c,
                                             uint32_t begin, uint32_t end) {
  if (c.position == UINT32_MAX) return;
  for (uint32_t k = begin; k < end; k++) {
    T s = 0;
    if (W::DIM) {
      T x[8];
      load_all(at.points + k * 8, x);
#pragma unroll
      for (int j = 0; j < W::DIM; j++)
        s = adji_gpu_step<W::STEP>(s, x[j], c.x[j], job.measure, j);
    } else {
      for (uint32_t j = 0; j < job.dim; j++) {
        s = adji_gpu_step<W::STEP>(s, at.queries[j * ADJI_WARP + k],
                                   job.right_coords[j * job.right_stride + c.position], job.measure, j);
        if (W::STEP != ADJI_STEP_DOT && j % CHECK_EVERY == CHECK_EVERY - 1 && !(s <= job.limit)) break;
      }
    }
    s = adji_gpu_finish<W::STEP>(s);
    if (!(s <= job.limit) || !stays<W>(job, c.id, at.rows[k])) continue;
    uint32_t entry = atomicAdd(at.found + k, 1u), slot = slot_of<SHARED_OUT>(entry, k, begin);
    if (!W::FILL) continue;
    at.queue[slot] = c.id;
    if (W::SUMS) at.sums[slot] = s;
  }
}

template <class W, class T, int DIM>
__device__ __forceinline__ void step_flat(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                          const candidate<W> &c, uint32_t begin, uint32_t end, supply *pieces,
                                          uint32_t lane) {
  compare_flat<W>(job, at, c, begin, end);
  __syncwarp();
  if (!W::FILL) return;
  if (lane >= begin && lane < end) mine->found = at.found[lane];
  flush<W, SHARED_OUT>(job, at, mine, pieces, false, begin, lane);
}

/* The queries of lanes [begin, end), which are in one cell. Returns how many comparisons it took. */
template <class W, class T, int DIM>
__device__ __forceinline__ uint64_t join_flat(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                              uint32_t begin, uint32_t end, supply *pieces, uint32_t lane) {
  uint64_t candidates = 0;
  cell_stretch around = {__shfl_sync(ALL_LANES, mine->cell_row, begin), __shfl_sync(ALL_LANES, mine->cell, begin), 0};
  around.last = around.first;
  bool near = W::STEP == ADJI_STEP_L2 && job.near.axes;
  if (near) find_gaps(job, *mine, begin, end, lane, at.gap);
  for (uint32_t round = 0; round * ADJI_WARP < job.row_count; round++) {
    uint32_t row = round * ADJI_WARP + lane;
    bool wanted = row < job.row_count && !(near && far_away(job, at.gap, row));
    list_ranges(job, around, row, wanted, lane, at.list);
    uint32_t total = at.list->total;
    candidates += total;
    for (uint32_t done = 0; done < total; done += 2 * ADJI_WARP) { /* two at a time: one is on its way */
      candidate<W> one = fetch<W>(job, at.list, done + lane), other = fetch<W>(job, at.list, done + ADJI_WARP + lane);
      step_flat<W>(job, at, mine, one, begin, end, pieces, lane);
      if (done + ADJI_WARP < total) step_flat<W>(job, at, mine, other, begin, end, pieces, lane);
    }
  }
  if (W::FILL) /* the next cell's queries use the same memory */
    while (__any_sync(ALL_LANES, lane >= begin && lane < end && mine->found > mine->written))
      flush<W, SHARED_OUT>(job, at, mine, pieces, true, begin, lane);
  return candidates * (end - begin);
}

/* All queries of the lanes in `members`, cell by cell. */
template <class W, class T, int DIM>
__device__ __forceinline__ uint64_t join_cells(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                               uint32_t members, supply *pieces, uint32_t lane) {
  uint64_t before = __shfl_up_sync(ALL_LANES, mine->cell, 1), candidates = 0;
  int64_t row_before = __shfl_up_sync(ALL_LANES, mine->cell_row, 1);
  at.found[lane] = mine->found;
  at.rows[lane] = mine->row;
  __syncwarp();
  bool member = members >> lane & 1;
  uint32_t heads = __ballot_sync(ALL_LANES, member && (lane == 0 || !(members >> (lane - 1) & 1) ||
                                                       mine->cell != before || mine->cell_row != row_before));
  for (uint32_t left = heads; left; left &= left - 1) {
    uint32_t begin = __ffs(left) - 1;
    uint32_t others = (heads | ~members) & ~((2u << begin) - 1); /* where another begins, or none is */
    uint32_t end = others && begin < 31 ? __ffs(others) - 1 : ADJI_WARP;
    for (uint32_t first = begin; first < end; first += FLAT_QUERIES) {
      uint32_t last = end - first < FLAT_QUERIES ? end : first + FLAT_QUERIES;
      uint64_t many = join_flat<W>(job, at, mine, first, last, pieces, lane);
      if (lane == 0) candidates += many;
    }
  }
  __syncwarp();
  if (member) mine->found = at.found[lane];
  return candidates;
}

/* ---- The kernel ---------------------------------------------------------------------------------- */

/* Whether a query is its own neighbour: at distance 0 it always is, by its inner product perhaps. */
template <int STEP, class T>
__device__ __forceinline__ bool belongs_to_itself(const tiles<T> &job, uint64_t position) {
  if (STEP != ADJI_STEP_DOT) return true;
  T s = 0;
  for (uint32_t j = 0; j < job.dim; j++) {
    T x = job.left_coords[j * job.left_stride + position];
    s = adji_gpu_step<STEP>(s, x, x, job.measure, j);
  }
  return adji_gpu_finish<STEP>(s) <= job.limit;
}

/* Adds up a number over the warp and to an answer. */
__device__ __forceinline__ void add_answer(unsigned long long *answer, unsigned long long mine, uint32_t lane) {
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
    mine += __shfl_xor_sync(ALL_LANES, mine, step);
  /* Everyone adds to one of several places: one alone would be what all wait for. */
  if (lane == 0 && mine) atomicAdd(answer + blockIdx.x % ADJI_SPREAD, mine);
}

/* Puts what was counted where it belongs, and adds up the totals. */
template <class W, class T, int DIM>
__device__ __forceinline__ void settle(const tiles<T> &job, bool active, own<T, DIM> *mine, uint64_t candidates,
                                       uint32_t lane) {
  if (W::FILL && !job.pieces) {
    add_answer(job.spread_answers + 2 * ADJI_SPREAD,
               active && mine->found != job.offsets[mine->row + UINT64_C(1)] - job.offsets[mine->row], lane);
    return;
  }
  if (!W::FILL && active && job.keep == ADJI_KEEP_OTHERS && belongs_to_itself<W::STEP>(job, mine->position))
    mine->found--;
  if (active && job.degrees) job.degrees[mine->row] = mine->found;
  uint32_t longest = __reduce_max_sync(ALL_LANES, active ? mine->found : 0);
  if (lane == 0)
    atomicMax(job.spread_answers + 3 * ADJI_SPREAD + blockIdx.x % ADJI_SPREAD,
              static_cast<unsigned long long>(longest));
  add_answer(job.spread_answers, active ? mine->found : 0, lane);
  add_answer(job.spread_answers + ADJI_SPREAD, candidates, lane);
}

template <class W, class T>
__device__ __forceinline__ own<T, W::DIM> open_query(const tiles<T> &job, uint64_t query, bool active) {
  own<T, W::DIM> mine = {};
  if (!active) return mine;
  mine.position = job.queries ? job.queries[query] : job.first_query + query;
  mine.row = job.left_ids[mine.position];
  uint64_t number = number_at(job.left_numbers, job.wide_numbers, mine.position);
  if (job.wide_numbers)
    mine.cell_row = static_cast<int64_t>(number / job.row_stride);
  else /* which is many times quicker */
    mine.cell_row = static_cast<uint32_t>(number) / static_cast<uint32_t>(job.row_stride);
  mine.cell = number - static_cast<uint64_t>(mine.cell_row) * job.row_stride;
#pragma unroll
  for (int j = 0; j < W::DIM; j++)
    mine.x[j] = job.left_coords[j * job.left_stride + mine.position];
  return mine;
}

/* Bytes of shared memory of a warp, and where things are in it. */
template <class W>
__host__ __device__ __forceinline__ uint64_t shared_bytes(uint32_t dim, bool staged) {
  uint64_t dims = W::DIM ? W::DIM : staged ? 2 * dim : 0, size = sizeof(typename W::T);
  uint64_t queue = W::FILL ? QUEUE * (ADJI_WARP + 1) * (4 + (W::SUMS ? size : 0)) + ADJI_WARP * sizeof(target) : 0;
  if (W::FLAT) queue += (W::DIM ? 8 * ADJI_WARP * size : 0) + 2 * ADJI_WARP * 4 + sizeof(gaps);
  return (dims * ADJI_WARP * size + sizeof(range_list) + ADJI_WARP * 4 + queue + 15) / 16 * 16;
}

template <class W, class T>
__device__ __forceinline__ shared<T> carve(const tiles<T> &job, unsigned char *memory) {
  shared<T> at;
  uint32_t dims = W::DIM ? W::DIM : job.staged ? job.dim : 0;
  at.candidates = reinterpret_cast<T *>(memory);
  at.queries = at.candidates + dims * ADJI_WARP;
  at.points = W::DIM ? at.queries : at.queries + dims * ADJI_WARP;
  at.sums = at.points + (W::FLAT && W::DIM ? 8 * ADJI_WARP : 0);
  at.targets = reinterpret_cast<target *>(at.sums + (W::SUMS ? QUEUE * (ADJI_WARP + 1) : 0));
  at.queue = reinterpret_cast<uint32_t *>(at.targets + (W::FILL ? ADJI_WARP : 0));
  at.ids = at.queue + (W::FILL ? QUEUE * (ADJI_WARP + 1) : 0);
  at.found = at.ids + ADJI_WARP;
  at.rows = at.found + ADJI_WARP;
  at.gap = reinterpret_cast<gaps *>(at.rows + ADJI_WARP);
  at.list = W::FLAT ? reinterpret_cast<range_list *>(at.gap + 1) : reinterpret_cast<range_list *>(at.found);
  return at;
}

template <class W, class T>
__device__ __forceinline__ target target_of(const tiles<T> &job, uint32_t row, bool active) {
  if (job.pieces || !active) return target{row, 0, 0};
  return target{job.offsets[row] - job.base, 0,
                static_cast<uint32_t>(job.offsets[row + UINT64_C(1)] - job.offsets[row])};
}

template <class W, class T>
__device__ __forceinline__ void stage_queries(const tiles<T> &job, const shared<T> &at, uint64_t position, bool active,
                                              uint32_t lane) {
  for (uint32_t j = 0; j < job.dim; j++)
    at.queries[j * ADJI_WARP + lane] = active ? job.left_coords[j * job.left_stride + position] : 0;
  __syncwarp();
}

template <class W>
__global__ void __launch_bounds__(MOST_WARPS *ADJI_WARP, W::FLAT ? 6 : 8) join_tiles(const tiles<typename W::T> job) {
  typedef typename W::T T;
  extern __shared__ __align__(16) unsigned char memory[];
  uint32_t lane = threadIdx.x % ADJI_WARP, warp = threadIdx.x / ADJI_WARP;
  uint64_t query = (static_cast<uint64_t>(blockIdx.x) * blockDim.x / ADJI_WARP + warp) * job.lanes + lane;
  bool active = lane < job.lanes && query < job.query_count;
  if (!__any_sync(ALL_LANES, active)) return;
  shared<T> at = carve<W>(job, memory + warp * shared_bytes<W>(job.dim, job.staged));
  own<T, W::DIM> mine = open_query<W>(job, query, active);
  mine.tail = lane;
  if (!W::DIM && job.staged) stage_queries<W>(job, at, mine.position, active, lane);
  if (W::FILL) {
    target to = target_of<W>(job, mine.row, active);
    at.targets[lane] = to;
    if (!job.pieces) mine.past = static_cast<uint32_t>(to.place % ADJI_WARP);
  }
#pragma unroll
  for (int j = 0; j < W::DIM && W::FLAT; j++)
    at.points[lane * 8 + j] = mine.x[j];
  __syncwarp();
  int64_t before = __shfl_up_sync(ALL_LANES, mine.cell_row, 1);
  uint32_t heads = __ballot_sync(ALL_LANES, active && (lane == 0 || mine.cell_row != before));
  uint32_t actives = __popc(__ballot_sync(ALL_LANES, active)), alone = 0;
  supply pieces = {0, 0};
  uint64_t candidates = 0;
  while (heads) {
    uint32_t begin = __ffs(heads) - 1;
    heads &= heads - 1;
    uint32_t end = heads ? __ffs(heads) - 1 : actives;
    uint64_t spread = __shfl_sync(ALL_LANES, mine.cell, end - 1) - __shfl_sync(ALL_LANES, mine.cell, begin);
    bool dense = spread <= job.spread && end - begin >= 8 && (!W::FLAT || spread * 8 <= end - begin);
    if ((W::DIM || job.staged) && dense) {
      uint64_t many = join_together<W>(job, at, &mine, begin, end, &pieces, lane);
      if (lane == 0) candidates += many;
    } else {
      alone |= (end - begin < 32 ? (1u << (end - begin)) - 1 : ALL_LANES) << begin;
    }
  }
  if (alone && W::FLAT && W::FILL) finish_queue<W>(job, at, &mine, &pieces, lane); /* others use its memory now */
  if (alone && W::FLAT && (W::DIM || job.staged))
    candidates += join_cells<W>(job, at, &mine, alone, &pieces, lane);
  else if (alone)
    candidates += join_alone<W>(job, at, &mine, alone >> lane & 1, &pieces, lane);
  if (W::FILL) finish_queue<W>(job, at, &mine, &pieces, lane);
  settle<W>(job, active, &mine, candidates, lane);
}

/* ---- Launching ----------------------------------------------------------------------------------------------- */

/* Bytes of shared memory that a block may have on every device. */
enum { MOST_SHARED = 96 << 10 };

template <class W>
adj_status launch(adji_gpu *gpu, cudaStream_t stream, tiles<typename W::T> job) {
  job.staged = W::DIM || shared_bytes<W>(job.dim, true) <= MOST_SHARED;
  uint64_t each = shared_bytes<W>(job.dim, job.staged), warps = MOST_SHARED / each;
  if (warps > MOST_WARPS) warps = MOST_WARPS;
  if (warps * each > 48 << 10)
    ADJI_CUDA(gpu, cudaFuncSetAttribute(join_tiles<W>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                        static_cast<int>(warps * each)));
  uint64_t threads = warps * ADJI_WARP, queries = warps * job.lanes;
  uint64_t blocks = (job.query_count + queries - 1) / queries;
  join_tiles<W><<<static_cast<uint32_t>(blocks), static_cast<uint32_t>(threads), warps * each, stream>>>(job);
  ADJI_LAUNCHED(gpu, "join_tiles");
  return ADJ_OK;
}

template <class T, int STEP, int DIM>
adj_status launch_as(adji_gpu *gpu, cudaStream_t stream, const tiles<T> &job) {
  if (!job.ids) return launch<what<T, STEP, DIM, COUNT>>(gpu, stream, job);
  if (!job.sums) return launch<what<T, STEP, DIM, IDS>>(gpu, stream, job);
  return launch<what<T, STEP, DIM, IDS_AND_SUMS>>(gpu, stream, job);
}

template <class T>
tiles<T> with_types(adji_gpu *gpu, const adji_tiles_job *job) {
  tiles<T> typed = {};
  typed.left_coords = static_cast<const T *>(job->left->coords);
  typed.right_coords = static_cast<const T *>(job->right->coords);
  typed.left_stride = job->left->stride;
  typed.right_stride = job->right->stride;
  typed.left_ids = job->left->ids;
  typed.right_ids = job->right->ids;
  typed.left_numbers = job->left->numbers;
  typed.wide_numbers = job->left->wide_numbers;
  typed.cells = job->right->cells;
  typed.row_steps = job->grid->row_steps;
  typed.cell_rows = static_cast<int64_t>((job->grid->keys + job->grid->row_stride - 1) / job->grid->row_stride);
  typed.row_count = job->grid->row_count;
  typed.reach = job->grid->reach;
  typed.row_stride = job->grid->row_stride;
  /* A point and its image must not both be candidates of a query: then only cells within reach are. */
  typed.spread = job->right->images ? 0 : job->grid->reach * 3 + 2;
  typed.near = job->grid->near;
  typed.near.limit = static_cast<float>(job->limit) * 1.001f;
  if (!(job->limit > 1e-30)) typed.near.axes = 0;
  typed.same_sets = job->left == job->right;
  typed.dim = job->dim;
  typed.limit = static_cast<T>(job->limit);
  typed.measure.power = job->measure->power;
  typed.measure.box = static_cast<const T *>(job->box);
  typed.keep = job->keep;
  typed.queries = job->queries;
  typed.first_query = job->first_query;
  typed.query_count = job->query_count;
  typed.lanes = job->lanes ? job->lanes : ADJI_WARP;
  typed.degrees = job->degrees;
  typed.answers = adji_answer_at(gpu, 0);
  typed.spread_answers = adji_answer_at(gpu, ADJI_ANSWER_SPREAD);
  typed.offsets = job->offsets;
  typed.base = job->base;
  typed.ids = job->ids;
  typed.sums = static_cast<T *>(job->sums);
  typed.pieces = job->pieces;
  typed.piece_room = job->piece_room;
  return typed;
}

}  // namespace

#endif
