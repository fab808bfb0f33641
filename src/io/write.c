/* SPDX-License-Identifier: MIT
 *
 * adj_write: runs a join and writes its result to one file or two. The join streams rows, a format turns them into
 * bytes, and an output writes the bytes to a file that appears at the end.
 */
#include "io/write.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/write_arrays.h"
#include "io/write_text.h"
#include "plan/plan.h"

void adj_write_options_init(adj_write_options *options, size_t struct_size) {
  adj_write_options defaults = {.counts = 0};
  adji_init_struct(options, struct_size, &defaults, sizeof defaults);
}

/* ---- For the formats ---------------------------------------------------------------------------- */

adj_status adji_write_block(adji_pair_writer *writer, const adj_rows *rows, uint64_t count, uint64_t bytes_each,
                            adji_format_fn format) {
  adji_row_block block = {writer, rows};
  adji_items items = {.count = count, .bytes_each = bytes_each, .format = format, .user = &block};
  return adji_output_items(writer->output, &items);
}

void adji_put_wide_ids(const uint32_t *ids, uint64_t count, void *to) {
  int64_t *wide = to;
  for (uint64_t i = 0; i < count; i++)
    wide[i] = ids[i] == ADJ_NO_ID ? -1 : (int64_t)ids[i];
}

uint64_t adji_row_of_pair(const adj_rows *rows, uint64_t pair) {
  /* Finds the last row that begins at or before the pair. It is not empty. Row low always begins there, row high never
   * does. */
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
  uint32_t *degrees; /* graph: neighbours of each point, and their sum  */
  uint64_t pairs;
} write_job;

/* Tells the meter what will be written, as far as is known. */
static void expect_bytes(write_job *job, uint64_t each, bool exact) {
  uint64_t bytes = 0, to_sync = 0;
  for (adji_pair_writer *file = job->file; file < job->file + FILES; file++) {
    if (!file->format) continue;
    adji_pair_writer about = *file;
    if (!exact) about.rows = file->left->count, about.pairs = each;
    uint64_t mine = about.format->bytes(&about, false);
    if (mine > INT64_MAX) mine = INT64_MAX;
    bytes += mine;
    if (adji_output_syncs(file->output)) to_sync += mine;
  }
  adji_meter_expect(&job->meter, bytes, to_sync);
}

/* The sizes are known now: what does not fit the disk fails before the join goes on. */
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

static adj_status begin_files(write_job *job, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  adji_pair_writer *end = job->file + FILES;
  for (adji_pair_writer *file = job->file; file < end; file++) {
    bool graph = file->format == &adji_table_graph;
    file->rows = rows;
    file->pairs = graph ? job->pairs : pairs;
    file->degrees = graph ? job->degrees : degrees;
  }
  expect_bytes(job, 0, true);
  adj_status status = check_room(job);
  for (adji_pair_writer *file = job->file; !status && file < end; file++)
    if (file->format) status = file->format->begin(file);
  return status;
}

static adj_status sink_begin(void *user, uint64_t rows, uint64_t pairs, const uint32_t *degrees) {
  write_job *job = user;
  adji_meter_write_begin(&job->meter, false);
  adj_status status = begin_files(job, rows, pairs, degrees);
  adji_meter_write_end(&job->meter);
  return status;
}

static adj_status sink_write(void *user, const adj_rows *rows) {
  write_job *job = user;
  adj_status status = ADJ_OK;
  adji_meter_write_begin(&job->meter, rows->first_row + rows->row_count == job->plan->left->count);
  for (adji_pair_writer *file = job->file; !status && file < job->file + FILES; file++)
    if (file->format) status = file->format->rows(file, rows);
  adji_meter_write_end(&job->meter);
  return status;
}

/* ---- Choosing a format ---------------------------------------------------------------------------- */

typedef struct family {
  const char *what, *names;
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
    return adji_fail(ADJ_E_ARGUMENT, "%s: has no ending that names a format for %s (%s)", path, from->what,
                     from->names);
  return adji_fail(ADJ_E_ARGUMENT, "%s: \"%s\" is not a format for %s (%s)", path, name, from->what, from->names);
}

static adj_status choose_formats(write_job *job, const char *path, const adj_write_options *options) {
  bool nearest = job->plan->spec.kind == ADJ_KNN, counts = options->counts != 0;
  const family *from = counts ? &counts_family : nearest ? &neighbours_family : &pairs_family;
  adj_status status = find_format(from, options->format, path, &job->file[MAIN].format);
  if (status || !options->distances) return status;
  if (!nearest || counts)
    return adji_fail(ADJ_E_ARGUMENT, "distances: only the results of kNN joins have a second file for them");
  if (!(job->plan->spec.flags & ADJ_WITH_DISTANCE))
    return adji_fail(ADJ_E_ARGUMENT, "distances: the join was planned without ADJ_WITH_DISTANCE");
  const char *const both[] = {path, options->distances, NULL};
  if (!strcmp(options->distances, "-") || !strcmp(options->distances, path) ||
      adj_paths_check(NULL, both, 0) == ADJ_E_ARGUMENT)
    return adji_fail(ADJ_E_ARGUMENT, "distances: need a file of their own, not \"%s\"", options->distances);
  return find_format(&distances_family, NULL, options->distances, &job->file[DISTANCES].format);
}

/* ---- Rows ------------------------------------------------------------------------------------------- */

/* Progress of a run that is one half of the whole. */
typedef struct half {
  adj_run_control whole;
  double from;
} half;

