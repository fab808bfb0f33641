/* SPDX-License-Identifier: MIT
 *
 * adj_dataset_open: chooses a reader by option, ending or content, runs it, and makes a dataset of the result, which
 * checks the values.
 */
#include "io/read.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "data/normalise.h"
#include "io/looks_like.h"
#include "io/read_csv.h"
#include "io/read_table.h"

typedef struct reader {
  const char *name;
  const char *endings[3]; /* without the dot */
  adji_read_fn read;
  int variant;
  bool gzip_by_magic;   /* an uncompressed file never begins like a gzip file */
  bool may_be_empty;    /* an empty file is valid: it has no points */
  bool text, has_parts; /* text: uses columns and id_column; has_parts: uses dataset */
  bool loads;           /* loads the file itself, perhaps later */
} reader;

static const reader readers[] = {
    {"npy", {"npy"}, adji_read_npy, 0, true, false, false, false, true},
    {"csv", {"csv", "txt"}, adji_read_csv, 0, true, false, true, false, false},
    {"tsv", {"tsv", "tab"}, adji_read_csv, '\t', true, false, true, false, false},
    {"fvecs", {"fvecs"}, adji_read_vecs, ADJI_F32, false, false, false, false, true},
    {"bvecs", {"bvecs"}, adji_read_vecs, ADJI_U8, false, false, false, false, true},
    {"fbin", {"fbin"}, adji_read_bin, ADJI_F32, false, false, false, false, true},
    {"u8bin", {"u8bin"}, adji_read_bin, ADJI_U8, false, false, false, false, true},
    {"i8bin", {"i8bin"}, adji_read_bin, ADJI_I8, false, false, false, false, true},
    {"raw", {"raw"}, adji_read_raw, 0, false, true, false, false, true},
    {"hdf5", {"h5", "hdf5", "hdf"}, adji_read_hdf5, 0, true, false, false, true, false},
};
enum { READERS = sizeof readers / sizeof readers[0] };

void adj_open_options_init(adj_open_options *options, size_t struct_size) {
  adj_open_options defaults = {0};
  adji_init_struct(options, struct_size, &defaults, sizeof defaults);
}

/* ---- Which reader ------------------------------------------------------------------------------- */

static const char *reader_names(char *buffer, size_t room) {
  size_t used = 0;
  for (int i = 0; i < READERS && used < room; i++)
    used += (size_t)snprintf(buffer + used, room - used, "%s%s", i ? ", " : "", readers[i].name);
  return buffer;
}

static adj_status reader_by_name(const char *name, const reader **out) {
  for (int i = 0; i < READERS; i++)
    if (!strcmp(readers[i].name, name)) {
      *out = &readers[i];
      return ADJ_OK;
    }
  char names[256];
  return adji_fail(ADJ_E_ARGUMENT, "format: \"%.40s\" is none of %s", name, reader_names(names, sizeof names));
}

static bool ends_in(const char *path, size_t length, const char *ending) {
  size_t own = strlen(ending);
  return length > own && path[length - own - 1] == '.' && !strncasecmp(path + length - own, ending, own);
}

/* The reader for the path's ending, before a final .gz; NULL if it is unknown. */
static const reader *reader_by_ending(const char *path) {
  size_t length = strlen(path);
  if (ends_in(path, length, "gz")) length -= 3;
  for (int i = 0; i < READERS; i++)
    for (int e = 0; e < 3 && readers[i].endings[e]; e++)
      if (ends_in(path, length, readers[i].endings[e])) return &readers[i];
  return NULL;
}

/* Whether the first bytes could be text: no control characters except white space. */
static bool looks_like_text(const adji_source *source) {
  size_t count;
  const unsigned char *head = adji_source_head(source, &count);
  for (size_t i = 0; i < count; i++)
    if (head[i] < ' ' && !strchr("\t\n\r\f", head[i])) return false;
  return count > 0 && !memchr(head, 0, count);
}

