/* SPDX-License-Identifier: MIT
 *
 * Range joins on the software device: counting, and rows in slots.
 */
#include <stdlib.h>
#include <string.h>

#include "software/software.h"

/* Entries per row that a count has room for by default; and the number of rows in a sample. */
enum { ENTRIES_A_ROW = 64, MOST_SAMPLED = 64 };

static adji_software_range *range_of(adji_gpu_range *range) {
  return (adji_software_range *)range;
}
static const adji_software_range *look_at(const adji_gpu_range *range) {
  return (const adji_software_range *)range;
}

static bool wants_sums(const adji_software_range *r) {
  return adji_row_needs_sums(&r->sets.join.style);
}

/* ---- Opening ------------------------------------------------------------------------------------------ */

static adj_status make_order(adji_software_range *r, const uint32_t *wanted) {
  adji_gpu *gpu = r->gpu;
  adj_status status = adji_software_get(gpu, r->rows * 4, "queries", &r->order);
  if (status) return status;
  uint32_t *order = r->order.at;
  if (wanted) return adji_upload_bytes(gpu, wanted, r->rows * 4, order, &r->work);
  for (uint64_t i = 0; i < r->rows; i++)
    order[i] = (uint32_t)(r->rows - 1 - i);
  return ADJ_OK;
}

static adj_status keep_points(adji_software_range *r, adji_gpu_points *out) {
  const adji_software_block *points = &r->sets.right_points;
  adji_software_block copy;
  adj_status status = adji_software_get(r->gpu, points->bytes, "points", &copy);
  if (status) return status;
  memcpy(copy.at, points->at, points->bytes);
  *out = (adji_gpu_points){r->gpu, r->sets.right, copy.bytes};
  out->rows.data = copy.at;
  return ADJ_OK;
}

static adj_status open_parts(adji_software_range *r, const adji_gpu_range_options *o) {
  adji_gpu *gpu = r->gpu;
  if (o->right) {
    r->sets.lent = adji_gpu_right_rows(o->right);
    r->work = adji_software_right_work(o->right);
  }
  adj_status status =
      adji_software_sets_open(gpu, o->join, o->measure, o->left_rows, o->right_rows, &r->sets, &r->work);
  r->rows = o->join->left->count;
  if (!status && o->keep) status = keep_points(r, o->keep);
  if (!status) status = make_order(r, o->order);
  if (!status) status = adji_software_get(gpu, (r->rows + 1) * 4, "neighbour counts", &r->degrees);
  if (!status) status = adji_software_get(gpu, (r->rows + 1) * 8, "row offsets", &r->offsets);
  return status ? status : adji_gpu_mark(gpu, ADJI_MARK_INDEXED);
}

adj_status adji_gpu_range_open(adji_gpu *gpu, const adji_gpu_range_options *options, adji_gpu_range **out) {
  adji_software_range *r = calloc(1, sizeof *r);
  if (!r) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  r->gpu = gpu;
  r->checks_left = options->checks_left;
  r->points = options->points;
  r->single = options->single;
  r->whole = options->tile_hit_candidates > 0 || options->query_hits;
  r->single_pairs = options->single_pairs;
  r->mirrored =
      options->mirrored && options->join->self_join && adji_gpu_can_mirror(options->measure, options->join->left->dim);
  adj_status status = open_parts(r, options);
  if (status)
    adji_gpu_range_close((adji_gpu_range *)r);
  else
    *out = (adji_gpu_range *)r;
  return status;
}

static void free_slots(adji_software_range *r) {
  for (uint32_t i = 0; i < r->slot_count; i++) {
    adji_software_free(r->gpu, &r->slots[i].ids);
    adji_software_free(r->gpu, &r->slots[i].sums);
  }
  r->slot_count = 0;
}

static void free_kept(adji_software_range *r) {
  adji_software_free(r->gpu, &r->kept.pairs);
  adji_software_free(r->gpu, &r->kept.sums);
  r->kept = (adji_software_kept){0};
  r->added = 0;
}

