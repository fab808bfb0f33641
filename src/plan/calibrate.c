/* SPDX-License-Identifier: MIT
 *
 * adj_calibrate: measures the costs of core/costs.h that decide most on this machine, by joins of generated points, and
 * keeps them in a file. Each trial is a join whose time is nearly all of one kind: two of them, in few and in many
 * dimensions, give a fixed part and one for each dimension.
 *
 * All cores are busy in every trial, as in the joins that are planned for: what memory and caches cost them then is in
 * the figures.
 */
#include <math.h>
#include <stdlib.h>

#include "core/context.h"
#include "gpu/device/device.h"

enum { REPEATS = 3, FEW_DIMS = 2, SOME_DIMS = 6, NEIGHBOURS = 200 };

/* A figure is taken as far as it is within this factor of the built-in one: beyond it something else was measured. */
static const double MOST_OFF = 20;

typedef struct trial {
  adj_join_kind kind;
  adj_backend backend;
  uint64_t count, others; /* points; of a second set, 0: with themselves */
  uint32_t dim, k;
  double radius;
  const char *algorithm, *tuning;
  bool counts; /* the total only */
} trial;

/* Of the quickest of the repeats. */
typedef struct outcome {
  double index_s, join_s, kernel_s, copy_s;
  double pairs, candidates, bytes_down;
} outcome;

static adj_status make_points(adj_ctx *ctx, uint64_t count, uint32_t dim, uint64_t seed, adj_dataset **out) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = "unif";
  options.count = count;
  options.dim = dim;
  options.seed = seed;
  return adj_dataset_generate(ctx, &options, out);
}

static adj_join_spec spec_of(const trial *t) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = t->kind;
  spec.backend = t->backend;
  spec.k = t->k;
  if (t->radius > 0) spec.radius = t->radius;
  spec.algorithm = t->algorithm;
  spec.tuning = t->tuning;
  return spec;
}

