/* SPDX-License-Identifier: MIT
 *
 * What distribution costs: a join by several ranks, compared with the same join by one process.
 *
 *   mpirun -n RANKS bench/driver_mpi SET COUNT DIM K|RADIUS auto|replicated|ring|halo|alone [scattered|grouped=N]
 *   [ids=8] [distances] [warm=GB]
 *
 * SET: unif, expo or clusters. K: a whole number; RADIUS: a number with a decimal point. alone: by libadjoin, on one
 * rank. Rank i has the rows from COUNT * i / RANKS on; with "scattered" it has every RANKS-th row, from row i on. Both
 * are spread over all of space. With "grouped=N" the rows are first sorted by N regions of equally many points, so that
 * with N ranks each has a domain of its own, as in a simulation. Results of several ranks have ids of 32 bits, as in
 * one process, or of 64 bits with "ids=8"; "distances" asks for distances. With "warm=GB" the ranks first touch that
 * much memory in all: a virtual machine whose host takes free memory back gets it again then, and not during the join.
 *
 * There is one thread per rank. Prints one line of JSON: CPU seconds of all ranks (user and system, of the plan and the
 * run; how many of these in the kernel, and how many while waiting for messages, when MPI copies them), bytes sent,
 * imbalance, peak memory, and a checksum of ids. The checksum is the same for every distribution and number of ranks,
 * but depends on "scattered" and "grouped".
 */
#include <inttypes.h>
#include <math.h>
#include <mpi.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "adjoin_mpi.h"

static int rank, ranks;

static void must(adj_status status) {
  if (!status) return;
  fprintf(stderr, "driver_mpi: %s\n", adj_last_error());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static double cpu(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The value of the option that begins with `name`, or NULL. */
static const char *option(char **argv, const char *name) {
  for (char **arg = argv + 6; *arg; arg++)
    if (!strncmp(*arg, name, strlen(name))) return *arg + strlen(name);
  return NULL;
}

static void check_options(char **argv) {
  for (char **arg = argv + 6; *arg; arg++)
    if (strcmp(*arg, "scattered") != 0 && strncmp(*arg, "grouped=", 8) != 0 && strcmp(*arg, "ids=8") != 0 &&
        strcmp(*arg, "distances") != 0 && strncmp(*arg, "warm=", 5) != 0) {
      fprintf(stderr, "driver_mpi: %s is not one of scattered, grouped=N, ids=8, distances, warm=GB\n", *arg);
      MPI_Abort(MPI_COMM_WORLD, 2);
    }
}

/* Touches this rank's part of `gigabytes`, and gives it back. */
static void warm_memory(const char *gigabytes) {
  enum { PAGE = 4096 };
  size_t bytes = (size_t)(strtod(gigabytes, NULL) * 1e9 / ranks);
  char *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) must(ADJ_E_MEMORY);
  madvise(block, bytes, MADV_HUGEPAGE);
  for (size_t i = 0; i < bytes; i += PAGE)
    block[i] = 1;
  MPI_Barrier(MPI_COMM_WORLD);
  munmap(block, bytes);
}

/* The rows of a set by region: order[i] is the row that comes i-th. */
static uint64_t *group_rows(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *all, uint64_t count,
                            uint32_t regions) {
  adj_split *split = NULL;
  uint32_t *home = calloc(count + 1, sizeof *home);
  uint64_t *order = malloc((count + 1) * sizeof *order), at = 0;
  if (!home || !order) {
    must(ADJ_E_MEMORY);
    exit(1);
  }
  must(adj_split_create(ctx, spec, all, NULL, regions, &split));
  must(adj_split_home(split, all, home));
  for (uint32_t region = 0; region < regions; region++)
    for (uint64_t i = 0; i < count; i++)
      if (home[i] == region) order[at++] = i;
  free(home);
  adj_split_destroy(split);
  return order;
}

static adj_dataset *my_points(adj_ctx *ctx, const adj_join_spec *spec, char **argv, uint64_t count, uint32_t dim) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = argv[1];
  options.count = count;
  options.dim = dim;
  adj_dataset *all = NULL, *mine = NULL;
  must(adj_dataset_generate(ctx, &options, &all));
  bool scattered = option(argv, "scattered") != NULL;
  const char *regions = option(argv, "grouped=");
  uint64_t *order = regions ? group_rows(ctx, spec, all, count, (uint32_t)strtoul(regions, NULL, 10)) : NULL;
  uint64_t first = count * (uint64_t)rank / (uint64_t)ranks, end = count * ((uint64_t)rank + 1) / (uint64_t)ranks;
  uint64_t many = scattered ? (count + (uint64_t)(ranks - rank) - 1) / (uint64_t)ranks : end - first;
  float *rows = malloc((many + 1) * dim * sizeof *rows);
  for (uint64_t i = 0; rows && i < many; i++) {
    uint64_t row = scattered ? (uint64_t)rank + i * (uint64_t)ranks : order ? order[first + i] : first + i;
    must(adj_dataset_row(all, row, rows + i * dim));
  }
  free(order);
  adj_dataset_destroy(all);
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = dim;
  points.count = many;
  points.data = rows;
  must(adj_dataset_create(ctx, &points, &mine));
  free(rows);
  return mine;
}

