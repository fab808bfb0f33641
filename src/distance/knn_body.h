/* SPDX-License-Identifier: MIT
 *
 * The kNN kernels for one instruction set, type and step; included like kernels_body.h. Besides the vectors, the
 * instruction set's type section defines:
 *
 *   LIST_HEADER               the file with its neighbour lists, see knn_list.h
 *
 * and, where masks can select lanes, for k = 1:
 *
 *   IDS                       a vector of LANES ids; IDS_LOAD(p) IDS_STORE(p, v) IDS_SET1(x)
 *   IDS_BEFORE(s, ids, best, kept)      uint32_t, a bit for each lane in which (s, id) is not after (best, kept)
 *   IDS_MERGE(s, ids, best, kept)       replaces (best, kept) by (s, id) where it is after that; not where s is NaN
 *   IDS_KEEP(s, ids, own, best, kept)   replaces (best, kept) where s is less than best or best is NaN; if own is not
 *                                       NULL, not where id is the own one
 *
 * Exactness. The rounded sum of the gaps between a query and a box is a lower bound of the sum of every pair, without
 * slack (index/boxes.h). A leaf is skipped iff its bound, with the smallest of its ids, comes after the last entry of
 * the list: then so do all its points.
 */

#if GROWS

/* Lower bounds of the sums between points of the box [low, high] and points of LANES boxes. The lows and highs of
 * dimension j begin at bounds + 2 * j * step.
 *
 * In a periodic box of length L, points that are t apart count as min(t, L - t), both rounded. That is at least the
 * smaller of the gap and L minus the largest t. Where powers are monotone only up to a slack, the sum of the gaps is
 * at most 1 + slack times that of the points, plus 32 dim tiny (index/boxes.c); the bound is reduced by that much. */
ADJI_INLINE VEC FN(box_bound)(const adji_measure *measure, const T *low, const T *high, const uint32_t dim,
                              const T *bounds, uint64_t step) {
  VEC s = V_ZERO();
  for (uint32_t j = 0; j < dim; j++) {
    const T *at = bounds + (uint64_t)2 * j * step;
    VEC from = V_LOAD(at), to = V_LOAD(at + step);
    VEC gap = V_MAX(V_MAX(V_SUB(from, V_SET1(high[j])), V_SUB(V_SET1(low[j]), to)), V_ZERO());
    if (PERIODIC) {
      VEC far = V_MAX(V_SUB(to, V_SET1(low[j])), V_SUB(V_SET1(high[j]), from));
      gap = V_MAX(TYPED(lesser)(V_SUB(V_SET1(((const T *)measure->box)[j]), far), gap), V_ZERO());
    }
    s = STEP(s, gap, V_ZERO(), measure, j);
  }
  if (MONOTONE) return s;
  const double u = sizeof(T) == 8 ? 0x1p-53 : 0x1p-24, tiny = sizeof(T) == 8 ? 0x1p-1074 : 0x1p-149;
  VEC less = V_MUL(s, V_SET1((T)(1 - 8 * (ADJI_POWER_SLACK(u) + dim * u))));
  return V_MAX(V_SUB(less, V_SET1((T)(64 * dim * tiny))), V_ZERO());
}

ADJI_INLINE uint32_t FN(box_bounds_dim)(const adji_measure *measure, const T *low, const T *high, const uint32_t dim,
                                        const T *chunk, T reach, T *bounds) {
  uint32_t near = 0;
  for (uint32_t i = 0; i < ADJI_BOX_LANES; i += LANES) {
    VEC bound = FN(box_bound)(measure, low, high, dim, chunk + i, ADJI_BOX_LANES);
    V_STORE(bounds + i, bound);
    uint32_t within = V_LE(bound, V_SET1(reach));
    near |= (within | (within & V_LE(V_SET1(reach), bound)) << ADJI_BOX_LANES) << i;
  }
  return near;
}

static uint32_t FN(box_bounds)(const adji_measure *measure, const void *low, const void *high, uint32_t dim,
                               const void *chunk, double reach, void *bounds){
#define CALL(dim, is_long) return FN(box_bounds_dim)(measure, low, high, dim, chunk, (T)reach, bounds)
    CALL_FOR(dim)
#undef CALL
}