void adji_gpu_range_close(adji_gpu_range *range) {
  adji_software_range *r = range_of(range);
  if (!r) return;
  adji_gpu *gpu = r->gpu;
  adji_software_copy_all(gpu); /* a failed run may have left pending copies */
  free_slots(r);
  free_kept(r);
  adji_software_free(gpu, &r->order);
  adji_software_free(gpu, &r->degrees);
  adji_software_free(gpu, &r->offsets);
  adji_gpu_range_forget_queue(range);
  adji_software_sets_close(gpu, &r->sets);
  free(r);
}

uint64_t adji_gpu_range_cells(const adji_gpu_range *range) {
  return look_at(range)->sets.right.count > 0; /* one cell has all points */
}
adji_device_stats adji_gpu_range_work(adji_gpu_range *range) {
  return look_at(range)->work;
}
const uint32_t *adji_gpu_range_degrees(const adji_gpu_range *range) {
  return look_at(range)->degrees.at;
}
const uint64_t *adji_gpu_range_offsets(const adji_gpu_range *range) {
  return look_at(range)->offsets.at;
}

/* ---- What a count keeps ------------------------------------------------------------------------------- */

static double sum_at(const adji_software_kept *kept, adj_type type, uint64_t i) {
  if (!kept->sums.at) return 0;
  return type == ADJ_F64 ? ((const double *)kept->sums.at)[i] : (double)((const float *)kept->sums.at)[i];
}

/* If there is no room to keep pairs, they are evaluated again. */
static adj_status make_kept(adji_software_range *r, bool both) {
  adji_gpu *gpu = r->gpu;
  uint64_t size = wants_sums(r) ? adji_type_size(r->sets.left.type) : 0;
  uint64_t most = adji_gpu_available(gpu) / 2 / (8 + size);
  free_kept(r);
  uint64_t room = r->single_pairs ? r->single_pairs : r->rows * ENTRIES_A_ROW + 1024;
  if (room > most) return ADJ_OK;
  adj_status status = adji_software_get(gpu, room * 8, "pairs of neighbours", &r->kept.pairs);
  if (!status && size) status = adji_software_get(gpu, room * size, "pairs of neighbours", &r->kept.sums);
  if (status) {
    free_kept(r);
    return status == ADJ_E_DEVICE_MEMORY ? ADJ_OK : status;
  }
  r->kept.form = r->single || both ? ADJI_SOFTWARE_ENTRIES : ADJI_SOFTWARE_WHOLE;
  r->kept.both = both && !r->sets.join.style.one_way;
  r->kept.room = room;
  return ADJ_OK;
}

void adji_software_keep(adji_software_range *r, uint32_t row, const adji_software_entry *entry) {
  adji_software_kept *kept = &r->kept;
  if (kept->form == ADJI_SOFTWARE_NONE) return;
  uint64_t at = kept->count++;
  if (at >= kept->room) return;
  uint32_t *pair = (uint32_t *)kept->pairs.at + 2 * at;
  pair[0] = row;
  pair[1] = entry->id;
  if (!kept->sums.at) return;
  if (r->sets.left.type == ADJ_F64)
    ((double *)kept->sums.at)[at] = entry->sum;
  else
    ((float *)kept->sums.at)[at] = (float)entry->sum;
}

bool adji_gpu_range_forget(adji_gpu_range *range) {
  bool some = look_at(range)->kept.form != ADJI_SOFTWARE_NONE;
  free_kept(range_of(range));
  return some;
}

bool adji_gpu_range_forget_whole(adji_gpu_range *range) {
  return look_at(range)->kept.form == ADJI_SOFTWARE_WHOLE && adji_gpu_range_forget(range);
}

void adji_gpu_range_end_fills(adji_gpu_range *range) {
  free_kept(range_of(range));
  free_slots(range_of(range));
}

/* ---- Counting ----------------------------------------------------------------------------------------- */

