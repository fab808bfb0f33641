/* SPDX-License-Identifier: MIT
 *
 * How far the halo of a region reaches in a kNN join. With the points around it, a region has all neighbours of nearly
 * all of its queries. Other queries must visit other regions, and a visit costs several times as much as a point of a
 * halo. The reach of a region is somewhat more than the distance of the k-th neighbour of half of its queries, by a
 * sample. It is shorter, or there is no halo, if many points lie around the region compared with its queries near the
 * border, as beside a cluster, or with all of its points, as in many dimensions.
 */
#include <math.h>
#include <stdlib.h>

#include "mpi/halo_private.h"

/* Queries of the sample: a few per region tell enough. LEAST_NEIGHBOURS: estimates from nearer ones scatter. */
enum { QUERIES = 4096, A_REGION = 32, LEAST_QUERIES = 4, LEAST_NEIGHBOURS = 4 };
static const double WIDER = 1.25;
/* Points of a halo: at most this share of the region's points, and so many for each query that visits otherwise. */
static const double MOST_SHARE = 0.2, MOST_A_VISIT = 2.5;
enum { TRIES = 3 };

typedef struct estimate {
  adj_mpi_plan *plan;
  const adj_dataset *right; /* the sample */
  adj_dataset *queries;
  uint32_t *right_home, *home; /* of the sample, of the queries */
  double *radii;               /* of the queries */
  double *points;              /* of the sample, by region */
  double *visits;              /* of the queries, by region, scaled to the points of the sample */
  uint64_t *firsts;
} estimate;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* Sets the reach of each region from the median of its queries. sorted: room for all queries. firsts: for all regions,
 * and one more. */
static void take_medians(const estimate *e, double *sorted, uint64_t *firsts, double *reaches) {
  uint32_t regions = adj_split_regions(e->plan->split);
  for (uint64_t i = 0; i < e->queries->count; i++)
    firsts[e->home[i] + 1] += isfinite(e->radii[i]);
  for (uint32_t r = 0; r < regions; r++)
    firsts[r + 1] += firsts[r];
  for (uint64_t i = 0; i < e->queries->count; i++)
    if (isfinite(e->radii[i])) sorted[firsts[e->home[i]]++] = e->radii[i];
  uint64_t begin = 0;
  for (uint32_t r = 0; r < regions; r++) { /* firsts[r] is now the end of region r */
    uint64_t found = firsts[r] - begin;
    qsort(sorted + begin, found, sizeof *sorted, compare);
    reaches[r] = found < LEAST_QUERIES ? 0 : fmin(WIDER * sorted[begin + found / 2], e->plan->largest_radius);
    begin = firsts[r];
  }
}

/* Counts the sampled points of each region, and its queries that reach others. Queries that have fewer neighbours than
 * they need reach everything, and a halo does not help them. */
static adj_status count_regions(estimate *e) {
  adji_visit *visits = NULL;
  uint64_t many = 0;
  double scale = (double)e->right->count / (double)(e->queries->count + !e->queries->count);
  for (uint64_t i = 0; i < e->right->count; i++)
    e->points[e->right_home[i]]++;
  for (uint64_t i = 0; i < e->queries->count; i++)
    if (!isfinite(e->radii[i])) e->radii[i] = 0;
  adj_status status = adji_split_visits(e->plan->split, e->queries, e->home, e->radii, &visits, &many);
  for (uint64_t i = 0; i < many && !status; i++)
    e->visits[e->home[visits[i].row]] += scale;
  adji_free(&e->plan->ctx->memory, visits);
  return status;
}

/* Halves the reaches of regions whose halos have too many points. In the last try they get none. */
static adj_status shorten(const estimate *e, double *reaches) {
  adji_memory *memory = &e->plan->ctx->memory;
  uint32_t regions = adj_split_regions(e->plan->split);
  double *halo = adji_alloc(memory, regions, sizeof *halo, "regions");
  adj_status status = halo ? ADJ_OK : ADJ_E_MEMORY;
  bool again = true;
  for (int t = 0; t < TRIES && again && !status; t++) {
    adji_visit *visits = NULL;
    uint64_t many = 0;
    again = false;
    for (uint32_t r = 0; r < regions; r++)
      halo[r] = 0;
    status = adji_split_halos(e->plan->split, e->right, e->right_home, reaches, &visits, &many);
    for (uint64_t i = 0; i < many && !status; i++)
      halo[visits[i].region]++;
    for (uint32_t r = 0; r < regions; r++)
      if (halo[r] > MOST_SHARE * e->points[r] || halo[r] > MOST_A_VISIT * e->visits[r] + LEAST_QUERIES) {
        reaches[r] = t + 1 < TRIES ? reaches[r] / 2 : 0;
        again = true;
      }
    adji_free(memory, visits);
  }
  adji_free(memory, halo);
  return status;
}

static adj_status find_reaches(estimate *e, const adj_dataset *left, double *reaches) {
  adj_mpi_plan *plan = e->plan;
  adji_memory *memory = &plan->ctx->memory;
  uint64_t regions = adj_split_regions(plan->split), most = A_REGION * regions > QUERIES ? A_REGION * regions : QUERIES;
  adj_status status = adji_halo_thin(plan, left, most, &e->queries);
  if (status) return status;
  uint64_t queries = e->queries->count;
  e->home = adji_alloc(memory, queries + 1, sizeof *e->home, "sampled points");
  e->right_home = adji_alloc(memory, e->right->count + 1, sizeof *e->right_home, "sampled points");
  e->radii = adji_alloc(memory, 2 * queries + 1, sizeof *e->radii, "sampled points");
  e->points = adji_alloc_zero(memory, 2 * regions, sizeof *e->points, "regions");
  e->firsts = adji_alloc_zero(memory, regions + 1, sizeof *e->firsts, "regions");
  if (!e->home || !e->right_home || !e->radii || !e->points || !e->firsts) return ADJ_E_MEMORY;
  e->visits = e->points + regions;
  status = adj_split_home(plan->split, e->queries, e->home);
  if (!status) status = adj_split_home(plan->split, e->right, e->right_home);
  if (!status) status = adji_halo_radii(plan, e->queries, e->right, LEAST_NEIGHBOURS, e->radii);
  if (!status) take_medians(e, e->radii + queries, e->firsts, reaches);
  if (!status) status = count_regions(e);
  return status ? status : shorten(e, reaches);
}

adj_status adji_halo_reach(adj_mpi_plan *plan, const adj_dataset *left, const adj_dataset *right, double *reaches) {
  estimate e = {.plan = plan, .right = right ? right : left};
  adji_memory *memory = &plan->ctx->memory;
  adj_status status = left->count && e.right->count ? find_reaches(&e, left, reaches) : ADJ_OK;
  adj_dataset_destroy(e.queries);
  adji_free(memory, e.home);
  adji_free(memory, e.right_home);
  adji_free(memory, e.radii);
  adji_free(memory, e.points);
  adji_free(memory, e.firsts);
  return status;
}
