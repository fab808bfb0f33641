/* SPDX-License-Identifier: MIT
 *
 * Pools: all points within a limit are listed for each query of a group, without keeping sorted lists during the
 * search, and the k nearest of them are selected. If at least k points are listed, no other point comes before the
 * k-th: its sum is above the limit. There are two kinds of limits.
 *
 * A guess: consecutive groups are near each other, so the sums of their k-th neighbours are similar. The scale of the
 * guess shrinks a little with every query and grows with every failure, so that few queries fail. If sums differ too
 * much for that, or many points are equally far, guessing stops for a while.
 *
 * A bound, for queries without a guess or with a wrong one, if there are kernels for it (distance/knn_pool.h): a sum
 * such that at least k points of the leaves around the queries' own are within it. Queries that then have too many
 * points, or no bound, are searched for as if there were no pools.
 */
#include "cpu/knn_group_private.h"

#include <math.h>
#include <string.h>

enum { MOST_CREDIT = 256, PAUSE_CREDIT = -1024 };
static const double GROW = 1.05, LARGEST_SCALE = 16;

/* The cost of a failed guess: a search of the tree, which 16 queries share otherwise, or a bound. */
typedef struct risk {
  double shrink;
  int32_t failure;
} risk;
static const risk SEARCHED = {0.9995, 16}, BOUNDED = {0.998, 8};

/* Up to this many points, computing a bound takes no longer than a guess would save. */
enum { FEW_NEEDED = 12 };

static uint32_t needed_of(const adji_knn_group *g) {
  return g->k + g->join->style.drop_self;
}

static const adji_pool_kernels *kernels_of(const adji_knn_group *g) {
  return g->right->leaf == ADJI_LEAF ? adji_pool_kernels_for(g->join->ctx->isa, g->right->type == ADJ_F64) : NULL;
}

/* Whether pools pay. Without bounds they do not pay if the sums of k-th neighbours differ much: if k is small, or in
 * many dimensions near the faces of a box. With k = 8, a million points took two cores 10 % longer in two dimensions
 * and 20 % in six. k = 1 has kernels of its own. */
static bool suits(const adji_knn_group *g) {
  enum { MOST_DIM = 4, SHORT_LIST = 8 };
  const adji_join *join = g->join;
  if (!g->left || !g->ordered || g->k < 2 || join->limits || join->style.measure->step != ADJI_STEP_L2) return false;
  return g->right->dim <= MOST_DIM && (g->right->dim > 2 || g->k > SHORT_LIST || kernels_of(g));
}

/* A pool has room for 2 k and a few more points per query. */
adj_status adji_pools_init(adji_knn_group *g) {
  enum { MORE = 64 };
  adji_pool *p = &g->pools.pool;
  adji_memory *memory = &g->join->ctx->memory;
  adj_type type = g->right->type;
  adji_pools_clear(g);
  if (!suits(g)) return ADJ_OK;
  p->most = 2 * g->k + MORE;
  p->stride = p->most + 2 * ADJI_BOX_LANES;
  p->limits = adji_alloc(memory, g->max_queries, sizeof *p->limits, "lists of neighbours");
  p->counts = adji_alloc(memory, g->max_queries, sizeof *p->counts, "lists of neighbours");
  p->ids = adji_alloc_zero(memory, p->stride * g->max_queries, sizeof *p->ids, "lists of neighbours");
  p->sums = adji_alloc_zero(memory, p->stride * g->max_queries, adji_type_size(type), "lists of neighbours");
  if (!p->limits || !p->counts || !p->ids || !p->sums) return ADJ_E_MEMORY;
  g->pools.kernels = kernels_of(g);
  g->pools.enabled = true;
  g->guess = (adji_guess){.enabled = true, .scale = 1.5, .credit = MOST_CREDIT};
  return ADJ_OK;
}

void adji_pools_clear(adji_knn_group *g) {
  adji_memory *memory = &g->right->ctx->memory;
  adji_free(memory, g->pools.pool.limits);
  adji_free(memory, g->pools.pool.counts);
  adji_free(memory, g->pools.pool.ids);
  adji_free(memory, g->pools.pool.sums);
  g->pools = (adji_knn_pools){0};
}

static void begin(adji_knn_group *g, double reach) {
  g->reach = reach;
  g->reach_id = ADJ_NO_ID;
  g->first_seen = g->end_seen = 0;
  memset(g->pools.pool.counts, 0, g->query_count * sizeof *g->pools.pool.counts);
  g->pools.active = true;
}

