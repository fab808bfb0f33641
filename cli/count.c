/* SPDX-License-Identifier: MIT
 *
 * adjoin count: how many pairs lie within a radius, in all or for each point.
 */
#include <math.h>

#include "commands.h"
#include "join.h"

#define FIELD(name) offsetof(join_request, name)

static const option what[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "What to count"},
    {OPTION_REAL, 'r', "radius", "R", FIELD(radius), "pairs at most this far apart (needed)"},
    {OPTION_FLAG, 0, "one-way", NULL, FIELD(one_way), "one set: each pair once, left < right"},
    {OPTION_FLAG, 0, "self", NULL, FIELD(self), "one set: also each point with itself"},
    {OPTION_COUNT, 0, "max-pairs", "N", FIELD(max_pairs), "fail when there are more"},
    {OPTION_HEADING, 0, NULL, NULL, 0, "Output (the total is printed)"},
    {OPTION_TEXT, 'o', "output", "FILE", FIELD(output),
     "write one number per point of A; \"-\": standard\noutput, instead of the total"},
    {OPTION_TEXT, 0, "format", "NAME", FIELD(format),
     "npy, csv or tsv; default: from the ending of\nFILE, csv for \"-\""},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

static const option *const tables[] = {
    what, join_metric_options, join_input_options, join_run_options, join_report_options, NULL};

static int run(const subcommand *command, int argc, char **argv) {
  join_request request = {.kind = ADJ_RANGE, .radius = NAN, .p = NAN, .sphere = NAN, .per_point_counts = true};
  bool stop;
  int code = join_parse(command, &request, argc, argv, &stop);
  return stop ? code : join_run(command, &request);
}

const subcommand command_count = {
    "count",
    "how many pairs lie within a radius: no pair is stored or moved",
    "-r RADIUS A [B] [-o FILE] [options]",
    "  adjoin count -r 0.01 points.npy                  the total\n"
    "  adjoin count -r 0.01 points.npy -o density.npy   neighbours of each point\n"
    "  adjoin count -r 5 shops.csv homes.csv -o -       homes near each shop\n",
    tables,
    run,
};
