/* SPDX-License-Identifier: MIT
 *
 * Range joins on the software device, for lists of queries.
 */
#include <stdlib.h>
#include <string.h>

#include "software/software.h"

enum { LEAST_QUERIES = 16 };

typedef struct list_slot {
  adji_software_block rows, counts, offsets, ids, sums;
  uint64_t count, pairs;
  adji_tally found; /* by all lists of the pass up to this one */
} list_slot;

struct adji_gpu_lists {
  adji_gpu *gpu;
  adji_software_range *range;
  adji_software_block order; /* rows in the host's order, or empty */
  bool fills, single;
  uint64_t first_row, end_row;
  uint64_t queries, pairs; /* room of a slot */
  adji_tally found;
  uint64_t broken;
  list_slot slots[ADJI_LISTS];
};

adj_status adji_gpu_lists_open(adji_gpu_range *range, adji_gpu_lists **out) {
  adji_gpu_lists *l = calloc(1, sizeof *l);
  if (!l) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  l->range = (adji_software_range *)range;
  l->gpu = l->range->gpu;
  *out = l;
  return ADJ_OK;
}

void adji_gpu_lists_close(adji_gpu_lists *lists) {
  if (!lists) return;
  adji_gpu_lists_end(lists);
  adji_software_free(lists->gpu, &lists->order);
  free(lists);
}

adj_status adji_gpu_lists_follow(adji_gpu_lists *lists, const uint32_t *rows) {
  uint64_t bytes = lists->range->rows * 4;
  adji_software_free(lists->gpu, &lists->order);
  if (!rows || !bytes) return ADJ_OK;
  adj_status status = adji_software_get(lists->gpu, bytes, "queries", &lists->order);
  if (!status) status = adji_upload_bytes(lists->gpu, rows, bytes, lists->order.at, &lists->range->work);
  if (status) adji_software_free(lists->gpu, &lists->order);
  return status;
}

adj_status adji_gpu_lists_order(adji_gpu_lists *lists, uint32_t *rows) {
  const adji_software_range *r = lists->range;
  if (!r->rows) return ADJ_OK;
  return adji_download(lists->gpu, r->order.at, r->rows * sizeof *rows, rows, &lists->range->work);
}

/* ---- Room --------------------------------------------------------------------------------------------- */

static adj_status make_slot(adji_gpu_lists *l, list_slot *slot) {
  adji_gpu *gpu = l->gpu;
  const adji_software_sets *sets = &l->range->sets;
  uint64_t size = adji_row_needs_sums(&sets->join.style) ? adji_type_size(sets->left.type) : 0;
  adj_status status = adji_software_get(gpu, l->queries * 4, "list of queries", &slot->rows);
  if (!status && !l->fills) status = adji_software_get(gpu, l->queries * 4, "list of queries", &slot->counts);
  if (status || !l->fills) return status;
  status = adji_software_get(gpu, (l->queries + 1) * 8, "list of queries", &slot->offsets);
  if (!status) status = adji_software_get(gpu, adji_mul(l->pairs, 4), "batch of the result", &slot->ids);
  if (!status && size) status = adji_software_get(gpu, adji_mul(l->pairs, size), "batch of the result", &slot->sums);
  return status;
}

static adj_status make_slots(adji_gpu_lists *l) {
  adj_status status = ADJ_OK;
  for (int i = 0; i < ADJI_LISTS && !status; i++)
    status = make_slot(l, &l->slots[i]);
  if (status) adji_gpu_lists_end(l);
  return status;
}

static uint64_t half_of(uint64_t what, uint64_t least) {
  return what / 2 > least ? what / 2 : least < what ? least : what;
}

/* Makes slots as large as memory allows, with room for at least the pairs of the longest row. */
static adj_status find_room(adji_gpu_lists *l, uint64_t longest) {
  adj_status status = make_slots(l);
  while (status == ADJ_E_DEVICE_MEMORY && (l->queries > LEAST_QUERIES || l->pairs > longest)) {
    l->queries = half_of(l->queries, LEAST_QUERIES);
    l->pairs = half_of(l->pairs, longest);
    status = make_slots(l);
  }
  return status;
}

