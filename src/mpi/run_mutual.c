/* SPDX-License-Identifier: MIT
 *
 * kNN self-joins in a ring by mutual joins (plan/run.h): each pair of blocks is joined once, on one of its two ranks,
 * for the lists of both. Without this each pair would be searched twice, once per direction.
 *
 * Each rank first joins its own block with itself. Then blocks travel half round the ring, with copies of their lists.
 * Where a block is a guest, its points find neighbours among those of the host, for the lists that travel, and the
 * host's points find neighbours among the guests, for the lists that stay. At the end the lists that travelled go home
 * and are merged with those that stayed. Both begin with the same neighbours from the point's own block, which count
 * once. Both bound their search by what they have, so a bound may be larger than the k-th distance that is known
 * elsewhere; that costs a few more candidates.
 *
 * Memory: three lists per point besides the one that stays, two of guests and one of points of this rank, and what the
 * join takes (cpu/brute.h).
 */
#include "mpi/points.h"
#include "mpi/ring.h"
#include "mpi/run_private.h"

/* Ranks with less than this part of the usual number of points do not decide how the others join. */
enum { FEW_POINTS = 16 };

adj_status adji_mutual_agree(adji_parts *p, bool *mutual) {
  const adj_mpi_plan *plan = p->plan;
  adji_group *group = &p->plan->group;
  uint64_t ranks = (uint64_t)group->ranks, all = plan->left_starts[ranks], here = plan->left->count;
  bool alone = ranks == 1 || !plan->self_join || p->queries != &plan->queries || p->round.of != 1;
  bool few = here < all / ranks / FEW_POINTS + 1;
  int vote = !alone && (*mutual || few);
  adj_status status = adji_all_reduce(group, &vote, 1, MPI_INT, MPI_MIN);
  *mutual = vote;
  return status;
}

/* The points of two ranks opposite each other meet on both. The lower rank joins its own with the first half of the
 * others, the higher rank the second half of its own with the others. Joins begin at multiples of 64. */
static uint64_t half_of(uint64_t count) {
  return count / 2 / 64 * 64;
}

/* What a rank joins in a step: guests of another rank with its own points from `first` on. */
typedef struct meeting {
  adji_parts *p;
  const adji_points *guests;
  adji_rows *lists; /* of the guests */
  uint64_t first;
  adji_requests *requests;
  double share;
} meeting;

/* Merges what was found for own points into their lists, from point `first` on. */
static adj_status merge_own(const meeting *m, const adji_mpi_part *part, uint64_t first) {
  adj_mpi_plan *plan = m->p->plan;
  adji_rows rest = *m->p->lists;
  uint64_t at = first * plan->spec.k;
  rest.count -= first;
  rest.ids += at;
  rest.values += at * adji_type_size(plan->type);
  return adji_rows_merge(plan, &plan->queries, part, &rest);
}

/* How far points must look. The caller frees the radii. */
static adj_status make_radii(adj_mpi_plan *plan, const adji_points *points, const adji_rows *lists, double **out) {
  uint64_t count = points->set->count;
  *out = adji_alloc(&plan->ctx->memory, count + 1, sizeof **out, "radii");
  return *out ? adji_rows_reach(plan, points, lists, NULL, *out) : ADJ_E_MEMORY;
}

/* One join for both sides. *done: whether there was one. */
static adj_status join_once(const meeting *m, bool *done) {
  adji_parts *p = m->p;
  adj_mpi_plan *plan = p->plan;
  adji_mpi_part part = {.whole = true}, own = {.whole = true, .right = m->guests};
  double *radii = NULL;
  adji_way_back back = {.first = m->first};
  adj_status status = make_radii(plan, m->guests, m->lists, &p->radii);
  if (!status) status = make_radii(plan, &plan->queries, p->lists, &radii);
  back.radii = radii;
  p->back = &back;
  if (!status) status = adji_run_part(p, m->guests, &plan->queries, &part, m->requests, m->share);
  p->back = NULL;
  *done = back.result != NULL;
  own.result = back.result;
  own.row_count = plan->left->count;
  if (!status && *done) status = adji_rows_merge(plan, m->guests, &part, m->lists);
  if (!status && *done) status = merge_own(m, &own, 0);
  adji_mpi_part_clear(plan, &part);
  adji_mpi_part_clear(plan, &own);
  adji_free(&plan->ctx->memory, radii);
  adji_free(&plan->ctx->memory, p->radii);
  p->radii = NULL;
  return status;
}

