/* SPDX-License-Identifier: MIT
 *
 * Lists of the nearest so far, in memory: for every instruction set and type that has no better ones. The
 * body of the kernels for the k nearest (knn_body.h) uses, with `wide` a constant of LIST_WIDTHS:
 *
 *   LIST                                a list at work
 *   TYPED(list_open)(list, task, q, wide)   takes up that of a query; list_close puts it back
 *   TYPED(list_last)(list, wide)            VEC: the sum of the last key, in all lanes
 *   TYPED(list_last_id)(list, wide)
 *   TYPED(list_add)(list, wide, sums, ids, mask, own)  adds the candidates of the lanes in mask, but not own;
 *                                           they may wait to be taken in
 *   TYPED(list_due)(list)                   whether candidates should be taken in before more are added
 *   TYPED(list_take)(list, wide)            takes in those that wait
 *
 * T, TYPE, VEC, LANES and the V_ macros must be defined.
 */
#define LIST_WIDTHS(X) X(1)
#define LIST_WIDEST 1
typedef struct TYPED(list) {
  TYPED(adji_near) * keys;
  uint32_t k;
} TYPED(list);

ADJI_INLINE void TYPED(list_open)(TYPED(list) * list, const adji_knn_task *task, uint32_t q, const uint32_t wide) {
  (void)wide;
  *list = (TYPED(list)){(void *)((char *)task->best + q * task->best_stride), task->k};
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

/* Nothing waits here, but the last key may have changed. */
ADJI_INLINE bool TYPED(list_due)(const TYPED(list) * list) {
  (void)list;
  return true;
}

ADJI_INLINE void TYPED(list_take)(TYPED(list) * list, const uint32_t wide) {
  (void)list, (void)wide;
}
