/* SPDX-License-Identifier: MIT
 *
 * The nearest point of a kd-tree to each query of a leaf, for AVX-512, f32 and L2: see knn_near.h. Queries are the
 * lanes, and the points of a leaf come one after the other. The search begins with the leaf nearest to the middle of
 * the queries and goes upwards from there, so that nodes far away are compared with a small reach. 16 nodes are
 * compared with the box of the queries at once, and leaves near it one by one with the queries. Exactness is that of
 * knn_body.h.
 */
#include "distance/knn_near.h"

#if defined(__x86_64__)
#include <float.h>

#include "distance/knn_boxes_avx512.h"

enum { LANES = 16, MOST_DIM = 6 };

typedef struct lanes {
  __m512 x[MOST_DIM];
  __m512 low[MOST_DIM], high[MOST_DIM]; /* the box of the queries, in all lanes */
  __m512 best;                          /* sums, and their ids */
  __m512i kept;
  /* The largest of best, and the largest id that a lane has at this distance. */
  __m512 reach;
  __m512i reach_id;
} lanes;

ADJI_INLINE void measure_reach(lanes *q) {
  q->reach = _mm512_set1_ps(_mm512_reduce_max_ps(q->best));
  __mmask16 farthest = _mm512_cmp_ps_mask(q->best, q->reach, _CMP_EQ_OQ);
  q->reach_id = _mm512_set1_epi32((int)_mm512_mask_reduce_max_epu32(farthest, q->kept));
}

/* Lanes without a query repeat the first one, and nothing comes before -1. */
ADJI_INLINE void open_lanes(const adji_nearest *task, lanes *q, const uint32_t dim) {
  const __mmask16 queries = first_lanes(task->count);
  for (uint32_t j = 0; j < dim; j++) {
    const float *x = (const float *)task->queries + (uint64_t)j * LANES;
    const float *box = (const float *)task->box + (uint64_t)2 * j * ADJI_FAN;
    q->x[j] = _mm512_mask_loadu_ps(_mm512_set1_ps(x[0]), queries, x);
    q->low[j] = _mm512_set1_ps(box[0]);
    q->high[j] = _mm512_set1_ps(box[ADJI_FAN]);
  }
  q->best = _mm512_mask_loadu_ps(_mm512_set1_ps(-1), queries, task->sums);
  q->kept = _mm512_maskz_set1_epi32(queries, (int)ADJ_NO_ID);
}

/* Where (s, id) comes before (best, kept). */
ADJI_INLINE __mmask16 before(__m512 s, __m512i id, const lanes *q) {
  __mmask16 tied = _mm512_mask_cmplt_epu32_mask(_mm512_cmp_ps_mask(s, q->best, _CMP_EQ_OQ), id, q->kept);
  return tied | _mm512_cmp_ps_mask(s, q->best, _CMP_LT_OQ);
}

ADJI_INLINE const float *boxes_of(const adji_tree_level *level, uint64_t chunk, const uint32_t dim) {
  return (const float *)level->bounds + chunk * 2 * ADJI_FAN * dim;
}

/* The nodes of a chunk that are within reach of the box of the queries. Nodes that pad the last chunk are infinitely
 * far. */
ADJI_INLINE uint32_t near_nodes(const adji_tree_level *level, uint64_t chunk, const lanes *q, const uint32_t dim) {
  const float *at = boxes_of(level, chunk, dim);
  __m512 s = _mm512_setzero_ps();
  for (uint32_t j = 0; j < dim; j++, at += (size_t)2 * ADJI_FAN) {
    __m512 under = _mm512_sub_ps(q->low[j], _mm512_loadu_ps(at + ADJI_FAN));
    __m512 over = _mm512_sub_ps(_mm512_loadu_ps(at), q->high[j]);
    __m512 gap = _mm512_max_ps(_mm512_max_ps(under, over), _mm512_setzero_ps());
    s = _mm512_fmadd_ps(gap, gap, s);
  }
  __mmask16 tied = _mm512_cmp_ps_mask(s, q->reach, _CMP_EQ_OQ);
  if (tied)
    tied = _mm512_mask_cmplt_epu32_mask(tied, _mm512_loadu_si512(level->least_ids + chunk * ADJI_FAN), q->reach_id);
  return tied | _mm512_cmp_ps_mask(s, q->reach, _CMP_LT_OQ);
}

/* Whether a leaf may hold a neighbour of some query. */
ADJI_INLINE bool is_near(const adji_tree_level *leaves, uint64_t leaf, const lanes *q, const uint32_t dim) {
  const float *at = boxes_of(leaves, leaf / ADJI_FAN, dim) + leaf % ADJI_FAN;
  __m512 s = _mm512_setzero_ps();
  for (uint32_t j = 0; j < dim; j++, at += (size_t)2 * ADJI_FAN) {
    __m512 inside = _mm512_min_ps(_mm512_max_ps(q->x[j], _mm512_set1_ps(at[0])), _mm512_set1_ps(at[ADJI_FAN]));
    __m512 t = _mm512_sub_ps(q->x[j], inside);
    s = _mm512_fmadd_ps(t, t, s);
  }
  return before(s, _mm512_set1_epi32((int)leaves->least_ids[leaf]), q);
}

