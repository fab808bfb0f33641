/* SPDX-License-Identifier: MIT
 *
 * The options that range, knn and count share, and what must hold between them.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "join.h"

#define FIELD(name) offsetof(join_request, name)

const option join_metric_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "Distance"},
    {OPTION_CHOICE, 0, "metric", "l2|l1|linf|lp|cosine|dot|haversine", FIELD(metric),
     "default l2. dot: the inner product, more is nearer, and\nR the least; haversine: the great circle, of columns\n"
     "longitude, latitude"},
    {OPTION_REAL, 0, "p", "P", FIELD(p), "lp: the exponent, at least 1"},
    {OPTION_TEXT, 0, "box", "L[,L...]", FIELD(box),
     "l2, l1, linf, lp: a periodic box, one length for all\ndimensions or one for each, 0: not periodic"},
    {OPTION_CHOICE, 0, "angle", "degrees|radians", FIELD(angle), "haversine: of the columns; default degrees"},
    {OPTION_CHOICE, 0, "unit", "metres|degrees|radians", FIELD(unit),
     "haversine: of R and of distances; default metres"},
    {OPTION_REAL, 0, "sphere", "R", FIELD(sphere), "haversine: radius in metres; default 6371008.8"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

const option join_input_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "Input (both files; \"-\" is standard input)"},
    {OPTION_CHOICE, 0, "type", "f32|f64", FIELD(type),
     "convert the points; default: as stored, text as f32.\nThe join is exact in this type"},
    {OPTION_TEXT, 0, "input-format", "NAME", FIELD(input_format),
     "npy, csv, tsv, fvecs, bvecs, fbin, u8bin, i8bin, raw\nor hdf5; default: from the file"},
    {OPTION_TEXT, 0, "columns", "LIST", FIELD(columns), "csv, tsv: the coordinates, \"x,y,z\" or \"2-4\""},
    {OPTION_TEXT, 0, "id", "COLUMN", FIELD(id), "csv, tsv: names of the points, used in text output"},
    {OPTION_TEXT, 0, "shape", "SHAPE", FIELD(shape), "raw: type and dimension, \"f32:3\" or \"f64:1000x16\""},
    {OPTION_TEXT, 0, "dataset", "PATH", FIELD(dataset), "hdf5: which dataset in the file"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

const option join_run_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "How to run (none of this changes the answer)"},
    {OPTION_CHOICE, 0, "backend", "auto|cpu|gpu|hybrid|reference", FIELD(backend), "where to compute; default auto"},
    {OPTION_COUNT, 0, "threads", "N", FIELD(threads), "default: one per usable core"},
    {OPTION_SIZE, 0, "memory", "SIZE", FIELD(memory),
     "most memory to hold, such as 4G; default: 90 %\nof what is free"},
    {OPTION_TEXT, 0, "devices", "LIST", FIELD(devices),
     "GPUs to use, by the numbers of \"adjoin info\": \"0,1\",\nor none; default: all"},
    {OPTION_SIZE, 0, "device-memory", "SIZE", FIELD(device_memory), "most memory of each GPU; default: what is free"},
    {OPTION_TEXT, 0, "isa", "NAME", FIELD(isa), "instruction set: scalar, avx2, avx512, neon"},
    {OPTION_TEXT, 0, "algorithm", "NAME", FIELD(algorithm),
     "auto, or grid, ego, brute; of knn kdtree, brute, and\nwith a GPU grid"},
    {OPTION_TEXT, 0, "tuning", "LIST", FIELD(tuning),
     "override the planner: \"indexed=4,batch=1024\"; names in\ntuning.md"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

const option join_report_options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0, "Reports (on standard error, or in files)"},
    {OPTION_FLAG, 0, "explain", NULL, FIELD(explain), "print the plan and its reasons, then what happened"},
    {OPTION_FLAG, 0, "dry-run", NULL, FIELD(dry_run), "print the plan on standard output and stop"},
    {OPTION_TEXT, 0, "stats", "FILE", FIELD(stats), "times, counts and memory as JSON; \"-\": standard\noutput"},
    {OPTION_TEXT, 0, "trace", "FILE", FIELD(trace), "a timeline for ui.perfetto.dev; \"-\": standard output"},
    {OPTION_FLAG, 0, "progress", NULL, FIELD(progress), "show progress even where there is no terminal"},
    {OPTION_FLAG, 0, "no-progress", NULL, FIELD(no_progress), "never show progress"},
    {OPTION_FLAG, 'q', "quiet", NULL, FIELD(quiet), "nothing but errors on standard error"},
    {OPTION_FLAG, 'h', "help", NULL, 0, "this text"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

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
    return usage_error(command, "--sphere is the radius of a sphere, for distances in metres");
  if (r->box && !join_box_lengths(r->box, NULL))
    return usage_error(command, "--box: \"%s\" is no list of lengths such as 1 or 10,10,0", r->box);
  return EXIT_DONE;
}

/* What is wrong usage whatever the files hold. */
static int check_request(const subcommand *command, const join_request *r) {
  if (r->kind == ADJ_RANGE && isnan(r->radius)) return usage_error(command, "-r RADIUS is missing");
  if (!isnan(r->radius) && r->radius < 0 && r->metric != ADJ_DOT)
    return usage_error(command, "--radius: %g is negative", r->radius);
  if (r->kind == ADJ_KNN && r->k == JOIN_NO_K) return usage_error(command, "-k K is missing");
  if (r->kind == ADJ_KNN && !r->k) return usage_error(command, "-k: 0 is too few, the least is 1");
  if (r->k > UINT32_MAX) return usage_error(command, "-k: %llu is too large", (unsigned long long)r->k);
  if (r->threads > 4096)
    return usage_error(command, "--threads: %llu is more than 4096", (unsigned long long)r->threads);
  if (r->devices && join_device_numbers(r->devices, NULL) < 0)
    return usage_error(command, "--devices: \"%s\" is no list of GPUs such as 0 or 0,1, nor none", r->devices);
  if (is_standard(r->left) && is_standard(r->right))
    return usage_error(command, "standard input can be only one of the two inputs");
  if (is_standard(r->output) + is_standard(r->stats) + is_standard(r->trace) > 1)
    return usage_error(command, "only one of --output, --stats and --trace can be standard output");
  if (r->one_way && r->right) return usage_error(command, "--one-way is for one set joined with itself");
  if (r->self && r->right) return usage_error(command, "--self is for one set joined with itself");
  if (r->self && r->one_way) return usage_error(command, "--self and --one-way exclude each other");
  if (r->distances && !r->output)
    return usage_error(command, "--distances is beside the neighbours: -o FILE is missing");
  if (r->format && !r->output) return usage_error(command, "--format is about the output: -o FILE is missing");
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
