/* SPDX-License-Identifier: MIT
 *
 * adj_mpi_count, adj_mpi_collect and adj_mpi_stream: runs with their results and statistics.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cluster/split.h"
#include "mpi/run.h"

ADJI_DEFINE_INIT(adj_mpi_sink, 0)

struct adj_mpi_result {
  adj_ctx *ctx;
  adj_mpi_layout layout;
  adji_rows rows;
  uint64_t pairs;
  adj_type type;
};

/* ---- Around every run ------------------------------------------------------------------------------------------- */

typedef struct span {
  adji_call outer;
  double begin, cpu;
  adj_run_control control;
} span;

static adj_status begin_run(adj_mpi_plan *plan, const adj_run_control *control, const adj_mpi_stats *stats, span *s) {
  adji_group *group = &plan->group;
  s->outer = adji_call_begin(&plan->ctx->cancels);
  s->begin = adji_seconds();
  s->cpu = adji_cpu_seconds();
  adj_run_control_init(&s->control, sizeof s->control);
  adji_memory_reset_peak(&plan->ctx->memory);
  adji_memory_hoard(&plan->ctx->memory);
  adj_mpi_stats_init(&plan->stats, sizeof plan->stats);
  adj_stats_init(&plan->stats.join, sizeof plan->stats.join);
  group->bytes_sent = group->messages = 0;
  group->wait_s = group->wait_cpu_s = group->step_from = 0;
  group->failed = false;
  plan->joined_rows = 0;
  adj_status status = ADJ_OK;
  if (control) status = adji_take_struct(&s->control, sizeof s->control, control, "adj_run_control");
  if (!status && stats && stats->struct_size < 8)
    status = adji_fail(ADJ_E_STRUCT, "adj_mpi_stats: struct_size is %u", stats->struct_size);
  group->control = &s->control;
  return adji_agree(group, status);
}

static void count_points(adj_mpi_plan *plan) {
  adj_mpi_stats *stats = &plan->stats;
  const adj_dataset *here = adji_points_here(plan)->set, *others = plan->others.set;
  stats->queries = plan->own ? plan->own_count : plan->queries.set ? plan->queries.set->count : 0;
  if (plan->distribution == ADJ_MPI_RING && plan->spec.kind == ADJ_RANGE) return; /* run_ring.c counts the points */
  stats->points = (here ? here->count : 0) + (others ? others->count : 0);
  if (!plan->own) return;
  stats->halo_points += stats->points - plan->own_count;
  stats->points = plan->own_count;
}

static adj_status end_run(adj_mpi_plan *plan, adj_status status, span *s, adj_mpi_stats *out) {
  adji_group *group = &plan->group;
  adj_mpi_stats *stats = &plan->stats;
  count_points(plan);
  stats->work += ADJI_POINT_WORK * (double)(stats->points + stats->halo_points);
  double sums[2] = {stats->work, stats->join_cpu_s}, most[2] = {stats->work, stats->join_cpu_s};
  if (!status) status = adji_all_reduce(group, sums, 2, MPI_DOUBLE, MPI_SUM);
  if (!status) status = adji_all_reduce(group, most, 2, MPI_DOUBLE, MPI_MAX);
  stats->distribution = plan->distribution;
  stats->rank = group->rank;
  stats->ranks = group->ranks;
  stats->threads = adj_ctx_threads(plan->ctx);
  stats->rows = plan->left->count;
  stats->rights = plan->right->count;
  stats->messages = group->messages;
  stats->wait_s = group->wait_s;
  stats->wait_cpu_s = group->wait_cpu_s;
  stats->total_s = adji_seconds() - s->begin;
  stats->cpu_s = adji_cpu_seconds() - s->cpu;
  stats->plan_s = stats->join.plan_s;
  stats->work_imbalance = sums[0] > 0 ? most[0] * group->ranks / sums[0] - 1 : 0;
  stats->busy_imbalance = sums[1] > 0 ? most[1] * group->ranks / sums[1] - 1 : 0;
  stats->peak_bytes = adj_ctx_memory_peak(plan->ctx);
  if (stats->peak_bytes < stats->join.peak_bytes) stats->peak_bytes = stats->join.peak_bytes;
  if (out && !status) status = adji_give_struct(out, stats, sizeof *stats, "adj_mpi_stats");
  group->control = NULL;
  adji_memory_hoard_end(&plan->ctx->memory);
  adji_call_set(s->outer);
  return status;
}

