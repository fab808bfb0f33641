/* SPDX-License-Identifier: MIT
 *
 * Whether cores help a device with a join.
 */
#ifndef ADJI_CHOOSE_SHARE_H
#define ADJI_CHOOSE_SHARE_H

#include <stdbool.h>

/* Seconds of a join of all queries. */
typedef struct adji_share_times {
  double index;  /* for cores to get an index; 0: they have one                     */
  double cores;  /* of the cores, with nobody's help                                */
  double device; /* of a device that does lists of queries, rows in place           */
  double place;  /* in which cores put the rows of all these lists into place       */
  double alone;  /* of a device that does everything, in a way of its own perhaps   */
  double extra;  /* that sharing takes beside                                       */
} adji_share_times;

/* How long it takes both. */
double adji_shared_seconds(const adji_share_times *t);

/* Whether that is clearly less than the device alone takes. */
bool adji_sharing_pays(const adji_share_times *t);

#endif
