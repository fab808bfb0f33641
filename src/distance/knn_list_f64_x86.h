/* SPDX-License-Identifier: MIT
 *
 * Neighbour lists in registers, for f64 with AVX2 or AVX-512; the interface is in knn_list.h.
 *
 * A sum and an id do not fit a key of 64 bits. So candidates are written to a log in memory, and the key of a candidate
 * is its sum, with the last bits replaced by its place in the log. A list is `wide` blocks of 8 keys in ascending order
 * (knn_blocks_x86.h). Vectors that k does not need come first and are full of zeros; entries that hold no candidate yet
 * are infinite.
 *
 * Exactness. If the sums of two candidates differ above these last bits, their keys have the same order as their
 * (sum, id). The least key that dropped out of the list is kept: if, by its remaining bits, it may come before the k-th
 * key or be equal to it, the list is rebuilt from the log, in exact order. Until then the log keeps all candidates that
 * were added. Candidates above the bound are not added: the bound is at least the sum of the k-th one. When a list is
 * closed, its entries are put in exact order.
 */
#define LIST_WIDTHS(X) X(1) X(2) X(4) X(8)
#define LIST_FEW_WIDTHS(X) X(1) X(8)
#define LIST_WIDEST 8
#define LIST_TREE_WIDTHS(X) X(1) X(2)
#define LIST_TREE_WIDEST 2
#define LIST_SELECT
#ifdef __AVX512F__
#define IDS_EQUAL(ids, id) (uint32_t) _mm256_cmpeq_epi32_mask(IDS_LOAD(ids), IDS_SET1(id))
#else
#define IDS_EQUAL(ids, id)                     \
  (uint32_t) _mm_movemask_ps(_mm_castsi128_ps( \
      _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i *)(const void *)(ids)), _mm_set1_epi32((int)(id)))))
#endif

enum { LIST_LOG = 256 }; /* places that a key can name; a list has 64 keys at most */
typedef struct list_room_f64 {
  double sums[LIST_LOG + 32];
  uint32_t ids[LIST_LOG + 32];
} list_room_f64;

typedef struct list_f64 {
  block keys[8];
  __m256d dropped; /* in some lane the least key that dropped out since the list was last in exact order */
  __m256i last;    /* the lane of the k-th key in the last vector, in pairs of 32 bits */
  VEC bound;       /* no sum above this is among the k nearest, in all lanes */
  double reach;    /* the bound, as a scalar */
  double most;     /* the bound when the list was last in exact order, and the k-th id at that time */
  uint32_t most_id;
  adji_near_f64 *home;
  list_room_f64 *room;
  const double *sums; /* the log: in `room`, or the caller's */
  const uint32_t *ids;
  double limit;
  uint32_t k, unused;      /* unused: vectors of 4 keys */
  uint32_t count, flushed; /* candidates in the log; those of them that were merged into the list */
  uint32_t flush_at;       /* flush at this number of pending candidates: a short list improves quickly */
} list_f64;

/* The keys of the four candidates from place `at` on. An infinite sum counts as the largest finite one. */
ADJI_INLINE __m256d list_keys_f64(const list_f64 *list, uint32_t at) {
  const __m256d place_bits = _mm256_castsi256_pd(_mm256_set1_epi64x(LIST_LOG - 1));
  __m256d sums = _mm256_min_pd(_mm256_loadu_pd(list->sums + at), _mm256_set1_pd(DBL_MAX));
  __m256i places = _mm256_add_epi64(_mm256_set1_epi64x((long long)at), _mm256_set_epi64x(3, 2, 1, 0));
  return _mm256_or_pd(_mm256_andnot_pd(place_bits, sums), _mm256_castsi256_pd(places));
}

/* The same, infinite from place `end` on. */
ADJI_INLINE __m256d list_keys_before_f64(const list_f64 *list, uint32_t at, uint32_t end) {
  __m256i places = _mm256_add_epi64(_mm256_set1_epi64x((long long)at), _mm256_set_epi64x(3, 2, 1, 0));
  __m256i is_one = _mm256_cmpgt_epi64(_mm256_set1_epi64x((long long)end), places);
  return _mm256_blendv_pd(_mm256_set1_pd(INFINITY), list_keys_f64(list, at), _mm256_castsi256_pd(is_one));
}

/* The largest sum that the k-th candidate may have, in all lanes; NaN if there are fewer. */
ADJI_INLINE __m256d list_largest_f64(const list_f64 *list, const uint32_t wide) {
  __m256d last = _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(list->keys[wide - 1].high), list->last));
  return _mm256_or_pd(last, _mm256_castsi256_pd(_mm256_set1_epi64x(LIST_LOG - 1)));
}

/* Makes the list from the candidates at the start of the log, which must be the nearest in exact order: `count` of
 * them, at most k. */
