/* SPDX-License-Identifier: MIT
 *
 * Neighbour lists in registers, for AVX-512 and f32; the interface is in knn_list.h. A list is `wide` vectors of 8 keys
 * in ascending order. Keys after the k-th, which pad its vector, are kept sorted too.
 */
#define LIST_WIDTHS(X) X(1) X(2) X(4) X(8)
#define LIST_FEW_WIDTHS(X) X(1) X(4) X(8)
#define LIST_WIDEST 8
#define LIST_TREE_WIDTHS(X) X(1) X(2)
#define LIST_TREE_WIDEST 2
typedef char list_room_f32; /* pending candidates are in registers too */

typedef struct list_f32 {
  __m512i keys[8];
  __m512i last; /* the lane of the last vector that holds the sum of the k-th key, in all lanes */
  uint64_t *home;
  __m512 bound; /* the sum of the k-th key, in all lanes */
  uint32_t unused;
  uint32_t flush_at; /* flush at this number of pending candidates: a short list improves quickly */
  uint32_t pending;  /* candidates not yet in the list, fewer than 16 between calls */
  __m512i sums, ids; /* the first 16 pending candidates */
  /* The candidates added last, and their place. Those past 16 are read from here: a load would wait for the stores. */
  __m512i more_sums, more_ids;
  uint32_t more_at;
} list_f32;

/* Must be called when the keys have changed. */
ADJI_INLINE void list_update_bound(list_f32 *list, const uint32_t wide) {
  list->bound = _mm512_permutexvar_ps(list->last, _mm512_castsi512_ps(list->keys[wide - 1]));
}

/* Vectors that k does not need come first and are full of zeros, which never move. */
ADJI_INLINE void list_set_up(list_f32 *list, list_room_f32 *room, const adji_knn_task *task, uint32_t q,
                             const uint32_t wide) {
  (void)room;
  list->sums = list->ids = list->more_sums = list->more_ids = _mm512_setzero_si512();
  list->more_at = 0;
  list->home = (uint64_t *)(void *)((char *)task->best + q * task->best_stride);
  list->unused = wide - (task->k + 7) / 8;
  list->pending = 0;
  list->flush_at = task->k < 6 ? 1 : 16;
  list->last = _mm512_set1_epi32((int)(2 * ((task->k - 1) % 8) + 1));
}

ADJI_INLINE void list_open_f32(list_f32 *list, list_room_f32 *room, const adji_knn_task *task, uint32_t q,
                               const uint32_t wide) {
  list_set_up(list, room, task, q, wide);
#pragma GCC unroll 8
  for (uint32_t i = 0; i < wide; i++)
    list->keys[i] =
        i < list->unused ? _mm512_setzero_si512() : _mm512_load_si512(list->home + (uint64_t)8 * (i - list->unused));
  list_update_bound(list, wide);
}

ADJI_INLINE void list_start_f32(list_f32 *list, list_room_f32 *room, const adji_knn_task *task, const uint32_t wide) {
  list_set_up(list, room, task, 0, wide);
  __m512i none = _mm512_set1_epi64((long long)adji_near_make_f32((float)task->limit, ADJ_NO_ID));
#pragma GCC unroll 8
  for (uint32_t i = 0; i < wide; i++)
    list->keys[i] = i < list->unused ? _mm512_setzero_si512() : none;
  list_update_bound(list, wide);
}

ADJI_INLINE void list_close_f32(list_f32 *list, const uint32_t wide) {
#pragma GCC unroll 8
  for (uint32_t i = 0; i < wide; i++)
    if (i >= list->unused) _mm512_store_si512(list->home + (uint64_t)8 * (i - list->unused), list->keys[i]);
}

ADJI_INLINE __m512 list_last_f32(const list_f32 *list, const uint32_t wide) {
  (void)wide;
  return list->bound;
}

ADJI_INLINE uint64_t list_last_id_f32(const list_f32 *list, const uint32_t wide) {
  __m512i place = _mm512_sub_epi32(list->last, _mm512_set1_epi32(1));
  return (uint32_t)_mm512_cvtsi512_si32(_mm512_permutexvar_epi32(place, list->keys[wide - 1]));
}

/* Inserts a key, given in all lanes. new[i] = min(old[i], max(old[i - 1], key)) for all i at once keeps the list in
 * order. */
ADJI_INLINE void list_insert(list_f32 *list, const uint32_t wide, __m512i x) {
#pragma GCC unroll 8
  for (uint32_t i = wide; i-- > 0;) {
    __m512i before = i ? list->keys[i - 1] : _mm512_setzero_si512();
    __m512i shifted = _mm512_alignr_epi64(list->keys[i], before, 7);
    list->keys[i] = _mm512_min_epu64(list->keys[i], _mm512_max_epu64(shifted, x));
  }
}

/* One layer of a sorting network. partner is x with its lanes exchanged; the lanes in `larger` keep the larger key. */
ADJI_INLINE __m512i exchange(__m512i x, __m512i partner, __mmask8 larger) {
  return _mm512_mask_max_epu64(_mm512_min_epu64(x, partner), larger, x, partner);
}

