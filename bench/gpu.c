/* SPDX-License-Identifier: MIT
 *
 * Times the range join on a GPU: one command, one table.
 *
 *   bench/gpu [--case NAME] [--mean N] [--repeats N] [--points N] [--check] [--quick] [--tuning TEXT]
 *   bench/gpu --nearest [--case NAME] [--neighbours K] [--repeats N] [--points N] [--tuning TEXT] [--quick] [--check]
 *   bench/gpu --hybrid [--case NAME] [--neighbours K] [--repeats N] [--points N] [--tuning TEXT] [--quick]
 *   bench/gpu --hybrid-range [--case NAME] [--mean N] [--repeats N] [--points N] [--tuning TEXT]
 *   bench/gpu --auto [--seconds S] [--repeats N] [--quick] [--seed N] [--case TEXT]
 *   bench/gpu --auto-sets | --auto-cold [--case NAME] [--repeats N] [--quick]
 *   bench/gpu --dims [--case NAME] [--repeats N] [--points N] [--plain N] [--radius R] [--quick] [--check]
 *   bench/gpu --spread [--case NAME] [--repeats N] [--points N] [--quick] [--check]
 *   bench/gpu --index [--case NAME] [--repeats N] [--points N] [--quick] [--check]
 *   bench/gpu --select [--case NAME] [--repeats N] [--quick] [--check]
 *
 * For each set of points and each mean number of neighbours, the radius is found first, by counting. The figures are
 * the smallest of the repeats and always include index construction:
 *
 *   device   from points on the device to CSR on the device, rows in any order; split into plan, index, count and fill
 *   by id    the same, each row in ascending order of id
 *   count    from points on the device to one number per point on the device
 *   host     from points in host memory to CSR in host memory, by id
 *   touch    GB per second at which all threads write fresh memory of the result's size, in huge pages
 *   of       the result's GB per second in host, over the lesser of touch and the rate of pinned copies
 *
 * The floor of device and count is the larger of two times: the bytes of the result over MEMORY_GBS, and the pairs
 * found over COMPARE_GPS, the rate of a kernel that compares all pairs. The floor of host is the bytes of the result
 * over the rate of pinned copies, which is measured here. --check compares every pair with the CPU's result. --tuning:
 * docs/tuning.md. --threads: of the host. The other options print tables of their own: gpu_auto.c, gpu_dims.c,
 * gpu_hybrid.c, gpu_index.c, gpu_knn.c, gpu_select.c, gpu_skip.c, gpu_spread.c, gpu_sweep.c.
 */
#include "gpu.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static const double MEMORY_GBS = 4600, COMPARE_GPS = 2200; /* of an H200 */

void stop_on(adj_status status) {
  if (!status) return;
  fprintf(stderr, "gpu: %s\n", adj_last_error());
  exit(1);
}

void stop_on_cuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "gpu: %s\n", cudaGetErrorString(error));
  exit(1);
}

/* ---- Points ---------------------------------------------------------------------------------------- */

void generate_points(bench *b) {
  adj_generate_options generate;
  adj_generate_options_init(&generate, sizeof generate);
  generate.name = b->name;
  generate.count = b->options.points;
  stop_on(adj_dataset_generate(b->ctx, &generate, &b->set));
  b->count = adj_dataset_count(b->set);
  b->dim = adj_dataset_dim(b->set);
}

void open_points(bench *b) {
  generate_points(b);
  size_t row = b->dim * sizeof(float);
  b->host = malloc(b->count * row);
  for (uint64_t i = 0; i < b->count; i++)
    stop_on(adj_dataset_row(b->set, i, (char *)b->host + i * row));
  stop_on_cuda(cudaMalloc(&b->device, b->count * row));
  stop_on_cuda(cudaMemcpy(b->device, b->host, b->count * row, cudaMemcpyHostToDevice));
}

void close_points(bench *b) {
  cudaFree(b->device);
  free(b->host);
  adj_dataset_destroy(b->set);
}

bool same_result(const bench *b, const adj_result *x, const adj_result *y) {
  size_t entries = adj_result_offsets(x)[b->count];
  return adj_result_pairs(x) == adj_result_pairs(y) &&
         !memcmp(adj_result_offsets(x), adj_result_offsets(y), (b->count + 1) * sizeof(uint64_t)) &&
         !memcmp(adj_result_ids(x), adj_result_ids(y), entries * sizeof(uint32_t)) &&
         (!adj_result_distances(x) ||
          !memcmp(adj_result_distances(x), adj_result_distances(y), entries * sizeof(float)));
}