/* Adds up the counts once all rows have theirs. */
static adj_status add_up(adji_software_range *r) {
  const uint32_t *degrees = r->degrees.at;
  uint64_t *offsets = r->offsets.at;
  offsets[0] = 0;
  r->counted = (adji_gpu_counted){.candidates = r->found.candidates};
  if (adji_access_by_point(r->points.access)) r->counted.slots = 2 * r->counted.candidates;
  for (uint64_t i = 0; i < r->rows; i++) {
    offsets[i + 1] = offsets[i] + degrees[i];
    if (degrees[i] > r->counted.longest) r->counted.longest = degrees[i];
  }
  r->counted.pairs = offsets[r->rows];
  r->counted.redone = r->kept.form != ADJI_SOFTWARE_NONE && r->kept.count > r->kept.room;
  if (r->counted.redone) free_kept(r);
  adji_software_compared(r->gpu, r->found.candidates);
  return adji_gpu_mark(r->gpu, ADJI_MARK_COUNTED);
}

static adj_status begin_count(adji_software_range *r, bool keep, bool both) {
  adj_status status = adji_software_launch(r->gpu, "range_count");
  if (status) return status;
  r->found = (adji_tally){0};
  r->broken = 0;
  r->added = 0;
  if (keep) return make_kept(r, both);
  free_kept(r);
  return ADJ_OK;
}

static void count_rows(adji_software_range *r, uint64_t first, uint64_t end, adji_software_entry *row) {
  uint32_t *degrees = r->degrees.at;
  for (uint64_t i = first; i < end; i++) {
    uint64_t count = adji_software_find(&r->sets, i, row);
    degrees[i] = (uint32_t)count;
    for (uint64_t j = 0; j < count; j++)
      adji_software_keep(r, (uint32_t)i, &row[j]);
    r->found.pairs += count;
    r->found.candidates += r->sets.right.count;
  }
}

adj_status adji_gpu_range_count(adji_gpu_range *range, bool fills, uint64_t first, uint64_t queries) {
  adji_software_range *r = range_of(range);
  uint64_t begin = adji_now_ns(), remaining = r->rows - first;
  adj_status status =
      first ? adji_software_launch(r->gpu, "range_count") : begin_count(r, fills && (r->single || r->whole), false);
  if (status) return status;
  adji_software_entry *row = adji_software_make_row(&r->sets);
  if (!row) return ADJ_E_MEMORY;
  count_rows(r, first, queries < remaining ? first + queries : r->rows, row);
  free(row);
  adji_software_at_work(r->gpu);
  adji_software_worked(&r->work, begin);
  return queries < remaining ? ADJ_OK : add_up(r);
}

adj_status adji_gpu_range_so_far(adji_gpu_range *range, adji_tally *found) {
  adj_status status = adji_software_turn(look_at(range)->gpu, "range_so_far");
  if (!status) *found = look_at(range)->found;
  return status;
}

adj_status adji_gpu_range_counted(adji_gpu_range *range, adji_gpu_counted *out) {
  adj_status status = adji_software_turn(look_at(range)->gpu, "range_counted");
  if (!status && look_at(range)->checks_left) status = adji_software_check_left(&look_at(range)->sets);
  if (!status) *out = look_at(range)->counted;
  return status;
}

static adj_status no_room_for_pairs(void) {
  return adji_fail(ADJ_E_DEVICE_MEMORY, "software device: no room for all pairs of neighbours");
}

adj_status adji_gpu_range_begin_count(adji_gpu_range *range, bool keep) {
  adji_software_range *r = range_of(range);
  if (!r->mirrored) return adji_fail(ADJ_E_UNSUPPORTED, "software device: it was not asked to find pairs once");
  adj_status status = begin_count(r, keep, true);
  if (status) return status;
  memset(r->degrees.at, 0, (r->rows + 1) * 4);
  return keep && r->kept.form == ADJI_SOFTWARE_NONE ? no_room_for_pairs() : ADJ_OK;
}

