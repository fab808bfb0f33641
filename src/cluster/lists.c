/* SPDX-License-Identifier: MIT
 *
 * Merges kNN lists of several parts of a set by (sum, id), and turns sums into distances and radii.
 */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "plan/index.h"

ADJI_DEFINE_INIT(adj_lists, .type = ADJ_F32)

/* ---- Merging -------------------------------------------------------------------------------------------------- */

/* Merges one row into another in place. The first loop finds how many of the k smallest entries come from each list;
 * the second places them from the back. Padding is at the end of both lists. An entry that both lists have is taken
 * from `other` and dropped from the row: equal ids have equal sums, so both copies are met one after the other. */
#define MERGE(T)                                                                                                 \
  static bool comes_first_##T(T a, int64_t a_id, T b, int64_t b_id) {                                            \
    if (a_id < 0 || b_id < 0) return b_id < 0;                                                                   \
    return a < b || (a == b && a_id < b_id);                                                                     \
  }                                                                                                              \
  /* Moves the entries of a row that are also in the other list to its end, as padding. */                       \
  static void drop_doubles_##T(uint32_t k, int64_t *ids, T *sums, uint32_t other_k, const int64_t *other_ids,    \
                               const T *other_sums) {                                                            \
    uint32_t kept = 0, theirs = 0;                                                                               \
    for (uint32_t mine = 0; mine < k; mine++) {                                                                  \
      while (theirs < other_k && comes_first_##T(other_sums[theirs], other_ids[theirs], sums[mine], ids[mine]))  \
        theirs++;                                                                                                \
      if (theirs < other_k && ids[mine] >= 0 && other_ids[theirs] == ids[mine]) continue;                        \
      ids[kept] = ids[mine];                                                                                     \
      sums[kept++] = sums[mine];                                                                                 \
    }                                                                                                            \
    for (; kept < k; kept++) {                                                                                   \
      ids[kept] = -1;                                                                                            \
      sums[kept] = (T)INFINITY;                                                                                  \
    }                                                                                                            \
  }                                                                                                              \
  static void merge_##T(uint32_t k, int64_t *ids, T *sums, uint32_t other_k, const int64_t *other_ids,           \
                        const T *other_sums) {                                                                   \
    uint32_t mine = 0, theirs = 0;                                                                               \
    drop_doubles_##T(k, ids, sums, other_k, other_ids, other_sums);                                              \
    while (mine + theirs < k) {                                                                                  \
      if (theirs == other_k || comes_first_##T(sums[mine], ids[mine], other_sums[theirs], other_ids[theirs]))    \
        mine++;                                                                                                  \
      else                                                                                                       \
        theirs++;                                                                                                \
    }                                                                                                            \
    for (uint32_t to = k; to-- && theirs;) {                                                                     \
      bool last_is_mine =                                                                                        \
          mine && comes_first_##T(other_sums[theirs - 1], other_ids[theirs - 1], sums[mine - 1], ids[mine - 1]); \
      sums[to] = last_is_mine ? sums[mine - 1] : other_sums[theirs - 1];                                         \
      ids[to] = last_is_mine ? ids[mine - 1] : other_ids[theirs - 1];                                            \
      mine -= last_is_mine;                                                                                      \
      theirs -= !last_is_mine;                                                                                   \
    }                                                                                                            \
  }
MERGE(float)
MERGE(double)

adj_status adj_lists_merge(const adj_lists *to, const adj_lists *from, const uint64_t *rows) {
  if (!to || !from) return adji_fail(ADJ_E_ARGUMENT, "to and from: neither may be NULL");
  if (to->type != from->type || (to->type != ADJ_F32 && to->type != ADJ_F64))
    return adji_fail(ADJ_E_ARGUMENT, "to and from: types %d and %d", (int)to->type, (int)from->type);
  for (uint64_t i = 0; i < from->rows; i++)
    if ((rows ? rows[i] : i) >= to->rows)
      return adji_fail(ADJ_E_ARGUMENT, "rows[%llu]: %llu, but there are %llu rows", (unsigned long long)i,
                       (unsigned long long)(rows ? rows[i] : i), (unsigned long long)to->rows);
  for (uint64_t i = 0; i < from->rows; i++) {
    uint64_t row = (rows ? rows[i] : i) * to->k, other = i * from->k;
    if (to->type == ADJ_F64)
      merge_double(to->k, to->ids + row, (double *)to->sums + row, from->k, from->ids + other,
                   (const double *)from->sums + other);
    else
      merge_float(to->k, to->ids + row, (float *)to->sums + row, from->k, from->ids + other,
                  (const float *)from->sums + other);
  }
  return ADJ_OK;
}

/* ---- Sums ------------------------------------------------------------------------------------------------------- */

static adj_status measure_of(const adj_join_spec *spec, adj_type type, adji_measure *measure) {
  adj_join_spec mine;
  void *box = NULL;
  adj_join_spec_init(&mine, sizeof mine);
  adj_status status = adji_take_struct(&mine, sizeof mine, spec, "adj_join_spec");
  mine.box_count = 0; /* a box does not change what a sum means */
  if (!status && type != ADJ_F32 && type != ADJ_F64)
    status = adji_fail(ADJ_E_ARGUMENT, "type: %d is neither ADJ_F32 nor ADJ_F64", (int)type);
  return status ? status : adji_describe_measure(NULL, &mine, type, 1, measure, &box);
}

adj_status adj_sums_report(const adj_join_spec *spec, adj_type type, uint64_t count, const void *sums,
                           void *distances) {
  if (!spec || (count && (!sums || !distances)))
    return adji_fail(ADJ_E_ARGUMENT, "spec, sums and distances: none may be NULL");
  adji_measure measure;
  adji_call outer = adji_call_current();
  adji_float_state_reset();
  adj_status status = measure_of(spec, type, &measure);
  if (!status) adji_report_distances(&measure, type, sums, count, distances);
  adji_call_set(outer);
  return status;
}

/* Radii r with limit(r) >= s for up to RADII sums s. The distance d of s has a relative error of at most 2^-24 in f32
 * and 2^-44 in f64 (powers have the largest error), and the limit of a radius has p times that error. Both are far
 * below the slack. The limit is computed in f64 and rounded to T last. s is a T and rounding is monotone, so it is
 * enough that the limit is at least s before it is rounded. Sums below the normal numbers are raised to the least
 * normal number, because the relative errors of their roots are not bounded. */
enum { RADII = 256 };

static void radii_of(const adji_measure *measure, adj_type type, uint64_t count, const void *from, double *radii) {
  double least = type == ADJ_F32 ? 0x1p-126 : 0x1p-1022, slack = type == ADJ_F32 ? 0x1p-18 : 0x1p-30;
  double sums[RADII], distances[RADII];
  for (uint64_t i = 0; i < count; i++) {
    double s = type == ADJ_F64 ? ((const double *)from)[i] : (double)((const float *)from)[i];
    sums[i] = s > least ? s : least;
  }
  adji_report_distances(measure, ADJ_F64, sums, count, distances);
  for (uint64_t i = 0; i < count; i++)
    radii[i] = isinf(sums[i]) || measure->step == ADJI_STEP_DOT ? INFINITY : distances[i] * (1 + slack);
}

adj_status adj_sums_radii(const adj_join_spec *spec, adj_type type, uint64_t count, const void *sums, double *radii) {
  if (!spec || (count && (!sums || !radii))) return adji_fail(ADJ_E_ARGUMENT, "spec, sums and radii: none may be NULL");
  adji_measure measure;
  adji_call outer = adji_call_current();
  adji_float_state_reset();
  adj_status status = measure_of(spec, type, &measure);
  for (uint64_t i = 0; i < count && !status; i += RADII) {
    uint64_t many = count - i < RADII ? count - i : RADII;
    radii_of(&measure, type, many, (const char *)sums + i * adji_type_size(type), radii + i);
  }
  adji_call_set(outer);
  return status;
}
