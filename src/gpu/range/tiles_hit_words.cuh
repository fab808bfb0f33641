/* SPDX-License-Identifier: MIT
 *
 * Dense places in two and three dimensions, when counting or for long rows. Every query gets a word, in which a bit is
 * set for each of the 32 candidates of the stage that belongs to it. Part of tiles_kernel.cuh.
 */
#ifndef ADJI_GPU_RANGE_TILES_HIT_WORDS_CUH
#define ADJI_GPU_RANGE_TILES_HIT_WORDS_CUH

#include "gpu/range/tiles_queue.cuh"

namespace {

/* The warp compares in small tiles: each lane has EACH queries and SHARE candidates, so that a candidate read from
 * shared memory is used more than once. Lane l has the candidates from l / SHARE * SHARE on, and the queries of lanes l
 * % SHARE, l % SHARE + SHARE, and so on. In f64 registers suffice for fewer queries only. */
template <class T>
struct tile_of {
  static constexpr int EACH = sizeof(T) == 4 ? 4 : 2;
  static constexpr int SHARE = ADJI_WARP / EACH;
};

/* Lanes [begin, end). */
struct lanes {
  uint32_t begin, end;
};

/* A stretch of queries that are compared with the same candidates. */
template <class W>
struct stretch {
  typedef typename W::T T;
  static constexpr int DIMS = W::DIM ? W::DIM : 1;
  uint32_t begin, end;         /* their lanes */
  uint32_t low, high;          /* their first and last position */
  T least[DIMS], most[DIMS];   /* the box around them, if candidates are trimmed */
  T x[tile_of<T>::EACH][DIMS]; /* the lane's queries, for words: NaN if not in the stretch */
};

/* ---- Comparing ------------------------------------------------------------------------------------------------- */

/* Appends a bit to a word: whether s, which is not negative, is at most the limit. In f32 the bit is the sign of an
 * integer difference: non-negative floats are ordered like their bits, infinity included, and a computed NaN is
 * 0x7fffffff on these devices. That takes two instructions; the compiler needs three for a condition. */
__device__ __forceinline__ uint32_t append_within(uint32_t bits, float s, float limit) {
  return __funnelshift_l(__float_as_uint(s) - (__float_as_uint(limit) + 1), bits, 1);
}
__device__ __forceinline__ uint32_t append_within(uint32_t bits, double s, double limit) {
  return bits << 1 | (s <= limit);
}

/* In each lane, bits[k] are those of its k-th query and its candidates. Returns the whole word of the lane's own query:
 * a transposition among the lanes with the same queries. */
template <class T>
__device__ __forceinline__ uint32_t gather_word(const uint32_t *bits, uint32_t lane) {
  constexpr int EACH = tile_of<T>::EACH, SHARE = tile_of<T>::SHARE;
  uint32_t part = lane / SHARE, word;
  if (EACH == 2) {
    word = bits[0] | bits[1] << 16;
    uint32_t other = __shfl_xor_sync(ALL_LANES, word, SHARE);
    return __byte_perm(word, other, part ? 0x3276 : 0x5410);
  }
  word = __byte_perm(bits[0] | bits[1] << 8, bits[2 % EACH] | bits[3 % EACH] << 8, 0x5410);
#pragma unroll
  for (uint32_t step = 2; step; step /= 2) { /* bytes of the other lane go between or before the lane's own */
    uint32_t other = __shfl_xor_sync(ALL_LANES, word, step * SHARE);
    word = __byte_perm(word, other, part & step ? 0x3726 : 0x5140);
  }
  return word;
}

/* The word of the lane's own query. BY_ID: whether a candidate belongs also depends on ids. */
template <class W, bool BY_ID, class T, int DIM>
__device__ __forceinline__ uint32_t find_word(const tiles<T> &job, const shared<T> &at,
                                              const lane_query<T, DIM> &own_query, const stretch<W> &span,
                                              uint32_t lane) {
  constexpr int EACH = tile_of<T>::EACH, SHARE = tile_of<T>::SHARE, MANY = 16 / sizeof(T);
  uint32_t first = lane / SHARE * SHARE, bits[EACH] = {0}, rows[EACH];
#pragma unroll
  for (int k = 0; k < EACH && BY_ID; k++)
    rows[k] = __shfl_sync(ALL_LANES, own_query.row, lane % SHARE + k * SHARE);
#pragma unroll
  for (int from = SHARE - MANY; from >= 0; from -= MANY) { /* the last ones first, since bits move up */
    T s[EACH][MANY] = {};
#pragma unroll
    for (int j = 0; j < DIM; j++) {
      T c[MANY];
      load_all(at.candidates + j * ADJI_WARP + first + from, c);
#pragma unroll
      for (int i = 0; i < EACH * MANY; i++)
        s[i / MANY][i % MANY] =
            adji_gpu_step<W::STEP>(s[i / MANY][i % MANY], span.x[i / MANY][j], c[i % MANY], job.measure, j);
    }
#pragma unroll
    for (int u = MANY - 1; u >= 0; u--) {
      uint32_t id = BY_ID ? at.ids[first + from + u] : 0;
#pragma unroll
      for (int k = 0; k < EACH; k++) {
        bits[k] = append_within(bits[k], s[k][u], job.limit);
        if (BY_ID && !(job.keep == ADJI_KEEP_ABOVE ? id > rows[k] : id != rows[k])) bits[k] &= ~1u;
      }
    }
  }
  return gather_word<T>(bits, lane);
}

/* ---- Keeping ----------------------------------------------------------------------------------------------------- */

/* Requests room for the tile hits of this many candidates. */
template <class T>
__device__ __forceinline__ supply claim_tile_hits(const tiles<T> &job, uint32_t candidates, uint32_t lane) {
  uint32_t many = candidates / ADJI_WARP + (candidates % ADJI_WARP != 0);
  uint64_t first = request_items(job, many, lane);
  return supply{first, first + many <= job.tile_hit_room ? first + many : first};
}

/* Writes a tile. Each lane writes the word of its own query, and the id of a candidate. */
template <class T>
__device__ __forceinline__ void keep_tile_hits(const tiles<T> &job, supply *items, uint32_t word, uint32_t id,
                                               uint32_t lane) {
  if (items->next == items->end) return;
  uint32_t *to = job.tile_hits + items->next++ * ADJI_TILE_HIT_WORDS + lane;
  __stcs(to, word);
  __stcs(to + ADJI_WARP, id);
}

/* ---- Rings ---------------------------------------------------------------------------------------------------------
 *
 * Rings fill long rows of known places from words: ids wait in shared memory until a line is full.
 *
 * Every query has a ring of two lines of 32 entries. If a row begins `past` entries after the start of a line, its
 * entry e is in slot (past + e) % 64, so a line of memory is one half of the ring. Before a stage fewer than 32 entries
 * wait, all in one half; a word adds at most 32. So all full lines are written after each stage.
 *
 * Consecutive entries are in consecutive banks: lanes add to one query's ring, and read lines, without conflicts.
 */

/* Entries of a ring; bytes of a warp's rings and cursors. */
enum { RING = 2 * ADJI_WARP, RING_BYTES = ADJI_WARP * RING * sizeof(uint32_t) + ADJI_WARP * sizeof(uint2) };
static_assert(ADJI_WARP * RING * sizeof(uint32_t) >=
                  QUEUE * (ADJI_WARP + 1) * sizeof(uint32_t) + ADJI_WARP * sizeof(target),
              "the queue and its targets must find room where the rings are");

/* Looks up the place of the lane's row. Its prefetch was issued at the start. */
template <class T, int DIM>
__device__ __forceinline__ void find_place(const tiles<T> &job, lane_query<T, DIM> *own_query) {
  const uint64_t *bounds = bounds_of(job, own_query->row);
  uint64_t first = bounds[0] - job.base;
  own_query->place.line = static_cast<uint32_t>(first / ADJI_WARP);
  own_query->place.past = static_cast<uint32_t>(first) % ADJI_WARP;
  own_query->place.room = static_cast<uint32_t>(bounds[1] - bounds[0]);
}

/* Stores an id in shared memory if `yes`. With an ordinary condition the compiler would not overlap several such
 * stores. */
__device__ __forceinline__ void store_if(bool yes, uint32_t place, uint32_t id) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.u32 p, %0, 0;\n @p st.shared.u32 [%1], %2;\n}" ::"r"(static_cast<uint32_t>(yes)),
      "r"(place), "r"(id)
      : "memory");
}

