/* SPDX-License-Identifier: MIT
 *
 * The nearest point of a kd-tree to each query of a leaf, by L2: see knn_near.h. Queries are the lanes of one or more
 * vectors, and the points of a leaf come one after the other. The search begins with the leaf nearest to the middle of
 * the queries and goes upwards from there, so that the reach is small when nodes far away are compared. 16 nodes at
 * once are compared with the box of the queries, and each leaf near that box is compared with all queries. Exactness is
 * that of knn_body.h.
 *
 * Lanes without a query have NaN as coordinates, so nothing is near them, and a sum of -1.
 *
 * The file of an instruction set defines what kernels_type.h lists, and
 *
 *   NEAREST               the name of the function for the type
 *   T_MAX                 the largest finite number of the type
 *   V_MOST(v) V_LEAST(v)  the largest and the smallest lane
 *   IDS_AT(a, b, ids)     ids where a equals b, otherwise 0
 *   IDS_IF_LESS(a, b, ids, others)  ids where a is less than b, otherwise others
 *   IDS_MAX(a, b) IDS_MOST(ids)     the larger ids by lane, and the largest lane
 */
#ifndef ADJI_KNN_NEAR_ONE_BODY_H
#define ADJI_KNN_NEAR_ONE_BODY_H

#include <float.h>

#include "distance/knn_near.h"

#define ADJI_INLINE static inline __attribute__((always_inline))
#define PASTE_(name, type) name##_##type
#define PASTE(name, type) PASTE_(name, type)
#define TYPED(name) PASTE(name, TYPE)

enum { MOST_DIM = 6 };

#endif

#define PARTS (ADJI_LEAF / LANES)
#define EACH_PART(p) for (uint32_t p = 0; p < PARTS; p++)

typedef struct TYPED(lanes) {
  VEC x[PARTS][MOST_DIM];
  T low[MOST_DIM], high[MOST_DIM]; /* the box of the queries */
  VEC best[PARTS];                 /* sums, and their ids */
  IDS kept[PARTS];
  /* The largest sum in best, and the largest id that a lane has at this sum. */
  T reach;
  uint32_t reach_id;
} TYPED(lanes);

ADJI_INLINE void TYPED(measure_reach)(TYPED(lanes) * q) {
  VEC most = q->best[0];
  for (uint32_t p = 1; p < PARTS; p++)
    most = V_MAX(most, q->best[p]);
  q->reach = V_MOST(most);
  IDS worst = IDS_AT(q->best[0], V_SET1(q->reach), q->kept[0]);
  for (uint32_t p = 1; p < PARTS; p++)
    worst = IDS_MAX(worst, IDS_AT(q->best[p], V_SET1(q->reach), q->kept[p]));
  q->reach_id = IDS_MOST(worst);
}

ADJI_INLINE void TYPED(open_lanes)(const adji_nearest *task, TYPED(lanes) * q, const uint32_t dim) {
  for (uint32_t j = 0; j < dim; j++) {
    const T *x = (const T *)task->queries + (uint64_t)j * ADJI_LEAF;
    const T *box = (const T *)task->box + (uint64_t)2 * j * ADJI_FAN;
    EACH_PART(p)
    q->x[p][j] = V_LOAD(x + (size_t)p * LANES);
    q->low[j] = box[0];
    q->high[j] = box[ADJI_FAN];
  }
  EACH_PART(p) {
    q->best[p] = V_LOAD(task->sums.TYPE + (size_t)p * LANES);
    q->kept[p] = IDS_SET1(ADJ_NO_ID);
  }
}

ADJI_INLINE const T *TYPED(boxes_of)(const adji_tree_level *level, uint64_t chunk, const uint32_t dim) {
  return (const T *)level->bounds + chunk * 2 * ADJI_FAN * dim;
}

/* The nodes of a chunk that are within reach of the box of the queries. Nodes that pad the last chunk are infinitely
 * far. */
