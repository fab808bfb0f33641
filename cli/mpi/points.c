/* SPDX-License-Identifier: MIT
 *
 * The points of all ranks. Every rank reads its rows of a file. Files that can only be read as a whole, such as text or
 * pipes, are read by rank 0, which sends each rank its rows. In both cases rank i has the i-th part of the rows, so
 * global ids are row numbers.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "../join_points.h"
#include "../message.h"
#include "../options.h"
#include "../text.h"
#include "cluster.h"

/* Bytes of one message: their number must fit an int. */
enum { MESSAGE_BYTES = 1 << 28, ROW_TAG = 1 };

void cluster_broadcast(cluster_job *job, void *bytes, uint64_t count) {
  for (uint64_t at = 0; at < count; at += MESSAGE_BYTES)
    MPI_Bcast((char *)bytes + at, (int)(count - at < MESSAGE_BYTES ? count - at : MESSAGE_BYTES), MPI_BYTE, 0,
              job->comm);
}

void cluster_points_free(cluster_points *points) {
  adj_dataset_destroy(points->set);
  if (points->whole) adj_dataset_destroy(points->whole);
  free(points->rows);
  free(points->names);
  free(points->name_ends);
  *points = (cluster_points){.path = points->path};
}

/* ---- Every rank reads its rows ----------------------------------------------------------------------- */

static bool is_regular(cluster_job *job, const char *path) {
  struct stat about;
  int regular = strcmp(path, "-") && !stat(path, &about) && S_ISREG(about.st_mode);
  MPI_Bcast(&regular, 1, MPI_INT, 0, job->comm);
  return regular;
}

/* *whole: whether the file can only be read as a whole. */
static adj_status open_part(cluster_job *job, cluster_points *points, bool *whole) {
  adj_open_options options = points_options(job->request);
  options.part = (uint32_t)job->rank;
  options.parts = (uint32_t)job->ranks;
  *whole = options.normalise || !is_regular(job, points->path);
  if (*whole) return ADJ_OK;
  adj_status status = adj_dataset_open(job->ctx, points->path, &options, &points->set);
  int unsupported = status == ADJ_E_UNSUPPORTED, any;
  MPI_Allreduce(&unsupported, &any, 1, MPI_INT, MPI_MAX, job->comm);
  if (any) {
    adj_dataset_destroy(points->set);
    points->set = NULL;
    *whole = true;
    return ADJ_OK;
  }
  status = cluster_agree(job, status, NULL);
  if (!status) adj_dataset_part(points->set, &points->first, &points->total);
  return status;
}

/* ---- Rank 0 reads and sends ---------------------------------------------------------------------------- */

typedef struct shape {
  uint64_t count, type, dim;
} shape;

/* Part i of n rows in p parts, divided as by adj_open_options.parts. */
static void part_of(uint64_t n, int p, int i, uint64_t *first, uint64_t *count) {
  uint64_t each = n / (uint64_t)p, rest = n % (uint64_t)p, before = (uint64_t)i < rest ? (uint64_t)i : rest;
  *first = each * (uint64_t)i + before;
  *count = each + ((uint64_t)i < rest);
}

static uint64_t row_bytes(const shape *s) {
  return s->dim * (s->type == ADJ_F64 ? 8 : 4);
}

static void copy_rows(const adj_dataset *set, const shape *s, uint64_t first, uint64_t count, char *to) {
  for (uint64_t i = 0; i < count; i++)
    (void)adj_dataset_row(set, first + i, to + i * row_bytes(s)); /* the row exists */
}

/* Sends rows from rank 0 to a rank, through a buffer. */
static void send_rows(cluster_job *job, const adj_dataset *whole, const shape *s, int to, char *buffer, uint64_t room) {
  uint64_t first, count, each = room / row_bytes(s);
  part_of(s->count, job->ranks, to, &first, &count);
  for (uint64_t at = 0; at < count; at += each) {
    uint64_t many = count - at < each ? count - at : each;
    copy_rows(whole, s, first + at, many, buffer);
    MPI_Send(buffer, (int)(many * row_bytes(s)), MPI_BYTE, to, ROW_TAG, job->comm);
  }
}

static void receive_rows(cluster_job *job, const shape *s, uint64_t count, char *to, uint64_t room) {
  uint64_t each = room / row_bytes(s);
  for (uint64_t at = 0; at < count; at += each) {
    uint64_t many = count - at < each ? count - at : each;
    MPI_Recv(to + at * row_bytes(s), (int)(many * row_bytes(s)), MPI_BYTE, 0, ROW_TAG, job->comm, MPI_STATUS_IGNORE);
  }
}

static adj_status scatter(cluster_job *job, cluster_points *points, const shape *s) {
  const uint64_t least = row_bytes(s), room = least > (4 << 20) ? least : 4 << 20;
  uint64_t own_count;
  part_of(s->count, job->ranks, job->rank, &points->first, &own_count);
  points->total = s->count;
  points->rows = malloc(own_count * row_bytes(s) + 1);
  char *buffer = job->rank ? NULL : malloc(room);
  adj_status status = cluster_need(job, points->rows && (job->rank || buffer) ? points : NULL, "points");
  if (!status && !job->rank) {
    copy_rows(points->whole, s, 0, own_count, points->rows);
    for (int to = 1; to < job->ranks; to++)
      send_rows(job, points->whole, s, to, buffer, room);
  } else if (!status) {
    receive_rows(job, s, own_count, points->rows, room);
  }
  free(buffer);
  if (status) return status;
  adj_points given;
  adj_points_init(&given, sizeof given);
  given.type = (adj_type)s->type;
  given.dim = (uint32_t)s->dim;
  given.count = own_count;
  given.data = points->rows;
  given.ownership = ADJ_BORROW;
  return cluster_agree(job, adj_dataset_create(job->ctx, &given, &points->set), NULL);
}

