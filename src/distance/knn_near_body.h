/* SPDX-License-Identifier: MIT
 *
 * The k nearest neighbours of a group of queries below some nodes of a kd-tree, for one instruction set and type. In
 * many dimensions several times as many leaves are near the box of a group as near one of its queries, so testing all
 * of them for every query would be most of the work. Here a query first tests nodes of 16 leaves. kernels_type.h
 * includes this once, for L2.
 *
 * Each query lists the nodes near it. Then, for a few nodes at a time, it lists the leaves near it and visits them.
 * Lists of a few entries have few unpredictable branches, and the bound improves after each. Exactness is that of
 * knn_body.h: what is skipped comes after the last entry of the list.
 */

/* Nodes whose leaves are listed together. */
#define NODES_AT_ONCE 4

typedef struct FN(near_query) {
  const adji_knn_task *task;
  const adji_tree_level *leaves;
  const T *x;
  uint32_t own;
  /* Leaves to skip: those in the mask `seen`, of node seen_node. */
  uint32_t seen;
  uint64_t seen_node;
} FN(near_query);

/* Lower bounds of the sums with the points of LANES boxes. x - min(max(x, low), high) is plus or minus the gap to a
 * box. Rounding does not depend on the sign, so the sums are those of box_bound(). */
ADJI_INLINE VEC FN(point_bound)(const T *x, const T *boxes, uint64_t step, const uint32_t dim) {
  VEC s = V_ZERO();
  for (uint32_t j = 0; j < dim; j++) {
    const T *at = boxes + (uint64_t)2 * j * step;
    VEC v = V_SET1(x[j]), t = V_SUB(v, V_MIN(V_MAX(v, V_LOAD(at)), V_LOAD(at + step)));
    s = V_FMA(t, t, s);
  }
  return s;
}

/* Lists the task's nodes near the query, and their bounds. Returns their number. */
ADJI_INLINE uint32_t FN(list_near_nodes)(const FN(near_query) * q, const TYPED(list) * list, const uint32_t dim,
                                         const uint32_t wide, uint32_t *numbers, T *bounds) {
  const adji_leaves *nodes = q->task->leaves;
  uint32_t many = 0;
  for (uint32_t i = 0; i < nodes->count; i += LANES) {
    VEC bound = FN(point_bound)(q->x, (const T *)nodes->bounds + i, ADJI_LEAF_ROOM, dim);
    uint32_t near = FN(near_boxes)(nodes->least_ids + i, bound, list, wide);
    if (nodes->count - i < LANES) near &= (UINT32_C(1) << (nodes->count - i)) - 1;
    V_PACK(bounds + many, bound, near);
    V_PACK_IDS(numbers + many, nodes->number + i, near);
    many += (uint32_t)__builtin_popcount(near);
  }
  return many;
}

/* Lists the leaves below a node that are near the query. Returns their number. */
ADJI_INLINE uint32_t FN(list_near_leaves)(const FN(near_query) * q, uint64_t node, const TYPED(list) * list,
                                          const uint32_t dim, const uint32_t wide, uint32_t *to) {
  uint64_t first = node * ADJI_FAN, rest = q->leaves->count - first;
  const T *boxes = (const T *)q->leaves->bounds + first * 2 * dim;
  uint32_t wanted = rest < ADJI_FAN ? (UINT32_C(1) << rest) - 1 : (UINT32_C(1) << ADJI_FAN) - 1, many = 0;
  if (q->seen_node == node) wanted &= ~q->seen;
  for (uint32_t i = 0; i < ADJI_FAN; i += LANES, wanted >>= LANES) {
    VEC bound = FN(point_bound)(q->x, boxes + i, ADJI_FAN, dim);
    uint32_t near = wanted & FN(near_boxes)(q->leaves->least_ids + first + i, bound, list, wide);
    uint32_t numbers[LANES];
    for (uint32_t lane = 0; lane < LANES; lane++)
      numbers[lane] = (uint32_t)first + i + lane;
    V_PACK_IDS(to + many, numbers, near);
    many += (uint32_t)__builtin_popcount(near);
  }
  return many;
}

ADJI_INLINE uint64_t FN(search_below)(const FN(near_query) * query, uint32_t number, const uint32_t dim,
                                      const uint32_t wide) {
  const adji_knn_task *task = query->task;
  uint32_t nodes[ADJI_LEAF_ROOM + LANES], listed[(NODES_AT_ONCE + 1) * ADJI_FAN];
  T bounds[ADJI_LEAF_ROOM + LANES];
  TYPED(list) list;
  TYPED(list_room) room;
  TYPED(list_open)(&list, &room, task, number, wide);
  uint32_t count = FN(list_near_nodes)(query, &list, dim, wide, nodes, bounds);
  uint64_t visited = 0;
  for (uint32_t i = 0; i < count;) {
    uint32_t many = 0;
    for (uint32_t end = i + NODES_AT_ONCE; i < end && i < count; i++)
      if (V_LE(V_SET1(bounds[i]), TYPED(list_last)(&list, wide)) & 1)
        many += FN(list_near_leaves)(query, nodes[i], &list, dim, wide, listed + many);
    for (uint32_t l = 0; l < many; l++)
      FN(visit_leaf)(task, query->x, query->own, listed[l], &list, dim, ADJI_LEAF, wide);
    visited += many;
    TYPED(list_flush)(&list, wide);
  }
  TYPED(list_close)(&list, wide);
  return visited;
}

ADJI_INLINE void FN(search_all)(adji_knn_task *task, const adji_tree_level *leaves, const uint32_t dim,
                                const uint32_t wide) {
  FN(near_query) query = {.task = task, .leaves = leaves, .seen_node = task->first_seen / ADJI_FAN};
  query.seen = ((UINT32_C(1) << (task->end_seen - task->first_seen)) - 1) << task->first_seen % ADJI_FAN;
  for (uint32_t q = 0; q < task->query_count; q++) {
    query.x = (const T *)task->queries + (uint64_t)q * dim;
    query.own = task->own[q];
    task->candidates += ADJI_LEAF * FN(search_below)(&query, q, dim, wide);
  }
}

ADJI_INLINE void FN(near_dim)(adji_knn_task *task, const adji_tree_level *leaves, const uint32_t dim) {
#define CASE(wide)                                      \
  if (task->k <= 8 * (wide) || (wide) == LIST_WIDEST) { \
    FN(search_all)(task, leaves, dim, wide);            \
    return;                                             \
  }
  LIST_WIDTHS(CASE)
#undef CASE
}

static void FN(knn_near)(adji_knn_task *task, const adji_tree_level *leaves) {
#define CALL(dim, is_long) FN(near_dim)(task, leaves, dim)
  CALL_FOR(task->dim)
#undef CALL
}
#undef NODES_AT_ONCE
