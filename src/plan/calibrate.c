/* SPDX-License-Identifier: MIT
 *
 * adj_calibrate: measures the costs of core/costs.h that decide most on this machine, by joins of generated points, and
 * keeps them in a file. Each trial is a join that spends nearly all of its time in one kind of step. Two trials of one
 * kind, in few and in many dimensions, give a fixed part and a part for each dimension.
 *
 * All cores are busy in every trial, as in the joins that are planned, so the figures include contention for memory and
 * caches.
 */
#include <math.h>
#include <stdlib.h>

#include "core/context.h"
#include "gpu/device/device.h"
#include "plan/choose.h"

enum { REPEATS = 3, FEW_DIMS = 2, SOME_DIMS = 6, DENSE_DIMS = 8, BRUTE_DIMS = 16, MANY_BRUTE_DIMS = 128 };

/* A figure is limited to within this factor of the built-in one: farther off, something else was measured. */
static const double MOST_OFF = 20;

/* ---- The trials -------------------------------------------------------------------------------------------- */

/* Numbers of points. MANY grows with the threads, within bounds. DENSE and DENSE_PART, for joins with many neighbours,
 * do as well, but stay smaller. The others are fixed. */
typedef enum amount { NONE, MANY, DENSE, DENSE_PART, QUERIES, RIGHT_POINTS, DEVICE_POINTS, TINY } amount;

typedef struct trial {
  adj_backend backend;
  const char *algorithm, *tuning;
  amount left, right; /* right NONE: a self-join         */
  uint32_t dim, k;    /* k 0: a range join              */
  double neighbours;  /* of a range join: mean number    */
  bool counts;        /* the total only                  */
} trial;

/* Dense joins are of two sets, so that no pair is found from its other point. They do without boxes and codes, which
 * would save comparisons. */
#define PLAIN "prefilter=off,test.boxes=off"
enum { INDEX_FEW, INDEX_SOME, COUNT_FEW, COUNT_MANY, FILL_TWICE, FILL_SINGLE, RANGE_TRIALS };
enum { TREE_FEW = RANGE_TRIALS, TREE_SOME, BRUTE_SOME, BRUTE_MANY, BRUTE_FEW, TRIALS };
static const trial ON_CORES[] = {
    [INDEX_FEW] = {ADJ_BACKEND_CPU, "grid", NULL, MANY, NONE, FEW_DIMS, 0, 4, true},
    [INDEX_SOME] = {ADJ_BACKEND_CPU, "grid", NULL, MANY, NONE, SOME_DIMS, 0, 4, true},
    [COUNT_FEW] = {ADJ_BACKEND_CPU, "grid", PLAIN, DENSE, DENSE, FEW_DIMS, 0, 200, true},
    [COUNT_MANY] = {ADJ_BACKEND_CPU, "grid", PLAIN ",indexed=4", DENSE_PART, DENSE_PART, DENSE_DIMS, 0, 30, true},
    [FILL_TWICE] = {ADJ_BACKEND_CPU, "grid", PLAIN ",single=off", DENSE, DENSE, FEW_DIMS, 0, 200, false},
    [FILL_SINGLE] = {ADJ_BACKEND_CPU, "grid", PLAIN ",single=on", DENSE, DENSE, FEW_DIMS, 0, 200, false},
    [TREE_FEW] = {ADJ_BACKEND_CPU, "kdtree", NULL, MANY, NONE, FEW_DIMS, 8, 0, false},
    [TREE_SOME] = {ADJ_BACKEND_CPU, "kdtree", NULL, MANY, NONE, SOME_DIMS, 8, 0, false},
    [BRUTE_SOME] = {ADJ_BACKEND_CPU, "brute", NULL, QUERIES, RIGHT_POINTS, BRUTE_DIMS, 8, 0, false},
    [BRUTE_MANY] = {ADJ_BACKEND_CPU, "brute", NULL, QUERIES, RIGHT_POINTS, MANY_BRUTE_DIMS, 8, 0, false},
    [BRUTE_FEW] = {ADJ_BACKEND_CPU, "brute", NULL, QUERIES, RIGHT_POINTS, FEW_DIMS, 8, 0, false},
};

/* The measurements of the fastest repeat. */
typedef struct outcome {
  double points, index_s, join_s, kernel_s, copy_s;
  double pairs, candidates, bytes_down;
} outcome;

static uint64_t points_of(const adj_ctx *ctx, amount which) {
  enum { EACH = 100000, LEAST = 200000, MOST = 2000000, MOST_DENSE = 500000 };
  uint64_t many = (uint64_t)EACH * ctx->threads;
  many = many < LEAST ? LEAST : many > MOST ? MOST : many;
  uint64_t dense = many < MOST_DENSE ? many : MOST_DENSE;
  const uint64_t points[] = {0, many, dense, dense / 8, 2048, 32768, 4000000, 1000};
  return points[which];
}

