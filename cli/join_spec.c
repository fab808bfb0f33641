/* SPDX-License-Identifier: MIT
 *
 * Converts the request of a command to arguments of the library: options of the context, the spec of the join, paths.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "join.h"
#include "message.h"
#include "text.h"

void join_files(const join_request *request, const char **files) {
  const char *const all[] = {request->left,      request->right, request->output,
                             request->distances, request->stats, request->trace};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]) *files++ = all[i];
  *files = NULL;
}

adj_status join_check_paths(const join_request *request) {
  const char *inputs[] = {request->left, request->right, NULL}, *outputs[JOIN_MOST_FILES];
  const char *const all[] = {request->output, request->distances, request->stats, request->trace};
  size_t many = 0;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i]) outputs[many++] = all[i];
  outputs[many] = NULL;
  return adj_paths_check(inputs, outputs, join_write_flags(request->no_clobber, request->no_sync));
}

static void print_log(void *user, adj_log_level level, const char *line) {
  const join_request *request = user;
  const char *files[JOIN_MOST_FILES];
  char text[MESSAGE_ROOM];
  if (request->quiet || level == ADJ_LOG_DEBUG) return;
  join_files(request, files);
  message_print("%s: %s\n", level == ADJ_LOG_WARN ? "warning" : "note", message_with_options(line, files, text));
}

void join_context(const join_request *request, trace_log *trace, int32_t *devices, adj_ctx_options *options) {
  adj_ctx_options_init(options, sizeof *options);
  options->threads = (uint32_t)request->threads;
  options->memory_limit = request->memory;
  options->device_memory_limit = request->device_memory;
  if (request->devices) {
    options->device_count = join_device_numbers(request->devices, devices);
    options->devices = devices;
  }
  options->isa = request->isa;
  options->log = print_log;
  options->log_user = (void *)(uintptr_t)request;
  if (trace) {
    options->trace = trace_add;
    options->trace_user = trace;
  }
}

/* ---- The join ----------------------------------------------------------------------------------- */

static void set_metric(const join_request *request, adj_join_spec *spec) {
  if (request->metric) spec->metric = (adj_metric)request->metric;
  if (!isnan(request->p)) spec->p = request->p;
  if (request->angle) spec->angle = (adj_angle)(request->angle - 1);
  if (request->unit) spec->unit = (adj_unit)(request->unit - 1);
  if (!isnan(request->sphere)) spec->sphere_radius = request->sphere;
}

bool join_spec(const join_request *request, adj_join_spec *spec) {
  adj_join_spec_init(spec, sizeof *spec);
  spec->kind = request->kind;
  set_metric(request, spec);
  if (request->backend) spec->backend = (adj_backend)(request->backend - 1);
  if (request->order) spec->order = (adj_order)(request->order - 1);
  if (!isnan(request->radius)) spec->radius = request->radius;
  spec->k = (uint32_t)request->k;
  spec->flags = (request->distance ? ADJ_WITH_DISTANCE : 0u) | (request->self ? ADJ_WITH_SELF : 0u) |
                (request->one_way ? ADJ_ONE_WAY : 0u);
  spec->algorithm = request->algorithm;
  spec->tuning = request->tuning;
  spec->system = request->system;
  if (!request->box) return true;
  spec->box_count = join_box_lengths(request->box, NULL);
  double *box = calloc(spec->box_count, sizeof *box);
  if (box) join_box_lengths(request->box, box);
  spec->box = box;
  return box != NULL;
}

/* ---- Notes --------------------------------------------------------------------------------------- */

/* Notes that rows are padded if there are fewer than k points. */
static void note_padding(const join_request *request, uint64_t points, bool two_sets) {
  uint64_t others = points - (points && !two_sets && !request->self);
  char count[32];
  if (request->kind != ADJ_KNN || request->k <= others) return;
  message_print("note: -k %llu is more than the %s point%s available: rows are padded\n",
                (unsigned long long)request->k, text_count(others, count), others == 1 ? "" : "s");
}

/* Notes lengths of 0: a decimal comma makes two lengths of one. */
static void note_box(const join_request *request) {
  double lengths[64];
  if (!request->box || strlen(request->box) > sizeof lengths / sizeof *lengths) return;
  uint32_t count = join_box_lengths(request->box, lengths);
  for (uint32_t i = 0; i < count; i++)
    if (lengths[i] == 0) message_print("note: --box: dimension %u is not periodic: its length is 0\n", i + 1);
}

void join_notes(const join_request *request, uint64_t points, bool two_sets) {
  if (request->quiet) return;
  note_padding(request, points, two_sets);
  note_box(request);
}
