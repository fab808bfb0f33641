/* SPDX-License-Identifier: MIT
 *
 * Which distribution a join gets, and why. All figures are of all ranks, so every rank decides alike.
 */
#include <stdio.h>

#include "mpi/choose.h"
#include "mpi/halo.h"

/* Up to this many dimensions, few points lie around a region compared with those in it. With more, a sample tells. The
 * shares of the other regions up to which regions take the least CPU time, measured with uniform and clustered points
 * in 10 and 16 dimensions: those that a kNN query visits, or that a right point is near. */
enum { MOST_HALO_DIM = 6 };
static const double MOST_VISITS_KNN = 0.85, MOST_VISITS_RANGE = 0.35;
/* Right points of fewer bytes than this are soon everywhere. */
static const double SMALL = 1 << 20;

typedef struct figures {
  double left, right, lists; /* bytes of all points, and of the lists of a kNN join */
  double memory;             /* least memory limit of a rank */
  double visits;             /* other regions that a point meets, by a sample; negative: not estimated */
  int ranks;
} figures;

/* Replicated needs all right points and their index on every rank. */
static bool fits_everywhere(const figures *f) {
  return 3 * f->right + f->left / f->ranks < f->memory / 2;
}

/* Whether regions pay, and the points that visit a region or lie around it fit its rank. */
static bool suits_regions(const adj_mpi_plan *plan, const figures *f) {
  double most = plan->spec.kind == ADJ_KNN ? MOST_VISITS_KNN : MOST_VISITS_RANGE;
  if (f->visits < 0 || f->visits > most * (f->ranks - 1)) return false;
  return (1 + f->visits) * (3 * f->right + f->left + f->lists) / f->ranks < f->memory / 2;
}

/* The choice between the distributions that do not cut space. why: what speaks against regions. */
static adj_mpi_distribution choose_whole(const adj_mpi_plan *plan, const figures *f, const char *why, char *reason,
                                         size_t room) {
  char bytes[32];
  adji_bytes_text(f->right, bytes);
  bool fits = fits_everywhere(f);
  if (plan->self_join && f->right >= SMALL) {
    snprintf(reason, room, "%s; in a ring a rank holds few points at a time", why);
    return ADJ_MPI_RING;
  }
  snprintf(reason, room, "%s, and all right points (%s) %s the memory of every rank", why, bytes,
           fits ? "fit" : "do not fit");
  return fits ? ADJ_MPI_REPLICATED : ADJ_MPI_RING;
}

static adj_mpi_distribution choose(const adj_mpi_plan *plan, const figures *f, char *reason, size_t room) {
  char why[96] = "inner products have no regions";
  if (f->ranks == 1) {
    snprintf(reason, room, "one rank has all points");
    return ADJ_MPI_REPLICATED;
  }
  if (plan->spec.metric != ADJ_DOT && plan->dim <= MOST_HALO_DIM) {
    snprintf(reason, room, "%u dimensions: regions have few points around them", plan->dim);
    return ADJ_MPI_HALO;
  }
  if (f->visits >= 0)
    snprintf(why, sizeof why, "by a sample %s %.2g of %d other regions",
             plan->spec.kind == ADJ_KNN ? "a query visits" : "a point is near", f->visits, f->ranks - 1);
  if (!suits_regions(plan, f)) return choose_whole(plan, f, why, reason, room);
  snprintf(reason, room, "%s", why);
  return ADJ_MPI_HALO;
}

/* Whether the choice needs an estimate. Without points there is nothing to sample. */
static bool needs_estimate(const adj_mpi_plan *plan) {
  int ranks = plan->group.ranks;
  return plan->options.distribution == ADJ_MPI_AUTO && ranks > 1 && plan->dim > MOST_HALO_DIM &&
         plan->spec.metric != ADJ_DOT && plan->left_starts[ranks] && plan->right_starts[ranks];
}

adj_status adji_choose_distribution(adj_mpi_plan *plan) {
  adji_group *group = &plan->group;
  double width = (double)plan->dim * (double)adji_type_size(plan->type);
  figures f = {.ranks = group->ranks, .memory = (double)adj_ctx_memory_limit(plan->ctx), .visits = -1};
  f.left = (double)plan->left_starts[group->ranks] * width;
  f.right = (double)plan->right_starts[group->ranks] * width;
  if (plan->spec.kind == ADJ_KNN)
    f.lists = (double)plan->left_starts[group->ranks] * plan->spec.k * (8 + (double)adji_type_size(plan->type));
  adj_status status = adji_all_reduce(group, &f.memory, 1, MPI_DOUBLE, MPI_MIN);
  if (!status && needs_estimate(plan)) status = adji_halo_estimate(plan, &f.visits);
  if (status) return status;
  plan->distribution = plan->options.distribution;
  if (plan->distribution == ADJ_MPI_AUTO)
    plan->distribution = choose(plan, &f, plan->reason, sizeof plan->reason);
  else
    snprintf(plan->reason, sizeof plan->reason, "asked for");
  if (plan->distribution == ADJ_MPI_HALO && plan->spec.metric == ADJ_DOT)
    return adji_fail(ADJ_E_UNSUPPORTED, "distribution: halo needs a distance; inner products have replicated and ring");
  return ADJ_OK;
}
