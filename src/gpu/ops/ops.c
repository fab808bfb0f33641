/* SPDX-License-Identifier: MIT
 *
 * The functions of devices that host code calls: each calls the operation of the device's table, see ops.h.
 */
#include "gpu/ops/ops.h"

/* ---- The device -------------------------------------------------------------------------------------- */

uint32_t adji_gpu_multiprocessors(const adji_gpu *gpu) {
  return adji_ops_of(gpu)->multiprocessors(gpu);
}
adj_status adji_gpu_wait(adji_gpu *gpu) {
  return adji_ops_of(gpu)->wait(gpu);
}
bool adji_gpu_busy(adji_gpu *gpu) {
  return adji_ops_of(gpu)->busy(gpu);
}
void adji_gpu_quiesce(adji_gpu *gpu) {
  adji_ops_of(gpu)->quiesce(gpu);
}
adj_status adji_gpu_mark(adji_gpu *gpu, adji_mark mark) {
  return adji_ops_of(gpu)->mark(gpu, mark);
}
double adji_gpu_between(adji_gpu *gpu, adji_mark from, adji_mark to) {
  return adji_ops_of(gpu)->between(gpu, from, to);
}
uint64_t adji_gpu_last_candidates(const adji_gpu *gpu) {
  return adji_ops_of(gpu)->last_candidates(gpu);
}
uint64_t adji_gpu_last_slots(const adji_gpu *gpu) {
  return adji_ops_of(gpu)->last_slots(gpu);
}
adj_status adji_gpu_after(adji_gpu *gpu, void *stream) {
  return adji_ops_of(gpu)->after(gpu, stream);
}
adj_status adji_gpu_before(adji_gpu *gpu, void *stream) {
  return adji_ops_of(gpu)->before(gpu, stream);
}

/* ---- Pinned buffers ---------------------------------------------------------------------------------- */

adj_status adji_staging_open(adji_gpu *gpu, uint32_t count) {
  return adji_ops_of(gpu)->staging_open(gpu, count);
}
void *adji_staging_at(adji_gpu *gpu, uint32_t buffer) {
  return adji_ops_of(gpu)->staging_at(gpu, buffer);
}
adj_status adji_staging_send(adji_gpu *gpu, uint32_t buffer, void *to_device, uint64_t bytes) {
  return adji_ops_of(gpu)->staging_send(gpu, buffer, to_device, bytes);
}
adj_status adji_staging_receive(adji_gpu *gpu, uint32_t buffer, const void *from_device, uint64_t bytes) {
  return adji_ops_of(gpu)->staging_receive(gpu, buffer, from_device, bytes);
}
adj_status adji_staging_wait(adji_gpu *gpu, uint32_t buffer) {
  return adji_ops_of(gpu)->staging_wait(gpu, buffer);
}
adj_status adji_staging_here(adji_gpu *gpu, uint32_t buffer, bool *here) {
  return adji_ops_of(gpu)->staging_here(gpu, buffer, here);
}

/* ---- Points ------------------------------------------------------------------------------------------ */

adj_status adji_gpu_survey(adji_gpu *gpu, const adji_gpu_rows *points, double *low, double *high, uint64_t sample,
                           void *rows) {
  return adji_ops_of(gpu)->survey(gpu, points, low, high, sample, rows);
}
adj_status adji_gpu_derive_units(adji_gpu *gpu, const adji_gpu_rows *rows, adji_gpu_points *out) {
  return adji_ops_of(gpu)->derive_units(gpu, rows, out);
}
adj_status adji_gpu_derive_sphere(adji_gpu *gpu, const adji_gpu_rows *rows, adj_angle angle, adji_gpu_points *out) {
  return adji_ops_of(gpu)->derive_sphere(gpu, rows, angle, out);
}
void adji_gpu_points_free(adji_gpu_points *points) {
  if (points->gpu) adji_ops_of(points->gpu)->points_free(points);
}

/* ---- Range joins ------------------------------------------------------------------------------------- */

