/* SPDX-License-Identifier: MIT
 *
 * A join on all ranks, from files to result: the steps of cli/join.c, each followed by an agreement.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../message.h"
#include "../options.h"
#include "../progress.h"
#include "../text.h"
#include "cluster.h"

adj_status cluster_agree(cluster_job *job, adj_status status, const char *text) {
  return adj_mpi_agree(job->comm, status, status ? text : NULL);
}

adj_status cluster_need(cluster_job *job, const void *memory, const char *what) {
  char text[80];
  snprintf(text, sizeof text, "no memory for %s", what);
  return cluster_agree(job, memory ? ADJ_OK : ADJ_E_MEMORY, text);
}

int cluster_failed(const cluster_job *job, adj_status status) {
  const char *files[JOIN_MOST_FILES];
  char text[MESSAGE_ROOM];
  join_files(job->request, files);
  message_print("%s\n", message_of_failure(status, files, text));
  return status == ADJ_E_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

/* ---- The plan --------------------------------------------------------------------------------------------- */

static adj_status create_plan(cluster_job *job) {
  const join_request *request = job->request;
  adj_join_spec spec;
  adj_mpi_options options;
  bool made = join_spec(request, &spec);
  adj_status status = cluster_need(job, made ? job : NULL, "the box");
  double began = seconds_now();
  adj_mpi_options_init(&options, sizeof options);
  if (request->distribution) options.distribution = (adj_mpi_distribution)(request->distribution - 1);
  options.id_bytes = 4;
  if (!status)
    status = adj_mpi_plan_create(job->comm, job->ctx, &spec, job->left.set, job->right.set, &options, &job->plan);
  trace_phase(job->trace, "plan", began);
  free((double *)(uintptr_t)spec.box); /* allocated by join_spec */
  return status;
}

/* The text of the plan, which the caller frees; NULL without memory, and on all ranks but the first. */
static char *explain(const cluster_job *job) {
  size_t needed = 0;
  if (job->rank || adj_mpi_plan_explain(job->plan, NULL, 0, &needed)) return NULL;
  char *text = malloc(needed + 1);
  if (text && adj_mpi_plan_explain(job->plan, text, needed + 1, NULL)) text[0] = 0;
  return text;
}

/* Prints what the text after the run adds to the text before it. */
static void print_what_happened(const cluster_job *job) {
  char *text = explain(job);
  if (text && job->plan_text) {
    size_t before = strlen(job->plan_text);
    fputs(strncmp(text, job->plan_text, before) ? text : text + before, stderr);
  }
  free(text);
}

/* ---- Sources of rows ---------------------------------------------------------------------------------------- */

static adj_status rows_in_memory(cluster_job *job, const cluster_source *source, const cluster_sink *sink) {
  const adj_mpi_result *result = source->result;
  adj_share_rows rows = {.first_row = job->left.first,
                         .row_count = adj_mpi_result_rows(result),
                         .offsets = adj_mpi_result_offsets(result),
                         .ids = adj_mpi_result_ids(result),
                         .ids_32 = adj_mpi_result_ids_32(result),
                         .distances = adj_mpi_result_distances(result)};
  uint64_t entries = rows.offsets[rows.row_count] - rows.offsets[0];
  adj_status status = sink->begin ? sink->begin(sink->user, entries) : ADJ_OK;
  return status ? status : cluster_agree(job, sink->rows(sink->user, &rows), NULL);
}

typedef struct stream {
  cluster_job *job;
  const cluster_sink *sink;
} stream;

static adj_status stream_begin(void *user, const adj_mpi_layout *layout, const uint64_t *degrees) {
  const stream *s = user;
  (void)degrees;
  return s->sink->begin ? s->sink->begin(s->sink->user, layout->entries) : ADJ_OK;
}

static adj_status stream_rows(void *user, const adj_mpi_rows *rows) {
  const stream *s = user;
  adj_share_rows block = {.first_row = s->job->left.first + rows->first_row,
                          .row_count = rows->row_count,
                          .offsets = rows->offsets,
                          .ids = rows->ids,
                          .ids_32 = rows->ids_32,
                          .distances = rows->distances};
  return s->sink->rows(s->sink->user, &block);
}

static adj_run_control control_of(const cluster_job *job, progress_line *progress);

/* The join is repeated for each pass. */
static adj_status rows_by_stream(cluster_job *job, const cluster_source *source, const cluster_sink *sink) {
  (void)source;
  stream user = {job, sink};
  adj_mpi_sink passing;
  progress_line progress;
  adj_mpi_sink_init(&passing, sizeof passing);
  passing.user = &user;
  passing.begin = stream_begin;
  passing.write = stream_rows;
  adj_run_control control = control_of(job, &progress);
  adj_status status = adj_mpi_stream(job->plan, &passing, &control, &job->stats);
  progress_end(&progress);
  return status;
}

/* ---- The run -------------------------------------------------------------------------------------------------- */

static int no_progress(void *user, const adj_progress *where) {
  (void)user, (void)where;
  return 0;
}

/* Rank 0 shows its own progress; the other ranks show none. */
static adj_run_control control_of(const cluster_job *job, progress_line *progress) {
  const join_request *request = job->request;
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  control.max_pairs = request->max_pairs;
  progress_begin(progress, request->progress && !job->rank, request->no_progress || request->quiet || job->rank);
  control.progress = progress->on ? progress_show : no_progress;
  control.user = progress;
  if (!progress->terminal) control.interval_ms = 500;
  return control;
}

