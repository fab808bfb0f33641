/* SPDX-License-Identifier: MIT
 *
 * kNN queries that visit other regions. A query visits a region that may hold a point as near as its k-th neighbour so
 * far. The rank of that region searches it for these guests and sends their lists back, where they are merged.
 */
#include <string.h>

#include "cluster/split.h"
#include "mpi/halo_private.h"
#include "mpi/points.h"

typedef struct visits {
  uint32_t *leaving;           /* the queries that may have neighbours in other regions */
  adji_points visitors;        /* these queries */
  double *radii;               /* how far each of them must look */
  uint32_t *home;              /* region of each: this rank's */
  uint64_t *starts, *received; /* visitors to each rank; guests from each rank */
  uint32_t *rows;              /* the visitors that go to each rank */
  adji_points guests;          /* visitors of other ranks */
  adji_rows answers;           /* their lists */
} visits;

/* Most queries are far from the border of the region. Their radii are not needed. */
static adj_status find_visitors(adj_mpi_plan *plan, const adji_points *queries, const adji_rows *lists, visits *v) {
  uint64_t size = adji_type_size(plan->type), k = plan->spec.k, count = 0;
  v->leaving = adji_alloc(&plan->ctx->memory, queries->set->count + 1, sizeof *v->leaving, "queries near a border");
  if (!v->leaving) return ADJ_E_MEMORY;
  adji_last_sums sums = {lists->values + (k - 1) * size, k * size};
  adj_status status = ADJ_OK;
  if (queries->set->count)
    status = adji_split_border(plan->split, queries->set, (uint32_t)plan->group.rank, &sums, v->leaving, &count);
  return status ? status : adji_points_pick(plan, queries, v->leaving, 0, count, &v->visitors);
}

static adj_status list_visits(adj_mpi_plan *plan, const adji_points *queries, const adji_rows *lists, visits *v) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t ranks = (uint64_t)plan->group.ranks;
  adj_status status = find_visitors(plan, queries, lists, v);
  if (status) return status;
  uint64_t count = v->visitors.set->count;
  v->radii = adji_alloc(memory, count + 1, sizeof *v->radii, "radii of queries");
  v->home = adji_alloc(memory, count + 1, sizeof *v->home, "regions of queries");
  v->starts = adji_alloc_zero(memory, ranks + 1, sizeof *v->starts, "regions");
  v->received = adji_alloc_zero(memory, ranks + 1, sizeof *v->received, "regions");
  if (!v->radii || !v->home || !v->starts || !v->received) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count; i++)
    v->home[i] = (uint32_t)plan->group.rank;
  status = adji_rows_reach(plan, queries, lists, v->leaving, count, v->radii);
  if (!status && count) status = adji_halo_lists(plan, v->visitors.set, v->home, v->radii, v->starts, &v->rows);
  return status;
}

/* Searches this region for the guests. Their lists are in the order in which the guests came. */
static adj_status answer(adj_mpi_plan *plan, visits *v) {
  adji_mpi_part part = {.whole = true}; /* guests are from other regions, so none of them is a point here */
  const adji_points *right = plan->self_join ? &plan->queries : &plan->region;
  adji_part_request request = {.plan = plan, .mode = ADJI_ROWS, .left = &v->guests, .right = right, .k = plan->spec.k};
  request.index = plan->index;
  request.labels = true;
  request.out = &part;
  request.share = 0.2;
  adj_status status = adji_mpi_part_join(&request);
  plan->stats.halo_points += v->guests.set->count;
  if (!status && adji_rows_adopt(plan, &part, &v->answers)) {
    adji_rows_globalise(&v->answers);
    return ADJ_OK;
  }
  if (!status) status = adji_rows_open_lists(plan, v->guests.set->count, &v->answers);
  if (!status) status = adji_rows_merge(plan, &v->guests, &part, &v->answers);
  if (!status) adji_rows_pad(plan, &v->answers);
  adji_mpi_part_clear(plan, &part);
  return status;
}

/* A message has the ids of all its lists, then their sums. Ids have 32 bits if those of all right points fit. */
static uint64_t id_size(const adj_mpi_plan *plan) {
  return plan->fits_32 ? 4 : 8;
}

static void write_lists(const adj_mpi_plan *plan, const adji_rows *lists, uint64_t first, uint64_t many, char *to) {
  uint64_t size = adji_type_size(plan->type), width = id_size(plan);
  for (uint64_t e = first; e < first + many; e++, to += width) {
    int64_t id = lists->narrow ? (int64_t)lists->narrow[e] : lists->ids[e];
    uint32_t narrow = (uint32_t)id;
    memcpy(to, width == 4 ? (void *)&narrow : (void *)&id, width);
  }
  memcpy(to, lists->values + first * size, many * size);
}

/* Aligned copies with ids of 64 bits: a list from another rank, and the ids of a query's list here if it is narrow. */
typedef struct merging {
  adj_lists from, to;
} merging;

