/* SPDX-License-Identifier: MIT
 *
 * How far `auto` is from the best way to do a join with an open device, and how far its forecasts are from the measured
 * times: a sweep like `bench.py auto`, over dimensions, numbers of points, metrics, radii and k.
 *
 *   bench/gpu --auto [--seconds S] [--repeats N] [--quick] [--seed N] [--case TEXT]
 *
 * From host memory to host memory, f32, adj_plan_create included; milliseconds, smallest of the repeats, in which the
 * ways take turns. count, csr: a range join with about this many neighbours per point; knn: this many nearest, with
 * distances. The ways are the cores, the GPU, both, and the algorithms and prefilters of the GPU. A way is stopped when
 * it has taken twice as long as `auto`.
 *
 *   auto     its time, and what it chose
 *   best     the least time of all ways
 *   ratio    auto over best; differences of up to 2 ms do not count
 *   told     the forecast of the join over its time; correct if within a factor of 2, or within 2 ms
 *
 * The order of joins is such that any beginning of it has some of everything; --seconds ends the sweep early. --quick:
 * up to 100,000 points. --seed: another order. --case: only joins whose name in the table begins with this text. The
 * last lines give the number of joins within 1.15 and 1.3, and the worst join.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "radius.h"

enum { SETS_MOST = 1024, QUESTIONS_MOST = 16, AT_ONCE = 3 };
static const double MOST_VALUES = 4e7, MOST_COMPARED = 2e12, MOST_ENTRIES = 1e8, MOST_COUNTED = 1e10;
static const double NOISE_S = 0.002, MOST_S = 1, ENOUGH_S = 0.3;

typedef struct way {
  const char *name;
  adj_backend backend;
  const char *algorithm, *tuning;
  double pairs_s; /* most pairs per second; 0: unknown. A way that this makes too slow is not tried */
  double seconds, join_s, forecast_s;
  char chose[32];
  bool out; /* not able to do the join, or too slow */
} way;

typedef struct question {
  bool count;
  uint32_t k; /* 0: a range join */
  double mean, radius;
} question;

/* A set of points, and some of the questions to it. */
typedef struct set {
  const char *points, *metric;
  uint32_t count, dim, question_count;
  question questions[AT_ONCE];
} set;

typedef struct sweep {
  adj_ctx *ctx;
  adj_dataset *points;
  const options *options;
  const set *set;
  uint32_t *degrees;
  double worst;
  char whose[96];
  unsigned joins, near, within, forecasts;
  int faults;
} sweep;

/* ---- Joins to ask for ------------------------------------------------------------------------------------- */

static uint64_t next_random(uint64_t *state) {
  *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return *state >> 33;
}

static size_t questions_of(uint32_t count, uint32_t dim, question *out) {
  static const uint32_t numbers[] = {1, 10, 100, 1000}, ks[] = {1, 8, 64, 1000};
  double means[6];
  size_t many = 0, n = 0;
  for (int i = 0; i < 4; i++)
    if (numbers[i] < count / 4) means[many++] = numbers[i];
  means[many++] = count / 4; /* NOLINT(bugprone-integer-division): whole neighbours */
  means[many++] = count;
  for (size_t i = 0; i < many; i++) {
    double entries = means[i] * count;
    if (entries <= MOST_COUNTED / sqrt(dim)) out[n++] = (question){.count = true, .mean = means[i]};
    if (entries <= MOST_ENTRIES) out[n++] = (question){.mean = means[i]};
  }
  for (int i = 0; i < 4; i++)
    if (ks[i] < count && (double)ks[i] * count <= MOST_ENTRIES) out[n++] = (question){.k = ks[i]};
  return n;
}

/* Adds entries of the set with every `step`-th question, a few questions for each entry. */
static size_t add_set(set one, size_t step, uint64_t *state, set *out) {
  question all[QUESTIONS_MOST];
  size_t n = questions_of(one.count, one.dim, all), sets = 0;
  for (size_t i = n; i > 1; i--) {
    size_t j = next_random(state) % i;
    question swapped = all[i - 1];
    all[i - 1] = all[j];
    all[j] = swapped;
  }
  n = (n + step - 1) / step;
  for (size_t i = 0; i < n; i += AT_ONCE) {
    one.question_count = (uint32_t)(n - i < AT_ONCE ? n - i : AT_ONCE);
    memcpy(one.questions, all + i, one.question_count * sizeof *all);
    out[sets++] = one;
  }
  return sets;
}

static size_t add_dim(uint32_t dim, uint32_t count, uint64_t *state, set *out) {
  static const char *const few[] = {"unif", "expo", "clusters"}, *const many[] = {"expo", "clusters", "normal"};
  static const char *const others[] = {"l1", "linf", "cosine", "ip", "lp", "haversine"};
  size_t n = 0;
  double values = (double)count * dim;
  if (values > MOST_VALUES || (dim > 6 && values * count > MOST_COMPARED)) return 0;
  for (int i = 0; i < 3; i++)
    n += add_set((set){(dim <= 6 ? few : many)[i], "l2", count, dim, 0, {{0}}}, 1, state, out + n);
  for (int i = 0; i < 6; i++) {
    if ((i == 4 && dim > 128) || (i == 5 && dim != 2)) continue;
    n += add_set((set){i == 5 ? "unif" : "normal", others[i], count, dim, 0, {{0}}}, 3, state, out + n);
  }
  return n;
}

