/* SPDX-License-Identifier: MIT
 *
 * How much of a queue cores and devices get, measured by a simulated clock. All must be done at about the same time,
 * whatever the speed of a device is and was expected to be. And the sizes of the papers.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "queue/queue.h"
#include "queue/share.h"

typedef struct machine {
  uint32_t lanes, devices;
  double lane_rate, device_rate[2]; /* work per second */
  double start_s;                   /* time that an idle device needs to begin a batch */
  bool ahead;                       /* devices take a batch while they work on another */
  double thin;                      /* by how much more work costs at the light end of the queue */
  const adji_share_options *options;
  double expected; /* expected rates of devices relative to their real ones; 0: nothing is known */
} machine;

typedef struct outcome {
  double end;
  uint32_t device_batches;
  double device_work;
} outcome;

enum { MOST_SIMULATED = 66 };

/* Some batches: their work and its cost. */
typedef struct stretch {
  double work, cost;
} stretch;

/* A lane or a device at work. A device that takes batches ahead may have two stretches. */
typedef struct worker {
  double until, begun; /* of the first stretch */
  stretch has[2];
  int count;
  bool gone, waits;
} worker;

typedef struct simulation {
  const machine *m;
  adji_queue *queue;
  adji_share share;
  worker workers[MOST_SIMULATED]; /* devices first */
  outcome result;
} simulation;

static stretch measure(const simulation *w, adji_batch_run s) {
  stretch sum = {0, 0};
  for (uint64_t i = s.begin; i < s.end; i++) {
    double work = w->queue->batches[i].work;
    sum.work += work;
    sum.cost += work * (1 + w->m->thin * (double)i / (double)w->queue->count);
  }
  return sum;
}

static bool take(simulation *w, uint32_t number, double now) {
  worker *self = &w->workers[number];
  bool device = number < w->m->devices;
  double remaining_work, next;
  adji_batch_run s;
  if (!adji_queue_look(w->queue, device, &remaining_work, &next)) return false;
  double work = device ? adji_share_for_device(&w->share, number, now, remaining_work, next)
                       : adji_share_for_lane(&w->share, now, remaining_work, next);
  if (work < 0) {
    self->waits = !device; /* waits for a device to be done */
    return false;
  }
  assert_true(adji_queue_take_some(w->queue, device, work, &s));
  stretch more = self->has[self->count++] = measure(w, s);
  if (!device) return true;
  adji_share_took(&w->share, number, now, more.work);
  w->result.device_batches++;
  w->result.device_work += more.work;
  return true;
}

static void finish_stretch(simulation *w, uint32_t number, double now) {
  worker *self = &w->workers[number];
  bool device = number < w->m->devices;
  if (device)
    adji_share_did(&w->share, number, now, self->has[0].work);
  else
    adji_share_lane_did(&w->share, self->has[0].work, now - self->begun);
  if (now > w->result.end) w->result.end = now;
  self->has[0] = self->has[1];
  self->count--;
}

static void wake_lanes(simulation *w, double now) {
  for (uint32_t i = w->m->devices; i < w->m->devices + w->m->lanes; i++)
    if (w->workers[i].waits) {
      w->workers[i].waits = false;
      w->workers[i].until = now;
    }
}

/* The turn of a worker that begins, or is done with a stretch. */
static void turn(simulation *w, uint32_t number, double now) {
  worker *self = &w->workers[number];
  bool device = number < w->m->devices, busy = self->count;
  if (self->count) finish_stretch(w, number, now);
  bool idle = !self->count || !busy;
  while (self->count < (device && w->m->ahead ? 2 : 1) && take(w, number, now))
    ;
  if (self->count) {
    self->begun = now;
    self->until = now + self->has[0].cost / (device ? w->m->device_rate[number] : w->m->lane_rate);
    if (device && idle) self->until += w->m->start_s;
  } else if (!self->waits) {
    self->gone = true;
    if (device) adji_share_gone(&w->share, number);
  }
  if (device) wake_lanes(w, now);
}

