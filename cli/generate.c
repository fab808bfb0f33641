/* SPDX-License-Identifier: MIT
 *
 * adjoin generate: synthetic points, the same on every machine.
 */
#include <adjoin.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "join.h"
#include "signals.h"
#include "text.h"

typedef struct generate_request {
  uint64_t count, dim, seed, clusters, threads, memory;
  double lambda;
  int type;
  bool quiet, no_clobber, no_sync;
  const char *output, *format;
} generate_request;

#define FIELD(name) offsetof(generate_request, name)

static const option options[] = {
    {OPTION_HEADING, 0, NULL, NULL, 0,
     "KIND is unif, expo, clusters, codes, normal, sphere, lattice, duplicates, repeats, scales or flat;\n"
     "or the name of a published set, which gives the number of points and dimensions:\n"
     "  Unif2D2M, Expo6D10M, Syn16D2M    made as in the papers; kind, dimension and size in one word\n"
     "  GAIA, OSM, SDSS                  imitations of real sets: stars, GPS positions, galaxies,\n"
     "  SW2DA, SW2DB, SW3DA, SW3DB       space weather,\n"
     "  CoocTexture, ColorHist, LayoutHist, SuSy, Songs\n"
     "                                   features of images, particles and songs"},
    {OPTION_NUMBER, 'n', "count", "N", FIELD(count), "number of points, such as 10k or 2M"},
    {OPTION_NUMBER, 'd', "dim", "D", FIELD(dim), "number of dimensions"},
    {OPTION_COUNT, 0, "seed", "S", FIELD(seed), "seed of the random numbers. Default: 1"},
    {OPTION_REAL, 0, "lambda", "L", FIELD(lambda), "expo: the rate. Default: 40"},
    {OPTION_COUNT, 0, "clusters", "N", FIELD(clusters),
     "clusters, codes, duplicates: number of centres.\nDefault: about sqrt(N)"},
    {OPTION_CHOICE, 0, "type", "f32|f64", FIELD(type), "Default: f32"},
    {OPTION_TEXT, 'o', "output", "FILE", FIELD(output), "file to write (required); \"-\" is standard output"},
    {OPTION_NAME, 0, "format", "NAME", FIELD(format),
     "npy, csv, tsv, fvecs, fbin or raw. Default: by the\nending of FILE, or csv for \"-\""},
    JOIN_WRITE_OPTIONS(generate_request),
    {OPTION_COUNT, 0, "threads", "N", FIELD(threads), "Default: one per available core"},
    {OPTION_SIZE, 0, "memory", "SIZE", FIELD(memory), "memory limit, such as 4G. Default: 90 % of what is\nfree"},
    {OPTION_FLAG, 'q', "quiet", NULL, FIELD(quiet), "print only errors on standard error"},
    {OPTION_FLAG, 'h', "help", NULL, 0, "print this help"},
    {OPTION_END, 0, NULL, NULL, 0, NULL}};

static const option *const tables[] = {options, NULL};

static adj_status generate(adj_ctx *ctx, const char *kind, const generate_request *request, adj_dataset **points) {
  adj_generate_options generator;
  adj_generate_options_init(&generator, sizeof generator);
  generator.name = kind;
  generator.count = request->count;
  generator.dim = (uint32_t)request->dim;
  generator.seed = request->seed;
  generator.lambda = request->lambda;
  generator.clusters = (uint32_t)request->clusters;
  if (request->type) generator.type = (adj_type)request->type;
  adj_write_options how;
  adj_write_options_init(&how, sizeof how);
  how.format = request->format;
  how.flags = join_write_flags(request->no_clobber, request->no_sync);
  const char *const outputs[] = {request->output, NULL};
  adj_status status = adj_paths_check(NULL, outputs, how.flags);
  if (!status) status = signals_status(adj_dataset_generate(ctx, &generator, points));
  return status ? status : adj_dataset_write(*points, request->output, &how);
}

static void summarise(const adj_dataset *points, const generate_request *request, double seconds) {
  char count[32], time[32];
  fprintf(stderr, "adjoin: %s points of %u dimensions, %s, in %s\n", text_count(adj_dataset_count(points), count),
          adj_dataset_dim(points), adj_dataset_type(points) == ADJ_F64 ? "f64" : "f32", text_duration(seconds, time));
  if (strcmp(request->output, "-")) fprintf(stderr, "adjoin: wrote %s\n", request->output);
}

static int run(const subcommand *command, int argc, char **argv) {
  generate_request request = {.seed = 1};
  const char *kind = NULL;
  int many = options_parse(command, &request, argc, argv, &kind, 1);
  if (many == PARSE_HELP) return EXIT_DONE;
  if (many == PARSE_WRONG) return EXIT_USAGE;
  if (!kind) return usage_error(command, "the kind of points is missing, such as unif or clusters");
  if (!request.output) return usage_error(command, "-o FILE is missing");
  if (request.dim > 1u << 24) return usage_error(command, "--dim: %llu is too large", (unsigned long long)request.dim);
  if (request.clusters > UINT32_MAX || request.threads > 4096)
    return usage_error(command, "--clusters or --threads is too large");

  double began = seconds_now();
  adj_ctx *ctx = NULL;
  adj_dataset *points = NULL;
  adj_ctx_options settings;
  adj_ctx_options_init(&settings, sizeof settings);
  settings.threads = (uint32_t)request.threads;
  settings.memory_limit = request.memory;
  adj_status status = adj_ctx_create(&settings, &ctx);
  if (!status) {
    signals_watch(ctx);
    status = generate(ctx, kind, &request, &points);
  }
  const char *files[] = {request.output, NULL};
  int code = status ? join_failed(status, files) : EXIT_DONE;
  if (!status && !request.quiet) summarise(points, &request, seconds_now() - began);
  signals_watch(NULL);
  adj_dataset_destroy(points);
  adj_ctx_destroy(ctx);
  return code;
}

const subcommand command_generate = {
    "generate",
    "make synthetic points, the same on every machine",
    "KIND -n N -d D -o FILE [options]",
    "  adjoin generate clusters -n 1M -d 3 -o points.npy\n"
    "                                                   a million points in 3-D clusters\n"
    "  adjoin generate unif -n 1000 -d 2 --seed 7 -o -  evenly spread points, printed as csv\n"
    "  adjoin generate Expo2D2M -o expo.npy             a set used in papers: 2 million points, 2-D\n"
    "  adjoin generate OSM -n 1M -o osm.npy             a million points that lie like GPS positions\n",
    tables,
    run,
};
