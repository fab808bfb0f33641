/* SPDX-License-Identifier: MIT
 *
 * Dense places in two and three dimensions, counted or written to rows of known places: every query gets a word, with a
 * bit for each of the 32 candidates in the stage that belongs to it. tiles_kernel.cuh.
 */
#ifndef ADJI_TILES_WORDS_CUH
#define ADJI_TILES_WORDS_CUH

#include "gpu/tiles_queue.cuh"

namespace {

/* Comparing is shared out in small tiles, EACH queries and as many candidates as SHARE says a lane, so that a candidate
 * which was read from shared memory is compared more than once. Lane l has candidates l / SHARE * SHARE and on, and
 * the queries of lanes l % SHARE, that and SHARE more, and so on. In f64 there are registers for fewer queries. */
template <class T>
struct tile_of {
  static constexpr int EACH = sizeof(T) == 4 ? 4 : 2;
  static constexpr int SHARE = ADJI_WARP / EACH;
};

/* Whether a job is done by words: pieces are filled through the queue. */
template <class W, class T>
__device__ __forceinline__ bool by_words(const tiles<T> &job) {
  return W::WORDS && !(W::FILL && job.pieces);
}

/* A stretch of queries that are compared together. */
template <class W>
struct stretch {
  typedef typename W::T T;
  static constexpr int DIMS = W::DIM ? W::DIM : 1;
  uint32_t begin, end;         /* their lanes                                             */
  uint32_t low, high;          /* their first and last position                           */
  T least[DIMS], most[DIMS];   /* the box around them, where candidates are trimmed       */
  T x[tile_of<T>::EACH][DIMS]; /* the lane's queries, with words: NaN, if not one of them */
};

/* ---- Comparing ------------------------------------------------------------------------------------------------- */

/* Puts behind the bits of a word whether s, which is not below 0, is at most the limit. In f32 that is the sign of a
 * difference of whole numbers: numbers from 0 on have the order of their bits, infinity too, and a NaN that was
 * computed is 0x7fffffff on these devices. Two instructions; the compiler takes three for a condition. */
__device__ __forceinline__ uint32_t append_within(uint32_t bits, float s, float limit) {
  return __funnelshift_l(__float_as_uint(s) - (__float_as_uint(limit) + 1), bits, 1);
}
__device__ __forceinline__ uint32_t append_within(uint32_t bits, double s, double limit) {
  return bits << 1 | (s <= limit);
}

/* Every lane has bits[k], of its k-th query with its candidates. Gives every lane the whole word of its own query: a
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
  for (uint32_t step = 2; step; step /= 2) { /* bytes of the other's part go between its own, or before them */
    uint32_t other = __shfl_xor_sync(ALL_LANES, word, step * SHARE);
    word = __byte_perm(word, other, part & step ? 0x3726 : 0x5140);
  }
  return word;
}

/* The word of the lane's own query. BY_ID: what belongs also depends on the ids. */
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

/* ---- Writing --------------------------------------------------------------------------------------------------- */

/* Stores an id in global memory, if. Through a pointer the compiler would not know what memory it is, and with a
 * condition of its own it would not do several of these at once. */
__device__ __forceinline__ void store_if(bool yes, const uint32_t *place, uint32_t id) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.u32 p, %0, 0;\n @p st.global.u32 [%1], %2;\n}" ::"r"(static_cast<uint32_t>(yes)),
      "l"(place), "r"(id));
}

/* Writes the ids of the candidates that words tell of to the rows of their queries, in the order of the stage: lane i
 * has the id of candidate i. Places and words wait where the queues are, which lanes need whose queries are compared
 * alone, and later. */
template <class W, class T, int DIM>
__device__ __forceinline__ void write_words(const tiles<T> &job, const shared<T> &at, const own<T, DIM> &mine,
                                            const stretch<W> &of, uint32_t word, uint32_t lane) {
  static_assert(SHORT_QUEUE * (ADJI_WARP + 1) * sizeof(uint32_t) >= ADJI_WARP * sizeof(uint4), "there must be room");
  uint4 *outgoing = reinterpret_cast<uint4 *>(at.queue);
  target to = at.targets[lane];
  while (mine.found + __popc(word) > to.room && word) /* never, if counting found the same */
    word &= ~(0x80000000u >> __clz(word));
  uint64_t place = __cvta_generic_to_global(job.ids + to.place + mine.found);
  outgoing[lane] = uint4{static_cast<uint32_t>(place), static_cast<uint32_t>(place >> 32), word, 0};
  uint32_t id = at.ids[lane], bit = 1u << lane;
  __syncwarp();
#pragma unroll 1
  for (uint32_t first = of.begin & ~3u; first < of.end; first += 4) {
    uint4 rows[4]; /* words of other queries than the stretch's are 0 */
#pragma unroll
    for (int u = 0; u < 4; u++)
      rows[u] = outgoing[first + u];
#pragma unroll
    for (int u = 0; u < 4; u++) {
      const uint32_t *ids = reinterpret_cast<uint32_t *>(static_cast<uint64_t>(rows[u].y) << 32 | rows[u].x);
      store_if(rows[u].z & bit, ids + __popc(rows[u].z & (bit - 1)), id);
    }
  }
}

/* Counts what belongs in the stage, or writes it. */
template <class W, bool BY_ID, class T, int DIM>
__device__ __forceinline__ void take_words(const tiles<T> &job, const shared<T> &at, own<T, DIM> *mine,
                                           const stretch<W> &of, uint32_t lane) {
  uint32_t word = find_word<W, BY_ID>(job, at, *mine, of, lane);
  if (W::FILL) write_words<W>(job, at, *mine, of, word, lane);
  mine->found += __popc(word);
}

}  // namespace

#endif
