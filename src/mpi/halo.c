/* SPDX-License-Identifier: MIT
 *
 * Regions: space is cut so that each rank has about the same estimated work, and points move to the rank of their
 * region.
 *
 *   1. Every rank sends a sample of its points to rank 0, which makes the cuts and sends them to all (adj_split).
 *   2. Each left point goes to the rank of its home region.
 *   3. Range joins: each right point goes to every region that may have left points within the radius, judged by the
 *      box around these points; in self-joins by the cell of the region, so that points go home and around other
 *      regions in one message. split.h proves that none is missed. A region then has all neighbours of its queries.
 *   4. kNN joins: each right point goes home, and to the regions whose halo it is in (halo_reach.c). Each rank first
 *      searches among the points that it has. A query is done if it has k neighbours there and everything as near as
 *      the k-th is in the region or its halo. Other queries visit the regions that are within the distance of the k-th
 *      one, or all within the radius of the join if there are fewer than k.
 *
 * Region i belongs to rank i. There may be fewer regions than ranks if many points coincide.
 */
#include <math.h>
#include <string.h>

#include "cluster/split.h"
#include "mpi/halo_private.h"
#include "mpi/points.h"
#include "plan/index.h"

/* Sampled points of all ranks together: enough for regions whose work differs by a few per cent. */
enum { PER_RANK = 8192, LEAST_SAMPLE = 1 << 15, MOST_SAMPLE = 1 << 18 };

/* ---- The sample ------------------------------------------------------------------------------------------------- */

static uint64_t sample_size(const adj_mpi_plan *plan) {
  uint64_t wanted = (uint64_t)plan->group.ranks * PER_RANK;
  if (wanted < LEAST_SAMPLE) wanted = LEAST_SAMPLE;
  if (wanted > MOST_SAMPLE) wanted = MOST_SAMPLE;
  return plan->options.sample ? plan->options.sample : wanted;
}

/* How many of its `count` points this rank samples, if all ranks together have `all` points. */
static uint64_t share_of(uint64_t count, uint64_t all, uint64_t wanted) {
  if (all <= wanted) return count;
  double share = ceil((double)count * (double)wanted / (double)all);
  return (uint64_t)share < count ? (uint64_t)share : count;
}

/* Cuts the rows into `count` equal stretches and takes one point of each, at a hashed place: a pattern in the order of
 * the rows does not bias the sample. */
static char *sample_rows(const adj_dataset *set, uint64_t count, char *to) {
  uint64_t width = set->dim * adji_type_size(set->type);
  for (uint64_t i = 0; i < count; i++, to += width) {
    uint64_t first, end, hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    adji_slice(set->count, count, i, &first, &end);
    adji_points_copy(set, first + (hash ^ hash >> 29) % (end - first), to);
  }
  return to;
}

adj_status adji_halo_sample(adj_mpi_plan *plan, const adj_dataset *set, const uint64_t *starts, uint64_t wanted,
                            adj_dataset **out) {
  adji_group *group = &plan->group;
  uint64_t width = plan->dim * adji_type_size(plan->type), all = starts[group->ranks];
  uint64_t mine = share_of(set->count, all, wanted);
  adji_mail sent = {0}, received = {0};
  adj_status status = adji_mail_open(group, &sent);
  if (!status) sent.bytes = adji_alloc(&plan->ctx->memory, mine * width + 1, 1, "sampled points");
  if (!status && !sent.bytes) status = ADJ_E_MEMORY;
  for (int i = 0; i < group->ranks && !status; i++)
    sent.starts[i + 1] = mine * width; /* all of it to rank 0 */
  if (!status) sample_rows(set, mine, sent.bytes);
  status = adji_exchange(group, status, &sent, &received);
  adji_mail_clear(group, &sent);
  if (status) return status;
  if (group->rank == 0) {
    uint64_t bytes = received.starts[group->ranks];
    char *block = adji_alloc(&plan->ctx->memory, bytes + 1, 1, "sampled points");
    if (block) memcpy(block, received.bytes, bytes);
    status = block ? adji_points_adopt(plan, block, bytes / width, out) : ADJ_E_MEMORY;
  }
  adji_mail_clear(group, &received);
  return adji_agree(group, status);
}

/* ---- The cuts ---------------------------------------------------------------------------------------------------- */

