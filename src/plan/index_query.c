/* SPDX-License-Identifier: MIT
 *
 * One query at a time: adj_index_nearest and adj_index_within. They search the tree of the index in the calling thread,
 * with buffers that the index keeps. Where there is no tree, the query is a plan on a set of one point.
 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "cpu/knn_group.h"
#include "cpu/within.h"
#include "data/derive.h"
#include "plan/choose.h"
#include "plan/index.h"

/* The buffers of one question. */
struct adji_scratch {
  adji_knn_group nearest; /* the first member, as it is aligned */
  adji_within within;
  adji_join join; /* the question, as the search sees it */
  struct adji_scratch *next;
  bool has_nearest, has_within;
};

static void free_scratch(adji_scratch *s) {
  adji_knn_group_clear(&s->nearest);
  adji_within_clear(&s->within);
  free(s);
}

void adji_index_clear_scratch(adj_index *index) {
  while (index->scratch) {
    adji_scratch *s = index->scratch;
    index->scratch = s->next;
    free_scratch(s);
  }
}

static adji_scratch *take_scratch(adj_index *index) {
  pthread_mutex_lock(&index->scratch_lock);
  adji_scratch *s = index->scratch;
  if (s) index->scratch = s->next;
  pthread_mutex_unlock(&index->scratch_lock);
  if (s) return s;
  s = aligned_alloc(64, (sizeof *s + 63) / 64 * 64);
  if (!s) {
    adji_fail(ADJ_E_MEMORY, "no memory for a query");
    return NULL;
  }
  memset(s, 0, sizeof *s);
  return s;
}

static void return_scratch(adj_index *index, adji_scratch *s) {
  pthread_mutex_lock(&index->scratch_lock);
  s->next = index->scratch;
  index->scratch = s;
  pthread_mutex_unlock(&index->scratch_lock);
}

/* The join of one left point. left is set to the same set as right: searches do not use it. */
static adji_join join_of(const adj_index *index, uint32_t k, double radius) {
  return (adji_join){.ctx = index->ctx,
                     .left = index->points,
                     .right = index->points,
                     .k = k,
                     .limit = adji_limit(&index->measure, index->points->type, radius),
                     .style = {.type = index->points->type,
                               .measure = &index->measure,
                               .order = ADJ_ORDER_ID,
                               .distances = true,
                               .kernels = adji_kernels_for(index->ctx->isa)}};
}

/* The caller's point as a set of one row. */
static adj_dataset set_of(const adj_index *index, const void *point) {
  size_t size = adji_type_size(index->set->type);
  return (adj_dataset){.ctx = index->ctx,
                       .type = index->set->type,
                       .dim = index->set->dim,
                       .count = 1,
                       .data = point,
                       .row_stride = index->set->dim * size,
                       .column_stride = size};
}

/* Checks the point, and writes the point to search for to `to`. */
static adj_status prepare_point(const adj_index *index, const void *point, void *to) {
  const adj_dataset set = set_of(index, point);
  for (uint32_t j = 0; j < set.dim; j++) {
    double x = adji_dataset_at(&set, 0, j), length = adji_box_length(&index->measure, set.type, j);
    if (!isfinite(x)) return adji_fail(ADJ_E_DATA, "point: coordinate %u is not finite", j + 1);
    if (index->measure.box && length > 0 && (x < 0 || x > length))
      return adji_fail(ADJ_E_DATA, "point: coordinate %u, %g, is outside of the box, 0 to %g", j + 1, x, length);
  }
  if (index->derived) {
    adj_status status = adji_derive_row(&set, 0, index->spec.metric, index->spec.angle, to);
    return status ? adji_fail_in(status, "point") : ADJ_OK;
  }
  memcpy(to, point, set.dim * adji_type_size(set.type));
  return ADJ_OK;
}

