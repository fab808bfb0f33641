/* SPDX-License-Identifier: MIT
 *
 * adj_write: a join into a file. The join streams its rows, the format turns them into bytes, the
 * output makes a file of them that appears at the end.
 */
#include "io/write.h"

#include <string.h>

#include "plan/plan.h"

void adj_write_options_init(adj_write_options *options, size_t struct_size) {
  adj_write_options defaults = {.counts = 0};
  adji_init_struct(options, struct_size, &defaults, sizeof defaults);
}

/* ---- The sink between the join and a format --------------------------------------------------- */

typedef struct write_job {
  const adji_pair_format *format;
  adji_pair_writer writer;
} write_job;

static adj_status sink_begin(void *user, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  write_job *job = user;
  return job->format->begin(&job->writer, rows, pairs, degrees);
}

static adj_status sink_write(void *user, const adj_rows *rows) {
  write_job *job = user;
  return job->format->rows(&job->writer, rows);
}

/* ---- Choosing and running --------------------------------------------------------------------- */

static const adji_pair_format *const formats[] = {&adji_format_npz, &adji_format_csv, &adji_format_tsv,
                                                  &adji_format_npy, NULL};

/* The name of the format: what was asked for, or the path's ending. */
static const char *format_name(const char *asked, const char *path, char *buffer) {
  if (asked) return asked;
  return strcmp(path, "-") ? adji_path_ending(path, buffer) : "csv";
}

static adj_status find_format(const char *name, const char *path, bool counts, const adji_pair_format **out) {
  for (const adji_pair_format *const *format = formats; *format; format++)
    if (!strcmp((*format)->name, name) && !(counts && *format == &adji_format_npz)) {
      *out = *format;
      return ADJ_OK;
    }
  const char *what = counts ? "counts" : "pairs", *which = counts ? "npy, csv, tsv" : "npz, csv, tsv, npy";
  if (!*name) return adji_fail(ADJ_E_ARGUMENT, "%s: its ending names no format for %s (%s)", path, what, which);
  return adji_fail(ADJ_E_ARGUMENT, "%s: \"%s\" is not a format %s are written in (%s)", path, name, what, which);
}

static adj_status write_pairs(adj_plan *plan, write_job *job, const adj_run_control *control, adj_stats *stats) {
  adji_output *output = job->writer.output;
  if (job->format->needs_offsets && !adji_output_seekable(output))
    return adji_fail(ADJ_E_ARGUMENT, "%s: %s needs a file; csv, tsv and npy can be written to a pipe",
                     adji_output_name(output), job->format->name);
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = job;
  sink.begin = sink_begin;
  sink.write = sink_write;
  adj_status status = adj_stream(plan, &sink, control, stats);
  if (!status) status = job->format->finish(&job->writer);
  job->format->end(&job->writer);
  return status;
}

static adj_status write_degrees(adj_plan *plan, write_job *job, const adj_run_control *control, adj_stats *stats) {
  adji_memory *memory = &plan->ctx->memory;
  uint32_t *degrees = adji_alloc(memory, plan->left->count + 1, sizeof *degrees, "counts");
  if (!degrees) return ADJ_E_MEMORY;
  adj_status status = adj_count(plan, degrees, NULL, control, stats);
  uint64_t begin_ns = adji_now_ns();
  if (!status) status = adji_write_counts(job->writer.output, job->format->name, plan->left, degrees);
  stats->write_s += (double)(adji_now_ns() - begin_ns) * 1e-9;
  adji_free(memory, degrees);
  return status;
}

adj_status adj_write(adj_plan *plan, const char *path, const adj_write_options *options, const adj_run_control *control,
                     adj_stats *stats) {
  if (!plan || !path) return adji_fail(ADJ_E_ARGUMENT, "plan and path: neither may be NULL");
  adj_write_options mine;
  adj_write_options_init(&mine, sizeof mine);
  adj_status status = ADJ_OK;
  if (options) status = adji_take_struct(&mine, sizeof mine, options, "adj_write_options");
  adj_stats run;
  if (!status && stats) status = adji_take_struct(&run, sizeof run, stats, "adj_stats");
  if (status) return status;
  adj_stats_init(&run, sizeof run);
  if (plan->spec.kind != ADJ_RANGE) return adji_fail(ADJ_E_UNSUPPORTED, "adj_write: writes range joins only so far");

  char ending[16];
  bool counts = mine.counts != 0;
  write_job job = {.writer = {.ctx = plan->ctx, .left = plan->left, .right = plan->right, .type = plan->left->type}};
  job.writer.with_distance = (plan->spec.flags & ADJ_WITH_DISTANCE) != 0;
  status = find_format(format_name(mine.format, path, ending), path, counts, &job.format);
  if (!status) status = adji_output_open(plan->ctx, path, &job.writer.output);
  if (status) return status;
  status = counts ? write_degrees(plan, &job, control, &run) : write_pairs(plan, &job, control, &run);
  uint64_t close_ns = adji_now_ns();
  status = adji_output_close(job.writer.output, status);
  run.write_s += (double)(adji_now_ns() - close_ns) * 1e-9;
  if (!status && stats) status = adji_give_struct(stats, &run, sizeof run, "adj_stats");
  return status;
}