static adj_status open_whole(cluster_job *job, cluster_points *points, const adj_dataset *like) {
  shape s = {0};
  adj_status status = ADJ_OK;
  if (!job->rank) {
    status = points_open(job->ctx, job->request, points->path, like, &points->whole);
    if (!status)
      s = (shape){adj_dataset_count(points->whole), adj_dataset_type(points->whole), adj_dataset_dim(points->whole)};
  }
  status = cluster_agree(job, status, NULL);
  if (status) return status;
  MPI_Bcast(&s, 3, MPI_UINT64_T, 0, job->comm);
  if (row_bytes(&s) > MESSAGE_BYTES)
    return cluster_agree(job, ADJ_E_UNSUPPORTED, "rows of more than 256 MiB must be in a file that is read by parts");
  return scatter(job, points, &s);
}

/* ---- Labels --------------------------------------------------------------------------------------------- */

static bool writes_text(const join_request *request) {
  const char *dot = request->output ? strrchr(request->output, '.') : NULL;
  const char *format = request->format ? request->format : dot ? dot + 1 : "";
  return !strcasecmp(format, "csv") || !strcasecmp(format, "tsv");
}

static uint64_t collect_names(cluster_points *points) {
  uint64_t bytes = 0;
  size_t length = 0;
  for (uint64_t i = 0; i < points->total; i++) {
    if (adj_dataset_label(points->whole, i, &length)) bytes += length;
    points->name_ends[i] = bytes;
  }
  points->names = malloc(bytes + 1);
  for (uint64_t i = 0; points->names && i < points->total; i++) {
    const char *label = adj_dataset_label(points->whole, i, &length);
    if (label) memcpy(points->names + points->name_ends[i] - length, label, length);
  }
  return bytes;
}

/* Text output names any row of either set, so every rank gets all labels. */
static adj_status share_names(cluster_job *job, cluster_points *points) {
  size_t length;
  int named = !job->rank && points->whole && writes_text(job->request) && points->total &&
              adj_dataset_label(points->whole, 0, &length);
  MPI_Bcast(&named, 1, MPI_INT, 0, job->comm);
  if (!named) return ADJ_OK;
  points->name_ends = calloc(points->total + 1, sizeof *points->name_ends);
  adj_status status = cluster_need(job, points->name_ends, "labels");
  if (status) return status;
  uint64_t bytes = job->rank ? 0 : collect_names(points);
  MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, job->comm);
  if (job->rank) points->names = malloc(bytes + 1);
  status = cluster_need(job, points->names, "labels");
  if (status) return status;
  cluster_broadcast(job, points->name_ends, points->total * sizeof *points->name_ends);
  cluster_broadcast(job, points->names, bytes);
  return ADJ_OK;
}

/* ---- Both sets -------------------------------------------------------------------------------------------- */

static adj_status open_points(cluster_job *job, cluster_points *points, const adj_dataset *like) {
  bool whole;
  adj_status status = open_part(job, points, &whole);
  if (!status && whole) status = open_whole(job, points, like);
  return status ? status : share_names(job, points);
}

adj_status cluster_open(cluster_job *job) {
  const join_request *request = job->request;
  double began = seconds_now();
  job->left.path = request->left;
  job->right.path = request->right;
  bool right_first = request->right && request->normalise; /* it determines the scale of both */
  adj_status status = right_first ? open_points(job, &job->right, NULL) : ADJ_OK;
  if (!status) status = open_points(job, &job->left, job->right.whole);
  if (!status && request->right && !right_first) status = open_points(job, &job->right, NULL);
  if (!status && request->right)
    status = cluster_agree(job, points_widen(request, &job->left.set, &job->right.set), NULL);
  job->read_s = seconds_now() - began;
  trace_phase(job->trace, "read", began);
  return status;
}

/* ---- Checks ----------------------------------------------------------------------------------------------- */

/* Rank 0 knows what messages need: all columns, or the shape. */
static int check_sets(const cluster_job *job) {
  const cluster_points *const both[] = {&job->left, &job->right};
  for (int i = 0; i < 1 + cluster_two_sets(job); i++)
    if (!both[i]->total) {
      message_print("%s: has no points\n", strcmp(both[i]->path, "-") ? both[i]->path : "standard input");
      return EXIT_FAILED;
    }
  if (!cluster_two_sets(job)) return EXIT_DONE;
  return points_match(job->request, job->left.whole ? job->left.whole : job->left.set,
                      job->right.whole ? job->right.whole : job->right.set);
}

static adj_status check_places(cluster_job *job, const cluster_points *points) {
  char text[MESSAGE_ROOM] = "";
  bool wrong = points_misplaced(job->request, points->path, points->set, text);
  return cluster_agree(job, wrong ? ADJ_E_DATA : ADJ_OK, text);
}

int cluster_check_points(cluster_job *job) {
  int code = job->rank ? EXIT_DONE : check_sets(job);
  MPI_Bcast(&code, 1, MPI_INT, 0, job->comm);
  if (code) return code;
  adj_status status = check_places(job, &job->left);
  if (!status && cluster_two_sets(job)) status = check_places(job, &job->right);
  if (status) return cluster_failed(job, status);
  if (!job->request->quiet)
    points_describe(job->request, job->left.whole ? job->left.whole : job->left.set,
                    !cluster_two_sets(job) ? NULL
                    : job->right.whole     ? job->right.whole
                                           : job->right.set);
  return EXIT_DONE;
}
