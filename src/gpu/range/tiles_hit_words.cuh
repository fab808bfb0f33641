/* SPDX-License-Identifier: MIT
 *
 * Dense places in two and three dimensions, when counting or for long rows. Every query gets a word, with a bit for
 * each of the 32 candidates of the stage that belongs to it. Part of tiles_kernel.cuh.
 */
#ifndef ADJI_GPU_RANGE_TILES_HIT_WORDS_CUH
#define ADJI_GPU_RANGE_TILES_HIT_WORDS_CUH

#include "gpu/range/tiles_queue.cuh"

namespace {

/* The warp compares in small tiles: each lane has EACH queries and SHARE candidates, so that a candidate read from
 * shared memory is used more than once. Lane l has the candidates from l / SHARE * SHARE on, and the queries of lanes
 * l % SHARE, l % SHARE + SHARE, and so on. In f64 there are registers for fewer queries. */
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

/* Appends a bit to a word: whether s, which is not negative, is at most the limit. In f32 that is the sign of an
 * integer difference: non-negative floats have the order of their bits, infinity included, and a computed NaN is
 * 0x7fffffff on these devices. Two instructions; the compiler needs three for a condition. */
__device__ __forceinline__ uint32_t append_within(uint32_t bits, float s, float limit) {
  return __funnelshift_l(__float_as_uint(s) - (__float_as_uint(limit) + 1), bits, 1);
}
__device__ __forceinline__ uint32_t append_within(uint32_t bits, double s, double limit) {
  return bits << 1 | (s <= limit);
}

/* Every lane has bits[k], of its k-th query with its candidates. Gives each lane the whole word of its own query: a
 * transposition among the lanes with the same queries. */
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
  for (uint32_t step = 2; step; step /= 2) { /* bytes from the other lane go between or before its own */
    uint32_t other = __shfl_xor_sync(ALL_LANES, word, step * SHARE);
    word = __byte_perm(word, other, part & step ? 0x3726 : 0x5140);
  }
  return word;
}

/* The word of the lane's own query. BY_ID: ids decide too whether a candidate belongs. */
template <class W, bool BY_ID, class T, int DIM>
__device__ __forceinline__ uint32_t find_word(const tiles<T> &job, const shared<T> &at, const own<T, DIM> &mine,
                                              const stretch<W> &of, uint32_t lane) {
  constexpr int EACH = tile_of<T>::EACH, SHARE = tile_of<T>::SHARE, MANY = 16 / sizeof(T);
  uint32_t first = lane / SHARE * SHARE, bits[EACH] = {0}, rows[EACH];
#pragma unroll
  for (int k = 0; k < EACH && BY_ID; k++)
    rows[k] = __shfl_sync(ALL_LANES, mine.row, lane % SHARE + k * SHARE);
#pragma unroll
  for (int from = SHARE - MANY; from >= 0; from -= MANY) { /* the last first: bits move up */
    T s[EACH][MANY] = {};
#pragma unroll
    for (int j = 0; j < DIM; j++) {
      T c[MANY];
      load_all(at.candidates + j * ADJI_WARP + first + from, c);
#pragma unroll
      for (int i = 0; i < EACH * MANY; i++)
        s[i / MANY][i % MANY] =
            adji_gpu_step<W::STEP>(s[i / MANY][i % MANY], of.x[i / MANY][j], c[i % MANY], job.measure, j);
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

/* Room for the tile hits of this many candidates. */
template <class T>
__device__ __forceinline__ supply claim_tile_hits(const tiles<T> &job, uint32_t candidates, uint32_t lane) {
  uint32_t many = candidates / ADJI_WARP + (candidates % ADJI_WARP != 0);
  unsigned long long first = 0;
  if (lane == 0) first = atomicAdd(job.answers + ADJI_ANSWER_CACHE, static_cast<unsigned long long>(many));
  first = __shfl_sync(ALL_LANES, first, 0);
  return supply{first, first + many <= job.tile_hit_room ? first + many : first};
}

/* Writes a tile: each lane the word of its own query, and the id of a candidate. */
template <class T>
__device__ __forceinline__ void keep_tile_hits(const tiles<T> &job, supply *items, uint32_t word, uint32_t id,
                                               uint32_t lane) {
  if (items->next == items->end) return;
  uint32_t *to = job.tile_hits + items->next++ * ADJI_TILE_HIT_WORDS + lane;
  __stcs(to, word);
  __stcs(to + ADJI_WARP, id);
}

}  // namespace

#endif
