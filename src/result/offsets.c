/* SPDX-License-Identifier: MIT
 *
 * Offsets of rows: the sums of stretches of them, then each stretch from where it begins.
 */
#include "result/offsets.h"

enum { MOST_STRETCHES = 256, LEAST_ROWS = 1 << 14 };

typedef struct adding {
  const uint32_t *degrees;
  uint64_t *offsets;
  uint64_t count, stretches;
  uint64_t sums[MOST_STRETCHES]; /* of each; then where it begins */
} adding;

static adj_status add_stretch(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  adding *a = user;
  uint64_t begin, end, sum = 0;
  adji_slice(a->count, a->stretches, task, &begin, &end);
  for (uint64_t i = begin; i < end; i++)
    sum += a->degrees[i];
  a->sums[task] = sum;
  return ADJ_OK;
}

static adj_status write_stretch(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  adding *a = user;
  uint64_t begin, end, offset = a->sums[task];
  adji_slice(a->count, a->stretches, task, &begin, &end);
  for (uint64_t i = begin; i < end; i++) {
    a->offsets[i] = offset;
    offset += a->degrees[i];
  }
  return ADJ_OK;
}

adj_status adji_offsets_add_up(adj_ctx *ctx, const uint32_t *degrees, uint64_t count, uint64_t *offsets) {
  adding a = {.degrees = degrees, .offsets = offsets, .count = count, .stretches = count / LEAST_ROWS + 1};
  if (a.stretches > MOST_STRETCHES) a.stretches = MOST_STRETCHES;
  adj_status status = adji_loop(ctx, a.stretches, add_stretch, &a);
  uint64_t before = 0;
  for (uint64_t i = 0; i < a.stretches; i++) {
    uint64_t sum = a.sums[i];
    a.sums[i] = before;
    before += sum;
  }
  if (!status) status = adji_loop(ctx, a.stretches, write_stretch, &a);
  if (!status) offsets[count] = before;
  return status;
}
