/* SPDX-License-Identifier: MIT
 *
 * The steps of a run, for every distribution: see job.h.
 */
#include "mpi/run.h"

#include <math.h>
#include <string.h>

#include "mpi/halo.h"
#include "mpi/points.h"
#include "mpi/ring.h"
#include "mpi/run_private.h"

/* ---- Points ----------------------------------------------------------------------------------------------------- */

adj_status adji_run_place(adj_mpi_plan *plan) {
  if (plan->distribution == ADJ_MPI_HALO) return adji_halo_place(plan);
  if (plan->placed) return ADJ_OK;
  double begin = adji_seconds();
  adj_status status = ADJ_OK;
  plan->queries = (adji_points){.set = plan->left, .first = (int64_t)plan->left_starts[plan->group.rank]};
  if (plan->radii) {
    plan->queries.radii = adji_alloc(&plan->ctx->memory, plan->left->count + 1, sizeof(double), "radii");
    if (plan->queries.radii) memcpy(plan->queries.radii, plan->radii, plan->left->count * sizeof(double));
    status = plan->queries.radii ? ADJ_OK : ADJ_E_MEMORY;
  }
  status = adji_agree(&plan->group, status);
  if (!plan->self_join && plan->distribution == ADJ_MPI_RING)
    plan->region = (adji_points){.set = plan->right, .first = (int64_t)plan->right_starts[plan->group.rank]};
  if (!status && plan->distribution == ADJ_MPI_REPLICATED) status = adji_ring_replicate(plan);
  if (status) adji_halo_forget(plan);
  plan->placed = !status;
  plan->stats.exchange_s += adji_seconds() - begin;
  return status;
}

/* Picks the queries of a round: those in their owner's stretch, or all of them, which may not be there yet. */
static adj_status pick_queries(adj_mpi_plan *plan, adji_round round, adji_points *some, const adji_points **out) {
  const adji_points *all = &plan->queries;
  *out = all;
  adj_status status = round.of == 1 ? ADJ_OK : adji_halo_queries(plan);
  if (status || round.of == 1) return status;
  uint64_t count = all->set->count, found = 0, begin = 0, end = 0;
  uint32_t *rows = adji_alloc(&plan->ctx->memory, count + 1, sizeof *rows, "queries of a round");
  if (!rows) return ADJ_E_MEMORY;
  int owner = -1;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t id = (uint64_t)adji_point_id(all, i);
    while (owner < 0 || id >= plan->left_starts[owner + 1])
      adji_round_rows(plan, ++owner, round, &begin, &end);
    uint64_t row = id - plan->left_starts[owner];
    if (row >= begin && row < end) rows[found++] = (uint32_t)i;
  }
  status = adji_points_pick(plan, all, rows, 0, found, some);
  adji_free(&plan->ctx->memory, rows);
  *out = some;
  return status;
}

/* ---- Parts of a range join -------------------------------------------------------------------------------------- */

adj_status adji_run_part(adji_parts *p, const adji_points *left, const adji_points *right, adji_mpi_part *part,
                         adji_requests *requests, double share) {
  adj_mpi_plan *plan = p->plan;
  adji_part_request request = {
      .plan = plan, .mode = p->mode, .left = left, .right = right, .requests = requests, .share = share};
  request.k = plan->spec.k;
  request.out = part;
  request.radii = p->radii;
  request.lasts = p->lasts;
  request.labels = p->bins || plan->spec.kind == ADJ_KNN;
  request.bins = p->bins;
  request.back = p->back;
  bool window = plan->self_join && left != right && right == adji_points_here(plan);
  bool with_self = plan->spec.flags & ADJ_WITH_SELF;
  if (window && plan->spec.kind == ADJ_KNN && !with_self && !part->whole) request.k++; /* may find the query itself */
  if (right == adji_points_here(plan)) request.index = plan->index;
  if (p->bins) adji_row_bins_offer(plan, p->bins, part);
  return adji_mpi_part_join(&request);
}

/* Joins the queries of a region with the points there and around it. All queries of a self-join: these points are
 * joined with themselves, and the rows of the points around the region are not used. */
static adj_status join_region(adji_parts *p, double share) {
  adj_mpi_plan *plan = p->plan;
  const adji_points *left = p->queries;
  p->count = 1;
  if (plan->own && left == &plan->queries) {
    left = &plan->region;
    p->items[0].own = plan->own;
  }
  return adji_run_part(p, left, &plan->region, &p->items[0], NULL, share);
}

