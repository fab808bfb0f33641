/* SPDX-License-Identifier: MIT
 *
 * adjoin_share.h: one of several processes writes its rows of a file. The formats and the part file are those of
 * adj_write; the differences are that each process starts at its own offset, and that checksums are joined at the end.
 */
#include "adjoin_share.h"

#include <stdlib.h>
#include <string.h>

#include "io/write.h"
#include "io/write_zip.h"

enum { MAIN, DISTANCES, FILES };

struct adj_share {
  adj_ctx *ctx;
  uint32_t write_flags;
  bool counts;
  uint32_t number, shares;
  char *path[FILES];    /* NULL: not wanted */
  char *part[FILES];    /* of the first process, after adj_share_begin */
  adj_dataset names[2]; /* sets that have only labels: left, right */
  adji_pair_writer file[FILES];
  adji_pair_writer measured[FILES]; /* writers whose outputs only count; format NULL: not begun */
};

ADJI_DEFINE_INIT(adj_share_options, .kind = ADJ_RANGE, .type = ADJ_F32)

/* ---- Create and destroy --------------------------------------------------------------------------- */

static bool wanted(const adj_share *share, int i) {
  return share->path[i] != NULL;
}

static adj_status copy_path(adj_share *share, int i, const char *path) {
  if (!path) return ADJ_OK;
  share->path[i] = strdup(path);
  return share->path[i] ? ADJ_OK : adji_fail(ADJ_E_MEMORY, "%s: no memory for its name", path);
}

/* A set that only has labels; NULL: there are none. */
static const adj_dataset *name_set(adj_dataset *shell, adj_share_names names, uint64_t count) {
  if (!names.text) return NULL;
  shell->count = count;
  shell->label_text = (char *)(uintptr_t)names.text; /* only read */
  shell->label_ends = (uint64_t *)(uintptr_t)names.ends;
  return shell;
}

static adj_status fill(adj_share *share, const char *path, const adj_write_options *write,
                       const adj_share_options *options) {
  bool with_distance = (options->flags & ADJ_WITH_DISTANCE) != 0;
  const adji_pair_format *formats[FILES] = {NULL};
  const adj_dataset *left = name_set(&share->names[0], options->left_names, options->left_count);
  const adj_dataset *right = name_set(&share->names[1], options->right_names, options->right_count);
  share->write_flags = write->flags;
  share->counts = write->counts != 0;
  adj_status status =
      adji_choose_formats(options->kind, with_distance, path, write, &formats[MAIN], &formats[DISTANCES]);
  if (!status) status = copy_path(share, MAIN, path);
  if (!status) status = copy_path(share, DISTANCES, write->distances);
  for (int i = 0; i < FILES; i++)
    share->file[i] = (adji_pair_writer){.format = formats[i],
                                        .ctx = share->ctx,
                                        .left_count = options->left_count,
                                        .right_count = options->right_count,
                                        .left = left,
                                        .right = right,
                                        .type = options->type,
                                        .k = options->kind == ADJ_KNN ? options->k : 0,
                                        .with_distance = with_distance};
  return status;
}

adj_status adj_share_create(adj_ctx *ctx, const char *path, const adj_write_options *write,
                            const adj_share_options *options, adj_share **out) {
  if (!ctx || !path || !options || !out)
    return adji_fail(ADJ_E_ARGUMENT, "ctx, path, options and out: none may be NULL");
  if (!strcmp(path, "-")) return adji_fail(ADJ_E_ARGUMENT, "path: several processes cannot write to standard output");
  adj_write_options writing;
  adj_share_options mine;
  adj_write_options_init(&writing, sizeof writing);
  adj_status status = write ? adji_take_struct(&writing, sizeof writing, write, "adj_write_options") : ADJ_OK;
  if (!status) status = adji_take_struct(&mine, sizeof mine, options, "adj_share_options");
  if (status) return status;
  if (mine.kind == ADJ_KNN && !mine.k) return adji_fail(ADJ_E_ARGUMENT, "k: must be at least 1");
  adj_share *share = calloc(1, sizeof *share);
  if (!share) return adji_fail(ADJ_E_MEMORY, "%s: no memory for a share", path);
  share->ctx = ctx;
  status = fill(share, path, &writing, &mine);
  if (status)
    adj_share_destroy(share);
  else
    *out = share;
  return status;
}

static void close_writer(adji_pair_writer *writer) {
  if (!writer->ctx) return;
  adji_free(&writer->ctx->memory, writer->state);
  (void)adji_output_close(writer->output, ADJ_CANCELLED); /* removes a part file that has no name yet */
  writer->output = NULL;
  writer->state = NULL;
}

