/* SPDX-License-Identifier: MIT
 *
 * adj_dataset_save: writes points to a file. Every format is a header and then the rows.
 */
#include <stdio.h>
#include <string.h>

#include "io/write_arrays.h"
#include "io/write_text.h"

typedef struct points_job {
  const adj_dataset *set;
  char separator;                /* text only */
  const adji_decimals *decimals; /* text only */
  bool prefix_dim;               /* fvecs: every row begins with its dimension */
} points_job;

/* ---- Rows ------------------------------------------------------------------------------------- */

static uint64_t format_binary(const void *user, uint64_t first, uint64_t count, char *to) {
  const points_job *job = user;
  const adj_dataset *set = job->set;
  size_t size = adji_type_size(set->type);
  const char *begin = to;
  for (uint64_t row = first; row < first + count; row++) {
    if (job->prefix_dim) {
      memcpy(to, &set->dim, sizeof set->dim);
      to += sizeof set->dim;
    }
    const char *from = set->data + row * set->row_stride;
    if (set->column_stride == size) {
      memcpy(to, from, set->dim * size);
      to += set->dim * size;
      continue;
    }
    for (uint32_t j = 0; j < set->dim; j++, from += set->column_stride, to += size)
      memcpy(to, from, size);
  }
  return (uint64_t)(to - begin);
}

static uint64_t format_text(const void *user, uint64_t first, uint64_t count, char *to) {
  const points_job *job = user;
  const adj_dataset *set = job->set;
  const char *begin = to;
  for (uint64_t row = first; row < first + count; row++) {
    if (set->label_ends) {
      to = adji_put_row_name(set, row, job->separator, to);
      *to++ = job->separator;
    }
    const char *from = set->data + row * set->row_stride;
    for (uint32_t j = 0; j < set->dim; j++, from += set->column_stride) {
      to = adji_put_real(job->decimals, set->type, from, to);
      *to++ = job->separator;
    }
    to[-1] = '\n';
  }
  return (uint64_t)(to - begin);
}

/* ---- Formats ---------------------------------------------------------------------------------- */

static adj_status write_binary(adji_output *output, const adj_dataset *set, const char *format) {
  char header[ADJI_NPY_HEADER], shape[64];
  size_t header_bytes = 0; /* of fvecs and raw */
  if (!strcmp(format, "npy")) {
    snprintf(shape, sizeof shape, "(%llu, %u)", (unsigned long long)set->count, set->dim);
    header_bytes = adji_npy_header(header, adji_npy_real(set->type), shape);
  } else if (!strcmp(format, "fbin")) {
    const uint32_t extents[2] = {(uint32_t)set->count, set->dim};
    header_bytes = sizeof extents;
    memcpy(header, extents, sizeof extents);
  }
  points_job job = {.set = set, .prefix_dim = !strcmp(format, "fvecs")};
  uint64_t bytes = (uint64_t)set->dim * adji_type_size(set->type) + (job.prefix_dim ? sizeof set->dim : 0);
  adji_items items = {.count = set->count, .bytes_each = bytes, .format = format_binary, .user = &job};
  adj_status status = adji_output_write(output, header, header_bytes);
  return status ? status : adji_output_items(output, &items);
}

static uint64_t format_column_names(const void *user, uint64_t first, uint64_t count, char *to) {
  const points_job *job = user;
  const char *begin = to;
  for (uint64_t j = first; j < first + count; j++) {
    *to++ = 'x';
    to = adji_put_count(j + 1, to);
    *to++ = j + 1 < job->set->dim ? job->separator : '\n';
  }
  return (uint64_t)(to - begin);
}

/* A line of names, "x1,x2,x3", with "id" before them where the rows have labels. */
static adj_status write_text(adji_output *output, const adj_dataset *set, char separator) {
  adji_memory *memory = &set->ctx->memory;
  adji_decimals *decimals = adji_alloc(memory, 1, sizeof *decimals, "powers of ten");
  if (!decimals) return ADJ_E_MEMORY;
  adji_decimals_init(decimals);
  points_job job = {.set = set, .separator = separator, .decimals = decimals};
  adj_status status = ADJ_OK;
  const char id[3] = {'i', 'd', separator};
  if (set->label_ends) status = adji_output_write(output, id, sizeof id);
  adji_items names = {
      .count = set->dim, .bytes_each = ADJI_COUNT_TEXT + 2, .format = format_column_names, .user = &job};
  if (!status) status = adji_output_items(output, &names);
  uint64_t label_bytes = set->label_ends ? adji_row_name_bytes(set) + 1 : 0;
  adji_items rows = {.count = set->count,
                     .bytes_each = label_bytes + (uint64_t)set->dim * (ADJI_REAL_TEXT + 1),
                     .format = format_text,
                     .user = &job};
  if (!status) status = adji_output_items(output, &rows);
  adji_free(memory, decimals);
  return status;
}

static adj_status write_as(adji_output *output, const adj_dataset *set, const char *format) {
  if (!strcmp(format, "csv")) return write_text(output, set, ',');
  if (!strcmp(format, "tsv")) return write_text(output, set, '\t');
  return write_binary(output, set, format);
}

/* A lower bound of the file's size. A coordinate in text has a digit and a separator. */
static uint64_t least_bytes(const adj_dataset *set, const char *format) {
  bool text = !strcmp(format, "csv") || !strcmp(format, "tsv");
  return adji_mul(adji_mul(set->count, set->dim), text ? 2 : adji_type_size(set->type));
}

static adj_status check_format(const adj_dataset *set, const char *path, const char *format) {
  static const char *const known[] = {"npy", "csv", "tsv", "fvecs", "fbin", "raw"};
  bool found = false;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    found = found || !strcmp(format, known[i]);
  if (!found)
    return adji_fail(ADJ_E_ARGUMENT, "%s: \"%s\" is not a format for points (npy, csv, tsv, fvecs, fbin, raw)", path,
                     format);
  if (set->type == ADJ_F64 && (!strcmp(format, "fvecs") || !strcmp(format, "fbin")))
    return adji_fail(ADJ_E_ARGUMENT, "%s: %s holds f32 and the points are f64; write npy, or read them as f32", path,
                     format);
  return ADJ_OK;
}

adj_status adj_dataset_write(const adj_dataset *dataset, const char *path, const adj_write_options *options) {
  if (!dataset || !path) return adji_fail(ADJ_E_ARGUMENT, "dataset and path: neither may be NULL");
  char ending[16];
  adj_write_options given;
  adj_write_options_init(&given, sizeof given);
  adj_status status = options ? adji_take_struct(&given, sizeof given, options, "adj_write_options") : ADJ_OK;
  if (status) return status;
  if (given.counts || given.distances)
    return adji_fail(ADJ_E_ARGUMENT, "options: counts and distances are for results of joins");
  const char *format = given.format;
  if (!format) format = strcmp(path, "-") ? adji_path_ending(path, ending) : "csv";
  status = check_format(dataset, path, format);
  if (status) return status;
  adji_output *output = NULL;
  adji_call outer = adji_call_begin(&dataset->ctx->cancels);
  status = adji_output_open(dataset->ctx, path, given.flags, &output);
  uint64_t least = least_bytes(dataset, format);
  if (!status) status = adji_outputs_check_room(&output, &least, 1);
  if (!status) status = write_as(output, dataset, format);
  status = adji_output_close(output, status);
  adji_call_set(outer);
  return status;
}

adj_status adj_dataset_save(const adj_dataset *dataset, const char *path, const char *format) {
  adj_write_options options;
  adj_write_options_init(&options, sizeof options);
  options.format = format;
  return adj_dataset_write(dataset, path, &options);
}