bool adji_pool_guess(adji_knn_group *g) {
  adji_guess *guess = &g->guess;
  g->pools.guessed = true;
  if (!(guess->mean > 0) || (g->pools.kernels && needed_of(g) <= FEW_NEEDED)) return false;
  if (guess->credit < 0) {
    guess->credit += (int32_t)g->query_count;
    return false;
  }
  guess->current = g->right->type == ADJ_F64 ? guess->mean * guess->scale : (double)(float)(guess->mean * guess->scale);
  if (!(guess->current <= g->join->limit)) return false;
  for (uint32_t q = 0; q < g->query_count; q++)
    g->pools.pool.limits[q] = guess->current;
  begin(g, guess->current);
  return true;
}

bool adji_pool_bound(adji_knn_group *g, uint64_t leaf) {
  adji_knn_pools *p = &g->pools;
  uint32_t needed = needed_of(g);
  if (!p->kernels || needed > ADJI_BOUND_MOST) return false;
  uint64_t many = adji_bound_leaves(needed), first = leaf / many * many, count = g->right->level[0].count;
  adji_knn_task task = adji_knn_group_task(g);
  p->kernels->bound(&task, first, first + many < count ? first + many : count, needed, &p->pool);
  double reach = 0;
  for (uint32_t q = 0; q < g->query_count; q++)
    reach = p->pool.limits[q] > reach ? p->pool.limits[q] : reach;
  if (reach > g->join->limit || reach == (double)INFINITY) return false;
  p->guessed = false;
  begin(g, reach);
  return true;
}

static void *sums_at(const adji_knn_group *g, uint64_t i) {
  return (char *)g->pools.pool.sums + i * adji_type_size(g->right->type);
}

void adji_pool_leaves(adji_knn_group *g, adji_knn_task *task) {
  adji_pool *p = &g->pools.pool;
  size_t size = adji_type_size(g->right->type);
  if (g->pools.kernels) {
    g->pools.kernels->list(task, p);
    return;
  }
  for (uint32_t q = 0; q < g->query_count; q++) {
    task->queries = (const char *)g->coords + (uint64_t)q * task->dim * size;
    if (p->counts[q] > p->most) continue;
    uint32_t found = g->search.kernels->list_leaves(task, g->guess.current, g->ids, g->sums), at = p->counts[q];
    p->counts[q] += found;
    if (p->counts[q] > p->most) continue;
    memcpy(p->ids + q * p->stride + at, g->ids, found * sizeof *p->ids);
    memcpy(sums_at(g, q * p->stride + at), g->sums, found * size);
  }
}

bool adji_pool_is_usable(adji_knn_group *g, uint32_t q) {
  adji_guess *guess = &g->guess;
  uint32_t count = g->pools.pool.counts[q], needed = g->k + (g->own[q] != ADJ_NO_ID);
  bool few = needed > count, many = g->pools.pool.most < count;
  if (!g->pools.guessed) return !few && !many;
  const risk *taken = g->pools.kernels && needed_of(g) <= ADJI_BOUND_MOST ? &BOUNDED : &SEARCHED;
  guess->scale *= few ? GROW : many ? 1 / GROW : taken->shrink;
  guess->scale = guess->scale > LARGEST_SCALE ? LARGEST_SCALE : guess->scale;
  guess->credit += few || many ? -taken->failure : guess->credit < MOST_CREDIT;
  if (guess->credit < 0) guess->credit = PAUSE_CREDIT;
  return !few && !many;
}

/* If many sums are equal, picking stops for a while. */
bool adji_pool_pick(adji_knn_group *g, uint32_t q, adji_picked *to) {
  enum { FAILURE = 8 };
  adji_knn_pools *p = &g->pools;
  if (!p->kernels || (p->picks < 0 && ++p->picks < 0)) return false;
  bool picked = p->kernels->pick(&p->pool, q, g->k, g->own[q], to);
  p->picks += picked ? p->picks < MOST_CREDIT : -FAILURE;
  if (p->picks < 0) p->picks = PAUSE_CREDIT;
  return picked;
}

void adji_pool_select(adji_knn_group *g, uint32_t q) {
  const adji_pool *p = &g->pools.pool;
  adji_knn_task task = adji_knn_group_task(g);
  task.own = g->own + q;
  task.limit = g->join->limit;
  g->search.typed->knn_select(&task, p->ids + q * p->stride, sums_at(g, q * p->stride), p->counts[q]);
}
