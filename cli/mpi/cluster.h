/* SPDX-License-Identifier: MIT
 *
 * Shared by the files of the program adjoin-mpi. Every rank runs the whole program; only rank 0 prints. A step that can
 * fail on one rank ends with cluster_agree(), so that either all ranks continue or none.
 */
#ifndef CLI_CLUSTER_H
#define CLI_CLUSTER_H

#include <adjoin_mpi.h>
#include <adjoin_share.h>
#include <stdbool.h>

#include "../join.h"
#include "../trace.h"

/* One set of points: this rank's part of it, and what all ranks know about it. */
typedef struct cluster_points {
  const char *path;
  adj_dataset *set;      /* this rank's rows */
  void *rows;            /* the coordinates, if another rank sent them */
  adj_dataset *whole;    /* rank 0: all rows, if it read the whole file; for its columns and labels */
  uint64_t first, total; /* this rank's first row, and the rows of all ranks */
  char *names;           /* text output: labels of all rows, or NULL */
  uint64_t *name_ends;
} cluster_points;

typedef struct cluster_job {
  MPI_Comm comm;
  int rank, ranks;
  const subcommand *command;
  const join_request *request;
  double began, read_s, write_s;
  trace_log *trace;
  uint64_t trace_start_ns; /* when all ranks began, by this rank's clock */
  adj_ctx *ctx;
  cluster_points left, right; /* right.path NULL: a self-join */
  adj_mpi_plan *plan;
  char *plan_text; /* --explain: the text before the run */
  uint64_t total;  /* pairs of all ranks */
  adj_mpi_stats stats;
  bool streamed; /* the result did not fit memory */
  bool resumed;  /* the whole result is from a checkpoint: no join was run */
} cluster_job;

/* Called after a step with this rank's status and message; text NULL: the library's last message. Returns the common
 * status of all ranks; after a failure adj_last_error is the message of the first rank that failed. */
adj_status cluster_agree(cluster_job *job, adj_status status, const char *text);

/* The same for memory of the program itself: the status is ADJ_E_MEMORY if the pointer is NULL. */
adj_status cluster_need(cluster_job *job, const void *memory, const char *what);

/* Prints adj_last_error on one rank, in the program's terms. Returns the exit code. */
int cluster_failed(const cluster_job *job, adj_status status);

static inline bool cluster_two_sets(const cluster_job *job) {
  return job->right.path != NULL;
}

/* The number of right points of all ranks. */
static inline uint64_t cluster_right_count(const cluster_job *job) {
  return cluster_two_sets(job) ? job->right.total : job->left.total;
}

/* ---- points.c: every rank gets its rows of the files. cluster_points_free frees them. */
adj_status cluster_open(cluster_job *job);
int cluster_check_points(cluster_job *job); /* an exit code, the same on every rank */
void cluster_points_free(cluster_points *points);

/* Broadcasts any number of bytes from rank 0. */
void cluster_broadcast(cluster_job *job, void *bytes, uint64_t count);

/* ---- output.c: rows to files */

/* A source of rows. run passes all rows of this rank to the sink, in ascending order, by their global numbers. It may
 * be called twice. The sink's begin is called once on every rank, before the rows, with this rank's number of entries.
 * Collective. */
struct cluster_sink;
typedef struct cluster_source {
  adj_status (*run)(cluster_job *job, const struct cluster_source *source, const struct cluster_sink *sink);
  adj_mpi_result *result;        /* for a join in memory */
  struct checkpoint *checkpoint; /* for a checkpoint */
} cluster_source;

typedef struct cluster_sink {
  void *user;
  adj_status (*begin)(void *user, uint64_t entries); /* may communicate; ends with cluster_agree() */
  adj_status (*rows)(void *user, const adj_share_rows *rows);
} cluster_sink;

adj_status cluster_write(cluster_job *job, const cluster_source *source);
/* Writes the number of neighbours of each of this rank's rows. */
adj_status cluster_write_counts(cluster_job *job, const uint64_t *counts);

/* ---- checkpoint.c */

/* Joins block after block, and keeps finished blocks in a folder; afterwards their rows are a source. */
adj_status cluster_checkpoint_run(cluster_job *job, cluster_source *source);
void cluster_checkpoint_end(struct checkpoint *checkpoint, bool remove);

/* ---- report.c */

int cluster_report(cluster_job *job);

/* ---- signals.c */

/* SIGINT, SIGTERM and SIGHUP end this rank at once, after its part files are removed. */
void cluster_signals(int rank);
/* Sets a part file to remove on a signal; NULL: none. There are two, numbered 0 and 1. The path is copied. */
void cluster_signals_part(int which, const char *path);
/* Between these two calls signals are deferred, while part files are created. */
void cluster_signals_hold(void);
void cluster_signals_release(void);

#endif