/* Compares one query with one leaf of `size` points. Returns whether the list has changed. Candidates may also remain
 * pending. */
ADJI_INLINE bool FN(visit_leaf)(const adji_knn_task *task, const T *x, uint32_t own, uint64_t leaf, TYPED(list) * list,
                                const uint32_t dim, const uint32_t size, const uint32_t wide) {
  const T *coords = (const T *)task->coords + leaf * size * dim;
  const uint32_t *ids = task->ids + leaf * size;
  bool changed = false;
  for (uint32_t i = 0; i < size; i += LANES) {
    VEC s = V_ZERO();
    for (uint32_t j = 0; j < dim; j++) {
      VEC c = V_LOAD(coords + (uint64_t)j * size + i);
      s = STEP(s, V_SET1(x[j]), c, task->measure, j);
    }
    TYPED(list_add)(list, wide, s, ids + i, V_LE(s, TYPED(list_last)(list, wide)), own);
    if (!TYPED(list_flush_due)(list)) continue;
    TYPED(list_flush)(list, wide);
    changed = true;
  }
  return changed;
}

/* The boxes, given by their bounds and smallest ids, that may hold one of the k nearest: those nearer than the last
 * entry of the list, or equally far with a smaller id. */
ADJI_INLINE uint32_t FN(near_boxes)(const uint32_t *least_ids, VEC bound, const TYPED(list) * list,
                                    const uint32_t wide) {
  VEC last = TYPED(list_last)(list, wide);
  uint32_t near = V_LE(bound, last), tied = near & V_LE(last, bound);
  for (; tied; tied &= tied - 1) {
    uint32_t lane = (uint32_t)__builtin_ctz(tied);
    if (least_ids[lane] > TYPED(list_last_id)(list, wide)) near &= ~(UINT32_C(1) << lane);
  }
  return near;
}

ADJI_INLINE void FN(knn_query)(adji_knn_task *task, uint32_t q, const uint32_t dim, const uint32_t size,
                               const uint32_t wide) {
  const T *x = (const T *)task->queries + (uint64_t)q * dim, *bounds = task->leaves->bounds;
  const adji_leaves *leaves = task->leaves;
  TYPED(list) list;
  TYPED(list_room) room;
  TYPED(list_open)(&list, &room, task, q, wide);
  for (uint32_t i = 0; i < leaves->count; i += LANES) {
    VEC bound = FN(box_bound)(task->measure, x, x, dim, bounds + i, ADJI_LEAF_ROOM);
    uint32_t valid = leaves->count - i < LANES ? (UINT32_C(1) << (leaves->count - i)) - 1 : ~UINT32_C(0);
    for (uint32_t near = valid & FN(near_boxes)(leaves->least_ids + i, bound, &list, wide); near;) {
      uint32_t lane = (uint32_t)__builtin_ctz(near);
      near &= near - 1;
      task->candidates += size;
      if (FN(visit_leaf)(task, x, task->own[q], leaves->number[i + lane], &list, dim, size, wide))
        near &= FN(near_boxes)(leaves->least_ids + i, bound, &list, wide);
    }
  }
  TYPED(list_flush)(&list, wide);
  TYPED(list_close)(&list, wide);
}

/* k = 1: queries are in the lanes, and points come one after the other. No branch depends on the sums. A leaf is
 * skipped only if no query needs it. */
#ifdef IDS
/* The nearest point of a leaf for each of LANES queries; NaN if the leaf has no other point than the query. The ids of
 * a leaf ascend, so the first of equal points is kept. Leaves have ADJI_LEAF points, which makes offsets constant. */