/* Joins the queries of a round with all points: in self-joins with this rank's own first, then with the others. */
static adj_status join_replicated(adji_parts *p) {
  adj_mpi_plan *plan = p->plan;
  adj_status status = ADJ_OK;
  p->count = 2;
  if (plan->self_join) status = adji_run_part(p, p->queries, &plan->queries, &p->items[0], NULL, 0.8);
  if (status || plan->group.stopped) return status;
  p->items[1].whole = true;
  return adji_run_part(p, p->queries, &plan->others, &p->items[1], NULL, 0.2);
}

static adj_status open_parts(adji_parts *p, adj_mpi_plan *plan, const adji_points *queries, adji_mode mode) {
  *p = (adji_parts){.plan = plan, .queries = queries, .mode = mode, .count = (uint32_t)plan->group.ranks};
  p->items = adji_alloc_zero(&plan->ctx->memory, (uint64_t)plan->group.ranks + 1, sizeof *p->items, "parts of a join");
  return p->items ? ADJ_OK : ADJ_E_MEMORY;
}

static void clear_parts(adji_parts *p) {
  for (int i = 0; p->items && i <= p->plan->group.ranks; i++)
    adji_mpi_part_clear(p->plan, &p->items[i]);
  for (int i = 0; p->found && i < p->plan->group.ranks; i++)
    adji_mpi_part_clear(p->plan, &p->found[i]);
  adji_free(&p->plan->ctx->memory, p->found);
  adji_free(&p->plan->ctx->memory, p->shifts);
  adji_free(&p->plan->ctx->memory, p->radii);
  adji_free(&p->plan->ctx->memory, p->lasts);
  adji_free(&p->plan->ctx->memory, p->items);
}

/* Finds all parts of a range join. Agreed on. */
static adj_status find_parts(adji_parts *p, adj_status status) {
  status = adji_agree(&p->plan->group, status);
  if (status) return status;
  if (p->plan->distribution == ADJ_MPI_RING) return adji_run_ring_parts(p);
  bool halo = p->plan->distribution == ADJ_MPI_HALO;
  return adji_agree(&p->plan->group, halo ? join_region(p, 1) : join_replicated(p));
}

/* ---- kNN -------------------------------------------------------------------------------------------------------- */

static adj_status make_index(void *user, adji_mpi_work *work) {
  (void)work;
  adj_mpi_plan *plan = user;
  adj_index_options options;
  adj_index_options_init(&options, sizeof options);
  options.metric = plan->spec.metric;
  options.backend = plan->spec.backend;
  options.angle = plan->spec.angle;
  options.unit = plan->spec.unit;
  options.box_count = plan->spec.box_count;
  options.p = plan->spec.p;
  options.sphere_radius = plan->spec.sphere_radius;
  options.box = plan->spec.box;
  return adj_index_create(plan->ctx, &options, adji_points_here(plan)->set, &plan->index);
}

/* Regions are searched several times, for their own queries and for guests, so one index serves all searches. A plan
 * with an algorithm, tuning or system of its own, or for the reference, goes without. */
adj_status adji_run_index(adj_mpi_plan *plan) {
  const adj_join_spec *spec = &plan->spec;
  if (plan->index || spec->algorithm || spec->tuning || spec->system || spec->backend == ADJ_BACKEND_REFERENCE)
    return ADJ_OK;
  if (!adji_points_here(plan)->set->count) return ADJ_OK;
  double begin = adji_seconds(), cpu = adji_cpu_seconds();
  adj_status status = adji_do_work(&plan->group, make_index, plan, NULL);
  plan->stats.join_s += adji_seconds() - begin;
  plan->stats.join_cpu_s += adji_cpu_seconds() - cpu;
  return status;
}

static void drop_index(adj_mpi_plan *plan) {
  adj_index_destroy(plan->index);
  plan->index = NULL;
}

/* In regions most queries need only their last sums, which tell whether they must visit other regions. If nobody else
 * asks for sums, the lists have no others: that is nearly half of their memory. In more dimensions so many queries
 * visit other regions that their second search takes longer (10-D: a third more CPU time). */
static adj_status open_lasts(adji_parts *p) {
  enum { FEW_DIMS = 3 };
  adj_mpi_plan *plan = p->plan;
  bool whole = !plan->self_join || p->queries == &plan->queries;
  if (plan->dim > FEW_DIMS || adji_reported_size(plan) || !plan->fits_32 || !whole) return ADJ_OK;
  uint64_t rows = plan->own ? plan->region.set->count : p->queries->set->count;
  p->lasts = adji_alloc(&plan->ctx->memory, rows + 1, adji_type_size(plan->type), "lists");
  return p->lasts ? ADJ_OK : ADJ_E_MEMORY;
}

