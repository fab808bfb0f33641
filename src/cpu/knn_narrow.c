/* SPDX-License-Identifier: MIT
 *
 * kNN joins of f64 through a search in f32: see knn_narrow.h, also for the proof.
 */
#include "cpu/knn_narrow.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ---- Copies -------------------------------------------------------------------------------------------- */

/* Whether memory for the copies remains beside the result. */
static bool has_room(const adji_join *join, const adji_tree *left, const adji_tree *right) {
  uint64_t copies = adji_tree_narrow_bytes(right) + (left == right ? 0 : adji_tree_narrow_bytes(left));
  uint64_t rows =
      join->left->count + (uint64_t)4 * left->leaf * join->ctx->threads; /* rows of the result and of lanes */
  uint64_t result = adji_mul(rows, adji_mul(join->k, sizeof(uint32_t) + sizeof(double)));
  return result <= UINT64_MAX / 2 && adji_fits(&join->ctx->memory, copies + result);
}

/* Whether the search pays. For k = 1 it pays in many dimensions only, since there are kernels for one neighbour, but
 * not for two. Lists longer than ADJI_KNN_MOST_K are not kept sorted, which takes longer: 200,000 points in three
 * dimensions, k = 64, took 0.54 s instead of 0.42. Long rows that come unsorted would take long to sort. */
static bool pays(const adji_join *join, const adji_tree *right) {
  enum { FEW_DIM = 4, MOST_K = 512 };
  uint32_t k = adji_join_reach(join);
  if (k < join->k || k > MOST_K) return false;
  return k > 1 ? k != ADJI_KNN_MOST_K : k && right->dim > FEW_DIM;
}

static bool suits(const adji_join *join, const adji_tree *left, const adji_tree *right) {
  return right->type == ADJ_F64 && right->dim <= ADJI_FRAME_MOST_DIM && left->count && right->count &&
         join->style.measure->step == ADJI_STEP_L2 && !join->limits && (left == right || !join->style.drop_self) &&
         pays(join, right) && has_room(join, left, right);
}

/* The limit of the search in f32: an upper bound of the sums of copies whose points have a sum within `limit`. */
static double limit_of(const adji_narrow *n, double limit, double scale) {
  double reach = n->factor * scale * sqrt(limit) + n->margin, most = n->factor * reach * reach;
  return most < (double)FLT_MAX ? (double)nextafterf((float)most, INFINITY) : (double)INFINITY;
}

adj_status adji_narrow_init(adji_narrow *n, const adji_join *join, const adji_tree *left, const adji_tree *right) {
  adji_frame frame;
  if (!suits(join, left, right) || !adji_frame_of(left, right, &frame)) return ADJ_OK;
  adj_status status = adji_tree_narrow(right, &frame, &n->right);
  if (!status && left != right) status = adji_tree_narrow(left, &frame, &n->own_left);
  if (status) return status;
  n->join = join;
  n->wide_left = left;
  n->wide_right = right;
  n->left = left == right ? &n->right : &n->own_left;
  n->factor = 1 + 0x1p-21 * (right->dim + 8);
  n->margin = 4 * sqrt(right->dim) * ADJI_FRAME_ERROR * (1 + 0x1p-10);
  n->measure = (adji_measure){.step = ADJI_STEP_L2, .report = ADJI_REPORT_ROOT};
  n->search = *join;
  n->search.k = join->k + 1;
  n->search.limit = limit_of(n, join->limit, frame.scale);
  n->search.style.type = ADJ_F32;
  n->search.style.measure = &n->measure;
  n->search.style.distances = true;
  n->kernels = adji_places_for(join->ctx->isa);
  n->enabled = true;
  return ADJ_OK;
}

void adji_narrow_clear(adji_narrow *n) {
  adji_tree_clear(&n->right);
  adji_tree_clear(&n->own_left);
  *n = (adji_narrow){0};
}

/* ---- Groups -------------------------------------------------------------------------------------------- */

/* After about 32 queries that are left to the caller, the next 1,024 are not searched here. */
enum { MOST_CREDIT = 256, FAILURE_COST = 8, PAUSE_CREDIT = -1024 };

adj_status adji_narrow_group_init(adji_narrow_group *g, const adji_narrow *shared) {
  adji_memory *memory = &shared->join->ctx->memory;
  uint64_t entries = (uint64_t)shared->left->leaf * shared->search.k;
  g->shared = shared;
  g->credit = MOST_CREDIT;
  g->places = adji_alloc(memory, entries, sizeof *g->places, "row of neighbours");
  g->distances = adji_alloc(memory, entries, sizeof *g->distances, "row of neighbours");
  g->ids = adji_alloc(memory, entries, sizeof *g->ids, "row of neighbours");
  g->sums = adji_alloc(memory, entries, sizeof *g->sums, "row of neighbours");
  if (!g->places || !g->distances || !g->ids || !g->sums) return ADJ_E_MEMORY;
  return adji_knn_group_init(&g->group, &shared->search, shared->left, &shared->right);
}

