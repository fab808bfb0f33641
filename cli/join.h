/* SPDX-License-Identifier: MIT
 *
 * What range, knn and count share: the request, its options, and the run from files to result.
 */
#ifndef CLI_JOIN_H
#define CLI_JOIN_H

#include <adjoin.h>
#include <stdbool.h>

#include "options.h"

#define JOIN_NO_K UINT64_MAX

/* What the options set. Unless noted, text is NULL and numbers are 0 if not given. */
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
  /* result */
  bool per_point_counts;                   /* the output holds counts, not pairs */
  const char *output, *format, *distances; /* distances: a second file */
  bool distance;
  int order; /* 1 + adj_order */
  uint64_t max_pairs;
  /* input */
  int type; /* adj_type; 0: as stored */
  const char *input_format, *columns, *id, *shape, *dataset;
  /* how */
  int backend; /* 1 + adj_backend */
  uint64_t threads, memory, device_memory;
  const char *isa, *devices, *algorithm, *tuning;
  /* reports */
  bool explain, dry_run, progress, no_progress, quiet, calibrate;
  const char *stats, *trace;
} join_request;

/* The tables of options that the commands share. */
extern const option join_metric_options[], join_input_options[], join_run_options[], join_report_options[];

/* Parses the arguments into the request, which has the command's defaults. Sets *stop if the program is to exit with
 * the returned code, as after --help. */
int join_parse(const subcommand *command, join_request *request, int argc, char **argv, bool *stop);

/* The lengths of --box to lengths (NULL: not wanted), which has room for one more than the text has
 * commas. Returns how many, or 0 when the text is no list of lengths. */
uint32_t join_box_lengths(const char *text, double *lengths);

/* The numbers of --devices to numbers (NULL: not wanted), which has room for JOIN_MOST_DEVICES. Returns how many, 0 for
 * none, or -1 when the text is neither. */
enum { JOIN_MOST_DEVICES = 64 };
int32_t join_device_numbers(const char *text, int32_t *numbers);

/* Runs the join. Returns the exit code of the program. */
int join_run(const subcommand *command, const join_request *request);

/* The part of the request that says how to read a file. */
adj_open_options join_open_options(const join_request *request);

/* Prints why a call of the library failed. files are the paths of the run, ended by NULL. Returns the exit code, which
 * depends on a signal. */
int join_failed(adj_status status, const char *const *files);

#endif
