/* SPDX-License-Identifier: MIT
 *
 * Devices beside the cores of an engine: a pass begins with those that want to take part in it.
 */
#ifndef ADJI_PARTNERS_H
#define ADJI_PARTNERS_H

#include "queue/join.h"

typedef struct adji_partners {
  adji_partner each[ADJI_MOST_DEVICES];
  uint32_t count;
  adji_share_options share;
} adji_partners;

/* Those that take part in a pass. */
typedef struct adji_partners_begun {
  adji_device_worker workers[ADJI_MOST_DEVICES];
  const adji_partner *partners[ADJI_MOST_DEVICES];
  uint32_t count;
  uint8_t *done_by; /* as in adji_crew: for those who want to know */
} adji_partners_begun;

/* One that refuses is told by a warning. */
void adji_partners_begin(const adji_partners *partners, adj_ctx *ctx, const adji_shared_work *work,
                         adji_partners_begun *out);

/* The pass with those that have begun. */
adj_status adji_partners_run(const adji_partners *partners, const adji_partners_begun *begun, adji_run *run,
                             adji_queue *queue, const adji_pass *pass, adji_tally *tally);

/* Those that have begun are done with the pass, run or not. */
void adji_partners_end(const adji_partners_begun *begun, adji_run *run);

void adji_partners_destroy(adji_partners *partners);

#endif
