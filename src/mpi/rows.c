/* SPDX-License-Identifier: MIT
 *
 * Rows with global ids, from the parts that the joins of this rank found.
 *
 * The rows of a part are sorted by local id, or by sum and local id. Local ids have the order of global ids, so each
 * part gives one sorted run of a row, and the runs are merged. A local join of two sets cannot leave pairs out, so this
 * file does: a point with itself, and (i, j) with j < i for ADJ_ONE_WAY.
 */
#include <math.h>
#include <string.h>

#include "mpi/rows.h"
#include "result/result.h"

void adji_rows_clear(adj_mpi_plan *plan, adji_rows *rows) {
  adji_memory *memory = &plan->ctx->memory;
  adji_free(memory, rows->lasts);
  adji_free(memory, rows->offsets);
  if (rows->from) {
    adj_result_destroy(rows->from);
  } else {
    adji_free(memory, rows->ids);
    adji_free(memory, rows->narrow);
    adji_free(memory, rows->values);
  }
  *rows = (adji_rows){0};
}

uint64_t adji_value_size(const adj_mpi_plan *plan) {
  bool values = adji_needs_sums(plan) || (plan->spec.flags & ADJ_WITH_DISTANCE);
  return values ? adji_type_size(plan->type) : 0;
}

uint64_t adji_reported_size(const adj_mpi_plan *plan) {
  return plan->spec.flags & (ADJ_WITH_DISTANCE | ADJ_WITH_SUM) ? adji_type_size(plan->type) : 0;
}

static bool is_left_out(const adj_mpi_plan *plan, int64_t query, int64_t id) {
  if (!plan->self_join) return false;
  if (plan->spec.flags & ADJ_ONE_WAY) return id <= query;
  return id == query && !(plan->spec.flags & ADJ_WITH_SELF);
}

/* The global id for an entry of a part's result. */
static int64_t id_of(const adji_mpi_part *part, uint32_t local) {
  if (part->result->labelled) return local;
  return part->right ? adji_point_id(part->right, local) : part->first + local;
}

/* ---- Range joins ------------------------------------------------------------------------------------------------ */

/* A sum as a sort key. The conversion to f64 is exact. */
static double key_at(const adj_mpi_plan *plan, const char *values, uint64_t i) {
  return plan->type == ADJ_F64 ? ((const double *)(const void *)values)[i]
                               : (double)((const float *)(const void *)values)[i];
}

typedef struct joining {
  adj_mpi_plan *plan;
  const adji_points *queries;
  adji_mpi_part *parts;
  uint32_t count;
  adji_rows *out;
  uint64_t slices;
} joining;

/* Counts the entries that the parts add to each query of a slice. */
static adj_status measure_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const joining *j = user;
  uint64_t begin, end;
  adji_slice(j->queries->set->count, j->slices, slice, &begin, &end);
  for (uint32_t p = 0; p < j->count; p++) {
    const adji_mpi_part *part = &j->parts[p];
    if (!part->result) continue;
    const uint64_t *offsets = adj_result_offsets(part->result);
    const uint32_t *ids = adj_result_ids(part->result);
    for (uint64_t row = begin; row < end && row < part->row_count; row++) {
      uint64_t i = adji_part_row(part, row);
      uint64_t many = offsets[i + 1] - offsets[i];
      for (uint64_t e = offsets[i]; e < offsets[i + 1] && !part->whole; e++)
        many -= is_left_out(j->plan, adji_point_id(j->queries, row), id_of(part, ids[e]));
      j->out->offsets[row + 1] += many;
    }
  }
  return ADJ_OK;
}

static int64_t entry_id(const adji_rows *rows, uint64_t at) {
  return rows->narrow ? (int64_t)rows->narrow[at] : rows->ids[at];
}

static void put_id(const adji_rows *rows, uint64_t at, int64_t id) {
  if (rows->narrow)
    rows->narrow[at] = (uint32_t)id;
  else
    rows->ids[at] = id;
}

/* Whether entry a comes before b, by id or by (sum, id). */
static bool is_before(const adj_mpi_plan *plan, const adji_rows *rows, uint64_t a, uint64_t b) {
  if (plan->spec.order == ADJ_ORDER_DISTANCE) {
    double x = key_at(plan, rows->values, a), y = key_at(plan, rows->values, b);
    if (x != y) return x < y;
  }
  return entry_id(rows, a) < entry_id(rows, b);
}

