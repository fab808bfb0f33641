/* SPDX-License-Identifier: MIT
 *
 * How workers share a queue: see share.h.
 */
#include "queue/share.h"

#include <math.h>

/* The part of the remaining work that a device takes first, and the part of its share that it takes later. The first
 * batch must not keep a slow device busy when everything else is done. The later part leaves room for errors of the
 * rates, and for rates that drop: queries at the light end of a queue may take a device three times as long. */
static const double FIRST = 1.0 / 256, PART = 0.5;

/* GROWTH: how many times as large as all work before it a batch may be. MEMORY: the weight of the past in the rate. */
static const double GROWTH = 4, MEMORY = 0.3;

/* The weight of expected rates, as seconds of observation: small, since passes differ. */
static const double EXPECTED_S = 1e-4;

/* Seconds that a device's batch should take at least, so that starting it is a small part. */
static const double LEAST_S = 2e-3;

/* The last part of the work, where fixed sizes are halved. */
static const double ENDING = 0.05;

static const double NOTHING = -1;

static double or_default(double value, double otherwise) {
  return value > 0 ? value : otherwise;
}

void adji_share_init(adji_share *share, const adji_share_options *options, double total, uint32_t lanes,
                     uint32_t devices) {
  *share = (adji_share){.total = total, .lanes = lanes, .devices = devices};
  if (options) share->options = *options;
  adji_share_options *o = &share->options;
  o->large = or_default(o->large, 0.4);
  o->reserved = o->unreserved ? 0 : or_default(o->reserved, 0.4);
  o->small = or_default(o->small, 0.005);
  o->cpu = or_default(o->cpu, 0.005);
  for (uint32_t d = 0; d < devices; d++)
    share->device[d].large = o->large;
}

void adji_share_expect(adji_share *share, const double *rates) {
  if (share->options.fixed || share->options.equal > 0 || (share->lanes && !(rates[0] > 0))) return;
  share->cpu.work = rates[0] * EXPECTED_S;
  share->cpu.seconds = share->lanes ? EXPECTED_S : 0;
  for (uint32_t d = 0; d < share->devices; d++) {
    if (!(rates[1 + d] > 0)) continue;
    share->device[d].work = rates[1 + d] * EXPECTED_S;
    share->device[d].seconds = EXPECTED_S;
    share->device[d].all = share->total;
  }
}

static double rate(const adji_pace *pace) {
  return pace->seconds > 0 ? pace->work / pace->seconds : 0;
}

/* The rate of all lanes. Before a lane has finished a batch it is an upper bound: it assumes that all of them finish
 * now. */
static double rate_of_cores(const adji_share *share, double now, double next) {
  double each = share->cpu.seconds > 0 ? rate(&share->cpu) : now > 0 ? next / now : 0;
  return each * share->lanes;
}

/* ---- Fixed sizes ------------------------------------------------------------------------------------ */

static double halved_at_the_end(const adji_share *share, double fraction, double remaining) {
  return (remaining < ENDING * share->total ? fraction / 2 : fraction) * share->total;
}

/* The work of a device's next large batch; 0: there are no more large batches. */
static double large_batch(const adji_share *share, const adji_pace *device, double remaining) {
  double free = remaining / share->total - share->options.reserved;
  double size = device->large < free ? device->large : free;
  return size > share->options.small ? size * share->total : 0;
}

static double fixed_for_device(const adji_share *share, uint32_t d, double remaining) {
  double large = large_batch(share, &share->device[d], remaining);
  return large > 0 ? large : halved_at_the_end(share, share->options.small, remaining);
}

/* ---- Rates ------------------------------------------------------------------------------------------ */

/* The rate of all devices that still work. A device without a known rate counts with the rate of device d. */
static double rate_of_devices(const adji_share *share, uint32_t d) {
  double sum = 0;
  for (uint32_t i = 0; i < share->devices; i++)
    if (!share->device[i].gone) sum += or_default(rate(&share->device[i]), rate(&share->device[d]));
  return sum;
}

/* The part of the work a device holds that it has not done yet. */
static double pending(const adji_pace *device, double now) {
  double remaining = device->holds - rate(device) * (now - device->since);
  return remaining > 0 ? remaining : 0;
}

static double rated_for_device(const adji_share *share, uint32_t d, double now, double remaining, double next) {
  const adji_pace *device = &share->device[d];
  double own = rate(device), devices = rate_of_devices(share, d);
  double others = devices - own + rate_of_cores(share, now, next);
  if (!(own > 0)) return device->taken ? NOTHING : remaining * FIRST;
  double held = pending(device, now), least = own * LEAST_S;
  if (share->cpu.seconds > 0 && next * others + held * others > remaining * own)
    return NOTHING; /* the others finish everything before this device would */
  double fair = (remaining + held) * own / (own + others), part = fair * PART - held, most = GROWTH * device->all;
  if (part > least) return part < most ? part : most;
  /* Devices finish before a lane does one more batch, so they divide all remaining work among themselves. */
  if (share->cpu.seconds > 0 && (remaining + held) * rate(&share->cpu) < share->lane_batch * devices) {
    double portion = fmax(remaining * own / devices, least);
    return portion < most ? portion : most;
  }
  if (device->taken) return NOTHING;
  return fair < least ? fair : least;
}

/* Whether devices would finish everything before a lane finished its next batch. */
static bool too_late(const adji_share *share, double now, double remaining, double next) {
  double rates = 0, work = remaining;
  for (uint32_t d = 0; d < share->devices; d++) {
    const adji_pace *device = &share->device[d];
    if (device->gone) continue;
    if (!(rate(device) > 0)) return false;
    rates += rate(device);
    work += pending(device, now);
  }
  return next * rates > work * rate(&share->cpu);
}

/* ---- Both ------------------------------------------------------------------------------------------- */

double adji_share_for_device(const adji_share *share, uint32_t d, double now, double remaining, double next) {
  if (share->options.equal > 0) return share->options.equal;
  return share->options.fixed ? fixed_for_device(share, d, remaining)
                              : rated_for_device(share, d, now, remaining, next);
}

double adji_share_for_lane(const adji_share *share, double now, double remaining, double next) {
  if (share->options.equal > 0) return next;
  if (share->options.fixed) return halved_at_the_end(share, share->options.cpu, remaining);
  bool devices = false;
  for (uint32_t d = 0; d < share->devices; d++)
    devices = devices || !share->device[d].gone;
  return devices && rate(&share->cpu) > 0 && too_late(share, now, remaining, next) ? NOTHING : next;
}

void adji_share_took(adji_share *share, uint32_t d, double now, double work) {
  adji_pace *device = &share->device[d];
  if (!device->taken++) device->since = now;
  device->holds += work;
  double half = work / share->total / 2;
  device->large = half < device->large / 2 ? half : device->large / 2;
}

void adji_share_did(adji_share *share, uint32_t d, double now, double work) {
  adji_pace *device = &share->device[d];
  device->all += work;
  device->work = MEMORY * device->work + work;
  device->seconds = MEMORY * device->seconds + (now - device->since);
  device->since = now;
  device->holds = --device->taken ? device->holds - work : 0;
}

void adji_share_gone(adji_share *share, uint32_t d) {
  share->device[d].gone = true;
  share->device[d].holds = 0;
  share->device[d].taken = 0;
}

void adji_share_lane_spent(adji_share *share, double seconds) {
  share->cpu.seconds += seconds;
}

void adji_share_lane_did(adji_share *share, double work, double seconds) {
  share->lane_batch = work;
  share->cpu.work += work;
  share->cpu.seconds += seconds;
}
