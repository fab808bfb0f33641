/* SPDX-License-Identifier: MIT
 *
 * A warp's queries, its shared memory, and the queue in which ids wait until a line of memory is full:
 * tiles_kernel.cuh.
 */
#ifndef ADJI_GPU_RANGE_TILES_QUEUE_CUH
#define ADJI_GPU_RANGE_TILES_QUEUE_CUH

#include "gpu/range/tiles_cells.cuh"

namespace {

/* Whether the totals are counted: not when rows of known lengths are filled. */
template <class W, class T>
__device__ __forceinline__ bool counts(const tiles<T> &job) {
  return !W::FILL || (!W::RINGS && job.pieces);
}

/* Where a row is in memory, of which all lines but the first and the last are its own. */
struct row_place {
  uint32_t line; /* its first one, in ids: which have fewer than 2^37 entries */
  uint32_t past; /* how far it begins behind that                             */
  uint32_t room; /* entries                                                   */
};

/* A lane's own query. */
template <class T, int DIM>
struct own {
  int64_t cell_row; /* its cell: the row of cells, and where in it: an axis has fewer than 2^32 slabs */
  uint32_t cell;
  uint32_t position;
  uint32_t row;     /* of the result                         */
  uint32_t found;   /* entries; with a queue of its own, up to when it was last looked at */
  uint32_t written; /* of them, to memory                                                 */
  uint32_t tail;    /* where in its queue the next one goes                               */
  bool aimed;       /* its target is known: so are those of all lanes                     */
  uint32_t past;    /* how far its row begins behind a line; 0 once the next is reached */
  row_place place;  /* where it is compared together, and written through a ring          */
  T x[adji_gpu_width(DIM) ? adji_gpu_width(DIM) : 1];
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

/* Rows of cells that are near enough, and by how much: limit less the sum of the squares of the gaps. */
struct wanted_rows {
  uint32_t row[2 * ADJI_WARP];
  float left[2 * ADJI_WARP];
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
  adji_gpu_pair *pairs; /* that wait, and how many */
  uint32_t *pair_count;
  gaps *gap;
  wanted_rows *wanted;
  target *targets; /* one a lane                                            */
  uint32_t *queue; /* entry e of lane l: see slot_of                        */
  uint32_t *rings; /* in the same memory, before: tiles_rings.cuh           */
  uint2 *marks;
  T *sums;
};

/* What the comparisons of a query took. */
struct effort {
  uint64_t candidates; /* compared, by this lane; of those compared together, by lane 0  */
  uint64_t steps;      /* warp-wide comparisons, 32 slots each: the same in all lanes     */
};

/* What a kernel does: its template arguments in one. LONG_ROWS are ids in rows of known places, most of them long;
 * FROM_STAGES are the same, by what COUNT_AND_STAGES kept. */
enum work {
  COUNT,
  COUNT_AND_STAGES,
  COUNT_AND_MARKS,
  IDS,
  IDS_AND_SUMS,
  LONG_ROWS,
  FROM_STAGES,
  PAIRS,
  PAIRS_AND_SUMS,
  IDS_PERHAPS_SUMS /* the job says whether it wants sums: one kernel for both, for metrics other than L2 */
};

/* In many dimensions dense and sparse places have kernels of their own: one for both would have more code than fits
 * the instruction cache, and too much shared memory to keep the device busy. */
enum places { EVERYWHERE, DENSE, SPARSE };

template <class TYPE, int STEP_, int DIM_, work WORK, places PLACES_>
struct what {
  typedef TYPE T;
  static constexpr int STEP = STEP_, DIM = DIM_;
  static constexpr bool KEEPS = WORK == COUNT_AND_STAGES, REPLAYS = WORK == FROM_STAGES;
  static constexpr bool MARKS = WORK == COUNT_AND_MARKS;
  /* Dense places are written through rings: tiles_rings.cuh. */
  static constexpr bool RINGS = WORK == LONG_ROWS || REPLAYS;
  static constexpr bool PERHAPS_SUMS = WORK == IDS_PERHAPS_SUMS; /* sums, if the job has room for them */
  /* ids are wanted, in rows or in pieces */
  static constexpr bool FILL = WORK == IDS || WORK == IDS_AND_SUMS || PERHAPS_SUMS || RINGS;
  static constexpr bool DROPS_SELF = FILL || KEEPS; /* otherwise one is taken from the count afterwards */
  static constexpr bool MIRRORED = WORK == PAIRS || WORK == PAIRS_AND_SUMS; /* every two points are compared once */
  static constexpr bool SUMS = WORK == IDS_AND_SUMS || WORK == PAIRS_AND_SUMS;
  static constexpr places PLACES = PLACES_;
  /* On a multiprocessor: registers for so many. Of those with rings it has shared memory for no more than 6. */
  static constexpr int BLOCKS = RINGS ? 6 : PLACES == SPARSE && WORK != COUNT ? 7 : 8;
  static constexpr int WIDTH = adji_gpu_width(DIM);
  static constexpr bool HAS_ID = adji_gpu_width_has_id(DIM);
  /* Whether a NaN among a candidate's coordinates makes sure that it does not belong. */
  static constexpr bool NAN_STAYS_OUT = STEP == ADJI_STEP_L2 || STEP == ADJI_STEP_L1 || STEP == ADJI_STEP_DOT;
  /* Where queries are compared together: whether candidates too far away from all of them are left out, and whether
   * hits come as words: tiles_hit_words.cuh. */
  static constexpr bool WORDS =
      STEP == ADJI_STEP_L2 && (DIM == 2 || DIM == 3) && (WORK == COUNT || KEEPS || MARKS || RINGS);
  static constexpr bool TRIMS = WORDS; /* with a queue there are not enough registers for both */
};

/* ---- The queue ------------------------------------------------------------------------------------------------- */

enum { PIECES_AT_ONCE = 16 };

/* The number of a piece to fill; those beyond the room there is are counted, and not written. */
template <class T>
__device__ __forceinline__ uint64_t next_piece(const tiles<T> &job, supply *pieces, uint32_t lane) {
  if (pieces->next == pieces->end) {
    unsigned long long first = 0;
    if (lane == 0) first = atomicAdd(job.answers + ADJI_ANSWER_PIECES, static_cast<unsigned long long>(PIECES_AT_ONCE));
    pieces->next = job.own_pieces + __shfl_sync(ALL_LANES, first, 0);
    pieces->end = pieces->next + PIECES_AT_ONCE;
  }
  return pieces->next++;
}

/* Two layouts of the queue. BY_LANE: a lane's own, from which what was written is taken away: entry e is that number
 * behind the oldest. SHARED_OUT: of a query in lanes first .. first + HIGH_DIM_QUERIES - 1, for which any lane finds
 * entries: a ring, and e counts from the row's first. Entries that follow each other are in banks that do. */
enum layout { BY_LANE, SHARED_OUT };

template <layout LAYOUT>
__device__ __forceinline__ uint32_t slot_of(uint32_t e, uint32_t l, uint32_t first) {
  if (LAYOUT == BY_LANE) return e * (ADJI_WARP + 1) + l;
  return e % HIGH_DIM_QUEUE * (HIGH_DIM_QUERIES + 1) + l - first;
}

/* Entries that wait in a lane's queue. */
template <layout LAYOUT, class T, int DIM>
__device__ __forceinline__ uint32_t count_pending(own<T, DIM> *mine, uint32_t lane) {
  if (LAYOUT == BY_LANE) mine->found = mine->written + (mine->tail - lane) / (ADJI_WARP + 1);
  return mine->found - mine->written;
}

/* Looks up the lane's target, before the first entry is written: by then the memory it is in, which was asked for at
 * the start, has come. */
template <class T, int DIM>
__device__ __forceinline__ void aim(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, uint32_t lane) {
  if (mine->aimed) return;
  mine->aimed = true;
  target to = {mine->row, 0, 0};
  if (!job.pieces) {
    const uint64_t *bounds = bounds_of(job, mine->row);
    to.place = bounds[0] - job.base;
    to.room = static_cast<uint32_t>(bounds[1] - bounds[0]);
    mine->past = static_cast<uint32_t>(to.place) & (job.line - 1);
  }
  at.targets[lane] = to;
  __syncwarp();
}

template <class T>
__device__ __forceinline__ void ask_for_target(const tiles<T> &job, uint32_t row) {
  if (!job.pieces) asm volatile("prefetch.global.L2 [%0];" ::"l"(bounds_of(job, row)));
}

/* Writes the oldest `many` entries of lane l's queue. */
template <class W, layout LAYOUT, class T>
__device__ __forceinline__ void write_out(const tiles<T> &job, const shared<T> &at, supply *pieces, uint32_t many,
                                          uint32_t l, uint32_t first, uint32_t lane) {
  target to = at.targets[l];
  uint32_t entry = to.written + lane, slot = slot_of<LAYOUT>(LAYOUT == BY_LANE ? lane : entry, l, first);
  if (!job.pieces) {
    if (lane >= many || entry >= to.room) return;
    job.ids[to.place + entry] = at.queue[slot];
    if (W::SUMS || (W::PERHAPS_SUMS && job.sums)) job.sums[to.place + entry] = at.sums[slot];
    return;
  }
  uint64_t piece = next_piece(job, pieces, lane);
  if (piece >= job.piece_room) return;
  if (lane == 0) job.pieces[piece] = adji_row_chunk{static_cast<uint32_t>(to.place), to.written};
  if (lane >= many) return;
  job.ids[piece * ADJI_WARP + lane] = at.queue[slot];
  if (W::SUMS || (W::PERHAPS_SUMS && job.sums)) job.sums[piece * ADJI_WARP + lane] = at.sums[slot];
}

/* Where a lane's last entries go, and how many of them: the query's own piece, or the rest of its row. */
struct ending {
  uint64_t place;
  uint32_t many;
};

template <class T, int DIM>
__device__ __forceinline__ ending ending_of(const tiles<T> &job, const shared<T> &at, const own<T, DIM> &mine,
                                            uint32_t pending, uint32_t lane) {
  if (!pending) return ending{0, 0};
  if (!job.pieces) {
    target to = at.targets[lane];
    uint32_t room = to.room > mine.written ? to.room - mine.written : 0;
    return ending{to.place + mine.written, pending < room ? pending : room};
  }
  if (mine.position >= job.piece_room) return ending{0, 0};
  job.pieces[mine.position] = adji_row_chunk{mine.row, mine.written};
  return ending{static_cast<uint64_t>(mine.position) * ADJI_WARP, pending};
}

/* Writes what is left in all queues, four queries at a time with eight lanes each. No queue holds more than 31. */
template <class W, layout LAYOUT, class T, int DIM>
__device__ __forceinline__ void empty_queues(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                             uint32_t first, uint32_t lane) {
  uint32_t pending = count_pending<LAYOUT>(mine, lane);
  if (!__any_sync(ALL_LANES, pending > 0)) return;
  aim(job, at, mine, lane);
  ending to = ending_of(job, at, *mine, pending, lane);
  __syncwarp();
#pragma unroll 2
  for (uint32_t l = lane / 8; l < ADJI_WARP; l += 4) {
    uint64_t place = __shfl_sync(ALL_LANES, to.place, l);
    uint32_t end = __shfl_sync(ALL_LANES, to.many, l), written = __shfl_sync(ALL_LANES, mine->written, l);
    for (uint32_t e = lane % 8; e < end; e += 8) {
      uint32_t slot = slot_of<LAYOUT>(LAYOUT == BY_LANE ? e : written + e, l, first);
      job.ids[place + e] = at.queue[slot];
      if (W::SUMS || (W::PERHAPS_SUMS && job.sums)) job.sums[place + e] = at.sums[slot];
    }
  }
  __syncwarp();
  mine->written = mine->found;
  mine->tail = lane;
}

/* Takes the oldest `many` entries away, which were written. */
template <class W, layout LAYOUT, class T, int DIM>
__device__ __forceinline__ void drop(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, uint32_t many,
                                     uint32_t lane) {
  mine->written += many;
  at.targets[lane].written = mine->written;
  if (LAYOUT == SHARED_OUT) return;
  mine->tail -= many * (ADJI_WARP + 1);
  for (uint32_t to = lane, from = lane + many * (ADJI_WARP + 1); to < mine->tail;
       to += ADJI_WARP + 1, from += ADJI_WARP + 1) {
    at.queue[to] = at.queue[from];
    if (W::SUMS || (W::PERHAPS_SUMS && job.sums)) at.sums[to] = at.sums[from];
  }
}

/* Writes of every queue that holds a line of entries those up to the next line in memory, so that lines are written
 * once and whole. A line is 32, or 16 for short rows. */
template <class W, layout LAYOUT, class T, int DIM>
__device__ __forceinline__ void flush(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, supply *pieces,
                                      uint32_t first, uint32_t lane) {
  for (;;) { /* again where the first line was a short one */
    bool full =
        LAYOUT == BY_LANE ? mine->tail >= job.line * (ADJI_WARP + 1) + lane : mine->found - mine->written >= job.line;
    uint32_t due = __ballot_sync(ALL_LANES, full);
    if (!due) return;
    aim(job, at, mine, lane);
    uint32_t line = job.line - mine->past;
    __syncwarp();
    for (uint32_t left = due; left; left &= left - 1) {
      uint32_t l = __ffs(left) - 1;
      write_out<W, LAYOUT>(job, at, pieces, __shfl_sync(ALL_LANES, line, l), l, first, lane);
    }
    __syncwarp();
    if (full) {
      drop<W, LAYOUT>(job, at, mine, line, lane);
      mine->past = 0;
    }
    __syncwarp();
  }
}

/* Counts a candidate that belongs, or puts it into the lane's own queue. */
template <class W, class T, int DIM>
__device__ __forceinline__ void keep(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine, bool belongs,
                                     uint32_t id, T s) {
  if (!W::FILL) {
    mine->found += belongs;
    return;
  }
  if (!belongs) return;
  at.queue[mine->tail] = id;
  if (W::SUMS || (W::PERHAPS_SUMS && job.sums)) at.sums[mine->tail] = s;
  mine->tail += ADJI_WARP + 1;
}

/* Whether a candidate that belongs is kept. The query itself, when it is only counted, is taken off at the end. */
template <class W, class T>
__device__ __forceinline__ bool stays(const tiles<T> &job, uint32_t id, uint32_t row) {
  if (job.keep == ADJI_KEEP_ABOVE) return id > row;
  return !W::DROPS_SELF || job.keep == ADJI_KEEP_ALL || id != row;
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

/* A point and its id from memory, in as few loads as can be. Of no use without fixed dimensions. */
template <class W, class T>
__device__ __forceinline__ void load_point(const coordinates<T> &from, uint64_t position, T *x) {
  constexpr int BYTES = W::WIDTH * sizeof(T);
  const T *at = from.coords + position * W::WIDTH;
  if (BYTES == 4) x[0] = __ldg(at);
  if (BYTES == 8) {
    uint2 two = __ldg(reinterpret_cast<const uint2 *>(at));
    memcpy(x, &two, sizeof two);
  }
#pragma unroll
  for (int i = 0; i < BYTES / 16; i++) {
    uint4 four = __ldg(reinterpret_cast<const uint4 *>(at) + i);
    memcpy(reinterpret_cast<char *>(x) + 16 * i, &four, sizeof four);
  }
}

__device__ __forceinline__ uint32_t id_in(float x) {
  return __float_as_uint(x);
}
__device__ __forceinline__ uint32_t id_in(double x) {
  return static_cast<uint32_t>(__double_as_longlong(x));
}

/* A candidate on its way to the stage. */
template <class W>
struct candidate {
  typename W::T x[W::WIDTH ? W::WIDTH : 1];
  uint32_t position, id;
};

}  // namespace

#endif
