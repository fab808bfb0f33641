/* SPDX-License-Identifier: MIT
 *
 * How cores and devices share a queue so that all of them finish at the same time. This module only decides sizes and
 * records rates. The caller passes the time, so that tests can use a clock of their own.
 *
 * By rates: a device gets half of its share of the remaining work. Its share is its rate over the sum of all rates. So
 * its batches shrink towards the end, down to a few milliseconds. No batch is more than four times as large as all the
 * work the device has done before. The first batch is small, since nothing is known yet. Work that the device already
 * holds counts as part of its share. Cores take one batch of the queue at a time. A worker takes nothing if the others
 * would finish everything before it could finish the batch.
 *
 * By equal results, as in HEGJoin (4.2): the work of a batch is its estimated number of results, and all batches of a
 * device have equal work. Cores take one batch of the queue at a time.
 *
 * By fixed sizes, as in HybridKNN-Join (4.5) and HEGJoin (4.1): sizes are fractions of the whole work. A device gets
 * large batches, each half of the one before, until only the part that is reserved for cores remains; then it gets
 * small ones. Sizes are halved for the last 5 %.
 */
#ifndef ADJI_SHARE_H
#define ADJI_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/exact.h"

enum { ADJI_MOST_DEVICES = 8 };

typedef struct adji_share_options {
  bool fixed;      /* fixed sizes instead of rates                                */
  double large;    /* the first batch of a device; 0: the default, here and below */
  double reserved; /* reserved for cores, while a device's batches are large      */
  double small;    /* a device's batches after the large ones                     */
  double cpu;      /* a core's batches                                            */
  double equal;    /* work of each batch of a device; 0: sizes or rates           */
  bool unreserved; /* nothing is reserved for cores                               */
} adji_share_options;

/* What a device, or all lanes together, did and still has to do. */
typedef struct adji_pace {
  double work, seconds; /* finished; for a device, weighted towards recent batches      */
  double all;           /* a device: work of all its finished batches                   */
  double holds, since;  /* a device: work that it holds, and when it began with it      */
  uint32_t taken;       /* the number of batches that it holds                          */
  double large;         /* fixed sizes: its next large batch; 0: small ones from now on */
  bool gone;            /* it takes no more batches                                     */
} adji_pace;

typedef struct adji_share {
  adji_share_options options;
  double total; /* work of the queue */
  uint32_t lanes, devices;
  adji_pace cpu;     /* all lanes: their seconds are added up */
  double lane_batch; /* work of the last batch of a lane      */
  adji_pace device[ADJI_MOST_DEVICES];
} adji_share;

/* lanes == 0: the devices share the queue among themselves. */
void adji_share_init(adji_share *share, const adji_share_options *options, double total, uint32_t lanes,
                     uint32_t devices);

/* Starts from the rates of an earlier pass of the same workers: the work per second of one lane, then of each device;
 * 0: not known. */
void adji_share_expect(adji_share *share, const double *rates);

/* How much work device d should take when the queue has `remaining` work and the next batch has `next`. Negative:
 * nothing until it has finished the work it holds; if it holds none, nothing more. now: in seconds from the start. */
double adji_share_for_device(const adji_share *share, uint32_t d, double now, double remaining, double next);
/* The same for a lane. Negative: nothing more, unless a device fails. */
double adji_share_for_lane(const adji_share *share, double now, double remaining, double next);

/* Records that a device took `work` more; that it finished `work`; that it failed or takes no more batches. */
void adji_share_took(adji_share *share, uint32_t d, double now, double work);
void adji_share_did(adji_share *share, uint32_t d, double now, double work);
void adji_share_gone(adji_share *share, uint32_t d);
/* Records time that a lane spent on work in no batch of the queue; work that a lane finished, with its time. */
void adji_share_lane_spent(adji_share *share, double seconds);
void adji_share_lane_did(adji_share *share, double work, double seconds);

#endif
