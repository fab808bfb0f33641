/* SPDX-License-Identifier: MIT
 *
 * --checkpoint: the join, block after block of left rows. A block is a join of its rows with all right points, so a
 * self-join needs a step here that removes each row from its own neighbours. Its k nearest others are among the k + 1
 * nearest: all of them but the row itself, or but the last one if the row is not among them.
 */
#include "checkpoint.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../json.h"
#include "../message.h"
#include "../progress.h"
#include "../text.h"

/* ---- A block ------------------------------------------------------------------------------------------------ */

/* This rank's rows of a block, as a separate set. */
typedef struct block_rows {
  uint64_t first, count;
  char *coordinates;
  adj_dataset *set;
} block_rows;

static adj_status take_rows(const checkpoint *c, uint64_t block, block_rows *rows) {
  cluster_job *job = c->job;
  const adj_dataset *from = job->left.set;
  uint64_t first, end, own = job->left.first, own_end = own + adj_dataset_count(from);
  checkpoint_block(c, block, &first, &end);
  if (first < own) first = own;
  if (end > own_end) end = own_end;
  *rows = (block_rows){.first = first, .count = end > first ? end - first : 0};
  adj_points given;
  adj_points_init(&given, sizeof given);
  given.type = adj_dataset_type(from);
  given.dim = adj_dataset_dim(from);
  given.count = rows->count;
  size_t bytes = (size_t)given.dim * (given.type == ADJ_F64 ? 8 : 4);
  rows->coordinates = malloc(rows->count * bytes + 1);
  adj_status status = cluster_need(job, rows->coordinates, "the rows of a block");
  if (status) return status;
  for (uint64_t i = 0; i < rows->count; i++)
    (void)adj_dataset_row(from, first - own + i, rows->coordinates + i * bytes); /* the row exists */
  given.data = rows->coordinates;
  given.ownership = ADJ_BORROW;
  return cluster_agree(job, adj_dataset_create(job->ctx, &given, &rows->set), NULL);
}

static void free_rows(block_rows *rows) {
  adj_dataset_destroy(rows->set);
  free(rows->coordinates);
}

static bool finds_itself(const cluster_job *job) {
  return !cluster_two_sets(job) && !job->request->self;
}

static adj_status join_block(cluster_job *job, const block_rows *rows, adj_mpi_result **out) {
  const join_request *request = job->request;
  adj_join_spec spec;
  adj_mpi_options options;
  adj_run_control control;
  adj_mpi_plan *plan = NULL;
  adj_mpi_stats stats;
  adj_status status = cluster_need(job, join_spec(request, &spec) ? job : NULL, "the box");
  spec.flags &= ADJ_WITH_DISTANCE;
  if (spec.kind == ADJ_KNN && finds_itself(job)) spec.k++;
  adj_mpi_options_init(&options, sizeof options);
  if (request->distribution) options.distribution = (adj_mpi_distribution)(request->distribution - 1);
  adj_run_control_init(&control, sizeof control);
  adj_mpi_stats_init(&stats, sizeof stats);
  const adj_dataset *right = cluster_two_sets(job) ? job->right.set : job->left.set;
  if (!status) status = adj_mpi_plan_create(job->comm, job->ctx, &spec, rows->set, right, &options, &plan);
  if (!status) status = adj_mpi_collect(plan, out, &control, &stats);
  adj_mpi_plan_destroy(plan);
  free((double *)(uintptr_t)spec.box); /* allocated by join_spec */
  if (status) return status;
  adj_mpi_stats *sum = &job->stats;
  adj_mpi_stats before = *sum;
  *sum = stats;
  sum->bytes_points += before.bytes_points;
  sum->bytes_rows += before.bytes_rows;
  sum->bytes_least += before.bytes_least;
  sum->messages += before.messages;
  sum->queries += before.queries;
  sum->total_s += before.total_s;
  sum->exchange_s += before.exchange_s;
  sum->join_s += before.join_s;
  sum->wait_s += before.wait_s;
  sum->cpu_s += before.cpu_s;
  if (before.peak_bytes > sum->peak_bytes) sum->peak_bytes = before.peak_bytes;
  return ADJ_OK;
}

/* ---- Rows as in the join of the whole set ---------------------------------------------------------------------- */