static adj_status make_points(adj_ctx *ctx, uint64_t count, uint32_t dim, uint64_t seed, adj_dataset **out) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = count;
  options.dim = dim;
  options.seed = seed;
  return adj_dataset_generate(ctx, &options, out);
}

/* The radius at which points spread evenly over a cube have this many neighbours. */
static double radius_for(double neighbours, uint64_t count, double dim) {
  double log_ball = dim / 2 * log(acos(-1.0)) - lgamma(dim / 2 + 1);
  return exp((log(neighbours / (double)count) - log_ball) / dim);
}

static adj_status run_once(adj_ctx *ctx, const trial *t, const adj_dataset *left, const adj_dataset *right,
                           adj_stats *stats) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = t->k ? ADJ_KNN : ADJ_RANGE;
  spec.backend = t->backend;
  spec.k = t->k;
  if (!t->k) spec.radius = radius_for(t->neighbours, adj_dataset_count(left), t->dim);
  spec.algorithm = t->algorithm;
  spec.tuning = t->tuning;
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  uint64_t total;
  adj_stats_init(stats, sizeof *stats);
  adj_status status = adj_plan_create(ctx, &spec, left, right, &plan);
  if (!status)
    status = t->counts ? adj_count(plan, NULL, &total, NULL, stats) : adj_collect(plan, &result, NULL, stats);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  return status;
}

static adj_status run_trial(adj_ctx *ctx, const trial *t, outcome *out) {
  adj_dataset *left = NULL, *right = NULL;
  adj_status status = make_points(ctx, points_of(ctx, t->left), t->dim, 1, &left);
  if (!status && t->right) status = make_points(ctx, points_of(ctx, t->right), t->dim, 2, &right);
  *out = (outcome){.index_s = INFINITY, .join_s = INFINITY, .kernel_s = INFINITY, .copy_s = INFINITY};
  for (int i = 0; i < REPEATS && !status; i++) {
    adj_stats stats;
    status = run_once(ctx, t, left, right, &stats);
    if (status) break;
    out->index_s = fmin(out->index_s, stats.index_s);
    out->join_s = fmin(out->join_s, stats.join_s);
    out->kernel_s = fmin(out->kernel_s, stats.kernel_s);
    out->copy_s = fmin(out->copy_s, stats.download_s + stats.place_s);
    out->points = (double)adj_dataset_count(left);
    out->pairs = (double)stats.pairs;
    out->candidates = (double)stats.candidates;
    out->bytes_down = (double)stats.bytes_down;
  }
  adj_dataset_destroy(right);
  adj_dataset_destroy(left);
  return status;
}

/* ---- From times to costs --------------------------------------------------------------------------------- */

/* Nanoseconds of one core for each of `items`. */
static double each_ns(const adj_ctx *ctx, double seconds, double items) {
  return seconds * 1e9 * ctx->threads / fmax(items, 1);
}

static void set(double *cost, double measured) {
  double least = *cost / MOST_OFF, most = *cost * MOST_OFF;
  if (!isnan(measured)) *cost = fmin(fmax(measured, least), most);
}

/* Scales costs that are not measured by the factor of one that is. */
static void scale(double *const *costs, size_t count, double factor) {
  for (size_t i = 0; i < count; i++)
    set(costs[i], *costs[i] * factor);
}

/* fixed + dim * per_dim = cost, at two numbers of dimensions. If one of the two comes out as zero or less, both are
 * scaled and keep their ratio. */
static void set_line(double *fixed, double *per_dim, const double dims[2], const double costs[2]) {
  double was = *fixed + dims[0] * *per_dim, slope = (costs[1] - costs[0]) / (dims[1] - dims[0]);
  double rest = costs[0] - dims[0] * slope;
  if (slope > 0 && rest > 0) {
    set(fixed, rest);
    set(per_dim, slope);
  } else {
    scale((double *[]){fixed, per_dim}, 2, costs[0] / was);
  }
}

