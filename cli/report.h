/* SPDX-License-Identifier: MIT
 *
 * The report of a finished run: the total on standard output, a summary on standard error, and the JSON of --stats.
 */
#ifndef CLI_REPORT_H
#define CLI_REPORT_H

#include "clusters.h"
#include "join_request.h"
#include "json.h"

typedef struct run_report {
  const char *command;
  const join_request *request;
  const adj_dataset *left, *right;
  const adj_plan *plan;
  clusters clusters; /* dbscan */
  double began, read_s, wall_s;
  adj_stats stats;
} run_report;

/* Prints the number of pairs, or of clusters, unless standard output has other data. False after an error message. */
bool report_total(const run_report *report);
void report_summary(const run_report *report);
void report_stats(const run_report *report, json_writer *json);

#endif
