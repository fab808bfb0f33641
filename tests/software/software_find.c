/* SPDX-License-Identifier: MIT
 *
 * The kernels of the software device: sets of points, and the neighbours of a row among all candidates.
 */
#include <math.h>
#include <stdlib.h>

#include "software/software.h"

/* Rows with up to this many neighbours are kept in order while they are found. */
enum { MOST_INSERTED = 64 };

/* ---- Sets --------------------------------------------------------------------------------------------- */

double adji_software_value(const adji_gpu_rows *rows, uint64_t row, uint32_t j) {
  uint64_t at = row * rows->row_stride + j * rows->column_stride;
  return rows->type == ADJ_F64 ? ((const double *)rows->data)[at] : (double)((const float *)rows->data)[at];
}

void adji_software_put_value(adj_type type, void *to, uint64_t at, double x) {
  if (type == ADJ_F64)
    ((double *)to)[at] = x;
  else
    ((float *)to)[at] = (float)x;
}

void adji_software_copy_rows(const adji_gpu_rows *from, void *to) {
  for (uint64_t i = 0; i < from->count; i++)
    for (uint32_t j = 0; j < from->dim; j++)
      adji_software_put_value(from->type, to, i * from->dim + j, adji_software_value(from, i, j));
}

/* Copies from the host go through pinned buffers, as for a GPU. Points that are on the device are copied too, as by the
 * index of a GPU, because their owner may free them. */
static adj_status fetch(adji_gpu *gpu, const adj_dataset *set, const adji_gpu_rows *given, adji_gpu_rows *rows,
                        adji_software_block *points, adji_device_stats *work) {
  uint64_t count = given ? given->count : set->count;
  uint32_t dim = given ? given->dim : set->dim;
  adj_type type = given ? given->type : set->type;
  adj_status status = adji_software_get(gpu, adji_mul(count * dim, adji_type_size(type)), "points", points);
  if (status) return status;
  *rows = (adji_gpu_rows){points->at, type, dim, count, dim, 1};
  if (!given) return adji_upload(gpu, set, points->at, work);
  adji_software_copy_rows(given, points->at);
  return ADJ_OK;
}

adj_status adji_software_sets_open(adji_gpu *gpu, const adji_join *join, const adji_measure *measure,
                                   const adji_gpu_rows *given_left, const adji_gpu_rows *given_right,
                                   adji_software_sets *out, adji_device_stats *work) {
  out->join = *join;
  out->measure = *measure;
  adj_status status = ADJ_OK;
  if (out->lent)
    out->right = *out->lent;
  else
    status = fetch(gpu, join->right, given_right, &out->right, &out->right_points, work);
  out->left = out->right;
  if (!status && !join->self_join) status = fetch(gpu, join->left, given_left, &out->left, &out->left_points, work);
  return status;
}

adj_status adji_software_sets_ask(adji_gpu *gpu, const adj_dataset *left, adji_software_sets *sets,
                                  adji_device_stats *work) {
  adji_software_free(gpu, &sets->left_points);
  sets->join.left = left;
  sets->join.self_join = false;
  sets->join.limits = NULL;
  return fetch(gpu, left, NULL, &sets->left, &sets->left_points, work);
}

void adji_software_sets_close(adji_gpu *gpu, adji_software_sets *sets) {
  adji_software_free(gpu, &sets->left_points);
  adji_software_free(gpu, &sets->right_points);
}

adj_status adji_software_check_left(const adji_software_sets *s) {
  for (uint64_t i = 0; i < s->left.count; i++)
    for (uint32_t j = 0; j < s->left.dim; j++)
      if (!isfinite(adji_software_value(&s->left, i, j)))
        return adji_gpu_refuse_value(i * s->left.dim + j, s->left.dim);
  return ADJ_OK;
}

/* ---- Rows --------------------------------------------------------------------------------------------- */

/* On x86 fmaf() is a function call unless the compiler may use the FMA instruction. */
#if defined __x86_64__
#define WITH_FMA __attribute__((target("fma")))
#define HAS_FMA __builtin_cpu_supports("fma")
#else
#define WITH_FMA
#define HAS_FMA true
#endif

/* These functions take most of the time of a software device, so sanitizers are off here. They saw the reads of the
 * points when these were checked. */
#define UNCHECKED __attribute__((no_sanitize("address", "undefined")))

