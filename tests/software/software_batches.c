/* SPDX-License-Identifier: MIT
 *
 * Batches of queries on the software device (gpu/papers/point_batches.h).
 *
 * If each pair of cells is visited once, a query finds itself and the points after it in the device's order, and the
 * pairs go to both rows.
 */
#include <stdlib.h>
#include <string.h>

#include "gpu/papers/point_batches.h"
#include "software/software.h"

typedef struct entry {
  uint32_t row, id;
  double sum;
} entry;

typedef struct batch_slot {
  adji_software_block rows, ids, sums;
  uint64_t entries, candidates; /* of the last batch started */
  bool busy;                    /* its results have not been asked for yet */
} batch_slot;

struct adji_gpu_batches {
  adji_gpu *gpu;
  adji_software_range *range;
  uint64_t room, first_row, end_row, queries;
  adji_software_block order; /* rows of the queries */
  entry *found;
  uint32_t slot_count;
  batch_slot slots[ADJI_MOST_STREAMS];
};

static bool mirrors(const adji_gpu_batches *b) {
  return adji_access_mirrors(b->range->points.access);
}

static bool is_wanted(const adji_gpu_batches *b, uint64_t row) {
  return row >= b->first_row && row < b->end_row;
}

/* ---- Room --------------------------------------------------------------------------------------------- */

static adj_status make_slot(adji_gpu_batches *b, batch_slot *s) {
  const adji_software_sets *sets = &b->range->sets;
  uint64_t size = adji_row_needs_sums(&sets->join.style) ? adji_type_size(sets->left.type) : 0;
  adj_status status = adji_software_get(b->gpu, b->room * 4, "batch of the result", &s->rows);
  if (!status) status = adji_software_get(b->gpu, b->room * 4, "batch of the result", &s->ids);
  if (!status && size) status = adji_software_get(b->gpu, b->room * size, "batch of the result", &s->sums);
  return status;
}

void adji_gpu_batches_close(adji_gpu_batches *b) {
  if (!b) return;
  adji_software_copy_all(b->gpu);
  for (uint32_t i = 0; i < b->slot_count; i++) {
    adji_software_free(b->gpu, &b->slots[i].rows);
    adji_software_free(b->gpu, &b->slots[i].ids);
    adji_software_free(b->gpu, &b->slots[i].sums);
  }
  adji_software_free(b->gpu, &b->order);
  free(b->found);
  free(b);
}

static adj_status select_queries(adji_gpu_batches *b) {
  const uint32_t *order = b->range->order.at;
  adj_status status = adji_software_get(b->gpu, b->range->rows * 4, "queries of a batch", &b->order);
  if (status) return status;
  for (uint64_t i = 0; i < b->range->rows; i++)
    if (mirrors(b) || is_wanted(b, order[i])) ((uint32_t *)b->order.at)[b->queries++] = order[i];
  return ADJ_OK;
}

adj_status adji_gpu_batches_open(adji_gpu_range *range, const adji_batches_request *request, uint64_t *queries,
                                 adji_gpu_batches **out) {
  adji_gpu_batches *b = calloc(1, sizeof *b);
  if (!b) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  b->range = (adji_software_range *)range;
  b->gpu = b->range->gpu;
  b->room = request->pairs;
  b->first_row = request->first_row;
  b->end_row = request->end_row;
  b->found = malloc((b->room + 1) * sizeof *b->found);
  adj_status status = b->found ? select_queries(b) : adji_fail(ADJ_E_MEMORY, "no memory for a batch");
  for (uint32_t i = 0; i < request->streams && !status; i++) {
    b->slot_count = i + 1;
    status = make_slot(b, &b->slots[i]);
  }
  *queries = b->queries;
  if (status)
    adji_gpu_batches_close(b);
  else
    *out = b;
  return status;
}

/* ---- A batch ------------------------------------------------------------------------------------------ */

static void put(adji_gpu_batches *b, batch_slot *s, uint64_t row, uint64_t id, double sum) {
  const adji_row_style *style = &b->range->sets.join.style;
  if (!is_wanted(b, row) || (style->drop_self && id == row) || (style->one_way && id <= row)) return;
  if (s->entries < b->room) b->found[s->entries] = (entry){(uint32_t)row, (uint32_t)id, sum};
  s->entries++;
}

static void ask(adji_gpu_batches *b, batch_slot *s, uint64_t query) {
  const adji_software_sets *sets = &b->range->sets;
  const uint32_t *order = b->order.at;
  uint64_t row = order[query], first = mirrors(b) ? query : 0, end = mirrors(b) ? b->queries : sets->right.count;
  for (uint64_t i = first; i < end; i++) {
    uint64_t id = mirrors(b) ? order[i] : i;
    double sum = adji_software_sum(sets, row, id);
    s->candidates++;
    if (!(sum <= adji_join_limit(&sets->join, row))) continue;
    put(b, s, row, id, sum);
    if (mirrors(b) && i > query) put(b, s, id, row, sum);
  }
}

static int by_row(const void *a, const void *b) {
  const entry *x = a, *y = b;
  return x->row != y->row ? (x->row > y->row) - (x->row < y->row) : (x->id < y->id) - (x->id > y->id);
}

static void sort_entries(adji_gpu_batches *b, batch_slot *s) {
  uint32_t *rows = s->rows.at, *ids = s->ids.at;
  qsort(b->found, s->entries, sizeof *b->found, by_row);
  for (uint64_t i = 0; i < s->entries; i++) {
    rows[i] = b->found[i].row;
    ids[i] = b->found[i].id;
    if (s->sums.at) adji_software_put_value(b->range->sets.left.type, s->sums.at, i, b->found[i].sum);
  }
}

adj_status adji_gpu_batches_start(adji_gpu_batches *b, uint32_t stream, const adji_batch_queries *queries) {
  batch_slot *s = &b->slots[stream];
  uint64_t begin = adji_now_ns();
  adj_status status = adji_software_launch(b->gpu, "batches_start");
  if (status) return status;
  if (stream >= b->slot_count || s->busy || queries->first + (queries->count - 1) * queries->step >= b->queries)
    return adji_fail(ADJ_E_INTERNAL, "software device: no such batch, or its stream is busy");
  s->entries = s->candidates = 0;
  s->busy = true;
  for (uint64_t i = 0; i < queries->count; i++)
    ask(b, s, queries->first + i * queries->step);
  if (s->entries <= b->room) sort_entries(b, s);
  adji_software_worked(&b->range->work, begin);
  return ADJ_OK;
}

/* One lane in four waits for the others. */
adj_status adji_gpu_batches_found(adji_gpu_batches *b, uint32_t stream, adji_batch_found *out) {
  batch_slot *s = &b->slots[stream];
  adj_status status = adji_software_turn(b->gpu, "batches_found");
  if (status) return status;
  if (!s->busy) return adji_fail(ADJ_E_INTERNAL, "software device: no batch was started on this stream");
  s->busy = false;
  *out = (adji_batch_found){s->entries, s->candidates, s->candidates / 3 * 4};
  return ADJ_OK;
}

adj_status adji_gpu_batches_fetch(adji_gpu_batches *b, uint32_t stream, adji_batch_part part, uint64_t first,
                                  uint64_t entries, uint32_t buffer, uint64_t to) {
  const batch_slot *s = &b->slots[stream];
  const adji_software_block *parts[] = {&s->rows, &s->ids, &s->sums};
  uint64_t size = part == ADJI_BATCH_SUMS ? adji_type_size(b->range->sets.left.type) : 4;
  return adji_software_fetch(b->gpu, buffer, to, (const char *)parts[part]->at + first * size, entries * size);
}