adj_status adji_gpu_lists_begin(adji_gpu_lists *lists, adji_lists_request *request) {
  adji_software_range *r = lists->range;
  const adji_window *window = request->window;
  lists->fills = window;
  lists->single = request->single;
  lists->first_row = window ? window->first_row : 0;
  lists->end_row = window ? window->end_row : r->rows;
  lists->queries = request->queries < r->rows ? request->queries : r->rows;
  if (!lists->queries) lists->queries = 1;
  lists->pairs = request->pairs > request->longest ? request->pairs : request->longest;
  lists->found = (adji_tally){0};
  lists->broken = 0;
  adj_status status = find_room(lists, request->longest);
  request->queries = lists->queries;
  request->pairs = lists->pairs;
  if (!status && window) { /* the host gives the lengths, as it has counted some rows itself */
    uint64_t bytes = (window->end_row - window->first_row + 1) * sizeof *window->offsets;
    uint64_t *to = (uint64_t *)r->offsets.at + window->first_row;
    status = adji_upload_bytes(lists->gpu, window->offsets + window->first_row, bytes, to, &r->work);
  }
  if (!status) status = adji_gpu_wait(lists->gpu);
  if (status) adji_gpu_lists_end(lists);
  return status;
}

void adji_gpu_lists_end(adji_gpu_lists *lists) {
  adji_software_copy_all(lists->gpu);
  for (int i = 0; i < ADJI_LISTS; i++) {
    list_slot *slot = &lists->slots[i];
    adji_software_block *blocks[] = {&slot->rows, &slot->counts, &slot->offsets, &slot->ids, &slot->sums};
    for (int b = 0; b < 5; b++)
      adji_software_free(lists->gpu, blocks[b]);
    *slot = (list_slot){0};
  }
}

/* ---- A list ------------------------------------------------------------------------------------------- */

/* Lists the rows of the wanted queries. Ranges are positions in the host's order if there is one, otherwise in the
 * device's own order. */
static adj_status take_queries(const adji_gpu_lists *l, const adji_list_ranges *list, list_slot *slot) {
  const uint32_t *order = l->order.at ? l->order.at : l->range->order.at;
  uint32_t *rows = slot->rows.at;
  slot->count = 0;
  for (uint64_t i = list->count; i--;)
    for (uint32_t q = list->ranges[i].end; q-- > list->ranges[i].begin;) {
      if (order[q] < l->first_row || order[q] >= l->end_row) continue;
      if (slot->count == l->queries)
        return adji_fail(ADJ_E_INTERNAL, "software device: a list has more than %llu queries",
                         (unsigned long long)l->queries);
      rows[slot->count++] = order[q];
    }
  return ADJ_OK;
}

static void count_list(adji_gpu_lists *l, const list_slot *slot, adji_software_entry *row) {
  const uint32_t *rows = slot->rows.at;
  uint32_t *counts = slot->counts.at;
  for (uint64_t i = 0; i < slot->count; i++) {
    counts[i] = (uint32_t)adji_software_find(&l->range->sets, rows[i], row);
    l->found.pairs += counts[i];
  }
}

static adj_status add_up(const adji_gpu_lists *l, const list_slot *slot) {
  const uint64_t *all = l->range->offsets.at;
  const uint32_t *rows = slot->rows.at;
  uint64_t *offsets = slot->offsets.at;
  offsets[0] = 0;
  for (uint64_t i = 0; i < slot->count; i++)
    offsets[i + 1] = offsets[i] + all[rows[i] + (uint64_t)1] - all[rows[i]];
  if (offsets[slot->count] == slot->pairs && slot->pairs <= l->pairs) return ADJ_OK;
  return adji_fail(ADJ_E_INTERNAL, "software device: a list of %llu entries is said to have %llu, with room for %llu",
                   (unsigned long long)offsets[slot->count], (unsigned long long)slot->pairs,
                   (unsigned long long)l->pairs);
}