ADJI_INLINE __m512i swap_1(__m512i x) {
  return _mm512_shuffle_epi32(x, _MM_PERM_BADC);
}
ADJI_INLINE __m512i swap_2(__m512i x) {
  return _mm512_permutex_epi64(x, 0x4e);
}
ADJI_INLINE __m512i swap_4(__m512i x) {
  return _mm512_shuffle_i64x2(x, x, 0x4e);
}
ADJI_INLINE __m512i reversed(__m512i x) {
  return swap_4(swap_2(swap_1(x)));
}

/* Sorts 8 keys that ascend and then descend, or the other way round. */
ADJI_INLINE __m512i sort_bitonic(__m512i x) {
  x = exchange(x, swap_4(x), 0xf0);
  x = exchange(x, swap_2(x), 0xcc);
  return exchange(x, swap_1(x), 0xaa);
}

ADJI_INLINE __m512i sort_8(__m512i x) {
  x = exchange(x, swap_1(x), 0x66);
  x = exchange(x, swap_2(x), 0x3c);
  x = exchange(x, swap_1(x), 0x5a);
  return sort_bitonic(x);
}

/* Merges 16 unsorted keys into the list. Of two sorted sequences, one of them reversed, the smaller half is bitonic.
 * Halves of halves are exchanged until each vector can be sorted on its own. */
ADJI_INLINE void list_merge(list_f32 *list, const uint32_t wide, __m512i a, __m512i b) {
  __m512i turned = reversed(sort_8(b));
  a = sort_8(a);
  __m512i low = sort_bitonic(_mm512_min_epu64(a, turned)), high = sort_bitonic(_mm512_max_epu64(a, turned));
  __m512i *keys = list->keys;
  if (wide == 1) {
    keys[0] = sort_bitonic(_mm512_min_epu64(keys[0], reversed(low)));
    return;
  }
  keys[wide - 1] = _mm512_min_epu64(keys[wide - 1], reversed(low));
  keys[wide - 2] = _mm512_min_epu64(keys[wide - 2], reversed(high));
#pragma GCC unroll 4
  for (uint32_t half = wide / 2; half; half /= 2) {
#pragma GCC unroll 8
    for (uint32_t i = 0; i < wide; i++) {
      if (i & half) continue;
      __m512i one = keys[i], other = keys[i + half];
      keys[i] = _mm512_min_epu64(one, other);
      keys[i + half] = _mm512_max_epu64(one, other);
    }
  }
#pragma GCC unroll 8
  for (uint32_t i = 0; i < wide; i++)
    keys[i] = sort_bitonic(keys[i]);
}

/* Candidates stay pending until there are 16: packing needs no branch, and sorting 16 costs no more than inserting
 * six. */
ADJI_INLINE void list_add_f32(list_f32 *list, const uint32_t wide, __m512 s, const uint32_t *ids, uint32_t mask,
                              uint32_t own) {
  (void)wide;
  __m512i numbers = _mm512_loadu_si512(ids);
  __mmask16 wanted = _mm512_mask_cmpneq_epi32_mask((__mmask16)mask, numbers, _mm512_set1_epi32((int)own));
  __mmask16 room = (__mmask16)(0xffffu << list->pending);
  list->more_sums = _mm512_maskz_compress_epi32(wanted, _mm512_castps_si512(s));
  list->more_ids = _mm512_maskz_compress_epi32(wanted, numbers);
  list->sums = _mm512_mask_expand_epi32(list->sums, room, list->more_sums);
  list->ids = _mm512_mask_expand_epi32(list->ids, room, list->more_ids);
  list->more_at = list->pending;
  list->pending += (uint32_t)__builtin_popcount(wanted);
}

ADJI_INLINE bool list_flush_due_f32(const list_f32 *list) {
  return list->pending >= list->flush_at;
}

/* Inserts the first `many` pending candidates one by one. */
ADJI_INLINE void list_insert_pending(list_f32 *list, const uint32_t wide, uint32_t many) {
  __m512i from = _mm512_set1_epi64(INT64_C(16) << 32); /* alternately the first id and the first sum */
  for (uint32_t i = 0; i < many; i++) {
    list_insert(list, wide, _mm512_permutex2var_epi32(list->ids, from, list->sums));
    from = _mm512_add_epi32(from, _mm512_set1_epi32(1));
  }
}

/* Flushes the first 16 pending candidates. */
ADJI_INLINE void list_flush_f32(list_f32 *list, const uint32_t wide) {
  if (!list->pending) return;
  uint32_t many = list->pending < 16 ? list->pending : 16;
  if (many <= 4) {
    list_insert_pending(list, wide, many);
  } else { /* lanes without a candidate come after all others */
    __m512i sums = _mm512_mask_mov_epi32(_mm512_set1_epi32(-1), (__mmask16)((UINT32_C(1) << many) - 1), list->sums);
    list_merge(list, wide, _mm512_unpacklo_epi32(list->ids, sums), _mm512_unpackhi_epi32(list->ids, sums));
  }
  list_update_bound(list, wide);
  list->pending -= many;
  if (!list->pending) return;
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512i rest = _mm512_add_epi32(lanes, _mm512_set1_epi32((int)(16 - list->more_at)));
  list->sums = _mm512_permutexvar_epi32(rest, list->more_sums);
  list->ids = _mm512_permutexvar_epi32(rest, list->more_ids);
}