static void set_range_costs(const adj_ctx *ctx, const outcome *found, adji_costs *costs) {
  const double few_some[] = {FEW_DIMS, SOME_DIMS}, few_dense[] = {FEW_DIMS, DENSE_DIMS};
  double index[2], candidate[2], before = costs->candidate_ns + FEW_DIMS * costs->candidate_dim_ns;
  for (int i = 0; i < 2; i++) {
    const outcome *indexed = &found[INDEX_FEW + i], *counted = &found[COUNT_FEW + i];
    index[i] = each_ns(ctx, indexed->index_s, indexed->points);
    candidate[i] = each_ns(ctx, counted->join_s, counted->candidates) -
                   costs->counted_row_ns * counted->points / counted->candidates;
  }
  set_line(&costs->index_point_ns, &costs->index_dim_ns, few_some, index);
  set_line(&costs->candidate_ns, &costs->candidate_dim_ns, few_dense, candidate);
  double *const compares[] = {&costs->candidate_code_dim_ns, &costs->lookup_ns, &costs->vector_ns,
                              &costs->vector_dim_ns, &costs->vector_code_dim_ns};
  scale(compares, sizeof compares / sizeof *compares,
        (costs->candidate_ns + FEW_DIMS * costs->candidate_dim_ns) / before);
  /* The time of a whole join minus that of the comparisons. */
  const outcome *twice = &found[FILL_TWICE], *single = &found[FILL_SINGLE];
  double count_s = found[COUNT_FEW].join_s, list_s = costs->list_evaluation_few * count_s, moved = costs->moved_pair_ns;
  double row_s = twice->points * 1e-9 / ctx->threads, filled_s = row_s * (costs->filled_row_ns - costs->counted_row_ns);
  double dealt_s = row_s * (costs->row_ns - costs->counted_row_ns), spread = adji_pair_spread(single->points);
  set(&costs->pair_ns, each_ns(ctx, twice->join_s - count_s - list_s - filled_s, twice->pairs));
  set(&costs->moved_pair_ns, each_ns(ctx, single->join_s - list_s - dealt_s, single->pairs) / spread);
  set(&costs->sent_pair_ns, costs->sent_pair_ns * costs->moved_pair_ns / moved);
}

static void set_knn_costs(const adj_ctx *ctx, const outcome *found, adji_costs *costs) {
  const double few_some[] = {FEW_DIMS, SOME_DIMS}, brute_dims[] = {BRUTE_DIMS, MANY_BRUTE_DIMS};
  const double pairs = (double)points_of(ctx, QUERIES) * (double)points_of(ctx, RIGHT_POINTS);
  double build[2], search[2], brute[2], before = costs->tree_point_ns + SOME_DIMS * costs->tree_dim_ns;
  for (int i = 0; i < 2; i++) {
    const outcome *tree = &found[TREE_FEW + i];
    build[i] = each_ns(ctx, tree->index_s, tree->points);
    search[i] = each_ns(ctx, tree->join_s, tree->points);
    brute[i] = each_ns(ctx, found[BRUTE_SOME + i].join_s, pairs);
  }
  set_line(&costs->tree_point_ns, &costs->tree_dim_ns, few_some, build);
  set(&costs->few_tree_dim_ns, costs->few_tree_dim_ns * build[1] / before);
  set(&costs->search_ns, search[0]);
  if (search[1] > search[0]) set(&costs->search_dim, pow(search[1] / search[0], 1.0 / (SOME_DIMS - FEW_DIMS)));
  double *const prefilters[] = {&costs->plain_pair_ns, &costs->plain_dim_ns, &costs->gemm_pair_ns, &costs->gemm_dim_ns,
                                &costs->vnni_pair_ns,  &costs->vnni_dim_ns,  &costs->amx_pair_ns,  &costs->amx_dim_ns,
                                &costs->passed_ns,     &costs->passed_dim_ns};
  scale(prefilters, sizeof prefilters / sizeof *prefilters,
        brute[1] / (costs->brute_pair_ns + MANY_BRUTE_DIMS * costs->brute_dim_ns));
  set_line(&costs->brute_pair_ns, &costs->brute_dim_ns, brute_dims, brute);
  set(&costs->few_pair_ns, each_ns(ctx, found[BRUTE_FEW].join_s, pairs));
}

/* ---- A device ---------------------------------------------------------------------------------------------- */

/* Creates a context like this one, but with no open device. */
static adj_status another_context(const adj_ctx *ctx, adj_ctx **out) {
  adj_ctx_options options;
  adj_ctx_options_init(&options, sizeof options);
  options.threads = ctx->threads;
  options.isa = ctx->isa;
  options.memory_limit = ctx->memory.limit;
  options.device_memory_limit = ctx->device_memory_limit;
  options.device_count = ctx->device_count;
  options.devices = ctx->devices;
  return adj_ctx_create(&options, out);
}