/* Weights of the samples of a join of two sets. Left points: the work of a query with the neighbours estimated from the
 * right sample. Right points: the cost of moving and indexing a point. */
static adj_status weigh_two(adj_mpi_plan *plan, const adj_dataset *left, const adj_dataset *right, double *weights) {
  adj_join_spec spec = plan->spec;
  double scale = (double)plan->right_starts[plan->group.ranks] / (double)(right->count + !right->count);
  double per_left = (double)plan->left_starts[plan->group.ranks] / (double)(left->count + !left->count);
  uint32_t *degrees = adji_alloc_zero(&plan->ctx->memory, left->count + 1, sizeof *degrees, "sampled points");
  adj_plan *local = NULL;
  adj_status status = degrees ? ADJ_OK : ADJ_E_MEMORY;
  spec.backend = ADJ_BACKEND_CPU;
  spec.algorithm = spec.tuning = spec.system = NULL;
  spec.radii = NULL;
  spec.radius_count = 0;
  spec.radius = plan->largest_radius;
  spec.flags = 0;
  if (!status && spec.kind == ADJ_RANGE && left->count && right->count) {
    status = adj_plan_create(plan->ctx, &spec, left, right, &local);
    if (!status) status = adj_count(local, degrees, NULL, NULL, NULL);
    adj_plan_destroy(local);
  }
  for (uint64_t i = 0; i < left->count && !status; i++)
    weights[i] = per_left * adji_query_work(spec.kind == ADJ_KNN ? spec.k : degrees[i] * scale);
  for (uint64_t i = 0; i < right->count && !status; i++)
    weights[left->count + i] = ADJI_POINT_WORK * scale;
  adji_free(&plan->ctx->memory, degrees);
  return status;
}

static adj_status join_samples(adj_mpi_plan *plan, const adj_dataset *left, const adj_dataset *right,
                               adj_dataset **out) {
  uint64_t width = plan->dim * adji_type_size(plan->type), all = left->count + right->count;
  char *block = adji_alloc(&plan->ctx->memory, all * width + 1, 1, "sampled points");
  if (!block) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < all; i++)
    adji_points_copy(i < left->count ? left : right, i < left->count ? i : i - left->count, block + i * width);
  return adji_points_adopt(plan, block, all, out);
}

/* Makes the cuts, on rank 0. right NULL: a self-join. */
static adj_status make_cuts(adj_mpi_plan *plan, const adj_dataset *left, const adj_dataset *right) {
  adj_dataset *both = NULL;
  adj_status status = right ? join_samples(plan, left, right, &both) : ADJ_OK;
  const adj_dataset *sample = both ? both : left;
  double *weights =
      status ? NULL : adji_alloc(&plan->ctx->memory, sample->count + 1, sizeof *weights, "sampled points");
  if (!status && !weights) status = ADJ_E_MEMORY;
  adj_join_spec spec = plan->spec;
  spec.radii = NULL;
  spec.radius_count = 0;
  spec.radius = plan->largest_radius;
  if (!status && right) status = weigh_two(plan, left, right, weights);
  if (!status && !right)
    status = adj_split_weights(plan->ctx, &spec, sample, plan->left_starts[plan->group.ranks], weights);
  if (!status) status = adj_split_create(plan->ctx, &spec, sample, weights, (uint32_t)plan->group.ranks, &plan->split);
  adji_free(&plan->ctx->memory, weights);
  adj_dataset_destroy(both);
  return status;
}

/* kNN joins: chooses how far halos reach, on rank 0, and sends that to all ranks. */
static adj_status share_reaches(adj_mpi_plan *plan, const adj_dataset *left, const adj_dataset *right) {
  adji_group *group = &plan->group;
  uint64_t ranks = (uint64_t)group->ranks;
  plan->reaches = adji_alloc_zero(&plan->ctx->memory, ranks, sizeof *plan->reaches, "regions");
  adj_status status = plan->reaches ? ADJ_OK : ADJ_E_MEMORY;
  if (!status && left) status = adji_halo_reach(plan, left, right, plan->reaches);
  status = adji_agree(group, status);
  return status ? status : adji_broadcast(group, (char *)plan->reaches, ranks * sizeof *plan->reaches);
}

