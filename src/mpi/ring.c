/* SPDX-License-Identifier: MIT
 *
 * Right points without regions: blocks that travel round the ranks, each joined where it passes while the next one is
 * on its way; or all of them to every rank at once. (Entity partitioning over several machines, with the points
 * replicated or in a ring, is from the paper on distributed self-joins with GPUs.)
 *
 * A block is its coordinates: which rank it is from, and so its ids, follow from the step.
 */
#include <string.h>

#include "mpi/points.h"
#include "mpi/ring.h"

static uint64_t block_count(const adj_mpi_plan *plan, int rank) {
  return plan->right_starts[rank + 1] - plan->right_starts[rank];
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

/* ---- All at once --------------------------------------------------------------------------------------------------
 */

/* Points of other ranks only: a self-join has its own already. One of each pair: only those of later ranks. */
static bool wants(const adj_mpi_plan *plan, int rank) {
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
    if (!wants(plan, i)) continue;
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
    count += wants(plan, i) ? block_count(plan, i) : 0;
  char *own = pack_own(plan, plan->right->count),
       *block = adji_alloc(memory, count + 1, width_of(plan), "the right points");
  adj_status status = adji_points_open_ids(plan, count, plan->right_starts[group->ranks], others);
  status = adji_agree(group, own && block ? status : ADJ_E_MEMORY);
  if (!status) status = receive_all(plan, own, block);
  for (int i = 0; i < group->ranks && !status; i++)
    for (uint64_t row = 0; wants(plan, i) && row < block_count(plan, i); row++)
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

/* ---- Round the ring
 * -------------------------------------------------------------------------------------------------- */

typedef struct ring {
  adj_mpi_plan *plan;
  int steps;
  char *blocks[2]; /* the one at hand, and the one that comes */
  uint64_t width;
} ring;

/* In step i this rank has the block of rank + i: it sends to the rank below and receives from the one above. */
static adj_status take_step(ring *r, int step, adji_block_fn *use, void *user) {
  adj_mpi_plan *plan = r->plan;
  adji_group *group = &plan->group;
  int ranks = group->ranks, at_hand = (group->rank + step) % ranks, coming = (at_hand + 1) % ranks;
  adji_requests list = {0};
  adj_status status = ADJ_OK;
  if (step + 1 < r->steps) {
    int above = (group->rank + 1) % ranks, below = (group->rank + ranks - 1) % ranks;
    status = adji_post_receive(group, &list, r->blocks[1], block_count(plan, coming) * r->width, above);
    if (!status) status = adji_post_send(group, &list, r->blocks[0], block_count(plan, at_hand) * r->width, below);
    plan->stats.bytes_least += block_count(plan, at_hand) * r->width;
  }
  adj_status used = ADJ_OK;
  if (!status && block_count(plan, at_hand)) {
    adj_points points;
    adj_points_init(&points, sizeof points);
    points.dim = plan->dim;
    points.count = block_count(plan, at_hand);
    points.data = r->blocks[0];
    points.type = plan->type;
    points.ownership = ADJ_BORROW;
    adji_points block = {.first = (int64_t)plan->right_starts[at_hand]};
    used = adj_dataset_create(plan->ctx, &points, &block.owned);
    block.set = block.owned;
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