static size_t list_sets(const options *o, set *out) {
  static const uint32_t dims[] = {2, 3, 6, 10, 16, 32, 64, 128, 384, 1000};
  uint64_t state = o->seed + 1;
  size_t n = 0;
  for (int d = 0; d < 10; d++)
    for (uint32_t count = 1000; count <= (o->quick ? 100000 : 1000000); count *= 10)
      n += add_dim(dims[d], count, &state, out + n);
  for (size_t i = n; i > 1; i--) {
    size_t j = next_random(&state) % i;
    set swapped = out[i - 1];
    out[i - 1] = out[j];
    out[j] = swapped;
  }
  return n;
}

/* ---- Runs ------------------------------------------------------------------------------------------------- */

static int over_time(void *user, const adj_progress *where) {
  (void)where;
  return now() > *(const double *)user;
}

static adj_status join(const sweep *s, const question *q, adj_plan *plan, double end, adj_stats *stats) {
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  control.interval_ms = 5;
  control.progress = over_time;
  control.user = &end;
  adj_result *result = NULL;
  adj_status status =
      q->count ? adj_count(plan, s->degrees, NULL, &control, stats) : adj_collect(plan, &result, &control, stats);
  adj_result_destroy(result);
  return status;
}

/* Runs a way once. A way that cannot do the join, or takes longer than limit_s, is out. */
static void run_way(const sweep *s, const question *q, way *w, double limit_s, uint64_t *pairs) {
  adj_join_spec spec = sweep_spec(sweep_metric(s->set->metric), w->backend, q->k, q->radius);
  spec.algorithm = w->algorithm;
  spec.tuning = w->tuning;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  adj_estimate estimate;
  adj_estimate_init(&estimate, sizeof estimate);
  adj_plan *plan = NULL;
  double begin = now();
  adj_status status = adj_plan_create(s->ctx, &spec, s->points, NULL, &plan);
  double planned = now();
  if (!status) status = join(s, q, plan, begin + limit_s, &stats);
  double done = now();
  if (!status) status = adj_plan_estimate(plan, &estimate);
  if (status && status != ADJ_CANCELLED && status != ADJ_E_UNSUPPORTED && status != ADJ_E_DEVICE_MEMORY)
    stop_on(status);
  w->out = status || done - begin > limit_s;
  if (!status && done - begin < w->seconds) {
    w->seconds = done - begin;
    w->join_s = done - planned;
    w->forecast_s = q->count ? estimate.count_seconds : estimate.seconds;
    snprintf(w->chose, sizeof w->chose, "%s %s", stats.backend, stats.algorithm);
    *pairs = stats.pairs;
  }
  adj_plan_destroy(plan);
}

/* ---- The table -------------------------------------------------------------------------------------------- */

static void name_of(const sweep *s, const question *q, char *text, size_t room) {
  snprintf(text, room, "%s %u x %u %s %s:%.0f", s->set->points, s->set->count, s->set->dim, s->set->metric,
           q->k       ? "knn"
           : q->count ? "count"
                      : "csr",
           q->k ? q->k : q->mean);
}

static void judge(sweep *s, const question *q, const way *ways, int count) {
  const way *mine = &ways[0], *best = mine;
  for (int w = 1; w < count; w++)
    if (ways[w].seconds < best->seconds) best = &ways[w];
  double ratio = mine->seconds / best->seconds, told = fmax(mine->forecast_s, 1e-9) / mine->join_s;
  if (ratio > 1) ratio = fmax(1, (mine->seconds - NOISE_S) / best->seconds);
  bool right = fabs(mine->forecast_s - mine->join_s) <= NOISE_S || (told >= 0.5 && told <= 2);
  char name[96];
  name_of(s, q, name, sizeof name);
  if (ratio > s->worst) {
    s->worst = ratio;
    snprintf(s->whose, sizeof s->whose, "%s", name);
  }
  s->joins++;
  s->near += ratio <= 1.15;
  s->within += ratio <= 1.3;
  s->forecasts += right;
  printf("%-42s %9.3f %-13s %9.3f %-11s %5.2f%s %5.2f%s |", name, mine->seconds * 1e3, mine->chose, best->seconds * 1e3,
         best->name, ratio, ratio > 1.15 ? "!" : " ", told, right ? " " : "!");
  for (int w = 1; w < count; w++)
    if (!isinf(ways[w].seconds)) printf(" %s %.2f", ways[w].name, ways[w].seconds * 1e3);
  printf("\n");
  fflush(stdout);
}

