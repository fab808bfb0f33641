/* SPDX-License-Identifier: MIT
 *
 * Pools of points within a limit, for AVX-512, f32 and L2: see knn_pool.h.
 */
#include "distance/knn_pool.h"

#if defined(__x86_64__)
#include <math.h>

#include "distance/knn_boxes_avx512.h"
#include "distance/sort_network_avx512.h"

/* ---- Points within a limit ----------------------------------------------------------------------------------- */

/* The leaves near a query are all listed before any is visited: one loop, with one unpredictable branch. */
ADJI_INLINE void list_query(adji_knn_task *task, uint32_t q, const adji_pool *pool, const uint32_t dim) {
  const adji_leaves *leaves = task->leaves;
  const float *x = (const float *)task->queries + (uint64_t)q * dim;
  uint32_t near[ADJI_LEAF_ROOM + ADJI_BOX_LANES], many = 0, at = pool->counts[q];
  __m512 most = _mm512_set1_ps((float)pool->limits[q]);
  for (uint32_t i = 0; i < leaves->count; i += ADJI_BOX_LANES) {
    __m512 bound = bound_boxes(x, (const float *)leaves->bounds + i, ADJI_LEAF_ROOM, dim);
    __mmask16 within = first_lanes(leaves->count - i) & _mm512_cmp_ps_mask(bound, most, _CMP_LE_OQ);
    _mm512_storeu_si512(near + many, _mm512_maskz_compress_epi32(within, _mm512_loadu_si512(leaves->number + i)));
    many += (uint32_t)__builtin_popcount(within);
  }
  uint32_t *ids = pool->ids + q * pool->stride;
  float *sums = (float *)pool->sums + q * pool->stride;
  for (uint32_t l = 0; l < many && at <= pool->most; l++) {
    __m512 s = sums_of_leaf(x, task->coords, near[l], dim);
    __mmask16 within = _mm512_cmp_ps_mask(s, most, _CMP_LE_OQ);
    __m512i numbers = _mm512_loadu_si512(task->ids + (uint64_t)near[l] * ADJI_LEAF);
    _mm512_storeu_si512(ids + at, _mm512_maskz_compress_epi32(within, numbers));
    _mm512_storeu_ps(sums + at, _mm512_maskz_compress_ps(within, s));
    at += (uint32_t)__builtin_popcount(within);
  }
  pool->counts[q] = at;
  task->candidates += (uint64_t)many * ADJI_LEAF;
}

#define FOR_DIM(CALL)  \
  switch (task->dim) { \
    case 2:            \
      CALL(2);         \
      break;           \
    case 3:            \
      CALL(3);         \
      break;           \
    case 4:            \
      CALL(4);         \
      break;           \
    default:           \
      CALL(task->dim); \
  }

static void list(adji_knn_task *task, adji_pool *pool) {
#define CALL(dim)                                  \
  for (uint32_t q = 0; q < task->query_count; q++) \
  list_query(task, q, pool, dim)
  FOR_DIM(CALL)
#undef CALL
}

/* ---- Limits from a few leaves -------------------------------------------------------------------------------- */

/* Each register keeps the least sum per lane. These are the sums of different points, 16 per register, so at least
 * `needed` points are within the sum of rank `needed` among them. If this rank is in the lower three quarters, the sum
 * of the same rank among all points is not much smaller. min() returns the second operand if the first is NaN, as
 * padding is. */
ADJI_INLINE void bound_queries(const adji_knn_task *task, uint64_t first, uint64_t end, uint32_t needed,
                               adji_pool *pool, const uint32_t dim, const uint32_t many) {
  for (uint32_t q = 0; q < task->query_count; q++) {
    const float *x = (const float *)task->queries + (uint64_t)q * dim;
    __m512 least[4];
    __m512i sorted[4];
    uint32_t ranked[64];
    SORT_UNROLL
    for (uint32_t i = 0; i < many; i++)
      least[i] = _mm512_set1_ps(INFINITY);
    for (uint64_t leaf = first; leaf < end; leaf += many) {
      SORT_UNROLL
      for (uint32_t i = 0; i < many; i++)
        if (leaf + i < end) least[i] = _mm512_min_ps(sums_of_leaf(x, task->coords, leaf + i, dim), least[i]);
    }
    SORT_UNROLL
    for (uint32_t i = 0; i < many; i++)
      sorted[i] = _mm512_castps_si512(least[i]);
    sort_registers(sorted, many);
    SORT_UNROLL
    for (uint32_t i = 0; i < many; i++)
      _mm512_storeu_si512(ranked + (uint64_t)16 * i, sorted[i]);
    float limit;
    memcpy(&limit, &ranked[needed - 1], sizeof limit);
    pool->limits[q] = (double)limit;
  }
}

