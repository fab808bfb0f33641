/* SPDX-License-Identifier: MIT
 *
 * Devices beside the cores of an engine.
 */
#include "queue/partners.h"

void adji_partners_begin(const adji_partners *partners, adj_ctx *ctx, const adji_shared_work *work,
                         adji_partners_begun *out) {
  *out = (adji_partners_begun){.count = 0};
  for (uint32_t i = 0; i < partners->count; i++) {
    const adji_partner *partner = &partners->each[i];
    if (partner->begin(partner->state, work)) {
      adji_log(ctx, ADJ_LOG_WARN, "%s takes no part: %s", partner->name, adj_last_error());
      continue;
    }
    out->workers[out->count] = (adji_device_worker){partner->name, partner->state, partner->drain};
    out->partners[out->count++] = partner;
  }
}

adj_status adji_partners_run(const adji_partners *partners, const adji_partners_begun *begun, adji_run *run,
                             adji_queue *queue, const adji_pass *pass, adji_tally *tally) {
  adji_crew crew = {begun->workers, begun->count, &partners->share, begun->done_by};
  return adji_run_shared_pass(run, queue, pass, &crew, tally);
}

void adji_partners_end(const adji_partners_begun *begun, adji_run *run) {
  for (uint32_t i = 0; i < begun->count; i++)
    begun->partners[i]->end(begun->partners[i]->state, &run->device);
}

void adji_partners_destroy(adji_partners *partners) {
  for (uint32_t i = 0; i < partners->count; i++)
    partners->each[i].destroy(partners->each[i].state);
  partners->count = 0;
}