ADJI_INLINE __m512 sum_with(const float *coords, uint32_t p, const lanes *q, const uint32_t dim) {
  __m512 s = _mm512_setzero_ps();
  for (uint32_t j = 0; j < dim; j++) {
    __m512 t = _mm512_sub_ps(q->x[j], _mm512_set1_ps(coords[j * ADJI_LEAF + p]));
    s = _mm512_fmadd_ps(t, t, s);
  }
  return s;
}

/* The ids of a leaf ascend, so the first of equally near points is kept. No branch depends on what is found. */
ADJI_INLINE void visit(const adji_nearest *task, uint64_t leaf, lanes *q, const uint32_t dim) {
  const float *coords = (const float *)task->coords + leaf * ADJI_LEAF * dim;
  const uint32_t *ids = task->ids + leaf * ADJI_LEAF;
  uint32_t count = ADJI_LEAF;
  while (ids[count - 1] == ADJ_NO_ID)
    count--;
  __m512 best = sum_with(coords, 0, q, dim);
  __m512i kept = _mm512_set1_epi32((int)ids[0]);
  for (uint32_t p = 1; p < count; p++) {
    __m512 s = sum_with(coords, p, q, dim);
    kept = _mm512_mask_set1_epi32(kept, _mm512_cmp_ps_mask(s, best, _CMP_LT_OQ), (int)ids[p]);
    best = _mm512_min_ps(s, best);
  }
  __mmask16 better = before(best, kept, q);
  q->best = _mm512_mask_mov_ps(q->best, better, best);
  q->kept = _mm512_mask_mov_epi32(q->kept, better, kept);
}

/* The leaf nearest to the middle of the queries' box: from the root, the nearest node of each level. */
ADJI_INLINE uint64_t first_leaf(const adji_nearest *task, const lanes *q, const uint32_t dim) {
  float middle[MOST_DIM];
  for (uint32_t j = 0; j < dim; j++)
    middle[j] = _mm512_cvtss_f32(q->low[j]) / 2 + _mm512_cvtss_f32(q->high[j]) / 2;
  uint64_t node = 0;
  for (uint32_t level = task->levels; level--;) {
    __m512 s = bound_boxes(middle, boxes_of(&task->level[level], node, dim), ADJI_FAN, dim);
    s = _mm512_min_ps(s, _mm512_set1_ps(FLT_MAX)); /* sums may overflow */
    uint64_t rest = task->level[level].count - node * ADJI_FAN;
    __mmask16 nodes = first_lanes(rest < ADJI_FAN ? (uint32_t)rest : ADJI_FAN);
    uint32_t nearest =
        _mm512_mask_cmp_ps_mask(nodes, s, _mm512_set1_ps(_mm512_mask_reduce_min_ps(nodes, s)), _CMP_EQ_OQ);
    node = node * ADJI_FAN + (uint32_t)__builtin_ctz(nearest);
  }
  return node;
}

/* Visits the leaves of a chunk. Returns how many. */
ADJI_INLINE uint32_t visit_near(const adji_nearest *task, uint64_t chunk, uint32_t near, lanes *q, const uint32_t dim) {
  uint32_t visited = 0;
  for (; near; near &= near - 1) {
    uint64_t leaf = chunk * ADJI_FAN + (uint32_t)__builtin_ctz(near);
    if (!is_near(task->level, leaf, q, dim)) continue;
    visit(task, leaf, q, dim);
    visited++;
  }
  if (visited) measure_reach(q);
  return visited;
}

/* Searches the nodes `near` of a chunk of level `level`. */
ADJI_INLINE uint64_t search_nodes(const adji_nearest *task, uint32_t level, uint64_t chunk, uint32_t near, lanes *q,
                                  const uint32_t dim) {
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
      visited += visit_near(task, stack[0].chunk, stack[0].near, q, dim);
      stack[0].near = 0;
    }
    while (at <= level && !stack[at].near)
      at++;
    if (at > level) return visited;
    uint64_t node = stack[at].chunk * ADJI_FAN + (uint32_t)__builtin_ctz(stack[at].near);
    stack[at].near &= stack[at].near - 1;
    at--;
    stack[at].chunk = node;
    stack[at].near = near_nodes(&task->level[at], node, q, dim);
  }
}

ADJI_INLINE uint64_t search(adji_nearest *task, const uint32_t dim) {
  lanes q;
  open_lanes(task, &q, dim);
  uint64_t node = first_leaf(task, &q, dim), visited = 1;
  visit(task, node, &q, dim);
  measure_reach(&q);
  for (uint32_t level = 0; level < task->levels; level++, node /= ADJI_FAN) {
    uint64_t chunk = node / ADJI_FAN;
    uint32_t near = near_nodes(&task->level[level], chunk, &q, dim) & ~(1u << node % ADJI_FAN);
    if (near) visited += search_nodes(task, level, chunk, near, &q, dim);
  }
  _mm512_storeu_ps(task->sums, q.best);
  _mm512_storeu_si512(task->found, q.kept);
  return visited * ADJI_LEAF * task->count;
}

uint64_t adji_nearest_avx512(adji_nearest *task) {
  switch (task->dim) {
    case 2:
      return search(task, 2);
    case 3:
      return search(task, 3);
    case 4:
      return search(task, 4);
    case 5:
      return search(task, 5);
    default:
      return search(task, MOST_DIM);
  }
}
#endif
