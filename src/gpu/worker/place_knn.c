/* SPDX-License-Identifier: MIT
 *
 * Lists of a kNN join: rows of k neighbours into a window.
 */
#include <math.h>
#include <stdatomic.h>

#include "gpu/device/staging.h"
#include "gpu/worker/place.h"

static uint64_t distance_bytes(const adji_lists *l) {
  return l->pass->window->distances ? adji_type_size(l->join->left->type) : 0;
}

/* Places rows, and returns how many neighbours they have. */
static uint64_t place_rows(const adji_lists *l, const char *from, uint64_t rows) {
  const adji_window *to = l->pass->window;
  uint64_t size = distance_bytes(l), k = to->k, pairs = 0;
  adji_list_piece piece = adji_list_piece_of(rows, to->k, size);
  const uint32_t *numbers = (const uint32_t *)(const void *)from;
  const char *ids = from + piece.ids, *distances = from + piece.distances;
  void (*stream)(void *, const void *, uint64_t) = l->join->style.kernels->stream_row;
  bool bounded = l->join->limit < (double)INFINITY;
  for (uint64_t i = 0; i < rows; i++) {
    uint64_t at = (numbers[i] - to->first_row) * k;
    if (i + ADJI_ROWS_AHEAD < rows) {
      uint64_t ahead = (numbers[i + ADJI_ROWS_AHEAD] - to->first_row) * k;
      adji_prefetch_row(to->ids + ahead, k * sizeof *to->ids);
      if (size) adji_prefetch_row((const char *)to->distances + ahead * size, k * size);
    }
    stream(to->ids + at, ids + i * k * sizeof *to->ids, k * sizeof *to->ids);
    if (size) stream((char *)to->distances + at * size, distances + i * k * size, k * size);
    if (bounded) pairs += adji_padded_row_length((const uint32_t *)(const void *)ids + i * k, to->k);
  }
  adji_stream_fence();
  return bounded ? pairs : rows * adji_join_reach(l->join);
}

static adj_status place(adji_list *list, uint64_t first, uint64_t rows, uint32_t lane) {
  adji_lists *l = list->lists;
  uint32_t buffer = adji_staging_of(l->join->ctx, lane);
  uint64_t begin = adji_now_ns(), size = distance_bytes(l);
  adj_status status = adji_gpu_knn_fetch(l->knn, list->slot, first, rows, size > 0, buffer);
  if (!status) status = adji_staging_wait(l->gpu, buffer);
  if (status) return status;
  uint64_t arrived = adji_now_ns();
  atomic_fetch_add(&list->found, place_rows(l, adji_staging_at(l->gpu, buffer), rows));
  adji_trace(l->join->ctx, "place", lane, begin, rows);
  atomic_fetch_add(&l->stats.wait_ns, arrived - begin);
  atomic_fetch_add(&l->stats.place_ns, adji_now_ns() - arrived);
  atomic_fetch_add(&l->stats.bytes, adji_list_piece_of(rows, l->pass->window->k, size).bytes);
  return ADJ_OK;
}

static uint64_t rows_a_buffer(const adji_join *join, uint64_t distance_size) {
  return (ADJI_STAGE_BYTES - 16) / (4 + (uint64_t)join->k * (4 + distance_size));
}

bool adji_knn_row_fits(const adji_join *join) {
  return rows_a_buffer(join, adji_type_size(join->left->type)) > 0;
}

static uint64_t rows_at_once(const adji_list *list) {
  return rows_a_buffer(list->lists->join, distance_bytes(list->lists));
}

static adj_status begin(adji_lists *l, const adji_list_ranges *ranges, uint32_t slot, uint64_t *rows) {
  return adji_gpu_knn_list(l->knn, ranges->ranges, ranges->count, slot, l->join->ctx->threads, rows);
}

static adj_status wait(adji_lists *l, uint32_t slot, adji_tally *found) {
  return adji_gpu_knn_listed(l->knn, slot, &found->candidates);
}

/* Each list ends with its slowest queries, which leave most of the device idle, so lists are few and large. If possible
 * they end with a node of the cores' tree, so that the queries of a warp are of one node. */
const adji_placer adji_knn_placer = {.lists_a_take = 2,
                                     .least_queries = 1 << 20,
                                     .multiple = 1024,
                                     .begin = begin,
                                     .wait = wait,
                                     .rows_at_once = rows_at_once,
                                     .place = place};
