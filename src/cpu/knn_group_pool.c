/* SPDX-License-Identifier: MIT
 *
 * Groups of queries are near each other, and so are consecutive groups, so the sums of their k-th neighbours are
 * similar. All points within a guess are listed for each query, which needs no list in order on the way, and the k
 * nearest of them are selected. If there are k at least, no point that is not listed comes before the k-th: its sum is
 * above the guess. Otherwise the query is searched for as if there had been no guess.
 *
 * The scale shrinks a little with every query and grows with every failure, so that about one query in a hundred fails:
 * a failure costs a search of the tree, which otherwise is shared by 16 queries. Where sums differ too much for that,
 * or where many points are equally far, guessing stops for a while.
 */
#include "cpu/knn_group_private.h"

#include <string.h>

enum { WORTH_MOST = 256, WORTH_FAILURE = 16, WORTH_PAUSE = -1024 };
static const double SHRINK = 0.9995, GROW = 1.05, LARGEST_SCALE = 16;

/* Whether guesses pay. Sums of k-th neighbours differ more if k is small, and in many dimensions near the faces of a
 * box: with k = 8 a million points took two cores 10 % longer in two dimensions and 20 % in six. k = 1 has kernels of
 * its own. */
static bool suits(const adji_knn_group *g) {
  enum { MOST_DIM = 4, SHORT_LIST = 8 };
  const adji_join *join = g->join;
  if (!g->left || !g->ordered || g->k < 2 || join->limits || join->style.measure->step != ADJI_STEP_L2) return false;
  return g->right->dim <= MOST_DIM && (g->right->dim > 2 || g->k > SHORT_LIST);
}

/* Up to 2 k and a few points a query. */
adj_status adji_pools_init(adji_knn_group *g) {
  enum { MORE = 64 };
  adji_knn_pools *p = &g->pools;
  adji_memory *memory = &g->join->ctx->memory;
  adji_pools_clear(g);
  if (!suits(g)) return ADJ_OK;
  p->most = 2 * g->k + MORE;
  p->stride = p->most + 2 * ADJI_BOX_LANES;
  p->counts = adji_alloc(memory, g->max_queries, sizeof *p->counts, "lists of neighbours");
  p->ids = adji_alloc_zero(memory, p->stride * g->max_queries, sizeof *p->ids, "lists of neighbours");
  p->sums = adji_alloc_zero(memory, p->stride * g->max_queries, adji_type_size(g->right->type), "lists of neighbours");
  if (!p->counts || !p->ids || !p->sums) return ADJ_E_MEMORY;
  p->enabled = true;
  g->guess = (adji_guess){.enabled = true, .scale = 1.5, .worth = WORTH_MOST};
  return ADJ_OK;
}

void adji_pools_clear(adji_knn_group *g) {
  adji_memory *memory = &g->right->ctx->memory;
  adji_free(memory, g->pools.counts);
  adji_free(memory, g->pools.ids);
  adji_free(memory, g->pools.sums);
  g->pools = (adji_knn_pools){0};
}

bool adji_pool_begin(adji_knn_group *g) {
  adji_guess *guess = &g->guess;
  if (!g->pools.enabled || !(guess->mean > 0)) return false;
  if (guess->worth < 0) {
    guess->worth += (int32_t)g->query_count;
    return false;
  }
  guess->made = g->right->type == ADJ_F64 ? guess->mean * guess->scale : (double)(float)(guess->mean * guess->scale);
  if (!(guess->made <= g->join->limit)) return false;
  g->reach = guess->made;
  g->reach_id = ADJ_NO_ID;
  g->first_seen = g->end_seen = 0;
  memset(g->pools.counts, 0, g->query_count * sizeof *g->pools.counts);
  g->pools.at_work = true;
  return true;
}

static void *sums_at(const adji_knn_group *g, uint64_t i) {
  return (char *)g->pools.sums + i * adji_type_size(g->right->type);
}

void adji_pool_leaves(adji_knn_group *g, adji_knn_task *task) {
  adji_knn_pools *p = &g->pools;
  size_t size = adji_type_size(g->right->type);
  for (uint32_t q = 0; q < g->query_count; q++) {
    task->queries = (const char *)g->coords + (uint64_t)q * task->dim * size;
    if (p->counts[q] > p->most) continue;
    uint32_t found = g->search.kernels->list_leaves(task, g->guess.made, g->ids, g->sums), at = p->counts[q];
    p->counts[q] += found;
    if (p->counts[q] > p->most) continue;
    memcpy(p->ids + q * p->stride + at, g->ids, found * sizeof *p->ids);
    memcpy(sums_at(g, q * p->stride + at), g->sums, found * size);
  }
}

bool adji_pool_select(adji_knn_group *g, uint32_t q) {
  adji_knn_pools *p = &g->pools;
  adji_guess *guess = &g->guess;
  uint32_t count = p->counts[q];
  uint32_t needed = g->k + (g->own[q] != ADJ_NO_ID);
  bool few = needed > count, many = p->most < count;
  guess->scale *= few ? GROW : many ? 1 / GROW : SHRINK;
  guess->scale = guess->scale > LARGEST_SCALE ? LARGEST_SCALE : guess->scale;
  guess->worth += few || many ? -WORTH_FAILURE : guess->worth < WORTH_MOST;
  if (guess->worth < 0) guess->worth = WORTH_PAUSE;
  if (few || many) return false;
  adji_knn_task task = adji_knn_group_task(g);
  task.own = g->own + q;
  task.limit = g->join->limit;
  g->search.typed->knn_select(&task, p->ids + q * p->stride, sums_at(g, q * p->stride), count);
  return true;
}