adj_cuda_points on_device(const bench *b) {
  adj_cuda_points points;
  adj_cuda_points_init(&points, sizeof points);
  points.dim = b->dim;
  points.count = b->count;
  points.type = ADJ_F32;
  points.data = b->device;
  return points;
}

adj_join_spec spec_of(const bench *b, adj_order order) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = b->radius;
  spec.order = order;
  spec.backend = ADJ_BACKEND_GPU;
  spec.tuning = b->tuning;
  return spec;
}

adj_join_spec spec_of_any(const bench *b, uint32_t k) {
  adj_join_spec spec = spec_of(b, k ? ADJ_ORDER_DISTANCE : ADJ_ORDER_ID);
  if (!k) return spec;
  spec.kind = ADJ_KNN;
  spec.radius = INFINITY;
  spec.k = k;
  spec.flags |= ADJ_WITH_DISTANCE;
  return spec;
}

static double device_share(const adj_plan *plan, const adj_stats *stats) {
  double all = 0, devices = 0;
  for (uint32_t w = 0; w < stats->worker_count; w++) {
    adj_worker worker;
    adj_worker_init(&worker, sizeof worker);
    stop_on(adj_plan_worker(plan, w, &worker));
    all += (double)worker.queries;
    if (w) devices += (double)worker.queries;
  }
  return all > 0 ? devices / all : 0;
}

adj_result *collect_timed(const bench *b, const adj_join_spec *spec, timed *out) {
  adj_plan *plan;
  adj_result *result;
  adj_stats_init(&out->stats, sizeof out->stats);
  double begin = now();
  stop_on(adj_plan_create(b->ctx, spec, b->set, NULL, &plan));
  double planned = now();
  stop_on(adj_collect(plan, &result, NULL, &out->stats));
  out->join_s = now() - planned;
  out->plan_s = planned - begin;
  out->device_share = device_share(plan, &out->stats);
  adj_plan_destroy(plan);
  return result;
}

/* Finds the radius at which points have `mean` neighbours, by bisection, as the count grows with the radius. */
void find_radius(bench *b, double mean) {
  adj_cuda_points points = on_device(b);
  double low = 0, high = 0;
  for (uint32_t j = 0; j < b->dim; j++) {
    double from, to;
    adj_dataset_bounds(b->set, j, &from, &to);
    high = fmax(high, to - from);
  }
  high *= pow((double)b->count, -1.0 / b->dim) * 0.05; /* few neighbours at first; doubled until there are enough */
  for (int i = 0; i < 60 && high - low > 1e-3 * high; i++) {
    b->radius = low > 0 ? (low + high) / 2 : high;
    adj_join_spec spec = spec_of(b, ADJ_ORDER_ANY);
    spec.tuning = NULL; /* a device limited by the tuning would take long */
    uint64_t pairs;
    stop_on(adj_cuda_range_count(b->ctx, &spec, &points, NULL, NULL, NULL, &pairs));
    bool enough = (double)pairs >= mean * (double)b->count;
    if (low == 0 && !enough) {
      high *= 1.5;
      continue;
    }
    if (low == 0) low = high / 1.5;
    *(enough ? &high : &low) = b->radius;
  }
  b->radius = (float)high;
}

/* ---- Times ----------------------------------------------------------------------------------------- */

typedef struct times {
  double device, plan, index, count, fill; /* seconds */
  double by_id, sort, count_only, host;
  double touch_gbs; /* write rate of fresh memory, all threads together */
  uint64_t pairs, candidates, device_bytes;
} times;

double time_device(bench *b, adj_order order, adj_cuda_times *split, uint64_t *pairs) {
  adj_cuda_points points = on_device(b);
  adj_join_spec spec = spec_of(b, order);
  double best = INFINITY;
  for (int i = 0; i < b->options.repeats + 1; i++) { /* the first one warms up */
    stop_on_cuda(cudaDeviceSynchronize());
    adj_cuda_result *result;
    double begin = now();
    stop_on(adj_cuda_range_join(b->ctx, &spec, &points, NULL, NULL, &result));
    stop_on_cuda(cudaDeviceSynchronize());
    double took = now() - begin;
    *pairs = adj_cuda_result_pairs(result);
    adj_cuda_times mine;
    adj_cuda_times_init(&mine, sizeof mine);
    stop_on(adj_cuda_last_times(b->ctx, &mine));
    adj_cuda_result_destroy(result, NULL);
    if (i && took < best) {
      best = took;
      *split = mine;
    }
  }
  return best;
}

