/* SPDX-License-Identifier: MIT
 *
 * Items formatted in parallel and written in order. Each round fills a few slots of about a megabyte on all threads and
 * then writes them. A seekable output is written on all threads too, because copying into the page cache costs about as
 * much as formatting.
 */
#include "io/output_private.h"

static const uint64_t SLOT_BYTES = (uint64_t)1 << 20;

typedef struct round {
  adji_output *output;
  const adji_items *items;
  uint64_t slot_bytes, slot_items; /* bytes of a slot, items that always fit */
  uint64_t first, end;             /* the items of this round                */
  char *slots;
  uint64_t *filled; /* bytes in each slot                     */
  uint64_t *at;     /* where each slot goes in the output     */
} round_state;

static adj_status fill_slot(void *user, uint64_t slot, uint32_t lane) {
  (void)lane;
  round_state *round = user;
  uint64_t first = round->first + slot * round->slot_items;
  uint64_t count = round->end - first < round->slot_items ? round->end - first : round->slot_items;
  char *to = round->slots + slot * round->slot_bytes;
  round->filled[slot] = round->items->format(round->items->user, first, count, to);
  return ADJ_OK;
}

static adj_status write_slot(void *user, uint64_t slot, uint32_t lane) {
  (void)lane;
  round_state *round = user;
  return adji_output_write_at(round->output, round->at[slot], round->slots + slot * round->slot_bytes,
                              round->filled[slot]);
}

static adj_status write_slots(round_state *round, uint64_t slots) {
  adji_output *output = round->output;
  adj_status status = ADJ_OK;
  if (!adji_output_seekable(output)) {
    for (uint64_t slot = 0; !status && slot < slots; slot++)
      status = adji_output_write(output, round->slots + slot * round->slot_bytes, round->filled[slot]);
    return status;
  }
  uint64_t end = output->size;
  for (uint64_t slot = 0; slot < slots; slot++) {
    round->at[slot] = end;
    end += round->filled[slot];
  }
  status = adji_loop(output->ctx, slots, write_slot, round);
  if (!status) output->size = end;
  return status;
}

adj_status adji_output_items(adji_output *output, const adji_items *items) {
  adj_ctx *ctx = output->ctx;
  if (!items->count) return ADJ_OK;
  uint64_t each = items->bytes_each ? items->bytes_each : 1;
  uint64_t slots = 2 * (uint64_t)ctx->threads;
  round_state round = {.output = output, .items = items};
  round.slot_bytes = each > SLOT_BYTES ? each : SLOT_BYTES;
  round.slot_items = round.slot_bytes / each;
  uint64_t tables = slots * 2 * sizeof(uint64_t);
  if (!adji_grow(&ctx->memory, &output->scratch, adji_mul(slots, round.slot_bytes) + tables, 1, 0, "write buffer"))
    return ADJ_E_MEMORY;
  round.filled = output->scratch;
  round.at = round.filled + slots;
  round.slots = (char *)(round.at + slots);

  uint64_t begin_ns = adji_now_ns();
  adj_status status = ADJ_OK;
  for (uint64_t first = 0; !status && first < items->count; first = round.end) {
    uint64_t remaining = items->count - first;
    uint64_t used = remaining / round.slot_items + (remaining % round.slot_items != 0);
    if (used > slots) used = slots;
    round.first = first;
    round.end = remaining <= used * round.slot_items ? items->count : first + used * round.slot_items;
    status = adji_loop(ctx, used, fill_slot, &round);
    if (!status) status = write_slots(&round, used);
  }
  if (!status) adji_trace(ctx, "write", 0, begin_ns, items->count);
  return status;
}