/* Adds candidates to the rings of the queries to which they belong, in the order of the stage. Lane i has candidate i.
 * at.cursors holds the queries' words, and where the next entry goes, in bytes. */
template <class T>
__device__ __forceinline__ void spread_words(const shared<T> &at, lanes span, uint32_t id, uint32_t lane) {
  constexpr uint32_t EACH = 8, SIZE = RING * sizeof(uint32_t);
  uint32_t bit = 1u << lane;
  uint32_t rings = static_cast<uint32_t>(__cvta_generic_to_shared(at.rings)); /* aligned to SIZE */
#pragma unroll 1
  for (uint32_t first = span.begin / EACH * EACH; first < span.end; first += EACH) { /* words of other queries are 0 */
    uint32_t cursors[2 * EACH], ring = rings + first * SIZE;
    load_all(reinterpret_cast<const uint32_t *>(at.cursors + first), cursors);
#pragma unroll
    for (int u = 0; u < EACH; u++) {
      uint32_t word = cursors[2 * u], place = cursors[2 * u + 1] + 4 * __popc(word & (bit - 1));
      store_if(word & bit, (place % SIZE | ring) + u * SIZE, id);
    }
  }
}

/* Writes the first line of the rows of the lanes in first_due. These lines also hold entries of other rows. */
template <class T, int DIM>
__device__ __forceinline__ void write_first(const tiles<T> &job, const shared<T> &at,
                                            const lane_query<T, DIM> &own_query, uint32_t first_due, uint32_t lane) {
  for (; first_due; first_due &= first_due - 1) {
    uint32_t l = __ffs(first_due) - 1;
    uint64_t line = __shfl_sync(ALL_LANES, own_query.place.line, l);
    if (lane >= __shfl_sync(ALL_LANES, own_query.place.past, l))
      job.ids[line * ADJI_WARP + lane] = at.rings[l * RING + lane];
  }
}

