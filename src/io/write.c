/* SPDX-License-Identifier: MIT
 *
 * adj_write: runs a join and writes its result to one file or two. The join streams rows, a format turns them into
 * bytes, and an output writes the bytes to a file that appears at the end.
 */
#include "io/write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "plan/plan.h"

void adj_write_options_init(adj_write_options *options, size_t struct_size) {
  adj_write_options defaults = {.counts = 0};
  adji_init_struct(options, struct_size, &defaults, sizeof defaults);
}

/* ---- For the formats ---------------------------------------------------------------------------- */

adj_status adji_write_block(adji_pair_writer *writer, const adji_rows *rows, uint64_t count, uint64_t bytes_each,
                            adji_format_fn format) {
  adji_row_block block = {writer, rows};
  adji_items items = {.count = count, .bytes_each = bytes_each, .format = format, .user = &block};
  return adji_output_items(writer->output, &items);
}

adj_status adji_write_header(adji_pair_writer *writer, const void *header, uint64_t bytes, uint64_t bytes_before) {
  if (writer->share.first) return adji_output_write(writer->output, header, bytes);
  adji_output_seek(writer->output, bytes + bytes_before);
  return ADJ_OK;
}

void adji_put_wide_ids(const adji_rows *rows, uint64_t first, uint64_t count, void *to) {
  int64_t *wide = to;
  if (rows->wide) {
    memcpy(wide, rows->wide + first, count * sizeof *wide);
    return;
  }
  for (uint64_t i = 0; i < count; i++)
    wide[i] = adji_id_at(rows, first + i);
}

