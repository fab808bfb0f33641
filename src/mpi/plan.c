/* SPDX-License-Identifier: MIT
 *
 * adj_mpi_plan_create checks the request on every rank, and that all ranks make the same one; and adj_mpi_plan_explain.
 */
#include "mpi/choose.h"
#include "mpi/halo.h"
#include "mpi/ring.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ADJI_DEFINE_INIT(adj_mpi_options, .distribution = ADJ_MPI_AUTO)
ADJI_DEFINE_INIT(adj_mpi_layout, 0)
ADJI_DEFINE_INIT(adj_mpi_stats, 0)

static const char *const names[] = {"auto", "replicated", "ring", "halo"};

const char *adj_mpi_distribution_name(adj_mpi_distribution distribution) {
  return (unsigned)distribution <= ADJ_MPI_HALO ? names[distribution] : NULL;
}

/* ---- The request ------------------------------------------------------------------------------------------------- */

static adj_status copy_text(const char **text, char **copy) {
  if (!*text) return ADJ_OK;
  *copy = strdup(*text);
  *text = *copy;
  return *copy ? ADJ_OK : adji_fail(ADJ_E_MEMORY, "no memory for a plan");
}

static adj_status copy_values(adj_ctx *ctx, const double **values, uint64_t count, double **copy) {
  *copy = adji_alloc(&ctx->memory, count + 1, sizeof **copy, "radii");
  if (!*copy) return ADJ_E_MEMORY;
  if (count) memcpy(*copy, *values, count * sizeof **copy);
  *values = *copy;
  return ADJ_OK;
}

/* Copies the spec with its arrays and strings. */
static adj_status take_spec(adj_mpi_plan *plan, const adj_join_spec *spec) {
  adj_join_spec_init(&plan->spec, sizeof plan->spec);
  adj_status status = adji_take_struct(&plan->spec, sizeof plan->spec, spec, "adj_join_spec");
  adj_join_spec *mine = &plan->spec;
  const char *texts[] = {mine->algorithm, mine->tuning, mine->system};
  const double *box = mine->box, *radii = mine->radii;
  mine->algorithm = mine->tuning = mine->system = NULL;
  mine->box = mine->radii = NULL;
  if (!status) status = copy_text(&texts[0], &plan->algorithm);
  if (!status) status = copy_text(&texts[1], &plan->tuning);
  if (!status) status = copy_text(&texts[2], &plan->system);
  if (!status && box) status = copy_values(plan->ctx, &box, mine->box_count, &plan->box);
  if (!status && radii) status = copy_values(plan->ctx, &radii, mine->radius_count, &plan->radii);
  mine->algorithm = plan->algorithm;
  mine->tuning = plan->tuning;
  mine->system = plan->system;
  mine->box = plan->box;
  mine->radii = plan->radii;
  return status;
}

/* Checks what does not depend on the points: makes a plan for empty sets. */
static adj_status check_spec(const adj_mpi_plan *plan) {
  adj_points none;
  adj_points_init(&none, sizeof none);
  none.dim = plan->dim;
  none.type = plan->type;
  adj_dataset *left = NULL, *right = NULL;
  adj_plan *local = NULL;
  adj_join_spec spec = plan->spec;
  if (spec.radius_count != (spec.radii ? plan->left->count : 0))
    return adji_fail(ADJ_E_ARGUMENT, "radii: %llu radii for %llu left points", (unsigned long long)spec.radius_count,
                     (unsigned long long)plan->left->count);
  for (uint64_t i = 0; i < spec.radius_count; i++)
    if (isnan(spec.radii[i]) || (spec.radii[i] < 0 && spec.metric != ADJ_DOT) ||
        (isinf(spec.radii[i]) && spec.kind == ADJ_RANGE))
      return adji_fail(ADJ_E_ARGUMENT, "radii[%llu]: %g is not a distance", (unsigned long long)i, spec.radii[i]);
  spec.radius_count = 0;
  if (spec.radii) spec.radius = 0;
  spec.radii = NULL;
  adj_status status = adj_dataset_create(plan->ctx, &none, &left);
  if (!status && !plan->self_join) status = adj_dataset_create(plan->ctx, &none, &right);
  if (!status) status = adj_plan_create(plan->ctx, &spec, left, right, &local);
  adj_plan_destroy(local);
  adj_dataset_destroy(left);
  adj_dataset_destroy(right);
  return status;
}

