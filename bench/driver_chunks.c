/* SPDX-License-Identifier: MIT
 *
 * Joins of sets that do not fit the memory of a GPU, compared with the same joins with enough memory:
 *
 *   bench/driver_chunks unif|expo|... COUNT DIM K|RADIUS|csr:RADIUS BACKEND[:THREADS[:TUNING]] REPEATS MEMORY...
 *
 * K: a whole number, the k nearest with distances. RADIUS: a number with a decimal point, for counts; after csr: all
 * rows. THREADS: 0 or not given: one per core. TUNING: settings as in adj_join_spec.tuning. MEMORY: limits of the
 * device in MiB, 0: all. Prints one line for each limit, for the quickest of adj_plan_create and the run together: the
 * seconds of both, of kernels and of the phases, the host's memory, and a checksum of ids and distances, or of counts.
 * The checksum must be the same in every line. BACKEND cpu: how joins of large sets on cores grow.
 */
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adjoin.h"

enum { PHASES = 24 };

static struct {
  pthread_mutex_t lock;
  const char *names[PHASES];
  double seconds[PHASES];
  int times[PHASES], count;
} phases = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Takes the phases of lane 0, which runs a device that is alone. */
static void add_phase(void *user, const adj_trace_event *event) {
  (void)user;
  if (event->lane) return;
  pthread_mutex_lock(&phases.lock);
  int i = 0;
  while (i < phases.count && strcmp(phases.names[i], event->name) != 0)
    i++;
  if (i == phases.count && i < PHASES) phases.names[phases.count++] = event->name;
  if (i < PHASES) {
    phases.seconds[i] += (double)(event->end_ns - event->begin_ns) * 1e-9;
    phases.times[i]++;
  }
  pthread_mutex_unlock(&phases.lock);
}

