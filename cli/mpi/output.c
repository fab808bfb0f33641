/* SPDX-License-Identifier: MIT
 *
 * The result as a file. The ranks write their rows in parallel into one file, or with --split each rank into its own
 * file. No file appears before every rank has written all its rows.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../json.h"
#include "../options.h"
#include "../text.h"
#include "cluster.h"

typedef struct writing {
  cluster_job *job;
  adj_share *share;
  char *path, *distances; /* --split: paths of this rank's files */
  adj_share_size own;
  bool measured; /* own is complete */
} writing;

/* ---- Names of files of one rank ---------------------------------------------------------------------- */

/* "out.npz" of rank 3 of 8: "out.00003-of-00008.npz". */
static char *split_path(const cluster_job *job, const char *path, int rank) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
  if (!dot || (slash && dot < slash)) dot = path + strlen(path);
  size_t room = strlen(path) + 48;
  char *text = malloc(room);
  if (text) snprintf(text, room, "%.*s.%05d-of-%05d%s", (int)(dot - path), path, rank, job->ranks, dot);
  return text;
}

/* "out.npz": "out.json". */
static char *manifest_path(const char *path) {
  const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
  if (!dot || (slash && dot < slash)) dot = path + strlen(path);
  size_t room = strlen(path) + 8;
  char *text = malloc(room);
  if (text) snprintf(text, room, "%.*s.json", (int)(dot - path), path);
  return text;
}

/* ---- The share of this rank ---------------------------------------------------------------------------- */

static void describe(const cluster_job *job, adj_share_options *options) {
  const join_request *request = job->request;
  const cluster_points *right = cluster_two_sets(job) ? &job->right : &job->left;
  adj_share_options_init(options, sizeof *options);
  options->kind = request->kind;
  options->type = adj_dataset_type(job->left.set);
  options->k = (uint32_t)(request->kind == ADJ_KNN ? request->k : 0);
  options->flags = request->distance ? ADJ_WITH_DISTANCE : 0;
  options->left_count = job->left.total;
  options->right_count = right->total;
  options->left_names = (adj_share_names){job->left.names, job->left.name_ends};
  options->right_names = (adj_share_names){right->names, right->name_ends};
}

static adj_status create_share(writing *w) {
  cluster_job *job = w->job;
  const join_request *request = job->request;
  adj_share_options options;
  adj_write_options write;
  describe(job, &options);
  adj_write_options_init(&write, sizeof write);
  write.format = request->format;
  write.counts = request->per_point_counts;
  write.flags = join_write_flags(request->no_clobber, request->no_sync);
  if (request->split) {
    w->path = split_path(job, request->output, job->rank);
    if (request->distances) w->distances = split_path(job, request->distances, job->rank);
    adj_status status = cluster_need(job, w->path && (!request->distances || w->distances) ? w : NULL, "paths");
    if (status) return status;
  }
  write.distances = w->distances ? w->distances : request->distances;
  adj_status status = adj_share_create(job->ctx, w->path ? w->path : request->output, &write, &options, &w->share);
  return cluster_agree(job, status, NULL);
}

/* Sums over the ranks before this one, and over all. */
static void add_up(const cluster_job *job, const adj_share_size *own, adj_share_size *before, adj_share_size *all) {
  const int count = (int)(sizeof *own / sizeof(uint64_t));
  *before = (adj_share_size){0};
  MPI_Exscan(own, before, count, MPI_UINT64_T, MPI_SUM, job->comm);
  if (!job->rank) *before = (adj_share_size){0}; /* MPI_Exscan leaves it undefined */
  MPI_Allreduce(own, all, count, MPI_UINT64_T, MPI_SUM, job->comm);
}

