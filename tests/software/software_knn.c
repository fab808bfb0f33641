/* SPDX-License-Identifier: MIT
 *
 * kNN joins on the software device: tables of rows, and lists of queries.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "software/software.h"

enum { LEAST_QUERIES = 16 };

typedef struct list_slot {
  adji_software_block rows, ids, distances, missed;
  uint64_t count, missed_count;
  uint64_t candidates; /* of all lists up to this one */
} list_slot;

struct adji_gpu_knn {
  adji_gpu *gpu;
  adji_software_sets sets;
  uint64_t rows_at_once, chunk;
  bool checks_left, brute;
  adji_knn_grid_options grid;         /* if `use` is set, the search goes through a grid */
  uint32_t epoch;                     /* how often epsilon grew */
  adji_software_block bounds, names;  /* bounds of left rows; names of right points */
  const adji_gpu_pick *pick;          /* picked right points, some of which are the queries in a self-join; or NULL */
  adji_software_block ids, distances; /* rows first_row .. end_row - 1 */
  uint64_t first_row, end_row;
  adji_software_block order; /* rows in the host's order, or empty */
  list_slot slots[ADJI_LISTS];
  uint64_t list_first, list_end, queries, candidates;
  adji_gpu_knn_effort effort;
  adji_device_stats work;
};

