/* SPDX-License-Identifier: MIT
 *
 * Single evaluation: sends the pairs that cores found to a device, which makes the rows of the result.
 */
#include <string.h>

#include "gpu/device/staging.h"
#include "gpu/worker/range_private.h"

/* The state of sending pairs to the device. */
typedef struct sending {
  adji_gpu *gpu;
  const adji_join *join;
  const adji_found *found;
  const uint64_t *firsts; /* the number of each list's first pair */
  adji_gpu_more to;
  uint64_t room; /* the number of pairs that a buffer holds */
} sending;

/* Pairs in a lane's buffer, followed by their sums. */
typedef struct bundle {
  const sending *sending;
  uint32_t lane;
  uint64_t first, count; /* first: the number of the first pair */
  uint32_t *pairs, *sums;
} bundle;

static adj_status send_bundle(bundle *b) {
  const sending *s = b->sending;
  adji_gpu *gpu = s->gpu;
  uint64_t size = 4 * (uint64_t)s->found->sum_words;
  if (!b->count) return ADJ_OK;
  adj_status status = adji_staging_send(gpu, b->lane, (char *)s->to.pairs + b->first * 8, b->count * 8);
  if (!status) status = adji_staging_wait(gpu, b->lane);
  if (!status && size) {
    memcpy(b->pairs, b->sums, b->count * size); /* a copy starts at the beginning of the buffer */
    status = adji_staging_send(gpu, b->lane, (char *)s->to.sums + b->first * size, b->count * size);
    if (!status) status = adji_staging_wait(gpu, b->lane);
  }
  b->first += b->count;
  b->count = 0;
  return status ? status : adji_check_cancel(s->join->ctx);
}

/* Adds the pairs of a record to the bundle. If each pair is wanted once, its lower point comes first. */
static adj_status bundle_record(bundle *b, const uint32_t *record) {
  const sending *s = b->sending;
  bool one_way = s->join->style.one_way;
  uint32_t row = record[0], count = record[1], words = s->found->sum_words;
  const uint32_t *ids = record + 2, *sums = ids + count;
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < count && !status;) {
    uint64_t many = s->room - b->count < count - i ? s->room - b->count : count - i;
    uint32_t *to = b->pairs + 2 * b->count;
    for (uint64_t j = 0; j < many; j++) {
      bool swap = one_way && ids[i + j] < row;
      to[2 * j] = swap ? ids[i + j] : row;
      to[2 * j + 1] = swap ? row : ids[i + j];
    }
    if (words) memcpy(b->sums + b->count * words, sums + (uint64_t)i * words, many * words * 4);
    b->count += many;
    i += (uint32_t)many;
    if (b->count == s->room) status = send_bundle(b);
  }
  return status;
}

static adj_status send_list(void *user, uint64_t number, uint32_t lane) {
  const sending *s = user;
  const adji_found_list *list = &s->found->lists[number];
  bundle b = {.sending = s, .lane = lane, .first = s->firsts[number]};
  b.pairs = adji_staging_at(s->gpu, lane);
  b.sums = b.pairs + 2 * s->room;
  uint64_t begin = adji_now_ns();
  adj_status status = ADJ_OK;
  for (uint64_t at = 0; at < list->used && !status;) {
    const uint32_t *record = list->words + at;
    status = bundle_record(&b, record);
    at += 2 + (uint64_t)record[1] * (1 + s->found->sum_words);
  }
  if (!status) status = send_bundle(&b);
  adji_trace(s->join->ctx, "send", lane, begin, list->pairs);
  return status;
}

adj_status adji_gpu_range_send_found(adji_gpu *gpu, adji_gpu_range *range, const adji_join *join, adji_run *run,
                                     const adji_found *found) {
  adji_memory *memory = &join->ctx->memory;
  uint64_t pair_bytes = 8 + 4 * (uint64_t)found->sum_words;
  sending s = {.gpu = gpu, .join = join, .found = found, .room = ADJI_STAGE_BYTES / pair_bytes};
  adj_status status = adji_gpu_range_add(range, found->pairs, &s.to);
  if (status) return status;
  uint64_t *firsts = adji_alloc(memory, found->count, sizeof *firsts, "pairs"), first = 0;
  for (uint64_t i = 0; i < found->count && firsts; first += found->lists[i++].pairs)
    firsts[i] = first;
  s.firsts = firsts;
  status = firsts ? adji_loop(join->ctx, found->count, send_list, &s) : ADJ_E_MEMORY;
  if (status) adji_gpu_quiesce(gpu);
  adji_free(memory, firsts);
  run->device.bytes_up += found->pairs * pair_bytes;
  if (status == ADJ_E_DEVICE_MEMORY) /* this status would mean that nothing was sent, but some pairs may have been */
    status = adji_fail(ADJ_E_DEVICE, "the device did not get the pairs of the cores");
  return status;
}