void adj_share_destroy(adj_share *share) {
  if (!share) return;
  for (int i = 0; i < FILES; i++) {
    close_writer(&share->file[i]);
    close_writer(&share->measured[i]);
    free(share->path[i]);
    free(share->part[i]);
  }
  free(share);
}

/* ---- Rows ------------------------------------------------------------------------------------------- */

static adji_rows block_of(const adj_share_rows *rows) {
  return (adji_rows){rows->first_row, rows->row_count, rows->offsets, rows->ids_32, rows->ids, rows->distances};
}

static adj_status write_rows(const adj_share *share, adji_pair_writer *writer, const adj_share_rows *rows) {
  if (share->counts) {
    if (!rows->counts) return adji_fail(ADJ_E_ARGUMENT, "rows: counts is NULL");
    adji_counts counts = {
        .writer = writer, .first_row = rows->first_row, .many = rows->row_count, .wide = rows->counts};
    return adji_counts_rows(&counts);
  }
  if (!rows->offsets || (rows->offsets[rows->row_count] > rows->offsets[0] && !rows->ids && !rows->ids_32))
    return adji_fail(ADJ_E_ARGUMENT, "rows: offsets and ids: neither may be NULL");
  adji_rows block = block_of(rows);
  return writer->format->rows(writer, &block);
}

static bool is_text(const adji_pair_format *format) {
  return format == &adji_format_csv || format == &adji_format_tsv;
}

int adj_share_measures(const adj_share *share) {
  const adji_pair_format *format = share->file[MAIN].format;
  return is_text(format) || format == &adji_table_graph;
}

static adj_status begin_measuring(adj_share *share, int i) {
  adji_pair_writer *writer = &share->measured[i];
  *writer = share->file[i];
  writer->share.first = true;
  adj_status status = adji_output_measure(share->ctx, share->path[i], &writer->output);
  if (!status) status = share->counts ? adji_counts_begin(writer) : writer->format->begin(writer);
  return status;
}

static uint64_t count_entries(const adj_share_rows *rows) {
  uint64_t count = 0;
  adji_rows block = block_of(rows);
  for (uint64_t i = rows->offsets[0]; i < rows->offsets[rows->row_count]; i++)
    count += adji_id_at(&block, i) >= 0;
  return count;
}

adj_status adj_share_measure(adj_share *share, const adj_share_rows *rows, adj_share_size *size) {
  adj_status status = ADJ_OK;
  adji_call outer = adji_call_begin(&share->ctx->cancels);
  for (int i = 0; i < FILES && !status; i++) {
    adji_pair_writer *writer = &share->measured[i];
    if (!wanted(share, i) || !is_text(share->file[i].format)) continue;
    if (!writer->output) status = begin_measuring(share, i);
    uint64_t before = status ? 0 : adji_output_size(writer->output);
    if (!status) status = write_rows(share, writer, rows);
    if (!status) size->bytes[i] += adji_output_size(writer->output) - before;
  }
  adji_call_set(outer);
  if (status) return status;
  size->rows += rows->row_count;
  if (!share->counts && share->file[MAIN].format == &adji_table_graph)
    size->entries += count_entries(rows);
  else if (!share->counts)
    size->entries += rows->offsets[rows->row_count] - rows->offsets[0];
  return ADJ_OK;
}

/* ---- Writing ---------------------------------------------------------------------------------------- */

adj_status adj_share_place(adj_share *share, uint32_t number, uint32_t shares, const adj_share_size *before,
                           const adj_share_size *mine, const adj_share_size *all) {
  if (number >= shares) return adji_fail(ADJ_E_ARGUMENT, "number: %u is not below the %u shares", number, shares);
  share->number = number;
  share->shares = shares;
  for (int i = 0; i < FILES; i++) {
    adji_pair_writer *writer = &share->file[i];
    writer->rows = all->rows;
    writer->pairs = all->entries;
    writer->share.first = number == 0;
    writer->share.last = number + 1 == shares;
    writer->share.rows_before = before->rows;
    writer->share.pairs_before = before->entries;
    writer->share.bytes_before = before->bytes[i];
    writer->share.rows = mine->rows;
    writer->share.pairs = mine->entries;
  }
  return ADJ_OK;
}

static adj_status begin_writer(const adj_share *share, adji_pair_writer *writer) {
  return share->counts ? adji_counts_begin(writer) : writer->format->begin(writer);
}

static adj_status check_room(const adj_share *share) {
  adji_output *outputs[FILES] = {NULL};
  uint64_t bytes[FILES] = {0};
  for (int i = 0; i < FILES; i++) {
    const adji_pair_writer *writer = &share->file[i];
    if (!wanted(share, i)) continue;
    outputs[i] = writer->output;
    bytes[i] = share->counts ? adji_mul(writer->rows, adji_counts_bytes(writer)) : writer->format->bytes(writer, true);
  }
  return adji_outputs_check_room(outputs, bytes, FILES);
}