/* Merges ids from the back; the second run is copied first. */
enum { SHORT_RUN = 256 };

static void merge_ids(uint32_t *ids, uint64_t mine, uint64_t theirs) {
  uint32_t other[SHORT_RUN];
  memcpy(other, ids + mine, theirs * sizeof *ids);
  while (theirs) {
    bool last_is_mine = mine && ids[mine - 1] > other[theirs - 1];
    ids[mine + theirs - 1] = last_is_mine ? ids[mine - 1] : other[theirs - 1];
    mine -= last_is_mine;
    theirs -= !last_is_mine;
  }
}

/* Merges two ascending runs of a row, first .. middle - 1 and middle .. end - 1, in place: an insertion sort. Few rows
 * have two runs, and mostly one of them is short. */
static void merge_runs(const adj_mpi_plan *plan, const adji_rows *rows, uint64_t first, uint64_t middle, uint64_t end) {
  uint64_t size = adji_value_size(plan), width = rows->narrow ? 4 : 8;
  char *ids = rows->narrow ? (char *)rows->narrow : (char *)rows->ids;
  if (middle == first || middle == end || is_before(plan, rows, middle - 1, middle)) return;
  if (rows->narrow && !size && end - middle <= SHORT_RUN) {
    merge_ids(rows->narrow + first, middle - first, end - middle);
    return;
  }
  for (uint64_t i = middle; i < end; i++) {
    uint64_t low = first, high = i;
    while (low < high) {
      uint64_t at = (low + high) / 2;
      if (is_before(plan, rows, at, i))
        low = at + 1;
      else
        high = at;
    }
    int64_t id = entry_id(rows, i);
    char value[8] = {0};
    memmove(ids + (low + 1) * width, ids + low * width, (i - low) * width);
    put_id(rows, low, id);
    if (size) {
      memcpy(value, rows->values + i * size, size);
      memmove(rows->values + (low + 1) * size, rows->values + low * size, (i - low) * size);
      memcpy(rows->values + low * size, value, size);
    }
    first = low + 1;
  }
}

/* Copies a row of a whole part, which is the usual case. Returns where it ends. */
static uint64_t copy_row(const joining *j, const adji_mpi_part *part, uint64_t first, uint64_t end, uint64_t at) {
  const uint32_t *ids = adj_result_ids(part->result) + first;
  uint64_t size = adji_value_size(j->plan), many = end - first;
  for (uint64_t i = 0; i < many; i++)
    put_id(j->out, at + i, id_of(part, ids[i]));
  if (size)
    memcpy(j->out->values + at * size, (const char *)adj_result_distances(part->result) + first * size, many * size);
  return at + many;
}

/* Appends row i of a part to the entries of a query, and returns where they end. */
static uint64_t add_row(const joining *j, const adji_mpi_part *part, uint64_t i, uint64_t row, uint64_t at) {
  const uint64_t *offsets = adj_result_offsets(part->result);
  if (part->whole) return copy_row(j, part, offsets[i], offsets[i + 1], at);
  const uint32_t *ids = adj_result_ids(part->result);
  const char *values = adj_result_distances(part->result);
  uint64_t size = adji_value_size(j->plan);
  int64_t query = adji_point_id(j->queries, row);
  for (uint64_t e = offsets[i]; e < offsets[i + 1]; e++) {
    int64_t id = id_of(part, ids[e]);
    if (is_left_out(j->plan, query, id)) continue;
    put_id(j->out, at, id);
    if (size) memcpy(j->out->values + at * size, values + e * size, size);
    at++;
  }
  return at;
}

static adj_status fill_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const joining *j = user;
  adji_rows *out = j->out;
  uint64_t begin, end;
  adji_slice(j->queries->set->count, j->slices, slice, &begin, &end);
  for (uint64_t row = begin; row < end; row++) {
    uint64_t at = out->offsets[row];
    for (uint32_t p = 0; p < j->count; p++) {
      const adji_mpi_part *part = &j->parts[p];
      if (!part->result || row >= part->row_count) continue;
      uint64_t middle = at;
      at = add_row(j, part, adji_part_row(part, row), row, at);
      merge_runs(j->plan, out, out->offsets[row], middle, at);
    }
  }
  return ADJ_OK;
}