/* Left points look for neighbours among right points, as far as radii say. */
static adj_status search(const meeting *m, const adji_points *left, const adji_points *right, const double *radii,
                         adji_mpi_part *out) {
  adji_parts *p = m->p;
  p->radii = (double *)radii;
  *out = (adji_mpi_part){.whole = true};
  adj_status status = adji_run_part(p, left, right, out, m->requests, m->share / 2);
  p->radii = NULL;
  return status;
}

/* Two joins, one per side. */
static adj_status join_twice(const meeting *m) {
  adj_mpi_plan *plan = m->p->plan;
  adji_points some = {0};
  const adji_points *own = &plan->queries;
  adji_mpi_part part = {0};
  double *far = NULL, *own_far = NULL;
  adj_status status = make_radii(plan, m->guests, m->lists, &far);
  if (!status) status = make_radii(plan, own, m->p->lists, &own_far);
  if (!status && m->first) {
    status = adji_points_pick(plan, own, NULL, m->first, plan->left->count - m->first, &some);
    own = &some;
  }
  if (!status) status = search(m, m->guests, own, far, &part);
  if (!status) status = adji_rows_merge(plan, m->guests, &part, m->lists);
  adji_mpi_part_clear(plan, &part);
  if (!status && !plan->group.stopped) status = search(m, own, m->guests, own_far + m->first, &part);
  if (!status) status = merge_own(m, &part, m->first);
  adji_mpi_part_clear(plan, &part);
  adji_points_clear(plan, &some);
  adji_free(&plan->ctx->memory, far);
  adji_free(&plan->ctx->memory, own_far);
  return status;
}

static adj_status meet(void *user, const adji_guests *guests) {
  adji_parts *p = user;
  adj_mpi_plan *plan = p->plan;
  int ranks = plan->group.ranks, own = plan->group.rank;
  adji_points some = {0};
  meeting m = {.p = p, .guests = &guests->points, .lists = guests->lists, .requests = guests->requests};
  bool opposite = 2 * ((guests->rank + ranks - own) % ranks) == ranks, done = false;
  adj_status status = ADJ_OK;
  if (opposite && own < guests->rank) {
    status = adji_points_pick(plan, m.guests, NULL, 0, half_of(m.guests->set->count), &some);
    m.guests = &some;
  } else if (opposite) {
    m.first = half_of(plan->left->count);
  }
  int steps = ranks / 2 + 1;
  m.share = 1.0 / steps;
  bool none = !status && (!m.guests->set->count || m.first == plan->left->count);
  if (!status && !none) {
    plan->stats.halo_points += m.guests->set->count;
    status = join_once(&m, &done);
    if (!status && !done && !plan->group.stopped) status = join_twice(&m);
  }
  adji_points_clear(plan, &some);
  return status;
}

adj_status adji_run_mutual(adji_parts *p) {
  adj_mpi_plan *plan = p->plan;
  adji_rows back = {0};
  adji_tour tour = {.round = p->round, .steps = plan->group.ranks / 2 + 1, .search = meet, .user = p};
  adj_status status = adji_ring_visit(plan, p->queries, &tour, p->lists, &back);
  if (status) return status;
  status = adji_rows_merge_lists(plan, &back, p->lists);
  adji_rows_clear(plan, &back);
  return adji_agree(&plan->group, status);
}