adj_status adj_share_begin(adj_share *share) {
  adj_status status = ADJ_OK;
  adji_call outer = adji_call_begin(&share->ctx->cancels);
  for (int i = 0; i < FILES && !status; i++) {
    if (!wanted(share, i)) continue;
    status = adji_output_open(share->ctx, share->path[i], share->write_flags, &share->file[i].output);
    if (!status && !adji_output_seekable(share->file[i].output))
      status = adji_fail(ADJ_E_IO, "%s: several processes write it, so it must be a file", share->path[i]);
    if (status) break;
    share->part[i] = adji_output_part(share->file[i].output);
    if (!share->part[i]) status = adji_fail(ADJ_E_IO, "%s: the path of its part file is not known", share->path[i]);
  }
  if (!status) status = check_room(share);
  for (int i = 0; i < FILES && !status; i++)
    if (wanted(share, i)) status = begin_writer(share, &share->file[i]);
  adji_call_set(outer);
  return status;
}

const char *adj_share_part(const adj_share *share, uint32_t file) {
  return file < FILES ? share->part[file] : NULL;
}

adj_status adj_share_join(adj_share *share, const char *part, const char *distances) {
  const char *const parts[FILES] = {part, distances};
  adj_status status = ADJ_OK;
  for (int i = 0; i < FILES && !status; i++) {
    adji_pair_writer *writer = &share->file[i];
    if (!wanted(share, i)) continue;
    if (!parts[i]) return adji_fail(ADJ_E_ARGUMENT, "part, distances: no part file for %s", share->path[i]);
    status = adji_output_join(share->ctx, share->path[i], parts[i], share->write_flags, &writer->output);
    if (!status) status = begin_writer(share, writer);
  }
  return status;
}

adj_status adj_share_write(adj_share *share, const adj_share_rows *rows) {
  adj_status status = ADJ_OK;
  adji_call outer = adji_call_begin(&share->ctx->cancels);
  for (int i = 0; i < FILES && !status; i++)
    if (wanted(share, i)) status = write_rows(share, &share->file[i], rows);
  adji_call_set(outer);
  return status;
}

/* ---- The end ------------------------------------------------------------------------------------------ */

/* The first process still has to write the headers of a zip file: it waits for the disk when it completes. */
adj_status adj_share_finish(adj_share *share, adj_share_sums *out) {
  adj_status status = ADJ_OK;
  adji_call outer = adji_call_begin(&share->ctx->cancels);
  for (int i = 0; i < FILES && !status; i++) {
    adji_pair_writer *writer = &share->file[i];
    if (!wanted(share, i)) continue;
    if (!share->counts && writer->format->finish) status = writer->format->finish(writer);
    if (share->number) status = adji_output_finish(writer->output, status);
  }
  adji_call_set(outer);
  if (!status) *out = share->file[MAIN].sums;
  return status;
}

static void join_sums(adj_share_sums *all, const adj_share_sums *sums, uint32_t shares) {
  *all = (adj_share_sums){.reserved = 0};
  for (uint32_t s = 0; s < shares; s++)
    for (size_t i = 0; i < sizeof all->crc / sizeof *all->crc; i++) {
      all->crc[i] = adji_crc_join(all->crc[i], sums[s].crc[i], sums[s].bytes[i]);
      all->bytes[i] += sums[s].bytes[i];
    }
}

/* As in adj_write: both files are finished before one of them appears, and the main file appears last. */
static adj_status appear(adj_share *share) {
  adji_output *first = share->file[DISTANCES].output, *last = share->file[MAIN].output;
  adj_status status = adji_output_finish(first, ADJ_OK);
  status = adji_output_finish(last, status);
  status = adji_output_appear(first, status);
  bool alone = first && !status;
  status = adji_output_appear(last, status);
  if (alone && status) adji_output_take_back(first);
  return status;
}

adj_status adj_share_complete(adj_share *share, const adj_share_sums *sums) {
  adji_pair_writer *writer = &share->file[MAIN];
  adji_call outer = adji_call_begin(&share->ctx->cancels);
  join_sums(&writer->sums, sums, share->shares);
  adj_status status = !share->counts && writer->format->complete ? writer->format->complete(writer) : ADJ_OK;
  if (!status) status = appear(share);
  adji_call_set(outer);
  return status;
}

void adj_share_take_back(adj_share *share) {
  for (int i = 0; i < FILES; i++)
    adji_output_take_back(share->file[i].output);
}
