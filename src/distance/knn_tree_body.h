/* SPDX-License-Identifier: MIT
 *
 * The k nearest neighbours of one query in a whole kd-tree, for one instruction set and type. The list stays in
 * registers from the first leaf to the last, and nothing is collected on the way. kernels_type.h includes this once,
 * for L2: every instance takes long to compile. It uses what knn_body.h has for a leaf and a box, and its exactness is
 * the same.
 */

/* The bounds of the nodes of a chunk, and which of them there are. */
typedef struct FN(chunk) {
  T bounds[ADJI_FAN];
  const uint32_t *least_ids;
  uint32_t valid;
} FN(chunk);

ADJI_INLINE void FN(open_chunk)(const adji_knn_task *task, const adji_tree_level *level, uint64_t number, const T *x,
                                const uint32_t dim, FN(chunk) * chunk) {
  const T *boxes = (const T *)level->bounds + number * 2 * ADJI_FAN * dim;
  uint64_t remaining = level->count - number * ADJI_FAN;
  for (uint32_t i = 0; i < ADJI_FAN; i += LANES)
    V_STORE(chunk->bounds + i, FN(box_bound)(task->measure, x, x, dim, boxes + i, ADJI_FAN));
  chunk->least_ids = level->least_ids + number * ADJI_FAN;
  chunk->valid = (UINT32_C(1) << (remaining < ADJI_FAN ? remaining : ADJI_FAN)) - 1;
}

/* The nodes of a chunk that may hold one of the k nearest. */
ADJI_INLINE uint32_t FN(near_nodes)(const FN(chunk) * chunk, const TYPED(list) * list, const uint32_t wide) {
  VEC last = TYPED(list_last)(list, wide);
  uint32_t near = 0, tied = 0;
  for (uint32_t i = 0; i < ADJI_FAN; i += LANES) {
    VEC bound = V_LOAD(chunk->bounds + i);
    uint32_t within = V_LE(bound, last);
    near |= within << i;
    tied |= (within & V_LE(last, bound)) << i;
  }
  for (tied &= chunk->valid; tied; tied &= tied - 1)
    if (chunk->least_ids[__builtin_ctz(tied)] > TYPED(list_last_id)(list, wide)) near &= ~(tied & -tied);
  return near & chunk->valid;
}

typedef struct FN(node) {
  uint64_t number;
  uint32_t level;
  T bound;
} FN(node);

/* One search of a tree. */
typedef struct FN(tree) {
  adji_knn_task *task;
  const adji_tree_level *level;
  const T *x;
  uint32_t depth; /* of the stack of nodes to visit */
  FN(node) stack[ADJI_TREE_LEVELS * ADJI_FAN];
} FN(tree);

/* Visits the leaves of a chunk, except those in `seen`. */
ADJI_INLINE void FN(visit_chunk)(const FN(tree) * tree, uint64_t number, uint32_t seen, TYPED(list) * list,
                                 const uint32_t dim, const uint32_t wide) {
  adji_knn_task *task = tree->task;
  FN(chunk) chunk;
  FN(open_chunk)(task, tree->level, number, tree->x, dim, &chunk);
  uint32_t near = FN(near_nodes)(&chunk, list, wide) & ~seen;
  while (near) {
    uint32_t i = (uint32_t)__builtin_ctz(near);
    near &= near - 1;
    task->candidates += task->leaf;
    if (FN(visit_leaf)(task, tree->x, task->own[0], number * ADJI_FAN + i, list, dim, wide))
      near &= FN(near_nodes)(&chunk, list, wide);
  }
  TYPED(list_flush)(list, wide);
}

/* Pushes the nodes of a chunk that may hold one of the k nearest, except those in `seen`. */
ADJI_INLINE void FN(push_nodes)(FN(tree) * tree, uint32_t level, uint64_t number, uint32_t seen,
                                const TYPED(list) * list, const uint32_t dim, const uint32_t wide) {
  FN(chunk) chunk;
  FN(open_chunk)(tree->task, tree->level + level, number, tree->x, dim, &chunk);
  for (uint32_t near = FN(near_nodes)(&chunk, list, wide) & ~seen; near; near &= near - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(near);
    tree->stack[tree->depth++] = (FN(node)){number * ADJI_FAN + i, level, chunk.bounds[i]};
  }
}

/* Visits `many` leaves around one, enough for k neighbours. Returns their bits in the chunk. */
ADJI_INLINE uint32_t FN(visit_first)(const FN(tree) * tree, uint64_t leaf, TYPED(list) * list, const uint32_t dim,
                                     const uint32_t wide) {
  adji_knn_task *task = tree->task;
  uint64_t many = 1;
  while (many * task->leaf < task->k + (uint64_t)task->k / 2 && many < ADJI_FAN)
    many *= 2;
  uint64_t first = leaf / many * many, end = first + many;
  if (end > tree->level->count) end = tree->level->count;
  for (uint64_t l = first; l < end; l++)
    FN(visit_leaf)(task, tree->x, task->own[0], l, list, dim, wide);
  TYPED(list_flush)(list, wide);
  task->candidates += (end - first) * task->leaf;
  return ((UINT32_C(1) << many) - 1) << first % ADJI_FAN;
}

/* From the leaf upwards: at each level the siblings of the node that is done with are searched. So bounds are tight
 * before nodes farther away are looked at. */
ADJI_INLINE void FN(knn_tree_dim)(adji_knn_task *task, const adji_tree_level *level, uint32_t levels, uint64_t leaf,
                                  const uint32_t dim, const uint32_t wide) {
  FN(tree) tree;
  tree.task = task;
  tree.level = level;
  tree.x = task->queries;
  tree.depth = 0;
  TYPED(list) list;
  TYPED(list_room) room;
  TYPED(list_start)(&list, &room, task, wide);
  uint32_t seen = FN(visit_first)(&tree, leaf, &list, dim, wide);
  uint64_t done = leaf / ADJI_FAN;
  tree.stack[tree.depth++] = (FN(node)){done, 1, 0};
  for (uint32_t up = 1;; up++, done /= ADJI_FAN) {
    while (tree.depth) {
      FN(node) top = tree.stack[--tree.depth];
      if (!(V_LE(V_SET1(top.bound), TYPED(list_last)(&list, wide)) & 1)) continue;
      if (top.level == 1)
        FN(visit_chunk)(&tree, top.number, seen, &list, dim, wide);
      else
        FN(push_nodes)(&tree, top.level - 1, top.number, 0, &list, dim, wide);
      seen = 0;
    }
    if (up >= levels) break;
    FN(push_nodes)(&tree, up, done / ADJI_FAN, UINT32_C(1) << done % ADJI_FAN, &list, dim, wide);
  }
  TYPED(list_close)(&list, wide);
}

ADJI_INLINE void FN(knn_tree_wide)(adji_knn_task *task, const adji_tree_level *level, uint32_t levels, uint64_t leaf,
                                   const uint32_t dim) {
#define CASE(wide)                                           \
  if (task->k <= 8 * (wide) || (wide) == LIST_TREE_WIDEST) { \
    FN(knn_tree_dim)(task, level, levels, leaf, dim, wide);  \
    return;                                                  \
  }
  LIST_TREE_WIDTHS(CASE)
#undef CASE
}

static void FN(knn_tree)(adji_knn_task *task, const adji_tree_level *level, uint32_t levels, uint64_t leaf) {
#define CALL(dim, is_long) FN(knn_tree_wide)(task, level, levels, leaf, dim)
  CALL_FOR(task->dim)
#undef CALL
}
