/* SPDX-License-Identifier: MIT
 *
 * adjoin dbscan: clusters of points by density.
 */
#include <math.h>

#include "clusters.h"
#include "commands.h"
#include "join.h"

#define FIELD(name) offsetof(join_request, name)

static const option own_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "What to find"},
    {OPTION_REAL, 'r', "radius", "R", FIELD(radius),
     "how near neighbours are (required), in the unit of\nthe coordinates; haversine: in metres, see --unit"},
    {OPTION_COUNT, 0, "min-points", "M", FIELD(min_points),
     "a core point has at least M points within R, itself\nincluded. Default: 5"},
    {OPTION_NUMBER, 0, "max-pairs", "N", FIELD(max_pairs), "fail if there are more than N pairs"},
    {OPTION_HEADING, 0, NULL, NULL, 0, "Output (the number of clusters is printed unless FILE is \"-\")"},
    {OPTION_TEXT, 'o', "output", "FILE", FIELD(output),
     "write the cluster of each point, from 0; -1: in none.\n\"-\" is standard output"},
    {OPTION_NAME, 0, "format", "NAME", FIELD(format),
     "npy, csv or tsv. Default: by the ending of FILE,\nor csv for \"-\""},
    JOIN_WRITE_OPTIONS(join_request),
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

static const option *const tables[] = {own_options,      join_metric_options, join_input_options,
                                       join_run_options, join_report_options, NULL};

static int run(const subcommand *command, int argc, char **argv) {
  join_request request = {
      .kind = ADJ_RANGE, .radius = NAN, .p = NAN, .sphere = NAN, .per_point_counts = true, .min_points = 5};
  bool stop;
  int code = join_parse(command, &request, argc, argv, &stop);
  if (stop) return code;
  if (request.right) return usage_error(command, "clusters are of one file, not of two");
  if (!request.min_points) return usage_error(command, "--min-points: must be at least 1");
  if (request.output && !clusters_format(&request))
    return usage_error(command, "%s: not a format for clusters (npy, csv, tsv)",
                       request.format ? request.format : request.output);
  return join_run(command, &request);
}

const subcommand command_dbscan = {
    "dbscan",
    "find clusters of points by density",
    "-r RADIUS A [-o FILE] [options]",
    "  adjoin dbscan -r 0.02 points.npy                 the number of clusters\n"
    "  adjoin dbscan -r 0.02 --min-points 10 points.npy -o clusters.npy\n"
    "                                                   the cluster of each point, or -1\n"
    "  adjoin dbscan -r 5 shops.csv -o -                which shops are near each other\n",
    tables,
    run,
};