/* Adds up the pairs of all ranks, and checks them against max_pairs. */
static adj_status check_pairs(adj_mpi_plan *plan, const span *s, uint64_t pairs) {
  uint64_t all = pairs;
  adj_status status = adji_all_reduce(&plan->group, &all, 1, MPI_UINT64_T, MPI_SUM);
  if (status) return status;
  plan->stats.pairs = pairs;
  plan->stats.all_pairs = all;
  if (s->control.max_pairs && all > s->control.max_pairs)
    status = adji_fail(ADJ_E_LIMIT, "max_pairs: the join has %llu pairs, more than %llu", (unsigned long long)all,
                       (unsigned long long)s->control.max_pairs);
  return adji_agree(&plan->group, status);
}

/* ---- Counts ----------------------------------------------------------------------------------------------------- */

adj_status adj_mpi_count(adj_mpi_plan *plan, uint64_t *degrees, uint64_t *total, const adj_run_control *control,
                         adj_mpi_stats *stats) {
  if (!plan) return adji_fail(ADJ_E_ARGUMENT, "plan: may not be NULL");
  span s;
  adji_rows rows = {0};
  adj_status status = begin_run(plan, control, stats, &s);
  if (!status) status = adji_run_place(plan);
  if (!status) status = adji_run_lengths(plan, &rows);
  if (!status) status = check_pairs(plan, &s, rows.offsets[rows.count]);
  plan->stats.rounds = 1;
  status = end_run(plan, status, &s, stats);
  for (uint64_t i = 0; degrees && i < rows.count && !status; i++)
    degrees[i] = rows.offsets[i + 1] - rows.offsets[i];
  if (total && !status) *total = plan->stats.all_pairs;
  adji_rows_clear(plan, &rows);
  return status;
}

/* ---- Results ---------------------------------------------------------------------------------------------------- */

/* The layout with the actual numbers of entries. */
static adj_status find_layout(adj_mpi_plan *plan, uint64_t entries, adj_mpi_layout *out) {
  adji_group *group = &plan->group;
  adj_mpi_layout_init(out, sizeof *out);
  (void)adj_mpi_plan_layout(plan, out);
  uint64_t *all = adji_alloc(&plan->ctx->memory, (uint64_t)group->ranks, sizeof *all, "ranks");
  adj_status status = adji_agree(group, all ? ADJ_OK : ADJ_E_MEMORY);
  if (!status) status = adji_all_gather(group, &entries, sizeof entries, all);
  out->entries = entries;
  out->first_entry = out->all_entries = 0;
  for (int i = 0; i < group->ranks && !status; i++) {
    if (i < group->rank) out->first_entry += all[i];
    out->all_entries += all[i];
  }
  adji_group_free(group, all);
  return status;
}

static uint64_t count_pairs(const adj_mpi_plan *plan, const adji_rows *rows) {
  uint64_t entries = rows->offsets[rows->count], pairs = 0;
  if (plan->spec.kind == ADJ_RANGE) return entries;
  if (isinf(plan->spec.radius) && !plan->radii) return rows->count * adji_list_length(plan);
  for (uint64_t i = 0; i < entries; i++)
    pairs += !adji_rows_is_padding(rows, i);
  return pairs;
}

