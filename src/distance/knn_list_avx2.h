/* SPDX-License-Identifier: MIT
 *
 * Neighbour lists in registers, for AVX2 and f32; the interface is in knn_list.h. A list is `wide` blocks of 8 keys in
 * ascending order (knn_blocks_x86.h). Keys after the k-th, which pad its vector, are kept sorted too.
 *
 * A key has the bits of the sum above the id. Sums are at most infinity, 0x7f800000, which is finite in a double.
 */
#define LIST_WIDTHS(X) X(1) X(2) X(4) X(8)
#define LIST_FEW_WIDTHS(X) X(1) X(8)
#define LIST_WIDEST 8
#define LIST_TREE_WIDTHS(X) X(1) X(2)
#define LIST_TREE_WIDEST 2
#define LIST_SELECT

/* Pending candidates: fewer than 16 between calls, and up to 8 more after an addition, which writes 8 entries. */
typedef struct list_room_f32 {
  float sums[32];
  uint32_t ids[32];
} list_room_f32;

typedef struct list_f32 {
  block keys[8];
  __m256 bound; /* the sum of the k-th key, in all lanes */
  __m256i last; /* the lane of this sum in the last vector, in all lanes */
  uint64_t *home;
  list_room_f32 *room;
  uint32_t unused;   /* vectors of 4 keys */
  uint32_t flush_at; /* flush at this number of pending candidates: a short list improves quickly */
  uint32_t pending;
} list_f32;

/* Must be called when the keys have changed. */
ADJI_INLINE void list_update_bound_f32(list_f32 *list, const uint32_t wide) {
  list->bound = _mm256_permutevar8x32_ps(_mm256_castpd_ps(list->keys[wide - 1].high), list->last);
}

/* Vectors that k does not need come first and are full of zeros, which never move. So the last vector has the k-th
 * key. */
ADJI_INLINE void list_set_up_f32(list_f32 *list, list_room_f32 *room, const adji_knn_task *task, uint32_t q,
                                 const uint32_t wide) {
  list->home = (uint64_t *)(void *)((char *)task->best + q * task->best_stride);
  list->room = room;
  list->unused = 2 * wide - (task->k + 3) / 4;
  list->pending = 0;
  list->flush_at = task->k < 6 ? 1 : 16;
  list->last = _mm256_set1_epi32((int)(2 * ((task->k - 1) % 4) + 1));
}

/* The i-th vector of the stored list. */
ADJI_INLINE __m256d list_loaded_f32(const list_f32 *list, uint32_t i) {
  if (i < list->unused) return _mm256_setzero_pd();
  return _mm256_load_pd((const double *)(const void *)(list->home + (uint64_t)4 * (i - list->unused)));
}

ADJI_INLINE void list_open_f32(list_f32 *list, list_room_f32 *room, const adji_knn_task *task, uint32_t q,
                               const uint32_t wide) {
  list_set_up_f32(list, room, task, q, wide);
#pragma GCC unroll 8
  for (uint32_t i = 0; i < wide; i++)
    list->keys[i] = (block){list_loaded_f32(list, 2 * i), list_loaded_f32(list, 2 * i + 1)};
  list_update_bound_f32(list, wide);
}

ADJI_INLINE void list_start_f32(list_f32 *list, list_room_f32 *room, const adji_knn_task *task, const uint32_t wide) {
  list_set_up_f32(list, room, task, 0, wide);
  __m256d none = _mm256_castsi256_pd(_mm256_set1_epi64x((long long)adji_near_make_f32((float)task->limit, ADJ_NO_ID)));
#pragma GCC unroll 8
  for (uint32_t i = 0; i < wide; i++) {
    list->keys[i].low = 2 * i < list->unused ? _mm256_setzero_pd() : none;
    list->keys[i].high = 2 * i + 1 < list->unused ? _mm256_setzero_pd() : none;
  }
  list_update_bound_f32(list, wide);
}

ADJI_INLINE void list_close_f32(list_f32 *list, const uint32_t wide) {
#pragma GCC unroll 8
  for (uint32_t i = 0; i < 2 * wide; i++) {
    __m256d v = i % 2 ? list->keys[i / 2].high : list->keys[i / 2].low;
    if (i >= list->unused) _mm256_store_pd((double *)(void *)(list->home + (uint64_t)4 * (i - list->unused)), v);
  }
}

