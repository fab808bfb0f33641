/* SPDX-License-Identifier: MIT
 *
 * Times kNN in 7 to 32 dimensions on a GPU, with points in tree order and by brute force: one command, one table.
 *
 *   bench/gpu --skip [--case NAME] [--neighbours K] [--repeats N] [--quick] [--check]
 *
 * The k = 8 nearest of every point among all others, f32, with distances; points and result in device memory
 * (adj_cuda_knn_join), the smallest time of the repeats:
 *
 *   auto    as the planner chooses
 *   on      tiles are skipped, even if that saves little (test.skip=on)
 *   brute   every pair through the prefilter (test.skip=off): the first 2^17 points as queries, scaled to all points
 *   times   brute over auto
 *
 * --case: a set of any name that `adjoin generate` knows. --quick: sets of a million points. --check compares the rows
 * of those queries, every id and distance, with brute force.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

enum { QUERIES = 1 << 17 };

static adj_join_spec skip_spec(const bench *b, uint32_t k, const char *tuning) {
  adj_join_spec spec = spec_of(b, ADJ_ORDER_DISTANCE);
  spec.kind = ADJ_KNN;
  spec.radius = INFINITY;
  spec.k = k;
  spec.flags |= ADJ_WITH_DISTANCE;
  spec.algorithm = "brute";
  spec.tuning = tuning;
  return spec;
}

/* queries: the first so many points; 0: all points, as a self-join. */
static adj_cuda_result *find(const bench *b, uint32_t k, const char *tuning, uint64_t queries) {
  adj_cuda_points points = on_device(b), some = points;
  some.count = queries;
  adj_join_spec spec = skip_spec(b, k, tuning);
  adj_cuda_result *result;
  stop_on(adj_cuda_knn_join(b->ctx, &spec, queries ? &some : &points, queries ? &points : NULL, NULL, &result));
  stop_on_cuda(cudaDeviceSynchronize());
  return result;
}

/* Seconds, smallest of the repeats. */
static double time_find(const bench *b, uint32_t k, const char *tuning, uint64_t queries) {
  double best = INFINITY;
  for (int i = 0; i < b->options.repeats; i++) {
    stop_on_cuda(cudaDeviceSynchronize());
    double begin = now();
    adj_cuda_result *result = find(b, k, tuning, queries);
    best = fmin(best, now() - begin);
    adj_cuda_result_destroy(result, NULL);
  }
  return best;
}

static void *to_host(const void *device, size_t bytes) {
  void *host = malloc(bytes + 1);
  if (!host) stop_on(ADJ_E_MEMORY);
  stop_on_cuda(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  return host;
}

/* Whether a row of k entries equals a row of k + 1 entries without the point itself. */
static bool same_row(const uint32_t *ids, const float *distances, const uint32_t *other_ids, const float *others,
                     uint32_t k, uint32_t self) {
  for (uint32_t i = 0, j = 0; i < k; i++, j++) {
    if (other_ids[j] == self) j++;
    if (ids[i] != other_ids[j] || memcmp(distances + i, others + j, sizeof *others)) return false;
  }
  return true;
}

/* Compares the rows of the first queries with brute force, which takes one more neighbour, as it may find the query
 * itself. Returns how many rows differ. */
static uint64_t wrong_rows(const bench *b, uint32_t k, const char *tuning) {
  uint64_t rows = b->count < QUERIES ? b->count : QUERIES, wrong = 0;
  adj_cuda_result *skip = find(b, k, tuning, 0), *brute = find(b, k + 1, "test.skip=off", rows);
  size_t entries = (size_t)rows * k, more = entries + rows;
  uint32_t *ids = to_host(adj_cuda_result_ids(skip), entries * 4), *all = to_host(adj_cuda_result_ids(brute), more * 4);
  float *distances = to_host(adj_cuda_result_distances(skip), entries * 4),
        *others = to_host(adj_cuda_result_distances(brute), more * 4);
  for (uint64_t i = 0; i < rows; i++)
    wrong += !same_row(ids + i * k, distances + i * k, all + i * (k + 1), others + i * (k + 1), k, (uint32_t)i);
  adj_cuda_result_destroy(skip, NULL);
  adj_cuda_result_destroy(brute, NULL);
  free(ids);
  free(all);
  free(distances);
  free(others);
  return wrong;
}

static void run_set(bench *b, const char *name) {
  uint32_t k = b->options.neighbours ? b->options.neighbours : 8;
  b->name = name;
  open_points(b);
  uint64_t queries = b->count < QUERIES ? b->count : QUERIES;
  adj_cuda_result_destroy(find(b, k, "test.skip=off", queries), NULL); /* allocates memory */
  double brute = time_find(b, k, "test.skip=off", queries) * (double)b->count / (double)queries;
  double plain = time_find(b, k, NULL, 0), on = time_find(b, k, "test.skip=on", 0);
  printf("%-16s %4u | %10.1f %10.1f %10.1f | %6.2f", name, k, plain * 1e3, on * 1e3, brute * 1e3, brute / plain);
  if (b->options.check) {
    uint64_t wrong = wrong_rows(b, k, "test.skip=on");
    printf(" | %llu of %llu rows differ", (unsigned long long)wrong, (unsigned long long)queries);
    b->faults += wrong > 0;
  }
  printf("\n");
  fflush(stdout);
  close_points(b);
}

void run_skip(bench *b) {
  static const char *const large[] = {"Unif10D10M", "Clusters16D10M", "Flat16D10M", "Normal10D10M"};
  static const char *const small[] = {"Unif8D1M",  "Unif10D1M", "Clusters16D1M", "Flat16D1M",
                                      "Flat32D1M", "Unif32D1M", "Normal32D1M",   "Expo16D1M"};
  printf("%-16s %4s | %10s %10s %10s | %6s\n", "set", "k", "auto", "on", "brute", "times");
  if (b->options.name) {
    run_set(b, b->options.name);
    return;
  }
  for (size_t i = 0; i < sizeof small / sizeof *small; i++)
    run_set(b, small[i]);
  for (size_t i = 0; i < sizeof large / sizeof *large && !b->options.quick; i++)
    run_set(b, large[i]);
}
