/* SPDX-License-Identifier: MIT
 *
 * adjoin range: all pairs within a radius.
 */
#include <math.h>

#include "commands.h"
#include "join.h"

#define FIELD(name) offsetof(join_request, name)

static const option what[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "What to find"},
    {OPTION_REAL, 'r', "radius", "R", FIELD(radius), "pairs at most this far apart (needed)"},
    {OPTION_FLAG, 0, "one-way", NULL, FIELD(one_way), "one set: each pair once, left < right"},
    {OPTION_FLAG, 0, "self", NULL, FIELD(self), "one set: also each point with itself"},
    {OPTION_COUNT, 0, "max-pairs", "N", FIELD(max_pairs), "fail when there are more"},
    {OPTION_HEADING, 0, NULL, NULL, 0, "Output (without -o only the number of pairs is printed)"},
    {OPTION_TEXT, 'o', "output", "FILE", FIELD(output),
     "write the pairs; \"-\": standard output. The file\nappears when it is complete"},
    {OPTION_TEXT, 0, "format", "NAME", FIELD(format),
     "npz, csv, tsv or npy; default: from the ending of\nFILE, csv for \"-\""},
    {OPTION_FLAG, 0, "distance", NULL, FIELD(distance), "with the distance of each pair"},
    {OPTION_CHOICE, 0, "order", "id|distance|any", FIELD(order),
     "of the neighbours of a point; default id.\nany is quickest, and not the same every time"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

static const option *const tables[] = {
    what, join_metric_options, join_input_options, join_run_options, join_report_options, NULL};

static int run(const subcommand *command, int argc, char **argv) {
  join_request request = {.kind = ADJ_RANGE, .radius = NAN, .p = NAN, .sphere = NAN};
  bool stop;
  int code = join_parse(command, &request, argc, argv, &stop);
  return stop ? code : join_run(command, &request);
}

const subcommand command_range = {
    "range",
    "all pairs of points within a radius of each other, exactly",
    "-r RADIUS A [B] [-o FILE] [options]",
    "  adjoin range -r 0.01 points.npy                  how many pairs are there?\n"
    "  adjoin range -r 0.01 points.npy -o pairs.npz     a matrix for scipy.sparse.load_npz\n"
    "  adjoin range -r 2.5 stars.csv radio.csv --columns x,y,z --id name --distance -o near.csv\n"
    "                                                   which star is near which radio source\n"
    "  adjoin range -r 0.01 points.npy --explain        how it is done, and why\n",
    tables,
    run,
};
