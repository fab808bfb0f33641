/* SPDX-License-Identifier: MIT
 *
 * The k nearest neighbours of a group of queries below some nodes of a kd-tree, for AVX-512, f32 and L2: see
 * knn_near.h.
 *
 * Each query lists the nodes near it. Then, for a few nodes at a time, it lists the leaves near it and visits them.
 * Lists of a few entries have few unpredictable branches, and the bound improves after each. Exactness is that of
 * knn_body.h: what is skipped comes after the last entry of the list.
 */
#include "distance/knn_near.h"

#if defined(__x86_64__)
#include "distance/knn_boxes_avx512.h"
#include "distance/knn_list_avx512.h"

/* NODES_AT_ONCE: nodes whose leaves are listed together. */
enum { LANES = 16, NODES_AT_ONCE = 4 };

typedef struct near_query {
  const adji_knn_task *task;
  const adji_tree_level *leaves;
  const float *x;
  uint32_t own;
  /* Leaves to skip: those in the mask `seen`, of node seen_node. */
  uint32_t seen;
  uint64_t seen_node;
} near_query;

/* The nodes, out of 16, that may hold one of the k nearest: those nearer than the last entry of the list, or equally
 * far with a smaller id. */
ADJI_INLINE __mmask16 near_of(__m512 bound, const uint32_t *least_ids, const list_f32 *list, const uint32_t wide) {
  __mmask16 near = _mm512_cmp_ps_mask(bound, list->bound, _CMP_LE_OQ);
  __mmask16 tied = _mm512_mask_cmp_ps_mask(near, bound, list->bound, _CMP_EQ_OQ);
  if (__builtin_expect(tied, 0)) {
    __m512i last = _mm512_set1_epi32((int)(uint32_t)list_last_id_f32(list, wide));
    __mmask16 after = _mm512_mask_cmpgt_epu32_mask(tied, _mm512_loadu_si512(least_ids), last);
    near = (__mmask16)(near & ~after);
  }
  return near;
}

ADJI_INLINE uint32_t pack(uint32_t *to, uint32_t first, __mmask16 near) {
  const __m512i lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
  __m512i numbers = _mm512_add_epi32(lanes, _mm512_set1_epi32((int)first));
  _mm512_storeu_si512(to, _mm512_maskz_compress_epi32(near, numbers));
  return (uint32_t)__builtin_popcount(near);
}

/* Lists the nodes near the query, by their places in task->leaves, with their bounds. Returns their number. */
ADJI_INLINE uint32_t list_nodes(const near_query *q, const list_f32 *list, const uint32_t dim, const uint32_t wide,
                                uint32_t *places, float *bounds) {
  const adji_leaves *nodes = q->task->leaves;
  uint32_t many = 0;
  for (uint32_t i = 0; i < nodes->count; i += LANES) {
    __m512 bound = bound_boxes(q->x, (const float *)nodes->bounds + i, ADJI_LEAF_ROOM, dim);
    __mmask16 near = first_lanes(nodes->count - i) & near_of(bound, nodes->least_ids + i, list, wide);
    _mm512_storeu_ps(bounds + many, _mm512_maskz_compress_ps(near, bound));
    many += pack(places + many, i, near);
  }
  return many;
}

/* Lists the leaves below a node that are near the query. */
ADJI_INLINE uint32_t list_leaves(const near_query *q, uint64_t node, const list_f32 *list, const uint32_t dim,
                                 const uint32_t wide, uint32_t *to) {
  uint64_t first = node * ADJI_FAN, rest = q->leaves->count - first;
  const float *boxes = (const float *)q->leaves->bounds + first * 2 * dim;
  uint32_t near = near_of(bound_boxes(q->x, boxes, ADJI_FAN, dim), q->leaves->least_ids + first, list, wide);
  if (rest < ADJI_FAN) near &= (1u << rest) - 1;
  if (q->seen_node == node) near &= ~q->seen;
  return pack(to, (uint32_t)first, (__mmask16)near);
}

ADJI_INLINE void visit(const near_query *q, uint64_t leaf, list_f32 *list, const uint32_t dim, const uint32_t wide) {
  __m512 s = sums_of_leaf(q->x, q->task->coords, leaf, dim);
  list_add_f32(list, wide, s, q->task->ids + leaf * ADJI_LEAF, _mm512_cmp_ps_mask(s, list->bound, _CMP_LE_OQ), q->own);
  if (list_flush_due_f32(list)) list_flush_f32(list, wide);
}

ADJI_INLINE uint64_t search(const near_query *query, uint32_t number, const uint32_t dim, const uint32_t wide) {
  const adji_knn_task *task = query->task;
  uint32_t places[ADJI_LEAF_ROOM + LANES], listed[(NODES_AT_ONCE + 1) * ADJI_FAN];
  float bounds[ADJI_LEAF_ROOM + LANES];
  list_f32 list;
  list_room_f32 room;
  list_open_f32(&list, &room, task, number, wide);
  uint32_t nodes = list_nodes(query, &list, dim, wide, places, bounds);
  uint64_t visited = 0;
  for (uint32_t i = 0; i < nodes;) {
    uint32_t many = 0;
    for (uint32_t end = i + NODES_AT_ONCE; i < end && i < nodes; i++) {
      if (bounds[i] > _mm512_cvtss_f32(list.bound)) continue;
      many += list_leaves(query, task->leaves->number[places[i]], &list, dim, wide, listed + many);
    }
    for (uint32_t l = 0; l < many; l++)
      visit(query, listed[l], &list, dim, wide);
    visited += many;
    list_flush_f32(&list, wide);
  }
  list_close_f32(&list, wide);
  return visited;
}

ADJI_INLINE void search_all(adji_knn_task *task, const adji_tree_level *leaves, const uint32_t dim,
                            const uint32_t wide) {
  near_query query = {.task = task, .leaves = leaves, .seen_node = task->first_seen / ADJI_FAN};
  query.seen = ((1u << (task->end_seen - task->first_seen)) - 1) << task->first_seen % ADJI_FAN;
  for (uint32_t q = 0; q < task->query_count; q++) {
    query.x = (const float *)task->queries + (uint64_t)q * dim;
    query.own = task->own[q];
    task->candidates += ADJI_LEAF * search(&query, q, dim, wide);
  }
}

#define WIDE(dim)                     \
  if (task->k <= 8)                   \
    search_all(task, leaves, dim, 1); \
  else if (task->k <= 16)             \
    search_all(task, leaves, dim, 2); \
  else if (task->k <= 32)             \
    search_all(task, leaves, dim, 4); \
  else                                \
    search_all(task, leaves, dim, 8);

void adji_knn_near_avx512(adji_knn_task *task, const adji_tree_level *leaves) {
  switch (task->dim) {
    case 5:
      WIDE(5)
      break;
    case 6:
      WIDE(6)
      break;
    default:
      WIDE(task->dim)
  }
}
#endif