/* `auto` runs once before, which does not count, so that memory for the result is there. */
static void run_question(sweep *s, const question *q) {
  way ways[] = {
      {"auto", ADJ_BACKEND_AUTO, NULL, NULL, 0, INFINITY, 0, 0, "", false},
      {"cpu", ADJ_BACKEND_CPU, NULL, NULL, 0, INFINITY, 0, 0, "", false},
      {"gpu", ADJ_BACKEND_GPU, NULL, NULL, 0, INFINITY, 0, 0, "", false},
      {"hybrid", ADJ_BACKEND_HYBRID, NULL, NULL, 0, INFINITY, 0, 0, "", false},
      {"gpu-brute", ADJ_BACKEND_GPU, "brute", NULL, 4e12, INFINITY, 0, 0, "", false},
      {"gpu-index", ADJ_BACKEND_GPU, q->k ? "kdtree" : "grid", NULL, 0, INFINITY, 0, 0, "", false},
      {"gpu-plain", ADJ_BACKEND_GPU, NULL, "prefilter=off", 0, INFINITY, 0, 0, "", false},
      {"gpu-tensor", ADJ_BACKEND_GPU, q->k ? "brute" : NULL, "prefilter=tensor", 4e12, INFINITY, 0, 0, "", false},
      {"gpu-gemm", ADJ_BACKEND_GPU, "brute", "prefilter=gemm", 2e11, INFINITY, 0, 0, "", false}};
  int count = sizeof ways / sizeof *ways - !q->k; /* gemm is only for kNN */
  way first = ways[0];
  uint64_t pairs = 0, others;
  run_way(s, q, &first, MOST_S, &pairs);
  if (first.out) return;
  double compared = (double)s->set->count * s->set->count;
  for (int w = 1; w < count; w++)
    ways[w].out = ways[w].pairs_s > 0 && compared / ways[w].pairs_s > 2 * first.seconds + NOISE_S;
  double begin = now();
  for (int i = 0; i < s->options->repeats && (i < 2 || now() - begin < ENOUGH_S); i++)
    for (int w = 0; w < count; w++) {
      if (ways[w].out) continue;
      others = pairs;
      run_way(s, q, &ways[w], w ? 2 * ways[0].seconds + NOISE_S : 10 * MOST_S, &others);
      if (others == pairs) continue;
      char name[96];
      name_of(s, q, name, sizeof name);
      printf("%s: %s finds %llu pairs, auto %llu DIFFERS\n", name, ways[w].name, (unsigned long long)others,
             (unsigned long long)pairs);
      s->faults++;
    }
  judge(s, q, ways, count);
}

static bool is_wanted(const sweep *s, const question *q) {
  char name[96];
  name_of(s, q, name, sizeof name);
  return !s->options->name || !strncmp(name, s->options->name, strlen(s->options->name));
}

static bool any_wanted(sweep *s, const set *one) {
  s->set = one;
  for (uint32_t i = 0; i < one->question_count; i++)
    if (is_wanted(s, &one->questions[i])) return true;
  return false;
}

static void run_set(sweep *s, const set *one) {
  if (!any_wanted(s, one)) return;
  adj_generate_options generate;
  adj_generate_options_init(&generate, sizeof generate);
  generate.name = one->points;
  generate.count = one->count;
  generate.dim = one->dim;
  s->degrees = malloc(one->count * sizeof *s->degrees);
  if (!s->degrees) exit(1);
  stop_on(adj_dataset_generate(s->ctx, &generate, &s->points));
  for (uint32_t i = 0; i < one->question_count; i++) {
    question q = one->questions[i];
    if (!is_wanted(s, &q)) continue;
    adj_join_spec nearest = sweep_spec(sweep_metric(one->metric), ADJ_BACKEND_GPU, 1, 0);
    if (!q.k) stop_on(radius_of_mean(s->ctx, s->points, &nearest, q.mean, &q.radius));
    run_question(s, &q);
  }
  adj_dataset_destroy(s->points);
  free(s->degrees);
}

void run_sweep(bench *b) {
  set *sets = malloc(SETS_MOST * sizeof *sets);
  if (!sets) exit(1);
  sweep s = {.options = &b->options};
  adj_ctx_options quiet;
  adj_ctx_options_init(&quiet, sizeof quiet);
  quiet.threads = b->options.threads;
  stop_on(adj_ctx_create(&quiet, &s.ctx));
  double begin = now();
  size_t count = list_sets(&b->options, sets), i = 0;
  printf("%-42s %9s %-13s %9s %-11s %6s %6s | other ways\n", "join", "auto", "chose", "best", "by", "ratio ", "told ");
  for (; i < count && !(b->options.seconds > 0 && now() - begin > b->options.seconds); i++)
    run_set(&s, &sets[i]);
  double all = fmax(s.joins, 1);
  printf(
      "%u joins of %zu of %zu sets: within 1.15 %.1f %%, within 1.3 %.1f %%, worst %.2f (%s); forecasts within 2x %.1f "
      "%%\n",
      s.joins, i, count, 100 * s.near / all, 100 * s.within / all, s.worst, s.whose, 100 * s.forecasts / all);
  b->faults += s.faults;
  adj_ctx_destroy(s.ctx);
  free(sets);
}