/* A hash of row and id. Hashes are summed over all entries, so their order does not matter. */
static uint64_t hash_entry(uint64_t row, uint64_t id) {
  uint64_t x = (row * UINT64_C(0x9e3779b97f4a7c15)) ^ (id * UINT64_C(0xc2b2ae3d27d4eb4f));
  x ^= x >> 29;
  return x * UINT64_C(0xbf58476d1ce4e5b9);
}

/* Seconds of this process in the kernel, mostly for clearing pages and for copies between processes. */
static double kernel(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return (double)usage.ru_stime.tv_sec + (double)usage.ru_stime.tv_usec * 1e-6;
}

typedef struct outcome {
  double cpu, kernel;
  uint64_t checksum, pairs;
  adj_mpi_stats stats;
} outcome;

static void join_alone(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *set, outcome *out) {
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  double begin = cpu(), inside = kernel();
  must(adj_plan_create(ctx, spec, set, NULL, &plan));
  must(adj_collect(plan, &result, NULL, NULL));
  out->cpu = cpu() - begin;
  out->kernel = kernel() - inside;
  out->pairs = adj_result_pairs(result);
  out->stats.peak_bytes = adj_ctx_memory_peak(ctx);
  for (uint64_t i = 0; i < adj_result_rows(result); i++)
    for (uint64_t e = adj_result_offsets(result)[i]; e < adj_result_offsets(result)[i + 1]; e++)
      out->checksum += hash_entry(i, adj_result_ids(result)[e]);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
}

static void join_together(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *set,
                          adj_mpi_distribution distribution, uint32_t id_bytes, outcome *out) {
  adj_mpi_options options;
  adj_mpi_options_init(&options, sizeof options);
  options.distribution = distribution;
  options.id_bytes = id_bytes;
  adj_mpi_plan *plan = NULL;
  adj_mpi_result *result = NULL;
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = cpu(), inside = kernel();
  must(adj_mpi_plan_create(MPI_COMM_WORLD, ctx, spec, set, NULL, &options, &plan));
  must(adj_mpi_collect(plan, &result, NULL, &out->stats));
  out->cpu = cpu() - begin;
  out->kernel = kernel() - inside;
  adj_mpi_layout layout;
  adj_mpi_layout_init(&layout, sizeof layout);
  must(adj_mpi_result_layout(result, &layout));
  out->pairs = adj_mpi_result_pairs(result);
  const uint32_t *narrow = adj_mpi_result_ids_32(result);
  const int64_t *wide = adj_mpi_result_ids(result);
  for (uint64_t i = 0; i < layout.rows; i++)
    for (uint64_t e = adj_mpi_result_offsets(result)[i]; e < adj_mpi_result_offsets(result)[i + 1]; e++)
      out->checksum += hash_entry(layout.first_row + i, narrow ? narrow[e] : (uint64_t)wide[e]);
  adj_mpi_result_destroy(result);
  adj_mpi_plan_destroy(plan);
}

