/* SPDX-License-Identifier: MIT
 *
 * The request of a join, from the command line.
 */
#ifndef CLI_JOIN_REQUEST_H
#define CLI_JOIN_REQUEST_H

#include <adjoin.h>
#include <stdbool.h>

#define JOIN_NO_K UINT64_MAX

/* The values of the options. Unless noted, text is NULL and numbers are 0 if not given. */
typedef struct join_request {
  const char *left, *right; /* right NULL: a self-join */
  /* what */
  adj_join_kind kind;
  double radius;    /* NaN: not given */
  uint64_t k;       /* knn: JOIN_NO_K: not given */
  int metric;       /* adj_metric; 0: not given */
  double p, sphere; /* NaN: not given */
  int angle, unit;  /* 1 + adj_angle, 1 + adj_unit */
  const char *box;
  bool self, one_way;
  uint64_t min_points; /* dbscan; 0 elsewhere */
  /* result */
  bool per_point_counts;                   /* the output holds counts, not pairs */
  const char *output, *format, *distances; /* distances: a second file */
  bool distance;
  bool no_clobber, no_sync;
  int order; /* 1 + adj_order */
  uint64_t max_pairs;
  /* input */
  int type; /* adj_type; 0: as stored */
  const char *input_format, *columns, *id, *shape, *dataset;
  bool map, allow_external, normalise;
  /* how */
  int backend; /* 1 + adj_backend */
  uint64_t threads, memory, device_memory;
  const char *isa, *devices, *algorithm, *tuning, *system;
  /* reports */
  bool explain, dry_run, progress, no_progress, quiet, calibrate, systems;
  const char *stats, *trace;
  /* adjoin-mpi */
  int distribution; /* 1 + adj_mpi_distribution */
  bool split;
  const char *checkpoint;
  uint64_t checkpoint_blocks;
} join_request;

#endif
