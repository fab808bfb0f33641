/* SPDX-License-Identifier: MIT
 *
 * CPU microseconds of a small join from C: dataset, plan, collect, destroy. bench/python_trees.py compares it with the
 * same join from Python.
 *
 *   small_join POINTS COUNT DIM RADIUS     POINTS: a file of COUNT x DIM doubles
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "adjoin.h"

enum { ROUNDS = 60, JOINS = 300 };

static double cpu_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static adj_status join_once(adj_ctx *ctx, const double *data, uint64_t count, uint32_t dim, double radius) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = ADJ_F64;
  points.dim = dim;
  points.count = count;
  points.data = data;
  points.ownership = ADJ_BORROW;
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = radius;
  adj_result *result = NULL;
  adj_status status = adj_join(ctx, &spec, &points, NULL, &result);
  adj_result_destroy(result);
  return status;
}

int main(int argc, char **argv) {
  if (argc != 5) return 2;
  uint64_t count = strtoull(argv[2], NULL, 10), dim = strtoull(argv[3], NULL, 10);
  double *data = malloc(count * dim * sizeof *data), best = 1e30;
  FILE *file = fopen(argv[1], "rb");
  adj_ctx *ctx = NULL;
  adj_status status = ADJ_E_IO;
  if (file && data && fread(data, sizeof *data, count * dim, file) == count * dim) status = adj_ctx_create(NULL, &ctx);
  for (int round = 0; round < ROUNDS && !status; round++) {
    double begin = cpu_us();
    for (int i = 0; i < JOINS && !status; i++)
      status = join_once(ctx, data, count, (uint32_t)dim, strtod(argv[4], NULL));
    double each = (cpu_us() - begin) / JOINS;
    if (each < best) best = each;
  }
  if (status)
    fprintf(stderr, "small_join: %s\n", adj_last_error());
  else
    printf("%.2f\n", best);
  adj_ctx_destroy(ctx);
  if (file) fclose(file);
  free(data);
  return status ? 1 : 0;
}
