/* SPDX-License-Identifier: MIT
 *
 * Which distribution a join gets, and why. All figures are of all ranks, so every rank decides alike.
 */
#include <stdio.h>

#include "mpi/choose.h"

/* Up to this many dimensions, few points lie around a region compared with those in it. */
enum { MOST_HALO_DIM = 6 };

typedef struct figures {
  double left, right; /* bytes of all points */
  double memory;      /* least memory limit of a rank */
  int ranks;
} figures;

/* Replicated needs all right points and their index on every rank. */
static bool fits_everywhere(const figures *f) {
  return 3 * f->right + f->left / f->ranks < f->memory / 2;
}

static adj_mpi_distribution choose(adj_mpi_plan *plan, const figures *f, char *reason, size_t room) {
  char bytes[32];
  if (f->ranks == 1) {
    snprintf(reason, room, "one rank has all points");
    return ADJ_MPI_REPLICATED;
  }
  if (plan->spec.metric != ADJ_DOT && plan->dim <= MOST_HALO_DIM) {
    snprintf(reason, room, "%u dimensions: regions have few points around them", plan->dim);
    return ADJ_MPI_HALO;
  }
  const char *why = plan->spec.metric == ADJ_DOT ? "inner products have no regions" : "too many dimensions for regions";
  if (fits_everywhere(f)) {
    snprintf(reason, room, "%s, and all right points (%s) fit the memory of every rank", why,
             adji_bytes_text(f->right, bytes));
    return ADJ_MPI_REPLICATED;
  }
  snprintf(reason, room, "%s, and all right points (%s) do not fit the memory of every rank", why,
           adji_bytes_text(f->right, bytes));
  return ADJ_MPI_RING;
}

adj_status adji_choose_distribution(adj_mpi_plan *plan) {
  adji_group *group = &plan->group;
  double width = (double)plan->dim * (double)adji_type_size(plan->type);
  figures f = {.ranks = group->ranks, .memory = (double)adj_ctx_memory_limit(plan->ctx)};
  f.left = (double)plan->left_starts[group->ranks] * width;
  f.right = (double)plan->right_starts[group->ranks] * width;
  adj_status status = adji_all_reduce(group, &f.memory, 1, MPI_DOUBLE, MPI_MIN);
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
