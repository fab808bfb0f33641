/* SPDX-License-Identifier: MIT
 *
 * The joins of this rank: libadjoin joins some queries with some right points in the threads of the context, while the
 * calling thread moves messages.
 */
#include <string.h>

#include "cluster/split.h"
#include "mpi/parts.h"
#include "plan/run.h"

bool adji_needs_sums(const adj_mpi_plan *plan) {
  return plan->spec.kind == ADJ_KNN || plan->spec.order == ADJ_ORDER_DISTANCE;
}

void adji_mpi_part_clear(adj_mpi_plan *plan, adji_mpi_part *part) {
  adj_result_destroy(part->result);
  adji_bins_close(&part->binned.bins);
  adji_free(&plan->ctx->memory, part->degrees);
  *part = (adji_mpi_part){0};
}

/* The spec of the local join. A self-join can leave pairs out by local ids, as these have the order of global ids. For
 * other joins rows.c leaves them out. */
static adj_join_spec spec_of(const adji_part_request *request, bool sums) {
  const adj_mpi_plan *plan = request->plan;
  adj_join_spec spec = plan->spec;
  bool self = request->left == request->right;
  spec.flags = self ? plan->spec.flags & (ADJ_WITH_SELF | ADJ_ONE_WAY) : 0;
  if (sums)
    spec.flags |= ADJ_WITH_SUM;
  else if (!adji_needs_sums(plan))
    spec.flags |= plan->spec.flags & ADJ_WITH_DISTANCE;
  spec.order = plan->spec.order == ADJ_ORDER_DISTANCE ? ADJ_ORDER_DISTANCE : ADJ_ORDER_ID;
  spec.k = request->k;
  spec.radii = request->radii ? request->radii : request->left->radii;
  spec.radius_count = spec.radii ? request->left->set->count : 0;
  return spec;
}

static adj_status make_plan(const adji_part_request *request, bool sums, adj_plan **out) {
  adj_join_spec spec = spec_of(request, sums);
  if (!request->index) return adj_plan_create(request->plan->ctx, &spec, request->left->set, request->right->set, out);
  adj_question question;
  adj_question_init(&question, sizeof question);
  question.kind = spec.kind;
  question.radius = spec.radius;
  question.k = spec.k;
  question.order = spec.order;
  question.flags = spec.flags;
  question.radii = spec.radii;
  question.radius_count = spec.radius_count;
  return adj_index_plan(request->index, &question, request->left == request->right ? NULL : request->left->set, out);
}

/* Makes the plan without sums if these are not needed or only the last ones are, and the join can note them. */
static adj_status choose_plan(const adji_part_request *request, adj_plan **out) {
  adji_mpi_part *part = request->out;
  bool sums = adji_needs_sums(request->plan);
  adj_status status = make_plan(request, sums && !request->lasts, out);
  if (status || !request->lasts) return status;
  if (adji_notes_lasts(*out)) {
    part->lasts = request->lasts;
    return ADJ_OK;
  }
  adj_plan_destroy(*out);
  *out = NULL;
  return make_plan(request, sums, out);
}

static void add_stats(adj_mpi_plan *plan, const adj_stats *stats) {
  adj_stats *all = &plan->stats.join;
  adj_stats sum = *stats;
  sum.plan_s += all->plan_s;
  sum.index_s += all->index_s;
  sum.join_s += all->join_s;
  sum.pairs += all->pairs;
  sum.candidates += all->candidates;
  sum.batches += all->batches;
  sum.batches_redone += all->batches_redone;
  sum.estimated_pairs += all->estimated_pairs;
  sum.estimated_candidates += all->estimated_candidates;
  sum.kernel_s += all->kernel_s;
  sum.upload_s += all->upload_s;
  sum.download_s += all->download_s;
  sum.bytes_up += all->bytes_up;
  sum.bytes_down += all->bytes_down;
  sum.peak_bytes = sum.peak_bytes > all->peak_bytes ? sum.peak_bytes : all->peak_bytes;
  *all = sum;
}