/* Each rank looks among its own points for those outside the box, and for those without a derived point. */
static adj_status check_points(const adj_mpi_plan *plan) {
  if (plan->spec.metric != ADJ_COSINE && plan->spec.metric != ADJ_HAVERSINE && !plan->spec.box_count) return ADJ_OK;
  uint64_t most = plan->left->count > plan->right->count ? plan->left->count : plan->right->count;
  adj_points none;
  adj_points_init(&none, sizeof none);
  none.dim = plan->dim;
  none.type = plan->type;
  adj_dataset *empty = NULL;
  adj_split *whole = NULL;
  uint32_t *home = adji_alloc(&plan->ctx->memory, most + 1, sizeof *home, "regions of points");
  adj_status status = home ? adj_dataset_create(plan->ctx, &none, &empty) : ADJ_E_MEMORY;
  if (!status) status = adj_split_create(plan->ctx, &plan->spec, empty, NULL, 1, &whole);
  if (!status) {
    status = adj_split_home(whole, plan->left, home);
    if (status && !plan->self_join) (void)adji_fail_in(status, "left");
  }
  if (!status && !plan->self_join) {
    status = adj_split_home(whole, plan->right, home);
    if (status) (void)adji_fail_in(status, "right");
  }
  adj_split_destroy(whole);
  adj_dataset_destroy(empty);
  adji_free(&plan->ctx->memory, home);
  return status;
}

/* A rank's request as the other ranks see it, with its numbers of points. difference() lists what must be equal. */
typedef struct agreed {
  int32_t kind, metric, type, order, self_join, angle, unit, distribution, has_radii, text;
  uint32_t dim, k, flags, box_count;
  uint64_t left, right;
  double radius, p, sphere_radius, largest, box[16];
} agreed;

static agreed describe(const adj_mpi_plan *plan) {
  const adj_join_spec *spec = &plan->spec;
  agreed a;
  memset(&a, 0, sizeof a);
  a.kind = (int32_t)spec->kind;
  a.metric = (int32_t)spec->metric;
  a.type = (int32_t)plan->type;
  a.order = (int32_t)spec->order;
  a.self_join = plan->self_join;
  a.angle = (int32_t)spec->angle;
  a.unit = (int32_t)spec->unit;
  a.distribution = (int32_t)plan->options.distribution;
  a.has_radii = spec->radii != NULL;
  a.dim = plan->dim;
  a.k = spec->k;
  a.flags = spec->flags;
  a.box_count = spec->box_count;
  a.left = plan->left->count;
  a.right = plan->right->count;
  a.radius = spec->radius;
  a.p = spec->p;
  a.sphere_radius = spec->sphere_radius;
  for (uint32_t i = 0; i < spec->box_count && i < 16; i++)
    a.box[i] = spec->box[i];
  for (uint64_t i = 0; spec->radii && i < spec->radius_count; i++)
    a.largest = !i || spec->radii[i] > a.largest ? spec->radii[i] : a.largest;
  return a;
}

static const char *difference(const agreed *a, const agreed *b) {
  if (a->type != b->type) return "the type of the points";
  if (a->dim != b->dim) return "the dimension of the points";
  if (a->self_join != b->self_join) return "whether there are two sets";
  if (a->kind != b->kind) return "kind";
  if (a->metric != b->metric || a->p != b->p || a->angle != b->angle || a->unit != b->unit ||
      a->sphere_radius != b->sphere_radius)
    return "metric";
  if (a->k != b->k) return "k";
  if (a->radius != b->radius) return "radius";
  if (a->order != b->order) return "order";
  if (a->flags != b->flags) return "flags";
  if (a->box_count != b->box_count || memcmp(a->box, b->box, sizeof a->box) != 0) return "box";
  if (a->distribution != b->distribution) return "distribution";
  return NULL;
}