adj_status adji_gpu_range_add(adji_gpu_range *range, uint64_t pairs, adji_gpu_more *out) {
  adji_software_range *r = range_of(range);
  adji_software_kept *kept = &r->kept;
  adj_status status = adji_software_turn(r->gpu, "range_add");
  if (status) return status;
  if (kept->form != ADJI_SOFTWARE_ENTRIES || kept->count > kept->room || pairs > kept->room - kept->count)
    return no_room_for_pairs();
  r->added = pairs;
  out->pairs = (uint32_t *)kept->pairs.at + 2 * kept->count;
  out->sums = kept->sums.at ? (char *)kept->sums.at + kept->count * adji_type_size(r->sets.left.type) : NULL;
  return ADJ_OK;
}

static void count_added(adji_software_range *r) {
  if (!r->added || !r->kept.pairs.at) return;
  const uint32_t *added = (const uint32_t *)r->kept.pairs.at + 2 * r->kept.count;
  uint32_t *degrees = r->degrees.at;
  for (uint64_t i = 0; added && i < r->added; i++) {
    degrees[added[2 * i]]++;
    if (r->kept.both) degrees[added[2 * i + 1]]++;
  }
  r->kept.count += r->added;
}

adj_status adji_gpu_range_end_count(adji_gpu_range *range, adji_gpu_counted *out) {
  adji_software_range *r = range_of(range);
  bool keep = r->kept.form == ADJI_SOFTWARE_ENTRIES;
  adj_status status = adji_software_launch(r->gpu, "range_end_count");
  if (status) return status;
  count_added(r);
  status = add_up(r);
  if (status) return status;
  *out = r->counted;
  return keep && out->redone ? no_room_for_pairs() : ADJ_OK;
}

adj_status adji_gpu_range_sample(adji_gpu_range *range, uint64_t sample, double *pairs, double *candidates) {
  adji_software_range *r = range_of(range);
  uint64_t begin = adji_now_ns(), found = 0;
  adj_status status = adji_software_launch(r->gpu, "range_sample");
  if (status) return status;
  adji_software_entry *row = adji_software_make_row(&r->sets);
  if (!row) return ADJ_E_MEMORY;
  if (sample > MOST_SAMPLED) sample = MOST_SAMPLED;
  if (sample > r->rows) sample = r->rows;
  for (uint64_t i = 0; i < sample; i++)
    found += adji_software_find(&r->sets, i * r->rows / sample, row);
  free(row);
  double scale = sample ? (double)r->rows / (double)sample : 0;
  *pairs = (double)found * scale;
  *candidates = (double)r->rows * (double)r->sets.right.count;
  adji_software_worked(&r->work, begin);
  return ADJ_OK;
}

/* All queries have the same number of candidates, so any order is sorted by candidates. */
static adj_status make_queue(adji_software_range *r, uint64_t step, uint64_t samples) {
  adj_status status = adji_software_get(r->gpu, r->rows * 4, "queue", &r->queue_rows);
  if (!status) status = adji_software_get(r->gpu, samples * 4, "queue", &r->queue_counts);
  adji_software_entry *row = status ? NULL : adji_software_make_row(&r->sets);
  if (!row) return status ? status : ADJ_E_MEMORY;
  uint32_t *rows = r->queue_rows.at, *counts = r->queue_counts.at;
  for (uint64_t i = 0; i < r->rows; i++)
    rows[i] = (uint32_t)(i % 2 ? i / 2 : r->rows - 1 - i / 2);
  for (uint64_t i = 0; i < samples; i++)
    counts[i] = (uint32_t)adji_software_find(&r->sets, rows[i * step], row);
  free(row);
  return ADJ_OK;
}

adj_status adji_gpu_range_make_queue(adji_gpu_range *range, double part, adji_gpu_queue *out) {
  adji_software_range *r = range_of(range);
  uint64_t step = adji_queue_step(r->rows, part), samples = (r->rows + step - 1) / step;
  adji_gpu_range_forget_queue(range);
  adj_status status = adji_software_launch(r->gpu, "range_make_queue");
  if (!status) status = make_queue(r, step, samples);
  if (!status) *out = (adji_gpu_queue){r->queue_rows.at, r->queue_counts.at, samples, step};
  return status;
}

