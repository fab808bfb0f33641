/* SPDX-License-Identifier: MIT
 *
 * The nearest neighbour of each query of a group below some nodes of a kd-tree, for AVX-512, f32 and L2: see
 * knn_near.h. Queries are the lanes, and the points of a leaf come one after the other. The leaves of a node are
 * compared with the box of the queries first, 16 at a time, then one by one with the queries. Exactness is that of
 * knn_body.h.
 */
#include "distance/knn_near.h"

#if defined(__x86_64__)
#include <math.h>

#include "distance/knn_boxes_avx512.h"

enum { LANES = 16, MOST_DIM = 6 };

typedef struct lanes {
  __m512 x[MOST_DIM];
  float low[MOST_DIM], high[MOST_DIM]; /* the box of the queries */
  __m512 best;                         /* sums, and their ids */
  __m512i kept;
  float reach; /* the largest of best */
} lanes;

/* Lanes without a query repeat the first one, and nothing comes before -1. */
ADJI_INLINE void open_lanes(const adji_knn_task *task, uint32_t first, uint32_t many, lanes *q, const uint32_t dim) {
  float x[MOST_DIM][LANES], sums[LANES];
  uint32_t ids[LANES];
  for (uint32_t i = 0; i < LANES; i++) {
    uint32_t from = first + (i < many ? i : 0);
    const adji_near_f32 *so_far = (const void *)((const char *)task->best + from * task->best_stride);
    sums[i] = i < many ? adji_near_sum_f32(*so_far) : -1;
    ids[i] = adji_near_id_f32(*so_far);
    for (uint32_t j = 0; j < dim; j++)
      x[j][i] = ((const float *)task->queries)[(uint64_t)from * dim + j];
  }
  for (uint32_t j = 0; j < dim; j++) {
    q->x[j] = _mm512_loadu_ps(x[j]);
    q->low[j] = _mm512_reduce_min_ps(q->x[j]);
    q->high[j] = _mm512_reduce_max_ps(q->x[j]);
  }
  q->best = _mm512_loadu_ps(sums);
  q->kept = _mm512_loadu_si512(ids);
  q->reach = _mm512_reduce_max_ps(q->best);
}

static void close_lanes(const adji_knn_task *task, uint32_t first, uint32_t many, const lanes *q) {
  float sums[LANES];
  uint32_t ids[LANES];
  _mm512_storeu_ps(sums, q->best);
  _mm512_storeu_si512(ids, q->kept);
  for (uint32_t i = 0; i < many; i++)
    *(adji_near_f32 *)(void *)((char *)task->best + (first + i) * task->best_stride) =
        adji_near_make_f32(sums[i], ids[i]);
}

/* Where (s, id) comes before (best, kept). */
ADJI_INLINE __mmask16 before(__m512 s, __m512i id, const lanes *q) {
  __mmask16 tied = _mm512_mask_cmplt_epu32_mask(_mm512_cmp_ps_mask(s, q->best, _CMP_EQ_OQ), id, q->kept);
  return tied | _mm512_cmp_ps_mask(s, q->best, _CMP_LT_OQ);
}

/* The boxes of a node's leaves that are within reach of the box of the queries. */
ADJI_INLINE uint32_t near_leaves(const adji_tree_level *leaves, uint64_t node, const lanes *q, const uint32_t dim) {
  const float *at = (const float *)leaves->bounds + node * ADJI_FAN * 2 * dim;
  __m512 s = _mm512_setzero_ps();
  for (uint32_t j = 0; j < dim; j++, at += (size_t)2 * ADJI_FAN) {
    __m512 under = _mm512_sub_ps(_mm512_set1_ps(q->low[j]), _mm512_loadu_ps(at + ADJI_FAN));
    __m512 over = _mm512_sub_ps(_mm512_loadu_ps(at), _mm512_set1_ps(q->high[j]));
    __m512 gap = _mm512_max_ps(_mm512_max_ps(under, over), _mm512_setzero_ps());
    s = _mm512_fmadd_ps(gap, gap, s);
  }
  uint64_t rest = leaves->count - node * ADJI_FAN;
  return first_lanes(rest < ADJI_FAN ? (uint32_t)rest : ADJI_FAN) &
         _mm512_cmp_ps_mask(s, _mm512_set1_ps(q->reach), _CMP_LE_OQ);
}

/* Whether a leaf may hold a neighbour of some query. */
ADJI_INLINE bool is_near(const adji_tree_level *leaves, uint64_t leaf, const lanes *q, const uint32_t dim) {
  const float *at = (const float *)leaves->bounds + leaf / ADJI_FAN * ADJI_FAN * 2 * dim + leaf % ADJI_FAN;
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
ADJI_INLINE void visit(const adji_knn_task *task, uint64_t leaf, lanes *q, const uint32_t dim) {
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

/* The leaf of a node that is nearest to the middle of the queries' box. It makes a first bound. */
ADJI_INLINE uint32_t middle_leaf(const adji_tree_level *leaves, uint64_t node, const lanes *q, const uint32_t dim) {
  float middle[MOST_DIM];
  for (uint32_t j = 0; j < dim; j++)
    middle[j] = q->low[j] / 2 + q->high[j] / 2;
  __m512 s = bound_boxes(middle, (const float *)leaves->bounds + node * ADJI_FAN * 2 * dim, ADJI_FAN, dim);
  uint32_t nearest = _mm512_cmp_ps_mask(s, _mm512_set1_ps(_mm512_reduce_min_ps(s)), _CMP_EQ_OQ);
  return (uint32_t)__builtin_ctz(nearest | 1u << (ADJI_FAN - 1)) % ADJI_FAN;
}

ADJI_INLINE uint64_t search_node(const adji_knn_task *task, const adji_tree_level *leaves, uint64_t node, lanes *q,
                                 const uint32_t dim) {
  uint32_t near = near_leaves(leaves, node, q, dim), visited = 0;
  if (isinf(q->reach)) {
    uint32_t first = middle_leaf(leaves, node, q, dim);
    if (near >> first & 1) {
      visit(task, node * ADJI_FAN + first, q, dim);
      q->reach = _mm512_reduce_max_ps(q->best);
      near = near_leaves(leaves, node, q, dim) & ~(1u << first);
      visited++;
    }
  }
  for (; near; near &= near - 1) {
    uint64_t leaf = node * ADJI_FAN + (uint32_t)__builtin_ctz(near);
    if (!is_near(leaves, leaf, q, dim)) continue;
    visit(task, leaf, q, dim);
    visited++;
  }
  q->reach = _mm512_reduce_max_ps(q->best);
  return visited;
}

ADJI_INLINE void search(adji_knn_task *task, const adji_tree_level *leaves, const uint32_t dim) {
  for (uint32_t first = 0; first < task->query_count; first += LANES) {
    uint32_t many = task->query_count - first < LANES ? task->query_count - first : LANES;
    lanes q;
    open_lanes(task, first, many, &q, dim);
    for (uint32_t i = 0; i < task->leaves->count; i++)
      task->candidates += (uint64_t)many * ADJI_LEAF * search_node(task, leaves, task->leaves->number[i], &q, dim);
    close_lanes(task, first, many, &q);
  }
}

void adji_knn_near_one_avx512(adji_knn_task *task, const adji_tree_level *leaves) {
  switch (task->dim) {
    case 2:
      search(task, leaves, 2);
      break;
    case 3:
      search(task, leaves, 3);
      break;
    case 4:
      search(task, leaves, 4);
      break;
    case 5:
      search(task, leaves, 5);
      break;
    case 6:
      search(task, leaves, 6);
      break;
  }
}
#endif