ADJI_INLINE void list_from_log_f64(list_f64 *list, uint32_t count, const uint32_t wide) {
  list->count = list->flushed = count;
  list->dropped = _mm256_set1_pd(INFINITY);
  list->most = count < list->k ? list->limit : list->room->sums[count - 1];
  list->most_id = count < list->k ? ADJ_NO_ID : list->room->ids[count - 1];
#pragma GCC unroll 16
  for (uint32_t i = 0; i < 2 * wide; i++) {
    __m256d v = i < list->unused ? _mm256_setzero_pd() : list_keys_before_f64(list, 4 * (i - list->unused), count);
    if (i % 2)
      list->keys[i / 2].high = v;
    else
      list->keys[i / 2].low = v;
  }
  list->reach = list->most;
  list->bound = V_SET1(list->reach);
}

/* Must be called when the keys have changed. The sum of a key with the bits of DBL_MAX may be infinite. */
ADJI_INLINE void list_update_bound_f64(list_f64 *list, const uint32_t wide) {
  double largest = _mm256_cvtsd_f64(list_largest_f64(list, wide));
  list->reach = largest < list->most && largest < DBL_MAX ? largest : list->most;
  list->bound = V_SET1(list->reach);
}

ADJI_INLINE void list_set_up_f64(list_f64 *list, list_room_f64 *room, const adji_knn_task *task, uint32_t q,
                                 const uint32_t wide) {
  list->home = (adji_near_f64 *)(void *)((char *)task->best + q * task->best_stride);
  list->room = room;
  list->sums = room->sums;
  list->ids = room->ids;
  list->k = task->k;
  list->unused = 2 * wide - (task->k + 3) / 4;
  list->flush_at = task->k < 6 ? 1 : 16;
  int lane = 2 * (int)((task->k - 1) % 4);
  list->last = _mm256_set1_epi64x((long long)(((uint64_t)lane + 1) << 32 | (uint64_t)lane));
}

/* Opens a stored list. The sum of an entry without a neighbour is the limit. */
ADJI_INLINE void list_open_f64(list_f64 *list, list_room_f64 *room, const adji_knn_task *task, uint32_t q,
                               const uint32_t wide) {
  list_set_up_f64(list, room, task, q, wide);
  uint32_t count = 0;
  for (uint32_t i = 0; i < task->k; i++) {
    room->sums[count] = list->home[i].sum;
    room->ids[count] = (uint32_t)list->home[i].id;
    count += list->home[i].id != ADJ_NO_ID;
  }
  list->limit = list->home[task->k - 1].sum;
  list_from_log_f64(list, count, wide);
}

ADJI_INLINE void list_start_f64(list_f64 *list, list_room_f64 *room, const adji_knn_task *task, const uint32_t wide) {
  list_set_up_f64(list, room, task, 0, wide);
  const __m256d unused = _mm256_setzero_pd(), none = _mm256_set1_pd(INFINITY);
#pragma GCC unroll 8
  for (uint32_t i = 0; i < wide; i++)
    list->keys[i] = (block){2 * i < list->unused ? unused : none, 2 * i + 1 < list->unused ? unused : none};
  list->count = list->flushed = 0;
  list->dropped = none;
  list->limit = list->reach = list->most = task->limit;
  list->most_id = ADJ_NO_ID;
  list->bound = V_SET1(list->reach);
}

/* The data that is needed to store a list when it is closed. */
typedef struct list_end_f64 {
  double keys[64];
  const double *sums;
  const uint32_t *ids;
  adji_near_f64 *home;
  double limit;
  uint32_t k, first, room; /* at most `room` keys, from key `first` on */
} list_end_f64;

/* Stores the list. Entries are exchanged where their keys did not tell them apart, or differed only by their places. */
static __attribute__((noinline)) void list_write_f64(const list_end_f64 *list) {
  uint32_t found = 0;
  for (; found < list->room; found++) {
    uint64_t key;
    memcpy(&key, list->keys + list->first + found, sizeof key);
    if (key == UINT64_C(0x7ff0000000000000)) break;
    uint32_t place = key % LIST_LOG, i = found;
    adji_near_f64 near = {list->sums[place], list->ids[place]};
    for (; i &&
           (list->home[i - 1].sum > near.sum || (list->home[i - 1].sum == near.sum && list->home[i - 1].id > near.id));
         i--)
      list->home[i] = list->home[i - 1];
    list->home[i] = near;
  }
  for (; found < list->k; found++)
    list->home[found] = (adji_near_f64){list->limit, ADJ_NO_ID};
}

ADJI_INLINE void list_close_f64(list_f64 *list, const uint32_t wide) {
  list_end_f64 end;
#pragma GCC unroll 8
  for (uint32_t i = 0; i < wide; i++) {
    _mm256_storeu_pd(end.keys + (uint64_t)8 * i, list->keys[i].low);
    _mm256_storeu_pd(end.keys + (uint64_t)8 * i + 4, list->keys[i].high);
  }
  end.sums = list->sums;
  end.ids = list->ids;
  end.home = list->home;
  end.limit = list->limit;
  end.k = list->k;
  end.first = 4 * list->unused;
  end.room = 8 * wide - 4 * list->unused;
  list_write_f64(&end);
}

ADJI_INLINE VEC list_last_f64(const list_f64 *list, const uint32_t wide) {
  (void)wide;
  return list->bound;
}