static double time_count(bench *b) {
  adj_cuda_points points = on_device(b);
  adj_join_spec spec = spec_of(b, ADJ_ORDER_ANY);
  uint32_t *degrees;
  stop_on_cuda(cudaMalloc((void **)&degrees, b->count * sizeof *degrees));
  double best = INFINITY;
  for (int i = 0; i < b->options.repeats; i++) {
    stop_on_cuda(cudaDeviceSynchronize());
    double begin = now();
    uint64_t pairs;
    stop_on(adj_cuda_range_count(b->ctx, &spec, &points, NULL, NULL, degrees, &pairs));
    stop_on_cuda(cudaDeviceSynchronize());
    best = fmin(best, now() - begin);
  }
  cudaFree(degrees);
  return best;
}

static adj_result *join_host(bench *b, adj_backend backend) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = b->dim;
  points.count = b->count;
  points.data = b->host;
  points.type = ADJ_F32;
  points.ownership = ADJ_BORROW;
  adj_join_spec spec = spec_of(b, ADJ_ORDER_ID);
  spec.backend = backend;
  if (backend == ADJ_BACKEND_CPU) spec.tuning = NULL; /* the tuning is for the GPU */
  adj_dataset *set;
  adj_plan *plan;
  adj_result *result;
  stop_on(adj_dataset_create(b->ctx, &points, &set));
  stop_on(adj_plan_create(b->ctx, &spec, set, NULL, &plan));
  stop_on(adj_collect(plan, &result, NULL, NULL));
  adj_plan_destroy(plan);
  adj_dataset_destroy(set);
  return result;
}

/* GB per second at which all threads write fresh memory, in huge pages. */
static double measure_touch(bench *b, uint64_t bytes) {
  unsigned threads = adj_ctx_threads(b->ctx);
  lane *lanes = calloc(threads, sizeof *lanes);
  const uint64_t huge = (uint64_t)2 << 20;
  double rate = lanes ? touch_once(lanes, threads, (bytes + huge - 1) / huge * huge, MADV_HUGEPAGE) : 0;
  free(lanes);
  return rate * 1e-9;
}

/* Times the joins and, between them, the writing of fresh memory for the result. */
static void time_host(bench *b, times *t) {
  t->host = INFINITY;
  for (int i = 0; i < (b->options.repeats + 1) / 2 + 1; i++) {
    double begin = now();
    adj_result *result = join_host(b, ADJ_BACKEND_GPU);
    double took = now() - begin;
    if (i) t->host = fmin(t->host, took);
    adj_result_destroy(result);
    t->touch_gbs = fmax(t->touch_gbs, measure_touch(b, t->pairs * sizeof(uint32_t)));
  }
}

/* ---- Checks ---------------------------------------------------------------------------------------- */

/* CSR by id must have the same bytes on the device, on the host from the GPU, and on the host from the CPU. */
static bool check(bench *b) {
  adj_result *cpu = join_host(b, ADJ_BACKEND_CPU), *gpu = join_host(b, ADJ_BACKEND_GPU);
  bool same = same_result(b, cpu, gpu);
  adj_cuda_points points = on_device(b);
  adj_join_spec spec = spec_of(b, ADJ_ORDER_ID);
  adj_cuda_result *device;
  stop_on(adj_cuda_range_join(b->ctx, &spec, &points, NULL, NULL, &device));
  uint64_t pairs = adj_cuda_result_pairs(device);
  uint32_t *ids = malloc(pairs * sizeof *ids + 1);
  stop_on_cuda(cudaMemcpy(ids, adj_cuda_result_ids(device), pairs * sizeof *ids, cudaMemcpyDeviceToHost));
  same = same && pairs == adj_result_pairs(cpu) && !memcmp(ids, adj_result_ids(cpu), pairs * sizeof *ids);
  adj_cuda_result_destroy(device, NULL);
  free(ids);
  adj_result_destroy(cpu);
  adj_result_destroy(gpu);
  return same;
}

/* ---- The table --------------------------------------------------------------------------------------- */

