/* SPDX-License-Identifier: MIT
 *
 * Several devices share the parts of a join whose sets do not fit one of them: regions of space, each with the points
 * around it. Devices take parts from a queue, as they take queries (queue/scheduler.h). One that fails leaves its parts
 * to the others.
 */
#ifndef ADJI_GPU_WORKER_DIVIDE_H
#define ADJI_GPU_WORKER_DIVIDE_H

#include "queue/engine.h"

typedef struct adji_division {
  void *state;
  const char *name;                                      /* for the trace and progress */
  uint64_t parts;                                        /* numbered from 0 */
  uint64_t (*queries)(const void *state, uint64_t part); /* with fewer than 2^32 in all; none: the part is left out */
  uint32_t devices;
  uint32_t takes; /* of each device, about: each is of consecutive parts */
  /* In the caller's thread, before and after; a device that fails to begin takes no part. May be NULL. */
  adj_status (*begin)(void *state, uint32_t device);
  void (*end)(void *state, uint32_t device);
  /* In the device's thread, with the team at its disposal: does parts first .. end - 1. What it did before it failed is
   * done again by another device. */
  adj_status (*work)(void *state, uint32_t device, uint64_t first, uint64_t end, adji_tally *tally);
} adji_division;

/* All parts. The run gets what each device did. Fails if every device did, with the last one's failure. Must not be
 * called from a task of the team. */
adj_status adji_divide(const adji_division *division, adji_run *run, adji_tally *tally);

#endif
