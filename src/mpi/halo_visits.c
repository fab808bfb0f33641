/* SPDX-License-Identifier: MIT
 *
 * kNN queries that visit other regions. A query visits a region that may hold a point as near as its k-th neighbour so
 * far. The rank of that region searches it and its halo for these guests and sends their lists back, where they are
 * merged. Guests may have found some of these neighbours already.
 */
#include <string.h>

#include "cluster/split.h"
#include "mpi/halo_private.h"
#include "mpi/points.h"

typedef struct visits {
  uint32_t *leaving;    /* the queries that may have neighbours in other regions: the numbers of their lists */
  adji_points visitors; /* these queries */
  double *radii;        /* how far each of them must look */
  uint32_t *home;       /* region of each: this rank's */
  adji_visit *items;    /* where they go */
  uint64_t count;       /* of these */
  uint64_t *received;   /* guests from each rank */
  adji_points guests;   /* visitors of other ranks */
  adji_rows answers;    /* their lists */
} visits;

/* Most queries are far from the border of the region. Their radii are not needed. */
static adj_status find_visitors(adj_mpi_plan *plan, const adji_queries *queries, const adji_rows *lists, visits *v) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t count = 0;
  v->leaving = adji_alloc(memory, queries->count + 1, sizeof *v->leaving, "queries near a border");
  if (!v->leaving) return ADJ_E_MEMORY;
  adji_border border = {.region = (uint32_t)plan->group.rank, .rows = queries->rows, .count = queries->count};
  border.reach = plan->reaches[plan->group.rank];
  border.sums = adji_rows_last_sums(plan, lists);
  adj_status status = ADJ_OK;
  if (queries->count) status = adji_split_border(plan->split, queries->points->set, &border, v->leaving, &count);
  uint32_t *rows = adji_alloc(memory, count + 1, sizeof *rows, "queries near a border");
  if (!rows) status = ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count && !status; i++)
    rows[i] = (uint32_t)adji_query_row(queries, v->leaving[i]);
  if (!status) status = adji_points_pick(plan, queries->points, rows, 0, count, &v->visitors);
  adji_free(memory, rows);
  return status;
}

static adj_status list_visits(adj_mpi_plan *plan, const adji_queries *queries, const adji_rows *lists, visits *v) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t ranks = (uint64_t)plan->group.ranks;
  adj_status status = find_visitors(plan, queries, lists, v);
  if (status) return status;
  uint64_t count = v->visitors.set->count;
  v->radii = adji_alloc(memory, count + 1, sizeof *v->radii, "radii of queries");
  v->home = adji_alloc(memory, count + 1, sizeof *v->home, "regions of queries");
  v->received = adji_alloc_zero(memory, ranks + 1, sizeof *v->received, "regions");
  if (!v->radii || !v->home || !v->received) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < count; i++)
    v->home[i] = (uint32_t)plan->group.rank;
  status = adji_rows_reach(plan, &v->visitors, lists, v->leaving, v->radii);
  if (!status && count)
    status = adji_split_visits(plan->split, v->visitors.set, v->home, v->radii, &v->items, &v->count);
  return status;
}

/* Whether a query may find itself: a guest may be in the halo here, and a query that is searched again is at home. */
static bool finds_itself(const adj_mpi_plan *plan) {
  return plan->self_join && !(plan->spec.flags & ADJ_WITH_SELF);
}

/* Searches this region and its halo for the guests. Their lists are in the order in which the guests came. They may
 * have points that the guests have found already. */
