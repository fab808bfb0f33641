/* SPDX-License-Identifier: MIT
 *
 * The reference: see reference.h. Written to be checked by reading, not to be fast.
 */
#include "reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Rows ------------------------------------------------------------------------------------------- */

typedef struct neighbour {
  double value;
  uint32_t id;
} neighbour;

typedef struct neighbours {
  neighbour *list; /* `room` entries, and as many after them for sorting */
  uint64_t count, room;
} neighbours;

static bool comes_before(const neighbour *a, const neighbour *b) {
  return a->value < b->value || (a->value == b->value && a->id < b->id);
}

/* Sorts by (value, id): sorts both halves and merges them. spare has room for half of the list. */
static void merge_sort(neighbour *list, neighbour *spare, uint64_t count) {
  if (count < 2) return;
  uint64_t half = count / 2, first = 0, second = half;
  merge_sort(list, spare, half);
  merge_sort(list + half, spare, count - half);
  memcpy(spare, list, half * sizeof *list);
  for (uint64_t n = 0; first < half; n++)
    list[n] = second < count && comes_before(&list[second], &spare[first]) ? list[second++] : spare[first++];
}

static bool append(neighbours *row, double value, uint32_t id) {
  if (row->count == row->room) {
    uint64_t room = row->room ? 2 * row->room : 64;
    neighbour *list = realloc(row->list, 2 * room * sizeof *list);
    if (!list) return false;
    row->list = list;
    row->room = room;
  }
  row->list[row->count++] = (neighbour){value, id};
  return true;
}

/* Whether a self-join may report (i, j) at all. */
static bool wanted(const adj_join_spec *spec, uint64_t i, uint64_t j) {
  if (i == j) return (spec->flags & ADJ_WITH_SELF) != 0;
  return !(spec->flags & ADJ_ONE_WAY) || i < j;
}

static void sort_row(neighbours *row) {
  if (row->count) merge_sort(row->list, row->list + row->room, row->count);
}

/* Keeps the k nearest of a row, by distance. */
static void keep_nearest(neighbours *row, uint32_t k) {
  sort_row(row);
  if (row->count > k) row->count = k;
}

static bool find_row(const point_set *left, const point_set *right, const adj_join_spec *spec, uint64_t i,
                     neighbours *row) {
  const point_set *other = right ? right : left;
  adj_join_spec of_row = *spec;
  if (spec->radii) of_row.radius = spec->radii[i];
  double threshold = reference_threshold(&of_row, left->type);
  bool nearest = spec->kind == ADJ_KNN;
  row->count = 0;
  for (uint64_t j = 0; j < other->count; j++) {
    if (!right && !wanted(spec, i, j)) continue;
    double value = reference_measured_value(spec, left->type, row_of(left, i), row_of(other, j), left->dim);
    if (value <= threshold && !append(row, value, (uint32_t)j)) return false;
    /* A point that is further than k others is not among the k nearest. Dropping such points saves sorting them all. */
    if (nearest && row->count && row->count == 4 * (uint64_t)spec->k) {
      keep_nearest(row, spec->k);
      threshold = row->list[spec->k - 1].value;
    }
  }
  if (nearest) keep_nearest(row, spec->k);
  while (nearest && row->count < spec->k)
    if (!append(row, INFINITY, ADJ_NO_ID)) return false;
  return true;
}

static bool add_row(const neighbours *row, adj_type type, const adj_join_spec *spec, reference_rows *out) {
  uint64_t at = out->offsets[out->rows];
  if (at + row->count > out->room) {
    uint64_t larger = 2 * (at + row->count);
    uint32_t *ids = realloc(out->ids, larger * sizeof *ids);
    if (ids) out->ids = ids;
    void *distances = realloc(out->distances, larger * type_size(type));
    if (distances) out->distances = distances;
    if (!ids || !distances) return false;
    out->room = larger;
  }
  for (uint64_t n = 0; n < row->count; n++) {
    out->ids[at + n] = row->list[n].id;
    double distance = reference_distance(spec, type, row->list[n].value);
    if (type == ADJ_F64)
      ((double *)out->distances)[at + n] = distance;
    else
      ((float *)out->distances)[at + n] = (float)distance;
  }
  out->offsets[++out->rows] = at + row->count;
  return true;
}

/* Appends row i to out and, sorted by distance, to by_distance unless that is NULL. */
static bool join_row(const point_set *left, const point_set *right, const adj_join_spec *spec, uint64_t i,
                     neighbours *row, reference_rows *out, reference_rows *by_distance) {
  if (!find_row(left, right, spec, i, row)) return false;
  if (!add_row(row, left->type, spec, out)) return false;
  if (!by_distance) return true;
  sort_row(row);
  return add_row(row, left->type, spec, by_distance);
}

/* Joins points that can be measured as they are. */
static bool join_measured(const point_set *left, const point_set *right, const adj_join_spec *spec, reference_rows *out,
                          reference_rows *by_distance) {
  reference_rows rows = {.offsets = calloc(left->count + 1, sizeof(uint64_t))};
  reference_rows sorted = {.offsets = calloc(left->count + 1, sizeof(uint64_t))};
  neighbours row = {0};
  bool fine = rows.offsets && sorted.offsets;
  for (uint64_t i = 0; fine && i < left->count; i++)
    fine = join_row(left, right, spec, i, &row, &rows, by_distance ? &sorted : NULL);
  free(row.list);
  if (fine) {
    *out = rows;
    rows = (reference_rows){0};
  }
  if (fine && by_distance) {
    *by_distance = sorted;
    sorted = (reference_rows){0};
  }
  reference_free(&rows);
  reference_free(&sorted);
  return fine;
}

bool reference_join(const point_set *left, const point_set *right, const adj_join_spec *spec, reference_rows *out,
                    reference_rows *by_distance) {
  if (!reference_is_derived(spec)) return join_measured(left, right, spec, out, by_distance);
  point_set derived = {0}, others = {0};
  bool fine = reference_derive(spec, left, &derived) && (!right || reference_derive(spec, right, &others)) &&
              join_measured(&derived, right ? &others : NULL, spec, out, by_distance);
  free(derived.data);
  free(others.data);
  return fine;
}

void reference_free(reference_rows *rows) {
  free(rows->offsets);
  free(rows->ids);
  free(rows->distances);
  memset(rows, 0, sizeof *rows);
}
