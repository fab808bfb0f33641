/* SPDX-License-Identifier: MIT
 *
 * A join from files to result: open the points, plan, run, report. range, knn and count differ only in their request;
 * dbscan has the library plan and run its join.
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
  char *plan_text; /* --explain: as it was before the run */
  bool no_memory;  /* for the program itself: the library has no message about that */
  run_report report;
} join_job;

enum { MOST_FILES = 7 };

/* The paths of the run, ended by NULL. */
static void list_files(const join_request *request, const char **files) {
  const char *const all[] = {request->left,      request->right, request->output,
                             request->distances, request->stats, request->trace};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]) *files++ = all[i];
  *files = NULL;
}

static void print_log(void *user, adj_log_level level, const char *line) {
  const join_request *request = user;
  const char *files[MOST_FILES];
  char text[MESSAGE_ROOM];
  if (request->quiet || level == ADJ_LOG_DEBUG) return;
  list_files(request, files);
  fprintf(stderr, "adjoin: %s: %s\n", level == ADJ_LOG_WARN ? "warning" : "note",
          message_with_options(line, files, text));
}

static adj_status create_context(join_job *job) {
  const join_request *request = job->request;
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = (uint32_t)request->threads;
  options.memory_limit = request->memory;
  options.device_memory_limit = request->device_memory;
  int32_t devices[JOIN_MOST_DEVICES];
  if (request->devices) {
    options.device_count = join_device_numbers(request->devices, devices);
    options.devices = devices;
  }
  options.isa = request->isa;
  options.log = print_log;
  options.log_user = (void *)request;
  if (job->trace) {
    options.trace = trace_add;
    options.trace_user = job->trace;
  }
  adj_status status = adj_ctx_create(&options, &job->ctx);
  if (!status) signals_watch(job->ctx);
  return status;
}

/* ---- The points ------------------------------------------------------------------------------- */

static adj_status open_points(join_job *job) {
  const join_request *request = job->request;
  double began = seconds_now();
  adj_status status = ADJ_OK;
  bool right_first = request->right && request->normalise; /* it has the scale of both */
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

static void set_metric(const join_request *request, adj_join_spec *spec) {
  if (request->metric) spec->metric = (adj_metric)request->metric;
  if (!isnan(request->p)) spec->p = request->p;
  if (request->angle) spec->angle = (adj_angle)(request->angle - 1);
  if (request->unit) spec->unit = (adj_unit)(request->unit - 1);
  if (!isnan(request->sphere)) spec->sphere_radius = request->sphere;
}

static adj_status create_plan(join_job *job) {
  const join_request *request = job->request;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = request->kind;
  set_metric(request, &spec);
  if (request->backend) spec.backend = (adj_backend)(request->backend - 1);
  if (request->order) spec.order = (adj_order)(request->order - 1);
  if (!isnan(request->radius)) spec.radius = request->radius;
  spec.k = (uint32_t)request->k;
  spec.flags = (request->distance ? ADJ_WITH_DISTANCE : 0u) | (request->self ? ADJ_WITH_SELF : 0u) |
               (request->one_way ? ADJ_ONE_WAY : 0u);
  spec.algorithm = request->algorithm;
  spec.tuning = request->tuning;
  spec.system = request->system;
  double *box = NULL;
  if (request->box) {
    spec.box_count = join_box_lengths(request->box, NULL);
    spec.box = box = calloc(spec.box_count, sizeof *box);
    job->no_memory = !box;
    if (!box) return ADJ_E_MEMORY;
    join_box_lengths(request->box, box);
  }
  job->spec = spec;
  job->box = box;
  if (request->min_points && !request->explain && !request->dry_run) return ADJ_OK; /* dbscan makes its own plan */
  double began = seconds_now();
  adj_status status = signals_status(adj_plan_create(job->ctx, &spec, job->left, job->right, &job->plan));
  trace_phase(job->trace, "plan and index", began);
  return status;
}

/* Every row has k entries, even if there are fewer points. */
static void note_padding(const join_job *job) {
  const join_request *request = job->request;
  uint64_t points = adj_dataset_count(job->right ? job->right : job->left);
  uint64_t others = points - (points && !job->right && !request->self);
  char count[32];
  if (request->kind != ADJ_KNN || request->k <= others || request->quiet) return;
  fprintf(stderr, "adjoin: note: -k %llu is more than the %s point%s available: rows are padded\n",
          (unsigned long long)request->k, text_count(others, count), others == 1 ? "" : "s");
}

/* A decimal comma makes two lengths of one. */
static void note_box(const join_request *request) {
  double lengths[64];
  if (!request->box || request->quiet || strlen(request->box) > sizeof lengths / sizeof *lengths) return;
  uint32_t count = join_box_lengths(request->box, lengths);
  for (uint32_t i = 0; i < count; i++)
    if (lengths[i] == 0) fprintf(stderr, "adjoin: note: --box: dimension %u is not periodic: its length is 0\n", i + 1);
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

/* Without an output only the number of pairs is wanted. A kNN join, whose number is often known beforehand, is run all
 * the same, for its times and statistics. */
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
  adj_plan_destroy(job->plan); /* which was only explained */
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
    fprintf(stderr, "adjoin: stopped\n");
    return 128 + number;
  }
  char text[MESSAGE_ROOM];
  fprintf(stderr, "adjoin: %s\n", message_of_failure(status, files, text));
  return status == ADJ_E_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

static int run_failed(const join_job *job, adj_status status) {
  const char *files[MOST_FILES];
  if (job->no_memory) {
    fprintf(stderr, "adjoin: out of memory\n");
    return EXIT_FAILED;
  }
  list_files(job->request, files);
  return join_failed(status, files);
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
  fprintf(stderr, "adjoin: %s: %s\n", strcmp(file, "-") ? file : "standard input", said);
  return EXIT_FAILED;
}

uint32_t join_write_flags(bool no_clobber, bool no_sync) {
  return (no_clobber ? ADJ_NO_CLOBBER : 0u) | (no_sync ? ADJ_NO_SYNC : 0u);
}

/* What the files are must be right before a long run, not after it. */
static adj_status check_paths(const join_request *request) {
  const char *inputs[] = {request->left, request->right, NULL}, *outputs[MOST_FILES];
  const char *const all[] = {request->output, request->distances, request->stats, request->trace};
  size_t many = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]) outputs[many++] = all[i];
  outputs[many] = NULL;
  return adj_paths_check(inputs, outputs, join_write_flags(request->no_clobber, request->no_sync));
}

/* Writes a report to its file, and frees it. */
static int save_json(const join_job *job, json_writer *json, const char *path) {
  const join_request *request = job->request;
  uint32_t flags = join_write_flags(request->no_clobber, request->no_sync);
  int code = EXIT_DONE;
  if (json->failed) {
    fprintf(stderr, "adjoin: %s: no memory for its text\n", path);
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
  adj_status status = check_paths(request);
  if (!status) status = create_context(job);
  if (!status) status = open_points(job);
  if (status) return run_failed(job, status);
  int code = points_check(request, job->left, job->right);
  if (code) return code;
  if (!request->quiet) points_describe(request, job->left, job->right);
  note_padding(job);
  note_box(request);
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