adj_status adji_gpu_range_open(adji_gpu *gpu, const adji_gpu_range_options *options, adji_gpu_range **out) {
  return adji_ops_of(gpu)->range_open(gpu, options, out);
}
void adji_gpu_range_close(adji_gpu_range *range) {
  if (range) adji_ops_on(range)->range_close(range);
}
uint64_t adji_gpu_range_cells(const adji_gpu_range *range) {
  return adji_ops_on(range)->range_cells(range);
}
adji_device_stats adji_gpu_range_work(adji_gpu_range *range) {
  return adji_ops_on(range)->range_work(range);
}
const uint32_t *adji_gpu_range_degrees(const adji_gpu_range *range) {
  return adji_ops_on(range)->range_degrees(range);
}
const uint64_t *adji_gpu_range_offsets(const adji_gpu_range *range) {
  return adji_ops_on(range)->range_offsets(range);
}
adj_status adji_gpu_range_counted(adji_gpu_range *range, adji_gpu_counted *out) {
  return adji_ops_on(range)->range_counted(range, out);
}
adj_status adji_gpu_range_count(adji_gpu_range *range, bool fills, uint64_t first, uint64_t queries) {
  return adji_ops_on(range)->range_count(range, fills, first, queries);
}
adj_status adji_gpu_range_so_far(adji_gpu_range *range, adji_tally *found) {
  return adji_ops_on(range)->range_so_far(range, found);
}
adj_status adji_gpu_range_begin_count(adji_gpu_range *range, bool keep) {
  return adji_ops_on(range)->range_begin_count(range, keep);
}
adj_status adji_gpu_range_add(adji_gpu_range *range, uint64_t pairs, adji_gpu_more *out) {
  return adji_ops_on(range)->range_add(range, pairs, out);
}
adj_status adji_gpu_range_end_count(adji_gpu_range *range, adji_gpu_counted *out) {
  return adji_ops_on(range)->range_end_count(range, out);
}
adj_status adji_gpu_range_copy_degrees(adji_gpu_range *range, uint32_t *to) {
  return adji_ops_on(range)->range_copy_degrees(range, to);
}
void adji_gpu_range_forget_degrees(adji_gpu_range *range) {
  adji_ops_on(range)->range_forget_degrees(range);
}
adj_status adji_gpu_range_sample(adji_gpu_range *range, uint64_t sample, double *pairs, double *candidates) {
  return adji_ops_on(range)->range_sample(range, sample, pairs, candidates);
}
adj_status adji_gpu_range_slots(adji_gpu_range *range, uint32_t count, uint64_t pairs) {
  return adji_ops_on(range)->range_slots(range, count, pairs);
}
adj_status adji_gpu_range_fill(adji_gpu_range *range, const adji_gpu_window *window, uint32_t slot) {
  return adji_ops_on(range)->range_fill(range, window, slot);
}
adj_status adji_gpu_range_take(adji_gpu_range *range, uint32_t slot, adji_gpu_csr *out) {
  return adji_ops_on(range)->range_take(range, slot, out);
}
void adji_gpu_csr_free(adji_gpu_csr *csr, void *stream) {
  if (csr->gpu) adji_ops_of(csr->gpu)->csr_free(csr, stream);
}
adj_status adji_gpu_range_fetch(adji_gpu_range *range, uint32_t slot, adji_gpu_part part, uint64_t first,
                                uint64_t entries, uint32_t buffer) {
  return adji_ops_on(range)->range_fetch(range, slot, part, first, entries, buffer);
}
adj_status adji_gpu_range_release(adji_gpu_range *range, uint32_t slot) {
  return adji_ops_on(range)->range_release(range, slot);
}
bool adji_gpu_range_forget(adji_gpu_range *range) {
  return adji_ops_on(range)->range_forget(range);
}
bool adji_gpu_range_forget_whole(adji_gpu_range *range) {
  return adji_ops_on(range)->range_forget_whole(range);
}
void adji_gpu_range_end_fills(adji_gpu_range *range) {
  adji_ops_on(range)->range_end_fills(range);
}
adj_status adji_gpu_range_check(adji_gpu_range *range) {
  return adji_ops_on(range)->range_check(range);
}

/* ---- Lists of queries -------------------------------------------------------------------------------- */

