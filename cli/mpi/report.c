/* SPDX-License-Identifier: MIT
 *
 * The report of a finished run: the total, a summary, --stats with an entry for each rank, --trace with the lanes of
 * all ranks. Rank 0 prints and writes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../json.h"
#include "../message.h"
#include "../options.h"
#include "../text.h"
#include "cluster.h"

static bool is_standard(const char *path) {
  return path && !strcmp(path, "-");
}

/* ---- Standard output and error --------------------------------------------------------------------------- */

static bool print_total(const cluster_job *job) {
  const join_request *request = job->request;
  if (is_standard(request->stats) || is_standard(request->trace)) return true;
  if (request->output && !request->per_point_counts) return true;
  if (printf("%llu\n", (unsigned long long)job->total) > 0 && !fflush(stdout)) return true;
  message_print("standard output: cannot be written: %s\n", strerror(errno));
  return false;
}

static void describe_result(const cluster_job *job, char *text, size_t room) {
  const join_request *request = job->request;
  char first[32], second[32], many[32] = "";
  uint64_t rows = job->left.total;
  if (request->k > 1) snprintf(many, sizeof many, "%llu ", (unsigned long long)request->k);
  if (request->kind == ADJ_RANGE)
    snprintf(text, room, "%s pairs, %.4g per point", text_count(job->total, first),
             rows ? (double)job->total / (double)rows : 0);
  else if (!cluster_two_sets(job))
    snprintf(text, room, "the %snearest of %s points", many, text_count(rows, first));
  else
    snprintf(text, room, "the %snearest of %s points among %s", many, text_count(rows, first),
             text_count(job->right.total, second));
}

static void print_summary(const cluster_job *job, double wall_s, const adj_mpi_stats *all) {
  const join_request *request = job->request;
  char result[128], wall[32], bytes[32], peak[32];
  uint64_t sent = 0, most = 0;
  for (int r = 0; r < job->ranks; r++) {
    sent += all[r].bytes_points + all[r].bytes_rows;
    if (all[r].peak_bytes > most) most = all[r].peak_bytes;
  }
  describe_result(job, result, sizeof result);
  if (job->resumed)
    message_print("%s, in %s: all of it from %s\n", result, text_duration(wall_s, wall), request->checkpoint);
  else
    message_print("%s, in %s, by %d rank%s (%s); %s sent, peak memory of a rank %s\n", result,
                  text_duration(wall_s, wall), job->ranks, job->ranks > 1 ? "s" : "",
                  adj_mpi_distribution_name(all[0].distribution), text_bytes((double)sent, bytes),
                  text_bytes((double)most, peak));
  if (!request->output) return;
  if (request->split)
    message_print("wrote %d files; the list has the name of %s and the ending .json\n",
                  job->ranks * (request->distances ? 2 : 1), request->output);
  else
    message_print("wrote %s\n", request->output);
  if (request->distances && !request->split) message_print("wrote %s\n", request->distances);
}

/* ---- --stats ------------------------------------------------------------------------------------------------- */

enum { HOST_ROOM = 64 };

static void put_rank(json_writer *json, const adj_mpi_stats *s, const char *host) {
  json_raw(json, "{\"rank\": %d, \"host\": ", s->rank);
  json_text(json, host);
  json_raw(json, ", \"threads\": %u, \"rows\": %llu, \"queries\": %llu, \"points\": %llu, \"halo_points\": %llu",
           s->threads, (unsigned long long)s->rows, (unsigned long long)s->queries, (unsigned long long)s->points,
           (unsigned long long)s->halo_points);
  json_raw(json, ", \"pairs\": %llu, \"bytes_points\": %llu, \"bytes_rows\": %llu, \"bytes_least\": %llu",
           (unsigned long long)s->pairs, (unsigned long long)s->bytes_points, (unsigned long long)s->bytes_rows,
           (unsigned long long)s->bytes_least);
  json_raw(json, ", \"messages\": %llu, \"rounds\": %u", (unsigned long long)s->messages, s->rounds);
  json_raw(json, ", \"seconds\": {\"total\": %.9f, \"plan\": %.9f, \"exchange\": %.9f, \"join\": %.9f, \"wait\": %.9f}",
           s->total_s, s->plan_s, s->exchange_s, s->join_s, s->wait_s);
  json_raw(json, ", \"cpu_seconds\": %.9f, \"work\": ", s->cpu_s);
  json_real(json, s->work);
  json_raw(json, ", \"peak_bytes\": %llu, \"candidates\": %llu}", (unsigned long long)s->peak_bytes,
           (unsigned long long)s->join.candidates);
}