/* Merges the lists that were found into those of the queries. */
static adj_status merge_lists(adji_parts *p, adji_mpi_part *part) {
  adj_mpi_plan *plan = p->plan;
  adj_status status = adji_halo_queries(plan);
  if (!status && !p->lists->each) status = adji_rows_open_lists(plan, p->queries->set->count, p->lists);
  if (!status) status = adji_rows_merge(plan, p->queries, part, p->lists);
  adji_mpi_part_clear(plan, part);
  return status;
}

/* Finds the nearest neighbours of the queries of a region among the points there and around it. */
static adj_status search_region(adji_parts *p) {
  adj_mpi_plan *plan = p->plan;
  adj_status status = adji_run_index(plan);
  if (!status) status = open_lasts(p);
  if (!status && !plan->group.stopped) status = join_region(p, 0.8);
  if (status || plan->group.stopped) return status;
  if (!adji_rows_adopt(plan, &p->items[0], p->lists)) return merge_lists(p, &p->items[0]);
  if (p->lists->lasts) p->lasts = NULL;
  adji_rows_globalise(p->lists);
  return ADJ_OK;
}

/* The same among all points: in self-joins among this rank's own first, then among the others. */
static adj_status search_all(adji_parts *p) {
  adj_mpi_plan *plan = p->plan;
  adj_status status = ADJ_OK;
  if (plan->self_join) status = adji_run_part(p, p->queries, &plan->queries, &p->items[0], NULL, 0.8);
  if (status || plan->group.stopped) return status;
  if (plan->self_join) status = merge_lists(p, &p->items[0]);
  p->items[1].whole = true;
  if (!status) status = adji_run_part(p, p->queries, &plan->others, &p->items[1], NULL, 0.2);
  return status || plan->group.stopped ? status : merge_lists(p, &p->items[1]);
}

static adj_status search_here(adji_parts *p) {
  return p->plan->distribution == ADJ_MPI_HALO ? search_region(p) : search_all(p);
}

static adj_status find_lists(adji_parts *p, adj_status status, adji_rows *out) {
  adj_mpi_plan *plan = p->plan;
  p->lists = out;
  status = adji_agree(&plan->group, status);
  if (status) return status;
  if (plan->distribution == ADJ_MPI_RING) return adji_run_ring_lists(p);
  status = adji_agree(&plan->group, search_here(p));
  if (!status) adji_rows_pad(plan, out);
  if (!status && plan->distribution == ADJ_MPI_HALO) status = adji_halo_visit(plan, status, p->queries, out);
  return status;
}

/* ---- Rows ------------------------------------------------------------------------------------------------------- */

/* Finds the rows of the queries, with sums if these are needed. Agreed on. */
static adj_status find_rows(adj_mpi_plan *plan, const adji_points *queries, adji_round round, adj_status status,
                            adji_rows *out) {
  adji_parts p = {.plan = plan};
  if (!status) status = open_parts(&p, plan, queries, ADJI_ROWS);
  p.round = round;
  if (plan->spec.kind == ADJ_KNN) {
    status = find_lists(&p, status, out);
  } else {
    if (!status) status = adji_halo_queries(plan);
    status = find_parts(&p, status);
    if (!status) status = adji_rows_join(plan, queries, p.items, p.count, out);
    status = adji_agree(&plan->group, status);
  }
  clear_parts(&p);
  return status;
}

/* Whether rows travel in bins: those of whole range joins in regions, if no pair is left out afterwards and all numbers
 * fit 32 bits. */
static bool sends_bins(const adj_mpi_plan *plan, adji_round round) {
  return plan->distribution == ADJ_MPI_HALO && plan->spec.kind == ADJ_RANGE && round.of == 1 &&
         !(plan->spec.flags & ADJ_ONE_WAY) && plan->fits_32 && adji_row_bins_fit(plan);
}

/* Joins a region and sends the rows to their owners in bins. Agreed on. */
static adj_status send_bins(adj_mpi_plan *plan, adji_rows *out) {
  adji_parts p = {.plan = plan};
  adji_row_bins bins = {0};
  adj_status status = open_parts(&p, plan, &plan->queries, ADJI_ROWS);
  if (!status) status = adji_row_bins_open(plan, &bins);
  p.bins = &bins;
  status = find_parts(&p, status);
  if (!status) status = adji_owners_send_bins(plan, &bins, &p.items[0], out);
  clear_parts(&p);
  adji_row_bins_close(plan, &bins);
  return status;
}

