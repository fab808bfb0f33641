/* SPDX-License-Identifier: MIT
 *
 * The life of a device that takes part in a join of the cores: batches of the queue become lists of queries, of which
 * some are at work, or wait for the device, while the rows of the one before are put into place. Batches are taken
 * before the device is done with those it has, so that it does not wait for the host; but where a list cannot be begun
 * without an answer of the device (rows so long that CUB sorts them, rows of a part of the result) the two take turns.
 */
#ifndef ADJI_GPU_HYBRID_LIST_LOOP_H
#define ADJI_GPU_HYBRID_LIST_LOOP_H

#include "gpu/index/list_order.h"
#include "queue/scheduler.h"

typedef struct adji_list_steps {
  void *user;
  /* The next lists are of these batches. */
  void (*open)(void *user, const adji_batch *batches, uint64_t count);
  /* Begins the next of them, in a slot; *some: there is one. */
  adj_status (*ask)(void *user, uint32_t slot, bool *some);
  /* Waits for the device. Lists are waited for, and then brought, in the order in which they were begun. */
  adj_status (*listed)(void *user, uint32_t slot);
  /* Puts the rows of a list into place; adds what it had to the tally. */
  adj_status (*bring)(void *user, uint32_t slot, adji_help *help, adji_tally *tally);
  /* After a failure: nothing that was asked for is under way. */
  void (*settle)(void *user);
  /* All lists of the oldest batches are in place: gives back what the device could not find, and takes it from the
   * tally. NULL: it finds everything. */
  adj_status (*give_back)(void *user, adji_help *help, adji_tally *tally);
} adji_list_steps;

/* Until no batches are left for the device. */
adj_status adji_list_loop(adj_ctx *ctx, const adji_list_steps *steps, adji_help *help);

/* What it takes to bring the lists of a pass, over all lanes: waiting for copies, putting what came into place. */
typedef struct adji_list_stats {
  ADJI_ATOMIC(uint64_t) wait_ns, place_ns, bytes;
  uint64_t place_ns_before[2], bytes_before[2]; /* the list at work, and the one before it */
} adji_list_stats;

void adji_list_stats_clear(adji_list_stats *stats);
void adji_list_stats_next(adji_list_stats *stats); /* another list is begun */
void adji_list_stats_tell(const adji_list_stats *stats, adji_device_stats *work);

/* How many lanes copies feed, which come one after the other: with more at the rows of a list each would mostly wait.
 * It takes many as long as the memory of the result is fresh. */
uint64_t adji_list_helpers(const adj_ctx *ctx, const adji_list_stats *stats);

/* For a trial: ranges of an order of so many queries that are spread over all of it, with up to `wanted` queries, and
 * one in any case. In each so many follow each other, as in batches. Returns how many ranges; *queries: in all. */
uint64_t adji_list_sample(uint64_t count, uint64_t wanted, adji_batch *ranges, uint64_t *queries);

#endif
