/* SPDX-License-Identifier: MIT
 *
 * Who gets how much: see share.h.
 */
#include "queue/share.h"

#include <math.h>

/* Of the rest: what a device takes first, and what part of its share later. A first batch must not keep a slow device
 * busy when everything else is done; a part of nearly 1 would leave no room for errors of the rates, nor for those of
 * late that are lower than those before: queries at the light end of a queue may take a device three times as long. */
static const double FIRST = 1.0 / 256, PART = 0.5;

/* What a batch may be of all that came before, and what the past counts for in the rate, each time. */
static const double GROWTH = 4, MEMORY = 0.3;

/* Seconds that what was expected counts for, which is little: passes differ. */
static const double EXPECTED_S = 1e-4;

/* Seconds that a batch of a device should take at least, so that starting it is a small part of that. */
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
  o->reserved = or_default(o->reserved, 0.4);
  o->small = or_default(o->small, 0.005);
  o->cpu = or_default(o->cpu, 0.005);
  for (uint32_t d = 0; d < devices; d++)
    share->device[d].large = o->large;
}

void adji_share_expect(adji_share *share, const double *rates) {
  if (share->options.fixed || !(rates[0] > 0)) return;
  share->cpu.work = rates[0] * EXPECTED_S;
  share->cpu.seconds = EXPECTED_S;
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

/* As long as no lane has done a batch: what it would be if all of them were done now, which is too much. */
static double rate_of_cores(const adji_share *share, double now, double next) {
  double each = share->cpu.seconds > 0 ? rate(&share->cpu) : now > 0 ? next / now : 0;
  return each * share->lanes;
}

/* ---- Fixed sizes ------------------------------------------------------------------------------------ */

static double halved_at_the_end(const adji_share *share, double fraction, double left) {
  return (left < ENDING * share->total ? fraction / 2 : fraction) * share->total;
}

/* The next large batch of a device; 0: they are over. */
static double large_batch(const adji_share *share, const adji_pace *device, double left) {
  double free = left / share->total - share->options.reserved;
  double size = device->large < free ? device->large : free;
  return size > share->options.small ? size * share->total : 0;
}

static double fixed_for_device(const adji_share *share, uint32_t d, double left) {
  double large = large_batch(share, &share->device[d], left);
  return large > 0 ? large : halved_at_the_end(share, share->options.small, left);
}

/* ---- Rates ------------------------------------------------------------------------------------------ */

/* Of all devices that still work; one of which nothing is known counts as if it were d. */
static double rate_of_devices(const adji_share *share, uint32_t d) {
  double sum = 0;
  for (uint32_t i = 0; i < share->devices; i++)
    if (!share->device[i].gone) sum += or_default(rate(&share->device[i]), rate(&share->device[d]));
  return sum;
}

/* What a device still has to do of what it holds. */
static double pending(const adji_pace *device, double now) {
  double left = device->holds - rate(device) * (now - device->since);
  return left > 0 ? left : 0;
}

static double rated_for_device(const adji_share *share, uint32_t d, double now, double left, double next) {
  const adji_pace *device = &share->device[d];
  double mine = rate(device), devices = rate_of_devices(share, d);
  double others = devices - mine + rate_of_cores(share, now, next);
  if (!(mine > 0)) return device->taken ? NOTHING : left * FIRST;
  double has = pending(device, now), least = mine * LEAST_S;
  if (share->cpu.seconds > 0 && next * others + has * others > left * mine)
    return NOTHING; /* the others have done everything by then */
  double fair = (left + has) * mine / (mine + others), part = fair * PART - has, most = GROWTH * device->all;
  if (part > least) return part < most ? part : most;
  /* Before a lane has done one more batch: all of it, or with other devices. */
  if (share->cpu.seconds > 0 && (left + has) * rate(&share->cpu) < share->lane_batch * devices) {
    double its = fmax(left * mine / devices, least);
    return its < most ? its : most;
  }
  if (device->taken) return NOTHING;
  return fair < least ? fair : least;
}

/* Whether devices would be done with all there is before a lane is with its next batch. */
static bool too_late(const adji_share *share, double now, double left, double next) {
  double rates = 0, work = left;
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

double adji_share_for_device(const adji_share *share, uint32_t d, double now, double left, double next) {
  return share->options.fixed ? fixed_for_device(share, d, left) : rated_for_device(share, d, now, left, next);
}

double adji_share_for_lane(const adji_share *share, double now, double left, double next) {
  if (share->options.fixed) return halved_at_the_end(share, share->options.cpu, left);
  bool devices = false;
  for (uint32_t d = 0; d < share->devices; d++)
    devices = devices || !share->device[d].gone;
  return devices && rate(&share->cpu) > 0 && too_late(share, now, left, next) ? NOTHING : next;
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