static void put_stats(const cluster_job *job, double wall_s, const adj_mpi_stats *all, char (*hosts)[HOST_ROOM],
                      json_writer *json) {
  const join_request *request = job->request;
  uint64_t points = 0, rows = 0;
  for (int r = 0; r < job->ranks; r++) {
    points += all[r].bytes_points;
    rows += all[r].bytes_rows;
  }
  json_raw(json, "{\n  \"adjoin\": ");
  json_text(json, adj_version_string());
  json_raw(json, ",\n  \"command\": ");
  json_text(json, job->command->name);
  json_raw(json, ",\n  \"distribution\": ");
  json_text(json, adj_mpi_distribution_name(all[0].distribution));
  json_raw(json, ",\n  \"ranks\": %d,\n  \"seconds\": {\"read\": %.9f, \"run\": %.9f, \"write\": %.9f}", job->ranks,
           job->read_s, all[0].total_s, job->write_s);
  json_raw(json, ",\n  \"wall_seconds\": %.9f,\n  \"pairs\": %llu", wall_s, (unsigned long long)job->total);
  json_raw(json, ",\n  \"n_left\": %llu,\n  \"n_right\": %llu,\n  \"dim\": %u", (unsigned long long)job->left.total,
           (unsigned long long)cluster_right_count(job), adj_dataset_dim(job->left.set));
  json_raw(json, ",\n  \"type\": \"%s\",\n  \"radius\": ", adj_dataset_type(job->left.set) == ADJ_F64 ? "f64" : "f32");
  json_real(json, request->radius);
  if (request->kind == ADJ_KNN) json_raw(json, ",\n  \"k\": %llu", (unsigned long long)request->k);
  json_raw(json, ",\n  \"bytes_points\": %llu,\n  \"bytes_rows\": %llu", (unsigned long long)points,
           (unsigned long long)rows);
  json_raw(json, ",\n  \"work_imbalance\": ");
  json_real(json, all[0].work_imbalance);
  json_raw(json, ",\n  \"busy_imbalance\": ");
  json_real(json, all[0].busy_imbalance);
  json_raw(json, ",\n  \"streamed\": %s,\n  \"of_each_rank\": [", job->streamed ? "true" : "false");
  for (int r = 0; r < job->ranks; r++) {
    json_raw(json, "%s\n    ", r ? "," : "");
    put_rank(json, &all[r], hosts[r]);
  }
  json_raw(json, "\n  ]\n}\n");
}

/* ---- --trace --------------------------------------------------------------------------------------------------- */

/* An event without pointers. Times count from the moment when all ranks began, so the clocks of hosts need not
 * agree. */
typedef struct sent_event {
  char name[40];
  uint32_t lane, reserved;
  int64_t begin_ns, end_ns;
  uint64_t items;
} sent_event;

static sent_event *pack_events(const cluster_job *job, size_t *count) {
  const adj_trace_event *events = trace_events(job->trace, count);
  sent_event *packed = calloc(*count + 1, sizeof *packed);
  for (size_t i = 0; packed && i < *count; i++) {
    snprintf(packed[i].name, sizeof packed[i].name, "%s", events[i].name);
    packed[i].lane = events[i].lane;
    packed[i].begin_ns = (int64_t)(events[i].begin_ns - job->trace_start_ns);
    packed[i].end_ns = (int64_t)(events[i].end_ns - job->trace_start_ns);
    packed[i].items = events[i].items;
  }
  return packed;
}

static bool put_process(json_writer *json, int rank, const char *host, uint32_t threads, const sent_event *from,
                        size_t count) {
  const uint64_t base = (uint64_t)1 << 62; /* so that no time is negative */
  adj_trace_event *events = calloc(count + 1, sizeof *events);
  if (!events) return false;
  for (size_t i = 0; i < count; i++)
    events[i] = (adj_trace_event){.name = from[i].name,
                                  .lane = from[i].lane,
                                  .begin_ns = base + (uint64_t)from[i].begin_ns,
                                  .end_ns = base + (uint64_t)from[i].end_ns,
                                  .items = from[i].items};
  json_raw(json,
           "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,\"args\":{\"name\":\"rank %d on %s\"}},\n",
           rank, rank, host);
  trace_put_lanes(json, (uint32_t)rank, threads, events, count, base);
  free(events);
  return true;
}