adj_status adj_mpi_collect(adj_mpi_plan *plan, adj_mpi_result **out, const adj_run_control *control,
                           adj_mpi_stats *stats) {
  if (!plan || !out) return adji_fail(ADJ_E_ARGUMENT, "plan and out: neither may be NULL");
  span s;
  adj_mpi_result *result = calloc(1, sizeof *result);
  adj_status status = begin_run(plan, control, stats, &s);
  if (!status) status = adji_agree(&plan->group, result ? ADJ_OK : adji_fail(ADJ_E_MEMORY, "no memory for a result"));
  if (!status) status = adji_run_place(plan);
  if (!status) status = adji_run_rows(plan, (adji_round){0, 1}, &result->rows);
  if (!status) result->pairs = count_pairs(plan, &result->rows);
  if (!status) status = check_pairs(plan, &s, result->pairs);
  if (!status) status = find_layout(plan, result->rows.offsets[result->rows.count], &result->layout);
  plan->stats.rounds = 1;
  status = end_run(plan, status, &s, stats);
  if (result) {
    result->ctx = plan->ctx;
    result->type = plan->type;
  }
  if (status)
    adj_mpi_result_destroy(result);
  else
    *out = result;
  return status;
}

void adj_mpi_result_destroy(adj_mpi_result *result) {
  if (!result) return;
  adji_free(&result->ctx->memory, result->rows.offsets);
  adji_free(&result->ctx->memory, result->rows.ids);
  adji_free(&result->ctx->memory, result->rows.narrow);
  adji_free(&result->ctx->memory, result->rows.values);
  free(result);
}

adj_status adj_mpi_result_layout(const adj_mpi_result *result, adj_mpi_layout *out) {
  if (!result || !out) return adji_fail(ADJ_E_ARGUMENT, "result and out: neither may be NULL");
  return adji_give_struct(out, &result->layout, sizeof result->layout, "adj_mpi_layout");
}

uint64_t adj_mpi_result_rows(const adj_mpi_result *result) {
  return result->rows.count;
}

uint64_t adj_mpi_result_pairs(const adj_mpi_result *result) {
  return result->pairs;
}

const uint64_t *adj_mpi_result_offsets(const adj_mpi_result *result) {
  return result->rows.offsets;
}

const int64_t *adj_mpi_result_ids(const adj_mpi_result *result) {
  return result->rows.ids;
}

const uint32_t *adj_mpi_result_ids_32(const adj_mpi_result *result) {
  return result->rows.narrow;
}

const void *adj_mpi_result_distances(const adj_mpi_result *result) {
  return result->rows.values;
}

adj_type adj_mpi_result_type(const adj_mpi_result *result) {
  return result->type;
}

/* ---- Streams ---------------------------------------------------------------------------------------------------- */

/* Bytes of a round: the caller's window_bytes, or a sixteenth of the memory limit, at most 64 MiB. */
static uint64_t window_of(const adj_mpi_plan *plan) {
  uint64_t most = UINT64_C(64) << 20, share = adj_ctx_memory_limit(plan->ctx) / 16;
  if (plan->options.window_bytes) return plan->options.window_bytes;
  return share < most ? share + 1 : most;
}

typedef struct streaming {
  adj_mpi_plan *plan;
  adj_mpi_sink sink;
  adj_mpi_layout layout;
  adji_rows lengths; /* range joins: offsets of all rows */
  uint64_t *degrees;
  uint64_t row, entry, pairs;
  bool began;
} streaming;