ADJI_INLINE uint32_t TYPED(near_nodes)(const adji_tree_level *level, uint64_t chunk, const TYPED(lanes) * q,
                                       const uint32_t dim) {
  uint32_t near = 0;
  EACH_PART(p) {
    const T *at = TYPED(boxes_of)(level, chunk, dim) + (size_t)p * LANES;
    const uint32_t *least_ids = level->least_ids + chunk * ADJI_FAN + (size_t)p * LANES;
    VEC s = V_ZERO();
    for (uint32_t j = 0; j < dim; j++, at += (size_t)2 * ADJI_FAN) {
      VEC under = V_SUB(V_SET1(q->low[j]), V_LOAD(at + ADJI_FAN)), over = V_SUB(V_LOAD(at), V_SET1(q->high[j]));
      VEC gap = V_MAX(V_MAX(under, over), V_ZERO());
      s = V_FMA(gap, gap, s);
    }
    near |= IDS_BEFORE(s, IDS_LOAD(least_ids), V_SET1(q->reach), IDS_SET1(q->reach_id)) << p * LANES;
  }
  return near;
}

/* Whether a leaf may hold a neighbour of any query. x - min(max(x, low), high) is plus or minus the gap to a box.
 * Rounding does not depend on the sign, so the sums are those of box_bound() in knn_body.h. */
ADJI_INLINE bool TYPED(is_near)(const adji_tree_level *leaves, uint64_t leaf, const TYPED(lanes) * q,
                                const uint32_t dim) {
  const T *at = TYPED(boxes_of)(leaves, leaf / ADJI_FAN, dim) + leaf % ADJI_FAN;
  const IDS least_id = IDS_SET1(leaves->least_ids[leaf]);
  uint32_t near = 0;
  EACH_PART(p) {
    VEC s = V_ZERO();
    for (uint32_t j = 0; j < dim; j++) {
      const T *bounds = at + (size_t)2 * ADJI_FAN * j;
      VEC inside = V_MIN(V_MAX(q->x[p][j], V_SET1(bounds[0])), V_SET1(bounds[ADJI_FAN]));
      VEC t = V_SUB(q->x[p][j], inside);
      s = V_FMA(t, t, s);
    }
    near |= IDS_BEFORE(s, least_id, q->best[p], q->kept[p]);
  }
  return near;
}

ADJI_INLINE void TYPED(sums_with)(const T *coords, uint32_t i, const TYPED(lanes) * q, const uint32_t dim, VEC *s) {
  EACH_PART(p)
  s[p] = V_ZERO();
  for (uint32_t j = 0; j < dim; j++) {
    VEC c = V_SET1(coords[j * ADJI_LEAF + i]);
    EACH_PART(p) {
      VEC t = V_SUB(q->x[p][j], c);
      s[p] = V_FMA(t, t, s[p]);
    }
  }
}

/* The ids of a leaf ascend, so the first of equally near points is kept. No branch depends on the sums. */
ADJI_INLINE void TYPED(visit)(const adji_nearest *task, uint64_t leaf, TYPED(lanes) * q, const uint32_t dim) {
  const T *coords = (const T *)task->coords + leaf * ADJI_LEAF * dim;
  const uint32_t *ids = task->ids + leaf * ADJI_LEAF;
  uint32_t count = ADJI_LEAF;
  while (ids[count - 1] == ADJ_NO_ID)
    count--;
  VEC best[PARTS], s[PARTS];
  IDS kept[PARTS];
  TYPED(sums_with)(coords, 0, q, dim, best);
  EACH_PART(p)
  kept[p] = IDS_SET1(ids[0]);
  for (uint32_t i = 1; i < count; i++) {
    TYPED(sums_with)(coords, i, q, dim, s);
    EACH_PART(p) { /* the next point waits only for a minimum, not for a comparison */
      kept[p] = IDS_IF_LESS(s[p], best[p], IDS_SET1(ids[i]), kept[p]);
      best[p] = V_MIN(s[p], best[p]);
    }
  }
  EACH_PART(p)
  IDS_MERGE(best[p], kept[p], q->best[p], q->kept[p]);
}

/* The leaf nearest to the middle of the queries' box: the search goes from the root to the nearest node of each
 * level. */
