/* SPDX-License-Identifier: MIT
 *
 * The k nearest neighbours of one query in a whole kd-tree, for one instruction set and type. The list stays in
 * registers from the first leaf to the last, and nothing is collected during the search. kernels_type.h includes this
 * once, for L2: every instance takes long to compile. It uses the functions of knn_body.h for a leaf and a box, and its
 * exactness is the same.
 */

/* The bounds of the nodes of a chunk. valid: a mask of the nodes that exist. */
typedef struct FN(chunk) {
  T bounds[ADJI_FAN];
  const uint32_t *least_ids;
  uint32_t valid;
} FN(chunk);

ADJI_INLINE void FN(open_chunk)(const adji_tree_level *level, uint64_t number, const T *x, const uint32_t dim,
                                FN(chunk) * chunk) {
  const T *boxes = (const T *)level->bounds + number * 2 * ADJI_FAN * dim;
  uint64_t remaining = level->count - number * ADJI_FAN;
  for (uint32_t i = 0; i < ADJI_FAN; i += LANES)
    V_STORE(chunk->bounds + i, FN(box_bound)(NULL, x, x, dim, boxes + i, ADJI_FAN));
  chunk->least_ids = level->least_ids + number * ADJI_FAN;
  chunk->valid = (UINT32_C(1) << (remaining < ADJI_FAN ? remaining : ADJI_FAN)) - 1;
}

/* The nodes of a chunk whose bounds are at most `bound`. */
ADJI_INLINE uint32_t FN(nodes_up_to)(const FN(chunk) * chunk, T bound) {
  uint32_t near = 0;
  for (uint32_t i = 0; i < ADJI_FAN; i += LANES)
    near |= V_LE(V_LOAD(chunk->bounds + i), V_SET1(bound)) << i;
  return near & chunk->valid;
}

/* The node of a chunk with the least bound, mostly 0. Bounds are not negative, so they order as their bits do, and
 * compilers vectorise the search for the least integer. */