adj_status adji_gpu_lists_open(adji_gpu_range *range, adji_gpu_lists **out) {
  return adji_ops_on(range)->lists_open(range, out);
}
void adji_gpu_lists_close(adji_gpu_lists *lists) {
  if (lists) adji_ops_on(lists)->lists_close(lists);
}
adj_status adji_gpu_lists_follow(adji_gpu_lists *lists, const uint32_t *rows) {
  return adji_ops_on(lists)->lists_follow(lists, rows);
}
adj_status adji_gpu_lists_begin(adji_gpu_lists *lists, adji_lists_request *request) {
  return adji_ops_on(lists)->lists_begin(lists, request);
}
void adji_gpu_lists_end(adji_gpu_lists *lists) {
  adji_ops_on(lists)->lists_end(lists);
}
adj_status adji_gpu_lists_list(adji_gpu_lists *lists, const adji_list_ranges *list, uint32_t slot, uint32_t buffer,
                               uint64_t *rows) {
  return adji_ops_on(lists)->lists_list(lists, list, slot, buffer, rows);
}
adj_status adji_gpu_lists_listed(adji_gpu_lists *lists, uint32_t slot, adji_tally *found) {
  return adji_ops_on(lists)->lists_listed(lists, slot, found);
}
adj_status adji_gpu_lists_fetch(adji_gpu_lists *lists, uint32_t slot, const adji_list_stretch *stretch,
                                uint32_t buffer) {
  return adji_ops_on(lists)->lists_fetch(lists, slot, stretch, buffer);
}

/* ---- kNN joins --------------------------------------------------------------------------------------- */

adj_status adji_gpu_knn_open(adji_gpu *gpu, const adji_gpu_knn_options *options, adji_gpu_knn **out) {
  return adji_ops_of(gpu)->knn_open(gpu, options, out);
}
void adji_gpu_knn_close(adji_gpu_knn *knn) {
  if (knn) adji_ops_on(knn)->knn_close(knn);
}
uint64_t adji_gpu_knn_chunk(const adji_gpu_knn *knn) {
  return adji_ops_on(knn)->knn_chunk(knn);
}
adj_status adji_gpu_knn_begin(adji_gpu_knn *knn, uint64_t row, adji_gpu_table *out) {
  return adji_ops_on(knn)->knn_begin(knn, row, out);
}
adj_status adji_gpu_knn_end(adji_gpu_knn *knn) {
  return adji_ops_on(knn)->knn_end(knn);
}
adj_status adji_gpu_knn_take(adji_gpu_knn *knn, adji_gpu_csr *out) {
  return adji_ops_on(knn)->knn_take(knn, out);
}
adji_device_stats adji_gpu_knn_work(adji_gpu_knn *knn) {
  return adji_ops_on(knn)->knn_work(knn);
}
adji_gpu_knn_effort adji_gpu_knn_effort_of(const adji_gpu_knn *knn) {
  return adji_ops_on(knn)->knn_effort_of(knn);
}
adj_status adji_gpu_knn_follow(adji_gpu_knn *knn, const uint32_t *rows) {
  return adji_ops_on(knn)->knn_follow(knn, rows);
}
adj_status adji_gpu_knn_begin_lists(adji_gpu_knn *knn, uint64_t first_row, uint64_t end_row, uint64_t *queries) {
  return adji_ops_on(knn)->knn_begin_lists(knn, first_row, end_row, queries);
}
void adji_gpu_knn_end_lists(adji_gpu_knn *knn) {
  adji_ops_on(knn)->knn_end_lists(knn);
}
adj_status adji_gpu_knn_list(adji_gpu_knn *knn, const adji_batch *ranges, uint64_t count, uint32_t slot,
                             uint32_t buffer, uint64_t *rows) {
  return adji_ops_on(knn)->knn_list(knn, ranges, count, slot, buffer, rows);
}
adj_status adji_gpu_knn_listed(adji_gpu_knn *knn, uint32_t slot, uint64_t *candidates) {
  return adji_ops_on(knn)->knn_listed(knn, slot, candidates);
}
adj_status adji_gpu_knn_missed(adji_gpu_knn *knn, uint32_t slot, uint32_t *to, uint64_t *count) {
  return adji_ops_on(knn)->knn_missed(knn, slot, to, count);
}
adj_status adji_gpu_knn_fetch(adji_gpu_knn *knn, uint32_t slot, uint64_t first, uint64_t rows, bool distances,
                              uint32_t buffer) {
  return adji_ops_on(knn)->knn_fetch(knn, slot, first, rows, distances, buffer);
}

/* ---- Selection --------------------------------------------------------------------------------------- */

adj_status adji_gpu_select_rows(adji_gpu *gpu, const adji_gpu_select *job) {
  return adji_ops_of(gpu)->select_rows(gpu, job);
}