ADJI_INLINE void FN(nearest_in_leaf)(const adji_knn_task *task, uint64_t leaf, const T *x, const IDS *own,
                                     const uint32_t dim, VEC *sums, IDS *ids) {
  const T *coords = (const T *)task->coords + leaf * ADJI_LEAF * dim;
  const uint32_t *numbers = task->ids + leaf * ADJI_LEAF;
  uint32_t count = ADJI_LEAF;
  while (numbers[count - 1] == ADJ_NO_ID)
    count--;
  VEC best = V_SET1((T)NAN);
  IDS kept = IDS_SET1(ADJ_NO_ID);
  for (uint32_t p = 0; p < count; p++) {
    VEC s = V_ZERO();
    for (uint32_t j = 0; j < dim; j++)
      s = STEP(s, V_LOAD(x + (size_t)2 * j * LANES), V_SET1(coords[j * ADJI_LEAF + p]), task->measure, j);
    IDS_KEEP(s, IDS_SET1(numbers[p]), own, best, kept);
  }
  *sums = best;
  *ids = kept;
}

ADJI_INLINE void FN(knn_k1)(adji_knn_task *task, uint32_t first, const uint32_t dim) {
  const adji_leaves *leaves = task->leaves;
  T x[2 * MOST_FIXED * LANES], sums[LANES], low[MOST_FIXED], high[MOST_FIXED]; /* x: queries as boxes of size zero */
  uint32_t ids[LANES], own_ids[LANES];
  uint32_t many = task->query_count - first < LANES ? task->query_count - first : LANES;
  for (uint32_t q = 0; q < LANES; q++) {
    uint32_t from = first + (q < many ? q : 0);
    const TYPED(adji_near) *so_far = (const void *)((const char *)task->best + from * task->best_stride);
    sums[q] = q < many ? TYPED(adji_near_sum)(*so_far) : -1; /* nothing comes before -1 */
    ids[q] = TYPED(adji_near_id)(*so_far);
    own_ids[q] = task->own[from];
    for (uint32_t j = 0; j < dim; j++)
      x[2 * j * LANES + q] = x[(2 * j + 1) * LANES + q] = ((const T *)task->queries)[(uint64_t)from * dim + j];
  }
  VEC best = V_LOAD(sums), s;
  IDS kept = IDS_LOAD(ids), own = IDS_LOAD(own_ids), found;
  for (uint32_t i = 0; i < leaves->count; i++) {
    for (uint32_t j = 0; j < dim; j++) {
      low[j] = ((const T *)leaves->bounds)[2 * j * ADJI_LEAF_ROOM + i];
      high[j] = ((const T *)leaves->bounds)[(2 * j + 1) * ADJI_LEAF_ROOM + i];
    }
    VEC bound = FN(box_bound)(task->measure, low, high, dim, x, LANES);
    if (!IDS_BEFORE(bound, IDS_SET1(leaves->least_ids[i]), best, kept)) continue;
    task->candidates += (uint64_t)many * ADJI_LEAF;
    if (own_ids[0] == ADJ_NO_ID)
      FN(nearest_in_leaf)(task, leaves->number[i], x, NULL, dim, &s, &found);
    else
      FN(nearest_in_leaf)(task, leaves->number[i], x, &own, dim, &s, &found);
    IDS_MERGE(s, found, best, kept);
  }
  V_STORE(sums, best);
  IDS_STORE(ids, kept);
  for (uint32_t q = 0; q < many; q++) {
    TYPED(adji_near) *to = (void *)((char *)task->best + (first + q) * task->best_stride);
    *to = TYPED(adji_near_make)(sums[q], ids[q]);
  }
}
#endif

ADJI_INLINE void FN(knn_dim)(adji_knn_task *task, const uint32_t dim, const uint32_t size) {
#ifdef IDS
  if (task->k == 1 && size == ADJI_LEAF && dim <= MOST_FIXED) {
    for (uint32_t q = 0; q < task->query_count; q += LANES)
      FN(knn_k1)(task, q, dim);
    return;
  }
#endif
#define CASE(wide)                                      \
  if (task->k <= 8 * (wide) || (wide) == LIST_WIDEST) { \
    for (uint32_t q = 0; q < task->query_count; q++)    \
      FN(knn_query)(task, q, dim, size, wide);          \
    return;                                             \
  }
  STEP_WIDTHS(CASE)
#undef CASE
}

