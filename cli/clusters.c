/* SPDX-License-Identifier: MIT
 *
 * Clusters: the library finds them; they are counted, and written as an array or as text. A file is first built in
 * memory.
 */
#include "clusters.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

const char *clusters_format(const join_request *request) {
  static const char *const formats[] = {"npy", "csv", "tsv"};
  const char *dot = strrchr(request->output, '.'), *name = request->format;
  if (!name) name = strcmp(request->output, "-") ? (dot ? dot + 1 : "") : "csv";
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (!strcasecmp(name, formats[i])) return formats[i];
  return NULL;
}

adj_status clusters_find(adj_ctx *ctx, const join_request *request, const adj_join_spec *spec,
                         const adj_dataset *points, const adj_run_control *control, adj_stats *stats, clusters *out) {
  out->points = adj_dataset_count(points);
  out->labels = malloc((out->points + 1) * sizeof *out->labels);
  out->no_memory = !out->labels;
  if (out->no_memory) return ADJ_E_MEMORY;
  adj_dbscan_job job;
  adj_dbscan_job_init(&job, sizeof job);
  job.min_points = request->min_points;
  job.labels = out->labels;
  job.clusters = &out->many;
  adj_status status = adj_dbscan(ctx, spec, points, &job, control, stats);
  for (uint64_t i = 0; !status && i < out->points; i++)
    out->noise += out->labels[i] < 0;
  return status;
}

void clusters_free(clusters *found) {
  free(found->labels);
  found->labels = NULL;
}

/* ---- Files ---------------------------------------------------------------------------------------- */

/* An array of int64, in version 1.0 of the format. The header is padded to a multiple of 64 bytes. */
static size_t put_npy(const clusters *found, char *to) {
  enum { PREFIX = 10, HEADER = 128 };
  char text[HEADER];
  int length = snprintf(text, sizeof text, "{'descr': '<i8', 'fortran_order': False, 'shape': (%llu,), }",
                        (unsigned long long)found->points);
  memcpy(to, "\x93NUMPY\x01\x00", 8);
  to[8] = (char)(HEADER - PREFIX);
  to[9] = 0;
  memset(to + PREFIX, ' ', HEADER - PREFIX);
  memcpy(to + PREFIX, text, (size_t)length);
  to[HEADER - 1] = '\n';
  for (uint64_t i = 0; i < found->points; i++)
    for (int byte = 0; byte < 8; byte++)
      to[HEADER + 8 * i + (uint64_t)byte] = (char)((uint64_t)found->labels[i] >> (8 * byte));
  return HEADER + 8 * found->points;
}

/* Whether a name needs quotes, because a reader would misread it, as in the files of the library (docs/formats.md). */
static bool needs_quotes(const char *name, size_t length, char separator) {
  if (!length || name[0] == ' ' || name[0] == '#' || name[length - 1] == ' ') return true;
  for (size_t i = 0; i < length; i++)
    if (name[i] == separator || strchr("\"\n\r\t", name[i])) return true;
  return false;
}

static char *put_name(const char *name, size_t length, char separator, char *to) {
  bool quoted = needs_quotes(name, length, separator);
  if (quoted) *to++ = '"';
  for (size_t i = 0; i < length; i++) {
    if (name[i] == '"') *to++ = '"';
    *to++ = name[i];
  }
  if (quoted) *to++ = '"';
  return to;
}

static size_t put_text(const clusters *found, const adj_dataset *points, char separator, char *to) {
  char *begin = to;
  to += sprintf(to, "id%ccluster\n", separator);
  for (uint64_t i = 0; i < found->points; i++) {
    size_t length;
    const char *name = adj_dataset_label(points, i, &length);
    if (name)
      to = put_name(name, length, separator, to);
    else
      to += sprintf(to, "%llu", (unsigned long long)i);
    to += sprintf(to, "%c%lld\n", separator, (long long)found->labels[i]);
  }
  return (size_t)(to - begin);
}

/* An upper bound of the file's bytes: a number and a label have up to 20 characters each. */
static uint64_t most_bytes(const clusters *found, const adj_dataset *points) {
  uint64_t bytes = 256 + 48 * found->points;
  size_t length;
  for (uint64_t i = 0; i < found->points && adj_dataset_label(points, i, &length); i++)
    bytes += 2 * (uint64_t)length;
  return bytes;
}

adj_status clusters_write(adj_ctx *ctx, const join_request *request, const adj_dataset *points, uint32_t flags,
                          clusters *found) {
  const char *format = clusters_format(request);
  char *bytes = malloc(most_bytes(found, points));
  found->no_memory = !bytes;
  if (found->no_memory) return ADJ_E_MEMORY;
  uint64_t length = strcmp(format, "npy") ? put_text(found, points, strcmp(format, "tsv") ? ',' : '\t', bytes)
                                          : put_npy(found, bytes);
  adj_status status = adj_text_save(ctx, request->output, bytes, length, flags);
  free(bytes);
  return status;
}
