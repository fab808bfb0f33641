/* SPDX-License-Identifier: MIT
 *
 * Parallel loops over rows: see offsets.h.
 */
#include "result/offsets.h"

adj_status adji_each_row(adj_ctx *ctx, uint64_t rows, adji_slice_fn fn, void *user) {
  enum { ROWS_A_SLICE = 1 << 14 };
  return adji_loop_slices(ctx, rows, rows / ROWS_A_SLICE + 1, fn, user);
}

/* ---- Offsets, in two passes over slices of the rows: the sum of each slice, then its offsets ---------- */

enum { MOST_SLICES = 256, LEAST_ROWS = 1 << 14 };

typedef struct adding {
  const uint32_t *degrees;
  uint64_t *offsets;
  uint64_t count, slices;
  uint64_t sums[MOST_SLICES]; /* of each slice; then where it begins */
} adding;

static adj_status add_slice(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  adding *a = user;
  uint64_t begin, end, sum = 0;
  adji_slice(a->count, a->slices, task, &begin, &end);
  for (uint64_t i = begin; i < end; i++)
    sum += a->degrees[i];
  a->sums[task] = sum;
  return ADJ_OK;
}

static adj_status write_slice(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  adding *a = user;
  uint64_t begin, end, offset = a->sums[task];
  adji_slice(a->count, a->slices, task, &begin, &end);
  for (uint64_t i = begin; i < end; i++) {
    a->offsets[i] = offset;
    offset += a->degrees[i];
  }
  return ADJ_OK;
}

adj_status adji_offsets_add_up(adj_ctx *ctx, const uint32_t *degrees, uint64_t count, uint64_t *offsets) {
  adding a = {.degrees = degrees, .offsets = offsets, .count = count, .slices = count / LEAST_ROWS + 1};
  if (a.slices > MOST_SLICES) a.slices = MOST_SLICES;
  adj_status status = adji_loop(ctx, a.slices, add_slice, &a);
  uint64_t before = 0;
  for (uint64_t i = 0; i < a.slices; i++) {
    uint64_t sum = a.sums[i];
    a.sums[i] = before;
    before += sum;
  }
  if (!status) status = adji_loop(ctx, a.slices, write_slice, &a);
  if (!status) offsets[count] = before;
  return status;
}