static adj_status fill_list(adji_gpu_lists *l, const list_slot *slot, adji_software_entry *row) {
  const adji_software_sets *sets = &l->range->sets;
  const uint32_t *rows = slot->rows.at;
  const uint64_t *offsets = slot->offsets.at;
  adj_status status = add_up(l, slot);
  for (uint64_t i = 0; i < slot->count && !status; i++) {
    uint64_t count = adji_software_find(sets, rows[i], row);
    bool fits = count == offsets[i + 1] - offsets[i];
    l->broken += !fits;
    if (!fits) continue;
    adji_software_sort(row, count, sets->join.style.order);
    adji_software_put(sets->left.type, row, count, offsets[i], slot->ids.at, slot->sums.at);
    l->found.pairs += count;
  }
  return status;
}

/* Finds the neighbours after a query in the order, for both points of each pair. */
static void pair_query(adji_gpu_lists *l, uint32_t position) {
  adji_software_range *r = l->range;
  const uint32_t *order = r->order.at;
  uint32_t *degrees = r->degrees.at, row = order[position];
  bool one_way = r->sets.join.style.one_way;
  for (uint64_t q = (uint64_t)position + 1; q < r->rows; q++) {
    double sum = adji_software_sum(&r->sets, row, order[q]);
    if (!(sum <= r->sets.join.limit)) continue;
    uint32_t a = one_way && order[q] < row ? order[q] : row, b = a == row ? order[q] : row;
    degrees[a]++;
    if (!one_way) degrees[b]++;
    l->found.pairs += one_way ? 1 : 2;
    adji_software_keep(r, a, &(adji_software_entry){sum, b});
  }
}

static void pair_list(adji_gpu_lists *l, const adji_list_ranges *list) {
  for (uint64_t i = 0; i < list->count; i++)
    for (uint32_t q = list->ranges[i].begin; q < list->ranges[i].end; q++)
      pair_query(l, q);
}

static adj_status do_list(adji_gpu_lists *l, const adji_list_ranges *list, list_slot *slot) {
  adji_software_entry *row = adji_software_make_row(&l->range->sets);
  if (!row) return ADJ_E_MEMORY;
  adj_status status = take_queries(l, list, slot);
  if (!status && l->single)
    pair_list(l, list);
  else if (!status && l->fills)
    status = fill_list(l, slot, row);
  else if (!status)
    count_list(l, slot, row);
  free(row);
  l->found.candidates += slot->count * l->range->sets.right.count;
  if (l->single) l->range->found = l->found;
  return status;
}

adj_status adji_gpu_lists_list(adji_gpu_lists *lists, const adji_list_ranges *list, uint32_t slot, uint32_t buffer,
                               uint64_t *rows) {
  (void)buffer; /* the device can read the ranges where they are */
  list_slot *wanted = &lists->slots[slot];
  uint64_t begin = adji_now_ns();
  adj_status status = adji_software_launch(lists->gpu, "lists_list");
  if (status) return status;
  wanted->pairs = list->pairs;
  status = do_list(lists, list, wanted);
  wanted->found = lists->found;
  adji_software_worked(&lists->range->work, begin);
  if (!status) *rows = wanted->count;
  return status;
}

adj_status adji_gpu_lists_listed(adji_gpu_lists *lists, uint32_t slot, adji_tally *found) {
  adj_status status = adji_software_turn(lists->gpu, "lists_listed");
  if (status) return status;
  if (lists->broken)
    return adji_fail(ADJ_E_INTERNAL, "software device: %llu rows are not as long as they were counted",
                     (unsigned long long)lists->broken);
  *found = lists->slots[slot].found;
  return ADJ_OK;
}

adj_status adji_gpu_lists_fetch(adji_gpu_lists *lists, uint32_t slot, const adji_list_stretch *stretch,
                                uint32_t buffer) {
  const list_slot *wanted = &lists->slots[slot];
  const adji_software_block *parts[] = {&wanted->rows, &wanted->counts, &wanted->offsets, &wanted->ids, &wanted->sums};
  uint64_t sizes[] = {4, 4, 8, 4, adji_type_size(lists->range->sets.left.type)}, size = sizes[stretch->part];
  const char *from = parts[stretch->part]->at;
  return adji_software_fetch(lists->gpu, buffer, stretch->to, from + stretch->first * size, stretch->entries * size);
}