static adj_status run_count(cluster_job *job) {
  const join_request *request = job->request;
  progress_line progress;
  adj_run_control control = control_of(job, &progress);
  uint64_t *counts = request->output ? calloc(adj_dataset_count(job->left.set) + 1, sizeof *counts) : NULL;
  adj_status status = request->output ? cluster_need(job, counts, "counts") : ADJ_OK;
  double began = seconds_now();
  if (!status) status = adj_mpi_count(job->plan, counts, &job->total, &control, &job->stats);
  progress_end(&progress);
  trace_phase(job->trace, "join", began);
  if (!status && request->output) status = cluster_write_counts(job, counts);
  free(counts);
  return status;
}

/* Collects the result in memory if it fits, so that the join runs once; otherwise streams it. */
static adj_status run_rows(cluster_job *job) {
  cluster_source source = {.run = rows_in_memory};
  progress_line progress;
  adj_run_control control = control_of(job, &progress);
  double began = seconds_now();
  adj_status status = adj_mpi_collect(job->plan, &source.result, &control, &job->stats);
  progress_end(&progress);
  trace_phase(job->trace, "join", began);
  if (status == ADJ_E_MEMORY) {
    if (!job->request->quiet)
      message_print("note: %s; rows are written as they are found, in several passes\n", adj_last_error());
    job->streamed = true;
    source.run = rows_by_stream;
    status = ADJ_OK;
  }
  if (!status) status = cluster_write(job, &source);
  adj_mpi_result_destroy(source.result);
  return status;
}

static adj_status run_checkpoint(cluster_job *job) {
  cluster_source source = {0};
  adj_status status = cluster_checkpoint_run(job, &source);
  if (!status) status = cluster_write(job, &source);
  if (source.checkpoint) cluster_checkpoint_end(source.checkpoint, !status);
  return status;
}

static adj_status run_plan(cluster_job *job) {
  const join_request *request = job->request;
  if (request->checkpoint) return run_checkpoint(job);
  adj_status status = !request->output || request->per_point_counts ? run_count(job) : run_rows(job);
  if (!status && job->stats.all_pairs) job->total = job->stats.all_pairs;
  return status;
}

/* ---- The whole run -------------------------------------------------------------------------------------------- */

static adj_status create_context(cluster_job *job) {
  adj_ctx_options options;
  int32_t devices[JOIN_MOST_DEVICES];
  join_context(job->request, job->trace, devices, &options);
  return adj_mpi_ctx_create(job->comm, &options, &job->ctx);
}

static int check_request(const subcommand *command, const join_request *request) {
  if (request->output && !strcmp(request->output, "-"))
    return usage_error(command, "--output: the ranks write side by side, so it must be a file, not \"-\"");
  if (request->split && !request->output) return usage_error(command, "--split needs -o FILE");
  if (request->checkpoint && (!request->output || request->per_point_counts))
    return usage_error(command, "--checkpoint is for rows that are written with -o FILE");
  if (request->checkpoint_blocks && !request->checkpoint)
    return usage_error(command, "--checkpoint-blocks is for --checkpoint");
  if (request->checkpoint_blocks > 1000000) return usage_error(command, "--checkpoint-blocks: at most 1000000");
  return EXIT_DONE;
}

static int run_steps(cluster_job *job) {
  const join_request *request = job->request;
  adj_status status = cluster_agree(job, job->rank ? ADJ_OK : join_check_paths(request), NULL);
  if (!status) status = create_context(job);
  if (!status) status = cluster_open(job);
  if (status) return cluster_failed(job, status);
  int code = cluster_check_points(job);
  if (code) return code;
  join_notes(request, cluster_right_count(job), cluster_two_sets(job));
  status = create_plan(job);
  if (status) return cluster_failed(job, status);
  if (request->explain || request->dry_run) job->plan_text = explain(job);
  if (job->plan_text) fputs(job->plan_text, request->dry_run ? stdout : stderr);
  if (request->dry_run) return EXIT_DONE;
  status = run_plan(job);
  if (status) return cluster_failed(job, status);
  if (request->explain && !job->rank) print_what_happened(job);
  return cluster_report(job);
}

int join_run(const subcommand *command, const join_request *request) {
  join_request copy = *request;
  cluster_job job = {.comm = MPI_COMM_WORLD, .command = command, .request = &copy, .began = seconds_now()};
  MPI_Comm_rank(job.comm, &job.rank);
  MPI_Comm_size(job.comm, &job.ranks);
  int code = check_request(command, request);
  if (code) return code;
  if (job.rank) copy.quiet = true;
  adj_mpi_stats_init(&job.stats, sizeof job.stats);
  if (request->trace) job.trace = trace_create();
  MPI_Barrier(job.comm);
  job.trace_start_ns = (uint64_t)(seconds_now() * 1e9);
  adj_status status = cluster_need(&job, !request->trace || job.trace ? &job : NULL, "the trace");
  code = status ? cluster_failed(&job, status) : run_steps(&job);
  adj_mpi_plan_destroy(job.plan);
  cluster_points_free(&job.right);
  cluster_points_free(&job.left);
  adj_ctx_destroy(job.ctx);
  trace_destroy(job.trace);
  free(job.plan_text);
  return code;
}
