/* SPDX-License-Identifier: MIT
 *
 * Devices that are being opened for a join that cores and GPUs share: perhaps in threads of their own, while the cores
 * do something else.
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
} adji_pending_devices;

/* Begins to open all of them; beside: in threads. */
void adji_pending_open(adji_pending_devices *all, bool beside);
/* Waits for one of them. */
adj_status adji_pending_wait(adji_pending_device *device);

/* What became of a device that is open. A worker that has failed takes no part. */
void adji_pending_note(adji_pending_device *device, adj_status status);

/* Waits for all, and adds the workers to the engine: *added of them. Others are reported by warnings. Fails where none
 * is there for another reason than a failing device: a device without memory is no reason not to join. */
adj_status adji_pending_add(adji_pending_devices *all, adji_engine *engine, uint32_t *added);

/* Hands a worker that is open to an engine, which has it alone. */
void adji_pending_give(adji_pending_device *device, adji_engine *engine, const adji_join *join);

/* Closes those that are nobody's. */
void adji_pending_drop(adji_pending_devices *all);

#endif
