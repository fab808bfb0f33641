/* SPDX-License-Identifier: MIT
 *
 * Lists of queries on their way through a device: see list_loop.h.
 */
#include "gpu/hybrid/list_loop.h"

#include <stdatomic.h>

#include "core/context.h"

typedef struct loop {
  const adji_list_steps *steps;
  adji_help *help;
  bool open;                      /* there are batches whose lists have not all been begun */
  uint64_t asked, found, brought; /* lists */
  uint32_t ends[ADJI_LISTS];      /* how many stretches of batches end with the list in a slot */
  adji_tally tally;               /* of lists that were brought, of the oldest stretch */
} loop;

static adj_status stretch_done(loop *l) {
  adji_tally tally = l->tally;
  l->tally = (adji_tally){0};
  adj_status status = l->steps->give_back ? l->steps->give_back(l->steps->user, l->help, &tally) : ADJ_OK;
  return status ? status : adji_help_done(l->help, &tally);
}

/* No more lists of the batches that were opened last: they are done with the list that is now the last, or are
 * already. */
static adj_status end_stretch(loop *l) {
  l->open = false;
  if (l->found == l->asked) adji_help_found(l->help);
  if (l->brought == l->asked) return stretch_done(l);
  l->ends[(l->asked - 1) % ADJI_LISTS]++;
  return ADJ_OK;
}

/* Begins lists, as long as there are slots and batches. */
static adj_status ask(loop *l) {
  adj_status status = ADJ_OK;
  while (!status && l->asked - l->brought < ADJI_LISTS) {
    const adji_batch *batches;
    uint64_t count;
    uint32_t slot = (uint32_t)(l->asked % ADJI_LISTS);
    bool some = false;
    if (!l->open && !adji_help_take(l->help, &batches, &count)) return ADJ_OK;
    if (!l->open) l->steps->open(l->steps->user, batches, count);
    l->open = true;
    status = l->steps->ask(l->steps->user, slot, &some);
    if (!status && !some) status = end_stretch(l);
    if (!some) continue;
    l->ends[slot] = 0;
    l->asked++;
  }
  return status;
}

static adj_status wait_for_device(loop *l) {
  uint32_t slot = (uint32_t)(l->found % ADJI_LISTS);
  adji_help_sleep(l->help, true);
  adj_status status = l->steps->listed(l->steps->user, slot);
  adji_help_sleep(l->help, false);
  if (status) return status;
  l->found++;
  for (uint32_t i = 0; i < l->ends[slot]; i++)
    adji_help_found(l->help);
  return ADJ_OK;
}

static adj_status bring(loop *l) {
  uint32_t slot = (uint32_t)(l->brought % ADJI_LISTS);
  adj_status status = l->steps->bring(l->steps->user, slot, l->help, &l->tally);
  if (status) return status;
  l->brought++;
  for (uint32_t i = 0; i < l->ends[slot] && !status; i++)
    status = stretch_done(l);
  return status;
}

adj_status adji_list_loop(adj_ctx *ctx, const adji_list_steps *steps, adji_help *help) {
  loop l = {.steps = steps, .help = help};
  adj_status status = ask(&l);
  while (!status && l.asked > l.brought) {
    status = l.found == l.brought ? wait_for_device(&l) : bring(&l);
    if (!status) status = adji_check_cancel(ctx);
    if (!status) status = ask(&l); /* before rows are brought, so that the device has something to do */
  }
  if (status) steps->settle(steps->user);
  return status;
}

void adji_list_stats_clear(adji_list_stats *stats) {
  atomic_store(&stats->wait_ns, 0);
  atomic_store(&stats->place_ns, 0);
  atomic_store(&stats->bytes, 0);
  for (int i = 0; i < 2; i++)
    stats->place_ns_before[i] = stats->bytes_before[i] = 0;
}

void adji_list_stats_next(adji_list_stats *stats) {
  stats->place_ns_before[1] = stats->place_ns_before[0];
  stats->bytes_before[1] = stats->bytes_before[0];
  stats->place_ns_before[0] = atomic_load(&stats->place_ns);
  stats->bytes_before[0] = atomic_load(&stats->bytes);
}

void adji_list_stats_tell(const adji_list_stats *stats, adji_device_stats *work) {
  work->down_s += (double)atomic_load(&stats->wait_ns) * 1e-9;
  work->place_s += (double)atomic_load(&stats->place_ns) * 1e-9;
  work->bytes_down += atomic_load(&stats->bytes);
}

/* Where nothing is known, one lane in so many. */
enum { SOME = 4 };

uint64_t adji_list_helpers(const adj_ctx *ctx, const adji_list_stats *stats) {
  double seconds = (double)(atomic_load(&stats->place_ns) - stats->place_ns_before[1]) * 1e-9;
  double bytes = (double)(atomic_load(&stats->bytes) - stats->bytes_before[1]);
  return 1 + (seconds > 0 && bytes > 0 ? (uint64_t)(ctx->costs.link_rate * seconds / bytes) : ctx->threads / SOME);
}

enum { STRETCH = 1024 };

uint64_t adji_list_sample(uint64_t count, uint64_t wanted, adji_batch *ranges, uint64_t *queries) {
  uint64_t many = wanted / STRETCH ? wanted / STRETCH : 1, each = wanted < STRETCH ? wanted : STRETCH;
  if (many > ADJI_MOST_RANGES) many = ADJI_MOST_RANGES;
  *queries = 0;
  for (uint64_t i = 0; i < many; i++) {
    uint64_t begin, end;
    adji_slice(count, many, i, &begin, &end);
    if (end - begin > each) end = begin + each;
    ranges[i] = (adji_batch){(uint32_t)begin, (uint32_t)end, 0};
    *queries += end - begin;
  }
  return many;
}
