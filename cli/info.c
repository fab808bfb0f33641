/* SPDX-License-Identifier: MIT
 *
 * adjoin info: describes this machine, or the points in a file.
 */
#include <adjoin.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "join.h"
#include "join_points.h"
#include "message.h"
#include "signals.h"
#include "text.h"

static const option input[] = {{OPTION_HEADING, 0, NULL, NULL, 0, "Input (\"-\" is standard input)"},
                               {OPTION_END, 0, NULL, NULL, 0, NULL}};
static const option help[] = {{OPTION_HEADING, 0, NULL, NULL, 0, "Other"},
                              {OPTION_FLAG, 0, "calibrate", NULL, offsetof(join_request, calibrate),
                               "measure the costs that the planner uses on this machine,\n"
                               "in about ten seconds, and keep them in a file"},
                              {OPTION_FLAG, 0, "systems", NULL, offsetof(join_request, systems),
                               "list the published systems that --system of a join\nnames"},
                              {OPTION_FLAG, 'h', "help", NULL, 0, "print this help"},
                              {OPTION_END, 0, NULL, NULL, 0, NULL}};
static const option *const tables[] = {input, join_input_options + 1, help, NULL};

/* ---- The machine ------------------------------------------------------------------------------ */

/* The word in brackets of "always [madvise] never"; "unknown" if the system has no such setting. */
static void huge_pages(char *choice, size_t room) {
  char line[128] = "";
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file) {
    if (!fgets(line, sizeof line, file)) line[0] = 0;
    fclose(file);
  }
  const char *begin = strchr(line, '[');
  size_t length = begin ? strcspn(begin + 1, "]") : 0;
  if (length)
    snprintf(choice, room, "%.*s", (int)length, begin + 1);
  else
    snprintf(choice, room, "unknown");
}

static void print_devices(void) {
  adj_device device;
  adj_device_init(&device, sizeof device);
  if (adj_device_describe(0, &device)) {
    printf("devices         none: %s\n",
           strncmp(adj_last_error(), "backend: ", 9) ? adj_last_error() : adj_last_error() + 9);
    return;
  }
  for (uint32_t i = 0; !adj_device_describe(i, &device); i++) {
    char total[32], unused[32];
    printf("device %-8u %s, compute capability %u.%u, %u multiprocessors\n", i, device.name, device.major, device.minor,
           device.multiprocessors);
    printf("                %s, of which %s are free; driver for CUDA %u.%u, built with %u.%u\n",
           text_bytes((double)device.memory, total), text_bytes((double)device.memory_free, unused),
           device.driver / 1000, device.driver % 1000 / 10, device.runtime / 1000, device.runtime % 1000 / 10);
    if (device.tensor_bits)
      printf("                tensor cores checked: sums are cut at 2^-%u of the largest addend\n", device.tensor_bits);
    else
      printf("                tensor cores not used: their sums are off by more than the prefilters allow\n");
  }
}

static void print_machine(const adj_ctx *ctx) {
  char total[32], limit[32], pages[64];
  double bytes = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGESIZE);
  huge_pages(pages, sizeof pages);
  const char *features = adj_build_features();
  printf("adjoin          %s\n", adj_version_string());
  printf("threads         %u: %s\n", adj_ctx_threads(ctx), adj_ctx_threads_from(ctx));
  printf("instructions    ");
  for (uint32_t i = 0; adj_isa_name(i); i++)
    printf("%s%s", i ? " " : "", adj_isa_name(i));
  printf("  (used: %s)\n", adj_ctx_isa(ctx));
  printf("memory          %s, of which a join may use %s: %s\n", text_bytes(bytes, total),
         text_bytes((double)adj_ctx_memory_limit(ctx), limit), adj_ctx_memory_from(ctx));
  printf("huge pages      %s\n", pages);
  printf("costs           %s\n",
         adj_ctx_costs(ctx) ? adj_ctx_costs(ctx) : "built in (--calibrate measures those of this machine)");
  printf("built with      %s\n", *features ? features : "no optional parts");
  print_devices();
}

/* ---- Systems ---------------------------------------------------------------------------------- */

static void print_backends(uint32_t set) {
  static const char *const names[] = {
      [ADJ_BACKEND_CPU] = "cpu", [ADJ_BACKEND_GPU] = "gpu", [ADJ_BACKEND_HYBRID] = "hybrid"};
  for (uint32_t b = ADJ_BACKEND_CPU; b <= ADJ_BACKEND_HYBRID; b++)
    if (set >> b & 1) printf(" %s", names[b]);
}

static void print_systems(void) {
  adj_system system;
  adj_system_init(&system, sizeof system);
  for (uint32_t i = 0; !adj_system_describe(i, &system); i++) {
    printf("%s%s: %s\n", i ? "\n" : "", system.name, system.summary);
    printf("  paper         %s, section %s\n", system.paper, system.sections);
    printf("  use           adjoin %s --system %s; backend", system.kind == ADJ_KNN ? "knn" : "range", system.name);
    print_backends(system.backends);
    printf("\n  settings      --algorithm %s%s%s\n", system.algorithm, system.tuning ? " --tuning " : "",
           system.tuning ? system.tuning : "");
    if (system.differences) printf("  differences   %s\n", system.differences);
  }
}

/* ---- A file ----------------------------------------------------------------------------------- */

/* The radius at which points spread evenly over the bounds would have about ten neighbours each, rounded to one digit;
 * 0 if there is no such radius. Dimensions of extent 0 are ignored. */