ADJI_INLINE uint64_t TYPED(first_leaf)(const adji_nearest *task, const TYPED(lanes) * q, const uint32_t dim) {
  uint64_t node = 0;
  for (uint32_t level = task->levels; level--;) {
    const T *boxes = TYPED(boxes_of)(&task->level[level], node, dim);
    VEC s[PARTS], least = V_SET1(T_MAX); /* sums may overflow */
    EACH_PART(p) {
      s[p] = V_ZERO();
      for (uint32_t j = 0; j < dim; j++) {
        const T *at = boxes + (size_t)2 * ADJI_FAN * j + (size_t)p * LANES;
        VEC middle = V_SET1(q->low[j] / 2 + q->high[j] / 2);
        VEC t = V_SUB(middle, V_MIN(V_MAX(middle, V_LOAD(at)), V_LOAD(at + ADJI_FAN)));
        s[p] = V_FMA(t, t, s[p]);
      }
      s[p] = V_MIN(s[p], V_SET1(T_MAX));
      least = V_MIN(least, s[p]);
    }
    least = V_SET1(V_LEAST(least));
    uint64_t rest = task->level[level].count - node * ADJI_FAN;
    uint32_t nearest = 0;
    EACH_PART(p)
    nearest |= V_LE(s[p], least) << p * LANES;
    if (rest < ADJI_FAN) nearest &= (UINT32_C(1) << rest) - 1;
    node = node * ADJI_FAN + (uint32_t)__builtin_ctz(nearest);
  }
  return node;
}

/* Visits the leaves `near` of a chunk. Returns the number of leaves visited. */
ADJI_INLINE uint32_t TYPED(visit_near)(const adji_nearest *task, uint64_t chunk, uint32_t near, TYPED(lanes) * q,
                                       const uint32_t dim) {
  uint32_t visited = 0;
  for (; near; near &= near - 1) {
    uint64_t leaf = chunk * ADJI_FAN + (uint32_t)__builtin_ctz(near);
    if (!TYPED(is_near)(task->level, leaf, q, dim)) continue;
    TYPED(visit)(task, leaf, q, dim);
    visited++;
  }
  if (visited) TYPED(measure_reach)(q);
  return visited;
}

/* Searches the nodes `near` of a chunk of level `level`. */
ADJI_INLINE uint64_t TYPED(search_nodes)(const adji_nearest *task, uint32_t level, uint64_t chunk, uint32_t near,
                                         TYPED(lanes) * q, const uint32_t dim) {
  struct {
    uint64_t chunk;
    uint32_t near;
  } stack[ADJI_TREE_LEVELS];
  uint64_t visited = 0;
  uint32_t at = level;
  stack[at].chunk = chunk;
  stack[at].near = near;
  for (;;) {
    if (!at) {
      visited += TYPED(visit_near)(task, stack[0].chunk, stack[0].near, q, dim);
      stack[0].near = 0;
    }
    while (at <= level && !stack[at].near)
      at++;
    if (at > level) return visited;
    uint64_t node = stack[at].chunk * ADJI_FAN + (uint32_t)__builtin_ctz(stack[at].near);
    stack[at].near &= stack[at].near - 1;
    at--;
    stack[at].chunk = node;
    stack[at].near = TYPED(near_nodes)(&task->level[at], node, q, dim);
  }
}

ADJI_INLINE uint64_t TYPED(search)(adji_nearest *task, const uint32_t dim) {
  TYPED(lanes) q;
  TYPED(open_lanes)(task, &q, dim);
  uint64_t node = TYPED(first_leaf)(task, &q, dim), visited = 1;
  TYPED(visit)(task, node, &q, dim);
  TYPED(measure_reach)(&q);
  for (uint32_t level = 0; level < task->levels; level++, node /= ADJI_FAN) {
    uint64_t chunk = node / ADJI_FAN;
    uint32_t near = TYPED(near_nodes)(&task->level[level], chunk, &q, dim) & ~(1u << node % ADJI_FAN);
    if (near) visited += TYPED(search_nodes)(task, level, chunk, near, &q, dim);
  }
  EACH_PART(p) {
    V_STORE(task->sums.TYPE + (size_t)p * LANES, q.best[p]);
    IDS_STORE(task->found + (size_t)p * LANES, q.kept[p]);
  }
  return visited * ADJI_LEAF * task->count;
}

uint64_t NEAREST(adji_nearest *task) {
  switch (task->dim) {
    case 2:
      return TYPED(search)(task, 2);
    case 3:
      return TYPED(search)(task, 3);
    case 4:
      return TYPED(search)(task, 4);
    case 5:
      return TYPED(search)(task, 5);
    default:
      return TYPED(search)(task, MOST_DIM);
  }
}

#undef PARTS
#undef EACH_PART
#undef NEAREST
#undef T
#undef T_MAX
#undef TYPE
#undef VEC
#undef LANES
#undef V_
