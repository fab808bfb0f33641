/* SPDX-License-Identifier: MIT
 *
 * Joins in a ring. Range joins: blocks of right points travel round the ranks, and each rank joins them with its
 * queries. Most self-joins join each pair of blocks once, on one of its two ranks. kNN joins: the right points of a
 * rank stay there, with an index, and queries travel with their lists, so that earlier neighbours bound the search.
 * Where self-joins by kNN can be mutual (run_mutual.c), each pair of blocks is joined once as well.
 */
#include "mpi/mirror.h"
#include "mpi/points.h"
#include "mpi/ring.h"
#include "mpi/run_private.h"

/* ---- Cores or devices ------------------------------------------------------------------------------------------- */

static bool may_use_device(const adj_mpi_plan *plan) {
  adj_backend backend = plan->spec.backend;
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (backend != ADJ_BACKEND_AUTO) return backend == ADJ_BACKEND_GPU || backend == ADJ_BACKEND_HYBRID;
  return plan->ctx->device_count && !adj_device_describe(0, &device);
}

/* With ADJ_BACKEND_AUTO an index would use the cores. If there is a device, no index is made, so that each join may
 * choose the device. */
static adj_status index_here(adj_mpi_plan *plan) {
  return plan->spec.backend == ADJ_BACKEND_AUTO && may_use_device(plan) ? ADJ_OK : adji_run_index(plan);
}

/* ---- Each block with the queries here -------------------------------------------------------------------------- */

static adj_status join_block(void *user, const adji_points *block, int rank, adji_requests *requests) {
  adji_parts *p = user;
  adj_mpi_plan *plan = p->plan;
  bool own = plan->self_join && rank == plan->group.rank;
  adji_mpi_part *part = &p->items[rank];
  if (plan->self_join && (plan->spec.flags & ADJ_ONE_WAY) && rank < plan->group.rank) return ADJ_OK;
  part->whole = !own;
  plan->stats.points += block->set->count;
  adj_status status =
      adji_run_part(p, p->queries, own ? &plan->queries : block, part, requests, 1.0 / plan->group.ranks);
  part->right = NULL;
  part->first = block->first;
  return status;
}

/* ---- Each pair of blocks once ----------------------------------------------------------------------------------- */

/* Two ranks opposite each other in the ring share the work on their pair of blocks. The lower rank joins its points
 * with the first half of the higher rank's points, the higher rank with the second half. On entry *left is the block
 * and *right are this rank's points; one of them becomes *some, the half. */
static adj_status take_half(adji_parts *p, int rank, const adji_points *block, adji_points *some,
                            const adji_points **left, const adji_points **right) {
  adj_mpi_plan *plan = p->plan;
  int own = plan->group.rank;
  bool lower = own < rank;
  uint64_t count = lower ? block->set->count : plan->left->count, half = count / 2;
  adj_status status =
      adji_points_pick(plan, lower ? block : &plan->queries, NULL, lower ? 0 : half, lower ? half : count - half, some);
  if (lower)
    *left = some;
  else
    *right = some;
  p->shifts[rank] = lower ? 0 : half;
  return status;
}

/* The points of the block are the left side, so one index of this rank's points serves all blocks. */
static adj_status join_mirrored(void *user, const adji_points *block, int rank, adji_requests *requests) {
  adji_parts *p = user;
  adj_mpi_plan *plan = p->plan;
  int ranks = plan->group.ranks, own = plan->group.rank;
  int steps = ranks / 2 + 1;
  double share = 1.0 / steps;
  const adji_points *left = block, *right = &plan->queries;
  if (rank == own) {
    plan->stats.points += right->set->count;
    return adji_run_part(p, right, right, &p->items[own], requests, share);
  }
  adji_points some = {0};
  adji_mpi_part *found = &p->found[rank];
  adj_status status = ADJ_OK;
  if (2 * ((rank + ranks - own) % ranks) == ranks) status = take_half(p, rank, block, &some, &left, &right);
  found->whole = true;
  if (!status) plan->stats.points += left->set->count;
  if (!status) status = adji_run_part(p, left, right, found, requests, share);
  if (!status) status = adji_mirror_transpose(plan, found, p->shifts[rank], &p->items[rank]);
  p->items[rank].first = block->first;
  adji_points_clear(plan, &some);
  return status;
}

