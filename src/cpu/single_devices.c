/* SPDX-License-Identifier: MIT
 *
 * Single evaluation: the results of devices, at the end of a pass.
 */
#include "cpu/single_private.h"
#include "result/offsets.h"

typedef adji_single single;

/* ---- The lists of the cores go to a device ----------------------------------------------------------- */

/* Gives the pairs that lanes found to a device that has all others. */
static adj_status hand_over(single *s, const adji_worker *device, adji_run *run) {
  adji_memory *memory = &s->join->ctx->memory;
  adj_status status = adji_single_gather_chunks(s);
  adji_found_list *lists = adji_alloc(memory, s->all_chunk_count, sizeof *lists, "pairs");
  adji_found found = {.lists = lists, .count = s->all_chunk_count, .sum_words = s->sum_words};
  for (uint64_t i = 0; lists && i < s->all_chunk_count; i++) {
    const adji_single_chunk *c = s->all_chunks[i];
    lists[i] = (adji_found_list){c->words, c->used, c->pairs};
    found.pairs += c->pairs;
  }
  if (!status) status = lists ? device->add(device->state, run, &found) : ADJ_E_MEMORY;
  adji_free(memory, lists);
  return status;
}

/* ---- The rows of a device ---------------------------------------------------------------------------- */

void adji_part_clear(adji_part *part, adji_memory *memory) {
  adji_free(memory, part->offsets);
  adji_free(memory, part->ids);
  adji_free(memory, part->sums);
}

static adj_status fetch_counts(const single *s, adji_run *run, const adji_worker *from, adji_part *to) {
  adji_memory *memory = &s->join->ctx->memory;
  uint32_t *counts = adji_alloc(memory, s->rows, sizeof *counts, "neighbour counts");
  to->offsets = adji_alloc(memory, s->rows + 1, sizeof *to->offsets, "row offsets");
  adj_status status = counts && to->offsets ? from->counts(from->state, run, counts) : ADJ_E_MEMORY;
  if (!status) status = adji_offsets_add_up(s->join->ctx, counts, s->rows, to->offsets);
  adji_free(memory, counts);
  return status;
}

/* whole: the device has all pairs. Otherwise it has parts of the rows, with sums if the order needs them. */
static adj_status fetch_rows(const single *s, adji_run *run, const adji_worker *from, bool whole, adji_part *to) {
  adji_memory *memory = &s->join->ctx->memory;
  uint64_t pairs = to->offsets[s->rows];
  bool sums = whole ? s->join->style.distances : s->sums;
  adj_status status = whole ? adji_run_check_pairs(run, pairs) : ADJ_OK;
  if (status) return status;
  to->ids = adji_alloc(memory, pairs, sizeof *to->ids, whole ? "result" : "pairs");
  if (sums) to->sums = adji_alloc(memory, pairs, adji_type_size(s->join->style.type), whole ? "result" : "pairs");
  if (!to->ids || (sums && !to->sums)) return ADJ_E_MEMORY;
  return from->rows(from->state, run,
                    &(adji_window){.end_row = s->rows, .offsets = to->offsets, .ids = to->ids, .distances = to->sums});
}

/* whole: the result, if the part is all of it; NULL: the part is one of several. */
static void keep_part(single *s, const adji_part *part, adj_result *whole) {
  if (!whole) {
    s->parts[s->part_count++] = *part;
    return;
  }
  whole->offsets = part->offsets;
  whole->ids = part->ids;
  whole->distances = part->sums;
  whole->pairs = part->offsets[s->rows];
  s->complete = true;
}

/* Fetches the whole result, if the device has room for the pairs of the cores too, or else the device's part of it. No
 * list has the pairs of a point with itself, so a result with them is not made by a device. */
static adj_status fetch_from(single *s, const adji_worker *device, adji_run *run, bool only_device) {
  bool hands_over = only_device && s->result && !adji_single_adds_selves(s);
  adj_status status = hands_over ? hand_over(s, device, run) : ADJ_E_DEVICE_MEMORY;
  if (status && status != ADJ_E_DEVICE_MEMORY) return status;
  adj_result *whole = status ? NULL : s->result;
  adji_part part = {0};
  uint64_t begin = adji_now_ns();
  status = fetch_counts(s, run, device, &part);
  if (!status && s->result) status = fetch_rows(s, run, device, whole, &part);
  adji_trace(s->join->ctx, "fetch", 0, begin, s->rows);
  if (status)
    adji_part_clear(&part, &s->join->ctx->memory);
  else
    keep_part(s, &part, whole);
  return status;
}

/* ---- All devices ------------------------------------------------------------------------------------- */

/* Repeats the batches of failed devices on cores. */
static adj_status list_again(single *s, const adji_active *active, const bool *lost, adji_run *run) {
  const adji_queue *queue = s->pass->queue;
  adji_queue again;
  uint32_t devices = adji_active_devices_from(active);
  adj_status status = adji_queue_init(&again, s->join->ctx, queue->count + 1);
  if (status) return status;
  for (uint64_t i = 0; i < queue->count && !status; i++) {
    if (!active->done_by[i] || !lost[active->done_by[i] - 1]) continue;
    uint64_t queries = queue->batches[i].end - queue->batches[i].begin;
    const adji_worker *worker = active->workers[devices + active->done_by[i] - 1];
    adji_worker_stats *device = &run->workers[adji_run_worker(run, worker->state)];
    device->queries -= queries;
    device->failed += queries;
    run->workers[0].queries += queries;
    status = adji_queue_add(&again, queue->batches[i]);
  }
  adji_pass pass = *s->pass;
  pass.name = "join";
  pass.queue = &again;
  pass.alone = true;
  if (!status)
    status = adji_pass_run(run, &pass, &(adji_active){.workers = {active->workers[0]}, .count = 1}, NULL, NULL);
  adji_queue_clear(&again);
  return status;
}

adj_status adji_single_fetch(single *s, const adji_active *active, adji_run *run) {
  bool lost[ADJI_MOST_DEVICES] = {false}, some = false;
  uint32_t devices = adji_active_devices(active);
  for (uint32_t d = 0; d < devices; d++) {
    const adji_worker *device = active->workers[adji_active_devices_from(active) + d];
    adj_status status = fetch_from(s, device, run, devices == 1);
    if (status == ADJ_E_MEMORY || status == ADJ_CANCELLED || status == ADJ_E_LIMIT) return status;
    if (!status) continue;
    adji_log(s->join->ctx, ADJ_LOG_WARN, "the queries of %s are done again: %s", device->name, adj_last_error());
    lost[d] = some = true;
  }
  return some ? list_again(s, active, lost, run) : ADJ_OK;
}