/* Moves the lists of the queries together, in place, if the join also made lists of the points around the region. */
static void drop_other_lists(adj_mpi_plan *plan, const adji_mpi_part *part) {
  adj_result *result = part->result;
  uint64_t k = result->each, size = adji_type_size(plan->type);
  char *sums = result->distances, *lasts = part->lasts;
  for (uint64_t i = 0; i < part->row_count; i++) {
    uint64_t row = part->own[i];
    if (row == i) continue;
    memmove(result->ids + i * k, result->ids + row * k, k * sizeof *result->ids);
    if (sums) memmove(sums + i * k * size, sums + row * k * size, k * size);
    if (lasts) memcpy(lasts + i * size, lasts + row * size, size);
  }
  uint64_t kept = part->row_count * k, all = result->rows * k;
  adji_release(&plan->ctx->memory, result->ids, kept * sizeof *result->ids, all * sizeof *result->ids);
  if (sums) adji_release(&plan->ctx->memory, sums, kept * size, all * size);
  result->rows = part->row_count;
}

bool adji_rows_adopt(adj_mpi_plan *plan, adji_mpi_part *part, adji_rows *out) {
  if (!part->result || !part->whole || !plan->fits_32 || part->result->each != plan->spec.k) return false;
  if (part->own) drop_other_lists(plan, part);
  *out = (adji_rows){.count = adj_result_rows(part->result), .from = part->result, .filled = true};
  out->each = plan->spec.k;
  out->narrow = (uint32_t *)adj_result_ids(part->result);
  out->values = (char *)adj_result_distances(part->result);
  out->lasts = part->lasts;
  out->right = part->result->labelled ? NULL : part->right;
  part->result = NULL;
  part->lasts = NULL;
  return true;
}

void adji_rows_narrow(adj_mpi_plan *plan, adji_rows *rows) {
  if (!rows->ids) return;
  uint64_t entries = adji_rows_entries(rows);
  char *bytes = (char *)rows->ids;
  for (uint64_t i = 0; i < entries; i++) { /* entry i is written at or before the place it is read from */
    uint32_t id = (uint32_t)rows->ids[i];
    memcpy(bytes + 4 * i, &id, 4);
  }
  adji_release(&plan->ctx->memory, bytes, 4 * entries, 8 * entries);
  rows->narrow = (uint32_t *)(void *)bytes;
  rows->ids = NULL;
}

void adji_rows_globalise(adji_rows *rows) {
  if (!rows->right) return;
  uint64_t entries = adji_rows_entries(rows);
  for (uint64_t i = 0; i < entries; i++)
    if (rows->narrow[i] != ADJ_NO_ID) rows->narrow[i] = (uint32_t)adji_point_id(rows->right, rows->narrow[i]);
  rows->right = NULL;
}

adj_status adji_rows_join(adj_mpi_plan *plan, const adji_points *queries, adji_mpi_part *parts, uint32_t count,
                          adji_rows *out) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t rows = queries->set->count, size = adji_value_size(plan);
  *out = (adji_rows){.count = rows};
  out->offsets = adji_alloc_zero(memory, rows + 1, sizeof *out->offsets, "offsets of rows");
  joining j = {plan, queries, parts, count, out, rows / 4096 + 1};
  adj_status status = out->offsets ? adji_loop(plan->ctx, j.slices, measure_slice, &j) : ADJ_E_MEMORY;
  for (uint64_t i = 0; i < rows && !status; i++)
    out->offsets[i + 1] += out->offsets[i];
  if (!status) {
    bool narrow = plan->narrow || (plan->fits_32 && plan->distribution == ADJ_MPI_HALO);
    void *ids = adji_alloc(memory, out->offsets[rows] + 1, narrow ? 4 : 8, "ids of the result");
    if (narrow)
      out->narrow = ids;
    else
      out->ids = ids;
    if (size) out->values = adji_alloc(memory, out->offsets[rows] + 1, size, "distances of the result");
    status = ids && (!size || out->values) ? adji_loop(plan->ctx, j.slices, fill_slice, &j) : ADJ_E_MEMORY;
  }
  for (uint32_t p = 0; p < count; p++)
    adji_mpi_part_clear(plan, &parts[p]);
  if (status) adji_rows_clear(plan, out);
  return status;
}