static void print_heading(void) {
  printf("%-10s %5s %9s %8s | %8s %6s %6s %7s %7s %6s %7s | %8s %7s | %8s %6s | %8s %6s %5s %4s | %5s %s\n", "points",
         "mean", "radius", "Mpairs", "device", "plan", "index", "count", "fill", "/floor", "cand/q", "by id", "sort",
         "count", "/floor", "host", "/floor", "touch", "of", "mem", "check");
}

static void run_case(bench *b, double mean) {
  find_radius(b, mean);
  times t = {0};
  adj_cuda_times any, by_id;
  adj_cuda_times_init(&any, sizeof any);
  adj_cuda_times_init(&by_id, sizeof by_id);
  t.device = time_device(b, ADJ_ORDER_ANY, &any, &t.pairs);
  t.by_id = time_device(b, ADJ_ORDER_ID, &by_id, &t.pairs);
  t.count_only = time_count(b);
  time_host(b, &t);
  double bytes = 4.0 * (double)t.pairs + 8.0 * (double)b->count, points = (double)(b->count * b->dim) * 4;
  double compare = (double)t.pairs / COMPARE_GPS * 1e-9;
  double floor_device = fmax((bytes + points) / MEMORY_GBS * 1e-9, compare);
  double floor_count = fmax((4.0 * (double)b->count + points) / MEMORY_GBS * 1e-9, compare);
  double floor_host = (bytes + points) / b->pinned_gbs * 1e-9;
  const char *verdict = "-";
  if (b->options.check) {
    bool same = check(b);
    verdict = same ? "same" : "DIFFERS";
    b->faults += !same;
  }
  printf(
      "%-10s %5.0f %9.3g %8.1f | %8.3f %6.3f %6.3f %7.3f %7.3f %6.1f %7.0f | %8.3f %7.3f | %8.3f %6.1f | %8.2f %6.2f "
      "%5.1f %4.2f | %5.2f %s\n",
      b->name, mean, b->radius, (double)t.pairs * 1e-6, t.device * 1e3, any.plan_s * 1e3, any.index_s * 1e3,
      any.count_s * 1e3, any.fill_s * 1e3, t.device / floor_device, (double)any.candidates / (double)b->count,
      t.by_id * 1e3, by_id.sort_s * 1e3, t.count_only * 1e3, t.count_only / floor_count, t.host * 1e3,
      t.host / floor_host, t.touch_gbs, bytes * 1e-9 / t.host / fmin(b->pinned_gbs, t.touch_gbs),
      ((double)any.peak_bytes - bytes) / points, verdict);
  fflush(stdout);
}

