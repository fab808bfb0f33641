/* SPDX-License-Identifier: MIT
 *
 * How well the planner chooses for joins on the cores, compared with every algorithm that it chooses from.
 *
 *   driver_auto POINTS COUNT DIM METRIC THREADS MOST_S REPEATS QUESTION...
 *
 * POINTS: a generator of `adjoin generate`; f32. METRIC: l2, l1, linf, lp (p = 3), cosine, ip or haversine. QUESTION:
 * count:MEAN or csr:MEAN, a range join with about MEAN neighbours per point, or knn:K. Prints one line of JSON for each
 * question, with figures for `auto` and each algorithm: seconds and CPU seconds of adj_plan_create and the join, of the
 * join alone, and the plan's forecast for the latter. Times are the smallest of the repeats, in which `auto` and the
 * algorithms take turns.
 *
 * A join of `auto` that takes more than MOST_S ends the question. Algorithms are stopped when they have taken twice as
 * long as `auto`.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adjoin.h"
#include "driver.h"
#include "radius.h"

enum { WAYS = 4 };

typedef struct way {
  const char *algorithm; /* "auto" comes first; NULL ends the list */
  double seconds, cpu_s, join_s, join_cpu_s, forecast_s;
  char chose[16];
  bool stopped;
} way;

typedef struct question {
  const char *text;
  bool count;
  uint32_t k; /* 0: a range join */
  double mean, radius;
} question;

typedef struct bench {
  adj_ctx *ctx;
  adj_dataset *set;
  adj_metric metric;
  uint32_t *degrees;
  double most_s;
  unsigned repeats;
} bench;

static void stop_on(adj_status status) {
  if (status == ADJ_OK) return;
  fprintf(stderr, "driver_auto: %s: %s\n", adj_status_name(status), adj_last_error());
  exit(1);
}

static double cpu_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- Runs ----------------------------------------------------------------------------------------------- */

static int over_time(void *user, const adj_progress *where) {
  (void)where;
  return bench_now() > *(const double *)user;
}

/* Runs a way once. Returns false if it was stopped. */
static bool run_way(const bench *b, const question *q, way *w, double limit_s, uint64_t *pairs) {
  adj_join_spec spec = sweep_spec(b->metric, ADJ_BACKEND_CPU, q->k, q->radius);
  spec.algorithm = w->algorithm;
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  adj_estimate estimate;
  adj_estimate_init(&estimate, sizeof estimate);
  adj_plan *plan;
  adj_result *result = NULL;
  double begin = bench_now(), cpu = cpu_now(), end = begin + limit_s;
  control.interval_ms = 5;
  control.progress = over_time;
  control.user = &end;
  stop_on(adj_plan_create(b->ctx, &spec, b->set, NULL, &plan));
  double planned = bench_now(), planned_cpu = cpu_now();
  adj_status status =
      q->count ? adj_count(plan, b->degrees, NULL, &control, &stats) : adj_collect(plan, &result, &control, &stats);
  double done = bench_now(), done_cpu = cpu_now();
  if (status != ADJ_CANCELLED) stop_on(status);
  stop_on(adj_plan_estimate(plan, &estimate));
  if (status == ADJ_OK && done_cpu - cpu < w->cpu_s) {
    w->cpu_s = done_cpu - cpu;
    w->join_cpu_s = done_cpu - planned_cpu;
    w->forecast_s = q->count ? estimate.count_seconds : estimate.seconds;
    snprintf(w->chose, sizeof w->chose, "%s", stats.algorithm);
  }
  if (status == ADJ_OK && done - begin < w->seconds) {
    w->seconds = done - begin;
    w->join_s = done - planned;
  }
  if (status == ADJ_OK) *pairs = stats.pairs;
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  return status == ADJ_OK;
}

static void print_way(const way *w) {
  printf(
      "\"%s\": {\"seconds\": %.6f, \"cpu_s\": %.6f, \"join_s\": %.6f, \"join_cpu_s\": %.6f, \"forecast_s\": %.6f, "
      "\"chose\": \"%s\"}",
      w->algorithm, w->seconds, w->cpu_s, w->join_s, w->join_cpu_s, w->forecast_s, w->chose);
}