adj_status adji_run_rows(adj_mpi_plan *plan, adji_round round, adji_rows *out) {
  adji_points some = {0};
  const adji_points *queries = NULL;
  adji_rows found = {0};
  *out = (adji_rows){0};
  bool knn = plan->spec.kind == ADJ_KNN, halo = plan->distribution == ADJ_MPI_HALO;
  adj_status status;
  if (sends_bins(plan, round)) {
    status = send_bins(plan, out);
  } else {
    status = pick_queries(plan, round, &some, &queries);
    status = find_rows(plan, queries, round, status, &found);
    if (!status && knn) status = adji_agree(&plan->group, adji_rows_report(plan, &found));
    if (!status && halo) {
      if (round.of == 1) drop_index(plan); /* room for the result */
      status = adji_owners_send(plan, status, ADJI_ROWS, queries, &found, round, out);
    } else if (!status) {
      if (plan->narrow) adji_rows_narrow(plan, &found);
      if (knn) status = adji_agree(&plan->group, adji_rows_number(plan, &found));
      *out = found;
      found = (adji_rows){0};
    }
  }
  if (!status && !knn) status = adji_agree(&plan->group, adji_rows_report(plan, out));
  adji_points_clear(plan, &some);
  if (!plan->group.broken.broken) adji_rows_clear(plan, &found); /* MPI may still read them */
  if (status) adji_rows_clear(plan, out);
  return status;
}

/* ---- Lengths ---------------------------------------------------------------------------------------------------- */

static adj_status new_lengths(adj_mpi_plan *plan, uint64_t count, adji_rows *out) {
  *out = (adji_rows){.count = count};
  out->offsets = adji_alloc_zero(&plan->ctx->memory, count + 1, sizeof *out->offsets, "counts of rows");
  return out->offsets ? ADJ_OK : ADJ_E_MEMORY;
}

static void add_up(adji_rows *rows) {
  for (uint64_t i = 0; i < rows->count; i++)
    rows->offsets[i + 1] += rows->offsets[i];
}

/* Range joins: adds up the counts of all parts for each query here. */
static adj_status count_parts(adj_mpi_plan *plan, adji_rows *out) {
  adji_parts p = {.plan = plan};
  adj_status status = adji_halo_queries(plan);
  if (!status) status = open_parts(&p, plan, &plan->queries, ADJI_COUNT);
  status = find_parts(&p, status);
  if (!status) status = new_lengths(plan, plan->queries.set->count, out);
  for (uint32_t i = 0; i < p.count && !status; i++)
    for (uint64_t row = 0; p.items[i].degrees && row < p.items[i].row_count; row++)
      out->offsets[row + 1] += p.items[i].degrees[adji_part_row(&p.items[i], row)];
  if (!status) add_up(out);
  clear_parts(&p);
  return status;
}

/* kNN without a radius: every list has the same length. */
static adj_status count_lists(adj_mpi_plan *plan, adji_rows *out) {
  adj_status status = new_lengths(plan, plan->left->count, out);
  for (uint64_t i = 0; i < plan->left->count && !status; i++)
    out->offsets[i + 1] = adji_list_length(plan);
  if (!status) add_up(out);
  return adji_agree(&plan->group, status);
}

/* Makes the rows and counts their entries, without padding. */
static adj_status measure_rows(adj_mpi_plan *plan, adji_rows *out) {
  adji_rows rows = {0};
  adj_status status = adji_run_rows(plan, (adji_round){0, 1}, &rows);
  if (!status) status = new_lengths(plan, rows.count, out);
  for (uint64_t i = 0; i < rows.count && !status; i++)
    for (uint64_t e = rows.offsets[i]; e < rows.offsets[i + 1]; e++)
      out->offsets[i + 1] += !adji_rows_is_padding(&rows, e);
  if (!status) add_up(out);
  adji_rows_clear(plan, &rows);
  return adji_agree(&plan->group, status);
}

adj_status adji_run_lengths(adj_mpi_plan *plan, adji_rows *out) {
  bool halo = plan->distribution == ADJ_MPI_HALO;
  if (plan->spec.kind == ADJ_KNN && isinf(plan->spec.radius) && !plan->radii) return count_lists(plan, out);
  if (plan->spec.kind == ADJ_KNN || (halo && (plan->spec.flags & ADJ_ONE_WAY))) return measure_rows(plan, out);
  adji_rows here = {0};
  adj_status status = count_parts(plan, &here);
  if (halo) return adji_owners_send(plan, status, ADJI_COUNT, &plan->queries, &here, (adji_round){0, 1}, out);
  *out = here;
  return adji_agree(&plan->group, status);
}
