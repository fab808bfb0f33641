/* SPDX-License-Identifier: MIT
 *
 * adjoin knn: the k nearest neighbours of each point.
 */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "commands.h"
#include "join.h"

#define FIELD(name) offsetof(join_request, name)

static const option own_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "What to find"},
    {OPTION_COUNT, 'k', "neighbours", "K", FIELD(k), "how many neighbours of each point (required)"},
    {OPTION_REAL, 'r', "radius", "R", FIELD(radius),
     "only neighbours within this distance (dot: products\nof at least this; haversine: in metres, see "
     "--unit).\nDefault: no limit"},
    {OPTION_FLAG, 0, "self", NULL, FIELD(self), "one file: a point may be its own neighbour"},
    {OPTION_NUMBER, 0, "max-pairs", "N", FIELD(max_pairs), "fail if there are more than N neighbours in total"},
    {OPTION_HEADING, 0, NULL, NULL, 0, "Output (without -o, only the number of neighbours is printed)"},
    {OPTION_TEXT, 'o', "output", "FILE", FIELD(output),
     "write the neighbours, nearest first; \"-\" is\nstandard output. The file appears when it is\ncomplete"},
    {OPTION_NAME, 0, "format", "NAME", FIELD(format),
     "npz, csv, tsv, npy, ivecs, or csr (a graph for\nscikit-learn). Default: by the ending of FILE, or\ncsv for "
     "\"-\""},
    {OPTION_TEXT, 0, "distances", "FILE", FIELD(distances),
     "also write the distances alone, as npy or fvecs.\nnpz, csv, tsv and csr include them anyway"},
    JOIN_WRITE_OPTIONS(join_request),
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

static const option *const tables[] = {
    own_options, join_metric_options, join_input_options, join_run_options, join_program_options, join_report_options,
    NULL};

/* Whether the output holds distances. They cost memory and time, so they are left out if it holds only ids. */
static bool holds_distances(const join_request *request) {
  if (!request->output) return false;
  if (request->distances) return true;
  const char *dot = strrchr(request->output, '.');
  const char *format = request->format ? request->format : dot ? dot + 1 : "";
  return strcasecmp(format, "npy") != 0 && strcasecmp(format, "ivecs") != 0;
}

static int run(const subcommand *command, int argc, char **argv) {
  join_request request = {.kind = ADJ_KNN, .k = JOIN_NO_K, .radius = NAN, .p = NAN, .sphere = NAN};
  bool stop;
  int code = join_parse(command, &request, argc, argv, &stop);
  request.distance = holds_distances(&request);
  return stop ? code : join_run(command, &request);
}

const subcommand command_knn = {
    "knn",
    "find the k nearest neighbours of each point",
    "-k K A [B] [-o FILE] [options]",
    "  adjoin knn -k 10 points.npy -o near.npz          the ten nearest of each point\n"
    "  adjoin knn -k 1 fixes.csv stations.csv -o -      the station nearest to each fix\n"
    "  adjoin knn -k 100 query.fvecs base.fvecs -o near.ivecs --distances near.fvecs\n"
    "                                                   files as nearest-neighbour benchmarks use them\n"
    "  adjoin knn -k 15 --self points.npy -o graph.npz --format csr\n"
    "                                                   a graph for scikit-learn and SciPy\n",
    tables,
    run,
};