static adj_status answer(adj_mpi_plan *plan, visits *v) {
  adji_mpi_part part = {.whole = !plan->self_join};
  adji_part_request request = {.plan = plan, .mode = ADJI_ROWS, .left = &v->guests};
  request.k = plan->spec.k + finds_itself(plan);
  request.right = adji_points_here(plan);
  request.index = plan->index;
  request.labels = true;
  request.out = &part;
  request.share = 0.2;
  adj_status status = adji_mpi_part_join(&request);
  plan->stats.halo_points += v->guests.set->count;
  if (!status && !finds_itself(plan) && adji_rows_adopt(plan, &part, &v->answers)) {
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

/* A message of lists, and the next of them. */
typedef struct answers {
  const char *message;
  uint64_t many, next;
} answers;

static int64_t answered_id(const adj_mpi_plan *plan, const answers *from, uint64_t list, uint64_t entry) {
  uint64_t at = list * plan->spec.k + entry;
  int64_t wide;
  uint32_t narrow;
  if (id_size(plan) == 8) {
    memcpy(&wide, from->message + at * 8, 8);
    return wide;
  }
  memcpy(&narrow, from->message + at * 4, 4);
  return narrow == UINT32_MAX ? -1 : (int64_t)narrow;
}

/* Merges the next list of a message into the list of a query here. */
static adj_status merge_answer(const adj_mpi_plan *plan, const merging *m, answers *from, uint64_t row,
                               const adji_rows *lists) {
  uint64_t size = adji_type_size(plan->type), k = plan->spec.k, number = from->next++;
  uint32_t *narrow = lists->narrow ? lists->narrow + row * k : NULL;
  adj_lists to = m->to;
  for (uint64_t e = 0; e < k; e++) {
    m->from.ids[e] = answered_id(plan, from, number, e);
    if (narrow) to.ids[e] = narrow[e] == ADJ_NO_ID ? -1 : (int64_t)narrow[e];
  }
  memcpy(m->from.sums, from->message + from->many * k * id_size(plan) + number * k * size, k * size);
  if (!narrow) to.ids = lists->ids + row * k;
  to.sums = lists->values + row * k * size;
  adj_status status = adj_lists_merge(&to, &m->from, NULL);
  for (uint64_t e = 0; narrow && e < k; e++)
    narrow[e] = (uint32_t)to.ids[e];
  return status;
}

/* Visitors with lists that have last sums only. Those that found neighbours elsewhere are searched again here. */
typedef struct second_search {
  uint32_t *places; /* by visitor: the number of its list below, or NOWHERE */
  uint32_t *rows;   /* the visitors that have one */
  double *radii;
  adji_points points;
  adji_rows lists; /* with sums */
} second_search;

static const uint32_t NOWHERE = UINT32_MAX;

static void end_second(adj_mpi_plan *plan, second_search *s) {
  adji_memory *memory = &plan->ctx->memory;
  adji_free(memory, s->places);
  adji_free(memory, s->rows);
  adji_free(memory, s->radii);
  adji_points_clear(plan, &s->points);
  adji_rows_clear(plan, &s->lists);
}

/* Numbers the visitors that found neighbours elsewhere. */
static adj_status pick_found(adj_mpi_plan *plan, const visits *v, answers *from, second_search *s) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t visitors = v->visitors.set->count, found = 0;
  s->places = adji_alloc(memory, visitors + 1, sizeof *s->places, "queries near a border");
  s->rows = adji_alloc(memory, visitors + 1, sizeof *s->rows, "queries near a border");
  s->radii = adji_alloc(memory, visitors + 1, sizeof *s->radii, "queries near a border");
  if (!s->places || !s->rows || !s->radii) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < visitors; i++)
    s->places[i] = NOWHERE;
  for (uint64_t i = 0; i < v->count; i++) { /* rows ascend */
    uint32_t row = v->items[i].row;
    answers *a = &from[v->items[i].region];
    bool none = answered_id(plan, a, a->next++, 0) < 0;
    if (none || s->places[row] != NOWHERE) continue;
    s->rows[found] = row;
    s->radii[found] = v->radii[row];
    s->places[row] = (uint32_t)found++;
  }
  for (int i = 0; i < plan->group.ranks; i++)
    from[i].next = 0;
  return adji_points_pick(plan, &v->visitors, s->rows, 0, found, &s->points);
}

static adj_status search_again(adj_mpi_plan *plan, const visits *v, answers *from, second_search *s) {
  adj_status status = pick_found(plan, v, from, s);
  if (status) return status;
  adji_mpi_part part = {0};
  adji_part_request request = {.plan = plan, .mode = ADJI_ROWS, .left = &s->points};
  request.k = plan->spec.k + finds_itself(plan);
  request.right = adji_points_here(plan);
  request.index = plan->index;
  request.radii = s->radii;
  request.labels = true;
  request.out = &part;
  status = adji_mpi_part_join(&request);
  if (!status) status = adji_rows_open_lists(plan, s->points.set->count, &s->lists);
  if (!status) status = adji_rows_merge(plan, &s->points, &part, &s->lists);
  if (!status) adji_rows_pad(plan, &s->lists);
  adji_mpi_part_clear(plan, &part);
  return status;
}

