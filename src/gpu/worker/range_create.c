/* SPDX-License-Identifier: MIT
 *
 * Makes the worker of a range join that a device does alone: with all points on the device, or in chunks.
 */
#include <stdlib.h>

#include "gpu/worker/chunks.h"
#include "gpu/worker/devices.h"
#include "gpu/worker/range.h"

/* ---- In chunks --------------------------------------------------------------------------------------- */

static adj_status open_chunk(void *state, uint32_t device, const adji_join *join, adji_worker *out) {
  adji_gpu_worker_options options = *(const adji_gpu_worker_options *)state;
  options.range.join = join;
  options.range.lender = NULL; /* only the whole set is lent */
  if (!join->self_join && adji_access_mirrors(options.range.points.access))
    options.range.points.access = ADJI_ACCESS_FULL; /* two chunks have no rows in common */
  return adji_gpu_range_worker_create(&options, device, out);
}

static adj_status create_chunks(const adji_gpu_worker_options *options, uint64_t chunk, adji_worker *out) {
  adji_gpu_worker_options *copy = malloc(sizeof *copy);
  if (!copy) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  *copy = *options;
  adji_chunk_source source = {copy,
                              open_chunk,
                              adji_gpu_range_worker_estimate,
                              adji_gpu_range_worker_cells,
                              free,
                              adji_gpu_worker_count(options->range.join->ctx)};
  adj_status status = adji_chunks_create(options->range.join, &source, chunk, out);
  if (status) {
    free(copy);
    return status;
  }
  status = adji_chunks_use_regions(out);
  if (status) out->destroy(out->state);
  return status;
}

static uint64_t larger(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* The least bytes that this many points take (see the header of index.cu). This is the largest of three moments: when
 * right points are sorted or gathered, when left points are, and when both are indexed, with counts and offsets.
 * Directory, batches, copies for products and images of points come on top. */
static uint64_t least_bytes(const adji_gpu_worker_options *options, uint64_t left, uint64_t right) {
  const adji_join *join = options->range.join;
  uint64_t dim = join->left->dim, size = adji_type_size(join->left->type), point = dim * size;
  uint64_t placed = (ADJI_GPU_WIDTH(dim) ? ADJI_GPU_WIDTH(dim) : dim) * size; /* in the index */
  uint64_t number = 4 + (options->range.grid->key_bits > 32 ? 8 : 4);         /* the cell number and the id */
  uint64_t building = point + number + larger(number, placed), built = placed + number;
  if (join->self_join) return larger(right * building, right * built + left * 12);
  return larger(larger(right * building, right * built + left * building), (right + left) * built + left * 12);
}

static uint64_t available_on(adji_gpu *gpu) {
  adji_gpu_lock(gpu);
  uint64_t bytes = adji_gpu_available(gpu);
  adji_gpu_unlock(gpu);
  return bytes;
}

/* Chooses how many points may be on the device at a time. In chunks, half of its memory must remain for what comes on
 * top. 0: all points. */
static adj_status choose_chunk(const adji_gpu_worker_options *options, uint64_t *chunk) {
  const adji_join *join = options->range.join;
  uint64_t left = join->left->count, right = join->right->count, most = left > right ? left : right;
  *chunk = options->chunk < most ? options->chunk : 0;
  if (options->chunk) return ADJ_OK;
  adji_gpu *gpu;
  adj_status status = adji_gpu_of(join->ctx, &gpu);
  if (status) return status;
  uint64_t room = available_on(gpu);
  if (least_bytes(options, left, right) <= room) return ADJ_OK;
  for (uint64_t many = 2; !*chunk || most / many > 1024; many++) {
    *chunk = most / many + 1;
    uint64_t some_left = left < *chunk ? left : *chunk, some_right = right < *chunk ? right : *chunk;
    if (2 * least_bytes(options, some_left, some_right) <= room) break;
  }
  return ADJ_OK;
}

/* Whether the points leave hardly any room for batches of the result. */
static bool is_cramped(adj_ctx *ctx, uint64_t bytes) {
  adji_gpu *gpu;
  return !adji_gpu_of(ctx, &gpu) && available_on(gpu) < bytes / 8;
}

static adj_status create_worker(const adji_gpu_worker_options *options, adji_worker *out) {
  const adji_join *join = options->range.join;
  uint64_t left = join->left->count, right = join->right->count, chunk = 0, most = left > right ? left : right;
  adj_status status = ADJ_OK;
  bool tree = options->range.tree;                          /* trees are not used in chunks */
  if (tree || (options->range.lender && !options->chunk)) { /* the right set may be on the device already */
    status = adji_gpu_range_worker_create(options, 0, out);
    if (status != ADJ_E_DEVICE_MEMORY || tree) return status;
  }
  status = choose_chunk(options, &chunk);
  if (status) return status;
  if (chunk) return create_chunks(options, chunk, out);
  status = adji_gpu_range_worker_create(options, 0, out);
  bool cramped = !status && is_cramped(join->ctx, least_bytes(options, left, right));
  if ((status != ADJ_E_DEVICE_MEMORY && !cramped) || options->chunk || most < 2) return status;
  if (cramped) out->destroy(out->state);
  return create_chunks(options, most / 2 + 1, out);
}

bool adji_gpu_range_fits(const adji_gpu_worker_options *options) {
  uint64_t chunk = 0;
  return !choose_chunk(options, &chunk) && !chunk;
}

bool adji_gpu_range_by_regions(const adji_gpu_worker_options *options) {
  return adji_chunks_may_use_regions(options->range.join);
}

adj_status adji_gpu_range_create(const adji_gpu_worker_options *options, adji_engine *out) {
  adji_worker worker;
  adj_status status = create_worker(options, &worker);
  if (!status) adji_engine_init(out, options->range.join, &worker);
  return status;
}

adj_status adji_gpu_range_estimate(adji_engine *engine, uint64_t sample, double *pairs, double *candidates) {
  adji_worker *worker = &engine->workers[0];
  if (adji_is_chunks(worker)) return adji_chunks_estimate(worker, sample, pairs, candidates);
  return adji_gpu_range_worker_estimate(worker, sample, pairs, candidates);
}

uint64_t adji_gpu_range_engine_cells(const adji_engine *engine) {
  const adji_worker *worker = &engine->workers[0];
  return adji_is_chunks(worker) ? adji_chunks_cells(worker) : adji_gpu_range_worker_cells(worker);
}

uint64_t adji_gpu_range_engine_chunk(const adji_engine *engine) {
  const adji_worker *worker = &engine->workers[0];
  return adji_is_chunks(worker) ? adji_chunks_size(worker) : 0;
}

bool adji_gpu_range_engine_has_regions(const adji_engine *engine) {
  const adji_worker *worker = &engine->workers[0];
  return adji_is_chunks(worker) && adji_chunks_has_regions(worker);
}
