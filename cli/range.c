/* SPDX-License-Identifier: MIT
 *
 * adjoin range: all pairs within a radius.
 */
#include <math.h>

#include "commands.h"
#include "join.h"

#define FIELD(name) offsetof(join_request, name)

static const option own_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "What to find"},
    {OPTION_REAL, 'r', "radius", "R", FIELD(radius),
     "largest distance of a pair (required), in the unit of\nthe coordinates; haversine: in metres, see --unit"},
    {OPTION_FLAG, 0, "one-way", NULL, FIELD(one_way), "one file: report each pair once, lower row first"},
    {OPTION_FLAG, 0, "self", NULL, FIELD(self), "one file: also pair each point with itself"},
    {OPTION_NUMBER, 0, "max-pairs", "N", FIELD(max_pairs), "fail if there are more than N pairs"},
    {OPTION_HEADING, 0, NULL, NULL, 0, "Output (without -o, only the number of pairs is printed)"},
    {OPTION_TEXT, 'o', "output", "FILE", FIELD(output),
     "write the pairs; \"-\" is standard output. The file\nappears when it is complete"},
    {OPTION_NAME, 0, "format", "NAME", FIELD(format),
     "npz, csv, tsv or npy. Default: by the ending of\nFILE, or csv for \"-\""},
    {OPTION_FLAG, 0, "distance", NULL, FIELD(distance), "also write the distance of each pair"},
    {OPTION_CHOICE, 0, "order", "id|distance|any", FIELD(order),
     "how to sort the neighbours of each point. Default:\nid. any is fastest, but may differ between runs"},
    JOIN_WRITE_OPTIONS(join_request),
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

static const option *const tables[] = {
    own_options, join_metric_options, join_input_options, join_run_options, join_program_options, join_report_options,
    NULL};

static int run(const subcommand *command, int argc, char **argv) {
  join_request request = {.kind = ADJ_RANGE, .radius = NAN, .p = NAN, .sphere = NAN};
  bool stop;
  int code = join_parse(command, &request, argc, argv, &stop);
  return stop ? code : join_run(command, &request);
}

const subcommand command_range = {
    "range",
    "find all pairs of points within a radius of each other",
    "-r RADIUS A [B] [-o FILE] [options]",
    "  adjoin range -r 0.02 points.npy -o pairs.npz     pairs of one set, for scipy.sparse.load_npz\n"
    "  adjoin range -r 0.02 points.npy --one-way -o pairs.csv\n"
    "                                                   each pair once, as text\n"
    "  adjoin range -r 2.5 stars.csv radio.csv --columns x,y,z --id name --distance -o near.csv\n"
    "                                                   pairs between two sets, by name\n"
    "  adjoin range -r 0.02 points.npy --explain        how the join is done, and why\n",
    tables,
    run,
};
