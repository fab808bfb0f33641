/* SPDX-License-Identifier: MIT
 *
 * Who gets how much: how cores and devices share a queue so that all of them are done at the same time. It decides and
 * measures, and waits for nobody; times are those of whoever asks, so that tests can have a clock of their own.
 *
 * By rates: a device gets half of what it would do of the rest if all went on as of late, so in the end each of its
 * batches is smaller than the one before, down to a few milliseconds; and none is more than four times as large as what
 * it has done, of which nothing is known before its first one, which is small. What it holds already counts. Cores take
 * one batch of the queue at a time. Whoever would still be at its batch when the others are done with everything takes
 * none.
 *
 * By fixed sizes, those of HybridKNN-Join (4.5) and HEGJoin (4.1): fractions of the whole work. A device gets large
 * batches, each half of the one before, as long as a part of the work remains that is reserved for cores; then small
 * ones. Sizes are halved for the last 5 %.
 */
#ifndef ADJI_SHARE_H
#define ADJI_SHARE_H

#include <stdbool.h>
#include <stdint.h>

enum { ADJI_MOST_DEVICES = 8 };

typedef struct adji_share_options {
  bool fixed;      /* sizes, instead of rates                                     */
  double large;    /* of the first batch of a device; 0: the default, here and below */
  double reserved; /* for cores, while batches are large                          */
  double small;    /* of the batches after these                                  */
  double cpu;      /* of those of a core                                          */
} adji_share_options;

/* What one kind of worker did, and has to do. */
typedef struct adji_pace {
  double work, seconds; /* that are over; of a device, of late                 */
  double all;           /* of a device: work of all its batches that are over  */
  double holds, since;  /* what a device has, and since when it is at it       */
  uint32_t taken;       /* in so many batches                                  */
  double large;         /* fixed: its next large batch; 0: from now on small   */
  bool gone;            /* it takes nothing any more                           */
} adji_pace;

typedef struct adji_share {
  adji_share_options options;
  double total; /* work of the queue */
  uint32_t lanes, devices;
  adji_pace cpu;     /* of all lanes: seconds are added up */
  double lane_batch; /* work of the last batch of a lane   */
  adji_pace device[ADJI_MOST_DEVICES];
} adji_share;

void adji_share_init(adji_share *share, const adji_share_options *options, double total, uint32_t lanes,
                     uint32_t devices);

/* Begins with what a pass before has shown of the same workers: the work a second of a lane, and of each device behind
 * it; 0: nothing is known of it. */
void adji_share_expect(adji_share *share, const double *rates);

/* How much work device d should take where `left` is left, of which `next` comes first; negative: nothing, as long as
 * it holds something; ever again, if it does not. now: in seconds from the beginning. */
double adji_share_for_device(const adji_share *share, uint32_t d, double now, double left, double next);
/* The same for a core; negative: nothing, unless a device fails. */
double adji_share_for_lane(const adji_share *share, double now, double left, double next);

/* A device has taken so much more; it is done with so much of it; it has failed or takes no more. */
void adji_share_took(adji_share *share, uint32_t d, double now, double work);
void adji_share_did(adji_share *share, uint32_t d, double now, double work);
void adji_share_gone(adji_share *share, uint32_t d);
/* A lane was busy for so long with what is in no batch of the queue; and with so much work for so long. */
void adji_share_lane_spent(adji_share *share, double seconds);
void adji_share_lane_did(adji_share *share, double work, double seconds);

#endif