/* Rank 0 receives the events of all ranks, one after the other. */
static bool gather_trace(cluster_job *job, char (*hosts)[HOST_ROOM], const adj_mpi_stats *all, json_writer *json) {
  enum { TRACE_TAG = 2, MOST = 1 << 20 }; /* events of a rank, so that their bytes fit an int */
  size_t count = 0;
  sent_event *own_events = pack_events(job, &count);
  bool good = own_events != NULL;
  uint64_t many = !good ? 0 : count < MOST ? count : MOST;
  if (job->rank) {
    MPI_Send(&many, 1, MPI_UINT64_T, 0, TRACE_TAG, job->comm);
    if (many) MPI_Send(own_events, (int)(many * sizeof *own_events), MPI_BYTE, 0, TRACE_TAG, job->comm);
    free(own_events);
    return good;
  }
  json_raw(json, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  good = good && put_process(json, 0, hosts[0], all[0].threads, own_events, many);
  for (int r = 1; r < job->ranks; r++) {
    MPI_Recv(&many, 1, MPI_UINT64_T, r, TRACE_TAG, job->comm, MPI_STATUS_IGNORE);
    sent_event *theirs = calloc(many + 1, sizeof *theirs);
    if (!theirs) { /* the other ranks wait for this one, so only a message is possible */
      message_print("--trace: no memory\n");
      MPI_Abort(job->comm, EXIT_FAILED);
    }
    if (many) MPI_Recv(theirs, (int)(many * sizeof *theirs), MPI_BYTE, r, TRACE_TAG, job->comm, MPI_STATUS_IGNORE);
    good = put_process(json, r, hosts[r], all[r].threads, theirs, many) && good;
    free(theirs);
  }
  json_raw(json,
           "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":0,\"tid\":0,\"args\":{\"name\":\"rank 0 on %s\"}}\n]}\n",
           hosts[0]);
  free(own_events);
  return good && !json->failed;
}

/* ---- All of it -------------------------------------------------------------------------------------------------- */

static adj_status save(cluster_job *job, json_writer *json, const char *path) {
  const join_request *request = job->request;
  adj_status status = ADJ_OK;
  if (!job->rank && !json->failed)
    status = adj_text_save(job->ctx, path, json->text, json->length,
                           join_write_flags(request->no_clobber, request->no_sync));
  status = cluster_agree(job, json->failed ? ADJ_E_MEMORY : status, json->failed ? "no memory for a report" : NULL);
  free(json->text);
  *json = (json_writer){0};
  return status;
}

typedef struct gathered {
  adj_mpi_stats *stats;
  char (*hosts)[HOST_ROOM];
} gathered;

static adj_status gather(cluster_job *job, gathered *all) {
  char host[HOST_ROOM] = "";
  size_t many = job->rank ? 1 : (size_t)job->ranks;
  all->stats = calloc(many, sizeof *all->stats);
  all->hosts = calloc(many, sizeof *all->hosts);
  adj_status status = cluster_need(job, all->stats && all->hosts ? all : NULL, "statistics");
  if (status) return status;
  gethostname(host, sizeof host - 1);
  MPI_Gather(host, HOST_ROOM, MPI_CHAR, all->hosts, HOST_ROOM, MPI_CHAR, 0, job->comm);
  for (size_t i = 0; i < many; i++)
    adj_mpi_stats_init(&all->stats[i], sizeof *all->stats);
  return adj_mpi_stats_gather(job->plan, &job->stats, job->rank ? NULL : all->stats);
}

int cluster_report(cluster_job *job) {
  const join_request *request = job->request;
  double wall_s = seconds_now() - job->began;
  gathered all = {NULL, NULL};
  json_writer json = {0};
  int code = EXIT_DONE;
  adj_status status = gather(job, &all);
  if (!status && !job->rank) {
    code = print_total(job) ? EXIT_DONE : EXIT_FAILED;
    if (!request->quiet) print_summary(job, wall_s, all.stats);
  }
  if (!status && request->stats) {
    if (!job->rank) put_stats(job, wall_s, all.stats, all.hosts, &json);
    status = save(job, &json, request->stats);
  }
  if (!status && request->trace) {
    bool good = gather_trace(job, all.hosts, all.stats, &json);
    status = cluster_need(job, good ? job : NULL, "the trace");
    if (!status) status = save(job, &json, request->trace);
  }
  free(json.text);
  free(all.stats);
  free(all.hosts);
  return status ? cluster_failed(job, status) : code;
}