/* The time of the first join of a context, with so few points that opening the device takes nearly all of it. */
static adj_status measure_opening(const adj_ctx *ctx, double *seconds) {
  static const trial t = {ADJ_BACKEND_GPU, "kdtree", NULL, TINY, NONE, FEW_DIMS, 1, 0, false};
  adj_dataset *points = NULL;
  adj_ctx *other = NULL;
  adj_stats stats;
  adj_status status = another_context(ctx, &other);
  if (!status) status = make_points(other, points_of(other, t.left), t.dim, 1, &points);
  uint64_t begin = adji_now_ns();
  if (!status) status = run_once(other, &t, points, NULL, &stats);
  *seconds = (double)(adji_now_ns() - begin) * 1e-9;
  adj_dataset_destroy(points);
  adj_ctx_destroy(other);
  return status;
}

/* A GPU is worth using when the cores take a quarter longer for a join than the GPU takes to start. */
static adj_status measure_start(adj_ctx *ctx, adji_costs *costs) {
  static const double LONGER = 1.25;
  bool started = adji_gpu_is_up(ctx);
  double first_s, second_s;
  adj_status status = measure_opening(ctx, &first_s);
  if (!status) status = measure_opening(ctx, &second_s);
  if (status) return status;
  if (!started) set(&costs->device_start_s, LONGER * first_s);
  set(&costs->device_open_s, LONGER * second_s);
  return ADJ_OK;
}

static adj_status measure_device(adj_ctx *ctx, adji_costs *costs) {
  static const trial copy = {ADJ_BACKEND_GPU, "kdtree", NULL, DEVICE_POINTS, NONE, FEW_DIMS, 32, 0, false},
                     search = {ADJ_BACKEND_GPU, "kdtree", NULL, DEVICE_POINTS, NONE, SOME_DIMS, 8, 0, false};
  outcome copied, searched;
  adj_device device;
  adj_device_init(&device, sizeof device);
  adj_status status = measure_start(ctx, costs);
  if (!status) status = run_trial(ctx, &copy, &copied);
  if (!status) status = run_trial(ctx, &search, &searched);
  if (!status) status = adj_device_describe(ctx->device_count > 0 ? (uint32_t)ctx->devices[0] : 0, &device);
  if (status) return status;
  set(&costs->copy_rate, copied.bytes_down / copied.copy_s);
  double searches = costs->device_search * pow(costs->device_search_dim, SOME_DIMS);
  set(&costs->device_tree_ns, searched.kernel_s * 1e9 * device.multiprocessors / (searches * searched.points));
  return ADJ_OK;
}

/* ---- All of them ------------------------------------------------------------------------------------------- */

static bool is_missing(adj_status status) {
  return status == ADJ_E_UNSUPPORTED || status == ADJ_E_DEVICE || status == ADJ_E_DEVICE_MEMORY;
}

static adj_status measure(adj_ctx *ctx, adji_costs *costs) {
  outcome found[TRIALS];
  adj_status status = ADJ_OK;
  for (int i = 0; i < TRIALS && !status; i++)
    status = run_trial(ctx, &ON_CORES[i], &found[i]);
  if (status) return status;
  set_range_costs(ctx, found, costs);
  set_knn_costs(ctx, found, costs);
  if (!ctx->device_count) return ADJ_OK;
  status = measure_device(ctx, costs);
  if (!is_missing(status)) return status;
  adji_log(ctx, ADJ_LOG_INFO, "no GPU was measured: %s", adj_last_error());
  return ADJ_OK;
}

/* The file that contexts read. Creates its folders first, then checks them again: another user may have created them
 * meanwhile. */
static adj_status find_usual(char *path, size_t capacity) {
  bool asked = false, found = adji_costs_path(path, capacity, &asked);
  if (found) adji_costs_make_folders(path);
  if (found && adji_costs_path(path, capacity, &asked)) return ADJ_OK;
  return adji_fail(ADJ_E_ARGUMENT, asked ? "ADJOIN_COSTS: \"none\" is no file to keep costs in"
                                         : "there is no folder for cached files: HOME is not set, or belongs to "
                                           "another user; ADJOIN_COSTS names a file");
}

adj_status adj_calibrate(adj_ctx *ctx, const char *path) {
  char usual[sizeof ctx->costs_file];
  if (!ctx) return adji_fail(ADJ_E_ARGUMENT, "ctx: must not be NULL");
  adj_status status = path ? ADJ_OK : find_usual(usual, sizeof usual);
  if (status) return status;
  adji_costs costs = adji_built_in_costs;
  adji_call outer = adji_call_begin(&ctx->cancels);
  status = measure(ctx, &costs);
  if (!status) status = adji_costs_save(path ? path : usual, ctx->isa, &costs);
  adji_call_set(outer);
  return status;
}