int main(int argc, char **argv) {
  int level;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc < 6) {
    fprintf(
        stderr,
        "usage: driver_mpi SET COUNT DIM K|RADIUS DISTRIBUTION [scattered|grouped=N] [ids=8] [distances] [warm=GB]\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  check_options(argv);
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = 1;
  adj_ctx *ctx = NULL;
  must(adj_mpi_ctx_create(MPI_COMM_WORLD, &options, &ctx));
  uint32_t dim = (uint32_t)strtoul(argv[3], NULL, 10);
  uint64_t count = strtoull(argv[2], NULL, 10);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.backend = ADJ_BACKEND_CPU;
  if (strchr(argv[4], '.')) {
    spec.radius = strtod(argv[4], NULL);
  } else {
    spec.kind = ADJ_KNN;
    spec.k = (uint32_t)strtoul(argv[4], NULL, 10);
  }
  if (option(argv, "distances")) spec.flags |= ADJ_WITH_DISTANCE;
  uint32_t id_bytes = option(argv, "ids=8") ? 8 : 4, entry = id_bytes + (option(argv, "distances") ? 4 : 0);
  adj_dataset *set = my_points(ctx, &spec, argv, count, dim);
  adj_mpi_distribution distribution = ADJ_MPI_AUTO;
  while (adj_mpi_distribution_name(distribution) && strcmp(adj_mpi_distribution_name(distribution), argv[5]) != 0)
    distribution++;
  if (option(argv, "warm=")) warm_memory(option(argv, "warm="));
  outcome o = {0};
  adj_mpi_stats_init(&o.stats, sizeof o.stats);
  if (!adj_mpi_distribution_name(distribution))
    join_alone(ctx, &spec, set, &o);
  else
    join_together(ctx, &spec, set, distribution, id_bytes, &o);
  const adj_mpi_stats *s = &o.stats;
  uint64_t width = dim * sizeof(float), here = (s->points + s->halo_points) * width + o.pairs * entry + s->rows * 8;
  double sums[] = {o.cpu,
                   (double)s->bytes_points,
                   (double)s->bytes_least,
                   (double)s->bytes_rows,
                   (double)s->halo_points,
                   o.kernel,
                   s->wait_cpu_s};
  double most[] = {(double)s->peak_bytes, (double)s->peak_bytes / (double)(here + 1)};
  uint64_t exact[] = {o.checksum, o.pairs};
  MPI_Allreduce(MPI_IN_PLACE, sums, 7, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, most, 2, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, exact, 2, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  if (!rank)
    printf("{\"set\": \"%s\", \"count\": %" PRIu64
           ", \"dim\": %u, \"ask\": \"%s\", \"how\": \"%s\", \"ranks\": %d, "
           "\"cpu_s\": %.2f, \"kernel_s\": %.2f, \"wait_cpu_s\": %.2f, \"mb_points\": %.1f, \"mb_least\": %.1f, "
           "\"mb_rows\": %.1f, \"halo\": %.0f, "
           "\"work_imbalance\": %.3f, \"busy_imbalance\": %.3f, \"peak_mb\": %.1f, \"peak_of_needed\": %.2f, "
           "\"pairs\": %" PRIu64 ", \"checksum\": \"%016" PRIx64 "\"}\n",
           argv[1], count, dim, argv[4], argv[5], ranks, sums[0], sums[5], sums[6], sums[1] / 1e6, sums[2] / 1e6,
           sums[3] / 1e6, sums[4], s->work_imbalance, s->busy_imbalance, most[0] / 1e6, most[1], exact[1], exact[0]);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
  MPI_Finalize();
  return 0;
}