/* Copies an array of the host to the device. */
static adj_status send_array(adji_gpu_knn *n, const void *from, uint64_t bytes, adji_software_block *to) {
  adji_software_free(n->gpu, to);
  if (!from || !bytes) return ADJ_OK;
  adj_status status = adji_software_get(n->gpu, bytes, "array", to);
  return status ? status : adji_upload_bytes(n->gpu, from, bytes, to->at, &n->work);
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

adj_status adji_gpu_knn_open(adji_gpu *gpu, const adji_gpu_knn_options *options, adji_gpu_knn **out) {
  adji_gpu_knn *n = calloc(1, sizeof *n);
  if (!n) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  const adji_join *join = options->join;
  n->gpu = gpu;
  n->pick = options->pick;
  n->rows_at_once = options->rows_at_once ? options->rows_at_once : join->left->count;
  n->chunk = options->brute && options->brute->chunk < join->right->count ? options->brute->chunk : 0;
  n->brute = options->brute;
  n->grid = options->grid;
  if (n->grid.use) n->grid = adji_knn_grid_defaults(&n->grid);
  if (n->grid.use) n->work.grid.epsilon = 0.05;
  n->checks_left = options->checks_left;
  if (options->right) {
    n->sets.lent = adji_gpu_right_rows(options->right);
    n->work = adji_software_right_work(options->right);
  }
  adj_status status =
      adji_software_sets_open(gpu, join, options->measure, options->left_rows, options->right_rows, &n->sets, &n->work);
  if (!status)
    status = send_array(n, options->bounds, join->left->count * adji_type_size(join->left->type), &n->bounds);
  if (!status) status = send_array(n, options->right_names, join->right->count * 4, &n->names);
  if (!status) status = adji_gpu_mark(gpu, ADJI_MARK_INDEXED);
  if (status)
    adji_gpu_knn_close(n);
  else
    *out = n;
  return status;
}

static void free_table(adji_gpu_knn *n) {
  adji_software_free(n->gpu, &n->ids);
  adji_software_free(n->gpu, &n->distances);
  n->first_row = n->end_row = 0;
}

void adji_gpu_knn_close(adji_gpu_knn *knn) {
  if (!knn) return;
  adji_gpu_knn_end_lists(knn);
  free_table(knn);
  adji_software_free(knn->gpu, &knn->order);
  adji_software_free(knn->gpu, &knn->bounds);
  adji_software_free(knn->gpu, &knn->names);
  adji_software_sets_close(knn->gpu, &knn->sets);
  free(knn);
}

void adji_gpu_knn_keep_table(adji_gpu_knn *knn) {
  knn->pick = NULL;
  adji_software_free(knn->gpu, &knn->order);
  adji_software_free(knn->gpu, &knn->bounds);
  adji_software_free(knn->gpu, &knn->names);
  adji_software_sets_close(knn->gpu, &knn->sets);
}

adj_status adji_gpu_knn_ask(adji_gpu_knn *knn, const adj_dataset *left, const void *bounds) {
  free_table(knn);
  adj_status status = adji_software_sets_ask(knn->gpu, left, &knn->sets, &knn->work); /* a pick gives only names then */
  knn->rows_at_once = left->count;
  return status ? status : send_array(knn, bounds, left->count * adji_type_size(left->type), &knn->bounds);
}

uint64_t adji_gpu_knn_chunk(const adji_gpu_knn *knn) {
  return knn->chunk;
}
adji_device_stats adji_gpu_knn_work(adji_gpu_knn *knn) {
  return knn->work;
}
adji_gpu_knn_effort adji_gpu_knn_effort_of(const adji_gpu_knn *knn) {
  return knn->effort;
}

/* ---- Rows --------------------------------------------------------------------------------------------- */

static double bound_of(const adji_gpu_knn *n, uint64_t row) {
  return n->sets.left.type == ADJ_F64 ? ((const double *)n->bounds.at)[row]
                                      : (double)((const float *)n->bounds.at)[row];
}

/* Writes the neighbours of a row to row `to` of a table. entries: room for a row. */
static void find_row(const adji_gpu_knn *n, uint64_t row, const adji_window *table, uint64_t to,
                     adji_software_entry *entries) {
  const adji_software_sets *sets = &n->sets;
  uint64_t size = adji_type_size(sets->left.type), at = to * table->k,
           count = adji_software_nearest(sets, row, entries);
  const uint32_t *names = n->pick ? n->pick->ids : n->names.at;
  while (count && n->bounds.at && entries[count - 1].sum > bound_of(n, row))
    count--;
  for (uint64_t i = 0; i < count && names; i++)
    entries[i].id = names[entries[i].id];
  adji_software_put(sets->left.type, entries, count, at, table->ids, table->distances);
  char *sums = (char *)table->distances + at * size;
  adji_report_distances(&sets->measure, sets->left.type, sums, count, sums);
  adji_software_entry none = {sets->measure.report == ADJI_REPORT_NEGATED ? -(double)INFINITY : (double)INFINITY,
                              ADJ_NO_ID};
  for (uint64_t i = count; i < table->k; i++)
    adji_software_put(sets->left.type, &none, 1, at + i, table->ids, table->distances);
}

static adj_status make_table(adji_gpu_knn *n, uint64_t first_row, uint64_t rows) {
  uint64_t entries = adji_mul(rows, n->sets.join.k), size = adji_type_size(n->sets.left.type);
  free_table(n);
  adj_status status = adji_software_get(n->gpu, adji_mul(entries, 4), "table of neighbours", &n->ids);
  if (!status) status = adji_software_get(n->gpu, adji_mul(entries, size), "table of neighbours", &n->distances);
  if (status) {
    free_table(n);
    return status;
  }
  n->first_row = first_row;
  n->end_row = first_row + rows;
  return ADJ_OK;
}

/* Whether the queries are the pick's own points. */
static bool is_picked(const adji_gpu_knn *n) {
  return n->pick && n->sets.join.self_join;
}

static adj_status find_table(adji_gpu_knn *n, uint64_t row) {
  uint64_t left = (is_picked(n) ? n->pick->own : n->sets.left.count) - row,
           rows = n->rows_at_once < left ? n->rows_at_once : left;
  adj_status status = make_table(n, row, rows);
  while (status == ADJ_E_DEVICE_MEMORY && rows > 1) {
    rows /= 2;
    status = make_table(n, row, rows);
  }
  adji_software_entry *entries = status ? NULL : adji_software_make_row(&n->sets);
  if (!status && !entries) status = ADJ_E_MEMORY;
  adji_window table = {.end_row = rows, .ids = n->ids.at, .distances = n->distances.at, .k = n->sets.join.k};
  for (uint64_t i = 0; i < rows && !status && !is_picked(n); i++)
    find_row(n, row + i, &table, i, entries);
  for (uint64_t i = 0; i < n->sets.left.count && !status && is_picked(n); i++) {
    uint64_t place = n->pick->places[i];
    if (place >= row && place < row + rows) find_row(n, i, &table, place - row, entries);
  }
  free(entries);
  if (status) free_table(n);
  return status;
}

adj_status adji_gpu_knn_begin(adji_gpu_knn *knn, uint64_t row, adji_gpu_table *out) {
  adj_status status = ADJ_OK;
  if (row < knn->first_row || row >= knn->end_row) {
    uint64_t begin = adji_now_ns();
    status = adji_software_launch(knn->gpu, "knn_begin");
    if (!status) status = find_table(knn, row);
    if (status) return status;
    adji_software_worked(&knn->work, begin);
    adji_software_at_work(knn->gpu);
    knn->effort.candidates += (knn->end_row - knn->first_row) * knn->sets.right.count;
    adji_software_compared(knn->gpu, knn->effort.candidates);
    status = adji_gpu_mark(knn->gpu, ADJI_MARK_COUNTED);
  }
  *out = (adji_gpu_table){knn->first_row, knn->end_row, knn->ids.at, knn->distances.at};
  return status;
}

adj_status adji_gpu_knn_end(adji_gpu_knn *knn) {
  adj_status status = adji_software_turn(knn->gpu, "knn_end");
  if (status) free_table(knn);
  return status;
}

adj_status adji_gpu_knn_take(adji_gpu_knn *knn, adji_gpu_csr *out) {
  uint64_t rows = knn->sets.left.count;
  adji_gpu_table table;
  *out = (adji_gpu_csr){.gpu = knn->gpu, .rows = rows};
  if (!rows) return ADJ_OK;
  adj_status status = adji_gpu_knn_begin(knn, 0, &table);
  if (!status) status = adji_gpu_knn_end(knn);
  if (!status && knn->checks_left) status = adji_software_check_left(&knn->sets);
  if (status) return status;
  if (table.end_row < rows)
    return adji_fail(ADJ_E_DEVICE_MEMORY, "software device: the neighbours of %llu points, of all %llu, have room",
                     (unsigned long long)table.end_row, (unsigned long long)rows);
  if (!knn->sets.join.style.distances) adji_software_free(knn->gpu, &knn->distances);
  for (uint64_t i = 0; i < rows * knn->sets.join.k; i++)
    out->pairs += table.ids[i] != ADJ_NO_ID;
  out->ids = knn->ids.at;
  out->distances = knn->distances.at;
  out->bytes[1] = knn->ids.bytes;
  out->bytes[2] = knn->distances.bytes;
  knn->ids = knn->distances = (adji_software_block){0};
  knn->first_row = knn->end_row = 0;
  return ADJ_OK;
}

/* ---- Lists -------------------------------------------------------------------------------------------- */

adj_status adji_gpu_knn_follow(adji_gpu_knn *knn, const uint32_t *rows) {
  uint64_t bytes = knn->sets.left.count * 4;
  adji_software_free(knn->gpu, &knn->order);
  if (!rows || !bytes) return ADJ_OK;
  if (knn->brute) return adji_fail(ADJ_E_INTERNAL, "lists of brute force must be in the order of the rows");
  adj_status status = adji_software_get(knn->gpu, bytes, "queries", &knn->order);
  if (!status) status = adji_upload_bytes(knn->gpu, rows, bytes, knn->order.at, &knn->work);
  if (status) adji_software_free(knn->gpu, &knn->order);
  return status;
}

/* The row of a query in the device's own order. */
static uint32_t own_row(const adji_gpu_knn *n, uint64_t query) {
  return (uint32_t)(n->brute ? query : n->sets.left.count - 1 - query);
}

adj_status adji_gpu_knn_order(adji_gpu_knn *knn, uint32_t *rows) {
  adj_status status = adji_software_turn(knn->gpu, "knn_order");
  for (uint64_t i = 0; i < knn->sets.left.count && !status; i++)
    rows[i] = own_row(knn, i);
  return status;
}

static adj_status make_slots(adji_gpu_knn *n, uint64_t queries) {
  adji_gpu *gpu = n->gpu;
  uint64_t entries = adji_mul(queries, n->sets.join.k), size = adji_type_size(n->sets.left.type);
  adj_status status = ADJ_OK;
  for (int i = 0; i < ADJI_LISTS && !status; i++) {
    list_slot *slot = &n->slots[i];
    status = adji_software_get(gpu, queries * 4, "list of queries", &slot->rows);
    if (!status) status = adji_software_get(gpu, queries * 4, "list of queries", &slot->missed);
    if (!status) status = adji_software_get(gpu, adji_mul(entries, 4), "table of neighbours", &slot->ids);
    if (!status) status = adji_software_get(gpu, adji_mul(entries, size), "table of neighbours", &slot->distances);
  }
  if (status) adji_gpu_knn_end_lists(n);
  return status;
}

adj_status adji_gpu_knn_begin_lists(adji_gpu_knn *knn, uint64_t first_row, uint64_t end_row, uint64_t *queries) {
  uint64_t many = *queries < knn->sets.left.count ? *queries : knn->sets.left.count;
  if (!many) many = 1;
  adj_status status = make_slots(knn, many);
  while (status == ADJ_E_DEVICE_MEMORY && many > LEAST_QUERIES) {
    many = many / 2 > LEAST_QUERIES ? many / 2 : LEAST_QUERIES;
    status = make_slots(knn, many);
  }
  if (!status) status = adji_gpu_wait(knn->gpu);
  if (status) adji_gpu_knn_end_lists(knn);
  knn->list_first = first_row;
  knn->list_end = end_row;
  knn->candidates = 0;
  *queries = knn->queries = many;
  return status;
}

void adji_gpu_knn_end_lists(adji_gpu_knn *knn) {
  adji_software_copy_all(knn->gpu);
  for (int i = 0; i < ADJI_LISTS; i++) {
    list_slot *slot = &knn->slots[i];
    adji_software_block *blocks[] = {&slot->rows, &slot->ids, &slot->distances, &slot->missed};
    for (int b = 0; b < 4; b++)
      adji_software_free(knn->gpu, blocks[b]);
    *slot = (list_slot){0};
  }
}

/* Answers a query of a list, unless it is one to miss. A missed row has garbage. */
static void find_query(adji_gpu_knn *n, uint32_t query, list_slot *slot, adji_software_entry *entries) {
  const uint32_t *order = n->order.at;
  uint32_t row = order ? order[query] : own_row(n, query);
  if (row < n->list_first || row >= n->list_end) return;
  adji_window table = {
      .end_row = n->queries, .ids = slot->ids.at, .distances = slot->distances.at, .k = n->sets.join.k};
  ((uint32_t *)slot->rows.at)[slot->count] = row;
  n->work.grid.queries += n->grid.use;
  if (n->grid.use && order && row % ADJI_SOFTWARE_MISSED == 0 && row / ADJI_SOFTWARE_MISSED % 4 >= n->epoch) {
    ((uint32_t *)slot->missed.at)[slot->missed_count++] = query;
    n->work.grid.failed++;
  } else {
    find_row(n, row, &table, slot->count, entries);
  }
  slot->count++;
  n->candidates += n->sets.right.count;
}

static adj_status find_list(adji_gpu_knn *n, const adji_batch *ranges, uint64_t count, list_slot *slot) {
  uint64_t queries = 0;
  for (uint64_t i = 0; i < count; i++)
    queries += ranges[i].end - ranges[i].begin;
  if (queries > n->queries)
    return adji_fail(ADJ_E_INTERNAL, "software device: a list of %llu queries, with room for %llu",
                     (unsigned long long)queries, (unsigned long long)n->queries);
  adji_software_entry *entries = adji_software_make_row(&n->sets);
  if (!entries) return ADJ_E_MEMORY;
  slot->count = slot->missed_count = 0;
  for (uint64_t i = 0; i < count; i++)
    for (uint32_t query = ranges[i].begin; query < ranges[i].end; query++)
      find_query(n, query, slot, entries);
  free(entries);
  return ADJ_OK;
}

adj_status adji_gpu_knn_list(adji_gpu_knn *knn, const adji_batch *ranges, uint64_t count, uint32_t slot,
                             uint32_t buffer, uint64_t *rows) {
  (void)buffer; /* the device can read the ranges where they are */
  list_slot *wanted = &knn->slots[slot];
  uint64_t begin = adji_now_ns();
  adj_status status = adji_software_launch(knn->gpu, "knn_list");
  if (!status) status = find_list(knn, ranges, count, wanted);
  if (status) return status;
  wanted->candidates = knn->candidates;
  adji_software_worked(&knn->work, begin);
  *rows = wanted->count;
  return ADJ_OK;
}

adj_status adji_gpu_knn_listed(adji_gpu_knn *knn, uint32_t slot, uint64_t *candidates) {
  adj_status status = adji_software_turn(knn->gpu, "knn_listed");
  if (!status) *candidates = knn->slots[slot].candidates;
  return status;
}

adj_status adji_gpu_knn_missed(adji_gpu_knn *knn, uint32_t slot, uint32_t *to, uint64_t *count) {
  const list_slot *wanted = &knn->slots[slot];
  adj_status status = adji_software_turn(knn->gpu, "knn_missed");
  if (status) return status;
  *count = wanted->missed_count;
  memcpy(to, wanted->missed.at, *count * sizeof *to);
  return ADJ_OK;
}

adj_status adji_gpu_knn_judge(adji_gpu_knn *knn, uint64_t queries, uint64_t missed, bool *grew) {
  adj_status status = adji_software_turn(knn->gpu, "knn_judge");
  *grew = !status && adji_knn_grid_next(&knn->grid, queries, missed, queries, knn->epoch) == ADJI_GRID_WIDEN;
  knn->epoch += *grew;
  knn->work.grid.reindexed += *grew;
  return status;
}

adj_status adji_gpu_knn_fetch(adji_gpu_knn *knn, uint32_t slot, uint64_t first, uint64_t rows, bool distances,
                              uint32_t buffer) {
  const list_slot *wanted = &knn->slots[slot];
  uint64_t k = knn->sets.join.k, size = distances ? adji_type_size(knn->sets.left.type) : 0;
  adji_list_piece piece = adji_list_piece_of(rows, knn->sets.join.k, size);
  const char *numbers = wanted->rows.at, *ids = wanted->ids.at, *values = wanted->distances.at;
  adj_status status = adji_software_fetch(knn->gpu, buffer, 0, numbers + first * 4, rows * 4);
  if (!status) status = adji_software_fetch(knn->gpu, buffer, piece.ids, ids + first * k * 4, rows * k * 4);
  if (!status && distances)
    status = adji_software_fetch(knn->gpu, buffer, piece.distances, values + first * k * size, rows * k * size);
  return status;
}
