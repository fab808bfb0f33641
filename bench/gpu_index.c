/* SPDX-License-Identifier: MIT
 *
 * Times questions to an index kept on a GPU: one command, one table.
 *
 *   bench/gpu --index [--case NAME] [--repeats N] [--points N] [--quick] [--check]
 *
 * Points of a set of 10 M, f32, and queries from the same distribution, 1, 1,000 and 100,000 per call: the 8 nearest
 * (with distances), the points within a radius that has about 10 points (ids, in any order and by id), and their count.
 * Microseconds per call, the median of many calls:
 *
 *   event    between two CUDA events on the caller's stream, before and after the call
 *   wall     by the host's clock, from before the call until its result is complete
 *   kernel   by the device's clock, from the first launch to the last
 *   host     by the host's clock, with queries and results in host memory: adj_index_plan and adj_collect (adj_count)
 *
 * --check compares every id, distance and count with those of the CPU. --quick: one set, fewer calls.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

static const char *const SETS[] = {"Unif3D10M", "Unif2D10M", "Expo3D10M", "Unif6D10M"};
static const uint64_t QUERIES[] = {1, 1000, 100000};
enum { K = 8, MOST_CALLS = 400 };
static const double MEAN = 10;

typedef enum kind { NEAREST, WITHIN, WITHIN_BY_ID, COUNT, KINDS } kind;
static const char *const KIND_NAMES[] = {"knn 8", "radius", "radius, by id", "count"};

typedef struct asked {
  const bench *b;
  adj_index *device, *host; /* of points on the device; of points in host memory, with the backend gpu */
  adj_dataset *left;
  void *d_left, *host_left;
  uint64_t queries;
  cudaStream_t stream;
  cudaEvent_t before, after;
  uint32_t *d_degrees;
} asked;

typedef struct spent {
  double event[MOST_CALLS], wall[MOST_CALLS], kernel[MOST_CALLS], host[MOST_CALLS];
  int calls, host_calls;
} spent;

static adj_question question_of(const bench *b, kind what) {
  adj_question question;
  adj_question_init(&question, sizeof question);
  question.kind = what == NEAREST ? ADJ_KNN : ADJ_RANGE;
  question.k = what == NEAREST ? K : 0;
  if (what != NEAREST) question.radius = b->radius;
  if (what == NEAREST) question.flags = ADJ_WITH_DISTANCE;
  question.order = what == WITHIN_BY_ID ? ADJ_ORDER_ID : ADJ_ORDER_ANY;
  return question;
}

static adj_cuda_points queries_of(const asked *a) {
  adj_cuda_points points = on_device(a->b);
  points.count = a->queries;
  points.data = a->d_left;
  return points;
}

/* ---- On the device --------------------------------------------------------------------------------------- */

static adj_cuda_result *ask(const asked *a, kind what, uint64_t *total) {
  adj_question question = question_of(a->b, what);
  adj_cuda_points queries = queries_of(a);
  adj_cuda_result *result = NULL;
  if (what == NEAREST)
    stop_on(adj_cuda_index_knn(a->device, &question, &queries, a->stream, &result));
  else if (what == COUNT)
    stop_on(adj_cuda_index_count(a->device, &question, &queries, a->stream, a->d_degrees, total));
  else
    stop_on(adj_cuda_index_range(a->device, &question, &queries, a->stream, &result));
  return result;
}

static void time_call(const asked *a, kind what, spent *s) {
  uint64_t total;
  adj_cuda_times split;
  float ms = 0;
  stop_on_cuda(cudaDeviceSynchronize());
  double begin = now();
  stop_on_cuda(cudaEventRecord(a->before, a->stream));
  adj_cuda_result *result = ask(a, what, &total);
  stop_on_cuda(cudaEventRecord(a->after, a->stream));
  stop_on_cuda(cudaStreamSynchronize(a->stream));
  s->wall[s->calls] = (now() - begin) * 1e6;
  stop_on_cuda(cudaEventElapsedTime(&ms, a->before, a->after));
  s->event[s->calls] = (double)ms * 1e3;
  adj_cuda_times_init(&split, sizeof split);
  stop_on(adj_cuda_last_times(a->b->ctx, &split));
  s->kernel[s->calls] = (split.plan_s + split.index_s + split.count_s + split.fill_s + split.sort_s) * 1e6;
  s->calls++;
  adj_cuda_result_destroy(result, a->stream);
}

