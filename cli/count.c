/* SPDX-License-Identifier: MIT
 *
 * adjoin count: the number of pairs within a radius, in total or for each point.
 */
#include <math.h>

#include "commands.h"
#include "join.h"

#define FIELD(name) offsetof(join_request, name)

static const option own_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "What to count"},
    {OPTION_REAL, 'r', "radius", "R", FIELD(radius),
     "largest distance of a pair (required), in the unit of\nthe coordinates; haversine: in metres, see --unit"},
    {OPTION_FLAG, 0, "one-way", NULL, FIELD(one_way), "one file: count each pair once"},
    {OPTION_FLAG, 0, "self", NULL, FIELD(self), "one file: also pair each point with itself"},
    {OPTION_NUMBER, 0, "max-pairs", "N", FIELD(max_pairs), "fail if there are more than N pairs"},
    {OPTION_HEADING, 0, NULL, NULL, 0, "Output (the total is printed unless FILE is \"-\")"},
    {OPTION_TEXT, 'o', "output", "FILE", FIELD(output),
     "write the number of neighbours of each point of A;\n\"-\" is standard output"},
    {OPTION_NAME, 0, "format", "NAME", FIELD(format),
     "npy, csv or tsv. Default: by the ending of FILE,\nor csv for \"-\""},
    JOIN_WRITE_OPTIONS(join_request),
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

static const option *const tables[] = {
    own_options, join_metric_options, join_input_options, join_run_options, join_program_options, join_report_options,
    NULL};

static int run(const subcommand *command, int argc, char **argv) {
  join_request request = {.kind = ADJ_RANGE, .radius = NAN, .p = NAN, .sphere = NAN, .per_point_counts = true};
  bool stop;
  int code = join_parse(command, &request, argc, argv, &stop);
  return stop ? code : join_run(command, &request);
}

const subcommand command_count = {
    "count",
    "count the pairs of points within a radius, without storing them",
    "-r RADIUS A [B] [-o FILE] [options]",
    "  adjoin count -r 0.02 points.npy                  the number of pairs\n"
    "  adjoin count -r 0.02 points.npy -o density.npy   the number of neighbours of each point\n"
    "  adjoin count -r 5 shops.csv homes.csv -o -       how many homes are near each shop\n",
    tables,
    run,
};