/* Counts the entries of range joins, finds the layout, and calls the caller's begin. */
static adj_status begin_stream(streaming *t, const span *s) {
  adj_mpi_plan *plan = t->plan;
  bool range = plan->spec.kind == ADJ_RANGE;
  uint64_t entries = adji_mul(plan->left->count, plan->spec.k);
  adj_status status = range ? adji_run_lengths(plan, &t->lengths) : ADJ_OK;
  if (!status && range) entries = t->lengths.offsets[t->lengths.count];
  if (!status && range) status = check_pairs(plan, s, entries);
  if (!status) status = find_layout(plan, entries, &t->layout);
  if (status) return status;
  if (range) {
    t->degrees = adji_alloc(&plan->ctx->memory, t->lengths.count + 1, sizeof *t->degrees, "counts of rows");
    for (uint64_t i = 0; t->degrees && i < t->lengths.count; i++)
      t->degrees[i] = t->lengths.offsets[i + 1] - t->lengths.offsets[i];
  }
  status = adji_agree(&plan->group, !range || t->degrees ? ADJ_OK : ADJ_E_MEMORY);
  if (status) return status;
  t->began = true;
  adji_fail(ADJ_OK, "%s", ""); /* a sink may set a message */
  if (t->sink.begin) ADJI_RUN_CALLBACK(status = t->sink.begin(t->sink.user, &t->layout, t->degrees));
  if (status && !*adj_last_error()) adji_fail(status, "sink: begin returned %s", adj_status_name(status));
  return adji_agree(&plan->group, status);
}

static adj_status write_round(streaming *t, const adji_rows *rows) {
  adj_mpi_rows block = {.first_row = t->row, .row_count = rows->count, .first_entry = t->entry};
  block.offsets = rows->offsets;
  block.ids = rows->ids;
  block.ids_32 = rows->narrow;
  block.distances = rows->values;
  t->row += rows->count;
  t->entry += rows->offsets[rows->count];
  t->pairs += count_pairs(t->plan, rows);
  adj_status status = ADJ_OK;
  if (!rows->count) return ADJ_OK;
  adji_fail(ADJ_OK, "%s", "");
  ADJI_RUN_CALLBACK(status = t->sink.write(t->sink.user, &block));
  if (status && !*adj_last_error())
    adji_fail(status, "sink: write returned %s for the %llu rows from row %llu on", adj_status_name(status),
              (unsigned long long)block.row_count, (unsigned long long)block.first_row);
  return status;
}

/* The first row of each of this rank's rounds, and the number of these. A round fits a window, unless it is one long
 * row. starts NULL: they are only counted. */
static uint64_t find_rounds(const streaming *t, uint64_t *starts) {
  const adj_mpi_plan *plan = t->plan;
  const uint64_t *offsets = plan->spec.kind == ADJ_RANGE ? t->lengths.offsets : NULL;
  uint64_t most = window_of(plan) / ((plan->narrow ? 4 : 8) + adji_reported_size(plan)), rounds = 1, first = 0;
  if (starts) starts[0] = 0;
  for (uint64_t row = 0; row < plan->left->count; row++) {
    uint64_t entries = offsets ? offsets[row + 1] - offsets[first] : adji_mul(row + 1 - first, plan->spec.k);
    if (entries <= most || row == first) continue;
    if (starts) starts[rounds] = row;
    rounds++;
    first = row;
  }
  return rounds;
}

/* All ranks have the same number of rounds, and know each other's rows. The last rounds of a rank may be empty. */
static adj_status share_rounds(const streaming *t, uint64_t *rounds) {
  adj_mpi_plan *plan = t->plan;
  adji_memory *memory = &plan->ctx->memory;
  uint64_t own = find_rounds(t, NULL);
  *rounds = own;
  adj_status status = adji_all_reduce(&plan->group, rounds, 1, MPI_UINT64_T, MPI_MAX);
  if (status || *rounds == 1) return status;
  uint64_t bytes = adji_mul(*rounds + 1, sizeof(uint64_t));
  if (bytes > INT32_MAX)
    return adji_fail(ADJ_E_LIMIT, "window_bytes: %llu rounds are too many", (unsigned long long)*rounds);
  uint64_t *starts = adji_alloc(memory, bytes, 1, "rounds");
  plan->rounds = starts ? adji_alloc(memory, (uint64_t)plan->group.ranks, bytes, "rounds") : NULL;
  status = adji_agree(&plan->group, plan->rounds ? ADJ_OK : ADJ_E_MEMORY);
  if (!status) {
    find_rounds(t, starts);
    for (uint64_t i = own; i <= *rounds; i++)
      starts[i] = plan->left->count;
    status = adji_all_gather(&plan->group, starts, (int)bytes, plan->rounds);
  }
  adji_group_free(&plan->group, starts);
  return status;
}

