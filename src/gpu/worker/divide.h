/* SPDX-License-Identifier: MIT
 *
 * Several devices share the parts of a join whose sets do not fit one of them, such as regions of space with the points
 * around them. Devices take parts from a queue, as they take queries (queue/scheduler.h). A device that fails leaves
 * its parts to the others.
 */
#ifndef ADJI_GPU_WORKER_DIVIDE_H
#define ADJI_GPU_WORKER_DIVIDE_H

#include "queue/engine.h"

typedef struct adji_division {
  void *state;
  const char *name;                                      /* for the trace and progress */
  uint64_t parts;                                        /* numbered from 0 */
  uint64_t (*queries)(const void *state, uint64_t part); /* fewer than 2^32 in all; a part with 0 is left out */
  uint32_t devices;
  uint32_t takes; /* about how often each device takes parts, which are consecutive each time */
  /* Called in the caller's thread before and after the work. A device that fails to begin takes no parts. May be
   * NULL. */
  adj_status (*begin)(void *state, uint32_t device);
  void (*end)(void *state, uint32_t device);
  /* Does parts first .. end - 1. Called in the device's thread, and may use the team. If it fails, another device does
   * all these parts again. */
  adj_status (*work)(void *state, uint32_t device, uint64_t first, uint64_t end, adji_tally *tally);
} adji_division;

/* Does all parts, and adds what each device did to the run. Fails only if every device fails, with the last failure.
 * Must not be called from a task of the team. */
adj_status adji_divide(const adji_division *division, adji_run *run, adji_tally *tally);

#endif