/* Appends the points of a leaf, which has `size` points, within the limit. */
ADJI_INLINE uint32_t FN(list_leaf)(const adji_knn_task *task, uint64_t leaf, VEC most, const uint32_t dim,
                                   const uint32_t size, uint32_t *ids, T *sums) {
  const T *x = task->queries, *coords = (const T *)task->coords + leaf * size * dim;
  const uint32_t *numbers = task->ids + leaf * size;
  uint32_t found = 0;
  for (uint32_t i = 0; i < size; i += LANES) {
    VEC s = V_ZERO();
    for (uint32_t j = 0; j < dim; j++)
      s = STEP(s, V_SET1(x[j]), V_LOAD(coords + (uint64_t)j * size + i), task->measure, j);
    uint32_t mask = V_LE(s, most);
    V_PACK_IDS(ids + found, numbers + i, mask);
    V_PACK(sums + found, s, mask);
    found += (uint32_t)__builtin_popcount(mask);
  }
  return found;
}

/* For lists too long to be kept sorted: lists the points of the leaves within the limit. */
ADJI_INLINE uint32_t FN(list_query)(adji_knn_task *task, T limit, const uint32_t dim, uint32_t *ids, T *sums) {
  const T *x = task->queries, *bounds = task->leaves->bounds;
  const adji_leaves *leaves = task->leaves;
  VEC most = V_SET1(limit);
  uint32_t found = 0;
  for (uint32_t l = 0; l < leaves->count; l += LANES) {
    uint32_t near = V_LE(FN(box_bound)(task->measure, x, x, dim, bounds + l, ADJI_LEAF_ROOM), most);
    if (leaves->count - l < LANES) near &= (UINT32_C(1) << (leaves->count - l)) - 1;
    for (; near; near &= near - 1) {
      task->candidates += task->leaf;
      uint64_t leaf = leaves->number[l + (uint32_t)__builtin_ctz(near)];
      found += FN(list_leaf)(task, leaf, most, dim, task->leaf, ids + found, sums + found);
    }
  }
  return found;
}

static uint32_t FN(list_leaves)(adji_knn_task *task, double limit, uint32_t *ids, void *sums){
#define CALL(dim, is_long) return FN(list_query)(task, (T)limit, dim, ids, sums)
    CALL_FOR(task->dim)
#undef CALL
}

/* Appends the numbers of the nodes of a chunk within the limit. Nodes that pad the last chunk are masked. */
ADJI_INLINE uint32_t FN(nodes_within)(const adji_knn_task *task, const adji_tree_level *level, uint64_t chunk, VEC most,
                                      const uint32_t dim, uint32_t *nodes) {
  const T *x = task->queries, *boxes = (const T *)level->bounds + chunk * 2 * ADJI_FAN * dim;
  uint64_t remaining = level->count - chunk * ADJI_FAN;
  uint32_t valid = remaining < ADJI_FAN ? (UINT32_C(1) << remaining) - 1 : UINT32_MAX, found = 0;
  for (uint32_t i = 0; i < ADJI_FAN; i += LANES, valid >>= LANES) {
    uint32_t near = valid & V_LE(FN(box_bound)(task->measure, x, x, dim, boxes + i, ADJI_FAN), most);
    uint32_t numbers[LANES];
    for (uint32_t lane = 0; lane < LANES; lane++)
      numbers[lane] = (uint32_t)chunk * ADJI_FAN + i + lane;
    V_PACK_IDS(nodes + found, numbers, near);
    found += (uint32_t)__builtin_popcount(near);
  }
  return found;
}

/* Drops padding. The last leaf is padded with NaN, which never compares as near, except where powers turn it into a
 * number. */
ADJI_INLINE uint32_t FN(without_padding)(const uint32_t *ids, uint32_t many) {
  while (many && ids[many - 1] == ADJ_NO_ID)
    many--;
  return many;
}

/* Appends the points of some leaves, with `size` points each. */
ADJI_INLINE void FN(list_sized)(const adji_knn_task *task, const uint32_t *leaves, uint32_t many, VEC most,
                                adji_tree_found *found, const uint32_t dim, const uint32_t size) {
  uint32_t *ids = found->ids, count = found->count;
  T *sums = found->sums;
  for (uint32_t l = 0; l < many; l++)
    count += FN(list_leaf)(task, leaves[l], most, dim, size, ids + count, sums + count);
  found->count = count;
}