static void pad(const adj_index *index, uint32_t from, uint32_t to, uint32_t *ids, void *distances) {
  float far = index->measure.report == ADJI_REPORT_NEGATED ? -INFINITY : INFINITY;
  for (uint32_t i = from; i < to; i++) {
    ids[i] = ADJ_NO_ID;
    if (distances && index->set->type == ADJ_F64) ((double *)distances)[i] = (double)far;
    if (distances && index->set->type == ADJ_F32) ((float *)distances)[i] = far;
  }
}

/* ---- Through the tree ----------------------------------------------------------------------------------- */

/* The tree of the index; NULL: it has none. A kept index never drops it. */
static const adji_tree *tree_of(adj_index *index, adj_status *status) {
  adji_lent tree = {0};
  bool built;
  const adji_tree *existing = adji_index_kept_tree(index);
  if (existing || !adji_tree_is_useful(&index->measure, index->points->dim)) return existing;
  *status = adji_index_tree(index, 0, &tree, &built);
  if (!*status) adji_give_back(&tree);
  return tree.what;
}

static adj_status nearest_in_tree(adj_index *index, const adji_tree *tree, adji_scratch *s, const void *point,
                                  uint32_t *ids, void *distances, uint32_t *found) {
  adj_status status = s->has_nearest ? adji_knn_group_set_join(&s->nearest, &s->join)
                                     : adji_knn_group_init(&s->nearest, &s->join, NULL, tree);
  if (status && !s->has_nearest) adji_knn_group_clear(&s->nearest);
  s->has_nearest = s->has_nearest || !status;
  if (!status) status = prepare_point(index, point, s->nearest.coords);
  if (status) return status;
  adji_tally tally = {0};
  *found = adji_knn_group_find(&s->nearest, 0, ADJI_NO_CHUNK, &tally);
  if (*found) memcpy(ids, s->nearest.ids, *found * sizeof *ids);
  if (distances) adji_report_distances(&index->measure, tree->type, s->nearest.sums, *found, distances);
  pad(index, *found, s->join.k, ids, distances);
  return ADJ_OK;
}

static adj_status within_in_tree(adj_index *index, const adji_tree *tree, adji_scratch *s, const void *point,
                                 uint32_t capacity, uint32_t *ids, void *distances, uint32_t *found) {
  adj_status status = ADJ_OK;
  if (s->has_within)
    adji_within_set_join(&s->within, &s->join);
  else
    status = adji_within_init(&s->within, &s->join, tree);
  if (status) adji_within_clear(&s->within);
  s->has_within = !status;
  if (!status) status = prepare_point(index, point, s->within.point);
  if (status) return status;
  adji_tally tally = {0};
  uint32_t many = 0;
  status = capacity ? adji_within_list(&s->within, 0, s->join.limit, &tally, &many)
                    : adji_within_count(&s->within, 0, s->join.limit, &tally, &many);
  if (status) return status;
  uint32_t copied = many < capacity ? many : capacity;
  if (copied) memcpy(ids, s->within.room.ids[0], copied * sizeof *ids);
  if (distances && copied)
    adji_report_distances(&index->measure, tree->type, s->within.room.sums[0], copied, distances);
  *found = many;
  return ADJ_OK;
}

/* ---- By a plan ------------------------------------------------------------------------------------------- */

static adj_status ask_plan(adj_index *index, const adj_question *question, const void *point, adj_result **out) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = index->set->type;
  points.dim = index->set->dim;
  points.count = 1;
  points.data = point;
  points.ownership = ADJ_BORROW;
  adj_dataset *left = NULL;
  adj_plan *plan = NULL;
  adj_status status = adj_dataset_create(index->ctx, &points, &left);
  if (!status) status = adj_index_plan(index, question, left, &plan);
  if (!status) status = adj_collect(plan, out, NULL, NULL);
  adj_plan_destroy(plan);
  adj_dataset_destroy(left);
  return status ? adji_fail_in(status, "point") : ADJ_OK;
}

