/* SPDX-License-Identifier: MIT
 *
 * Distributions without regions. Blocks of right points travel round the ranks: each rank joins a block while the next
 * one is under way. Or every rank gets all right points at once. Or queries travel round the ranks. (Entity
 * partitioning over several machines, with the points replicated or in a ring, is from the paper on distributed
 * self-joins with GPUs.)
 *
 * A message has only the coordinates of a block. The step says which rank the block is from, and so its ids.
 */
#include <string.h>

#include "mpi/points.h"
#include "mpi/ring.h"

bool adji_ring_is_mirrored(const adj_mpi_plan *plan) {
  return plan->distribution == ADJ_MPI_RING && plan->self_join && plan->spec.kind == ADJ_RANGE && !plan->radii &&
         !(plan->spec.flags & ADJ_ONE_WAY) && plan->spec.order != ADJ_ORDER_DISTANCE && plan->group.ranks > 1;
}

static uint64_t block_count(const adj_mpi_plan *plan, int rank) {
  return plan->right_starts[rank + 1] - plan->right_starts[rank];
}

static int rank_above(const adji_group *group) {
  return (group->rank + 1) % group->ranks;
}

static int rank_below(const adji_group *group) {
  return (group->rank + group->ranks - 1) % group->ranks;
}

static uint64_t width_of(const adj_mpi_plan *plan) {
  return plan->dim * adji_type_size(plan->type);
}

static char *pack_own(adj_mpi_plan *plan, uint64_t room) {
  char *block = adji_alloc(&plan->ctx->memory, room * width_of(plan) + 1, 1, "a block of points");
  for (uint64_t i = 0; block && i < plan->right->count; i++)
    adji_points_copy(plan->right, i, block + i * width_of(plan));
  return block;
}

/* ---- All at once ------------------------------------------------------------------------------------------------ */

/* Whether this rank needs the right points of a rank. A self-join has its own points already. With ADJ_ONE_WAY it needs
 * only those of later ranks. */
static bool needs_points_of(const adj_mpi_plan *plan, int rank) {
  int own = plan->group.rank;
  if (!plan->self_join) return true;
  return plan->spec.flags & ADJ_ONE_WAY ? rank > own : rank != own;
}

static adj_status receive_all(adj_mpi_plan *plan, const char *own, char *block) {
  adji_group *group = &plan->group;
  adji_requests list = {0};
  adj_status status = ADJ_OK;
  uint64_t at = 0, width = width_of(plan);
  for (int i = 0; i < group->ranks && !status; i++) {
    uint64_t bytes = block_count(plan, i) * width;
    if (!needs_points_of(plan, i)) continue;
    if (i == group->rank)
      memcpy(block + at, own, bytes);
    else
      status = adji_post_receive(group, &list, block + at, bytes, i);
    at += bytes;
  }
  for (int i = 1; i < group->ranks && !status; i++) {
    int to = (group->rank + i) % group->ranks;
    bool wanted = !plan->self_join || !(plan->spec.flags & ADJ_ONE_WAY) || to < group->rank;
    if (wanted) status = adji_post_send(group, &list, own, block_count(plan, group->rank) * width, to);
    if (wanted) plan->stats.bytes_least += block_count(plan, group->rank) * width;
  }
  if (!status) status = adji_wait(group, list.count, list.items);
  adji_requests_clear(&list);
  return status;
}

adj_status adji_ring_replicate(adj_mpi_plan *plan) {
  adji_group *group = &plan->group;
  adji_memory *memory = &plan->ctx->memory;
  adji_points *others = &plan->others;
  uint64_t count = 0, done = 0, before = group->bytes_sent;
  for (int i = 0; i < group->ranks; i++)
    count += needs_points_of(plan, i) ? block_count(plan, i) : 0;
  char *own = pack_own(plan, plan->right->count),
       *block = adji_alloc(memory, count + 1, width_of(plan), "the right points");
  adj_status status = adji_points_open_ids(plan, count, plan->right_starts[group->ranks], others);
  status = adji_agree(group, own && block ? status : ADJ_E_MEMORY);
  if (!status) status = receive_all(plan, own, block);
  for (int i = 0; i < group->ranks && !status; i++)
    for (uint64_t row = 0; needs_points_of(plan, i) && row < block_count(plan, i); row++)
      adji_points_set_id(others, done++, (int64_t)(plan->right_starts[i] + row));
  adji_group_free(group, own);
  plan->stats.bytes_points += group->bytes_sent - before;
  if (status) {
    adji_group_free(group, block);
    return status;
  }
  status = adji_points_adopt(plan, block, count, &others->owned);
  others->set = others->owned;
  return adji_agree(group, status);
}

/* ---- Round the ring --------------------------------------------------------------------------------------------- */