static void bound(const adji_knn_task *task, uint64_t first, uint64_t end, uint32_t needed, adji_pool *pool) {
#define CALL(dim)                                          \
  if (adji_bound_leaves(needed) == 4)                      \
    bound_queries(task, first, end, needed, pool, dim, 1); \
  else if (adji_bound_leaves(needed) == 8)                 \
    bound_queries(task, first, end, needed, pool, dim, 2); \
  else                                                     \
    bound_queries(task, first, end, needed, pool, dim, 4)
  FOR_DIM(CALL)
#undef CALL
}

/* ---- The k nearest of the listed points ---------------------------------------------------------------------- */

enum { PLACE_BITS = 7 };

/* Looks up entries of `many` registers by their places. */
ADJI_INLINE __m512i look_up(const __m512i *table, __m512i places, const uint32_t many) {
  if (many == 1) return _mm512_permutexvar_epi32(places, table[0]);
  __m512i found = _mm512_permutex2var_epi32(table[0], places, table[1]);
  SORT_UNROLL
  for (uint32_t i = 2; i < many; i += 2) {
    __m512i more = _mm512_permutex2var_epi32(table[i], places, table[i + 1 < many ? i + 1 : i]);
    __mmask16 here = _mm512_cmpge_epu32_mask(places, _mm512_set1_epi32((int)(16 * i)));
    found = _mm512_mask_mov_epi32(found, here, more);
  }
  return found;
}

/* Sorts 32-bit keys: the bits of the sums, which order as the sums do, with the last bits replaced by the place in the
 * list. If no two of the first k + 1 keys are equal except for their places, the sums differ, and the keys are in the
 * order of the sums. */
ADJI_INLINE bool pick_from(const uint32_t *ids, const float *sums, uint32_t count, uint32_t k, uint32_t own,
                           adji_picked *to, const uint32_t many) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  const __m512i low = _mm512_set1_epi32((1 << PLACE_BITS) - 1);
  __m512i keys[ADJI_PICK_MOST / 16 + 1], id[ADJI_PICK_MOST / 16], sum[ADJI_PICK_MOST / 16];
  SORT_UNROLL
  for (uint32_t i = 0; i < many; i++) {
    id[i] = _mm512_loadu_si512(ids + (uint64_t)16 * i);
    sum[i] = _mm512_loadu_si512(sums + (uint64_t)16 * i);
    __mmask16 in = first_lanes(count > 16 * i ? count - 16 * i : 0);
    in = _mm512_mask_cmpneq_epi32_mask(in, id[i], _mm512_set1_epi32((int)own));
    __m512i place = _mm512_add_epi32(lanes, _mm512_set1_epi32((int)(16 * i)));
    keys[i] = _mm512_mask_mov_epi32(_mm512_set1_epi32(-1), in, _mm512_ternarylogic_epi32(low, place, sum[i], 0xca));
  }
  sort_registers(keys, many);
  keys[many] = _mm512_set1_epi32(-1);
  __m512i before = _mm512_set1_epi32(-1), last = before;
  __mmask16 close = 0;
  SORT_UNROLL
  for (uint32_t i = 0; i <= many; i++) {
    if (16 * i > k) break;
    __m512i differ = _mm512_xor_si512(keys[i], _mm512_alignr_epi32(keys[i], before, 15));
    close |= _mm512_mask_cmple_epu32_mask(first_lanes(k + 1 - 16 * i), differ, low);
    before = keys[i];
  }
  if (close) return false;
  SORT_UNROLL
  for (uint32_t i = 0; i < many; i++) {
    if (16 * i >= k) break;
    __mmask16 in = first_lanes(k - 16 * i);
    __m512i place = _mm512_and_si512(keys[i], low);
    last = look_up(sum, place, many);
    _mm512_mask_storeu_epi32(to->ids + (uint64_t)16 * i, in, look_up(id, place, many));
    __m512 reported = _mm512_castsi512_ps(last);
    if (to->roots) reported = _mm512_sqrt_ps(reported);
    if (to->sums) _mm512_mask_storeu_ps((float *)to->sums + (uint64_t)16 * i, in, reported);
  }
  last = _mm512_permutexvar_epi32(_mm512_set1_epi32((int)((k - 1) % 16)), last);
  to->last = (double)_mm512_cvtss_f32(_mm512_castsi512_ps(last));
  return true;
}

static bool pick(const adji_pool *pool, uint32_t q, uint32_t k, uint32_t own, adji_picked *to) {
  const uint32_t *ids = pool->ids + q * pool->stride, count = pool->counts[q];
  const float *sums = (const float *)pool->sums + q * pool->stride;
#define PICK(many) \
  if (count <= 16 * (many)) return pick_from(ids, sums, count, k, own, to, many);
  PICK(1)
  PICK(2)
  PICK(3)
  PICK(4)
  PICK(6)
  PICK(8)
#undef PICK
  return false;
}

const adji_pool_kernels adji_pool_kernels_avx512 = {bound, list, pick};
#endif
