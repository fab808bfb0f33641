/* SPDX-License-Identifier: MIT
 *
 * How cores and devices share a queue so that all of them finish at the same time. This only decides and measures. The
 * caller passes the time, so that tests can use a clock of their own.
 *
 * By rates: a device gets half of its share of the remaining work, its share being its part of the current rates. So
 * its batches shrink towards the end, down to a few milliseconds. No batch is more than four times as large as all it
 * has done before, and the first one is small, since nothing is known yet. Work that it holds already counts. Cores
 * take one batch of the queue at a time. A worker takes nothing if the others would finish everything before it were
 * done.
 *
 * By equal results, as in HEGJoin (4.2): the work of a batch is the number of its results, estimated, and every batch
 * of a device has as many. Cores take one batch of the queue at a time.
 *
 * By fixed sizes, those of HybridKNN-Join (4.5) and HEGJoin (4.1): fractions of the whole work. A device gets large
 * batches, each half of the one before, as long as a part of the work remains that is reserved for cores; then small
 * ones. Sizes are halved for the last 5 %.
 */
#ifndef ADJI_SHARE_H
#define ADJI_SHARE_H

#include <stdbool.h>
#include <stdint.h>

#include "core/exact.h"

enum { ADJI_MOST_DEVICES = 8 };

typedef struct adji_share_options {
  bool fixed;      /* sizes, instead of rates                                     */
  double large;    /* of the first batch of a device; 0: the default, here and below */
  double reserved; /* for cores, while batches are large                          */
  double small;    /* of the batches after these                                  */
  double cpu;      /* of those of a core                                          */
  double equal;    /* work of each batch of a device; 0: sizes or rates           */
  bool unreserved; /* nothing is reserved for cores                               */
} adji_share_options;

/* What one kind of worker did, and has to do. */
typedef struct adji_pace {
  double work, seconds; /* that are over; of a device, of late                 */
  double all;           /* of a device: work of all its batches that are over  */
  double holds, since;  /* what a device has, and since when it is at it       */
  uint32_t taken;       /* in so many batches                                  */
  double large;         /* fixed: its next large batch; 0: from now on small   */
  bool gone;            /* it takes no more batches                           */
} adji_pace;

typedef struct adji_share {
  adji_share_options options;
  double total; /* work of the queue */
  uint32_t lanes, devices;
  adji_pace cpu;     /* of all lanes: seconds are added up */
  double lane_batch; /* work of the last batch of a lane   */
  adji_pace device[ADJI_MOST_DEVICES];
} adji_share;

/* lanes 0: devices share the queue among themselves. */
void adji_share_init(adji_share *share, const adji_share_options *options, double total, uint32_t lanes,
                     uint32_t devices);

/* Starts from the rates of an earlier pass of the same workers: the work a second of one lane, then of each device; 0:
 * not known. */
void adji_share_expect(adji_share *share, const double *rates);

/* How much work device d should take when `remaining` is in the queue, the next batch being `next`. Negative: nothing
 * until it has finished what it holds, or nothing more if it holds nothing. now: in seconds from the start. */
double adji_share_for_device(const adji_share *share, uint32_t d, double now, double remaining, double next);
/* The same for a lane. Negative: nothing, unless a device fails. */
double adji_share_for_lane(const adji_share *share, double now, double remaining, double next);

/* A device took so much more work; it finished so much; it failed or takes no more. */
void adji_share_took(adji_share *share, uint32_t d, double now, double work);
void adji_share_did(adji_share *share, uint32_t d, double now, double work);
void adji_share_gone(adji_share *share, uint32_t d);
/* A lane spent time on work that is in no batch of the queue; it finished so much work in so much time. */
void adji_share_lane_spent(adji_share *share, double seconds);
void adji_share_lane_did(adji_share *share, double work, double seconds);

#endif