typedef struct kept_rows {
  const cluster_job *job;
  const adj_mpi_result *from;
  checkpoint_rows *to;
  size_t size; /* of a distance; 0: none */
} kept_rows;

static void keep_entry(const kept_rows *k, uint64_t entry) {
  checkpoint_rows *to = k->to;
  const char *distances = adj_mpi_result_distances(k->from);
  int64_t id = adj_mpi_result_ids(k->from)[entry];
  to->ids[to->entries] = id;
  if (k->size) memcpy((char *)to->distances + to->entries * k->size, distances + entry * k->size, k->size);
  to->entries++;
  to->pairs += id >= 0;
}

static void keep_row(const kept_rows *k, uint64_t row) {
  const join_request *request = k->job->request;
  const uint64_t *offsets = adj_mpi_result_offsets(k->from);
  const int64_t *ids = adj_mpi_result_ids(k->from);
  int64_t self = (int64_t)(k->to->first + row);
  bool nearest = request->kind == ADJ_KNN, drop = finds_itself(k->job);
  uint64_t kept = 0;
  for (uint64_t e = offsets[row]; e < offsets[row + 1]; e++) {
    if (drop && ids[e] == self) continue;
    if (request->one_way && ids[e] < self) continue;
    if (nearest && kept == request->k) continue; /* the row itself was not among its neighbours */
    keep_entry(k, e);
    kept++;
  }
}

static adj_status keep_rows(const cluster_job *job, const block_rows *rows, const adj_mpi_result *from,
                            checkpoint_rows *to, char *message) {
  uint64_t most = adj_mpi_result_offsets(from)[rows->count];
  kept_rows kept = {job, from, to, job->request->distance ? adj_mpi_result_type(from) == ADJ_F64 ? 8u : 4u : 0};
  *to = (checkpoint_rows){.first = rows->first, .count = rows->count};
  to->offsets = malloc((rows->count + 1) * sizeof *to->offsets);
  to->ids = malloc(most * sizeof *to->ids + 1);
  to->distances = kept.size ? malloc(most * kept.size + 1) : NULL;
  if (!to->offsets || !to->ids || (kept.size && !to->distances)) {
    snprintf(message, MESSAGE_ROOM, "no memory for the rows of a block");
    return ADJ_E_MEMORY;
  }
  to->offsets[0] = 0;
  for (uint64_t i = 0; i < rows->count; i++) {
    keep_row(&kept, i);
    to->offsets[i + 1] = to->entries;
  }
  return ADJ_OK;
}

/* ---- Finishing a block ---------------------------------------------------------------------------------- */

typedef struct piece {
  uint64_t first, count, pairs;
} piece;

/* Rank 0 lists the pieces of all ranks. */
static adj_status finish_block(const checkpoint *c, uint64_t block, const checkpoint_rows *rows) {
  cluster_job *job = c->job;
  piece own = {rows->first, rows->count, rows->pairs};
  piece *all = job->rank ? NULL : calloc((size_t)job->ranks, sizeof *all);
  adj_status status = cluster_need(job, job->rank || all ? c : NULL, "the list of a block");
  json_writer list = {0};
  if (!status) MPI_Gather(&own, 3, MPI_UINT64_T, all, 3, MPI_UINT64_T, 0, job->comm);
  for (int r = 0; !status && all && r < job->ranks; r++)
    if (all[r].count)
      json_raw(&list, "%llu %llu %llu\n", (unsigned long long)all[r].first, (unsigned long long)all[r].count,
               (unsigned long long)all[r].pairs);
  adj_status saved = ADJ_OK;
  if (!status && !job->rank)
    saved = list.failed ? ADJ_E_MEMORY : checkpoint_finish(c, block, list.text ? list.text : "");
  if (!status) status = cluster_agree(job, saved, list.failed ? "no memory for the list of a block" : NULL);
  free(list.text);
  free(all);
  return status;
}

static adj_status run_block(const checkpoint *c, uint64_t block) {
  cluster_job *job = c->job;
  block_rows rows = {0};
  adj_mpi_result *result = NULL;
  checkpoint_rows kept = {0};
  char message[MESSAGE_ROOM] = "";
  double began = seconds_now();
  adj_status status = take_rows(c, block, &rows);
  if (!status) status = join_block(job, &rows, &result);
  if (!status) {
    status = keep_rows(job, &rows, result, &kept, message);
    if (!status) status = checkpoint_save(c, block, &kept, message);
    status = cluster_agree(job, status, message);
  }
  if (!status) status = finish_block(c, block, &kept);
  checkpoint_rows_free(&kept);
  adj_mpi_result_destroy(result);
  free_rows(&rows);
  trace_phase(job->trace, "block", began);
  return status;
}