/* ---- kNN joins -------------------------------------------------------------------------------------------------- */

adj_status adji_rows_open_lists(adj_mpi_plan *plan, uint64_t count, adji_rows *out) {
  adji_memory *memory = &plan->ctx->memory;
  uint64_t entries = adji_mul(count, plan->spec.k);
  *out = (adji_rows){.count = count, .each = plan->spec.k};
  out->ids = adji_alloc(memory, entries + !entries, sizeof *out->ids, "ids of the result");
  out->values = adji_alloc(memory, entries + !entries, adji_type_size(plan->type), "distances of the result");
  if (out->ids && out->values) return ADJ_OK;
  adji_rows_clear(plan, out);
  return ADJ_E_MEMORY;
}

adj_status adji_rows_number(adj_mpi_plan *plan, adji_rows *rows) {
  rows->offsets = adji_alloc(&plan->ctx->memory, rows->count + 1, sizeof *rows->offsets, "offsets of rows");
  for (uint64_t i = 0; rows->offsets && i <= rows->count; i++)
    rows->offsets[i] = i * rows->each;
  return rows->offsets ? ADJ_OK : ADJ_E_MEMORY;
}

uint64_t adji_list_length(const adj_mpi_plan *plan) {
  uint64_t others = plan->right_starts[plan->group.ranks];
  bool without = plan->self_join && !(plan->spec.flags & ADJ_WITH_SELF);
  if (others) others -= without;
  return others < plan->spec.k ? others : plan->spec.k;
}

void adji_rows_pad(const adj_mpi_plan *plan, adji_rows *lists) {
  if (lists->filled) return;
  for (uint64_t i = 0; i < lists->count * plan->spec.k; i++) {
    lists->ids[i] = -1;
    if (plan->type == ADJ_F64)
      ((double *)(void *)lists->values)[i] = INFINITY;
    else
      ((float *)(void *)lists->values)[i] = INFINITY;
  }
  lists->filled = true;
}

/* Takes row i of a part as a list with global ids, without the pairs that are left out. */
static void take_list(const adj_mpi_plan *plan, const adji_mpi_part *part, uint64_t i, int64_t query, adj_lists *to) {
  uint32_t room = to->k;
  uint64_t size = adji_type_size(plan->type), many = part->result->each, first = i * many;
  const uint32_t *ids = adj_result_ids(part->result) + first;
  const char *sums = (const char *)adj_result_distances(part->result) + first * size;
  to->k = 0;
  if (part->whole) { /* the usual case */
    for (; to->k < many && to->k < room && ids[to->k] != ADJ_NO_ID; to->k++)
      to->ids[to->k] = id_of(part, ids[to->k]);
    memcpy(to->sums, sums, to->k * size);
    return;
  }
  for (uint64_t e = 0; e < many && to->k < room && ids[e] != ADJ_NO_ID; e++) {
    int64_t id = id_of(part, ids[e]);
    if (!part->whole && is_left_out(plan, query, id)) continue;
    to->ids[to->k] = id;
    memcpy((char *)to->sums + to->k * size, sums + e * size, size);
    to->k++;
  }
}

/* Copies the lists of a whole part into lists that are not filled yet. The first part is usually such a part. */
static void copy_lists(const adj_mpi_plan *plan, const adji_mpi_part *part, adji_rows *to) {
  uint64_t size = adji_type_size(plan->type), k = plan->spec.k;
  const uint32_t *ids = adj_result_ids(part->result);
  for (uint64_t i = 0; i < part->row_count * k; i++)
    to->ids[i] = ids[i] == ADJ_NO_ID ? -1 : id_of(part, ids[i]);
  memcpy(to->values, adj_result_distances(part->result), part->row_count * k * size);
  to->filled = true;
}