/* Exchanges the requests: sets the starts of all ranks and the largest radius, and checks that the requests agree. */
static adj_status compare_ranks(adj_mpi_plan *plan) {
  adji_group *group = &plan->group;
  adji_memory *memory = &plan->ctx->memory;
  uint64_t ranks = (uint64_t)group->ranks;
  agreed mine = describe(plan), *all = adji_alloc(memory, ranks, sizeof *all, "ranks");
  plan->left_starts = adji_alloc_zero(memory, ranks + 1, sizeof *plan->left_starts, "ranks");
  plan->right_starts = adji_alloc_zero(memory, ranks + 1, sizeof *plan->right_starts, "ranks");
  adj_status status = adji_agree(group, all && plan->left_starts && plan->right_starts ? ADJ_OK : ADJ_E_MEMORY);
  if (!status) status = adji_all_gather(group, &mine, sizeof mine, all);
  bool radii = false;
  plan->largest_radius = plan->spec.radius;
  for (uint64_t i = 0; i < ranks && !status; i++) {
    const char *what = difference(&all[0], &all[i]);
    if (what) status = adji_fail(ADJ_E_ARGUMENT, "rank %d: %s: is not the same as on rank 0", (int)i, what);
    plan->left_starts[i + 1] = plan->left_starts[i] + all[i].left;
    plan->right_starts[i + 1] = plan->right_starts[i] + all[i].right;
    if (all[i].has_radii && (!radii || all[i].largest > plan->largest_radius)) plan->largest_radius = all[i].largest;
    radii = radii || all[i].has_radii;
  }
  for (uint64_t i = 0; i < ranks && !status; i++)
    if (radii && !all[i].has_radii && all[i].left)
      status = adji_fail(ADJ_E_ARGUMENT, "rank %d: radii: other ranks have radii, this one has none", (int)i);
  if (!status && radii && !plan->radii) { /* a rank without points */
    plan->radii = adji_alloc(memory, 1, sizeof *plan->radii, "radii");
    if (!plan->radii) status = ADJ_E_MEMORY;
    plan->spec.radii = plan->radii;
  }
  plan->fits_32 = plan->right_starts && plan->right_starts[ranks] < ADJ_NO_ID;
  plan->narrow = plan->fits_32 && plan->options.id_bytes == 4;
  adji_group_free(group, all);
  return adji_agree(group, status);
}

/* ---- Life ------------------------------------------------------------------------------------------------------- */

static adj_status take_request(adj_mpi_plan *plan, const adj_join_spec *spec, const adj_mpi_options *options) {
  adj_mpi_options_init(&plan->options, sizeof plan->options);
  adj_status status = ADJ_OK;
  if (options) status = adji_take_struct(&plan->options, sizeof plan->options, options, "adj_mpi_options");
  plan->group.cancel = plan->options.cancel;
  if (plan->options.chunk_bytes && plan->options.chunk_bytes < plan->group.chunk)
    plan->group.chunk = plan->options.chunk_bytes;
  if (!status && !adj_mpi_distribution_name(plan->options.distribution))
    status = adji_fail(ADJ_E_ARGUMENT, "distribution: %d is none", (int)plan->options.distribution);
  uint32_t bytes = plan->options.id_bytes;
  if (!status && bytes && bytes != 4 && bytes != 8)
    status = adji_fail(ADJ_E_ARGUMENT, "id_bytes: %u is neither 4 nor 8, nor 0 for 8", bytes);
  if (!status && (plan->left->dim != plan->right->dim || plan->left->type != plan->right->type))
    status = adji_fail(ADJ_E_ARGUMENT, "left and right: their types or dimensions differ");
  if (!status) status = take_spec(plan, spec);
  if (!status) status = check_spec(plan);
  return status ? status : check_points(plan);
}

static adj_status create(MPI_Comm comm, adj_mpi_plan *plan, const adj_join_spec *spec, const adj_mpi_options *options) {
  adj_status status = adji_group_open(&plan->group, comm, plan->ctx);
  if (status) return status;
  status = adji_agree(&plan->group, take_request(plan, spec, options));
  if (!status) status = compare_ranks(plan);
  return status ? status : adji_choose_distribution(plan);
}

