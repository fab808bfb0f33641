/* SPDX-License-Identifier: MIT
 *
 * kind=select of the papers' driver: the k smallest of each of `queries` rows of `count` values, matrix and answer in
 * device memory. Seconds by events around the calls, the median and the smallest of the repeats after a warm-up. The
 * digest is of some rows.
 */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <adjoin_cuda.h>

#include "driver.h"
#include "driver_papers.h"
#include "gpu_values.h"

enum { DIGEST_ROWS = 64 };

typedef struct selection {
  const papers_request *r;
  adj_ctx *ctx;
  adj_matrix matrix;
  float *values, *found;
  uint32_t *columns;
  cudaEvent_t begin, end;
  double seconds[PAPERS_REPEATS];
  uint32_t repeats;
} selection;

static cudaError_t make_matrix(selection *s) {
  uint64_t cells = s->r->queries * s->r->count, entries = s->r->queries * s->r->k;
  cudaError_t error = cudaMalloc((void **)&s->values, cells * sizeof *s->values);
  if (!error) error = cudaMalloc((void **)&s->columns, entries * sizeof *s->columns);
  if (!error) error = cudaMalloc((void **)&s->found, entries * sizeof *s->found);
  if (!error) error = cudaEventCreate(&s->begin);
  if (!error) error = cudaEventCreate(&s->end);
  if (!error) error = fill_values(s->values, cells, s->r->count, 0);
  adj_matrix_init(&s->matrix, sizeof s->matrix);
  s->matrix.rows = s->r->queries;
  s->matrix.columns = s->r->count;
  s->matrix.values = s->values;
  return error;
}

static void drop_matrix(selection *s) {
  cudaFree(s->values);
  cudaFree(s->columns);
  cudaFree(s->found);
  if (s->begin) cudaEventDestroy(s->begin);
  if (s->end) cudaEventDestroy(s->end);
}

static adj_status select_once(selection *s, double *seconds) {
  adj_cuda_select_options how;
  adj_cuda_select_options_init(&how, sizeof how);
  how.algorithm = s->r->algorithm;
  if (s->r->order && !strcmp(s->r->order, "any")) how.order = ADJ_ORDER_ANY;
  float ms = 0;
  cudaEventRecord(s->begin, NULL);
  adj_status status = adj_cuda_select_k(s->ctx, &s->matrix, (uint32_t)s->r->k, &how, NULL, s->columns, s->found);
  cudaEventRecord(s->end, NULL);
  if (!status && (cudaEventSynchronize(s->end) || cudaEventElapsedTime(&ms, s->begin, s->end))) status = ADJ_E_DEVICE;
  *seconds = ms * 1e-3;
  return status;
}

static uint64_t digest_rows(const selection *s) {
  uint64_t k = s->r->k, rows = s->r->queries < DIGEST_ROWS ? s->r->queries : DIGEST_ROWS, sum = 0;
  uint32_t *row = malloc(k * sizeof *row);
  for (uint64_t i = 0; row && i < rows; i++) {
    uint64_t at = i * s->r->queries / rows;
    cudaMemcpy(row, s->columns + at * k, k * sizeof *row, cudaMemcpyDeviceToHost);
    for (uint64_t j = 0; j < k; j++) {
      uint64_t x = (at << 32 | row[j]) * UINT64_C(0x9e3779b97f4a7c15);
      sum += (x ^ x >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    }
  }
  free(row);
  return sum;
}

void papers_select(adj_ctx *ctx, const papers_request *r) {
  selection s = {.r = r, .ctx = ctx};
  cudaError_t error = make_matrix(&s);
  adj_status status = error ? ADJ_E_DEVICE : ADJ_OK;
  double warm, begin = bench_now();
  if (!status) status = select_once(&s, &warm);
  for (uint32_t i = 0; i < r->repeats && i < PAPERS_REPEATS && !status; i++) {
    if (i && r->limit > 0 && bench_now() - begin > r->limit) break;
    status = select_once(&s, &s.seconds[i]);
    s.repeats = i + 1;
  }
  if (status) {
    papers_refuse(status, error ? cudaGetErrorString(error) : adj_last_error());
  } else {
    papers_sort_times(s.seconds, s.repeats);
    printf(
        "{\"status\": \"ok\", \"seconds\": %.6f, \"seconds_min\": %.6f, \"repeats\": %u, \"queries\": %llu, "
        "\"points\": %llu, \"k\": %llu, \"digest\": \"%016llx\", \"same\": true, \"backend\": \"gpu\"}\n",
        s.seconds[(s.repeats - 1) / 2], s.seconds[0], s.repeats, (unsigned long long)r->queries,
        (unsigned long long)r->count, (unsigned long long)r->k, (unsigned long long)digest_rows(&s));
  }
  drop_matrix(&s);
}