static void print_case(const question *q, const way *ways, uint64_t pairs) {
  printf("{\"question\": \"%s\", \"radius\": %.9g, \"pairs\": %llu", q->text, q->radius, (unsigned long long)pairs);
  for (int w = 0; w < WAYS && ways[w].algorithm; w++) {
    if (isinf(ways[w].seconds)) continue;
    printf(", ");
    print_way(&ways[w]);
  }
  printf("}\n");
  fflush(stdout);
}

/* Memory for the first result takes the system long, so `auto` runs once before, which does not count. */
static void run_question(const bench *b, const question *q) {
  static const char *const range[WAYS] = {"auto", "grid", "ego", "brute"}, *const knn[WAYS] = {"auto", "kdtree",
                                                                                               "brute"};
  way ways[WAYS];
  bool products = b->metric == ADJ_DOT;
  for (int w = 0; w < WAYS; w++)
    ways[w] = (way){.algorithm = (q->k ? knn : range)[w], .seconds = INFINITY, .cpu_s = INFINITY};
  uint64_t pairs = 0, others = 0;
  way first = ways[0];
  if (!run_way(b, q, &first, b->most_s, &pairs)) return;
  double begin = bench_now();
  for (unsigned i = 0; i < b->repeats && (i < 2 || bench_now() - begin < b->most_s); i++)
    for (int w = 0; w < WAYS && ways[w].algorithm; w++) {
      bool cannot = products && w && strcmp(ways[w].algorithm, "brute") != 0;
      if (cannot || ways[w].stopped) continue;
      double limit = w ? 2 * ways[0].seconds + 0.002 : b->most_s;
      ways[w].stopped = !run_way(b, q, &ways[w], limit, w ? &others : &pairs);
      if (!w && ways[w].stopped && isinf(ways[w].seconds)) return;
      if (w && !ways[w].stopped && others != pairs) {
        fprintf(stderr, "driver_auto: %s: auto finds %llu pairs, %s %llu\n", q->text, (unsigned long long)pairs,
                ways[w].algorithm, (unsigned long long)others);
        exit(1);
      }
    }
  print_case(q, ways, pairs);
}

/* ---- The command line ----------------------------------------------------------------------------------- */

static question parse_question(const char *text) {
  question q = {.text = text};
  const char *value = strchr(text, ':');
  q.count = strncmp(text, "count:", 6) == 0;
  if (!value || (!q.count && strncmp(text, "csr:", 4) != 0 && strncmp(text, "knn:", 4) != 0)) {
    fprintf(stderr, "driver_auto: '%s' is not count:MEAN, csr:MEAN or knn:K\n", text);
    exit(2);
  }
  if (strncmp(text, "knn:", 4) == 0)
    q.k = (uint32_t)strtoul(value + 1, NULL, 10);
  else
    q.mean = strtod(value + 1, NULL);
  return q;
}

static adj_dataset *generate(adj_ctx *ctx, char **argv) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = argv[1];
  options.count = strtoull(argv[2], NULL, 10);
  options.dim = (uint32_t)strtoul(argv[3], NULL, 10);
  adj_dataset *set;
  stop_on(adj_dataset_generate(ctx, &options, &set));
  return set;
}

int main(int argc, char **argv) {
  if (argc < 9) {
    fprintf(stderr, "usage: %s POINTS COUNT DIM METRIC THREADS MOST_S REPEATS QUESTION...\n", argv[0]);
    return 2;
  }
  bench b = {.metric = sweep_metric(argv[4]),
             .most_s = strtod(argv[6], NULL),
             .repeats = (unsigned)strtoul(argv[7], NULL, 10)};
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = (uint32_t)strtoul(argv[5], NULL, 10);
  options.device_count = 0;
  stop_on(adj_ctx_create(&options, &b.ctx));
  b.set = generate(b.ctx, argv);
  b.degrees = malloc((adj_dataset_count(b.set) + 1) * sizeof *b.degrees);
  if (!b.degrees) return 1;
  for (int i = 8; i < argc; i++) {
    question q = parse_question(argv[i]);
    adj_join_spec nearest = sweep_spec(b.metric, ADJ_BACKEND_CPU, 1, 0);
    if (!q.k) stop_on(radius_of_mean(b.ctx, b.set, &nearest, q.mean, &q.radius));
    run_question(&b, &q);
  }
  free(b.degrees);
  adj_dataset_destroy(b.set);
  adj_ctx_destroy(b.ctx);
  return 0;
}