/* ---- From host memory ------------------------------------------------------------------------------------ */

static adj_result *collect(const asked *a, adj_index *index, kind what, uint64_t *total) {
  adj_question question = question_of(a->b, what);
  adj_plan *plan;
  adj_result *result = NULL;
  if (what == WITHIN) question.order = ADJ_ORDER_ID; /* rows are compared */
  stop_on(adj_index_plan(index, &question, a->left, &plan));
  if (what == COUNT)
    stop_on(adj_count(plan, NULL, total, NULL, NULL));
  else
    stop_on(adj_collect(plan, &result, NULL, NULL));
  adj_plan_destroy(plan);
  return result;
}

static void time_host(const asked *a, kind what, spent *s) {
  uint64_t total;
  double begin = now();
  adj_result_destroy(collect(a, a->host, what, &total));
  s->host[s->host_calls++] = (now() - begin) * 1e6;
}

/* ---- Checks ---------------------------------------------------------------------------------------------- */

static bool same_array(const void *device, const void *host, size_t bytes) {
  char *copy = malloc(bytes + 1);
  stop_on_cuda(cudaMemcpy(copy, device, bytes, cudaMemcpyDeviceToHost));
  bool same = !memcmp(copy, host, bytes);
  free(copy);
  return same;
}

static bool same_counts(const asked *a, const adj_result *expected) {
  uint64_t total = 0, again = 0, *offsets = malloc((a->queries + 1) * sizeof *offsets);
  const uint64_t *rows = adj_result_offsets(expected);
  uint32_t *degrees = malloc(a->queries * sizeof *degrees);
  ask(a, COUNT, &total);
  collect(a, a->host, COUNT, &again);
  stop_on_cuda(cudaMemcpy(degrees, a->d_degrees, a->queries * sizeof *degrees, cudaMemcpyDeviceToHost));
  bool same = total == adj_result_pairs(expected) && again == total;
  for (uint64_t i = 0; i < a->queries && same; i++)
    same = degrees[i] == rows[i + 1] - rows[i];
  free(offsets);
  free(degrees);
  return same;
}

static bool same_as_cpu(const asked *a, adj_index *cpu, kind what) {
  if (what == WITHIN) return true; /* rows in any order are not compared */
  adj_result *expected = collect(a, cpu, what == COUNT ? WITHIN_BY_ID : what, NULL);
  uint64_t entries = adj_result_offsets(expected)[a->queries];
  bool same = true;
  if (what == COUNT) {
    same = same_counts(a, expected);
  } else {
    adj_cuda_result *result = ask(a, what, NULL);
    adj_result *again = collect(a, a->host, what, NULL);
    same = adj_cuda_result_pairs(result) == adj_result_pairs(expected) &&
           adj_result_pairs(again) == adj_result_pairs(expected) &&
           same_array(adj_cuda_result_ids(result), adj_result_ids(expected), entries * sizeof(uint32_t)) &&
           !memcmp(adj_result_ids(again), adj_result_ids(expected), entries * sizeof(uint32_t));
    if (same && what == NEAREST)
      same = same_array(adj_cuda_result_distances(result), adj_result_distances(expected), entries * sizeof(float)) &&
             !memcmp(adj_result_distances(again), adj_result_distances(expected), entries * sizeof(float));
    if (same && what != NEAREST)
      same = same_array(adj_cuda_result_offsets(result), adj_result_offsets(expected),
                        (a->queries + 1) * sizeof(uint64_t));
    adj_cuda_result_destroy(result, a->stream);
    adj_result_destroy(again);
  }
  adj_result_destroy(expected);
  return same;
}

/* ---- The table ------------------------------------------------------------------------------------------- */