static void copy_row(const adj_result *result, uint32_t count, uint32_t *ids, void *distances) {
  if (count) memcpy(ids, adj_result_ids(result), count * sizeof *ids);
  if (count && distances)
    memcpy(distances, adj_result_distances(result), count * adji_type_size(adj_result_type(result)));
}

/* ---- The calls ------------------------------------------------------------------------------------------- */

adj_status adj_index_nearest(adj_index *index, const void *point, uint32_t k, uint32_t *ids, void *distances,
                             uint32_t *found) {
  if (!index || !point || !ids) return adji_fail(ADJ_E_ARGUMENT, "index, point and ids: none may be NULL");
  if (index->origin) return adji_refuse_origin();
  if (!k) return adji_fail(ADJ_E_ARGUMENT, "k: a kNN question needs at least 1 neighbour");
  adji_call outer = adji_call_begin(&index->ctx->cancels);
  adj_status status = ADJ_OK;
  uint32_t many = 0;
  const adji_tree *tree = tree_of(index, &status);
  if (tree) {
    adji_scratch *s = take_scratch(index);
    if (s) s->join = join_of(index, k, INFINITY);
    status = s ? nearest_in_tree(index, tree, s, point, ids, distances, &many) : ADJ_E_MEMORY;
    if (s) return_scratch(index, s);
  } else if (!status) {
    adj_result *result = NULL;
    adj_question question;
    adj_question_init(&question, sizeof question);
    question.k = k;
    question.flags = ADJ_WITH_DISTANCE;
    status = ask_plan(index, &question, point, &result);
    if (!status) copy_row(result, k, ids, distances);
    if (!status) many = (uint32_t)adj_result_pairs(result);
    adj_result_destroy(result);
  }
  adji_call_set(outer);
  if (!status && found) *found = many;
  return status;
}

static adj_status check_within(const adj_index *index, const void *point, double radius, uint32_t capacity,
                               const uint32_t *ids, const uint32_t *found) {
  if (!index || !point || !found) return adji_fail(ADJ_E_ARGUMENT, "index, point and found: none may be NULL");
  if (capacity && !ids) return adji_fail(ADJ_E_ARGUMENT, "ids: is NULL, but capacity is %u", capacity);
  if (isnan(radius) || isinf(radius) || (radius < 0 && index->spec.metric != ADJ_DOT))
    return adji_fail(ADJ_E_ARGUMENT, "radius: %g is not a finite distance", radius);
  return ADJ_OK;
}

adj_status adj_index_within(adj_index *index, const void *point, double radius, uint32_t capacity, uint32_t *ids,
                            void *distances, uint32_t *found) {
  adj_status status = check_within(index, point, radius, capacity, ids, found);
  if (!status && index->origin) status = adji_refuse_origin();
  if (status) return status;
  adji_call outer = adji_call_begin(&index->ctx->cancels);
  const adji_tree *tree = tree_of(index, &status);
  if (tree) {
    adji_scratch *s = take_scratch(index);
    if (s) s->join = join_of(index, 0, radius);
    if (s) s->join.style.distances = distances;
    status = s ? within_in_tree(index, tree, s, point, capacity, ids, distances, found) : ADJ_E_MEMORY;
    if (s) return_scratch(index, s);
  } else if (!status) {
    adj_result *result = NULL;
    adj_question question;
    adj_question_init(&question, sizeof question);
    question.kind = ADJ_RANGE;
    question.radius = radius;
    question.flags = distances ? ADJ_WITH_DISTANCE : 0;
    status = ask_plan(index, &question, point, &result);
    uint64_t many = status ? 0 : adj_result_pairs(result);
    if (!status) copy_row(result, many < capacity ? (uint32_t)many : capacity, ids, distances);
    if (!status) *found = (uint32_t)many;
    adj_result_destroy(result);
  }
  adji_call_set(outer);
  return status;
}