static adj_status reader_by_content(const adji_source *source, const adj_open_options *options, const reader **out) {
  char names[256];
  if (options->shape) return reader_by_name("raw", out);
  if (adji_source_begins(source, "\x93NUMPY", 6)) return reader_by_name("npy", out);
  if (adji_source_begins(source, "\x89HDF\r\n\x1a\n", 8)) return reader_by_name("hdf5", out);
  if (adji_source_begins(source, "PK\3\4", 4))
    return adji_fail(ADJ_E_FORMAT, "is a zip archive (perhaps .npz); points are read from a single array, as .npy");
  if (!source->size) return adji_fail(ADJ_E_FORMAT, "the file is empty");
  if (looks_like_text(source)) return reader_by_name("csv", out);
  const char *other = adji_looks_like(source);
  if (other && strcmp(other, "a binary file") != 0)
    return adji_fail(ADJ_E_FORMAT, "is in none of the formats that are read: it looks like %s", other);
  return adji_fail(ADJ_E_FORMAT, "neither its ending nor its content shows the format; it must be given: %s",
                   reader_names(names, sizeof names));
}

/* A join opens both files with the same options, so an option that has no meaning for one of them is not an error, only
 * a note. Ignored columns are a warning, because then every column is a coordinate. */
static void note_unused(const adji_source *source, const reader *r, const adj_open_options *options) {
  const struct {
    const char *name;
    bool unused;
    adj_log_level level;
  } all[] = {{"shape", options->shape && r->read != adji_read_raw, ADJ_LOG_INFO},
             {"columns", options->columns && !r->text, ADJ_LOG_WARN},
             {"id_column", options->id_column && !r->text, ADJ_LOG_INFO},
             {"dataset", options->dataset && !r->has_parts, ADJ_LOG_INFO}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i].unused)
      adji_log(source->ctx, all[i].level, "%s: %s: has no meaning for %s files and is ignored%s", source->name,
               all[i].name, r->name, all[i].level == ADJ_LOG_WARN ? ": every column is a coordinate" : "");
}

/* Coordinates may by chance begin like a gzip file, so formats without a magic number are unpacked only if the name
 * ends in .gz. */
static bool is_packed(const adji_source *source, const adj_open_options *options, const reader *r) {
  return (!r || r->gzip_by_magic) && !options->shape && adji_source_is_gzip(source);
}

static adj_status unpack(adji_source *source, const adj_open_options *options, const reader *r) {
  adj_status status = adji_source_load(source, false);
  if (!status) status = adji_source_gunzip(source);
  if (status || !is_packed(source, options, r)) return status;
  return adji_fail(ADJ_E_FORMAT, "is a gzip file within a gzip file; unpack it with gunzip first");
}

/* HDF5 opens a plain file by its path and reads what it needs. Other readers get the bytes, or load them. Only tables
 * of binary values can be mapped: text is read in several passes, which must see the same bytes. */
static adj_status load(adji_source *source, const adj_open_options *options, const reader *r) {
  if (source->plain_file && r->read == adji_read_hdf5) return ADJ_OK;
  bool mappable = adji_source_pending(source) && !r->text;
  source->may_map = mappable && !options->map;
  if (options->map && !mappable)
    adji_log(source->ctx, ADJ_LOG_INFO, "%s: map: is for regular files of binary values; this one is read",
             source->name);
  if (r->loads && !options->map) return ADJ_OK;
  return adji_source_load(source, options->map && mappable);
}

static adj_status choose_reader(adji_source *source, const adj_open_options *options, const reader **out) {
  const reader *r = NULL;
  adj_status status = options->format ? reader_by_name(options->format, &r) : ADJ_OK;
  if (status) return status;
  if (!r) r = reader_by_ending(source->path);
  if (ends_in(source->path, strlen(source->path), "gz") || is_packed(source, options, r))
    status = unpack(source, options, r);
  if (!status && !r) status = reader_by_content(source, options, &r);
  *out = r;
  return status;
}

/* ---- Open ------------------------------------------------------------------------------------------- */

