/* SPDX-License-Identifier: MIT
 *
 * A join from files to result: open the points, plan, run, report. range, knn and count differ only in their request;
 * for dbscan the library plans and runs the join.
 */
#include "join.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clusters.h"
#include "join_points.h"
#include "message.h"
#include "progress.h"
#include "report.h"
#include "signals.h"
#include "text.h"
#include "trace.h"

const option join_program_options[] = {{OPTION_END, 0, NULL, NULL, 0, NULL}};

/* Everything that a run owns; join_run frees it. */
typedef struct join_job {
  const join_request *request;
  trace_log *trace;
  adj_ctx *ctx;
  adj_dataset *left, *right; /* right NULL: a self-join */
  adj_join_spec spec;        /* of the plan */
  double *box;               /* of spec     */
  adj_plan *plan;
  clusters clusters;
  char *plan_text; /* --explain: the text before the run */
  bool no_memory;  /* the program itself has no memory, for which the library has no message */
  run_report report;
} join_job;

static adj_status create_context(join_job *job) {
  adj_ctx_options options;
  int32_t devices[JOIN_MOST_DEVICES];
  join_context(job->request, job->trace, devices, &options);
  adj_status status = adj_ctx_create(&options, &job->ctx);
  if (!status) signals_watch(job->ctx);
  return status;
}

/* ---- The points ------------------------------------------------------------------------------- */

static adj_status open_points(join_job *job) {
  const join_request *request = job->request;
  double began = seconds_now();
  adj_status status = ADJ_OK;
  bool right_first = request->right && request->normalise; /* it determines the scale of both */
  if (right_first) status = points_open(job->ctx, request, request->right, NULL, &job->right);
  if (!status) status = points_open(job->ctx, request, request->left, job->right, &job->left);
  if (!status && request->right && !right_first)
    status = points_open(job->ctx, request, request->right, NULL, &job->right);
  if (!status && request->right) status = points_widen(request, &job->left, &job->right);
  job->report.read_s = seconds_now() - began;
  trace_phase(job->trace, "read", began);
  return status;
}

/* ---- The plan --------------------------------------------------------------------------------- */

static adj_status create_plan(join_job *job) {
  adj_join_spec spec;
  job->no_memory = !join_spec(job->request, &spec);
  if (job->no_memory) return ADJ_E_MEMORY;
  job->spec = spec;
  job->box = (double *)(uintptr_t)spec.box; /* allocated by join_spec */
  const join_request *request = job->request;
  if (request->min_points && !request->explain && !request->dry_run) return ADJ_OK; /* dbscan makes its own plan */
  double began = seconds_now();
  adj_status status = signals_status(adj_plan_create(job->ctx, &spec, job->left, job->right, &job->plan));
  trace_phase(job->trace, "plan and index", began);
  return status;
}

/* The text of the plan, which the caller frees; NULL and *status on failure. */
static char *explain(join_job *job, adj_status *status) {
  size_t needed = 0;
  *status = adj_plan_explain(job->plan, NULL, 0, &needed);
  if (*status) return NULL;
  char *text = malloc(needed + 1);
  job->no_memory = !text;
  *status = text ? adj_plan_explain(job->plan, text, needed + 1, NULL) : ADJ_E_MEMORY;
  return text;
}

/* Prints what the text after the run adds to the text before it. */
static void print_what_happened(join_job *job) {
  adj_status status;
  char *text = explain(job, &status);
  if (text && !status) {
    size_t before = strlen(job->plan_text);
    fputs(strncmp(text, job->plan_text, before) ? text : text + before, stderr);
  }
  free(text);
}

/* ---- The run ---------------------------------------------------------------------------------- */

static adj_status drop_rows(void *user, const adj_rows *rows) {
  (void)user, (void)rows;
  return ADJ_OK;
}

/* Without an output only the number of pairs is needed. A kNN join is run even if this number is known beforehand, for
 * its times and statistics. */
static adj_status run_without_output(join_job *job, const adj_run_control *control) {
  if (job->request->kind == ADJ_RANGE) return adj_count(job->plan, NULL, NULL, control, &job->report.stats);
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.write = drop_rows;
  return adj_stream(job->plan, &sink, control, &job->report.stats);
}

static adj_run_control begin_control(const join_request *request, progress_line *progress) {
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  control.max_pairs = request->max_pairs;
  progress_begin(progress, request->progress, request->no_progress || request->quiet);
  if (progress->on) {
    control.progress = progress_show;
    control.user = progress;
    if (!progress->terminal) control.interval_ms = 500;
  }
  return control;
}

static adj_status run_dbscan(join_job *job) {
  const join_request *request = job->request;
  progress_line progress;
  adj_run_control control = begin_control(request, &progress);
  adj_plan_destroy(job->plan); /* it was only explained */
  job->plan = NULL;
  double began = seconds_now();
  adj_status status = signals_status(
      clusters_find(job->ctx, request, &job->spec, job->left, &control, &job->report.stats, &job->clusters));
  trace_phase(job->trace, "clusters", began);
  progress_end(&progress);
  uint32_t flags = join_write_flags(request->no_clobber, request->no_sync);
  began = seconds_now();
  if (!status && request->output)
    status = signals_status(clusters_write(job->ctx, request, job->left, flags, &job->clusters));
  job->report.stats.write_s += seconds_now() - began;
  job->no_memory = job->clusters.no_memory;
  return status;
}

