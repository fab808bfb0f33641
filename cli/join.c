/* SPDX-License-Identifier: MIT
 *
 * A join from files to result: open the points, plan, run, report. range, knn and count differ only in their request.
 */
#include "join.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
  adj_plan *plan;
  char *plan_text; /* --explain: as it was before the run */
  run_report report;
} join_job;

enum { MOST_FILES = 5 };

/* The paths of the run, ended by NULL. */
static void list_files(const join_request *request, const char **files) {
  const char *const all[] = {request->left, request->right, request->output, request->distances};
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

static const char *type_name(adj_type type) {
  return type == ADJ_F64 ? "f64" : "f32";
}

/* The library checks this too, but does not know the names of the files. */
static int check_match(const join_job *job) {
  const join_request *request = job->request;
  if (!job->right) return EXIT_DONE;
  adj_type a = adj_dataset_type(job->left), b = adj_dataset_type(job->right);
  if (a != b) {
    fprintf(stderr, "adjoin: %s holds %s and %s holds %s: give --type f32 or --type f64 to join them in that type\n",
            request->left, type_name(a), request->right, type_name(b));
    return EXIT_FAILED;
  }
  uint32_t m = adj_dataset_dim(job->left), n = adj_dataset_dim(job->right);
  if (m != n) {
    fprintf(stderr, "adjoin: %s has %u dimensions and %s has %u\n", request->left, m, request->right, n);
    return EXIT_FAILED;
  }
  return EXIT_DONE;
}

adj_open_options join_open_options(const join_request *request) {
  adj_open_options options;
  adj_open_options_init(&options, sizeof options);
  options.type = (adj_type)request->type;
  options.format = request->input_format;
  options.columns = request->columns;
  options.id_column = request->id;
  options.shape = request->shape;
  options.dataset = request->dataset;
  options.allow_external = request->allow_external;
  options.helper = "/proc/self/exe"; /* this program reads HDF5 files in a process of its own */
  return options;
}

static adj_status open_points(join_job *job) {
  const join_request *request = job->request;
  adj_open_options options = join_open_options(request);
  double began = seconds_now();
  adj_status status = signals_status(adj_dataset_open(job->ctx, request->left, &options, &job->left));
  if (!status && request->right)
    status = signals_status(adj_dataset_open(job->ctx, request->right, &options, &job->right));
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
  double *box = NULL;
  if (request->box) {
    spec.box_count = join_box_lengths(request->box, NULL);
    spec.box = box = malloc(spec.box_count * sizeof *box);
    if (box) join_box_lengths(request->box, box);
  }
  double began = seconds_now();
  adj_status status = signals_status(adj_plan_create(job->ctx, &spec, job->left, job->right, &job->plan));
  trace_phase(job->trace, "plan and index", began);
  free(box);
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

/* The text of the plan, which the caller frees; NULL and *status on failure. */
static char *explain(const adj_plan *plan, adj_status *status) {
  size_t needed = 0;
  *status = adj_plan_explain(plan, NULL, 0, &needed);
  if (*status) return NULL;
  char *text = malloc(needed + 1);
  if (text) *status = adj_plan_explain(plan, text, needed + 1, NULL);
  return text;
}

/* Prints what the text after the run adds to the text before it. */
static void print_what_happened(const join_job *job) {
  adj_status status;
  char *text = explain(job->plan, &status);
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

static adj_status run_plan(join_job *job) {
  const join_request *request = job->request;
  progress_line progress;
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  control.max_pairs = request->max_pairs;
  progress_begin(&progress, request->progress, request->no_progress || request->quiet);
  if (progress.on) {
    control.progress = progress_show;
    control.user = &progress;
    if (!progress.terminal) control.interval_ms = 500;
  }
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.format = request->format;
  options.distances = request->distances;
  options.counts = request->per_point_counts;
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

static int report_all(join_job *job, const subcommand *command) {
  const join_request *request = job->request;
  run_report *report = &job->report;
  report->command = command->name;
  report->request = request;
  report->left = job->left;
  report->plan = job->plan;
  report->right = job->right ? job->right : job->left;
  report->wall_s = seconds_now() - report->began;
  if (request->explain) print_what_happened(job);
  bool good = report_total(report);
  if (!request->quiet) report_summary(report);
  if (request->stats) good = report_stats(report) && good;
  if (request->trace) good = trace_save(job->trace, request->trace, adj_ctx_threads(job->ctx)) && good;
  return good ? EXIT_DONE : EXIT_FAILED;
}

static int run_steps(join_job *job, const subcommand *command) {
  const join_request *request = job->request;
  if (request->stats && !text_can_save(request->stats)) return EXIT_FAILED;
  if (request->trace && !text_can_save(request->trace)) return EXIT_FAILED;
  adj_status status = create_context(job);
  if (!status) status = open_points(job);
  if (status) return run_failed(job, status);
  int code = check_match(job);
  if (code) return code;
  note_padding(job);
  status = create_plan(job);
  if (status) return plan_failed(job, status);
  if (request->explain || request->dry_run) job->plan_text = explain(job->plan, &status);
  if (status) return run_failed(job, status);
  if (job->plan_text) fputs(job->plan_text, request->dry_run ? stdout : stderr);
  if (request->dry_run) return EXIT_DONE;
  status = run_plan(job);
  return status ? run_failed(job, status) : report_all(job, command);
}

int join_run(const subcommand *command, const join_request *request) {
  join_job job = {.request = request};
  job.report.began = seconds_now();
  adj_stats_init(&job.report.stats, sizeof job.report.stats);
  if (request->trace) job.trace = trace_create();
  int code = run_steps(&job, command);
  signals_watch(NULL);
  adj_plan_destroy(job.plan);
  adj_dataset_destroy(job.right);
  adj_dataset_destroy(job.left);
  adj_ctx_destroy(job.ctx);
  trace_destroy(job.trace);
  free(job.plan_text);
  return code;
}