ADJI_INLINE uint64_t list_last_id_f64(const list_f64 *list, const uint32_t wide) {
  (void)wide;
  return list->reach < list->most ? ADJ_NO_ID : list->most_id;
}

ADJI_INLINE void list_add_f64(list_f64 *list, const uint32_t wide, VEC s, const uint32_t *ids, uint32_t mask,
                              uint32_t own) {
  (void)wide;
  mask &= ~IDS_EQUAL(ids, own);
  V_PACK(list->room->sums + list->count, s, mask);
  V_PACK_IDS(list->room->ids + list->count, ids, mask);
  list->count += (uint32_t)__builtin_popcount(mask);
}

ADJI_INLINE bool list_flush_due_f64(const list_f64 *list) {
  return list->count - list->flushed >= list->flush_at;
}

/* Moves the k nearest candidates to the front of the log, in order. Returns their number. */
static __attribute__((noinline)) uint32_t list_sort_log(list_room_f64 *room, uint32_t count, uint32_t k) {
  adji_near_f64 best[ADJI_KNN_MOST_K];
  uint32_t held = 0;
  for (uint32_t i = 0; i < count; i++) {
    adji_near_f64 near = {room->sums[i], room->ids[i]};
    if (held < k) best[held++] = (adji_near_f64){INFINITY, UINT64_MAX};
    adji_near_insert_f64(best, held, near);
  }
  for (uint32_t i = 0; i < held; i++) {
    room->sums[i] = best[i].sum;
    room->ids[i] = (uint32_t)best[i].id;
  }
  return held;
}

/* Whether a candidate that dropped out may belong to the k nearest. */
ADJI_INLINE bool list_tied_f64(const list_f64 *list, const uint32_t wide) {
  return _mm256_movemask_pd(_mm256_cmp_pd(list->dropped, list_largest_f64(list, wide), _CMP_LE_OQ));
}

/* Rebuilds the list from all candidates in the log. This is rarely needed. The list is passed by value, so that the
 * caller's stays in registers. */
static __attribute__((noinline)) list_f64 list_made_anew(list_f64 list, uint32_t wide) {
  list_from_log_f64(&list, list_sort_log(list.room, list.count, list.k), wide);
  return list;
}

/* Flushes the first 16 pending candidates. */
ADJI_INLINE void list_flush_f64(list_f64 *list, const uint32_t wide) {
  uint32_t pending = list->count - list->flushed, at = list->flushed;
  if (!pending) return;
  if (pending <= 4) {
    for (uint32_t i = 0; i < pending; i++) {
      __m256d key = _mm256_broadcastsd_pd(_mm256_castpd256_pd128(list_keys_f64(list, at + i)));
      list->dropped = _mm256_min_pd(list->dropped, insert_key(list->keys, wide, key));
    }
    list->flushed += pending;
  } else {
    __m256d a = list_keys_before_f64(list, at, list->count), b = list_keys_before_f64(list, at + 4, list->count);
    __m256d c = list_keys_before_f64(list, at + 8, list->count), d = list_keys_before_f64(list, at + 12, list->count);
    list->dropped = _mm256_min_pd(list->dropped, merge_keys(list->keys, wide, a, b, c, d));
    list->flushed += pending < 16 ? pending : 16;
  }
  if (!list_tied_f64(list, wide) && list->flushed <= LIST_LOG - 32) {
    list_update_bound_f64(list, wide);
    return;
  }
  *list = list_made_anew(*list, wide);
}

/* The keys of four candidates, without the own one. */
ADJI_INLINE __m256d list_keys_of_others_f64(const list_f64 *list, uint32_t at, uint32_t end, uint32_t own) {
  __m128i ids = _mm_loadu_si128((const __m128i *)(const void *)(list->ids + at));
  __m256i is_own = _mm256_cvtepi32_epi64(_mm_cmpeq_epi32(ids, _mm_set1_epi32((int)own)));
  __m256d keys = list_keys_before_f64(list, at, end);
  return _mm256_blendv_pd(keys, _mm256_set1_pd(INFINITY), _mm256_castsi256_pd(is_own));
}

/* Selects the nearest of candidates that are already listed, which serve as the log. False if there are too many, or if
 * keys do not tell which are the nearest. */
ADJI_INLINE bool list_select_f64(list_f64 *list, const uint32_t *ids, const double *sums, uint32_t count, uint32_t own,
                                 const uint32_t wide) {
  if (count > LIST_LOG) return false;
  list->sums = sums;
  list->ids = ids;
  for (uint32_t i = 0; i < count; i += 16) {
    __m256d a = list_keys_of_others_f64(list, i, count, own), b = list_keys_of_others_f64(list, i + 4, count, own);
    __m256d c = list_keys_of_others_f64(list, i + 8, count, own), d = list_keys_of_others_f64(list, i + 12, count, own);
    list->dropped = _mm256_min_pd(list->dropped, merge_keys(list->keys, wide, a, b, c, d));
  }
  if (list_tied_f64(list, wide)) return false;
  list_close_f64(list, wide);
  return true;
}