adj_status adji_rows_merge(adj_mpi_plan *plan, const adji_points *queries, const adji_mpi_part *part, adji_rows *to) {
  adji_memory *memory = &plan->ctx->memory;
  if (!part->result || !part->row_count) return ADJ_OK;
  uint64_t size = adji_type_size(plan->type), k = plan->spec.k, asked = part->result->each;
  if (!to->filled && part->whole && !part->own && asked == k && part->row_count == to->count) {
    copy_lists(plan, part, to);
    return ADJ_OK;
  }
  adji_rows_pad(plan, to);
  adj_lists list, all;
  adj_lists_init(&list, sizeof list);
  list.type = plan->type;
  list.rows = 1;
  list.ids = adji_alloc(memory, asked + 1, sizeof *list.ids, "a list");
  list.sums = adji_alloc(memory, asked + 1, size, "a list");
  adj_status status = list.ids && list.sums ? ADJ_OK : ADJ_E_MEMORY;
  all = list;
  for (uint64_t i = 0; i < part->row_count && !status; i++) {
    bool empty = to->ids[i * k] < 0;
    all.ids = to->ids + i * k;
    all.sums = to->values + i * k * size;
    all.k = (uint32_t)k;
    list.k = (uint32_t)asked;
    take_list(plan, part, adji_part_row(part, i), adji_point_id(queries, i), empty ? &all : &list);
    if (!empty && list.k) status = adj_lists_merge(&all, &list, NULL);
  }
  adji_free(memory, list.ids);
  adji_free(memory, list.sums);
  return status;
}

adj_status adji_rows_merge_lists(const adj_mpi_plan *plan, const adji_rows *from, const adji_rows *to) {
  adj_lists mine, theirs;
  adj_lists_init(&mine, sizeof mine);
  mine.type = plan->type;
  mine.k = plan->spec.k;
  mine.rows = to->count;
  theirs = mine;
  mine.ids = to->ids;
  mine.sums = to->values;
  theirs.ids = from->ids;
  theirs.sums = from->values;
  return adj_lists_merge(&mine, &theirs, NULL);
}

adji_last_sums adji_rows_last_sums(const adj_mpi_plan *plan, const adji_rows *lists) {
  uint64_t k = plan->spec.k, size = adji_type_size(plan->type);
  if (lists->lasts) return (adji_last_sums){lists->lasts, size};
  return (adji_last_sums){lists->values + (k - 1) * size, k * size};
}

adj_status adji_rows_reach(const adj_mpi_plan *plan, const adji_points *queries, const adji_rows *lists,
                           const uint32_t *which, double *radii) {
  uint64_t size = adji_type_size(plan->type), count = queries->set->count;
  adji_last_sums last = adji_rows_last_sums(plan, lists);
  char *sums = (char *)radii; /* converted in place: each sum is read before a radius is written over it */
  if (size == 4) sums += 4 * count;
  for (uint64_t i = 0; i < count; i++)
    memcpy(sums + i * size, last.first + (which ? which[i] : i) * last.stride, size);
  adj_status status = adj_sums_radii(&plan->spec, plan->type, count, sums, radii);
  for (uint64_t i = 0; i < count && !status; i++)
    radii[i] = fmin(radii[i], queries->radii ? queries->radii[i] : plan->spec.radius);
  return status;
}

/* Padding is reported with the largest possible distance, or the least inner product. */
static void pad_values(const adj_mpi_plan *plan, adji_rows *rows) {
  float far = plan->spec.metric == ADJ_DOT ? -INFINITY : INFINITY;
  for (uint64_t i = 0; i < adji_rows_entries(rows); i++)
    if (adji_rows_is_padding(rows, i)) {
      if (plan->type == ADJ_F64)
        ((double *)(void *)rows->values)[i] = (double)far;
      else
        ((float *)(void *)rows->values)[i] = far;
    }
}

adj_status adji_rows_report(adj_mpi_plan *plan, adji_rows *rows) {
  if (!adji_needs_sums(plan) || !rows->values || (plan->spec.flags & ADJ_WITH_SUM)) return ADJ_OK;
  if (!(plan->spec.flags & ADJ_WITH_DISTANCE)) {
    adji_free(&plan->ctx->memory, rows->values);
    if (rows->from) rows->from->distances = NULL;
    rows->values = NULL;
    return ADJ_OK;
  }
  uint64_t entries = adji_rows_entries(rows);
  adj_status status = adj_sums_report(&plan->spec, plan->type, entries, rows->values, rows->values);
  if (!status) pad_values(plan, rows);
  return status;
}