static double suggest_radius(const adj_dataset *points) {
  double count = (double)adj_dataset_count(points), log_volume = 0, dim = 0;
  for (uint32_t j = 0; j < adj_dataset_dim(points); j++) {
    double low, high;
    adj_dataset_bounds(points, j, &low, &high);
    if (high > low) {
      log_volume += log(high - low);
      dim++;
    }
  }
  if (dim == 0 || count < 2) return 0;
  double log_ball = dim / 2 * log(acos(-1.0)) - lgamma(dim / 2 + 1); /* volume of the unit ball */
  double radius = exp((log_volume - log_ball + log(10 / count)) / dim);
  if (!isfinite(radius) || radius <= 0) return 0;
  double digit = pow(10, floor(log10(radius)));
  return round(radius / digit) * digit;
}

static void print_bounds(const adj_dataset *points) {
  enum { MOST = 16 };
  uint32_t dim = adj_dataset_dim(points);
  for (uint32_t j = 0; j < dim && j < MOST; j++) {
    double low, high;
    adj_dataset_bounds(points, j, &low, &high);
    char name[32];
    const char *column = adj_dataset_column(points, j);
    snprintf(name, sizeof name, "dimension %u", j + 1);
    printf("%-15s %.9g to %.9g%s%s\n", name, low, high, column ? ", column " : "", column ? column : "");
  }
  if (dim > MOST) printf("%-15s %u more dimensions\n", "...", dim - MOST);
}

/* Suggests a command that reads the file with the same options. */
static void print_next(const char *path, const join_request *r, double radius) {
  const char *const options[][2] = {{"input-format", r->input_format},
                                    {"columns", r->columns},
                                    {"id", r->id},
                                    {"shape", r->shape},
                                    {"dataset", r->dataset}};
  printf("\nNext: adjoin count -r %g %s", radius, path);
  if (r->type) printf(" --type %s", r->type == ADJ_F64 ? "f64" : "f32");
  for (size_t i = 0; i < sizeof options / sizeof *options; i++)
    if (options[i][1]) printf(" --%s %s", options[i][0], options[i][1]);
  if (r->allow_external) printf(" --allow-external");
  printf("\n(if the points were spread evenly, each would have about ten neighbours within that radius)\n");
}

static void print_points(const char *path, const join_request *request, const adj_dataset *points, double seconds) {
  char count[32], time[32], bytes[32];
  uint64_t n = adj_dataset_count(points);
  uint32_t dim = adj_dataset_dim(points);
  bool wide = adj_dataset_type(points) == ADJ_F64;
  size_t length;
  printf("file            %s\n", path);
  printf("points          %s\n", text_count(n, count));
  printf("dimensions      %u\n", dim);
  printf("type            %s, %s in memory\n", wide ? "f64" : "f32",
         text_bytes((double)n * dim * (wide ? 8 : 4), bytes));
  const char *label = n ? adj_dataset_label(points, 0, &length) : NULL;
  if (label) printf("names           yes; the first is \"%.*s\"\n", (int)(length < 200 ? length : 200), label);
  print_bounds(points);
  printf("read in         %s\n", text_duration(seconds, time));
  double radius = suggest_radius(points);
  if (radius > 0) print_next(path, request, radius);
}

/* ---- The command ------------------------------------------------------------------------------ */

static void print_log(void *user, adj_log_level level, const char *line) {
  char text[MESSAGE_ROOM];
  if (level == ADJ_LOG_DEBUG) return;
  fprintf(stderr, "adjoin: %s: %s\n", level == ADJ_LOG_WARN ? "warning" : "note",
          message_with_options(line, user, text));
}

/* Measures costs, and replaces the context by one that uses them. */
static adj_status calibrate(const adj_ctx_options *settings, adj_ctx **ctx) {
  adj_status status = adj_calibrate(*ctx, NULL);
  if (status) return status;
  signals_watch(NULL);
  adj_ctx_destroy(*ctx);
  *ctx = NULL;
  status = adj_ctx_create(settings, ctx);
  if (!status) signals_watch(*ctx);
  return status;
}

static int run(const subcommand *command, int argc, char **argv) {
  join_request request = {.radius = NAN};
  const char *path = NULL;
  int many = options_parse(command, &request, argc, argv, &path, 1);
  if (many == PARSE_HELP) return EXIT_DONE;
  if (many == PARSE_WRONG) return EXIT_USAGE;
  if (request.systems) {
    print_systems();
    return EXIT_DONE;
  }
  adj_ctx *ctx = NULL;
  adj_dataset *points = NULL;
  adj_ctx_options settings;
  adj_ctx_options_init(&settings, sizeof settings);
  const char *files[] = {path, NULL};
  settings.log = print_log;
  settings.log_user = files;
  adj_status status = adj_ctx_create(&settings, &ctx);
  if (!status) signals_watch(ctx);
  if (!status && request.calibrate) status = calibrate(&settings, &ctx);
  if (!status && path) {
    adj_open_options options = points_options(&request);
    double began = seconds_now();
    status = adj_dataset_open(ctx, path, &options, &points);
    if (!status) print_points(path, &request, points, seconds_now() - began);
  } else if (!status) {
    print_machine(ctx);
  }
  int code = status ? join_failed(status, files) : EXIT_DONE;
  signals_watch(NULL);
  adj_dataset_destroy(points);
  adj_ctx_destroy(ctx);
  return code;
}

const subcommand command_info = {
    "info",
    "describe this machine, or the points in a file",
    "[FILE] [options]",
    "  adjoin info                                      cores, instruction sets, memory, GPUs\n"
    "  adjoin info --calibrate                          measure this machine for the planner\n"
    "  adjoin info --systems                            the papers' systems, for --system of a join\n"
    "  adjoin info points.csv --columns x,y,z           number of points, type, range of each column\n",
    tables,
    run,
};