/* Puts the ids of merged lists into the lists of the queries. */
static void take_merged(const adj_mpi_plan *plan, const visits *v, const second_search *s, const adji_rows *lists) {
  uint64_t k = plan->spec.k;
  for (uint64_t i = 0; i < s->lists.count; i++) {
    uint32_t *to = lists->narrow + v->leaving[s->rows[i]] * k;
    for (uint64_t e = 0; e < k; e++)
      to[e] = (uint32_t)s->lists.ids[i * k + e];
  }
}

/* Merges all lists that came back. Each rank answers in the order in which its guests were sent. */
static adj_status merge_answers(adj_mpi_plan *plan, const visits *v, const adji_mail *received,
                                const adji_rows *lists) {
  uint64_t entry = plan->spec.k * (id_size(plan) + adji_type_size(plan->type));
  bool again = lists->lasts;
  second_search s = {0};
  merging m = {0};
  adj_status status = open_merging(plan, &m);
  answers *from = adji_alloc(&plan->ctx->memory, (uint64_t)plan->group.ranks, sizeof *from, "lists on their way");
  if (!from) status = ADJ_E_MEMORY;
  for (int i = 0; i < plan->group.ranks && !status; i++)
    from[i] = (answers){.message = received->bytes + received->starts[i],
                        .many = (received->starts[i + 1] - received->starts[i]) / entry};
  if (!status && again) status = search_again(plan, v, from, &s);
  for (uint64_t i = 0; i < v->count && !status; i++) {
    answers *a = &from[v->items[i].region];
    uint32_t row = v->items[i].row;
    if (!again)
      status = merge_answer(plan, &m, a, v->leaving[row], lists);
    else if (s.places[row] != NOWHERE)
      status = merge_answer(plan, &m, a, s.places[row], &s.lists);
    else
      a->next++;
  }
  if (!status && again) take_merged(plan, v, &s, lists);
  end_second(plan, &s);
  adji_free(&plan->ctx->memory, from);
  close_merging(plan, &m);
  return status;
}

/* Sends the lists of the guests back to their ranks, and merges the lists that come back into those of the queries. */
static adj_status return_answers(adj_mpi_plan *plan, adj_status status, visits *v, const adji_rows *lists) {
  adji_group *group = &plan->group;
  adji_mail sent = {0}, received = {0};
  uint64_t k = plan->spec.k, entry = id_size(plan) + adji_type_size(plan->type), before = group->bytes_sent, at = 0;
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
  if (!status) status = merge_answers(plan, v, &received, lists);
  adji_mail_clear(group, &received);
  return adji_agree(group, status);
}

adj_status adji_halo_visit(adj_mpi_plan *plan, adj_status status, const adji_points *queries, adji_rows *lists) {
  visits v = {0};
  adji_queries all = adji_queries_of(plan, queries);
  if (!status) status = list_visits(plan, &all, lists, &v);
  adji_parcel parcel = {.set = v.visitors.set, .radii = v.radii, .named = &v.visitors, .received = v.received};
  parcel.visits = v.items;
  parcel.visit_count = v.count;
  status = adji_points_exchange(plan, status, &parcel, &v.guests);
  if (!status) status = adji_agree(&plan->group, answer(plan, &v));
  if (!status) status = return_answers(plan, status, &v, lists);
  adji_free(&plan->ctx->memory, lists->lasts);
  lists->lasts = NULL;
  adji_rows_clear(plan, &v.answers);
  adji_points_clear(plan, &v.guests);
  adji_points_clear(plan, &v.visitors);
  void *blocks[] = {v.leaving, v.radii, v.home, v.items, v.received};
  for (int i = 0; i < 5; i++)
    adji_group_free(&plan->group, blocks[i]);
  return status;
}
