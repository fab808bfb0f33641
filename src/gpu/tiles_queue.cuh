/* SPDX-License-Identifier: MIT
 *
 * A warp's queries, its shared memory, and the queue in which ids wait until a line of memory is full:
 * tiles_kernel.cuh.
 */
#ifndef ADJI_TILES_QUEUE_CUH
#define ADJI_TILES_QUEUE_CUH

#include "gpu/tiles_cells.cuh"

namespace {

/* Whether the totals are counted: not when rows of known lengths are filled. */
template <class W, class T>
__device__ __forceinline__ bool counts(const tiles<T> &job) {
  return !W::FILL || job.pieces;
}

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

/* What the comparisons of a query took. */
struct effort {
  uint64_t candidates; /* compared, by this lane; of those compared together, by lane 0  */
  uint64_t steps;      /* warp-wide comparisons, 32 slots each: the same in all lanes     */
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

}  // namespace

#endif