/* ---- All blocks ----------------------------------------------------------------------------------------- */

static adj_status run_blocks(checkpoint *c, progress_line *progress) {
  cluster_job *job = c->job;
  adj_status status = ADJ_OK;
  for (uint64_t block = 0; !status && block < c->blocks; block++) {
    int done = !job->rank && checkpoint_is_done(c, block);
    MPI_Bcast(&done, 1, MPI_INT, 0, job->comm);
    if (done)
      c->done++;
    else
      status = run_block(c, block);
    adj_progress where = {"join", (double)(block + 1) / (double)c->blocks, 0};
    if (progress->on && !status) progress_show(progress, &where);
  }
  return status;
}

typedef struct pass {
  cluster_job *job;
  const cluster_sink *sink;
  uint64_t entries;
} pass;

static adj_status add_entries(void *user, const checkpoint_rows *rows) {
  pass *p = user;
  p->entries += rows->entries;
  return ADJ_OK;
}

static adj_status pass_rows(void *user, const checkpoint_rows *rows) {
  pass *p = user;
  adj_share_rows block = {.first_row = rows->first,
                          .row_count = rows->count,
                          .offsets = rows->offsets,
                          .ids = rows->ids,
                          .distances = rows->distances};
  for (uint64_t e = rows->offsets[0]; e < rows->offsets[rows->count]; e++)
    p->entries += rows->ids[e] >= 0;
  return p->sink->rows(p->sink->user, &block);
}

/* A source: the rows of all blocks, read from the folder. Also counts the pairs. */
static adj_status rows_of_blocks(cluster_job *job, const cluster_source *source, const cluster_sink *sink) {
  const checkpoint *c = source->checkpoint;
  char message[MESSAGE_ROOM] = "";
  pass p = {job, sink, 0};
  adj_status status = ADJ_OK;
  for (uint64_t block = 0; sink->begin && !status && block < c->blocks; block++)
    status = checkpoint_load(c, block, true, add_entries, &p, message);
  status = cluster_agree(job, status, message);
  if (!status && sink->begin) status = sink->begin(sink->user, p.entries);
  if (status) return status;
  p.entries = 0;
  for (uint64_t block = 0; !status && block < c->blocks; block++)
    status = checkpoint_load(c, block, false, pass_rows, &p, message);
  status = cluster_agree(job, status, *message ? message : NULL);
  if (!status) MPI_Allreduce(&p.entries, &job->total, 1, MPI_UINT64_T, MPI_SUM, job->comm);
  if (!status && job->request->max_pairs && job->total > job->request->max_pairs) {
    snprintf(message, sizeof message, "max_pairs: there are %llu pairs", (unsigned long long)job->total);
    status = cluster_agree(job, ADJ_E_LIMIT, message);
  }
  return status;
}

adj_status cluster_checkpoint_run(cluster_job *job, cluster_source *source) {
  checkpoint *c = calloc(1, sizeof *c);
  adj_status status = cluster_need(job, c, "the checkpoint");
  if (status) {
    free(c);
    return status;
  }
  *c = (checkpoint){.job = job, .folder = job->request->checkpoint};
  source->run = rows_of_blocks;
  source->checkpoint = c;
  progress_line progress;
  progress_begin(&progress, job->request->progress && !job->rank, job->request->no_progress || job->request->quiet);
  status = checkpoint_open(c);
  if (!status) status = run_blocks(c, &progress);
  progress_end(&progress);
  job->resumed = !status && c->done == c->blocks;
  if (!status && c->done && !job->resumed && !job->request->quiet)
    message_print("note: %llu of %llu blocks were finished already in %s\n", (unsigned long long)c->done,
                  (unsigned long long)c->blocks, c->folder);
  return status;
}

void cluster_checkpoint_end(checkpoint *c, bool remove) {
  if (remove && !c->job->rank) checkpoint_remove(c);
  free(c);
}
