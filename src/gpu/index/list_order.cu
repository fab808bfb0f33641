/* SPDX-License-Identifier: MIT
 *
 * Queries given in a host's order, on a device.
 */
#include "gpu/index/list_order.cuh"

#include <utility>

extern "C" {
#include "gpu/device/staging.h"
}

enum { THREADS = 256 };

/* Finds the position of each row in the device's order. One thread per position. */
static __global__ void find_positions(const uint32_t *ids, uint64_t count, uint32_t *positions) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) positions[ids[i]] = static_cast<uint32_t>(i);
}

/* Replaces rows by their positions. One thread per row. */
static __global__ void replace_rows(const uint32_t *positions, uint64_t count, uint32_t *rows) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) rows[i] = positions[rows[i]];
}

static adj_status find_order(adji_gpu *gpu, const uint32_t *ids, const uint32_t *rows, uint64_t count,
                             adji_block *order, adji_block *positions, adji_device_stats *work) {
  adj_status status = adji_block_get(gpu, gpu->compute, count * 4, "queries", order);
  if (!status) status = adji_block_get(gpu, gpu->compute, count * 4, "queries", positions);
  /* Earlier work on the compute stream may still use the block, so copies must wait for that work. */
  if (!status) status = adji_gpu_wait(gpu);
  if (!status) status = adji_upload_bytes(gpu, rows, count * 4, order->at, work);
  if (status) return status;
  uint32_t blocks = adji_blocks_for(count, THREADS);
  find_positions<<<blocks, THREADS, 0, gpu->compute>>>(ids, count, adji_at<uint32_t>(*positions));
  ADJI_LAUNCHED(gpu, "find_positions");
  replace_rows<<<blocks, THREADS, 0, gpu->compute>>>(adji_at<uint32_t>(*positions), count, adji_at<uint32_t>(*order));
  ADJI_LAUNCHED(gpu, "replace_rows");
  return ADJ_OK;
}

adj_status adji_order_make(adji_gpu *gpu, const uint32_t *ids, const uint32_t *rows, uint64_t count, adji_block *order,
                           adji_device_stats *work) {
  adji_block positions = {};
  adj_status status = find_order(gpu, ids, rows, count, order, &positions, work);
  adji_block_free(gpu, gpu->compute, &positions);
  if (status) adji_block_free(gpu, gpu->compute, order);
  return status;
}

adj_status adji_order_make_ranges(adji_gpu *gpu, adji_block *out) {
  return adji_block_get(gpu, gpu->compute, ADJI_MOST_RANGES * sizeof(adji_list_range), "list of queries", out);
}

adj_status adji_order_send(adji_gpu *gpu, const adji_batch *ranges, uint64_t count, const adji_block *to,
                           uint32_t buffer, uint64_t *queries) {
  static_assert(ADJI_MOST_RANGES * sizeof(adji_list_range) <= ADJI_STAGE_BYTES, "ranges fit a buffer");
  adji_list_range *staged = static_cast<adji_list_range *>(adji_staging_at(gpu, buffer));
  *queries = 0;
  for (uint64_t i = 0; i < count; i++) {
    staged[i] = adji_list_range{ranges[i].begin, ranges[i].end - ranges[i].begin, *queries};
    *queries += staged[i].count;
  }
  adj_status status = adji_staging_send(gpu, buffer, to->at, count * sizeof *staged);
  return status ? status : adji_staging_wait(gpu, buffer);
}

/* order: NULL if the host's order is that of the device. One block per range. */
static __global__ void gather_queries(const adji_list_range *ranges, const uint32_t *order, uint32_t *queries) {
  adji_list_range range = ranges[blockIdx.x];
  for (uint32_t i = threadIdx.x; i < range.count; i += THREADS)
    queries[range.to + i] = order ? order[range.begin + i] : range.begin + i;
}

static adj_status gather(adji_gpu *gpu, const adji_order_list *list, uint32_t *queries) {
  if (!list->range_count) return ADJ_OK;
  gather_queries<<<static_cast<uint32_t>(list->range_count), THREADS, 0, gpu->compute>>>(
      adji_at<adji_list_range>(*list->ranges), adji_at<uint32_t>(*list->order), queries);
  ADJI_LAUNCHED(gpu, "gather_queries");
  return ADJ_OK;
}

static uint32_t bits_of(uint64_t count) {
  uint32_t bits = 1;
  while (bits < 32 && count >> bits)
    bits++;
  return bits;
}

/* Finds the row of each position. One thread per position. */
static __global__ void find_rows(const uint32_t *positions, uint64_t count, const uint32_t *ids, uint32_t *rows) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x;
  if (i < count) rows[i] = ids[positions[i]];
}

adj_status adji_order_queries(adji_gpu *gpu, const adji_order_list *list, uint64_t *count, uint32_t **out,
                              uint32_t *rows) {
  adji_pairs<uint32_t> queries = {adji_at<uint32_t>(list->queries[0]), adji_at<uint32_t>(list->queries[1]), NULL, NULL};
  adj_status status = gather(gpu, list, queries.keys);
  if (!status && list->wanted.end - list->wanted.first < list->rows) {
    status = adji_list_wanted(gpu, list->temporary, queries.keys, *count, list->wanted, queries.other_keys);
    if (!status) status = adji_answers_fetch(gpu, gpu->compute);
    *count = gpu->answers[ADJI_ANSWER_ITEMS];
    std::swap(queries.keys, queries.other_keys);
  }
  if (!status && *count && !list->as_given)
    status = adji_sort_pairs(gpu, list->temporary, &queries, *count, bits_of(list->rows));
  *out = queries.keys;
  if (status || !*count) return status;
  find_rows<<<adji_blocks_for(*count, THREADS), THREADS, 0, gpu->compute>>>(*out, *count, list->wanted.ids, rows);
  ADJI_LAUNCHED(gpu, "find_rows");
  return ADJ_OK;
}