/* Sends the cuts from rank 0 to all ranks. */
static adj_status share_cuts(adj_mpi_plan *plan) {
  adji_group *group = &plan->group;
  uint64_t bytes = 0;
  if (plan->split) adj_split_save(plan->split, NULL, 0, &bytes);
  adj_status status = adji_all_reduce(group, &bytes, 1, MPI_UINT64_T, MPI_MAX);
  if (status) return status;
  char *buffer = adji_alloc(&plan->ctx->memory, bytes, 1, "cuts");
  if (buffer && plan->split) adj_split_save(plan->split, buffer, bytes, NULL);
  status = adji_agree(group, buffer ? ADJ_OK : ADJ_E_MEMORY);
  if (!status) status = adji_broadcast(group, buffer, bytes);
  if (!status && !plan->split) {
    adj_join_spec spec = plan->spec;
    spec.radius = plan->largest_radius;
    status = adj_split_load(plan->ctx, &spec, plan->type, plan->dim, buffer, bytes, &plan->split);
  }
  adji_group_free(group, buffer);
  return adji_agree(group, status);
}

static adj_status cut_space(adj_mpi_plan *plan) {
  adj_dataset *left = NULL, *right = NULL;
  uint64_t wanted = sample_size(plan);
  adj_status status = adji_halo_sample(plan, plan->left, plan->left_starts, wanted, &left);
  if (!status && !plan->self_join) status = adji_halo_sample(plan, plan->right, plan->right_starts, wanted, &right);
  if (!status && left) status = make_cuts(plan, left, right);
  status = adji_agree(&plan->group, status);
  if (!status) status = share_cuts(plan);
  if (!status && plan->spec.kind == ADJ_KNN) status = share_reaches(plan, left, right);
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  return status;
}

/* ---- Moving points ---------------------------------------------------------------------------------------------- */

/* Sends each point of a set to the rank of its home region. */
static adj_status send_home(adj_mpi_plan *plan, const adj_dataset *set, const double *radii, const uint32_t *home,
                            adji_points *out) {
  adji_parcel parcel = {.set = set, .radii = radii, .home = home};
  return adji_points_exchange(plan, ADJ_OK, &parcel, out);
}

/* Sends each right point to the regions that it is in or around; in range joins of two sets without regard to homes.
 * Self-joins note which points are at home. */
static adj_status send_halo(adj_mpi_plan *plan, const uint32_t *home) {
  adji_visit *visits = NULL;
  adji_parcel parcel = {.set = plan->right, .home = home};
  if (plan->self_join) {
    parcel.radii = plan->radii;
    parcel.own = &plan->own;
    parcel.own_count = &plan->own_count;
  }
  adj_status status;
  if (plan->reaches)
    status = adji_split_halos(plan->split, plan->right, home, plan->reaches, &visits, &parcel.visit_count);
  else
    status = adji_split_visits(plan->split, plan->right, home, NULL, &visits, &parcel.visit_count);
  parcel.visits = visits;
  status = adji_points_exchange(plan, status, &parcel, &plan->region);
  adji_free(&plan->ctx->memory, visits);
  return status;
}

adj_status adji_halo_queries(adj_mpi_plan *plan) {
  if (!plan->own || plan->queries.set) return ADJ_OK;
  return adji_points_pick(plan, &plan->region, plan->own, 0, plan->own_count, &plan->queries);
}

/* The box around the points of this region: that around the points here, cut to the cell of the region, as there may be
 * points of its halo. */
static adj_status box_here(const adj_mpi_plan *plan, const adj_dataset *here, double *low, double *high) {
  uint64_t dim = adj_split_dim(plan->split), values = adj_split_regions(plan->split) * dim;
  uint64_t own = (uint64_t)plan->group.rank * dim;
  double *cells = adji_alloc(&plan->ctx->memory, 2 * values, sizeof *cells, "regions");
  if (!cells) return ADJ_E_MEMORY;
  adji_split_cells(plan->split, cells, cells + values);
  for (uint64_t i = 0; i < values; i++) {
    low[i] = INFINITY;
    high[i] = -INFINITY;
  }
  for (uint64_t i = own; i < own + dim && own < values && here->count; i++) {
    adj_dataset_bounds(here, (uint32_t)(i - own), &low[i], &high[i]);
    low[i] = fmax(low[i], cells[i]);
    high[i] = fmin(high[i], cells[values + i]);
  }
  adji_free(&plan->ctx->memory, cells);
  return ADJ_OK;
}