static adj_status run_once(adj_ctx *ctx, const trial *t, const adj_dataset *left, const adj_dataset *right,
                           adj_stats *stats) {
  adj_join_spec spec = spec_of(t);
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
  adj_status status = make_points(ctx, t->count, t->dim, 1, &left);
  if (!status && t->others) status = make_points(ctx, t->others, t->dim, 2, &right);
  *out = (outcome){.index_s = INFINITY, .join_s = INFINITY, .kernel_s = INFINITY, .copy_s = INFINITY};
  for (int i = 0; i < REPEATS && !status; i++) {
    adj_stats stats;
    status = run_once(ctx, t, left, right, &stats);
    if (status) break;
    out->index_s = fmin(out->index_s, stats.index_s);
    out->join_s = fmin(out->join_s, stats.join_s);
    out->kernel_s = fmin(out->kernel_s, stats.kernel_s);
    out->copy_s = fmin(out->copy_s, stats.download_s + stats.place_s);
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

/* fixed + dim * per_dim = cost, at two numbers of dimensions. A part that comes out as nothing keeps its share of what
 * was built in. */
static void set_line(double *fixed, double *per_dim, const double dims[2], const double costs[2]) {
  double was = *fixed + dims[0] * *per_dim, slope = (costs[1] - costs[0]) / (dims[1] - dims[0]);
  double rest = costs[0] - dims[0] * slope;
  if (slope > 0 && rest > 0) {
    set(fixed, rest);
    set(per_dim, slope);
  } else {
    double factor = costs[0] / was;
    set(fixed, *fixed * factor);
    set(per_dim, *per_dim * factor);
  }
}

/* ---- Range joins on cores ---------------------------------------------------------------------------------- */

/* The radius at which points spread evenly over a cube have so many neighbours. */
static double radius_for(double neighbours, uint64_t count, double dim) {
  double log_ball = dim / 2 * log(acos(-1.0)) - lgamma(dim / 2 + 1);
  return exp((log(neighbours / (double)count) - log_ball) / dim);
}

static adj_status measure_index(adj_ctx *ctx, uint64_t points, adji_costs *costs) {
  const double dims[] = {FEW_DIMS, SOME_DIMS};
  double ns[2];
  for (int i = 0; i < 2; i++) {
    trial t = {
        .kind = ADJ_RANGE, .backend = ADJ_BACKEND_CPU, .count = points, .dim = (uint32_t)dims[i], .counts = true};
    t.radius = radius_for(4, points, dims[i]);
    t.algorithm = "grid";
    outcome found;
    adj_status status = run_trial(ctx, &t, &found);
    if (status) return status;
    ns[i] = each_ns(ctx, found.index_s, (double)points);
  }
  set_line(&costs->index_point_ns, &costs->index_dim_ns, dims, ns);
  return ADJ_OK;
}

/* Two sets, so that no pair is found from its other point, and no boxes or codes that would spare comparisons. */
static trial dense_trial(uint64_t points, uint32_t dim, double neighbours) {
  return (trial){.kind = ADJ_RANGE,
                 .backend = ADJ_BACKEND_CPU,
                 .count = points,
                 .others = points,
                 .dim = dim,
                 .radius = radius_for(neighbours, points, dim),
                 .algorithm = "grid",
                 .tuning = "prefilter=off,test.boxes=off",
                 .counts = true};
}

/* counted: of the trial in few dimensions. */
static adj_status measure_candidates(adj_ctx *ctx, uint64_t points, adji_costs *costs, outcome *counted) {
  enum { MANY_DIMS = 8, PART = 8 };
  const double dims[] = {FEW_DIMS, MANY_DIMS};
  trial t = dense_trial(points, FEW_DIMS, NEIGHBOURS);
  outcome many;
  adj_status status = run_trial(ctx, &t, counted);
  t = dense_trial(points / PART, MANY_DIMS, 30);
  t.tuning = "prefilter=off,test.boxes=off,indexed=4";
  if (!status) status = run_trial(ctx, &t, &many);
  if (status) return status;
  double rows = costs->counted_row_ns, few_ns = each_ns(ctx, counted->join_s, counted->candidates),
         many_ns = each_ns(ctx, many.join_s, many.candidates);
  const double ns[] = {few_ns - rows * (double)points / counted->candidates,
                       many_ns - rows * (double)points / PART / many.candidates};
  double before = costs->candidate_ns + FEW_DIMS * costs->candidate_dim_ns;
  set_line(&costs->candidate_ns, &costs->candidate_dim_ns, dims, ns);
  double factor = (costs->candidate_ns + FEW_DIMS * costs->candidate_dim_ns) / before;
  set(&costs->candidate_code_dim_ns, costs->candidate_code_dim_ns * factor);
  set(&costs->lookup_ns, costs->lookup_ns * factor);
  set(&costs->vector_ns, costs->vector_ns * factor);
  set(&costs->vector_dim_ns, costs->vector_dim_ns * factor);
  set(&costs->vector_code_dim_ns, costs->vector_code_dim_ns * factor);
  return ADJ_OK;
}

/* What is left of the time of a whole join when that of the comparisons is taken away. */
static adj_status measure_pairs(adj_ctx *ctx, uint64_t points, adji_costs *costs, const outcome *counted) {
  trial t = dense_trial(points, FEW_DIMS, NEIGHBOURS);
  outcome twice, single;
  t.counts = false;
  t.tuning = "single=off,prefilter=off,test.boxes=off";
  adj_status status = run_trial(ctx, &t, &twice);
  t.tuning = "single=on,prefilter=off,test.boxes=off";
  if (!status) status = run_trial(ctx, &t, &single);
  if (status) return status;
  double rows = (double)points * 1e-9 / ctx->threads * (costs->row_ns - costs->counted_row_ns);
  set(&costs->pair_ns, each_ns(ctx, twice.join_s - 2 * counted->join_s - rows, twice.pairs));
  double moved = costs->moved_pair_ns;
  set(&costs->moved_pair_ns, each_ns(ctx, single.join_s - counted->join_s - rows, single.pairs));
  set(&costs->sent_pair_ns, costs->sent_pair_ns * costs->moved_pair_ns / moved);
  return ADJ_OK;
}

/* ---- kNN joins on cores ------------------------------------------------------------------------------------ */

static adj_status measure_trees(adj_ctx *ctx, uint64_t points, adji_costs *costs) {
  const double dims[] = {FEW_DIMS, SOME_DIMS};
  double build[2], search[2], before = costs->tree_point_ns + SOME_DIMS * costs->tree_dim_ns;
  for (int i = 0; i < 2; i++) {
    trial t = {.kind = ADJ_KNN, .backend = ADJ_BACKEND_CPU, .count = points, .dim = (uint32_t)dims[i], .k = 8};
    t.algorithm = "kdtree";
    outcome found;
    adj_status status = run_trial(ctx, &t, &found);
    if (status) return status;
    build[i] = each_ns(ctx, found.index_s, (double)points);
    search[i] = each_ns(ctx, found.join_s, (double)points);
  }
  set_line(&costs->tree_point_ns, &costs->tree_dim_ns, dims, build);
  set(&costs->few_tree_dim_ns, costs->few_tree_dim_ns * build[1] / before);
  set(&costs->search_ns, search[0]);
  if (search[1] > search[0]) set(&costs->search_dim, pow(search[1] / search[0], 1.0 / (SOME_DIMS - FEW_DIMS)));
  return ADJ_OK;
}

static adj_status measure_brute(adj_ctx *ctx, adji_costs *costs) {
  enum { QUERIES = 2048, POINTS = 32768 };
  const double dims[] = {16, 128}, pairs = (double)QUERIES * POINTS;
  double ns[2];
  trial t = {.kind = ADJ_KNN, .backend = ADJ_BACKEND_CPU, .count = QUERIES, .others = POINTS, .k = 8};
  t.algorithm = "brute";
  outcome found;
  for (int i = 0; i < 2; i++) {
    t.dim = (uint32_t)dims[i];
    adj_status status = run_trial(ctx, &t, &found);
    if (status) return status;
    ns[i] = each_ns(ctx, found.join_s, pairs);
  }
  double factor = ns[1] / (costs->brute_pair_ns + dims[1] * costs->brute_dim_ns); /* of every prefilter */
  double *each[] = {&costs->plain_pair_ns, &costs->plain_dim_ns, &costs->gemm_pair_ns, &costs->gemm_dim_ns,
                    &costs->vnni_pair_ns,  &costs->vnni_dim_ns,  &costs->amx_pair_ns,  &costs->amx_dim_ns,
                    &costs->passed_ns,     &costs->passed_dim_ns};
  for (size_t i = 0; i < sizeof each / sizeof *each; i++)
    set(each[i], *each[i] * factor);
  set_line(&costs->brute_pair_ns, &costs->brute_dim_ns, dims, ns);
  t.dim = FEW_DIMS;
  adj_status status = run_trial(ctx, &t, &found);
  if (!status) set(&costs->few_pair_ns, each_ns(ctx, found.join_s, pairs));
  return status;
}

/* ---- A device ---------------------------------------------------------------------------------------------- */

/* A context like this one, which has no device open yet. */
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

/* How long the first join of a context takes, of so few points that nearly all of it is the opening of the device. */
static adj_status measure_opening(const adj_ctx *ctx, double *seconds) {
  trial t = {
      .kind = ADJ_KNN, .backend = ADJ_BACKEND_GPU, .count = 1000, .dim = FEW_DIMS, .k = 1, .algorithm = "kdtree"};
  adj_dataset *points = NULL;
  adj_ctx *other = NULL;
  adj_stats stats;
  adj_status status = another_context(ctx, &other);
  if (!status) status = make_points(other, t.count, t.dim, 1, &points);
  uint64_t begin = adji_now_ns();
  if (!status) status = run_once(other, &t, points, NULL, &stats);
  *seconds = (double)(adji_now_ns() - begin) * 1e-9;
  adj_dataset_destroy(points);
  adj_ctx_destroy(other);
  return status;
}

/* A GPU is worth asking when a join takes the cores a quarter longer than it takes to begin. */
static adj_status measure_start(adj_ctx *ctx, adji_costs *costs) {
  static const double LONGER = 1.25;
  bool started = adji_gpu_is_up(ctx);
  double cold, warm;
  adj_status status = measure_opening(ctx, &cold);
  if (!status) status = measure_opening(ctx, &warm);
  if (status) return status;
  if (!started) set(&costs->device_start_s, LONGER * cold);
  set(&costs->device_open_s, LONGER * warm);
  return ADJ_OK;
}

static adj_status measure_device(adj_ctx *ctx, uint64_t points, adji_costs *costs) {
  trial t = {.kind = ADJ_KNN, .backend = ADJ_BACKEND_GPU, .count = points, .algorithm = "kdtree"};
  adj_device device;
  adj_device_init(&device, sizeof device);
  outcome copied, searched;
  t.dim = FEW_DIMS;
  t.k = 32;
  adj_status status = run_trial(ctx, &t, &copied);
  t.dim = SOME_DIMS;
  t.k = 8;
  if (!status) status = run_trial(ctx, &t, &searched);
  if (!status) status = adj_device_describe(ctx->device_count > 0 ? (uint32_t)ctx->devices[0] : 0, &device);
  if (status) return status;
  set(&costs->copy_rate, copied.bytes_down / copied.copy_s);
  double searches = costs->device_search * pow(costs->device_search_dim, SOME_DIMS);
  set(&costs->device_tree_ns, searched.kernel_s * 1e9 * device.multiprocessors / (searches * (double)points));
  return ADJ_OK;
}

/* ---- All of them ------------------------------------------------------------------------------------------- */

static bool is_missing(adj_status status) {
  return status == ADJ_E_UNSUPPORTED || status == ADJ_E_DEVICE || status == ADJ_E_DEVICE_MEMORY;
}

static adj_status measure(adj_ctx *ctx, adji_costs *costs) {
  enum { EACH = 100000, LEAST = 200000, MOST = 2000000, MOST_DENSE = 500000, DEVICE_POINTS = 4000000 };
  uint64_t points = (uint64_t)EACH * ctx->threads;
  points = points < LEAST ? LEAST : points > MOST ? MOST : points;
  uint64_t dense = points < MOST_DENSE ? points : MOST_DENSE;
  outcome counted;
  adj_status status = measure_index(ctx, points, costs);
  if (!status) status = measure_candidates(ctx, dense, costs, &counted);
  if (!status) status = measure_pairs(ctx, dense, costs, &counted);
  if (!status) status = measure_trees(ctx, points, costs);
  if (!status) status = measure_brute(ctx, costs);
  if (status || !ctx->device_count) return status;
  status = measure_start(ctx, costs);
  if (!status) status = measure_device(ctx, DEVICE_POINTS, costs);
  if (!is_missing(status)) return status;
  adji_log(ctx, ADJ_LOG_INFO, "no GPU was measured: %s", adj_last_error());
  return ADJ_OK;
}

adj_status adj_calibrate(adj_ctx *ctx, const char *path) {
  char usual[sizeof ctx->costs_file];
  bool asked;
  if (!ctx) return adji_fail(ADJ_E_ARGUMENT, "ctx: must not be NULL");
  if (!path && !adji_costs_path(usual, sizeof usual, &asked))
    return adji_fail(ADJ_E_ARGUMENT, asked ? "ADJOIN_COSTS: \"none\" is no file to keep costs in"
                                           : "there is no folder for cached files: HOME is not set");
  adji_costs costs = adji_built_in_costs;
  adj_status status = measure(ctx, &costs);
  return status ? status : adji_costs_save(path ? path : usual, ctx->isa, &costs);
}