/* The sum of L2 in f32. */
WITH_FMA UNCHECKED static float fused_sum(const adji_gpu_rows *l, uint64_t row, const adji_gpu_rows *r, uint64_t id) {
  const float *a = (const float *)l->data + row * l->row_stride, *b = (const float *)r->data + id * r->row_stride;
  float s = 0;
  for (uint32_t j = 0; j < l->dim; j++) {
    float t = a[j * l->column_stride] - b[j * r->column_stride];
    s = __builtin_fmaf(t, t, s);
  }
  return s;
}

UNCHECKED double adji_software_sum(const adji_software_sets *s, uint64_t row, uint64_t id) {
  const adji_gpu_rows *l = &s->left, *r = &s->right;
  if (l->type == ADJ_F32 && s->measure.step == ADJI_STEP_L2 && HAS_FMA) return (double)fused_sum(l, row, r, id);
  uint64_t from = row * l->row_stride, to = id * r->row_stride;
  if (l->type == ADJ_F64)
    return adji_sum_f64(&s->measure, (const double *)l->data + from, l->column_stride, (const double *)r->data + to,
                        r->column_stride, l->dim);
  return (double)adji_sum_f32(&s->measure, (const float *)l->data + from, l->column_stride, (const float *)r->data + to,
                              r->column_stride, l->dim);
}

adji_software_entry *adji_software_make_row(const adji_software_sets *sets) {
  adji_software_entry *row = malloc((sets->right.count + 1) * sizeof *row);
  if (!row) adji_fail(ADJ_E_MEMORY, "no memory for a row");
  return row;
}

uint64_t adji_software_find(const adji_software_sets *s, uint64_t row, adji_software_entry *to) {
  const adji_row_style *style = &s->join.style;
  uint64_t count = 0, first = style->one_way ? row + 1 : 0;
  for (uint64_t id = first; id < s->right.count; id++) {
    if (style->drop_self && id == row) continue;
    double sum = adji_software_sum(s, row, id);
    if (sum <= adji_join_limit(&s->join, row)) to[count++] = (adji_software_entry){sum, (uint32_t)id};
  }
  return count;
}

static int by_id(const void *a, const void *b) {
  const adji_software_entry *x = a, *y = b;
  return (x->id > y->id) - (x->id < y->id);
}

static int by_sum(const void *a, const void *b) {
  const adji_software_entry *x = a, *y = b;
  int order = (x->sum > y->sum) - (x->sum < y->sum);
  return order ? order : by_id(a, b);
}

static void reverse(adji_software_entry *entries, uint64_t count) {
  for (uint64_t i = 0; i < count / 2; i++) {
    adji_software_entry first = entries[i];
    entries[i] = entries[count - 1 - i];
    entries[count - 1 - i] = first;
  }
}

void adji_software_sort(adji_software_entry *entries, uint64_t count, adj_order order) {
  if (order == ADJ_ORDER_ANY)
    reverse(entries, count);
  else if (count)
    qsort(entries, count, sizeof *entries, order == ADJ_ORDER_ID ? by_id : by_sum);
}

uint64_t adji_software_nearest(const adji_software_sets *s, uint64_t row, adji_software_entry *to) {
  const adji_join *join = &s->join;
  uint64_t count = 0;
  if (join->k > MOST_INSERTED) {
    count = adji_software_find(s, row, to);
    adji_software_sort(to, count, ADJ_ORDER_DISTANCE);
    return count < join->k ? count : join->k;
  }
  for (uint64_t id = 0; id < s->right.count; id++) {
    if (join->style.drop_self && id == row) continue;
    adji_software_entry entry = {adji_software_sum(s, row, id), (uint32_t)id};
    if (!(entry.sum <= adji_join_limit(join, row)) || (count == join->k && by_sum(&entry, &to[count - 1]) > 0))
      continue;
    uint64_t at = count < join->k ? count++ : count - 1;
    for (; at && by_sum(&entry, &to[at - 1]) < 0; at--)
      to[at] = to[at - 1];
    to[at] = entry;
  }
  return count;
}

void adji_software_put(adj_type type, const adji_software_entry *entries, uint64_t count, uint64_t at, uint32_t *ids,
                       void *sums) {
  for (uint64_t i = 0; i < count; i++) {
    ids[at + i] = entries[i].id;
    if (sums && type == ADJ_F64) ((double *)sums)[at + i] = entries[i].sum;
    if (sums && type == ADJ_F32) ((float *)sums)[at + i] = (float)entries[i].sum;
  }
}

void adji_software_worked(adji_device_stats *work, uint64_t begin_ns) {
  work->kernel_s += (double)(adji_now_ns() - begin_ns) * 1e-9;
}