static adj_status run_rounds(streaming *t, const span *s) {
  adj_mpi_plan *plan = t->plan;
  uint64_t rounds = 1;
  adj_status status = share_rounds(t, &rounds);
  plan->stats.rounds = (uint32_t)rounds;
  for (uint64_t i = 0; i < rounds && !status; i++) {
    adji_rows rows = {0};
    plan->group.step_from = (double)i / (double)rounds;
    status = adji_run_rows(plan, (adji_round){i, rounds}, &rows);
    if (!status) status = write_round(t, &rows);
    adji_rows_clear(plan, &rows);
    status = adji_agree(&plan->group, status);
  }
  return status ? status : check_pairs(plan, s, t->pairs);
}

adj_status adj_mpi_stream(adj_mpi_plan *plan, const adj_mpi_sink *sink, const adj_run_control *control,
                          adj_mpi_stats *stats) {
  if (!plan || !sink) return adji_fail(ADJ_E_ARGUMENT, "plan and sink: neither may be NULL");
  span s;
  streaming t = {.plan = plan};
  adj_mpi_sink_init(&t.sink, sizeof t.sink);
  adj_status status = begin_run(plan, control, stats, &s);
  if (!status) {
    status = adji_take_struct(&t.sink, sizeof t.sink, sink, "adj_mpi_sink");
    if (!status && !t.sink.write) status = adji_fail(ADJ_E_ARGUMENT, "sink: write is NULL");
    status = adji_agree(&plan->group, status);
  }
  if (!status) status = adji_run_place(plan);
  if (!status) status = begin_stream(&t, &s);
  if (!status) status = run_rounds(&t, &s);
  adji_group_free(&plan->group, plan->rounds);
  plan->rounds = NULL;
  status = end_run(plan, status, &s, stats);
  if (t.began && t.sink.end) ADJI_RUN_CALLBACK(t.sink.end(t.sink.user, status));
  adji_free(&plan->ctx->memory, t.degrees);
  adji_rows_clear(plan, &t.lengths);
  return status;
}

/* ---- Statistics of all ranks ------------------------------------------------------------------------------------ */

adj_status adj_mpi_stats_gather(adj_mpi_plan *plan, const adj_mpi_stats *mine, adj_mpi_stats *all) {
  if (!plan || !mine) return adji_fail(ADJ_E_ARGUMENT, "plan and mine: neither may be NULL");
  adji_group *group = &plan->group;
  adji_memory *memory = &plan->ctx->memory;
  adj_mpi_stats *received = adji_alloc(memory, (uint64_t)group->ranks, sizeof *received, "statistics");
  adj_mpi_stats one;
  group->failed = false;
  adj_mpi_stats_init(&one, sizeof one);
  adj_status status = received ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_take_struct(&one, sizeof one, mine, "adj_mpi_stats");
  if (!status && group->rank == 0 && !all) status = adji_fail(ADJ_E_ARGUMENT, "all: may not be NULL on rank 0");
  one.join.backend = one.join.algorithm = one.join.isa = NULL; /* pointers of another process */
  status = adji_agree(group, status);
  if (!status) status = adji_all_gather(group, &one, sizeof one, received);
  for (int i = 0; i < group->ranks && !status && group->rank == 0; i++) {
    received[i].join.backend = mine->join.backend;
    received[i].join.algorithm = mine->join.algorithm;
    received[i].join.isa = mine->join.isa;
    all[i] = received[i];
  }
  adji_group_free(group, received);
  return status;
}