void adji_gpu_range_forget_queue(adji_gpu_range *range) {
  adji_software_free(range_of(range)->gpu, &range_of(range)->queue_rows);
  adji_software_free(range_of(range)->gpu, &range_of(range)->queue_counts);
}

adj_status adji_gpu_range_copy_degrees(adji_gpu_range *range, uint32_t *to) {
  const adji_software_range *r = look_at(range);
  adj_status status = adji_software_turn(r->gpu, "range_copy_degrees");
  if (!status && r->rows) memcpy(to, r->degrees.at, r->rows * 4);
  return status;
}

void adji_gpu_range_forget_degrees(adji_gpu_range *range) {
  adji_software_free(range_of(range)->gpu, &range_of(range)->degrees);
}

/* ---- Slots -------------------------------------------------------------------------------------------- */

adj_status adji_gpu_range_slots(adji_gpu_range *range, uint32_t count, uint64_t pairs) {
  adji_software_range *r = range_of(range);
  adji_gpu *gpu = r->gpu;
  if (r->slot_count == count && r->slot_pairs == pairs) return ADJ_OK;
  adji_software_copy_all(gpu);
  free_slots(r);
  uint64_t size = adji_type_size(r->sets.left.type);
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < count && !status; i++) {
    r->slot_count = i + 1;
    status = adji_software_get(gpu, adji_mul(pairs, 4), "batch of the result", &r->slots[i].ids);
    if (!status && wants_sums(r))
      status = adji_software_get(gpu, adji_mul(pairs, size), "batch of the result", &r->slots[i].sums);
  }
  r->slot_pairs = pairs;
  if (status) free_slots(r);
  return status;
}

/* The rows of a window that go to a slot. */
typedef struct filling {
  adji_software_range *range;
  const adji_gpu_window *window;
  uint32_t slot;
} filling;

/* Leaves out a row whose length is not the counted one. The check reports it. */
static void put_row(const filling *f, uint64_t i, adji_software_entry *row, uint64_t count) {
  adji_software_range *r = f->range;
  const uint64_t *offsets = r->offsets.at;
  bool fits = count == offsets[i + 1] - offsets[i] && offsets[i + 1] - f->window->base <= r->slot_pairs;
  r->broken += !fits;
  if (!fits) return;
  adji_software_sort(row, count, r->sets.join.style.order);
  adji_software_put(r->sets.left.type, row, count, offsets[i] - f->window->base, r->slots[f->slot].ids.at,
                    r->slots[f->slot].sums.at);
}

static adj_status evaluate_again(const filling *f) {
  adji_software_entry *row = adji_software_make_row(&f->range->sets);
  if (!row) return ADJ_E_MEMORY;
  for (uint64_t i = f->window->first_row; i < f->window->end_row; i++)
    put_row(f, i, row, adji_software_find(&f->range->sets, i, row));
  free(row);
  return ADJ_OK;
}

/* Adds an entry to its row if the row is in the window and has room. counts: entries that each row has so far. */
static void deal(const filling *f, uint32_t row, adji_software_entry entry, adji_software_entry *to, uint64_t *counts) {
  const adji_gpu_window *w = f->window;
  const uint64_t *offsets = f->range->offsets.at;
  if (row < w->first_row || row >= w->end_row) return;
  uint64_t at = offsets[row] + counts[row - w->first_row]++;
  if (at < offsets[row + (uint64_t)1]) to[at - w->base] = entry;
}

static void deal_kept(const filling *f, adji_software_entry *to, uint64_t *counts) {
  const adji_software_kept *kept = &f->range->kept;
  const uint32_t *pairs = kept->pairs.at;
  for (uint64_t i = 0; i < kept->count; i++) {
    double sum = sum_at(kept, f->range->sets.left.type, i);
    uint32_t a = pairs[2 * i], b = pairs[2 * i + 1];
    deal(f, a, (adji_software_entry){sum, b}, to, counts);
    if (kept->both) deal(f, b, (adji_software_entry){sum, a}, to, counts);
  }
}

