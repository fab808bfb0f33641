/* SPDX-License-Identifier: MIT
 *
 * Times selection on a GPU: one command, one table.
 *
 *   bench/gpu --select [--case TEXT] [--repeats N] [--check] [--quick]
 *
 * The k smallest of each of q rows of n values in f32, matrix and answer in device memory, in order; the smallest time
 * of the repeats, by events around the call. The share is the time in which a plain kernel reads the matrix, over this
 * time, so 100 % is one pass at the speed of memory. "sort" is CUB's sort of all pairs of value and column. --case:
 * only one algorithm ("auto", "short", "bound", "bits", "bitonic", "radix", "sample", "sort"), or "descending" for
 * values that descend along each row. --quick: leaves out what takes long. --check compares the answers for each k with
 * those of the first algorithm.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"
#include "gpu_values.h"

typedef struct table {
  bench *b;
  float *values;
  uint64_t q, n;
  uint32_t *columns, *others; /* answers, on the device */
  float *found;
  cudaEvent_t begin, end;
  double read_ms;
} table;

static float between(const table *t) {
  float ms;
  stop_on_cuda(cudaEventSynchronize(t->end));
  stop_on_cuda(cudaEventElapsedTime(&ms, t->begin, t->end));
  return ms;
}

static double time_read(const table *t) {
  double best = INFINITY;
  for (int i = 0; i < t->b->options.repeats + 1; i++) {
    stop_on_cuda(cudaEventRecord(t->begin, NULL));
    stop_on_cuda(read_values(t->values, t->q * t->n, t->found));
    stop_on_cuda(cudaEventRecord(t->end, NULL));
    best = fmin(best, between(t));
  }
  return best;
}

static void select_once(const table *t, uint32_t k, const char *algorithm, uint32_t *columns) {
  adj_matrix matrix;
  adj_matrix_init(&matrix, sizeof matrix);
  matrix.rows = t->q;
  matrix.columns = t->n;
  matrix.values = t->values;
  adj_cuda_select_options how;
  adj_cuda_select_options_init(&how, sizeof how);
  how.algorithm = algorithm;
  stop_on(adj_cuda_select_k(t->b->ctx, &matrix, k, &how, NULL, columns, t->found));
}

/* Milliseconds of a selection. Quick ones run several in a row, so that the device need not wait for the host. The
 * first ones warm up. */
static double time_selection(const table *t, uint32_t k, const char *algorithm, uint32_t *columns, bool slow) {
  double best = INFINITY;
  int many = slow ? 1 : 1 + (int)(4 / t->read_ms), repeats = slow ? 2 : t->b->options.repeats + 1;
  for (int i = 0; i < repeats; i++) {
    stop_on_cuda(cudaEventRecord(t->begin, NULL));
    for (int j = 0; j < many; j++)
      select_once(t, k, algorithm, columns);
    stop_on_cuda(cudaEventRecord(t->end, NULL));
    double ms = between(t) / many;
    if (i) best = fmin(best, ms);
  }
  return best;
}

static bool same_answers(const table *t, uint32_t k) {
  uint64_t bytes = t->q * k * sizeof(uint32_t);
  char *a = malloc(bytes), *b = malloc(bytes);
  stop_on_cuda(cudaMemcpy(a, t->columns, bytes, cudaMemcpyDeviceToHost));
  stop_on_cuda(cudaMemcpy(b, t->others, bytes, cudaMemcpyDeviceToHost));
  bool same = !memcmp(a, b, bytes);
  free(a);
  free(b);
  return same;
}