static void forget_phases(void) {
  memset(phases.seconds, 0, sizeof phases.seconds);
  memset(phases.times, 0, sizeof phases.times);
  phases.count = 0;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void must(adj_status status) {
  if (!status) return;
  fprintf(stderr, "%s\n", adj_last_error());
  exit(1);
}

/* Eight sums side by side, because each step of one sum waits for the step before. */
static uint64_t sum_up(const void *data, uint64_t bytes) {
  enum { SIDES = 8 };
  const uint32_t *words = data;
  uint64_t sums[SIDES] = {0}, sum = 0, count = bytes / 4, i = 0;
  for (; i + SIDES <= count; i += SIDES)
    for (int k = 0; k < SIDES; k++)
      sums[k] = (sums[k] ^ words[i + (uint64_t)k]) * UINT64_C(0x100000001b3) + (sums[k] >> 37);
  for (; i < count; i++)
    sums[0] = (sums[0] ^ words[i]) * UINT64_C(0x100000001b3) + (sums[0] >> 37);
  for (int k = 0; k < SIDES; k++)
    sum = (sum ^ sums[k]) * UINT64_C(0x100000001b3) + (sum >> 37);
  return sum;
}

typedef struct request {
  adj_join_spec spec;
  bool count; /* range joins: only counts, no rows */
} request;

/* Runs the join once. Returns the seconds. */
static double run(adj_ctx *ctx, const request *wanted, const adj_dataset *set, adj_stats *stats, uint64_t *sum,
                  double *plan_s) {
  adj_plan *plan = NULL;
  double begin = now(), seconds;
  must(adj_plan_create(ctx, &wanted->spec, set, NULL, &plan));
  *plan_s = now() - begin;
  if (!wanted->count) {
    adj_result *result = NULL;
    must(adj_collect(plan, &result, NULL, stats));
    seconds = now() - begin;
    bool knn = wanted->spec.kind == ADJ_KNN, fresh = !*sum;
    uint64_t rows = adj_result_rows(result), entries = knn ? rows * wanted->spec.k : adj_result_offsets(result)[rows];
    if (fresh) *sum = sum_up(adj_result_ids(result), entries * 4);
    if (fresh && knn) *sum ^= sum_up(adj_result_distances(result), entries * 4);
    adj_result_destroy(result);
  } else {
    uint64_t pairs = 0;
    uint32_t *degrees = malloc(adj_dataset_count(set) * sizeof *degrees);
    memset(degrees, 1, adj_dataset_count(set) * sizeof *degrees);
    begin = now() - *plan_s;
    must(adj_count(plan, degrees, &pairs, NULL, stats));
    seconds = now() - begin;
    if (!*sum) *sum = sum_up(degrees, adj_dataset_count(set) * sizeof *degrees) + pairs;
    free(degrees);
  }
  adj_plan_destroy(plan);
  return seconds;
}

static request request_of(char **arguments) {
  request r = {.count = false};
  const char *what = arguments[4], *backend = arguments[5];
  bool rows = !strncmp(what, "csr:", 4), knn = !rows && !strchr(what, '.');
  adj_join_spec_init(&r.spec, sizeof r.spec);
  r.spec.kind = knn ? ADJ_KNN : ADJ_RANGE;
  r.count = !knn && !rows;
  if (knn) {
    r.spec.k = (uint32_t)strtoul(what, NULL, 10);
    r.spec.flags = ADJ_WITH_DISTANCE;
  } else {
    r.spec.radius = strtod(rows ? what + 4 : what, NULL);
  }
  r.spec.backend = !strncmp(backend, "gpu", 3)      ? ADJ_BACKEND_GPU
                   : !strncmp(backend, "hybrid", 6) ? ADJ_BACKEND_HYBRID
                   : !strncmp(backend, "cpu", 3)    ? ADJ_BACKEND_CPU
                                                    : ADJ_BACKEND_AUTO;
  const char *threads = strchr(backend, ':'), *tuning = threads ? strchr(threads + 1, ':') : NULL;
  if (tuning) r.spec.tuning = tuning + 1;
  return r;
}

static void time_limit(char **arguments, uint64_t mib) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.device_memory_limit = mib << 20;
  options.trace = add_phase;
  const char *threads = strchr(arguments[5], ':');
  if (threads) options.threads = (uint32_t)strtoul(threads + 1, NULL, 10);
  adj_ctx *ctx = NULL;
  must(adj_ctx_create(&options, &ctx));
  adj_generate_options wanted;
  adj_generate_options_init(&wanted, sizeof wanted);
  wanted.name = arguments[1];
  wanted.count = strtoull(arguments[2], NULL, 10);
  wanted.dim = (uint32_t)strtoul(arguments[3], NULL, 10);
  adj_dataset *set = NULL;
  must(adj_dataset_generate(ctx, &wanted, &set));
  request wanted_join = request_of(arguments);
  double best = INFINITY, plan_s = 0, best_plan = 0;
  uint64_t sum = 0, peak = 0;
  adj_stats stats, best_stats;
  adj_stats_init(&stats, sizeof stats);
  best_stats = stats;
  char line[1024] = "", each[256] = "";
  unsigned long repeats = strtoul(arguments[6], NULL, 10);
  for (unsigned long i = 0; i < repeats; i++) {
    forget_phases();
    double seconds = run(ctx, &wanted_join, set, &stats, &sum, &plan_s);
    size_t length = strlen(each);
    snprintf(each + length, sizeof each - length, " %.1f", seconds * 1e3);
    if (!(seconds < best)) continue;
    best = seconds;
    best_plan = plan_s;
    best_stats = stats;
    peak = stats.peak_bytes;
    int used = 0;
    for (int p = 0; p < phases.count && used < 900; p++)
      used += snprintf(line + used, sizeof line - (size_t)used, " %s %.1f/%d", phases.names[p], phases.seconds[p] * 1e3,
                       phases.times[p]);
  }
  printf("%s %s %s-D %s %s, %5" PRIu64
         " MiB: %8.1f ms (plan %.1f), kernels %.1f, up %.1f, down %.1f, place %.1f, %.2f "
         "GB up, host %.2f GB, redone %" PRIu64 ", sum %016" PRIx64 "\n    runs:%s; phases:%s\n",
         arguments[1], arguments[2], arguments[3], arguments[4], arguments[5], mib, best * 1e3, best_plan * 1e3,
         best_stats.kernel_s * 1e3, best_stats.upload_s * 1e3, best_stats.download_s * 1e3, best_stats.place_s * 1e3,
         (double)best_stats.bytes_up * 1e-9, (double)peak * 1e-9, best_stats.batches_redone, sum, each, line);
  fflush(stdout);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

int main(int count, char **arguments) {
  if (count < 8) {
    fprintf(
        stderr,
        "usage: driver_chunks unif|expo COUNT DIM K|RADIUS|csr:RADIUS gpu|hybrid|auto|cpu[:THREADS[:TUNING]] REPEATS "
        "MIB...\n");
    return 2;
  }
  for (int i = 7; i < count; i++)
    time_limit(arguments, strtoull(arguments[i], NULL, 10));
  return 0;
}
