/* SPDX-License-Identifier: MIT
 *
 * The key of a checkpoint. The file "checkpoint" has a line "NAME VALUE" for everything that the result depends on: the
 * version of adjoin, a checksum of the points, the options. A run that differs in a line is refused, and the message
 * shows the line.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "../json.h"
#include "../message.h"
#include "checkpoint.h"

enum { DEFAULT_BLOCKS = 16, MOST_KEY = 1 << 16 };

/* ---- Checksum of the points ------------------------------------------------------------------------------ */

static uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

/* The checksum: a sum of hashes of the rows' bytes and positions, so that it does not depend on which rank has which
 * rows. */
static adj_status sum_points(cluster_job *job, const cluster_points *points, uint64_t *sum) {
  const adj_dataset *set = points->set;
  size_t bytes = (size_t)adj_dataset_dim(set) * (adj_dataset_type(set) == ADJ_F64 ? 8 : 4);
  char *row = calloc(1, bytes + 8);
  adj_status status = cluster_need(job, row, "a row");
  uint64_t own_sum = 0;
  for (uint64_t i = 0; !status && i < adj_dataset_count(set); i++) {
    uint64_t hash = mix(points->first + i + 1);
    (void)adj_dataset_row(set, i, row); /* the row exists */
    for (size_t at = 0; at < bytes; at += 8) {
      uint64_t word = 0;
      memcpy(&word, row + at, bytes - at < 8 ? bytes - at : 8);
      hash = mix(hash ^ word) + UINT64_C(0x9e3779b97f4a7c15);
    }
    own_sum += hash;
  }
  free(row);
  if (!status) MPI_Allreduce(&own_sum, sum, 1, MPI_UINT64_T, MPI_SUM, job->comm);
  return status;
}

/* ---- The lines --------------------------------------------------------------------------------------------- */

static void put_text(json_writer *key, const char *name, const char *value) {
  json_raw(key, "%s %s\n", name, value ? value : "-");
}

static void put_points(json_writer *key, const char *name, const cluster_points *points, uint64_t sum) {
  json_raw(key, "%s %llu points of dimension %u, %s, checksum %016llx\n", name, (unsigned long long)points->total,
           adj_dataset_dim(points->set), adj_dataset_type(points->set) == ADJ_F64 ? "f64" : "f32",
           (unsigned long long)sum);
}

static void put_real(json_writer *key, const char *name, double value) {
  json_raw(key, "%s ", name);
  if (isnan(value))
    json_raw(key, "-\n");
  else
    json_raw(key, "%.17g\n", value);
}

static void put_lines(const checkpoint *c, json_writer *key, uint64_t left_sum, uint64_t right_sum) {
  static const char *const metrics[] = {"l2", "l2", "l1", "linf", "lp", "cosine", "dot", "haversine"};
  static const char *const orders[] = {"id", "id", "distance", "any"};
  const cluster_job *job = c->job;
  const join_request *request = job->request;
  put_text(key, "adjoin", adj_version_string());
  put_text(key, "command", job->command->name);
  put_points(key, "left", &job->left, left_sum);
  if (cluster_two_sets(job))
    put_points(key, "right", &job->right, right_sum);
  else
    put_text(key, "right", NULL);
  put_text(key, "--metric", metrics[request->metric]);
  put_real(key, "--radius", request->radius);
  json_raw(key, "-k %llu\n", (unsigned long long)(request->kind == ADJ_KNN ? request->k : 0));
  put_real(key, "--p", request->p);
  put_text(key, "--box", request->box);
  json_raw(key, "--angle %d\n--unit %d\n", request->angle > 1, request->unit > 1 ? request->unit - 1 : 0);
  put_real(key, "--sphere", request->sphere);
  put_text(key, "--order", orders[request->order]);
  put_text(key, "--self", request->self ? "yes" : "no");
  put_text(key, "--one-way", request->one_way ? "yes" : "no");
  put_text(key, "distances", request->distance ? "yes" : "no");
  json_raw(key, "--checkpoint-blocks %llu\n", (unsigned long long)c->blocks);
}

/* ---- The file ------------------------------------------------------------------------------------------------ */

static void path_of(const checkpoint *c, char *path, size_t room) {
  snprintf(path, room, "%s/checkpoint", c->folder);
}

/* The key in the folder; NULL: there is none. */
static char *read_key(const checkpoint *c) {
  char path[4096], *text = NULL;
  path_of(c, path, sizeof path);
  FILE *file = fopen(path, "r");
  if (!file) return NULL;
  text = calloc(1, MOST_KEY);
  if (text && !fread(text, 1, MOST_KEY - 1, file)) text[0] = 0;
  fclose(file);
  return text;
}

/* Writes a message with the first line that differs. False: no line does. */
static bool find_difference(const char *stored, const char *here, char *message, const char *folder) {
  while (*stored || *here) {
    size_t a = strcspn(stored, "\n"), b = strcspn(here, "\n");
    if (a != b || strncmp(stored, here, a) != 0) {
      snprintf(message, MESSAGE_ROOM, "%s: is a checkpoint of another run: there \"%.*s\", here \"%.*s\"", folder,
               (int)a, stored, (int)b, here);
      return true;
    }
    stored += a + (stored[a] != 0);
    here += b + (here[b] != 0);
  }
  return false;
}

/* An existing checkpoint determines the number of blocks, unless the request does. */
static void choose_blocks(checkpoint *c, const char *stored) {
  uint64_t asked = c->job->request->checkpoint_blocks;
  const char *line = stored ? strstr(stored, "--checkpoint-blocks ") : NULL;
  c->blocks = asked ? asked : line ? strtoull(line + strlen("--checkpoint-blocks "), NULL, 10) : DEFAULT_BLOCKS;
  if (!c->blocks) c->blocks = DEFAULT_BLOCKS;
}

static adj_status open_folder(checkpoint *c, uint64_t left_sum, uint64_t right_sum, char *message) {
  json_writer key = {0};
  char path[4096];
  if (mkdir(c->folder, 0777) && errno != EEXIST) {
    snprintf(message, MESSAGE_ROOM, "%s: cannot be made: %s", c->folder, strerror(errno));
    return ADJ_E_IO;
  }
  char *stored = read_key(c);
  choose_blocks(c, stored);
  put_lines(c, &key, left_sum, right_sum);
  path_of(c, path, sizeof path);
  adj_status status = ADJ_OK;
  if (key.failed) {
    snprintf(message, MESSAGE_ROOM, "no memory for the checkpoint");
    status = ADJ_E_MEMORY;
  } else if (stored) {
    if (find_difference(stored, key.text, message, c->folder)) status = ADJ_E_DATA;
  } else {
    status = adj_text_save(c->job->ctx, path, key.text, key.length, 0);
    if (status) snprintf(message, MESSAGE_ROOM, "%s", adj_last_error());
  }
  free(stored);
  free(key.text);
  return status;
}

adj_status checkpoint_open(checkpoint *c) {
  cluster_job *job = c->job;
  uint64_t left_sum = 0, right_sum = 0;
  char message[MESSAGE_ROOM] = "";
  adj_status status = sum_points(job, &job->left, &left_sum);
  if (!status && cluster_two_sets(job)) status = sum_points(job, &job->right, &right_sum);
  if (status) return status;
  status = cluster_agree(job, job->rank ? ADJ_OK : open_folder(c, left_sum, right_sum, message), message);
  MPI_Bcast(&c->blocks, 1, MPI_UINT64_T, 0, job->comm);
  return status;
}
