/* SPDX-License-Identifier: MIT
 *
 * Devices that are being opened for a join that workers share, perhaps in threads while the cores do other work.
 */
#ifndef ADJI_PENDING_DEVICES_H
#define ADJI_PENDING_DEVICES_H

#include "queue/engine.h"

typedef struct adji_pending_device {
  const struct adji_pending_devices *all;
  uint32_t number;
  adji_worker worker; /* destroy NULL: there is none, or an engine has taken it */
  pthread_t thread;
  bool threaded;
  adj_status status;
  char message[512];
} adji_pending_device;

typedef struct adji_pending_devices {
  /* open: makes a worker of device number `number`. follow: passes it the order of the queries. */
  adj_status (*open)(const void *options, uint32_t number, adji_worker *out);
  adj_status (*follow)(adji_worker *worker, const uint32_t *rows);
  const void *options;
  adji_pending_device each[ADJI_MOST_DEVICES];
  uint32_t count;
  const adji_pending_device *leader; /* the device whose order the others follow; NULL: all follow that of the cores */
  bool by_rows;                      /* brute force: all use the order of the rows, and follow no other */
} adji_pending_devices;

/* Opens all of them; beside: in threads, without waiting. */
void adji_pending_open(adji_pending_devices *all, bool beside);
/* The first one is open already; the others are opened in threads. */
void adji_pending_open_others(adji_pending_devices *all, const adji_worker *first);
/* Waits until one device is open, and returns its status. */
adj_status adji_pending_wait(adji_pending_device *device);

/* Records the status of a device that is open. A worker that has failed takes no part. */
void adji_pending_note(adji_pending_device *device, adj_status status);

/* Waits for all devices, and adds the workers that opened to the engine; *added receives their number. A warning
 * reports each of the others: the join runs without a device that fails or has no memory. Any other failure of the only
 * device is returned. */
adj_status adji_pending_add(adji_pending_devices *all, adji_engine *engine, uint32_t *added);

/* Makes an engine of this open worker alone. */
void adji_pending_give(adji_pending_device *device, adji_engine *engine, const adji_join *join);

/* Closes the workers that no engine has taken. */
void adji_pending_drop(adji_pending_devices *all);

#endif