uint64_t adji_row_of_pair(const adji_rows *rows, uint64_t pair) {
  /* Finds the last row that begins at or before the pair, which is not empty. Row `low` always begins at or before the
   * pair, row `high` never does. */
  uint64_t low = 0, high = rows->row_count, at = rows->offsets[0] + pair;
  while (high - low > 1) {
    uint64_t middle = low + (high - low) / 2;
    if (rows->offsets[middle] <= at)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* ---- The sink between the join and its files ---------------------------------------------------- */

enum { MAIN, DISTANCES, FILES };

typedef struct write_job {
  adj_plan *plan;
  adji_pair_writer file[FILES]; /* format NULL: not wanted                          */
  adji_meter meter;
  uint32_t *degrees; /* graph: neighbours of each point                 */
  uint64_t pairs;
} write_job;

/* Tells the meter how many bytes will be written, as far as known. */
static void expect_bytes(write_job *job, uint64_t each, bool exact) {
  uint64_t bytes = 0, to_sync = 0;
  for (adji_pair_writer *file = job->file; file < job->file + FILES; file++) {
    if (!file->format) continue;
    adji_pair_writer about = *file;
    if (!exact) about.rows = file->left_count, about.pairs = each;
    uint64_t local = about.format->bytes(&about, false);
    if (local > INT64_MAX) local = INT64_MAX;
    bytes += local;
    if (adji_output_syncs(file->output)) to_sync += local;
  }
  adji_meter_expect(&job->meter, bytes, to_sync);
}

/* The sizes are known now: a result that does not fit the disk fails before the join continues. */
static adj_status check_room(const write_job *job) {
  adji_output *outputs[FILES] = {NULL};
  uint64_t bytes[FILES] = {0};
  for (int i = 0; i < FILES; i++) {
    const adji_pair_writer *file = &job->file[i];
    if (!file->format) continue;
    outputs[i] = file->output;
    bytes[i] = file->format->bytes(file, true);
  }
  return adji_outputs_check_room(outputs, bytes, FILES);
}

static adj_status begin_files(write_job *job, uint64_t rows, uint64_t pairs) {
  adji_pair_writer *end = job->file + FILES;
  for (adji_pair_writer *file = job->file; file < end; file++) {
    bool graph = file->format == &adji_table_graph;
    file->rows = rows;
    file->pairs = graph ? job->pairs : pairs;
    adji_write_whole(file);
  }
  expect_bytes(job, 0, true);
  adj_status status = check_room(job);
  for (adji_pair_writer *file = job->file; !status && file < end; file++)
    if (file->format) status = file->format->begin(file);
  return status;
}

static adj_status sink_begin(void *user, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  (void)degrees;
  write_job *job = user;
  adji_meter_write_begin(&job->meter, false);
  adj_status status = begin_files(job, rows, pairs);
  adji_meter_write_end(&job->meter);
  return status;
}

static adj_status sink_write(void *user, const adj_rows *rows) {
  write_job *job = user;
  adj_status status = ADJ_OK;
  adji_rows block = {rows->first_row, rows->row_count, rows->offsets, rows->ids, .distances = rows->distances};
  adji_meter_write_begin(&job->meter, rows->first_row + rows->row_count == job->plan->left->count);
  for (adji_pair_writer *file = job->file; !status && file < job->file + FILES; file++)
    if (file->format) status = file->format->rows(file, &block);
  adji_meter_write_end(&job->meter);
  return status;
}

/* ---- Choosing a format ---------------------------------------------------------------------------- */

typedef struct family {
  const char *content, *names;
  const adji_pair_format *formats[7]; /* the last is NULL */
} family;

static const family pairs_family = {
    "pairs", "npz, csv, tsv, npy", {&adji_format_npz, &adji_format_csv, &adji_format_tsv, &adji_format_npy}};
static const family counts_family = {"counts", "npy, csv, tsv", {&adji_format_npy, &adji_format_csv, &adji_format_tsv}};
static const family neighbours_family = {
    "neighbours",
    "npz, csv, tsv, npy, ivecs, csr",
    {&adji_table_npz, &adji_format_csv, &adji_format_tsv, &adji_table_npy, &adji_table_ivecs, &adji_table_graph}};
static const family distances_family = {"distances", "npy, fvecs", {&adji_distances_npy, &adji_distances_fvecs}};

/* If name is NULL, the ending of the path is the format. */
static adj_status find_format(const family *from, const char *name, const char *path, const adji_pair_format **out) {
  char ending[16];
  if (!name) name = strcmp(path, "-") ? adji_path_ending(path, ending) : "csv";
  for (const adji_pair_format *const *format = from->formats; *format; format++)
    if (!strcmp((*format)->name, name)) {
      *out = *format;
      return ADJ_OK;
    }
  if (!*name)
    return adji_fail(ADJ_E_ARGUMENT, "%s: has no ending that names a format for %s (%s)", path, from->content,
                     from->names);
  return adji_fail(ADJ_E_ARGUMENT, "%s: \"%s\" is not a format for %s (%s)", path, name, from->content, from->names);
}

adj_status adji_choose_formats(adj_join_kind kind, bool with_distance, const char *path,
                               const adj_write_options *options, const adji_pair_format **main,
                               const adji_pair_format **second) {
  bool nearest = kind == ADJ_KNN, counts = options->counts != 0;
  const family *from = counts ? &counts_family : nearest ? &neighbours_family : &pairs_family;
  adj_status status = find_format(from, options->format, path, main);
  if (status || !options->distances) return status;
  if (!nearest || counts)
    return adji_fail(ADJ_E_ARGUMENT, "distances: only the results of kNN joins have a second file for them");
  if (!with_distance) return adji_fail(ADJ_E_ARGUMENT, "distances: the join was planned without ADJ_WITH_DISTANCE");
  const char *const both[] = {path, options->distances, NULL};
  if (!strcmp(options->distances, "-") || !strcmp(options->distances, path) ||
      adj_paths_check(NULL, both, 0) == ADJ_E_ARGUMENT)
    return adji_fail(ADJ_E_ARGUMENT, "distances: need a file of their own, not \"%s\"", options->distances);
  return find_format(&distances_family, NULL, options->distances, second);
}

/* ---- Rows ------------------------------------------------------------------------------------------- */

/* Progress of a run that is half of the whole. */
typedef struct half {
  adj_run_control whole;
  double from;
} half;

static int half_progress(void *user, const adj_progress *where) {
  const half *h = user;
  adj_progress local = *where;
  local.fraction = h->from + local.fraction / 2;
  return h->whole.progress(h->whole.user, &local);
}

/* A graph has no padding, and its arrays need their sizes at the start. So the neighbours are counted first, which
 * takes another run if a radius limits their number. */
static adj_status write_graph(write_job *job, const adj_sink *sink, const adj_run_control *control, adj_stats *stats) {
  adj_plan *plan = job->plan;
  adj_run_control local;
  adj_run_control_init(&local, sizeof local);
  adj_status status = control ? adji_take_struct(&local, sizeof local, control, "adj_run_control") : ADJ_OK;
  if (status) return status;
  half part = {.whole = local};
  bool bounded = isfinite(plan->join.limit);
  if (bounded && local.progress) {
    local.progress = half_progress;
    local.user = &part;
  }
  job->degrees = adji_alloc(&plan->ctx->memory, plan->left->count + 1, sizeof *job->degrees, "counts");
  if (!job->degrees) return ADJ_E_MEMORY;
  adj_stats counted;
  adj_stats_init(&counted, sizeof counted);
  status = adj_count(plan, job->degrees, &job->pairs, &local, &counted);
  part.from = 0.5;
  if (!status) status = adj_stream(plan, sink, &local, stats);
  stats->join_s += counted.join_s;
  stats->candidates += counted.candidates;
  stats->batches += counted.batches;
  adji_free(&plan->ctx->memory, job->degrees);
  return status;
}

static adj_status write_rows(write_job *job, const adj_run_control *control, adj_stats *stats) {
  adji_pair_writer *file = &job->file[MAIN];
  if (file->format->needs_offsets && !adji_output_seekable(file->output))
    return adji_fail(ADJ_E_ARGUMENT, "%s: %s needs a file; csv, tsv and npy can be written to a pipe",
                     adji_output_name(file->output), file->format->name);
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = job;
  sink.begin = sink_begin;
  sink.write = sink_write;
  adj_status status = file->format == &adji_table_graph ? write_graph(job, &sink, control, stats)
                                                        : adj_stream(job->plan, &sink, control, stats);
  for (file = job->file; file < job->file + FILES; file++) {
    if (!status && file->format && file->format->finish) status = file->format->finish(file);
    if (!status && file->format && file->format->complete) status = file->format->complete(file);
    adji_free(&job->plan->ctx->memory, file->state);
  }
  return status;
}

/* ---- Counts ------------------------------------------------------------------------------------------- */

static adj_status write_degrees(write_job *job, const adj_run_control *control, adj_stats *stats) {
  adj_plan *plan = job->plan;
  adji_memory *memory = &plan->ctx->memory;
  uint32_t *degrees = adji_alloc(memory, plan->left->count + 1, sizeof *degrees, "counts");
  if (!degrees) return ADJ_E_MEMORY;
  adj_status status = adj_count(plan, degrees, NULL, control, stats);
  uint64_t begin_ns = adji_now_ns(), bytes = adji_mul(plan->left->count, sizeof *degrees);
  adji_output *output = job->file[MAIN].output;
  if (!status) status = adji_outputs_check_room(&output, &bytes, 1); /* a line of text has at least four characters */
  adji_meter_expect(&job->meter, bytes, adji_output_syncs(output) ? bytes : 0);
  adji_meter_write_begin(&job->meter, true);
  adji_pair_writer *file = &job->file[MAIN];
  file->rows = plan->left->count;
  adji_write_whole(file);
  adji_counts counts = {.writer = file, .many = file->rows, .narrow = degrees};
  if (!status) status = adji_counts_begin(file);
  if (!status) status = adji_counts_rows(&counts);
  adji_meter_write_end(&job->meter);
  stats->write_s += (double)(adji_now_ns() - begin_ns) * 1e-9;
  adji_free(memory, degrees);
  return status;
}

/* ---- Running ---------------------------------------------------------------------------------------- */

static adj_status open_file(write_job *job, int which, const char *path, uint32_t flags) {
  adj_plan *plan = job->plan;
  const adji_pair_format *format = job->file[which].format;
  if (!format) return ADJ_OK;
  job->file[which] = (adji_pair_writer){.format = format,
                                        .ctx = plan->ctx,
                                        .left_count = plan->left->count,
                                        .right_count = plan->right->count,
                                        .left = plan->left,
                                        .right = plan->right,
                                        .type = plan->left->type,
                                        .k = plan->join.k,
                                        .with_distance = (plan->spec.flags & ADJ_WITH_DISTANCE) != 0};
  adj_status status = adji_output_open(plan->ctx, path, flags, &job->file[which].output);
  if (!status) adji_output_watch(job->file[which].output, &job->meter);
  return status;
}

static adj_status run_job(write_job *job, bool only_counts, adj_stats *stats) {
  const adj_plan *plan = job->plan;
  double pairs = plan->join.k ? (double)plan->left->count * plan->join.k : plan->estimated_pairs;
  adj_run_control control = adji_meter_control(&job->meter);
  if (only_counts) return write_degrees(job, &control, stats);
  expect_bytes(job, pairs > 0 && pairs < 1e18 ? (uint64_t)pairs : 0, false);
  return write_rows(job, &control, stats);
}

/* Both files are finished before one of them appears. The main file appears last: if it does, the other one has
 * appeared; if it cannot, the other one is taken back. */
static adj_status close_files(write_job *job, adj_status status) {
  adji_output *first = job->file[DISTANCES].output, *last = job->file[MAIN].output;
  adji_meter_sync_begin(&job->meter);
  status = adji_output_finish(first, status);
  status = adji_output_finish(last, status);
  status = adji_output_appear(first, status);
  bool alone = first && !status;
  status = adji_output_appear(last, status);
  if (alone && status) adji_output_take_back(first);
  status = adji_output_close(first, status);
  return adji_output_close(last, status);
}

adj_status adj_write(adj_plan *plan, const char *path, const adj_write_options *options, const adj_run_control *control,
                     adj_stats *stats) {
  if (!plan || !path) return adji_fail(ADJ_E_ARGUMENT, "plan and path: neither may be NULL");
  adj_write_options local;
  adj_write_options_init(&local, sizeof local);
  adj_status status = ADJ_OK;
  if (options) status = adji_take_struct(&local, sizeof local, options, "adj_write_options");
  adj_stats run;
  if (!status && stats) status = adji_take_struct(&run, sizeof run, stats, "adj_stats");
  if (status) return status;
  adj_stats_init(&run, sizeof run);

  write_job job = {.plan = plan};
  status = adji_meter_begin(&job.meter, control);
  if (status) return status;
  adji_call outer = adji_call_begin(&plan->ctx->cancels);
  status = adji_choose_formats(plan->spec.kind, (plan->spec.flags & ADJ_WITH_DISTANCE) != 0, path, &local,
                               &job.file[MAIN].format, &job.file[DISTANCES].format);
  if (!status) status = open_file(&job, MAIN, path, local.flags);
  if (!status) status = open_file(&job, DISTANCES, local.distances, local.flags);
  if (!status) status = run_job(&job, local.counts != 0, &run);
  uint64_t close_ns = adji_now_ns();
  status = close_files(&job, status);
  run.write_s += (double)(adji_now_ns() - close_ns) * 1e-9;
  adji_call_set(outer);
  adji_meter_end(&job.meter);
  if (!status && stats) status = adji_give_struct(stats, &run, sizeof run, "adj_stats");
  return status;
}