/* Makes a set of packed points, without a copy. */
static adj_status borrow_points(adj_mpi_plan *plan, const char *data, uint64_t count, adji_points *out) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = plan->dim;
  points.count = count;
  points.data = data;
  points.type = plan->type;
  points.ownership = ADJ_BORROW;
  adj_status status = adj_dataset_create(plan->ctx, &points, &out->owned);
  out->set = out->owned;
  return status;
}

typedef struct ring {
  adj_mpi_plan *plan;
  int steps;
  char *blocks[2]; /* the current block, and room for the next one */
  uint64_t width;
} ring;

/* In step i this rank has the block of rank + i. It sends blocks to the rank below and receives from the rank above. */
static adj_status take_step(ring *r, int step, adji_block_fn *use, void *user) {
  adj_mpi_plan *plan = r->plan;
  adji_group *group = &plan->group;
  int ranks = group->ranks, at_hand = (group->rank + step) % ranks, coming = (at_hand + 1) % ranks;
  adji_requests list = {0};
  adj_status status = ADJ_OK;
  if (step + 1 < r->steps) {
    status = adji_post_receive(group, &list, r->blocks[1], block_count(plan, coming) * r->width, rank_above(group));
    if (!status)
      status = adji_post_send(group, &list, r->blocks[0], block_count(plan, at_hand) * r->width, rank_below(group));
    plan->stats.bytes_least += block_count(plan, at_hand) * r->width;
  }
  adj_status used = ADJ_OK;
  if (!status && block_count(plan, at_hand)) {
    adji_points block = {.first = (int64_t)plan->right_starts[at_hand]};
    used = borrow_points(plan, r->blocks[0], block_count(plan, at_hand), &block);
    if (!used) used = use(user, &block, at_hand, &list);
    adj_dataset_destroy(block.owned);
  }
  if (!status) status = adji_wait(group, list.count, list.items);
  adji_requests_clear(&list);
  return status ? status : adji_agree(group, used);
}

adj_status adji_ring_pass(adj_mpi_plan *plan, int steps, adji_block_fn *use, void *user) {
  adji_group *group = &plan->group;
  ring r = {.plan = plan, .steps = steps, .width = width_of(plan)};
  uint64_t largest = 0, before = group->bytes_sent;
  for (int i = 0; i < group->ranks; i++)
    largest = block_count(plan, i) > largest ? block_count(plan, i) : largest;
  r.blocks[0] = pack_own(plan, largest);
  r.blocks[1] = adji_alloc(&plan->ctx->memory, largest * r.width + 1, 1, "a block of points");
  adj_status status = adji_agree(group, r.blocks[0] && r.blocks[1] ? ADJ_OK : ADJ_E_MEMORY);
  for (int step = 0; step < steps && !status; step++) {
    status = take_step(&r, step, use, user);
    char *done = r.blocks[0];
    r.blocks[0] = r.blocks[1];
    r.blocks[1] = done;
  }
  adji_group_free(group, r.blocks[0]);
  adji_group_free(group, r.blocks[1]);
  plan->stats.bytes_points += group->bytes_sent - before;
  return status;
}

/* ---- Queries round the ring ------------------------------------------------------------------------------------- */

/* Queries and their lists. If queries have radii, these come before the points, for alignment. */
typedef struct visit {
  adj_mpi_plan *plan;
  const adji_tour *tour;
  uint64_t width, radius_bytes; /* bytes of a point, and of its radius or 0 */
  char *points[2];              /* the current guests, and room for the next ones */
  adji_rows lists[2];
} visit;

static uint64_t guest_count(const visit *v, int rank) {
  uint64_t begin, end;
  adji_round_rows(v->plan, rank, v->tour->round, &begin, &end);
  return end - begin;
}

/* The rank whose queries are here in this step. */
static int guest_rank(const visit *v, int step) {
  return (v->plan->group.rank + step) % v->plan->group.ranks;
}

/* Sends the current points on while they are searched for, as they do not change. */
static adj_status pass_points(const visit *v, int step, adji_requests *list) {
  adji_group *group = &v->plan->group;
  uint64_t each = v->width + v->radius_bytes, sent = guest_count(v, guest_rank(v, step)) * each;
  uint64_t received = guest_count(v, guest_rank(v, step + 1)) * each;
  v->plan->stats.bytes_points += sent;
  v->plan->stats.bytes_least += sent;
  adj_status status = adji_post_receive(group, list, v->points[1], received, rank_above(group));
  return status ? status : adji_post_send(group, list, v->points[0], sent, rank_below(group));
}

/* Sends the current lists on after the search, from the last rank to their own. Then the points and lists that arrived
 * become the current ones. */
