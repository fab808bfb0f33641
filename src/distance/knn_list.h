/* SPDX-License-Identifier: MIT
 *
 * Lists of the best neighbours so far, in memory, for instruction sets and types without a better one. The kNN
 * kernels (knn_body.h) use these, with `wide` a constant of LIST_WIDTHS, or of LIST_FEW_WIDTHS for steps other than L2:
 *
 *   TYPED(list)                             an open list
 *   TYPED(list_room)                        memory for pending candidates
 *   TYPED(list_open)(list, room, task, q, wide)  loads the list of query q; list_close stores it
 *   TYPED(list_start)(list, room, task, wide)    makes an empty list of the first query
 *   TYPED(list_last)(list, wide)            VEC: the sum of the last key, in all lanes
 *   TYPED(list_last_id)(list, wide)         the id of the last key
 *   TYPED(list_add)(list, wide, sums, ids, mask, own)  adds the candidates of the lanes in mask, except own; they may
 *                                           remain pending
 *   TYPED(list_flush_due)(list)             whether pending candidates should be flushed before more are added
 *   TYPED(list_flush)(list, wide)           merges pending candidates into the list
 *   TYPED(list_select)(list, ids, sums, count, own, wide)  only if LIST_SELECT is defined: fills and stores an empty
 *                                           list from candidates in memory, none above the limit. False: the other
 *                                           functions must do it
 *
 * T, TYPE, VEC, LANES and the V_ macros must be defined.
 */
#define LIST_WIDTHS(X) X(1)
#define LIST_FEW_WIDTHS(X) X(1)
#define LIST_WIDEST 1
#define LIST_TREE_WIDTHS(X) X(1)
#define LIST_TREE_WIDEST 1
typedef char TYPED(list_room); /* nothing is pending here */
typedef struct TYPED(list) {
  TYPED(adji_near) * keys;
  uint32_t k;
} TYPED(list);

ADJI_INLINE void TYPED(list_open)(TYPED(list) * list, TYPED(list_room) * room, const adji_knn_task *task, uint32_t q,
                                  const uint32_t wide) {
  (void)room, (void)wide;
  *list = (TYPED(list)){(void *)((char *)task->best + q * task->best_stride), task->k};
}

ADJI_INLINE void TYPED(list_start)(TYPED(list) * list, TYPED(list_room) * room, const adji_knn_task *task,
                                   const uint32_t wide) {
  TYPED(list_open)(list, room, task, 0, wide);
  for (uint32_t i = 0; i < task->k; i++)
    list->keys[i] = TYPED(adji_near_make)((T)task->limit, ADJ_NO_ID);
}

ADJI_INLINE void TYPED(list_close)(TYPED(list) * list, const uint32_t wide) {
  (void)list, (void)wide;
}

ADJI_INLINE VEC TYPED(list_last)(const TYPED(list) * list, const uint32_t wide) {
  (void)wide;
  return V_SET1(TYPED(adji_near_sum)(list->keys[list->k - 1]));
}

ADJI_INLINE uint64_t TYPED(list_last_id)(const TYPED(list) * list, const uint32_t wide) {
  (void)wide;
  return TYPED(adji_near_id)(list->keys[list->k - 1]);
}

ADJI_INLINE void TYPED(list_add)(TYPED(list) * list, const uint32_t wide, VEC s, const uint32_t *ids, uint32_t mask,
                                 uint32_t own) {
  (void)wide;
  T sums[LANES];
  V_STORE(sums, s);
  for (; mask; mask &= mask - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(mask);
    if (ids[lane] != own) TYPED(adji_near_insert)(list->keys, list->k, TYPED(adji_near_make)(sums[lane], ids[lane]));
  }
}

/* Always: the last key may have changed. */
ADJI_INLINE bool TYPED(list_flush_due)(const TYPED(list) * list) {
  (void)list;
  return true;
}

ADJI_INLINE void TYPED(list_flush)(TYPED(list) * list, const uint32_t wide) {
  (void)list, (void)wide;
}