static adj_status open_merging(adj_mpi_plan *plan, merging *m) {
  uint64_t k = plan->spec.k;
  adj_lists_init(&m->from, sizeof m->from);
  m->from.type = plan->type;
  m->from.k = plan->spec.k;
  m->from.rows = 1;
  m->to = m->from;
  m->from.ids = adji_alloc(&plan->ctx->memory, k, sizeof *m->from.ids, "a list");
  m->from.sums = adji_alloc(&plan->ctx->memory, k, adji_type_size(plan->type), "a list");
  m->to.ids = adji_alloc(&plan->ctx->memory, k, sizeof *m->to.ids, "a list");
  return m->from.ids && m->from.sums && m->to.ids ? ADJ_OK : ADJ_E_MEMORY;
}

static void close_merging(adj_mpi_plan *plan, const merging *m) {
  adji_free(&plan->ctx->memory, m->from.ids);
  adji_free(&plan->ctx->memory, m->from.sums);
  adji_free(&plan->ctx->memory, m->to.ids);
}

/* Merges list `number` of a message of `many` lists into the list of a query here. */
static adj_status merge_answer(const adj_mpi_plan *plan, const merging *m, const char *message, uint64_t many,
                               uint64_t number, uint64_t row, const adji_rows *lists) {
  uint64_t size = adji_type_size(plan->type), k = plan->spec.k, width = id_size(plan);
  uint32_t *narrow = lists->narrow ? lists->narrow + row * k : NULL;
  adj_lists to = m->to;
  for (uint64_t e = 0; e < k; e++) {
    uint32_t id = 0;
    if (width == 4) memcpy(&id, message + (number * k + e) * 4, 4);
    if (width == 8) memcpy(&m->from.ids[e], message + (number * k + e) * 8, 8);
    if (width == 4) m->from.ids[e] = id == UINT32_MAX ? -1 : (int64_t)id;
    if (narrow) to.ids[e] = narrow[e] == ADJ_NO_ID ? -1 : (int64_t)narrow[e];
  }
  memcpy(m->from.sums, message + many * k * width + number * k * size, k * size);
  if (!narrow) to.ids = lists->ids + row * k;
  to.sums = lists->values + row * k * size;
  adj_status status = adj_lists_merge(&to, &m->from, NULL);
  for (uint64_t e = 0; narrow && e < k; e++)
    narrow[e] = (uint32_t)to.ids[e];
  return status;
}

/* Sends the lists of the guests back to their ranks, and merges the lists that come back into those of the queries. */
static adj_status return_answers(adj_mpi_plan *plan, adj_status status, visits *v, const adji_rows *lists) {
  adji_group *group = &plan->group;
  adji_mail sent = {0}, received = {0};
  merging m = {0};
  uint64_t k = plan->spec.k, entry = id_size(plan) + adji_type_size(plan->type), before = group->bytes_sent, at = 0;
  if (!status) status = open_merging(plan, &m);
  if (!status) status = adji_mail_open(group, &sent);
  for (int i = 0; i < group->ranks && !status; i++)
    sent.starts[i + 1] = sent.starts[i] + v->received[i] * k * entry;
  if (!status) sent.bytes = adji_alloc(&plan->ctx->memory, sent.starts[group->ranks] + 1, 1, "lists on their way");
  if (!status && !sent.bytes) status = ADJ_E_MEMORY;
  for (int i = 0; i < group->ranks && !status; at += v->received[i] * k, i++)
    if (v->received[i]) write_lists(plan, &v->answers, at, v->received[i] * k, sent.bytes + sent.starts[i]);
  adji_rows_clear(plan, &v->answers);
  status = adji_exchange(group, status, &sent, &received);
  adji_mail_clear(group, &sent);
  plan->stats.bytes_rows += group->bytes_sent - before;
  for (int i = 0; i < group->ranks && !status; i++) {
    uint64_t first = v->starts[i], many = v->starts[i + 1] - first;
    for (uint64_t j = 0; j < many && !status; j++)
      status =
          merge_answer(plan, &m, received.bytes + received.starts[i], many, j, v->leaving[v->rows[first + j]], lists);
  }
  adji_mail_clear(group, &received);
  close_merging(plan, &m);
  return adji_agree(group, status);
}

adj_status adji_halo_visit(adj_mpi_plan *plan, adj_status status, const adji_points *queries, adji_rows *lists) {
  visits v = {0};
  if (!status) status = list_visits(plan, queries, lists, &v);
  adji_parcel parcel = {
      .set = v.visitors.set, .radii = v.radii, .starts = v.starts, .rows = v.rows, .received = v.received};
  status = adji_points_exchange(plan, status, &parcel, &v.guests);
  if (!status) status = adji_agree(&plan->group, answer(plan, &v));
  if (!status) status = return_answers(plan, status, &v, lists);
  adji_rows_clear(plan, &v.answers);
  adji_points_clear(plan, &v.guests);
  adji_points_clear(plan, &v.visitors);
  void *blocks[] = {v.leaving, v.radii, v.home, v.starts, v.received, v.rows};
  for (int i = 0; i < 6; i++)
    adji_group_free(&plan->group, blocks[i]);
  return status;
}