ADJI_INLINE __m256 list_last_f32(const list_f32 *list, const uint32_t wide) {
  (void)wide;
  return list->bound;
}

ADJI_INLINE uint64_t list_last_id_f32(const list_f32 *list, const uint32_t wide) {
  __m256i place = _mm256_sub_epi32(list->last, _mm256_set1_epi32(1));
  __m256i last = _mm256_permutevar8x32_epi32(_mm256_castpd_si256(list->keys[wide - 1].high), place);
  return (uint32_t)_mm256_cvtsi256_si32(last);
}

/* Candidates stay pending until there are 16: packing needs no branch, and sorting 16 costs no more than inserting
 * six. */
ADJI_INLINE void list_add_f32(list_f32 *list, const uint32_t wide, __m256 s, const uint32_t *ids, uint32_t mask,
                              uint32_t own) {
  (void)wide;
  __m256i numbers = _mm256_loadu_si256((const __m256i *)(const void *)ids);
  __m256i is_own = _mm256_cmpeq_epi32(numbers, _mm256_set1_epi32((int)own));
  mask &= ~(uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(is_own));
  __m256i front = front_lanes(mask);
  _mm256_storeu_ps(list->room->sums + list->pending, _mm256_permutevar8x32_ps(s, front));
  _mm256_storeu_si256((__m256i *)(void *)(list->room->ids + list->pending),
                      _mm256_permutevar8x32_epi32(numbers, front));
  list->pending += (uint32_t)__builtin_popcount(mask);
}

ADJI_INLINE bool list_flush_due_f32(const list_f32 *list) {
  return list->pending >= list->flush_at;
}

/* Makes keys of eight candidates. Candidates from `many` on, and the own one, come after all others. */
ADJI_INLINE block list_keys_f32(const float *sums, const uint32_t *ids, uint32_t many, uint32_t own) {
  const __m256i lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0);
  __m256i values = _mm256_castps_si256(_mm256_loadu_ps(sums));
  __m256i numbers = _mm256_loadu_si256((const __m256i *)(const void *)ids);
  __m256i wanted = _mm256_andnot_si256(_mm256_cmpeq_epi32(numbers, _mm256_set1_epi32((int)own)),
                                       _mm256_cmpgt_epi32(_mm256_set1_epi32((int)many), lanes));
  values = _mm256_blendv_epi8(_mm256_set1_epi32(0x7fe00000), values, wanted);
  return (block){_mm256_castsi256_pd(_mm256_unpacklo_epi32(numbers, values)),
                 _mm256_castsi256_pd(_mm256_unpackhi_epi32(numbers, values))};
}

/* Merges 16 candidates. */
ADJI_INLINE void list_merge_f32(list_f32 *list, const float *sums, const uint32_t *ids, uint32_t many, uint32_t own,
                                const uint32_t wide) {
  block one = list_keys_f32(sums, ids, many, own), other = list_keys_f32(sums + 8, ids + 8, many - 8, own);
  merge_keys(list->keys, wide, one.low, one.high, other.low, other.high);
}

/* Flushes the first 16 pending candidates. */
ADJI_INLINE void list_flush_f32(list_f32 *list, const uint32_t wide) {
  if (!list->pending) return;
  list_room_f32 *room = list->room;
  uint32_t many = list->pending < 16 ? list->pending : 16;
  if (many <= 4) {
    for (uint32_t i = 0; i < many; i++)
      insert_key(list->keys, wide,
                 _mm256_castsi256_pd(_mm256_set1_epi64x((long long)adji_near_make_f32(room->sums[i], room->ids[i]))));
  } else {
    list_merge_f32(list, room->sums, room->ids, many, ADJ_NO_ID, wide);
  }
  list_update_bound_f32(list, wide);
  list->pending -= many;
  if (!list->pending) return;
  _mm256_storeu_ps(room->sums, _mm256_loadu_ps(room->sums + 16));
  _mm256_storeu_si256((__m256i *)(void *)room->ids,
                      _mm256_loadu_si256((const __m256i *)(const void *)(room->ids + 16)));
}

/* Selects the nearest of candidates that are already listed. */
ADJI_INLINE bool list_select_f32(list_f32 *list, const uint32_t *ids, const float *sums, uint32_t count, uint32_t own,
                                 const uint32_t wide) {
  for (uint32_t i = 0; i < count; i += 16)
    list_merge_f32(list, sums + i, ids + i, count - i, own, wide);
  list_close_f32(list, wide);
  return true;
}