static void run_k(const table *t, uint32_t k, bool descending) {
  static const char *const names[] = {NULL,         "short",  "bound", "bits",       "bitonic",     "block-bitonic",
                                      "radix",      "sample", "sort",  "block-bits", "block-radix", "block-sample",
                                      "stream-sort"};
  enum { SHORT = 1, BOUND, BITS, BITONIC, BLOCK_BITONIC, RADIX, SAMPLE, SORT, STREAM_SORT = 12 };
  const char *only = t->b->options.name;
  bool first = true;
  for (int a = 0; a <= STREAM_SORT; a++) {
    const char *name = names[a] ? names[a] : "auto";
    bool small = a > 0 && a < RADIX, slow = a == SORT || (a >= BITS && a != RADIX && t->q * t->n > 1 << 28);
    bool chosen = t->n <= 16384 ? a == SHORT : a <= BOUND; /* auto chooses these, or they do not fit such rows */
    if (only && !descending ? strcmp(only, name) : a && (chosen || descending)) continue;
    if ((small && k > 2048) || (slow && t->b->options.quick && !only)) continue;
    double ms = time_selection(t, k, names[a], first ? t->columns : t->others, slow);
    bool same = first || !t->b->options.check || same_answers(t, k);
    t->b->faults += !same;
    printf("%6llu %10llu %8u %-13s | %9.3f %8.1f %7.1f%s\n", (unsigned long long)t->q, (unsigned long long)t->n, k,
           name, ms, (double)(t->q * t->n) / ms * 1e-6, 100 * t->read_ms / ms, same ? "" : " DIFFERS");
    fflush(stdout);
    first = false;
  }
}

static void run_shape(bench *b, uint64_t q, uint64_t n, const uint32_t *ks, int k_count, bool descending) {
  table t = {.b = b, .q = q, .n = n};
  uint32_t most = 1;
  for (int i = 0; i < k_count; i++)
    most = ks[i] > most ? ks[i] : most;
  stop_on_cuda(cudaMalloc((void **)&t.values, q * n * sizeof *t.values));
  stop_on_cuda(cudaMalloc((void **)&t.columns, q * most * sizeof *t.columns));
  stop_on_cuda(cudaMalloc((void **)&t.others, q * most * sizeof *t.others));
  stop_on_cuda(cudaMalloc((void **)&t.found, q * most * sizeof *t.found));
  stop_on_cuda(cudaEventCreate(&t.begin));
  stop_on_cuda(cudaEventCreate(&t.end));
  stop_on_cuda(fill_values(t.values, q * n, n, descending));
  t.read_ms = time_read(&t);
  printf("%s: a read takes %.3f ms, %.0f GB/s\n", descending ? "descending" : "uniform", t.read_ms,
         (double)(q * n) * 4e-6 / t.read_ms);
  for (int i = 0; i < k_count; i++)
    run_k(&t, ks[i], descending);
  cudaEventDestroy(t.begin);
  cudaEventDestroy(t.end);
  cudaFree(t.values);
  cudaFree(t.columns);
  cudaFree(t.others);
  cudaFree(t.found);
}

void run_select(bench *b) {
  static const uint32_t small[] = {1, 8, 32, 128, 512, 2048}, large[] = {4096, 10486, 104858, 314573};
  static const uint32_t some[] = {32, 512, 2048};
  bool descending = b->options.name && !strcmp(b->options.name, "descending");
  printf("\nmilliseconds; G values/s; percent of the speed of reading\n");
  printf("%6s %10s %8s %-13s | %9s %8s %7s\n", "q", "n", "k", "", "ms", "G/s", "share");
  if (!descending) {
    run_shape(b, 1024, 1 << 20, small, 6, false);
    run_shape(b, 8192, 1 << 17, small, 6, false);
    run_shape(b, 1, 1 << 27, small, 6, false);
    run_shape(b, 64, 1 << 22, some, 3, false);
    run_shape(b, 16384, 1 << 15, some, 3, false);
    run_shape(b, 32768, 1 << 14, some, 3, false);
    run_shape(b, 65536, 1 << 13, some, 3, false);
    run_shape(b, 1 << 18, 1 << 11, some, 2, false);
    run_shape(b, 1 << 20, 1000, some, 2, false);
    run_shape(b, 128, 1 << 20, large, 4, false);
    run_shape(b, 1, 1 << 27, large + 1, 2, false);
    run_shape(b, 4096, 1 << 17, large, 2, false);
    run_shape(b, 16384, 1 << 15, large, 2, false);
  }
  run_shape(b, 1024, 1 << 20, some, 3, true);
}