/* Shares the boxes around the points of each region that the test of step 3 or 4 is about: left points in range joins,
 * right points in kNN joins. here: those of this region. set, home: this rank's points, from which come the boxes of
 * regions of derived points. Maxima are negated, so that one reduction by MPI_MIN serves both. */
static adj_status share_bounds(adj_mpi_plan *plan, const adj_dataset *here, const adj_dataset *set,
                               const uint32_t *home) {
  adji_group *group = &plan->group;
  uint64_t values = (uint64_t)adj_split_regions(plan->split) * adj_split_dim(plan->split);
  double *low = adji_alloc(&plan->ctx->memory, 2 * values, sizeof *low, "regions"), *high = low ? low + values : NULL;
  adj_status status = low ? ADJ_OK : ADJ_E_MEMORY;
  if (!status && adji_metric_derives(plan->spec.metric))
    status = adj_split_bounds(plan->split, set, home, low, high);
  else if (!status)
    status = box_here(plan, here, low, high);
  status = adji_agree(group, status);
  for (uint64_t i = 0; i < values && !status; i++)
    high[i] = -high[i];
  if (!status) status = adji_all_reduce(group, low, (int)(2 * values), MPI_DOUBLE, MPI_MIN);
  for (uint64_t i = 0; i < values && !status; i++)
    high[i] = -high[i];
  if (!status) status = adj_split_set_bounds(plan->split, low, high);
  adji_group_free(group, low);
  return status;
}

/* Places the points of a kNN join. */
static adj_status place_knn(adj_mpi_plan *plan, adj_status status, const uint32_t *right_home) {
  status = adji_agree(&plan->group, status);
  if (!status) status = send_halo(plan, right_home);
  if (!status && !plan->self_join) status = send_home(plan, plan->left, plan->radii, plan->home, &plan->queries);
  if (!status) status = share_bounds(plan, plan->region.set, plan->right, right_home);
  return status;
}

static adj_status place_points(adj_mpi_plan *plan) {
  adj_status status = adj_split_home(plan->split, plan->left, plan->home);
  if (plan->spec.kind == ADJ_KNN && plan->self_join) return place_knn(plan, status, plan->home);
  if (plan->spec.kind == ADJ_KNN) {
    uint32_t *home = adji_alloc(&plan->ctx->memory, plan->right->count + 1, sizeof *home, "regions of points");
    if (!status) status = home ? adj_split_home(plan->split, plan->right, home) : ADJ_E_MEMORY;
    status = place_knn(plan, status, home);
    adji_free(&plan->ctx->memory, home);
    return status;
  }
  status = adji_agree(&plan->group, status);
  if (status || plan->self_join) return status ? status : send_halo(plan, plan->home);
  status = send_home(plan, plan->left, plan->radii, plan->home, &plan->queries);
  if (!status) status = share_bounds(plan, plan->queries.set, plan->left, plan->home);
  return status ? status : send_halo(plan, NULL);
}

adj_status adji_halo_place(adj_mpi_plan *plan) {
  if (plan->placed) return ADJ_OK;
  double begin = adji_seconds();
  plan->home = adji_alloc(&plan->ctx->memory, plan->left->count + 1, sizeof *plan->home, "regions of points");
  adj_status status = adji_agree(&plan->group, plan->home ? ADJ_OK : ADJ_E_MEMORY);
  if (!status) status = cut_space(plan);
  if (!status) status = place_points(plan);
  if (status) adji_halo_forget(plan);
  plan->placed = !status;
  plan->stats.exchange_s += adji_seconds() - begin;
  return status;
}

void adji_halo_forget(adj_mpi_plan *plan) {
  adji_memory *memory = &plan->ctx->memory;
  adj_index_destroy(plan->index);
  adj_split_destroy(plan->split);
  adji_points_clear(plan, &plan->queries);
  adji_points_clear(plan, &plan->region);
  adji_points_clear(plan, &plan->others);
  adji_free(memory, plan->home);
  adji_free(memory, plan->own);
  adji_free(memory, plan->reaches);
  plan->index = NULL;
  plan->split = NULL;
  plan->home = plan->own = NULL;
  plan->reaches = NULL;
  plan->own_count = 0;
  plan->placed = false;
}