static double measure_pinned(void) {
  size_t bytes = (size_t)256 << 20;
  void *host, *device;
  stop_on_cuda(cudaMallocHost(&host, bytes));
  stop_on_cuda(cudaMalloc(&device, bytes));
  double best = INFINITY;
  for (int i = 0; i < 4; i++) {
    double begin = now();
    stop_on_cuda(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
    best = fmin(best, now() - begin);
  }
  cudaFreeHost(host);
  cudaFree(device);
  return (double)bytes / best * 1e-9;
}

/* The switch that an option without a value sets; NULL for other options. */
static bool *switch_of(options *o, const char *name) {
  struct {
    const char *name;
    bool *set;
  } all[] = {{"--check", &o->check},         {"--quick", &o->quick},
             {"--dims", &o->dims},           {"--nearest", &o->nearest},
             {"--brute", &o->brute},         {"--select", &o->select},
             {"--hybrid", &o->hybrid},       {"--hybrid-range", &o->hybrid_range},
             {"--auto", &o->automatic},      {"--auto-sets", &o->auto_sets},
             {"--auto-cold", &o->auto_cold}, {"--spread", &o->spread},
             {"--index", &o->index},         {"--skip", &o->skip}};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (!strcmp(name, all[i].name)) return all[i].set;
  return NULL;
}

static bool set_value(options *o, const char *name, const char *value) {
  if (!strcmp(name, "--case"))
    o->name = value;
  else if (!strcmp(name, "--mean"))
    o->mean = atof(value);
  else if (!strcmp(name, "--repeats"))
    o->repeats = atoi(value);
  else if (!strcmp(name, "--points"))
    o->points = strtoull(value, NULL, 10);
  else if (!strcmp(name, "--plain"))
    o->plain = strtoull(value, NULL, 10);
  else if (!strcmp(name, "--radius"))
    o->radius = atof(value);
  else if (!strcmp(name, "--neighbours"))
    o->neighbours = (uint32_t)strtoul(value, NULL, 10);
  else if (!strcmp(name, "--threads"))
    o->threads = (uint32_t)strtoul(value, NULL, 10);
  else if (!strcmp(name, "--seed"))
    o->seed = (uint32_t)strtoul(value, NULL, 10);
  else if (!strcmp(name, "--seconds"))
    o->seconds = atof(value);
  else if (!strcmp(name, "--tuning"))
    o->tuning = value;
  else if (!strcmp(name, "--backend"))
    o->backend = value;
  else
    return false;
  return true;
}

static options parse(int argc, char **argv) {
  options o = {.repeats = 5};
  for (int i = 1; i < argc; i++) {
    bool *set = switch_of(&o, argv[i]);
    if (set) {
      *set = true;
      continue;
    }
    if (i + 1 == argc || !set_value(&o, argv[i], argv[i + 1])) {
      fprintf(stderr,
              "usage: gpu [--case NAME] [--mean N] [--repeats N] [--points N] [--check] [--quick] [--tuning TEXT]\n"
              "           [--threads N] [--dims [--plain N] [--radius R]]\n"
              "           [--nearest [--neighbours K]] [--hybrid [--neighbours K]] [--hybrid-range]\n"
              "           [--brute [--neighbours K]] [--select] [--auto [--seconds S] [--seed N]] [--auto-sets] "
              "[--auto-cold]\n"
              "           [--spread] [--index] [--skip]\n");
      exit(2);
    }
    i++;
  }
  return o;
}

static void show_warnings(void *user, adj_log_level level, const char *line) {
  (void)user;
  if (level == ADJ_LOG_WARN) fprintf(stderr, "%s\n", line);
}

int main(int argc, char **argv) {
  static const char *const names[] = {"Unif2D2M", "Expo2D2M", "Unif3D2M", "Expo3D2M", "Unif6D2M", "Expo6D2M"};
  static const double means[] = {10, 100, 1000};
  bench b = {.options = parse(argc, argv)};
  b.tuning = b.options.tuning;
  adj_ctx_options watched;
  adj_ctx_options_init(&watched, sizeof watched);
  watched.log = show_warnings;
  watched.threads = b.options.threads;
  stop_on(adj_ctx_create(&watched, &b.ctx));
  if (b.options.backend) { /* started by --auto-cold */
    int failed = run_auto_once(&b);
    adj_ctx_destroy(b.ctx);
    return failed;
  }
  double begin = now();
  b.pinned_gbs = measure_pinned();
  adj_device device;
  adj_device_init(&device, sizeof device);
  stop_on(adj_device_describe(0, &device));
  printf("%s, %u threads; pinned copies %.1f GB/s; CUDA started in %.2f s\n", device.name, adj_ctx_threads(b.ctx),
         b.pinned_gbs, now() - begin);
  printf("milliseconds, smallest of %d; mem: device memory beyond the result, in sizes of the points\n",
         b.options.repeats);
  const options *o = &b.options;
  if (o->dims || o->nearest || o->brute || o->hybrid || o->hybrid_range || o->select || o->automatic || o->auto_sets ||
      o->auto_cold || o->spread || o->index || o->skip) {
    if (b.options.dims) run_dims(&b);
    if (b.options.nearest) run_nearest(&b);
    if (b.options.brute) run_brute(&b);
    if (b.options.hybrid) run_hybrid(&b);
    if (b.options.hybrid_range) run_hybrid_range(&b);
    if (b.options.select) run_select(&b);
    if (b.options.automatic) run_sweep(&b);
    if (b.options.auto_sets) run_auto_sets(&b);
    if (b.options.auto_cold) run_auto_cold(&b);
    if (b.options.spread) run_spread(&b);
    if (b.options.index) run_index(&b);
    if (b.options.skip) run_skip(&b);
    adj_ctx_destroy(b.ctx);
    return b.faults > 0;
  }
  print_heading();
  for (int n = 0; n < 6; n++) {
    if (b.options.name && strcmp(b.options.name, names[n])) continue;
    b.name = names[n];
    open_points(&b);
    if (b.options.mean > 0) run_case(&b, b.options.mean);
    for (int m = 0; m < (b.options.quick ? 2 : 3) && !(b.options.mean > 0); m++)
      run_case(&b, means[m]);
    close_points(&b);
  }
  adj_ctx_destroy(b.ctx);
  return b.faults > 0;
}
