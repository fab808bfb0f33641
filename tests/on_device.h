/* SPDX-License-Identifier: MIT
 *
 * For tests with points on a device: checks that exit on failure, and copies of a set to the device in every layout.
 */
#ifndef ADJOIN_ON_DEVICE_H
#define ADJOIN_ON_DEVICE_H

#include <adjoin_cuda.h>
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reference.h"

enum { NO_GPU = 77 };

static inline void need(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "%s: %s\n", what, adj_last_error());
  exit(1);
}

static inline void need_cuda(cudaError_t error) {
  if (error == cudaSuccess) return;
  fprintf(stderr, "%s\n", cudaGetErrorString(error));
  exit(1);
}

/* Copies memory of the device to the host. The copy has room for at least one byte. */
static inline void *from_device(const void *device, size_t bytes) {
  void *host = malloc(bytes + 1);
  need(host, "memory");
  if (bytes) need_cuda(cudaMemcpy(host, device, bytes, cudaMemcpyDeviceToHost));
  return host;
}

typedef enum layout { PACKED, GAPS, COLUMNS, LAYOUTS } layout;
static const char *const LAYOUT_NAMES[] = {"packed", "with gaps", "by columns"};

/* Copies a set to the device. The caller frees *memory. */
static inline adj_cuda_points to_device(const point_set *set, layout how, void **memory) {
  size_t size = type_size(set->type);
  uint64_t row = how == COLUMNS ? 1 : set->dim + (how == GAPS ? 3u : 0u), column = how == COLUMNS ? set->count : 1;
  uint64_t values = how == COLUMNS ? set->count * set->dim : set->count * row;
  if (!set->count) column = 1; /* a stride of 0 would stand for the default */
  char *laid = calloc(values + 1, size);
  need(laid, "memory");
  for (uint64_t i = 0; i < set->count; i++)
    for (uint32_t j = 0; j < set->dim; j++)
      memcpy(laid + (i * row + j * column) * size, (const char *)row_of(set, i) + j * size, size);
  need_cuda(cudaMalloc(memory, (values + 1) * size));
  need_cuda(cudaMemcpy(*memory, laid, values * size, cudaMemcpyHostToDevice));
  free(laid);
  adj_cuda_points out;
  adj_cuda_points_init(&out, sizeof out);
  out.type = set->type;
  out.dim = set->dim;
  out.count = set->count;
  out.data = *memory;
  out.row_stride = row * size;
  out.column_stride = column * size;
  return out;
}

/* Makes a dataset of the points on the host. */
static inline adj_dataset *to_set(adj_ctx *ctx, const point_set *given) {
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = given->type;
  points.dim = given->dim;
  points.count = given->count;
  points.data = given->data;
  adj_dataset *set = NULL;
  need(!adj_dataset_create(ctx, &points, &set), "a set");
  return set;
}

#endif