static adj_status pass_lists(visit *v, int step) {
  adji_group *group = &v->plan->group;
  uint64_t k = v->plan->spec.k, size = adji_type_size(v->plan->type);
  bool last = step + 1 == v->tour->steps;
  int to = last ? guest_rank(v, step) : rank_below(group), next = last ? group->rank : guest_rank(v, step + 1);
  int from = last ? (group->rank + group->ranks - step) % group->ranks : rank_above(group);
  uint64_t sent = guest_count(v, guest_rank(v, step)) * k, received = guest_count(v, next) * k;
  adji_requests list = {0};
  const adji_rows *here = &v->lists[0], *coming = &v->lists[1];
  v->plan->stats.bytes_rows += sent * (sizeof *here->ids + size);
  adj_status status = adji_post_receive(group, &list, (char *)coming->ids, received * sizeof *here->ids, from);
  if (!status) status = adji_post_receive(group, &list, coming->values, received * size, from);
  if (!status) status = adji_post_send(group, &list, (char *)here->ids, sent * sizeof *here->ids, to);
  if (!status) status = adji_post_send(group, &list, here->values, sent * size, to);
  if (!status) status = adji_wait(group, list.count, list.items);
  adji_requests_clear(&list);
  char *points = v->points[0];
  v->points[0] = v->points[1];
  v->points[1] = points;
  adji_rows lists = v->lists[0];
  v->lists[0] = v->lists[1];
  v->lists[1] = lists;
  return status;
}

static adj_status search_step(visit *v, int step, adji_requests *list) {
  adj_mpi_plan *plan = v->plan;
  adji_guests guests = {.lists = &v->lists[0], .rank = guest_rank(v, step), .requests = list};
  adji_points *points = &guests.points;
  uint64_t begin, end;
  adji_round_rows(plan, guests.rank, v->tour->round, &begin, &end);
  v->lists[0].count = end - begin;
  if (begin == end) return ADJ_OK;
  points->first = (int64_t)(plan->left_starts[guests.rank] + begin);
  if (v->radius_bytes) points->radii = (double *)(void *)v->points[0];
  adj_status status = borrow_points(plan, v->points[0] + (end - begin) * v->radius_bytes, end - begin, points);
  if (!status) status = v->tour->search(v->tour->user, &guests);
  adj_dataset_destroy(points->owned);
  return status;
}

/* In step i this rank searches for the queries of rank + i, and meanwhile sends their points on. */
static adj_status travel(visit *v) {
  adji_group *group = &v->plan->group;
  adj_status status = ADJ_OK;
  for (int step = 0; step < v->tour->steps && !status; step++) {
    adji_requests list = {0};
    if (step + 1 < v->tour->steps) status = pass_points(v, step, &list);
    adj_status used = status || !step ? status : search_step(v, step, &list);
    if (!status) status = adji_wait(group, list.count, list.items);
    adji_requests_clear(&list);
    if (!status) status = adji_agree(group, used);
    if (!status) status = pass_lists(v, step); /* in the last step the lists come home */
  }
  return status;
}

/* Allocates room for the largest block, and makes this rank's own queries the current ones. */
static adj_status begin_visit(visit *v, const adji_points *queries, const adji_rows *lists) {
  adj_mpi_plan *plan = v->plan;
  uint64_t largest = 0, count = queries->set->count, k = plan->spec.k, size = adji_type_size(plan->type);
  for (int i = 0; i < plan->group.ranks; i++)
    largest = guest_count(v, i) > largest ? guest_count(v, i) : largest;
  for (int i = 0; i < 2; i++) {
    v->points[i] = adji_alloc(&plan->ctx->memory, largest + 1, v->width + v->radius_bytes, "queries");
    adj_status status = v->points[i] ? adji_rows_open_lists(plan, largest, &v->lists[i]) : ADJ_E_MEMORY;
    if (status) return status;
    v->lists[i].filled = true;
  }
  if (v->radius_bytes && count) memcpy(v->points[0], queries->radii, count * v->radius_bytes);
  for (uint64_t i = 0; i < count; i++)
    adji_points_copy(queries->set, i, v->points[0] + count * v->radius_bytes + i * v->width);
  memcpy(v->lists[0].ids, lists->ids, count * k * sizeof *lists->ids);
  memcpy(v->lists[0].values, lists->values, count * k * size);
  return ADJ_OK;
}

adj_status adji_ring_visit(adj_mpi_plan *plan, const adji_points *queries, const adji_tour *tour, adji_rows *lists,
                           adji_rows *back) {
  adji_group *group = &plan->group;
  if (group->ranks == 1) return ADJ_OK;
  visit v = {.plan = plan, .tour = tour, .width = width_of(plan), .radius_bytes = plan->radii ? sizeof(double) : 0};
  uint64_t count = queries->set->count;
  adj_status status = begin_visit(&v, queries, lists);
  if (!status && !back) adji_rows_clear(plan, lists);
  status = adji_agree(group, status);
  if (!status) status = travel(&v);
  if (!status) {
    if (!back) back = lists;
    *back = v.lists[0];
    back->count = count;
    v.lists[0] = (adji_rows){0};
  }
  for (int i = 0; i < 2; i++) {
    adji_group_free(group, v.points[i]);
    if (!group->broken.broken) adji_rows_clear(plan, &v.lists[i]);
  }
  return status;
}