ADJI_INLINE uint32_t FN(nearest_node)(const FN(chunk) * chunk) {
  uint32_t nearest = FN(nodes_up_to)(chunk, 0);
  if (nearest) return (uint32_t)__builtin_ctz(nearest);
  TYPED(bits) bits[ADJI_FAN], least = 0;
  memcpy(bits, chunk->bounds, sizeof bits);
  least = ~least;
  for (uint32_t i = 0; i < ADJI_FAN; i++)
    least = bits[i] < least ? bits[i] : least;
  T bound;
  memcpy(&bound, &least, sizeof bound);
  nearest = FN(nodes_up_to)(chunk, bound);
  return nearest ? (uint32_t)__builtin_ctz(nearest) : 0;
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

/* The state of one search of a tree. */
typedef struct FN(tree) {
  adji_knn_task *task;
  const adji_tree_level *level;
  const T *x;
  uint32_t up, levels; /* the level whose siblings are searched; number of levels */
  uint64_t done;       /* the finished node of the level below */
  uint32_t depth;      /* depth of the stack of nodes to visit */
  FN(node) stack[ADJI_TREE_LEVELS * ADJI_FAN];
} FN(tree);

/* Visits leaves of a chunk, a bit for each. Unless `all` is set, leaves are dropped as the list improves. */
ADJI_INLINE void FN(visit_leaves)(const FN(tree) * tree, const FN(chunk) * chunk, uint64_t number, uint32_t near,
                                  bool all, TYPED(list) * list, const uint32_t dim, const uint32_t wide) {
  adji_knn_task *task = tree->task;
  while (near) {
    uint32_t i = (uint32_t)__builtin_ctz(near);
    near &= near - 1;
    task->candidates += task->leaf;
    if (FN(visit_leaf)(task, tree->x, task->own[0], number * ADJI_FAN + i, list, dim, task->leaf, wide) && !all)
      near &= FN(near_nodes)(chunk, list, wide);
  }
  TYPED(list_flush)(list, wide);
}

/* Pushes the nodes of a chunk that may hold one of the k nearest, except those in `seen`. */
ADJI_INLINE void FN(push_nodes)(FN(tree) * tree, uint32_t level, uint64_t number, uint32_t seen,
                                const TYPED(list) * list, const uint32_t dim, const uint32_t wide) {
  FN(chunk) chunk;
  FN(open_chunk)(tree->level + level, number, tree->x, dim, &chunk);
  for (uint32_t near = FN(near_nodes)(&chunk, list, wide) & ~seen; near; near &= near - 1) {
    uint32_t i = (uint32_t)__builtin_ctz(near);
    tree->stack[tree->depth++] = (FN(node)){number * ADJI_FAN + i, level, chunk.bounds[i]};
  }
}

/* A mask of the leaves around `leaf`, in its chunk: enough of them for k neighbours. */
ADJI_INLINE uint32_t FN(first_leaves)(const adji_knn_task *task, uint32_t leaf) {
  uint32_t many = 1;
  while ((uint64_t)many * task->leaf < task->k + (uint64_t)task->k / 2 && many < ADJI_FAN)
    many *= 2;
  return ((UINT32_C(1) << many) - 1) << leaf / many * many;
}

/* Finds the next chunk of leaves to visit; false: there is none. The search goes upwards from the first leaf: at each
 * level the siblings of the finished node are searched. So bounds are tight before nodes farther away are compared. */
ADJI_INLINE bool FN(next_chunk)(FN(tree) * tree, const TYPED(list) * list, const uint32_t dim, const uint32_t wide,
                                uint64_t *number) {
  for (;;) {
    if (tree->depth) {
      FN(node) top = tree->stack[--tree->depth];
      if (!(V_LE(V_SET1(top.bound), TYPED(list_last)(list, wide)) & 1)) continue;
      *number = top.number;
      if (top.level == 1) return true;
      FN(push_nodes)(tree, top.level - 1, top.number, 0, list, dim, wide);
    } else {
      if (++tree->up >= tree->levels) return false;
      uint32_t seen = UINT32_C(1) << tree->done % ADJI_FAN;
      tree->done /= ADJI_FAN;
      FN(push_nodes)(tree, tree->up, tree->done, seen, list, dim, wide);
    }
  }
}

/* Leaves are visited in only one place, since the code of a list takes longest to compile. */
ADJI_INLINE void FN(knn_tree_dim)(adji_knn_task *task, const adji_tree_level *level, uint32_t levels, uint64_t first,
                                  const uint32_t dim, const uint32_t wide) {
  FN(tree) tree;
  tree.task = task;
  tree.level = level;
  tree.x = task->queries;
  tree.up = 0;
  tree.levels = levels;
  tree.done = first;
  tree.depth = 0;
  TYPED(list) list;
  TYPED(list_room) room;
  TYPED(list_start)(&list, &room, task, wide);
  FN(chunk) chunk;
  FN(open_chunk)(level, first, tree.x, dim, &chunk);
  uint32_t seen = FN(first_leaves)(task, FN(nearest_node)(&chunk)), near = seen & chunk.valid;
  for (bool all = true;; all = false) {
    FN(visit_leaves)(&tree, &chunk, first, near, all, &list, dim, wide);
    if (!all) {
      seen = 0;
      if (!FN(next_chunk)(&tree, &list, dim, wide, &first)) break;
      FN(open_chunk)(level, first, tree.x, dim, &chunk);
    }
    near = FN(near_nodes)(&chunk, &list, wide) & ~seen;
  }
  TYPED(list_close)(&list, wide);
}

ADJI_INLINE void FN(knn_tree_wide)(adji_knn_task *task, const adji_tree_level *level, uint32_t levels, uint64_t first,
                                   const uint32_t dim) {
#define CASE(wide)                                           \
  if (task->k <= 8 * (wide) || (wide) == LIST_TREE_WIDEST) { \
    FN(knn_tree_dim)(task, level, levels, first, dim, wide); \
    return;                                                  \
  }
  LIST_TREE_WIDTHS(CASE)
#undef CASE
}

static void FN(knn_tree)(adji_knn_task *task, const adji_tree_level *level, uint32_t levels, uint64_t first){
#define CALL(dim, is_long) FN(knn_tree_wide)(task, level, levels, first, dim)
    CALL_FOR(task->dim)
#undef CALL
}

/* ---- Selection from candidates that are already listed ------------------------------------------------------- */

/* Callers list no candidate above task->limit. */
ADJI_INLINE
    void FN(select_wide)(adji_knn_task *task, const uint32_t *ids, const T *sums, uint32_t count, const uint32_t wide) {
  TYPED(list) list;
  TYPED(list_room) room;
  TYPED(list_start)(&list, &room, task, wide);
#ifdef LIST_SELECT
  if (TYPED(list_select)(&list, ids, sums, count, task->own[0], wide)) return;
  TYPED(list_start)(&list, &room, task, wide);
#endif
  for (uint32_t i = 0; i < count; i += LANES) {
    VEC s = V_LOAD(sums + i);
    uint32_t valid = count - i < LANES ? (UINT32_C(1) << (count - i)) - 1 : UINT32_MAX;
    TYPED(list_add)(&list, wide, s, ids + i, valid & V_LE(s, TYPED(list_last)(&list, wide)), task->own[0]);
    if (TYPED(list_flush_due)(&list)) TYPED(list_flush)(&list, wide);
  }
  TYPED(list_flush)(&list, wide);
  TYPED(list_close)(&list, wide);
}

static void FN(knn_select)(adji_knn_task *task, const uint32_t *ids, const void *sums, uint32_t count) {
#define CASE(wide)                                      \
  if (task->k <= 8 * (wide) || (wide) == LIST_WIDEST) { \
    FN(select_wide)(task, ids, sums, count, wide);      \
    return;                                             \
  }
  LIST_WIDTHS(CASE)
#undef CASE
}

/* ---- The chunk to begin with --------------------------------------------------------------------------------- */

ADJI_INLINE void FN(locate_dim)(const adji_tree_level *level, uint32_t levels, const T *points, uint32_t count,
                                uint32_t *chunks, const uint32_t dim) {
  for (uint32_t p = 0; p < count; p++) {
    uint64_t node = 0;
    for (uint32_t l = levels; l-- > 1;) {
      FN(chunk) chunk;
      FN(open_chunk)(level + l, node, points + (uint64_t)p * dim, dim, &chunk);
      node = node * ADJI_FAN + FN(nearest_node)(&chunk);
    }
    chunks[p] = (uint32_t)node;
  }
}

static void FN(locate)(const adji_tree_level *level, uint32_t levels, uint32_t dim, const void *points, uint32_t count,
                       uint32_t *chunks) {
#define CALL(dim, is_long) FN(locate_dim)(level, levels, points, count, chunks, dim)
  CALL_FOR(dim)
#undef CALL
}