static adj_status run_plan(join_job *job) {
  const join_request *request = job->request;
  progress_line progress;
  adj_run_control control = begin_control(request, &progress);
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.format = request->format;
  options.distances = request->distances;
  options.counts = request->per_point_counts;
  options.flags = join_write_flags(request->no_clobber, request->no_sync);
  double began = seconds_now();
  adj_status status = request->output ? adj_write(job->plan, request->output, &options, &control, &job->report.stats)
                                      : run_without_output(job, &control);
  trace_phase(job->trace, request->output ? "join and write" : "join", began);
  progress_end(&progress);
  return status;
}

/* ---- The whole run -------------------------------------------------------------------------------- */

int join_failed(adj_status status, const char *const *files) {
  int number = signals_received();
  if (status == ADJ_CANCELLED && number) {
    message_print("stopped\n");
    return 128 + number;
  }
  char text[MESSAGE_ROOM];
  message_print("%s\n", message_of_failure(status, files, text));
  return status == ADJ_E_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

static int run_failed(const join_job *job, adj_status status) {
  const char *files[JOIN_MOST_FILES];
  if (job->no_memory) {
    message_print("out of memory\n");
    return EXIT_FAILED;
  }
  join_files(job->request, files);
  int code = join_failed(status, files);
  if (status == ADJ_E_MEMORY && job->request->memory && strstr(adj_last_error(), "limit"))
    message_print("the limit is that of --memory: raise it if the machine has more\n");
  return code;
}

/* The library names the row, after "left: " or "right: " in a join of two sets, but not the file. */
static int plan_failed(const join_job *job, adj_status status) {
  const char *said = adj_last_error(), *file = job->request->left;
  if (status != ADJ_E_DATA) return run_failed(job, status);
  if (!strncmp(said, "left: ", 6)) {
    said += 6;
  } else if (!strncmp(said, "right: ", 7)) {
    said += 7;
    file = job->request->right;
  }
  message_print("%s: %s\n", strcmp(file, "-") ? file : "standard input", said);
  return EXIT_FAILED;
}

/* Writes a report to its file, and frees it. */
static int save_json(const join_job *job, json_writer *json, const char *path) {
  const join_request *request = job->request;
  uint32_t flags = join_write_flags(request->no_clobber, request->no_sync);
  int code = EXIT_DONE;
  if (json->failed) {
    message_print("%s: no memory for its text\n", path);
    code = EXIT_FAILED;
  } else {
    adj_status status = signals_status(adj_text_save(job->ctx, path, json->text, json->length, flags));
    if (status) code = run_failed(job, status);
  }
  free(json->text);
  *json = (json_writer){0};
  return code;
}

static int report_all(join_job *job, const subcommand *command) {
  const join_request *request = job->request;
  run_report *report = &job->report;
  report->command = command->name;
  report->request = request;
  report->left = job->left;
  report->plan = job->plan;
  report->clusters = job->clusters;
  report->right = job->right ? job->right : job->left;
  report->wall_s = seconds_now() - report->began;
  if (request->explain && job->plan) print_what_happened(job);
  int code = report_total(report) ? EXIT_DONE : EXIT_FAILED;
  if (!request->quiet) report_summary(report);
  json_writer json = {0};
  if (request->stats) report_stats(report, &json);
  int saved = request->stats ? save_json(job, &json, request->stats) : EXIT_DONE;
  if (!saved && request->trace && job->trace) {
    trace_write(job->trace, adj_ctx_threads(job->ctx), &json);
    saved = save_json(job, &json, request->trace);
  }
  return saved ? saved : code;
}

static int run_steps(join_job *job, const subcommand *command) {
  const join_request *request = job->request;
  adj_status status = join_check_paths(request);
  if (!status) status = create_context(job);
  if (!status) status = open_points(job);
  if (status) return run_failed(job, status);
  int code = points_check(request, job->left, job->right);
  if (code) return code;
  if (!request->quiet) points_describe(request, job->left, job->right);
  join_notes(request, adj_dataset_count(job->right ? job->right : job->left), job->right != NULL);
  status = create_plan(job);
  if (status) return plan_failed(job, status);
  if (request->explain || request->dry_run) job->plan_text = explain(job, &status);
  if (status) return run_failed(job, status);
  if (job->plan_text) fputs(job->plan_text, request->dry_run ? stdout : stderr);
  if (request->dry_run) return EXIT_DONE;
  if (request->min_points) {
    status = run_dbscan(job);
    return status ? plan_failed(job, status) : report_all(job, command);
  }
  status = run_plan(job);
  return status ? run_failed(job, status) : report_all(job, command);
}

int join_run(const subcommand *command, const join_request *request) {
  join_job job = {.request = request};
  job.report.began = seconds_now();
  adj_stats_init(&job.report.stats, sizeof job.report.stats);
  if (request->trace) job.trace = trace_create();
  job.no_memory = request->trace && !job.trace;
  int code = job.no_memory ? run_failed(&job, ADJ_E_MEMORY) : run_steps(&job, command);
  signals_watch(NULL);
  clusters_free(&job.clusters);
  free(job.box);
  adj_plan_destroy(job.plan);
  adj_dataset_destroy(job.right);
  adj_dataset_destroy(job.left);
  adj_ctx_destroy(job.ctx);
  trace_destroy(job.trace);
  free(job.plan_text);
  return code;
}