/* Writes the full lines: four at a time, eight lanes each. next: where the stage's entries begin, counted from the
 * row's first line. at.cursors holds the lines to write, and their places in the rings, in units of four entries. */
template <class T, int DIM>
__device__ __forceinline__ void write_lines(const tiles<T> &job, const shared<T> &at,
                                            const lane_query<T, DIM> &own_query, bool full, uint32_t next,
                                            uint32_t lane) {
  bool shared_line = next < ADJI_WARP && own_query.place.past;
  uint32_t due = __ballot_sync(ALL_LANES, full && !shared_line), many = __popc(due);
  uint32_t first_due = __ballot_sync(ALL_LANES, full && shared_line);
  if (due >> lane & 1)
    at.cursors[__popc(due & ((1u << lane) - 1))] =
        uint2{own_query.place.line + next / ADJI_WARP, (lane * RING + (next & ADJI_WARP)) / 4};
  const uint4 *from = reinterpret_cast<const uint4 *>(at.rings) + lane % 8;
  uint4 *to = reinterpret_cast<uint4 *>(job.ids) + lane % 8;
  __syncwarp();
#pragma unroll 2
  for (uint32_t i = lane / 8; i < many; i += 4) {
    uint2 line = at.cursors[i];
    to[static_cast<uint64_t>(line.x) * (ADJI_WARP / 4)] = from[line.y];
  }
  write_first(job, at, own_query, first_due, lane);
}

/* Adds a stage: each lane has the word of its own query, and the id of a candidate. */
template <class T, int DIM>
__device__ __forceinline__ void put_words(const tiles<T> &job, const shared<T> &at, const lane_query<T, DIM> &own_query,
                                          lanes span, uint32_t word, uint32_t id, uint32_t lane) {
  while (own_query.found + __popc(word) > own_query.place.room && word) /* never happens if the count found the same */
    word &= ~(0x80000000u >> __clz(word));
  uint32_t next = own_query.place.past + own_query.found;
  at.cursors[lane] = uint2{word, next * static_cast<uint32_t>(sizeof(uint32_t))};
  __syncwarp();
  spread_words(at, span, id, lane);
  __syncwarp();
  bool full = next % ADJI_WARP + __popc(word) >= ADJI_WARP;
  if (__any_sync(ALL_LANES, full)) write_lines(job, at, own_query, full, next, lane);
}

/* Fills the rows of lanes [begin, end) from the tile hits of a count. */
template <class T, int DIM>
__device__ __forceinline__ void replay(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                       uint32_t begin, uint32_t end, uint32_t lane) {
  adji_tile_hits hits = job.tile_hit_starts[__shfl_sync(ALL_LANES, own_query->position, begin)];
  const uint32_t *tile = job.tile_hits + static_cast<uint64_t>(hits.first) * ADJI_TILE_HIT_WORDS + lane;
  uint32_t word = 0, id = 0;
  find_place(job, own_query);
  for (uint32_t i = 0; i <= hits.count; i++, tile += ADJI_TILE_HIT_WORDS) {
    uint32_t next_word = 0, next_id = 0;
    if (i < hits.count) { /* load the next tile while the last one is spread */
      next_word = __ldcs(tile);
      next_id = __ldcs(tile + ADJI_WARP);
    }
    if (i) put_words(job, at, *own_query, lanes{begin, end}, word, id, lane);
    __syncwarp(); /* cursors and rings are no longer read */
    own_query->found += __popc(word);
    word = next_word;
    id = next_id;
  }
}

/* Writes the rest of the rings, less than a line each: four queries at a time, eight lanes each. */
template <class T, int DIM>
__device__ __forceinline__ void empty_rings(const tiles<T> &job, const shared<T> &at, lane_query<T, DIM> *own_query,
                                            uint32_t lane) {
  uint32_t end =
      own_query->place.past + (own_query->found < own_query->place.room ? own_query->found : own_query->place.room);
  uint32_t begin = end & ~(ADJI_WARP - 1u);
  if (begin < own_query->place.past) begin = own_query->place.past;
#pragma unroll 2
  for (uint32_t l = lane / 8; l < ADJI_WARP; l += 4) {
    uint64_t first = static_cast<uint64_t>(__shfl_sync(ALL_LANES, own_query->place.line, l)) * ADJI_WARP;
    uint32_t stop = __shfl_sync(ALL_LANES, end, l);
    for (uint32_t e = __shfl_sync(ALL_LANES, begin, l) + lane % 8; e < stop; e += 8)
      job.ids[first + e] = at.rings[l * RING + e % RING];
  }
  __syncwarp();
  own_query->written = own_query->found; /* for the queue, which now uses the memory of the rings */
}

}  // namespace

#endif