/* Lanes and devices take turns in the order of time. */
static outcome simulate(adji_queue *queue, const machine *m) {
  simulation *w = calloc(1, sizeof *w);
  w->m = m;
  w->queue = queue;
  adji_queue_rewind(queue);
  adji_share_init(&w->share, m->options, queue->remaining, m->lanes, m->devices);
  double rates[] = {4 * m->lane_rate, 4 * m->expected * m->device_rate[0], 4 * m->expected * m->device_rate[1]};
  if (m->expected > 0) adji_share_expect(&w->share, rates); /* as from an earlier pass with other rates */
  for (;;) {
    uint32_t number = UINT32_MAX;
    for (uint32_t i = 0; i < m->devices + m->lanes; i++) {
      const worker *self = &w->workers[i];
      if (!self->gone && !self->waits && (number == UINT32_MAX || self->until < w->workers[number].until)) number = i;
    }
    if (number == UINT32_MAX) break;
    turn(w, number, w->workers[number].until);
  }
  double remaining_work, next;
  assert_false(adji_queue_look(queue, true, &remaining_work, &next)); /* no batch is left */
  outcome result = w->result;
  free(w);
  return result;
}

/* Checks how much later the last worker is done than if all had been busy to the end, relative to that time. */
static void check_share(adji_queue *queue, const machine *m, double ratio, double total, double most) {
  outcome o = simulate(queue, m);
  double cost = total * (1 + m->thin / 2), cores = m->lane_rate * m->lanes;
  double ideal = cost / (cores + ratio * cores), alone = cost / (ratio * cores);
  double batch = 1024 * (1 + m->thin) / m->lane_rate, slowest = 1024 * (1 + m->thin) / m->device_rate[0];
  double granule = batch > slowest ? slowest : batch;            /* the last worker may just have begun this */
  double starts = (m->ahead ? 4 : 12) * m->devices * m->start_s; /* starts of batches that no other work hides */
  if (!(o.end < ideal * most + granule + starts) || !(o.end < alone * (most - 0.01) + starts))
    fail_msg("%u lanes, %u devices, %g, thin %g, ahead %d: %g s, %g at best, %u batches", m->lanes, m->devices, ratio,
             m->thin, m->ahead, o.end, ideal, o.device_batches);
  assert_true(o.device_batches < 60 * m->devices);
}

static void all_are_done_at_the_same_time(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adji_queue queue;
  must(adji_queue_init(&queue, ctx, 16));
  for (uint32_t i = 0; i < 8192; i++) /* 1 s of all cores, 1,024 queries per batch */
    must(adji_queue_add(&queue, (adji_batch){1024 * i, 1024 * i + 1024, 1024}));
  double total = 8192.0 * 1024;
  static const double ratios[] = {0.02, 0.1, 0.5, 1, 2, 10, 50}, expected[] = {0.5, 1, 2};
  for (uint32_t lanes = 1; lanes <= 64; lanes *= 4)
    for (int i = 0; i < 7; i++)
      for (uint32_t devices = 1; devices <= 2; devices++)
        for (int how = 0; how < 4; how++) {
          double each = ratios[i] * total / devices;
          machine m = {lanes, devices, total / lanes, {each, each}, 200e-6, how % 2, how < 2 ? 0 : 3, NULL, 0};
          double most = how < 2 ? 1.03 : 1.08; /* later if rates change */
          check_share(&queue, &m, ratios[i], total, most);
          for (int e = 0; e < 3; e++) {
            m.expected = expected[e];
            check_share(&queue, &m, ratios[i], total, m.expected > 1 ? most + 0.03 : most);
          }
        }
  adji_queue_clear(&queue);
  adj_ctx_destroy(ctx);
}

/* Few batches for many lanes, some 32 times as heavy as others. A device as fast as all lanes together must not take
 * all remaining batches before the lanes have done one. */
static void few_batches_are_shared_too(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  static const double times[] = {0.01, 0.1, 1};
  for (int skewed = 0; skewed < 2; skewed++)
    for (int t = 0; t < 3; t++) {
      double seconds = times[t];
      adji_queue queue;
      must(adji_queue_init(&queue, ctx, 16));
      for (uint32_t i = 0; i < 2048; i++)
        must(adji_queue_add(&queue, (adji_batch){i, i + 1, skewed ? 1 + 31.0 * (2047 - i) / 2047 : 1}));
      double total = skewed ? 2048 * 16.5 : 2048, rate = total / seconds;
      machine m = {64, 1, rate / 64, {rate, rate}, 100e-6, true, 0, NULL, 0};
      outcome o = simulate(&queue, &m);
      if (!(o.end < seconds / 2 * 1.12 + 4 * m.start_s))
        fail_msg("skewed %d, %g s of the cores: %g s", skewed, seconds, o.end);
      adji_queue_clear(&queue);
    }
  adj_ctx_destroy(ctx);
}

