/* SPDX-License-Identifier: MIT
 *
 * Devices that are being opened for a join that cores and GPUs share, perhaps in threads, while the cores do other
 * work.
 */
#ifndef ADJI_PENDING_DEVICES_H
#define ADJI_PENDING_DEVICES_H

#include "queue/engine.h"

typedef struct adji_pending_device {
  const struct adji_pending_devices *all;
  uint32_t number;
  adji_worker worker; /* destroy NULL: none, or an engine's */
  pthread_t thread;
  bool threaded;
  adj_status status;
  char message[512];
} adji_pending_device;

typedef struct adji_pending_devices {
  /* Makes a worker of the number-th device; passes it the order of the cores' queries. */
  adj_status (*open)(const void *options, uint32_t number, adji_worker *out);
  adj_status (*follow)(adji_worker *worker, const uint32_t *rows);
  const void *options;
  adji_pending_device each[ADJI_MOST_DEVICES];
  uint32_t count;
  const adji_pending_device *leader; /* whose own order the others follow; NULL: they follow that of the cores */
} adji_pending_devices;

/* Begins to open all of them; beside: in threads. */
void adji_pending_open(adji_pending_devices *all, bool beside);
/* The first one is open already; the others are opened in threads. */
void adji_pending_open_others(adji_pending_devices *all, const adji_worker *first);
/* Waits for one of them. */
adj_status adji_pending_wait(adji_pending_device *device);

/* What became of a device that is open. A worker that has failed takes no part. */
void adji_pending_note(adji_pending_device *device, adj_status status);

/* Waits for all, and adds the workers that opened to the engine: *added of them. A warning reports each of the others:
 * the join does without a device that fails or has no memory. Any other failure of the only device is a failure. */
adj_status adji_pending_add(adji_pending_devices *all, adji_engine *engine, uint32_t *added);

/* Gives an open worker to an engine of its own. */
void adji_pending_give(adji_pending_device *device, adji_engine *engine, const adji_join *join);

/* Closes those that are nobody's. */
void adji_pending_drop(adji_pending_devices *all);

#endif