/* Appends the points of the leaves of some chunks. All leaves are listed before any is visited: loops of a few rounds
 * have few unpredictable branches. The last leaf of the tree, if among them, comes last. */
ADJI_INLINE void FN(list_chunks)(adji_knn_task *task, const adji_tree_level *level, const uint32_t *chunks,
                                 uint32_t count, VEC most, adji_tree_found *found, const uint32_t dim) {
  uint32_t leaves[ADJI_TREE_STEP + LANES], many = 0;
  for (uint32_t i = 0; i < count; i++)
    many += FN(nodes_within)(task, level, chunks[i], most, dim, leaves + many);
  if (task->leaf == ADJI_LEAF)
    FN(list_sized)(task, leaves, many, most, found, dim, ADJI_LEAF);
  else
    FN(list_sized)(task, leaves, many, most, found, dim, task->leaf);
  task->candidates += (uint64_t)many * task->leaf;
  if (many && leaves[many - 1] + (uint64_t)1 == level->count)
    found->count = FN(without_padding)(found->ids, found->count);
}

ADJI_INLINE void FN(list_nodes)(adji_knn_task *task, const adji_tree_level *level, T limit, adji_tree_stack *stack,
                                adji_tree_found *found, const uint32_t dim) {
  VEC most = V_SET1(limit);
  uint32_t nodes[ADJI_FAN + LANES];
  while (stack->depth && found->count + ADJI_TREE_STEP * task->leaf <= found->room) {
    uint32_t lower = stack->nodes[--stack->depth].level - 1, near = 1;
    nodes[0] = stack->nodes[stack->depth].number;
    if (lower) near = FN(nodes_within)(task, level + lower, nodes[0], most, dim, nodes);
    if (lower <= 1) FN(list_chunks)(task, level, nodes, near, most, found, dim);
    for (uint32_t i = 0; lower > 1 && i < near; i++) {
      stack->nodes[stack->depth].level = lower;
      stack->nodes[stack->depth++].number = nodes[i];
    }
  }
}

/* Only the last chunk has the last leaf. It comes last, so that padding is at the end of the points found. */
ADJI_INLINE void FN(list_below)(adji_knn_task *task, const adji_tree_level *level, T limit, adji_tree_found *found,
                                const uint32_t dim) {
  const T *x = task->queries, *bounds = task->leaves->bounds;
  const adji_leaves *nodes = task->leaves;
  VEC most = V_SET1(limit);
  uint32_t chunks[ADJI_NEAR_NODES + 2 * LANES], count = 0;
  for (uint32_t i = 0; i < nodes->count; i += LANES) {
    uint32_t valid = nodes->count - i < LANES ? (UINT32_C(1) << (nodes->count - i)) - 1 : UINT32_MAX;
    uint32_t near = valid & V_LE(FN(box_bound)(task->measure, x, x, dim, bounds + i, ADJI_LEAF_ROOM), most);
    V_PACK_IDS(chunks + count, nodes->number + i, near);
    count += (uint32_t)__builtin_popcount(near);
  }
  FN(list_chunks)(task, level, chunks, count, most, found, dim);
}

static void FN(list_near)(adji_knn_task *task, const adji_tree_level *level, double limit, adji_tree_found *found) {
#define CALL(dim, is_long) FN(list_below)(task, level, (T)limit, found, dim)
  CALL_FOR(task->dim)
#undef CALL
}

static void FN(list_tree)(adji_knn_task *task, const adji_tree_level *level, double limit, adji_tree_stack *stack,
                          adji_tree_found *found) {
#define CALL(dim, is_long) FN(list_nodes)(task, level, (T)limit, stack, found, dim)
  CALL_FOR(task->dim)
#undef CALL
}

/* Dimensions with instances of their own also have leaves of one size. Other sizes are for measurements. */
static void FN(knn)(adji_knn_task *task) {
#define CALL(fixed, is_long) FN(knn_dim)(task, (is_long) ? task->dim : (fixed), (is_long) ? task->leaf : ADJI_LEAF)
  CALL_FOR(task->leaf == ADJI_LEAF ? task->dim : 0)
#undef CALL
}
#endif

#undef STEP_NAME
#undef STEP