/* Agreed on. */
static adj_status find_mirrored(adji_parts *p) {
  adj_mpi_plan *plan = p->plan;
  adji_memory *memory = &plan->ctx->memory;
  uint64_t ranks = (uint64_t)plan->group.ranks;
  p->count = (uint32_t)ranks + 1;
  p->found = adji_alloc_zero(memory, ranks, sizeof *p->found, "parts of a join");
  p->shifts = adji_alloc_zero(memory, ranks, sizeof *p->shifts, "parts of a join");
  adj_status status = p->found && p->shifts ? index_here(plan) : ADJ_E_MEMORY;
  status = adji_agree(&plan->group, status);
  if (!status) status = adji_ring_pass(plan, plan->group.ranks / 2 + 1, join_mirrored, p);
  return status ? status : adji_mirror_exchange(plan, status, p->found, p->shifts, p->items);
}

adj_status adji_run_ring_parts(adji_parts *p) {
  adj_mpi_plan *plan = p->plan;
  bool mirrored = adji_ring_is_mirrored(plan) && p->mode == ADJI_ROWS && p->queries == &plan->queries;
  plan->stats.points = 0;
  return mirrored ? find_mirrored(p) : adji_ring_pass(plan, plan->group.ranks, join_block, p);
}

/* ---- kNN -------------------------------------------------------------------------------------------------------- */

/* Searches here for the guests from another rank, and merges what is found into their lists. Guests are never points
 * here. Their neighbours so far bound the search, except on devices, which have no radius for each query, and for inner
 * products. */
static adj_status search_for_guests(void *user, const adji_guests *guests) {
  adji_parts *p = user;
  adj_mpi_plan *plan = p->plan;
  adji_mpi_part part = {.whole = true};
  const adji_points *left = &guests->points, *right = adji_points_here(plan);
  adj_status status = ADJ_OK;
  plan->stats.halo_points += left->set->count;
  if (plan->spec.metric != ADJ_DOT && !may_use_device(plan)) {
    p->radii = adji_alloc(&plan->ctx->memory, left->set->count + 1, sizeof *p->radii, "radii");
    status = p->radii ? adji_rows_reach(plan, left, guests->lists, NULL, p->radii) : ADJ_E_MEMORY;
  }
  if (!status) status = adji_run_part(p, left, right, &part, guests->requests, 1.0 / plan->group.ranks);
  if (!status) status = adji_rows_merge(plan, left, &part, guests->lists);
  adji_mpi_part_clear(plan, &part);
  adji_free(&plan->ctx->memory, p->radii);
  p->radii = NULL;
  return status;
}

/* mutual: whether joins with other blocks can be mutual. */
static adj_status search_own(adji_parts *p, bool *mutual) {
  adj_mpi_plan *plan = p->plan;
  adji_mpi_part *part = &p->items[0];
  adj_status status = index_here(plan);
  if (!status && !plan->group.stopped)
    status = adji_run_part(p, p->queries, adji_points_here(plan), part, NULL, 1.0 / plan->group.ranks);
  if (!status) status = adji_rows_open_lists(plan, p->queries->set->count, p->lists);
  if (!status) status = adji_rows_merge(plan, p->queries, part, p->lists);
  if (!status) adji_rows_pad(plan, p->lists);
  *mutual = plan->index && part->mutual && !may_use_device(plan);
  adji_mpi_part_clear(plan, part);
  return status;
}

adj_status adji_run_ring_lists(adji_parts *p) {
  bool mutual = false;
  adj_status status = adji_agree(&p->plan->group, search_own(p, &mutual));
  if (!status) status = adji_mutual_agree(p, &mutual);
  if (status) return status;
  if (mutual) return adji_run_mutual(p);
  adji_tour tour = {.round = p->round, .steps = p->plan->group.ranks, .search = search_for_guests, .user = p};
  return adji_ring_visit(p->plan, p->queries, &tour, p->lists, NULL);
}