/* Opens the part files of rank 0 by their paths. */
static adj_status join_part(writing *w) {
  cluster_job *job = w->job;
  char *paths[2] = {NULL, NULL};
  adj_status status = ADJ_OK;
  for (int i = 0; i < 2; i++) {
    const char *own = job->rank ? NULL : adj_share_part(w->share, (uint32_t)i);
    uint64_t bytes = own ? strlen(own) + 1 : 0;
    MPI_Bcast(&bytes, 1, MPI_UINT64_T, 0, job->comm);
    if (!bytes) continue;
    paths[i] = malloc(bytes);
    status = cluster_need(job, paths[i], "paths");
    if (status) break;
    if (own) memcpy(paths[i], own, bytes);
    cluster_broadcast(job, paths[i], bytes);
  }
  if (!status) status = cluster_agree(job, job->rank ? adj_share_join(w->share, paths[0], paths[1]) : ADJ_OK, NULL);
  free(paths[0]);
  free(paths[1]);
  return status;
}

static void watch_parts(const writing *w) {
  for (int i = 0; i < 2; i++)
    cluster_signals_part(i, adj_share_part(w->share, (uint32_t)i));
}

static adj_status place_and_begin(writing *w) {
  cluster_job *job = w->job;
  adj_share_size none = {0}, before, all;
  add_up(job, &w->own, &before, &all);
  bool split = job->request->split;
  adj_status status =
      split ? adj_share_place(w->share, 0, 1, &none, &w->own, &w->own)
            : adj_share_place(w->share, (uint32_t)job->rank, (uint32_t)job->ranks, &before, &w->own, &all);
  cluster_signals_hold();
  if (!status && (split || !job->rank)) status = adj_share_begin(w->share);
  if (split || !job->rank) watch_parts(w);
  cluster_signals_release();
  status = cluster_agree(job, status, NULL);
  return status || split ? status : join_part(w);
}

/* ---- Rows ------------------------------------------------------------------------------------------------ */

static adj_status measure_rows(void *user, const adj_share_rows *rows) {
  writing *w = user;
  return adj_share_measure(w->share, rows, &w->own);
}

static adj_status begin_rows(void *user, uint64_t entries) {
  writing *w = user;
  if (!w->measured) w->own.entries = entries;
  w->own.rows = adj_dataset_count(w->job->left.set);
  return place_and_begin(w);
}

static adj_status put_rows(void *user, const adj_share_rows *rows) {
  const writing *w = user;
  return adj_share_write(w->share, rows);
}

static adj_status write_rows(writing *w, const cluster_source *source) {
  cluster_job *job = w->job;
  adj_status status = ADJ_OK;
  if (adj_share_measures(w->share)) {
    cluster_sink measure = {w, NULL, measure_rows};
    status = source->run(job, source, &measure);
    w->measured = true;
  }
  cluster_sink sink = {w, begin_rows, put_rows};
  return status ? status : source->run(job, source, &sink);
}

/* ---- The end ----------------------------------------------------------------------------------------------- */

static void put_file(json_writer *json, const char *name, const char *path) {
  const char *slash = strrchr(path, '/'); /* the files are in the folder of the manifest */
  json_raw(json, "\"%s\": ", name);
  json_text(json, slash ? slash + 1 : path);
}

static adj_status save_manifest(const writing *w, const adj_share_size *sizes) {
  const cluster_job *job = w->job;
  const join_request *request = job->request;
  json_writer json = {0};
  uint64_t first = 0;
  json_raw(&json, "{\n  \"adjoin\": ");
  json_text(&json, adj_version_string());
  json_raw(&json, ",\n  \"command\": ");
  json_text(&json, job->command->name);
  json_raw(&json, ",\n  \"rows\": %llu,\n  \"columns\": %llu,\n  \"files\": [", (unsigned long long)job->left.total,
           (unsigned long long)cluster_right_count(job));
  adj_status status = ADJ_OK;
  for (int r = 0; !status && r < job->ranks; r++) {
    char *path = split_path(job, request->output, r);
    char *distances = request->distances ? split_path(job, request->distances, r) : NULL;
    if (!path || (request->distances && !distances)) status = ADJ_E_MEMORY;
    json_raw(&json, "%s\n    {", r ? "," : "");
    if (path) put_file(&json, "file", path);
    if (distances) json_raw(&json, ", ");
    if (distances) put_file(&json, "distances", distances);
    json_raw(&json, ", \"first_row\": %llu, \"rows\": %llu, \"entries\": %llu}", (unsigned long long)first,
             (unsigned long long)sizes[r].rows, (unsigned long long)sizes[r].entries);
    first += sizes[r].rows;
    free(path);
    free(distances);
  }
  json_raw(&json, "\n  ]\n}\n");
  char *path = manifest_path(request->output);
  if (json.failed || !path) status = ADJ_E_MEMORY;
  if (!status)
    status =
        adj_text_save(job->ctx, path, json.text, json.length, join_write_flags(request->no_clobber, request->no_sync));
  free(path);
  free(json.text);
  return status;
}

