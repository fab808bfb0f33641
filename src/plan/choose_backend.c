/* SPDX-License-Identifier: MIT
 *
 * When a device does a join, and when cores help it.
 *
 * A device is used when the cores would take longer than the device takes to start. Start times were measured on an
 * H200 with 16 cores:
 *
 * - Loading CUDA and opening a device, in a process that has not done so: 0.17 to 0.23 s; 0.45 s in the first process
 *   on a machine. After that a GPU takes a fifth of the cores' time or less, so a join must take the cores a quarter of
 *   a second before a device is even looked for.
 * - Opening one where the process has started CUDA, for another context or another library: 0.04 s, most of it for
 *   pinned memory.
 * - An open device, from an earlier join of the context: launches, copies and waits of the smallest join take 0.1 ms in
 *   a kNN join and 0.2 ms in a range join. Waking 16 threads in every loop takes the cores just as long. So any work at
 *   all favours the device: 1,000 points take it 0.12 ms (k = 8) and 0.23 ms (10 neighbours within a radius, 2-D), and
 *   the cores 0.22 and 0.31 ms.
 *
 * Cores that help have their own queries to do, and also copy the device's rows into the result, as they do when the
 * device works alone. If the device does the part f of the queries, it is busy for f device seconds, and the cores for
 * (1 - f) cores + f place. Both finish together where these are equal: after device cores / (cores + device - place). A
 * device that waits for its rows to be placed gains nothing from cores that have other work; then f is 1. With the
 * device limited to a few blocks, 20 million points in three dimensions with 100 neighbours took the cores 1,830 ms,
 * the device 2,589 ms and both 1,146 ms; the formula says 1,141.
 *
 * Several devices without cores each take their part of the queries, by lists. One device alone may need less work: it
 * keeps what it counts, and places rows in their order.
 */
#include <math.h>

#include "plan/choose.h"

bool adji_worth_a_device(const adji_costs *costs, double cores_s, adji_readiness ready) {
  return cores_s > (ready == ADJI_OPEN      ? costs->device_ready_s
                    : ready == ADJI_STARTED ? costs->device_open_s
                                            : costs->device_start_s);
}

/* Sharing must take at most this part of the time of the device alone, because the estimates are rough. */
static const double WORTH_SHARING = 0.9;

double adji_shared_seconds(const adji_share_times *t) {
  double rest = t->cores + fmax(t->device - t->place, 0), both = rest > 0 ? t->device * t->cores / rest : 0;
  return t->index + t->extra + fmin(both, t->device);
}

bool adji_sharing_pays(const adji_share_times *t) {
  return adji_shared_seconds(t) < WORTH_SHARING * t->alone;
}

/* Host memory takes the rows of two links at a time. This is an assumption: several GPUs were not measured. */
static const double LINKS = 2;

double adji_several_seconds(const adji_share_times *t, uint32_t devices, double begin) {
  return begin + t->extra + fmax(t->device / devices, t->place / fmin(devices, LINKS));
}

bool adji_several_pay(const adji_share_times *t, uint32_t devices, double begin) {
  return adji_several_seconds(t, devices, begin) < WORTH_SHARING * t->alone;
}
