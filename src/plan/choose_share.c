/* SPDX-License-Identifier: MIT
 *
 * Whether cores help a device with a join, or leave it alone.
 *
 * Cores that help have two things to do: their own queries, and to put the rows of the device into place, which they do
 * as well when it is alone. With the device's part f of the queries, it is busy for f device seconds, and the cores for
 * (1 - f) cores + f place. Both are done at once where these are equal: after device cores / (cores + device - place).
 * A device that waits for its rows to be put into place is not helped by cores that have other things to do: there f is
 * 1. With the device held to a few blocks, 20 million points in three dimensions with 100 neighbours took cores 1,830
 * ms, it 2,589 ms and both 1,146 ms, by this 1,141.
 *
 * Threads that wake, lists, passes and the last batches cost both some 2 ms more (core/costs.h).
 */
#include "plan/choose_share.h"

#include <math.h>

/* What sharing must take at most of the device's own time, for the estimates are rough. */
static const double WORTH_SHARING = 0.9;

double adji_shared_seconds(const adji_share_times *t) {
  double rest = t->cores + fmax(t->device - t->place, 0), both = rest > 0 ? t->device * t->cores / rest : 0;
  return t->index + t->extra + fmin(both, t->device);
}

bool adji_sharing_pays(const adji_share_times *t) {
  return adji_shared_seconds(t) < WORTH_SHARING * t->alone;
}