/* The sizes of the papers: first 0.4, then as much as leaves 0.4 to the cores, then 0.005. */
static void fixed_sizes_are_those_of_the_papers(void **state) {
  (void)state;
  adji_share share;
  adji_share_options fixed = {.fixed = true};
  adji_share_init(&share, &fixed, 1000, 4, 1);
  assert_true(adji_share_for_device(&share, 0, 1, 1000, 1) == 400);
  assert_true(adji_share_for_lane(&share, 0, 1000, 1) == 5);
  adji_share_took(&share, 0, 0, 400);
  adji_share_did(&share, 0, 1, 400);
  double second = adji_share_for_device(&share, 0, 1, 550, 1); /* 0.15 is not reserved */
  assert_true(fabs(second - 150) < 1e-9);
  adji_share_took(&share, 0, 1, second);
  adji_share_did(&share, 0, 2, second);
  assert_true(adji_share_for_device(&share, 0, 1, 390, 1) == 5);
  adji_share_took(&share, 0, 2, 5);
  adji_share_did(&share, 0, 3, 5);
  assert_true(adji_share_for_device(&share, 0, 1, 900, 1) == 5); /* large stretches do not come back */
  assert_true(adji_share_for_device(&share, 0, 1, 49, 1) == 2.5);
  assert_true(adji_share_for_lane(&share, 4, 49, 1) == 2.5);
  fixed = (adji_share_options){.fixed = true, .large = 0.2, .reserved = 0.1, .small = 0.01, .cpu = 0.02};
  adji_share_init(&share, &fixed, 1000, 4, 1);
  assert_true(adji_share_for_device(&share, 0, 1, 1000, 1) == 200);
  assert_true(adji_share_for_device(&share, 0, 1, 90, 1) == 10);
  assert_true(adji_share_for_lane(&share, 0, 1000, 1) == 20);
  fixed = (adji_share_options){.fixed = true, .large = 1, .unreserved = true};
  adji_share_init(&share, &fixed, 1000, 4, 1);
  assert_true(adji_share_for_device(&share, 0, 1, 1000, 1) == 1000);
  adji_share_took(&share, 0, 1, 100);
  assert_true(adji_share_for_device(&share, 0, 1, 20, 1) == 20); /* nothing is kept for cores */
}

/* HEGJoin: all batches of a device have the same work, whatever was done so far. */
static void equal_results(void **state) {
  (void)state;
  adji_share share;
  adji_share_options equal = {.equal = 70};
  double rates[] = {5, 1000};
  adji_share_init(&share, &equal, 1000, 4, 1);
  adji_share_expect(&share, rates);
  for (int i = 0; i < 3; i++) {
    assert_true(adji_share_for_device(&share, 0, i, 1000 - 70 * i, 3) == 70);
    assert_true(adji_share_for_lane(&share, i, 1000 - 70 * i, 3) == 3);
    adji_share_took(&share, 0, i, 70);
  }
}

/* Devices without cores: an idle device gets work as long as there is any, and together the devices get all of it. In
 * the end the slower device holds less. */
static void devices_alone(void **state) {
  (void)state;
  enum { DEVICES = 2 };
  const double speed[DEVICES] = {300, 100}, total = 1000;
  double until[DEVICES] = {0}, held[DEVICES] = {0}, did[DEVICES] = {0}, remaining_work = total, now = 0;
  adji_share share;
  adji_share_init(&share, NULL, total, 0, DEVICES);
  while (remaining_work > 0 || held[0] > 0 || held[1] > 0) {
    uint32_t d = until[0] <= until[1] ? 0 : 1;
    if (!(remaining_work > 0) && !(held[d] > 0)) d = 1 - d;
    now = until[d] > now ? until[d] : now;
    if (held[d] > 0) adji_share_did(&share, d, now, held[d]);
    did[d] += held[d];
    held[d] = 0;
    if (!(remaining_work > 0)) continue;
    double work = adji_share_for_device(&share, d, now, remaining_work, 1);
    assert_true(work >= 0);
    held[d] = work < 1 ? 1 : work < remaining_work ? work : remaining_work;
    if (held[d] > remaining_work) held[d] = remaining_work;
    adji_share_took(&share, d, now, held[d]);
    remaining_work -= held[d];
    until[d] = now + held[d] / speed[d];
  }
  assert_true(did[0] + did[1] > 0.999 * total && did[0] + did[1] < 1.001 * total);
  assert_true(fabs(did[0] / did[1] - 3) < 0.5);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_are_done_at_the_same_time),
      cmocka_unit_test(few_batches_are_shared_too),
      cmocka_unit_test(fixed_sizes_are_those_of_the_papers),
      cmocka_unit_test(equal_results),
      cmocka_unit_test(devices_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