static adj_status place_kept(const filling *f) {
  const adji_gpu_window *w = f->window;
  const uint64_t *offsets = f->range->offsets.at;
  adji_software_entry *entries = malloc((w->pairs + 1) * sizeof *entries);
  uint64_t *counts = calloc(w->end_row - w->first_row + 1, sizeof *counts);
  adj_status status = entries && counts ? ADJ_OK : adji_fail(ADJ_E_MEMORY, "no memory for rows");
  if (!status) {
    deal_kept(f, entries, counts);
    for (uint64_t i = w->first_row; i < w->end_row; i++)
      put_row(f, i, entries + (offsets[i] - w->base), counts[i - w->first_row]);
  }
  free(entries);
  free(counts);
  return status;
}

adj_status adji_gpu_range_fill(adji_gpu_range *range, const adji_gpu_window *window, uint32_t slot) {
  adji_software_range *r = range_of(range);
  uint64_t begin = adji_now_ns();
  bool all = window->end_row - window->first_row == r->rows;
  bool kept = r->kept.form == ADJI_SOFTWARE_ENTRIES || (r->kept.form == ADJI_SOFTWARE_WHOLE && all);
  filling f = {r, window, slot};
  adj_status status = adji_software_launch(r->gpu, "range_fill");
  if (!status) status = kept ? place_kept(&f) : evaluate_again(&f);
  adji_software_worked(&r->work, begin);
  if (!status) status = adji_gpu_mark(r->gpu, ADJI_MARK_FILLED);
  return status ? status : adji_gpu_mark(r->gpu, ADJI_MARK_SORTED);
}

adj_status adji_gpu_range_fetch(adji_gpu_range *range, uint32_t slot, adji_gpu_part part, uint64_t first,
                                uint64_t entries, uint32_t buffer) {
  const adji_software_range *r = look_at(range);
  uint64_t size = part == ADJI_PART_IDS ? 4 : adji_type_size(r->sets.left.type);
  const char *from = part == ADJI_PART_IDS ? r->slots[slot].ids.at : r->slots[slot].sums.at;
  return adji_software_fetch(r->gpu, buffer, 0, from + first * size, entries * size);
}

adj_status adji_gpu_range_release(adji_gpu_range *range, uint32_t slot) {
  (void)slot;
  adj_status status = adji_software_turn(look_at(range)->gpu, "range_release");
  if (!status) adji_software_copy_all(look_at(range)->gpu);
  return status;
}

adj_status adji_gpu_range_check(adji_gpu_range *range) {
  adj_status status = adji_software_turn(look_at(range)->gpu, "range_check");
  if (status || !look_at(range)->broken) return status;
  return adji_fail(ADJ_E_INTERNAL, "software device: %llu rows are not as long as they were counted",
                   (unsigned long long)look_at(range)->broken);
}

/* ---- Results that stay -------------------------------------------------------------------------------- */

adj_status adji_gpu_range_take(adji_gpu_range *range, uint32_t slot, adji_gpu_csr *out) {
  adji_software_range *r = range_of(range);
  adji_software_block *ids = &r->slots[slot].ids, *sums = &r->slots[slot].sums;
  adj_status status = adji_software_launch(r->gpu, "range_take");
  if (status) return status;
  if (r->sets.join.style.distances)
    adji_report_distances(&r->sets.measure, r->sets.left.type, sums->at, r->counted.pairs, sums->at);
  else
    adji_software_free(r->gpu, sums);
  *out = (adji_gpu_csr){r->gpu, r->rows, r->counted.pairs, r->offsets.at, ids->at, sums->at, {0}};
  out->bytes[0] = r->offsets.bytes;
  out->bytes[1] = ids->bytes;
  out->bytes[2] = sums->bytes;
  r->offsets = *ids = *sums = (adji_software_block){0};
  return ADJ_OK;
}

void adji_gpu_csr_free(adji_gpu_csr *csr, void *stream) {
  (void)stream;
  void *parts[] = {csr->offsets, csr->ids, csr->distances};
  for (int i = 0; i < 3; i++)
    adji_software_free(csr->gpu, &(adji_software_block){parts[i], csr->bytes[i]});
}