void adji_narrow_group_clear(adji_narrow_group *g) {
  if (!g->shared) return;
  adji_memory *memory = &g->shared->join->ctx->memory;
  adji_knn_group_clear(&g->group);
  adji_free(memory, g->places);
  adji_free(memory, g->distances);
  adji_free(memory, g->ids);
  adji_free(memory, g->sums);
  *g = (adji_narrow_group){0};
}

/* Sorts neighbours by (sum, id). Mostly they are sorted already. */
static void sort(uint32_t *ids, double *sums, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    double sum = sums[i];
    uint32_t id = ids[i], to = i;
    for (; to && (sums[to - 1] > sum || (sums[to - 1] == sum && ids[to - 1] > id)); to--) {
      sums[to] = sums[to - 1];
      ids[to] = ids[to - 1];
    }
    sums[to] = sum;
    ids[to] = id;
  }
}

/* Finds the sorted neighbours of point i of a leaf from those of its copy. Returns their number; UINT32_MAX: the k-th
 * and the next are too close to tell apart. */
static uint32_t measure_row(const adji_narrow_group *g, uint64_t leaf, uint32_t i) {
  const adji_narrow *n = g->shared;
  const adji_tree *left = n->wide_left, *right = n->wide_right;
  uint32_t k = n->join->k;
  uint64_t first = (uint64_t)i * (k + 1);
  const float *distances = g->distances + first;
  adji_places_task task = {.places = g->places + first, .count = k, .dim = right->dim, .leaf = right->leaf};
  if (task.places[k] == ADJ_NO_ID)
    task.count = adji_padded_row_length(task.places, k);
  else if (!((double)distances[k] > n->factor * (double)distances[k - 1] + n->margin))
    return UINT32_MAX;
  task.query = (const double *)left->coords + leaf * left->dim * left->leaf + i;
  task.coords = right->coords;
  task.ids = right->ids;
  if (!n->kernels->sums(&task, g->ids + first, g->sums + first)) sort(g->ids + first, g->sums + first, task.count);
  uint32_t count = task.count;
  while (count && g->sums[first + count - 1] > n->join->limit)
    count--;
  return count;
}

/* Writes the row of point i of a leaf, with `count` neighbours, to its place. */
static void place_row(const adji_narrow_group *g, uint64_t leaf, uint32_t i, uint32_t count,
                      const adji_window *window) {
  const adji_narrow *n = g->shared;
  uint32_t row = n->wide_left->ids[leaf * n->wide_left->leaf + i];
  uint64_t first = (uint64_t)i * n->search.k, at = adji_window_at(window, row);
  if (count < window->k || n->join->style.measure->report != ADJI_REPORT_ROOT) {
    adji_row_place_padded(window, &n->join->style, row, g->ids + first, g->sums + first, count);
    return;
  }
  memcpy(window->ids + at, g->ids + first, count * sizeof *g->ids);
  adji_window_note_last(window, ADJ_F64, row, g->sums[first + count - 1]);
  if (window->distances) n->kernels->roots(g->sums + first, count, (double *)window->distances + at);
}

uint64_t adji_narrow_group_fill(adji_narrow_group *g, uint64_t leaf, uint64_t wanted, const adji_window *window,
                                adji_tally *tally) {
  const adji_narrow *n = g->shared;
  if (g->credit < 0) {
    g->credit += __builtin_popcountll(wanted);
    return wanted;
  }
  uint64_t first = leaf * n->left->leaf, rest = 0;
  adji_window copies = {.first_row = first, .end_row = first + n->left->leaf, .k = n->search.k};
  copies.ids = g->places;
  copies.distances = g->distances;
  adji_tally found = {0};
  adji_knn_group_fill(&g->group, leaf, wanted, &copies, &found);
  tally->candidates += found.candidates;
  /* All rows are measured before any is placed. What was just stored can be loaded as a vector only once it has reached
   * the cache, after all earlier stores, and the stores to the window miss the cache. */
  uint32_t counts[ADJI_MAX_LEAF];
  for (uint64_t left = wanted; left; left &= left - 1) {
    uint32_t i = (uint32_t)__builtin_ctzll(left);
    counts[i] = measure_row(g, leaf, i);
    if (counts[i] == UINT32_MAX) rest |= left & -left;
  }
  for (uint64_t left = window ? wanted & ~rest : 0; left; left &= left - 1) {
    uint32_t i = (uint32_t)__builtin_ctzll(left);
    place_row(g, leaf, i, counts[i], window);
    tally->pairs += counts[i];
  }
  int32_t answered = __builtin_popcountll(wanted & ~rest);
  g->credit += answered - FAILURE_COST * __builtin_popcountll(rest);
  if (g->credit > MOST_CREDIT) g->credit = MOST_CREDIT;
  if (g->credit < 0) g->credit = PAUSE_CREDIT;
  return rest;
}