adj_status adj_mpi_plan_create(MPI_Comm comm, adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *left,
                               const adj_dataset *right, const adj_mpi_options *options, adj_mpi_plan **out) {
  if (!ctx || !spec || !left || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, left and out: none may be NULL");
  adj_mpi_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return adji_fail(ADJ_E_MEMORY, "no memory for a plan");
  *plan = (adj_mpi_plan){.ctx = ctx, .left = left, .right = right ? right : left, .dim = left->dim, .type = left->type};
  plan->self_join = plan->right == left;
  plan->group.comm = MPI_COMM_NULL;
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = create(comm, plan, spec, options);
  adji_call_set(outer);
  if (status)
    adj_mpi_plan_destroy(plan);
  else
    *out = plan;
  return status;
}

void adj_mpi_plan_destroy(adj_mpi_plan *plan) {
  if (!plan) return;
  adji_halo_forget(plan);
  adji_free(&plan->ctx->memory, plan->box);
  adji_free(&plan->ctx->memory, plan->radii);
  adji_free(&plan->ctx->memory, plan->left_starts);
  adji_free(&plan->ctx->memory, plan->right_starts);
  free(plan->algorithm);
  free(plan->tuning);
  free(plan->system);
  adji_group_close(&plan->group);
  free(plan);
}

/* ---- Layout and explanation ------------------------------------------------------------------------------------- */

adj_mpi_distribution adj_mpi_plan_distribution(const adj_mpi_plan *plan) {
  return plan->distribution;
}

adj_status adj_mpi_plan_layout(const adj_mpi_plan *plan, adj_mpi_layout *out) {
  if (!plan || !out) return adji_fail(ADJ_E_ARGUMENT, "plan and out: neither may be NULL");
  int rank = plan->group.rank, ranks = plan->group.ranks;
  adj_mpi_layout mine = {.rank = rank, .ranks = ranks};
  mine.first_row = plan->left_starts[rank];
  mine.rows = plan->left->count;
  mine.all_rows = plan->left_starts[ranks];
  mine.first_right = plan->right_starts[rank];
  mine.rights = plan->right->count;
  mine.all_rights = plan->right_starts[ranks];
  if (plan->spec.kind == ADJ_KNN) {
    mine.first_entry = mine.first_row * plan->spec.k;
    mine.entries = mine.rows * plan->spec.k;
    mine.all_entries = mine.all_rows * plan->spec.k;
  }
  return adji_give_struct(out, &mine, sizeof mine, "adj_mpi_layout");
}

/* About how many bytes of points all ranks send; halo adds a tenth for the halos. *besides: what else they send. */
static double expected_bytes(const adj_mpi_plan *plan, const char **besides) {
  double ranks = plan->group.ranks, width = (double)plan->dim * (double)adji_type_size(plan->type);
  double right = (double)plan->right_starts[plan->group.ranks] * width;
  double left = (double)plan->left_starts[plan->group.ranks] * width;
  *besides = "";
  if (plan->distribution == ADJ_MPI_HALO) {
    *besides = "; and rows that return to their owners";
    return (right + (plan->self_join ? 0 : left)) * (ranks - 1) / ranks * 1.1;
  }
  if (adji_ring_is_mirrored(plan)) {
    *besides = "; and rows of the points of other ranks";
    int steps = plan->group.ranks / 2;
    return right * steps;
  }
  if (plan->distribution == ADJ_MPI_RING && plan->spec.kind == ADJ_KNN) {
    *besides = "; and their lists";
    return left * (ranks - 1);
  }
  return right * (ranks - 1);
}

adj_status adj_mpi_plan_explain(const adj_mpi_plan *plan, char *buffer, size_t capacity, size_t *needed) {
  if (!plan) return adji_fail(ADJ_E_ARGUMENT, "plan: may not be NULL");
  int ranks = plan->group.ranks;
  const char *besides;
  double bytes = expected_bytes(plan, &besides);
  char size[32];
  int length = snprintf(buffer, capacity,
                        "distribution  %s: %s\n"
                        "ranks         %d, with %llu left and %llu right points in all\n"
                        "messages      about %s of points in all, %.3g s at 1 GB/s a rank%s\n%s%s",
                        adj_mpi_distribution_name(plan->distribution), plan->reason, ranks,
                        (unsigned long long)plan->left_starts[ranks], (unsigned long long)plan->right_starts[ranks],
                        adji_bytes_text(bytes, size), bytes / ranks / 1e9, besides,
                        plan->joined[0] ? "joined by this rank:\n" : "", plan->joined);
  if (needed) *needed = (size_t)length + 1;
  return ADJ_OK;
}