static int ascending(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static double median(double *times, int count) {
  qsort(times, (size_t)count, sizeof *times, ascending);
  return count ? times[count / 2] : 0;
}

static void run_kind(asked *a, adj_index *cpu, kind what) {
  bench *b = (bench *)(uintptr_t)a->b;
  static spent s;
  memset(&s, 0, sizeof s);
  uint64_t total;
  int calls = a->queries > 10000 ? 20 * b->options.repeats : MOST_CALLS / 2;
  if (b->options.quick) calls /= 2;
  for (int i = 0; i < 5; i++) /* warms up and allocates memory */
    adj_cuda_result_destroy(ask(a, what, &total), a->stream);
  for (int i = 0; i < calls && i < MOST_CALLS; i++)
    time_call(a, what, &s);
  for (int i = 0; i < calls / 4 && i < MOST_CALLS; i++)
    time_host(a, what, &s);
  const char *checked = "";
  if (cpu && what != WITHIN) {
    bool same = same_as_cpu(a, cpu, what);
    b->faults += !same;
    checked = same ? " same" : " DIFFERS";
  }
  printf("%-10s %-14s %7llu | %8.1f %8.1f %8.1f | %9.1f |%s\n", b->name, KIND_NAMES[what],
         (unsigned long long)a->queries, median(s.event, s.calls), median(s.wall, s.calls), median(s.kernel, s.calls),
         median(s.host, s.host_calls), checked);
  fflush(stdout);
}

static void open_queries(asked *a, uint64_t queries) {
  adj_generate_options generate;
  adj_generate_options_init(&generate, sizeof generate);
  generate.name = a->b->name;
  generate.count = queries;
  generate.seed = 77;
  stop_on(adj_dataset_generate(a->b->ctx, &generate, &a->left));
  size_t row = a->b->dim * sizeof(float);
  a->queries = queries;
  a->host_left = malloc(queries * row);
  for (uint64_t i = 0; i < queries; i++)
    stop_on(adj_dataset_row(a->left, i, (char *)a->host_left + i * row));
  stop_on_cuda(cudaMalloc(&a->d_left, queries * row));
  stop_on_cuda(cudaMalloc((void **)&a->d_degrees, queries * sizeof(uint32_t)));
  stop_on_cuda(cudaMemcpy(a->d_left, a->host_left, queries * row, cudaMemcpyHostToDevice));
}

static void close_queries(asked *a) {
  cudaFree(a->d_left);
  cudaFree(a->d_degrees);
  free(a->host_left);
  adj_dataset_destroy(a->left);
}

static adj_index *index_on(const bench *b, adj_backend backend) {
  adj_index_options asked_for;
  adj_index_options_init(&asked_for, sizeof asked_for);
  asked_for.backend = backend;
  adj_index *index;
  stop_on(adj_index_create(b->ctx, &asked_for, b->set, &index));
  return index;
}

static void run_set(bench *b) {
  asked a = {.b = b};
  adj_cuda_points points = on_device(b);
  stop_on_cuda(cudaStreamCreateWithFlags(&a.stream, cudaStreamNonBlocking));
  stop_on_cuda(cudaEventCreate(&a.before));
  stop_on_cuda(cudaEventCreate(&a.after));
  find_radius(b, MEAN);
  double begin = now();
  stop_on(adj_cuda_index_create(b->ctx, NULL, &points, a.stream, &a.device));
  double made = now();
  a.host = index_on(b, ADJ_BACKEND_GPU);
  printf("%-10s index made in %.1f ms from points on the device, in %.1f ms from the host's\n", b->name,
         (made - begin) * 1e3, (now() - made) * 1e3);
  adj_index *cpu = b->options.check ? index_on(b, ADJ_BACKEND_CPU) : NULL;
  for (size_t q = 0; q < sizeof QUERIES / sizeof *QUERIES; q++) {
    open_queries(&a, QUERIES[q]);
    for (int what = NEAREST; what < KINDS; what++)
      run_kind(&a, cpu, (kind)what);
    close_queries(&a);
  }
  adj_index_destroy(cpu);
  adj_index_destroy(a.host);
  adj_index_destroy(a.device);
  cudaEventDestroy(a.before);
  cudaEventDestroy(a.after);
  cudaStreamDestroy(a.stream);
}

void run_index(bench *b) {
  printf("%-10s %-14s %7s | %8s %8s %8s | %9s | microseconds a call\n", "points", "question", "queries", "event",
         "wall", "kernel", "host");
  for (size_t i = 0; i < sizeof SETS / sizeof *SETS; i++) {
    if (b->options.name ? strcmp(b->options.name, SETS[i]) != 0 : b->options.quick && i) continue;
    b->name = SETS[i];
    open_points(b);
    run_set(b);
    close_points(b);
  }
}
