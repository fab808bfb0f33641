/* SPDX-License-Identifier: MIT
 *
 * adjoin knn: the k nearest of each point.
 */
#include <math.h>

#include "commands.h"
#include "join.h"

#define FIELD(name) offsetof(join_request, name)

static const option what[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "What to find"},
    {OPTION_COUNT, 'k', "neighbours", "K", FIELD(k), "how many of each point (needed)"},
    {OPTION_REAL, 'r', "radius", "R", FIELD(radius), "none farther than this; default: no limit"},
    {OPTION_CHOICE, 0, "metric", "l2|l1|linf", FIELD(metric), "distance; default l2"},
    {OPTION_FLAG, 0, "self", NULL, FIELD(self), "one set: a point may be its own neighbour"},
    {OPTION_HEADING, 0, NULL, NULL, 0, "Output"},
    {OPTION_TEXT, 'o', "output", "FILE", FIELD(output), "write the neighbours; \"-\": standard output"},
    {OPTION_TEXT, 0, "format", "NAME", FIELD(format), "npz, csv, tsv or npy; default: from the ending of\nFILE"},
    {OPTION_FLAG, 0, "distance", NULL, FIELD(distance), "with the distances"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

static const option *const tables[] = {what, join_input_options, join_run_options, join_report_options, NULL};

static int run(const subcommand *command, int argc, char **argv) {
  join_request request = {.kind = ADJ_KNN, .radius = NAN};
  bool stop;
  int code = join_parse(command, &request, argc, argv, &stop);
  return stop ? code : join_run(command, &request);
}

const subcommand command_knn = {
    "knn",
    "the k nearest neighbours of each point (not in this version yet)",
    "-k K A [B] [-o FILE] [options]",
    "  adjoin knn -k 10 points.npy -o neighbours.npz    of each point among the others\n"
    "  adjoin knn -k 1 fixes.csv stations.csv -o nearest.csv --distance\n"
    "                                                   the station nearest to each fix\n",
    tables,
    run,
};
