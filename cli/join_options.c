/* SPDX-License-Identifier: MIT
 *
 * The options that range, knn and count share, and checks of their combinations.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "join.h"

#define FIELD(name) offsetof(join_request, name)

const option join_metric_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "Distance"},
    {OPTION_CHOICE, 0, "metric", "l2|l1|linf|lp|cosine|dot|haversine", FIELD(metric),
     "Default: l2, Euclidean. l1: Manhattan. linf: Chebyshev.\n"
     "cosine: 1 - cos of the angle. dot: the inner product;\nlarger is nearer, and R is the least.\n"
     "haversine: the great circle between places, given\nas longitude, latitude. Text: by columns with such\nnames "
     "(lon, lat, ra, dec, ...), in any order"},
    {OPTION_REAL, 0, "p", "P", FIELD(p), "lp: the exponent, 1 or more"},
    {OPTION_TEXT, 0, "box", "L[,L...]", FIELD(box),
     "l2, l1, linf, lp: a periodic box. One length for all\ndimensions, or one for each; 0: not periodic"},
    {OPTION_CHOICE, 0, "angle", "degrees|radians", FIELD(angle), "haversine: unit of the columns. Default: degrees"},
    {OPTION_CHOICE, 0, "unit", "metres|degrees|radians", FIELD(unit),
     "haversine: unit of R and of distances. Default:\nmetres"},
    {OPTION_REAL, 0, "sphere", "R", FIELD(sphere),
     "haversine: radius of the sphere in metres. Default:\n6371008.8, the Earth"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

const option join_input_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "Input (the same for both files; \"-\" is standard input)"},
    {OPTION_CHOICE, 0, "type", "f32|f64", FIELD(type),
     "convert the points to this type, and compute in it.\nDefault: as stored; text as f64"},
    {OPTION_NAME, 0, "input-format", "NAME", FIELD(input_format),
     "npy, csv, tsv, fvecs, bvecs, fbin, u8bin, i8bin, raw\nor hdf5. Default: by the ending or content of a file"},
    {OPTION_TEXT, 0, "columns", "LIST", FIELD(columns),
     "csv, tsv: the columns of coordinates, \"x,y,z\" or\n\"2-4\". Default: all but that of --id. "
     "haversine:\nlongitude and latitude, by their names"},
    {OPTION_TEXT, 0, "id", "COLUMN", FIELD(id), "csv, tsv: the column of names; text output uses them"},
    {OPTION_TEXT, 0, "shape", "SHAPE", FIELD(shape),
     "raw: type and dimension, \"f32:3\", perhaps with the\ncount, \"f64:1000x16\""},
    {OPTION_TEXT, 0, "dataset", "PATH", FIELD(dataset), "hdf5: the dataset to read, such as group/points"},
    {OPTION_FLAG, 0, "map", NULL, FIELD(map),
     "map files instead of reading them, for files larger\nthan memory. Nobody may change them meanwhile: the\n"
     "program would be killed, or the result wrong"},
    {OPTION_FLAG, 0, "normalise", NULL, FIELD(normalise),
     "scale every column to [0, 1], both files by the least\nand largest values of the right one"},
    {OPTION_FLAG, 0, "allow-external", NULL, FIELD(allow_external),
     "hdf5: also read values that the file keeps in other\nfiles"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

const option join_run_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "How to run (none of these changes the result)"},
    {OPTION_CHOICE, 0, "backend", "auto|cpu|gpu|hybrid|reference", FIELD(backend), "where to compute. Default: auto"},
    {OPTION_COUNT, 0, "threads", "N", FIELD(threads), "Default: one per available core"},
    {OPTION_SIZE, 0, "memory", "SIZE", FIELD(memory), "memory limit, such as 4G. Default: 90 % of what is\nfree"},
    {OPTION_TEXT, 0, "devices", "LIST", FIELD(devices),
     "GPUs to use, numbered as in \"adjoin info\": \"0,1\",\nor none. Default: all"},
    {OPTION_SIZE, 0, "device-memory", "SIZE", FIELD(device_memory), "memory limit of each GPU. Default: what is free"},
    {OPTION_NAME, 0, "isa", "NAME", FIELD(isa),
     "instruction set: scalar, avx2, avx512 or neon.\nDefault: the best that the CPU has"},
    {OPTION_NAME, 0, "algorithm", "NAME", FIELD(algorithm),
     "range, count: auto, kdtree, grid, ego or brute. knn:\nauto, kdtree or brute, and grid on a GPU"},
    {OPTION_NAME, 0, "system", "NAME", FIELD(system),
     "a published system, as its paper describes it, such\nas lbjoin; \"adjoin info --systems\" lists them"},
    {OPTION_TEXT, 0, "tuning", "LIST", FIELD(tuning), "settings for measurements, NAME=VALUE,...; see\ntuning.md"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

const option join_report_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "Reports (on standard error, or in files)"},
    {OPTION_FLAG, 0, "explain", NULL, FIELD(explain), "print the plan and its reasons, then what happened"},
    {OPTION_FLAG, 0, "dry-run", NULL, FIELD(dry_run), "print the plan on standard output, and stop"},
    {OPTION_TEXT, 0, "stats", "FILE", FIELD(stats),
     "write times, counts and memory as JSON; \"-\" is\nstandard output"},
    {OPTION_TEXT, 0, "trace", "FILE", FIELD(trace), "write a timeline for ui.perfetto.dev; \"-\" is\nstandard output"},
    {OPTION_FLAG, 0, "progress", NULL, FIELD(progress), "show progress even without a terminal"},
    {OPTION_FLAG, 0, "no-progress", NULL, FIELD(no_progress), "never show progress"},
    {OPTION_FLAG, 'q', "quiet", NULL, FIELD(quiet), "print only errors on standard error"},
    {OPTION_FLAG, 'h', "help", NULL, 0, "print this help"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

uint32_t join_write_flags(bool no_clobber, bool no_sync) {
  return (no_clobber ? ADJ_NO_CLOBBER : 0u) | (no_sync ? ADJ_NO_SYNC : 0u);
}

static bool is_standard(const char *path) {
  return path && !strcmp(path, "-");
}

uint32_t join_box_lengths(const char *text, double *lengths) {
  uint32_t count = 0;
  for (;; text++) {
    char *end;
    double length = strtod(text, &end);
    if (end == text || !(length >= 0) || isinf(length) || (*end && *end != ',')) return 0;
    if (lengths) lengths[count] = length;
    count++;
    text = end;
    if (!*end) return count;
  }
}

int32_t join_device_numbers(const char *text, int32_t *numbers) {
  if (!strcmp(text, "none")) return 0;
  for (int32_t count = 0; count < JOIN_MOST_DEVICES; text++) {
    char *end;
    unsigned long number = strtoul(text, &end, 10);
    if (end == text || text[0] < '0' || text[0] > '9' || number > INT16_MAX || (*end && *end != ',')) return -1;
    if (numbers) numbers[count] = (int32_t)number;
    count++;
    text = end;
    if (!*end) return count;
  }
  return -1;
}

static int check_metric(const subcommand *command, const join_request *r) {
  if (r->metric == ADJ_LP && isnan(r->p)) return usage_error(command, "--metric lp needs --p P");
  if (r->metric != ADJ_LP && !isnan(r->p)) return usage_error(command, "--p is for --metric lp");
  if (r->metric != ADJ_HAVERSINE && (r->angle || r->unit || !isnan(r->sphere)))
    return usage_error(command, "--angle, --unit and --sphere are for --metric haversine");
  if (!isnan(r->sphere) && (!(r->sphere > 0) || r->unit > 1))
    return usage_error(command, "--sphere must be a positive radius, and is for distances in metres");
  if (r->box && !join_box_lengths(r->box, NULL))
    return usage_error(command, "--box: \"%s\" is not a list of lengths such as 1 or 10,10,0", r->box);
  return EXIT_DONE;
}

/* Errors that do not depend on the contents of files. */
static int check_request(const subcommand *command, const join_request *r) {
  if (r->kind == ADJ_RANGE && isnan(r->radius)) return usage_error(command, "-r RADIUS is missing");
  if (!isnan(r->radius) && r->radius < 0 && r->metric != ADJ_DOT)
    return usage_error(command, "--radius: %g is negative", r->radius);
  if (r->kind == ADJ_KNN && r->k == JOIN_NO_K) return usage_error(command, "-k K is missing");
  if (r->kind == ADJ_KNN && !r->k) return usage_error(command, "-k: must be at least 1");
  if (r->k > UINT32_MAX) return usage_error(command, "-k: %llu is too large", (unsigned long long)r->k);
  if (r->threads > 4096)
    return usage_error(command, "--threads: %llu is more than 4096", (unsigned long long)r->threads);
  if (r->devices && join_device_numbers(r->devices, NULL) < 0)
    return usage_error(command, "--devices: \"%s\" is not a list of GPUs such as 0 or 0,1, or none", r->devices);
  if (is_standard(r->left) && is_standard(r->right))
    return usage_error(command, "only one of the two inputs can be standard input");
  if (is_standard(r->output) + is_standard(r->stats) + is_standard(r->trace) > 1)
    return usage_error(command, "only one of --output, --stats and --trace can be standard output");
  if (r->one_way && r->right) return usage_error(command, "--one-way is for one file joined with itself");
  if (r->self && r->right) return usage_error(command, "--self is for one file joined with itself");
  if (r->self && r->one_way) return usage_error(command, "--self and --one-way cannot be combined");
  if (r->distances && !r->output) return usage_error(command, "--distances needs -o FILE for the neighbours");
  if (r->format && !r->output) return usage_error(command, "--format needs -o FILE");
  return check_metric(command, r);
}

int join_parse(const subcommand *command, join_request *request, int argc, char **argv, bool *stop) {
  const char *files[2] = {NULL, NULL};
  int many = options_parse(command, request, argc, argv, files, 2);
  *stop = true;
  if (many == PARSE_HELP) return EXIT_DONE;
  if (many == PARSE_WRONG) return EXIT_USAGE;
  if (many == 0) return usage_error(command, "the file of points is missing");
  request->left = files[0];
  request->right = files[1];
  int code = check_request(command, request);
  *stop = code != EXIT_DONE;
  return code;
}