static double work_of_lengths(const adji_lengths *lengths, uint64_t rows) {
  double work = 0;
  uint64_t last = ADJI_LENGTHS - 1, longest = lengths->rows[last], empty = rows - longest;
  for (uint64_t i = 1; i < last; i++) {
    work += (double)lengths->rows[i] * adji_query_work((double)i);
    empty -= lengths->rows[i];
  }
  if (longest) work += (double)longest * adji_query_work((double)lengths->longest / (double)longest);
  return work + (double)empty * adji_query_work(0);
}

/* The work of the queries, by the formula of the cuts and with the actual numbers of neighbours. */
static double work_of(const adj_mpi_plan *plan, const adji_mpi_part *part) {
  double work = 0;
  if (plan->spec.kind == ADJ_KNN) return (double)part->row_count * adji_query_work(plan->spec.k);
  if (part->binned.filled) return work_of_lengths(&part->binned.lengths, part->row_count);
  const uint64_t *offsets = part->degrees ? NULL : adj_result_offsets(part->result);
  for (uint64_t i = 0; i < part->row_count; i++) {
    uint64_t row = adji_part_row(part, i);
    work += adji_query_work(offsets ? (double)(offsets[row + 1] - offsets[row]) : (double)part->degrees[row]);
  }
  return work;
}

static adj_status join_here(void *user, adji_mpi_work *work) {
  const adji_part_request *request = user;
  adj_mpi_plan *plan = request->plan;
  adji_mpi_part *part = request->out;
  adj_plan *local = NULL;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  adj_status status = choose_plan(request, &local);
  if (!status && request->back && !adji_can_be_mutual(local)) {
    adj_plan_destroy(local);
    return ADJ_OK;
  }
  if (!status && request->mode == ADJI_COUNT) {
    uint64_t rows = request->left->set->count;
    part->degrees = adji_alloc(&plan->ctx->memory, rows + 1, sizeof *part->degrees, "counts of rows");
    status = part->degrees ? adj_count(local, part->degrees, NULL, &work->control, &stats) : ADJ_E_MEMORY;
  } else if (!status) {
    adji_extras extras = {
        .labels = request->labels ? request->right->narrow : NULL, .lasts = part->lasts, .back = request->back};
    if (request->bins) extras.binned = &part->binned;
    extras.rows = part->own;
    extras.row_count = part->row_count;
    status = adji_collect_with(local, &extras, &part->result, &work->control, &stats);
    bool only_own = plan->spec.kind == ADJ_KNN && part->result && adj_result_rows(part->result) == part->row_count;
    if (only_own) part->own = NULL; /* row i is that of query i */
  }
  part->mutual = !status && adji_can_be_mutual(local);
  if (!status) add_stats(plan, &stats);
  if (!status) plan->stats.work += work_of(plan, part);
  if (!status && part->row_count >= plan->joined_rows) {
    plan->joined_rows = part->row_count;
    (void)adj_plan_explain(local, plan->joined, sizeof plan->joined, NULL);
  }
  adj_plan_destroy(local);
  return status;
}

adj_status adji_mpi_part_join(adji_part_request *request) {
  adj_mpi_plan *plan = request->plan;
  adji_group *group = &plan->group;
  adji_mpi_part *part = request->out;
  double begin = adji_seconds(), cpu = adji_cpu_seconds();
  part->right = request->right;
  part->whole = part->whole || request->left == request->right || !plan->self_join;
  part->row_count = part->own ? plan->own_count : request->left->set->count;
  if (!part->row_count || !request->right->set->count) { /* nothing to join; some metrics do not take empty sets */
    part->row_count = 0;
    return ADJ_OK;
  }
  group->step_to = group->step_from + request->share;
  adj_status status = adji_do_work(group, join_here, request, request->requests);
  group->step_from = group->step_to;
  plan->stats.join_s += adji_seconds() - begin;
  plan->stats.join_cpu_s += adji_cpu_seconds() - cpu;
  if (status || group->stopped) adji_mpi_part_clear(plan, part);
  return status;
}
