/* SPDX-License-Identifier: MIT
 *
 * Single evaluation: what devices found.
 */
#include "cpu/single_parts.h"

#include "result/offsets.h"

static adj_status fetch_counts(const adji_join *join, adji_run *run, const adji_worker *from, adji_part *to) {
  adji_memory *memory = &join->ctx->memory;
  uint64_t rows = join->left->count;
  uint32_t *counts = adji_alloc(memory, rows, sizeof *counts, "neighbour counts");
  to->offsets = adji_alloc(memory, rows + 1, sizeof *to->offsets, "row offsets");
  adj_status status = counts && to->offsets ? from->counts(from->state, run, counts) : ADJ_E_MEMORY;
  if (!status) status = adji_offsets_add_up(join->ctx, counts, rows, to->offsets);
  adji_free(memory, counts);
  return status;
}

static adj_status fetch_rows(const adji_join *join, adji_run *run, const adji_worker *from, adji_part *to) {
  adji_memory *memory = &join->ctx->memory;
  uint64_t rows = join->left->count, pairs = to->offsets[rows];
  to->ids = adji_alloc(memory, pairs, sizeof *to->ids, "pairs");
  if (!to->ids) return ADJ_E_MEMORY;
  if (adji_row_needs_sums(&join->style)) {
    to->sums = adji_alloc(memory, pairs, adji_type_size(join->style.type), "pairs");
    if (!to->sums) return ADJ_E_MEMORY;
  }
  return from->rows(from->state, run, &(adji_window){0, rows, to->offsets, to->ids, to->sums, 0});
}

static void clear_part(adji_part *part, adji_memory *memory) {
  adji_free(memory, part->offsets);
  adji_free(memory, part->ids);
  adji_free(memory, part->sums);
}

adj_status adji_parts_add(adji_parts *parts, const adji_join *join, adji_run *run, const adji_worker *from, bool keep) {
  adji_part part = {0};
  uint64_t begin = adji_now_ns();
  adj_status status = fetch_counts(join, run, from, &part);
  if (!status && keep) status = fetch_rows(join, run, from, &part);
  adji_trace(join->ctx, "fetch", 0, begin, join->left->count);
  if (status)
    clear_part(&part, &join->ctx->memory);
  else
    parts->each[parts->count++] = part;
  return status;
}

static adj_status fetch_result(const adji_join *join, adji_run *run, const adji_worker *from, adji_part *to) {
  adji_memory *memory = &join->ctx->memory;
  uint64_t rows = join->left->count, pairs = to->offsets[rows];
  adj_status status = adji_run_check_pairs(run, pairs);
  if (status) return status;
  to->ids = adji_alloc(memory, pairs, sizeof *to->ids, "result");
  if (join->style.distances) to->sums = adji_alloc(memory, pairs, adji_type_size(join->style.type), "result");
  if (!to->ids || (join->style.distances && !to->sums)) return ADJ_E_MEMORY;
  return from->rows(from->state, run, &(adji_window){0, rows, to->offsets, to->ids, to->sums, 0});
}

adj_status adji_parts_whole(const adji_join *join, adji_run *run, const adji_worker *from, adj_result *result) {
  adji_part part = {0};
  adj_status status = fetch_counts(join, run, from, &part);
  if (!status) status = fetch_result(join, run, from, &part);
  if (status) {
    clear_part(&part, &join->ctx->memory);
    return status;
  }
  result->offsets = part.offsets;
  result->ids = part.ids;
  result->distances = part.sums;
  result->pairs = part.offsets[join->left->count];
  return ADJ_OK;
}

void adji_parts_clear(adji_parts *parts, adji_memory *memory) {
  for (uint32_t i = 0; i < parts->count; i++)
    clear_part(&parts->each[i], memory);
  parts->count = 0;
}