static void free_parts(adj_ctx *ctx, const adji_dataset_parts *parts) {
  adj_dataset shell = {.ctx = ctx, .owner = parts->owner, .owner_bytes = parts->owner_bytes};
  if (parts->release) parts->release(&shell);
  adji_free(&ctx->memory, parts->label_text);
  adji_free(&ctx->memory, parts->label_ends);
  adji_free(&ctx->memory, parts->columns);
}

static adj_status read_parts(adji_source *source, const adj_open_options *options, adji_dataset_parts *parts) {
  const reader *r;
  adj_status status = choose_reader(source, options, &r);
  if (status) return status;
  note_unused(source, r, options);
  if (options->parts && (r->text || !source->plain_file))
    return adji_fail(ADJ_E_UNSUPPORTED, "parts: %s can only be read as a whole",
                     r->text ? "text" : "what is packed or comes through a pipe");
  status = load(source, options, r);
  if (status) return status;
  if (!source->size && !r->may_be_empty) return adji_fail(ADJ_E_FORMAT, "the file is empty");
  uint64_t begin = adji_now_ns();
  status = r->read(source, options, r->variant, parts);
  if (!status) adji_trace(source->ctx, "read", 0, begin, parts->count);
  return status;
}

static void suggest_mapping(void) {
  char said[512];
  snprintf(said, sizeof said, "%s", adj_last_error());
  adji_fail(ADJ_E_MEMORY, "%s; a mapped file takes none of it (--map, or map in adj_open_options)", said);
}

adj_status adji_read_source(adji_source *source, const adj_open_options *options, adj_dataset **out) {
  adji_dataset_parts parts = {0};
  adj_dataset *set = NULL;
  adj_status status = read_parts(source, options, &parts);
  if (!status) {
    status = adji_dataset_adopt(source->ctx, &parts, &set);
    if (status) free_parts(source->ctx, &parts);
  }
  if (!status || status == ADJ_E_DATA) { /* values that are not finite may come from a change of the file */
    adj_status changed = adji_source_check_file(source);
    if (changed) status = changed;
  }
  if (!status && options->normalise) status = adji_dataset_normalise(set, options->normalise_like);
  if (status)
    adj_dataset_destroy(set);
  else
    *out = set;
  if (status == ADJ_E_MEMORY && source->may_map) suggest_mapping();
  if (status && status != ADJ_CANCELLED) adji_fail_in(status, source->name);
  return status;
}

adj_status adj_dataset_open(adj_ctx *ctx, const char *path, const adj_open_options *options, adj_dataset **out) {
  adj_open_options given;
  adj_open_options_init(&given, sizeof given);
  if (!ctx || !path || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, path and out: none may be NULL");
  if (options) {
    adj_status status = adji_take_struct(&given, sizeof given, options, "adj_open_options");
    if (status) return status;
  }
  if (given.metric > ADJ_HAVERSINE) return adji_fail(ADJ_E_ARGUMENT, "metric: %d is no metric", (int)given.metric);
  if (given.type != 0 && given.type != ADJ_F32 && given.type != ADJ_F64)
    return adji_fail(ADJ_E_ARGUMENT, "type: %d is neither 0, ADJ_F32 nor ADJ_F64", (int)given.type);
  if (given.normalise > 1) return adji_fail(ADJ_E_ARGUMENT, "normalise: %u is neither 0 nor 1", given.normalise);
  if (given.normalise_like && !given.normalise)
    return adji_fail(ADJ_E_ARGUMENT, "normalise_like: is for normalise = 1 only");
  if (given.parts && given.part >= given.parts)
    return adji_fail(ADJ_E_ARGUMENT, "part: %u is not below the %u parts", given.part, given.parts);
  if (given.parts && given.normalise)
    return adji_fail(ADJ_E_UNSUPPORTED, "parts: normalised points can only be read as a whole");
  if (given.map > 1) return adji_fail(ADJ_E_ARGUMENT, "map: %u is neither 0 nor 1", given.map);
  adji_source source;
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = adji_source_open(ctx, path, &source);
  if (!status) {
    status = adji_read_source(&source, &given, out);
    adji_source_close(&source);
  }
  adji_call_set(outer);
  return status;
}