/* The files of all ranks appear, and then the manifest; or none of them. */
static adj_status complete_split(writing *w, const adj_share_sums *sums) {
  cluster_job *job = w->job;
  adj_share_size *sizes = job->rank ? NULL : calloc((size_t)job->ranks, sizeof *sizes);
  adj_status status = cluster_need(job, job->rank || sizes ? w : NULL, "the list of files");
  if (!status) {
    MPI_Gather(&w->own, sizeof w->own, MPI_BYTE, sizes, sizeof w->own, MPI_BYTE, 0, job->comm);
    status = cluster_agree(job, adj_share_complete(w->share, sums), NULL);
    adj_status saved = !status && sizes ? save_manifest(w, sizes) : ADJ_OK;
    const char *text = saved == ADJ_E_MEMORY ? "no memory for the list of files" : NULL;
    if (!status) status = cluster_agree(job, saved, text);
    if (status) adj_share_take_back(w->share);
  }
  free(sizes);
  return status;
}

static adj_status complete_one(writing *w, const adj_share_sums *sums) {
  cluster_job *job = w->job;
  adj_share_sums *all = job->rank ? NULL : calloc((size_t)job->ranks, sizeof *all);
  adj_status status = cluster_need(job, job->rank || all ? w : NULL, "checksums");
  if (!status) {
    MPI_Gather(sums, sizeof *sums, MPI_BYTE, all, sizeof *sums, MPI_BYTE, 0, job->comm);
    status = cluster_agree(job, job->rank ? ADJ_OK : adj_share_complete(w->share, all), NULL);
  }
  free(all);
  return status;
}

static adj_status complete(writing *w) {
  cluster_job *job = w->job;
  adj_share_sums sums = {{0}, {0}, 0};
  adj_status status = cluster_agree(job, adj_share_finish(w->share, &sums), NULL);
  if (status) return status;
  return job->request->split ? complete_split(w, &sums) : complete_one(w, &sums);
}

static void end_writing(writing *w) {
  adj_share_destroy(w->share);
  cluster_signals_part(0, NULL);
  cluster_signals_part(1, NULL);
  free(w->path);
  free(w->distances);
}

adj_status cluster_write(cluster_job *job, const cluster_source *source) {
  writing w = {.job = job};
  double began = seconds_now();
  adj_status status = create_share(&w);
  if (!status) status = write_rows(&w, source);
  if (!status) status = complete(&w);
  end_writing(&w);
  job->write_s += seconds_now() - began;
  trace_phase(job->trace, "write", began);
  return status;
}

adj_status cluster_write_counts(cluster_job *job, const uint64_t *counts) {
  writing w = {.job = job};
  double began = seconds_now();
  adj_share_rows rows = {.first_row = job->left.first, .row_count = adj_dataset_count(job->left.set), .counts = counts};
  adj_status status = create_share(&w);
  if (!status && adj_share_measures(w.share))
    status = cluster_agree(job, adj_share_measure(w.share, &rows, &w.own), NULL);
  w.own.rows = rows.row_count;
  if (!status) status = place_and_begin(&w);
  if (!status) status = cluster_agree(job, adj_share_write(w.share, &rows), NULL);
  if (!status) status = complete(&w);
  end_writing(&w);
  job->write_s += seconds_now() - began;
  trace_phase(job->trace, "write", began);
  return status;
}