static int half_progress(void *user, const adj_progress *where) {
  const half *h = user;
  adj_progress mine = *where;
  mine.fraction = h->from + mine.fraction / 2;
  return h->whole.progress(h->whole.user, &mine);
}

/* A graph has no padding, and its arrays need their sizes at the start. So the neighbours are counted first, which
 * takes a second run if a radius limits how many there are. */
static adj_status write_graph(write_job *job, const adj_sink *sink, const adj_run_control *control, adj_stats *stats) {
  adj_plan *plan = job->plan;
  adj_run_control mine;
  adj_run_control_init(&mine, sizeof mine);
  adj_status status = control ? adji_take_struct(&mine, sizeof mine, control, "adj_run_control") : ADJ_OK;
  if (status) return status;
  half part = {.whole = mine};
  bool bounded = isfinite(plan->join.limit);
  if (bounded && mine.progress) {
    mine.progress = half_progress;
    mine.user = &part;
  }
  job->degrees = adji_alloc(&plan->ctx->memory, plan->left->count + 1, sizeof *job->degrees, "counts");
  if (!job->degrees) return ADJ_E_MEMORY;
  adj_stats counted;
  adj_stats_init(&counted, sizeof counted);
  status = adj_count(plan, job->degrees, &job->pairs, &mine, &counted);
  part.from = 0.5;
  if (!status) status = adj_stream(plan, sink, &mine, stats);
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
    adji_free(&job->plan->ctx->memory, file->state);
  }
  return status;
}

/* ---- Counts: the number of neighbours of each left point ------------------------------------------ */

typedef struct counts {
  const adj_dataset *left;
  const uint32_t *degrees;
  char separator;
} counts;

static uint64_t format_binary(const void *user, uint64_t first, uint64_t many, char *to) {
  const counts *job = user;
  memcpy(to, job->degrees + first, many * sizeof *job->degrees);
  return many * sizeof *job->degrees;
}

static uint64_t format_text(const void *user, uint64_t first, uint64_t many, char *to) {
  const counts *job = user;
  const char *begin = to;
  for (uint64_t row = first; row < first + many; row++) {
    to = adji_put_row_name(job->left, row, job->separator, to);
    *to++ = job->separator;
    to = adji_put_count(job->degrees[row], to);
    *to++ = '\n';
  }
  return (uint64_t)(to - begin);
}

static adj_status write_counts(const adji_pair_writer *file, const uint32_t *degrees) {
  const adj_dataset *left = file->left;
  counts job = {left, degrees, file->format == &adji_format_tsv ? '\t' : ','};
  adji_items items = {.count = left->count, .user = &job};
  char header[ADJI_NPY_HEADER];
  size_t bytes;
  if (file->format == &adji_format_npy) {
    char shape[32];
    snprintf(shape, sizeof shape, "(%llu,)", (unsigned long long)left->count);
    bytes = adji_npy_header(header, "'<u4'", shape);
    items.bytes_each = sizeof *degrees;
    items.format = format_binary;
  } else {
    bytes = (size_t)snprintf(header, sizeof header, "id%ccount\n", job.separator);
    items.bytes_each = adji_row_name_bytes(left) + ADJI_COUNT_TEXT + 2;
    items.format = format_text;
  }
  adj_status status = adji_output_write(file->output, header, bytes);
  return status ? status : adji_output_items(file->output, &items);
}

static adj_status write_degrees(write_job *job, const adj_run_control *control, adj_stats *stats) {
  adj_plan *plan = job->plan;
  adji_memory *memory = &plan->ctx->memory;
  uint32_t *degrees = adji_alloc(memory, plan->left->count + 1, sizeof *degrees, "counts");
  if (!degrees) return ADJ_E_MEMORY;
  adj_status status = adj_count(plan, degrees, NULL, control, stats);
  uint64_t begin_ns = adji_now_ns(), bytes = adji_mul(plan->left->count, sizeof *degrees);
  adji_output *output = job->file[MAIN].output;
  if (!status) status = adji_outputs_check_room(&output, &bytes, 1); /* a line of text has four characters, too */
  adji_meter_expect(&job->meter, bytes, adji_output_syncs(output) ? bytes : 0);
  adji_meter_write_begin(&job->meter, true);
  if (!status) status = write_counts(&job->file[MAIN], degrees);
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

/* Both files are finished before one of them appears. The main file appears last: if it does, so did the other, and if
 * it cannot, the other is taken back. */
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
  adj_write_options mine;
  adj_write_options_init(&mine, sizeof mine);
  adj_status status = ADJ_OK;
  if (options) status = adji_take_struct(&mine, sizeof mine, options, "adj_write_options");
  adj_stats run;
  if (!status && stats) status = adji_take_struct(&run, sizeof run, stats, "adj_stats");
  if (status) return status;
  adj_stats_init(&run, sizeof run);

  write_job job = {.plan = plan};
  status = adji_meter_begin(&job.meter, control);
  if (status) return status;
  adji_call outer = adji_call_begin(&plan->ctx->cancels);
  status = choose_formats(&job, path, &mine);
  if (!status) status = open_file(&job, MAIN, path, mine.flags);
  if (!status) status = open_file(&job, DISTANCES, mine.distances, mine.flags);
  if (!status) status = run_job(&job, mine.counts != 0, &run);
  uint64_t close_ns = adji_now_ns();
  status = close_files(&job, status);
  run.write_s += (double)(adji_now_ns() - close_ns) * 1e-9;
  adji_call_set(outer);
  adji_meter_end(&job.meter);
  if (!status && stats) status = adji_give_struct(stats, &run, sizeof run, "adj_stats");
  return status;
}
