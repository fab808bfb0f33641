/* SPDX-License-Identifier: MIT
 *
 * Creates, reads and destroys a finished join in memory.
 */
#include "result/result.h"

#include <stdlib.h>

adj_result *adji_result_create(adj_ctx *ctx, uint64_t rows, adj_type type) {
  adj_result *result = calloc(1, sizeof *result);
  if (!result) {
    adji_fail(ADJ_E_MEMORY, "no memory for a result");
    return NULL;
  }
  result->ctx = ctx;
  result->rows = rows;
  result->type = type;
  pthread_mutex_init(&result->lock, NULL);
  return result;
}

uint64_t adj_result_rows(const adj_result *result) {
  return result->rows;
}
uint64_t adj_result_pairs(const adj_result *result) {
  return result->pairs;
}

static void fill_offsets(adj_result *result) {
  pthread_mutex_lock(&result->lock);
  if (!atomic_load_explicit(&result->filled, memory_order_relaxed))
    for (uint64_t i = 0; i <= result->rows; i++)
      result->offsets[i] = i * result->each;
  atomic_store_explicit(&result->filled, true, memory_order_release);
  pthread_mutex_unlock(&result->lock);
}

const uint64_t *adj_result_offsets(const adj_result *result) {
  bool written = !result->each || atomic_load_explicit(&result->filled, memory_order_acquire);
  if (!written) fill_offsets((adj_result *)result); /* no other function reads the offsets of a kNN result */
  return result->offsets;
}

const uint32_t *adj_result_ids(const adj_result *result) {
  return result->ids;
}
const void *adj_result_distances(const adj_result *result) {
  return result->distances;
}
adj_type adj_result_type(const adj_result *result) {
  return result->type;
}

void adj_result_destroy(adj_result *result) {
  if (!result) return;
  adji_memory *memory = &result->ctx->memory;
  adji_free(memory, result->offsets);
  adji_free(memory, result->ids);
  adji_free(memory, result->distances);
  adj_ctx_destroy(result->own_ctx);
  pthread_mutex_destroy(&result->lock);
  free(result);
}
