/* SPDX-License-Identifier: MIT
 *
 * A warp's queries, its shared memory, and the queue in which ids wait until a line of memory is full. Part of
 * tiles_kernel.cuh.
 */
#ifndef ADJI_GPU_RANGE_TILES_QUEUE_CUH
#define ADJI_GPU_RANGE_TILES_QUEUE_CUH

#include "gpu/range/tiles_cells.cuh"

namespace {

/* Whether totals are counted: not when rows of known lengths are filled. */
template <class W, class T>
__device__ __forceinline__ bool counts(const tiles<T> &job) {
  return !W::FILL || (!W::RINGS && job.row_chunks);
}

/* Whether sums are written too. */
template <class W, class T>
__host__ __device__ __forceinline__ bool has_sums(const tiles<T> &job) {
  return W::SUMS || (W::PERHAPS_SUMS && job.sums);
}

/* A row's place in memory. All its lines but the first and the last are its own. */
struct row_place {
  uint32_t line; /* its first line in ids, which have fewer than 2^37 entries */
  uint32_t past; /* entries before it in that line */
  uint32_t room; /* entries */
};

/* A lane's own query. */
template <class T, int DIM>
struct lane_query {
  int64_t cell_row; /* its cell: the row of cells, and the cell within it (an axis has fewer than 2^32 slabs) */
  uint32_t cell;
  uint32_t position;
  uint32_t row;     /* of the result */
  uint32_t found;   /* entries found; with its own queue, up to the last check */
  uint32_t written; /* entries written to memory */
  uint32_t tail;    /* where its next entry goes in the queue */
  bool has_target;  /* its target is known, and those of all lanes */
  uint32_t past;    /* how far after the start of a line its row begins; 0 after the first line */
  row_place place;  /* if it is in a dense place and written through a ring */
  T x[adji_gpu_width(DIM) ? adji_gpu_width(DIM) : 1];
};

/* Where a query's entries go, for the lanes that write them. */
struct target {
  uint64_t place;   /* where its row begins in ids; with row chunks the row's number */
  uint32_t written; /* entries written */
  uint32_t room;    /* entries that fit the row */
};

/* Items of the count cache, row chunks or tiles, that the warp may still take. */
struct supply {
  uint64_t next, end;
};

/* Rows of cells that are near enough, and the remaining limit of each: limit minus the squared gaps. */
struct wanted_rows {
  uint32_t row[2 * ADJI_WARP];
  float remaining[2 * ADJI_WARP];
};

/* The parts of the warp's shared memory. */
template <class T>
struct shared {
  range_list *list;
  T *candidates; /* 32 per dimension */
  uint32_t *ids; /* of the candidates */
  T *queries;    /* 32 per dimension, if they do not fit into registers */
  T *points;     /* the warp's queries, 8 values each, if candidates are shared */
  uint32_t *found, *rows;
  adji_gpu_pair *pairs; /* waiting pairs, and their number */
  uint32_t *pair_count;
  gaps *gap;
  wanted_rows *wanted;
  target *targets; /* one per lane */
  uint32_t *queue; /* for entry e of lane l, see slot_of() */
  uint32_t *rings; /* in the same memory, before the queue is used: tiles_hit_words.cuh */
  uint2 *cursors;
  T *sums;
};

/* The work done for the queries of a warp. */
struct work_totals {
  uint64_t candidates; /* compared by this lane; in dense places, by lane 0 */
  uint64_t steps;      /* warp-wide comparisons, 32 slots each: the same in all lanes */
};

/* What a kernel does. LONG_ROWS: writes ids to rows of known places, most of which are long. FROM_TILE_HITS: the same,
 * from the tile hits of COUNT_AND_TILE_HITS. */
enum work {
  COUNT,
  COUNT_AND_TILE_HITS,
  COUNT_AND_QUERY_HITS,
  IDS,
  IDS_AND_SUMS,
  LONG_ROWS,
  FROM_TILE_HITS,
  PAIRS,
  PAIRS_AND_SUMS,
  IDS_PERHAPS_SUMS /* the job says whether it wants sums: one kernel for both cases, for metrics other than L2 */
};

/* In many dimensions dense and sparse places have separate kernels. One for both would exceed the instruction cache,
 * and use too much shared memory to keep the device busy. */
enum places { EVERYWHERE, DENSE, SPARSE };

template <class TYPE, int STEP_, int DIM_, work WORK, places PLACES_>
struct kernel_traits {
  typedef TYPE T;
  static constexpr int STEP = STEP_, DIM = DIM_;
  static constexpr bool KEEPS = WORK == COUNT_AND_TILE_HITS, REPLAYS = WORK == FROM_TILE_HITS;
  static constexpr bool QUERY_HITS = WORK == COUNT_AND_QUERY_HITS;
  /* Dense places are written through rings: tiles_hit_words.cuh. */
  static constexpr bool RINGS = WORK == LONG_ROWS || REPLAYS;
  static constexpr bool PERHAPS_SUMS = WORK == IDS_PERHAPS_SUMS; /* sums, if the job has room for them */
  /* ids are written, to rows or to row chunks */
  static constexpr bool FILL = WORK == IDS || WORK == IDS_AND_SUMS || PERHAPS_SUMS || RINGS;
  static constexpr bool DROPS_SELF = FILL || KEEPS; /* otherwise the query is subtracted from its count later */
  static constexpr bool MIRRORED = WORK == PAIRS || WORK == PAIRS_AND_SUMS; /* each pair of points is compared once */
  static constexpr bool SUMS = WORK == IDS_AND_SUMS || WORK == PAIRS_AND_SUMS;
  static constexpr places PLACES = PLACES_;
  /* Blocks per multiprocessor; their number limits the registers. With rings there is shared memory for 6 at most. */
  static constexpr int BLOCKS = RINGS ? 6 : PLACES == SPARSE && WORK != COUNT ? 7 : 8;
  static constexpr int WIDTH = adji_gpu_width(DIM);
  static constexpr bool HAS_ID = adji_gpu_width_has_id(DIM);
  /* Whether a NaN among a candidate's coordinates implies that it does not belong. */
  static constexpr bool NAN_STAYS_OUT = STEP == ADJI_STEP_L2 || STEP == ADJI_STEP_L1 || STEP == ADJI_STEP_DOT;
  /* In dense places: whether hits come in words (tiles_hit_words.cuh), and whether candidates that are too far from all
   * queries are skipped. */
  static constexpr bool WORDS =
      STEP == ADJI_STEP_L2 && (DIM == 2 || DIM == 3) && (WORK == COUNT || KEEPS || QUERY_HITS || RINGS);
  static constexpr bool TRIMS = WORDS; /* with a queue there are not enough registers for both */
};

/* ---- The queue ------------------------------------------------------------------------------------------------- */

enum { CHUNKS_AT_ONCE = 16 };

/* The number of the next chunk to fill. */
template <class T>
__device__ __forceinline__ uint64_t next_chunk(const tiles<T> &job, supply *items, uint32_t lane) {
  if (items->next == items->end) {
    items->next = job.own_chunks + request_items(job, CHUNKS_AT_ONCE, lane);
    items->end = items->next + CHUNKS_AT_ONCE;
  }
  return items->next++;
}

/* Two layouts of the queue. BY_LANE: each lane has its own, from which written entries are removed; entry e is number e
 * after the oldest. SHARED_OUT: each query of lanes first .. first + HIGH_DIM_QUERIES - 1 has one, and any lane may
 * find entries for it; it is a ring, and e counts from the row's first entry. In both, consecutive entries are in
 * consecutive banks. */
enum layout { BY_LANE, SHARED_OUT };

template <layout LAYOUT>
__device__ __forceinline__ uint32_t slot_of(uint32_t e, uint32_t l, uint32_t first) {
  if (LAYOUT == BY_LANE) return e * (ADJI_WARP + 1) + l;
  return e % HIGH_DIM_QUEUE * (HIGH_DIM_QUERIES + 1) + l - first;
}

/* Entries waiting in a lane's queue. */
template <layout LAYOUT, class T, int DIM>
__device__ __forceinline__ uint32_t count_pending(lane_query<T, DIM> *own_query, uint32_t lane) {
  if (LAYOUT == BY_LANE) own_query->found = own_query->written + (own_query->tail - lane) / (ADJI_WARP + 1);
  return own_query->found - own_query->written;
}

/* Looks up the lane's target before its first entry is written. Its prefetch was issued at the start and is complete by
 * then. */
template <class T, int DIM>
__device__ __forceinline__ void find_target(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                            uint32_t lane) {
  if (own_query->has_target) return;
  own_query->has_target = true;
  target to = {own_query->row, 0, 0};
  if (!job.row_chunks) {
    const uint64_t *bounds = bounds_of(job, own_query->row);
    to.place = bounds[0] - job.base;
    to.room = static_cast<uint32_t>(bounds[1] - bounds[0]);
    own_query->past = static_cast<uint32_t>(to.place) & (job.line - 1);
  }
  at.targets[lane] = to;
  __syncwarp();
}

template <class T>
__device__ __forceinline__ void prefetch_target(const tiles<T> &job, uint32_t row) {
  if (!job.row_chunks) asm volatile("prefetch.global.L2 [%0];" ::"l"(bounds_of(job, row)));
}

/* Writes the oldest `many` entries of lane l's queue. */
template <class W, layout LAYOUT, class T>
__device__ __forceinline__ void write_out(const tiles<T> &job, const shared<T> &at, supply *items, uint32_t many,
                                          uint32_t l, uint32_t first, uint32_t lane) {
  target to = at.targets[l];
  uint32_t entry = to.written + lane, slot = slot_of<LAYOUT>(LAYOUT == BY_LANE ? lane : entry, l, first);
  if (!job.row_chunks) {
    if (lane >= many || entry >= to.room) return;
    job.ids[to.place + entry] = at.queue[slot];
    if (has_sums<W>(job)) job.sums[to.place + entry] = at.sums[slot];
    return;
  }
  uint64_t chunk = next_chunk(job, items, lane);
  if (chunk >= job.chunk_room) return;
  if (lane == 0) job.row_chunks[chunk] = adji_row_chunk{static_cast<uint32_t>(to.place), to.written};
  if (lane >= many) return;
  job.ids[chunk * ADJI_WARP + lane] = at.queue[slot];
  if (has_sums<W>(job)) job.sums[chunk * ADJI_WARP + lane] = at.sums[slot];
}

/* Where a lane's last entries go, which is the query's own chunk or the rest of its row; and their number. */
struct ending {
  uint64_t place;
  uint32_t many;
};

template <class T, int DIM>
__device__ __forceinline__ ending ending_of(const tiles<T> &job, const shared<T> &at,
                                            const lane_query<T, DIM> &own_query, uint32_t pending, uint32_t lane) {
  if (!pending) return ending{0, 0};
  if (!job.row_chunks) {
    target to = at.targets[lane];
    uint32_t room = to.room > own_query.written ? to.room - own_query.written : 0;
    return ending{to.place + own_query.written, pending < room ? pending : room};
  }
  if (own_query.position >= job.chunk_room) return ending{0, 0};
  job.row_chunks[own_query.position] = adji_row_chunk{own_query.row, own_query.written};
  return ending{static_cast<uint64_t>(own_query.position) * ADJI_WARP, pending};
}

/* Writes the rest of all queues, four queries at a time with eight lanes each. No queue holds more than 31 entries. */
template <class W, layout LAYOUT, class T, int DIM>
__device__ __forceinline__ void empty_queues(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                             uint32_t first, uint32_t lane) {
  uint32_t pending = count_pending<LAYOUT>(own_query, lane);
  if (!__any_sync(ALL_LANES, pending > 0)) return;
  find_target(job, at, own_query, lane);
  ending to = ending_of(job, at, *own_query, pending, lane);
  __syncwarp();
#pragma unroll 2
  for (uint32_t l = lane / 8; l < ADJI_WARP; l += 4) {
    uint64_t place = __shfl_sync(ALL_LANES, to.place, l);
    uint32_t end = __shfl_sync(ALL_LANES, to.many, l), written = __shfl_sync(ALL_LANES, own_query->written, l);
    for (uint32_t e = lane % 8; e < end; e += 8) {
      uint32_t slot = slot_of<LAYOUT>(LAYOUT == BY_LANE ? e : written + e, l, first);
      job.ids[place + e] = at.queue[slot];
      if (has_sums<W>(job)) job.sums[place + e] = at.sums[slot];
    }
  }
  __syncwarp();
  own_query->written = own_query->found;
  own_query->tail = lane;
}

/* Removes the oldest `many` entries, which have been written. */
template <class W, layout LAYOUT, class T, int DIM>
__device__ __forceinline__ void drop(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                     uint32_t many, uint32_t lane) {
  own_query->written += many;
  at.targets[lane].written = own_query->written;
  if (LAYOUT == SHARED_OUT) return;
  own_query->tail -= many * (ADJI_WARP + 1);
  for (uint32_t to = lane, from = lane + many * (ADJI_WARP + 1); to < own_query->tail;
       to += ADJI_WARP + 1, from += ADJI_WARP + 1) {
    at.queue[to] = at.queue[from];
    if (has_sums<W>(job)) at.sums[to] = at.sums[from];
  }
}

/* Writes from every queue that holds a line of entries those up to the next line in memory, so that lines are written
 * once and whole. A line is 32 entries, or 16 for short rows. */
template <class W, layout LAYOUT, class T, int DIM>
__device__ __forceinline__ void flush(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                      supply *items, uint32_t first, uint32_t lane) {
  for (;;) { /* repeated if the first line was short */
    bool full = LAYOUT == BY_LANE ? own_query->tail >= job.line * (ADJI_WARP + 1) + lane
                                  : own_query->found - own_query->written >= job.line;
    uint32_t due = __ballot_sync(ALL_LANES, full);
    if (!due) return;
    find_target(job, at, own_query, lane);
    uint32_t line = job.line - own_query->past;
    __syncwarp();
    for (uint32_t remaining = due; remaining; remaining &= remaining - 1) {
      uint32_t l = __ffs(remaining) - 1;
      write_out<W, LAYOUT>(job, at, items, __shfl_sync(ALL_LANES, line, l), l, first, lane);
    }
    __syncwarp();
    if (full) {
      drop<W, LAYOUT>(job, at, own_query, line, lane);
      own_query->past = 0;
    }
    __syncwarp();
  }
}

/* Counts a candidate that belongs, or puts it into the lane's queue. */
template <class W, class T, int DIM>
__device__ __forceinline__ void keep(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                     bool belongs, uint32_t id, T s) {
  if (!W::FILL) {
    own_query->found += belongs;
    return;
  }
  if (!belongs) return;
  at.queue[own_query->tail] = id;
  if (has_sums<W>(job)) at.sums[own_query->tail] = s;
  own_query->tail += ADJI_WARP + 1;
}

/* Whether a candidate within the limit is kept. When only counting, the query itself is subtracted at the end. */
template <class W, class T>
__device__ __forceinline__ bool stays(const tiles<T> &job, uint32_t id, uint32_t row) {
  if (job.keep == ADJI_KEEP_ABOVE) return id > row;
  return !W::DROPS_SELF || job.keep == ADJI_KEEP_ALL || id != row;
}

/* Loads consecutive values of shared memory, 16 bytes at a time; from is aligned to that. */
template <int MANY, class V>
__device__ __forceinline__ void load_all(const V *from, V (&to)[MANY]) {
  constexpr int EACH = 16 / sizeof(V);
#pragma unroll
  for (int i = 0; i < MANY; i += EACH) {
    uint4 four = *reinterpret_cast<const uint4 *>(from + i);
    memcpy(&to[i], &four, sizeof four);
  }
}

/* Loads a point and its id from memory. For fixed dimensions only. */
template <class W, class T>
__device__ __forceinline__ void load_point(const coordinates<T> &from, uint64_t position, T *x) {
  adji_gpu_load<W::WIDTH>(from.coords + position * W::WIDTH, x);
}

/* A candidate on its way to the stage. */
template <class W>
struct candidate {
  typename W::T x[W::WIDTH ? W::WIDTH : 1];
  uint32_t position, id;
};

}  // namespace

#endif
