/* SPDX-License-Identifier: MIT
 *
 * Devices that are opened for a join that cores and GPUs share: perhaps in threads of their own, while the cores do
 * something else.
 */
#ifndef ADJI_OPENINGS_H
#define ADJI_OPENINGS_H

#include "plan/plan.h"

typedef struct adji_opening {
  const struct adji_openings *all;
  uint32_t number;
  adji_partner partner;
  pthread_t thread;
  bool threaded;
  adj_status status;
  char message[512];
} adji_opening;

typedef struct adji_openings {
  /* Makes a partner of the number-th device; tells it the order of the cores. */
  adj_status (*open)(const void *request, uint32_t number, adji_partner *out);
  adj_status (*follow)(adji_partner *partner, const uint32_t *rows);
  const void *request;
  adji_opening each[ADJI_MOST_DEVICES];
  uint32_t count;
} adji_openings;

bool adji_a_device_is_open(adj_ctx *ctx);

/* Opens all of them; beside: in threads. */
void adji_openings_begin(adji_openings *all, bool beside);
/* One of them is open now, or has failed. */
adj_status adji_opening_end(adji_opening *opening);

/* The partners that are there, which still belong to the openings. Others are told by warnings, unless there is none at
 * all, which is why this fails. One that has no memory left, or fails otherwise, is no reason not to join. */
adj_status adji_openings_take(adji_openings *all, adj_ctx *ctx, const uint32_t *rows, adji_partner *partners,
                              uint32_t *count);
/* They are someone else's now. */
void adji_openings_gave(adji_openings *all, const adji_partner *partners, uint32_t count);
void adji_openings_drop(adji_openings *all);

#endif
