/* SPDX-License-Identifier: MIT
 *
 * How much of a queue cores and devices get, by a clock of the test's own: all are done at about the same time,
 * whatever a device is worth in cores; and the sizes of the papers.
 */
#include <math.h>

#include "check.h"
#include "queue/queue.h"
#include "queue/share.h"

static double work_between(const adji_queue *queue, adji_batch_run s) {
  double work = 0;
  for (uint64_t i = s.begin; i < s.end; i++)
    work += queue->batches[i].work;
  return work;
}

typedef struct machine {
  uint32_t lanes, devices;
  double lane_rate, device_rate[2]; /* work a second */
  double start_s;                   /* what a device needs to begin a batch */
  const adji_share_options *options;
} machine;

typedef struct outcome {
  double end;
  uint32_t device_batches;
  double device_work;
} outcome;

enum { MOST_SIMULATED = 66, IDLE = -1 };

/* Lanes and devices take turns in the order of time; lanes that are told to wait look again when a device is done. */
static outcome simulate(adji_queue *queue, const machine *m) {
  adji_share share;
  double until[MOST_SIMULATED] = {0}, begun[MOST_SIMULATED] = {0}, has[MOST_SIMULATED] = {0};
  bool gone[MOST_SIMULATED] = {false}, waits[MOST_SIMULATED] = {false};
  outcome result = {0};
  adji_queue_rewind(queue);
  adji_share_init(&share, m->options, queue->left, m->lanes, m->devices);
  for (;;) {
    uint32_t who = UINT32_MAX, all = m->devices + m->lanes;
    for (uint32_t w = 0; w < all; w++)
      if (!gone[w] && !waits[w] && (who == UINT32_MAX || until[w] < until[who])) who = w;
    if (who == UINT32_MAX) break;
    double now = until[who], left, next;
    bool device = who < m->devices;
    if (has[who] > 0) {
      if (device)
        adji_share_did(&share, who, now);
      else
        adji_share_lane_did(&share, has[who], now - begun[who]);
      if (now > result.end) result.end = now;
      has[who] = 0;
      for (uint32_t w = 0; w < all; w++)
        if (device && waits[w]) {
          waits[w] = false;
          until[w] = now;
        }
    }
    adji_batch_run s;
    bool some = adji_queue_look(queue, device, &left, &next);
    double work = !some    ? -1
                  : device ? adji_share_for_device(&share, who, now, left, next)
                           : adji_share_for_lane(&share, now, left, next);
    if (some && work < 0 && !device) {
      waits[who] = true;
      continue;
    }
    if (work < 0) {
      gone[who] = true;
      if (device) adji_share_left(&share, who);
      for (uint32_t w = 0; w < all && device; w++)
        if (waits[w]) {
          waits[w] = false;
          until[w] = now;
        }
      continue;
    }
    assert_true(adji_queue_take_some(queue, device, work, &s));
    has[who] = work_between(queue, s);
    begun[who] = now;
    until[who] = now + (device ? m->start_s + has[who] / m->device_rate[who] : has[who] / m->lane_rate);
    if (device) {
      adji_share_took(&share, who, now, has[who]);
      result.device_batches++;
      result.device_work += has[who];
    }
  }
  double left, next;
  assert_false(adji_queue_look(queue, true, &left, &next)); /* nothing stays behind */
  return result;
}

static void all_are_done_at_the_same_time(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adji_queue queue;
  must(adji_queue_init(&queue, ctx, 16));
  for (uint32_t i = 0; i < 8192; i++) /* 1 s of all cores, 1,024 queries a batch */
    must(adji_queue_add(&queue, (adji_batch){1024 * i, 1024 * i + 1024, 1024}));
  double total = 8192.0 * 1024;
  static const double ratios[] = {0.02, 0.1, 0.5, 1, 2, 10, 50};
  for (uint32_t lanes = 1; lanes <= 64; lanes *= 4)
    for (int i = 0; i < 7; i++)
      for (uint32_t devices = 1; devices <= 2; devices++) {
        double cores = total, each = ratios[i] * cores / devices;
        machine m = {lanes, devices, cores / lanes, {each, each}, 200e-6, NULL};
        outcome o = simulate(&queue, &m);
        double ideal = total / (cores + ratios[i] * cores), alone = total / (ratios[i] * cores);
        double batch = 1024 / m.lane_rate, slowest = 1024 / each; /* what the last to finish may have just begun */
        double granule = batch > slowest ? slowest : batch;
        if (!(o.end < ideal * 1.03 + granule + 0.002) || !(o.end < alone * 1.02 + 4 * devices * m.start_s))
          fail_msg("%u lanes, %u devices, %g: %g s, %g at best, %u batches", lanes, devices, ratios[i], o.end, ideal,
                   o.device_batches);
        assert_true(o.device_batches < 60 * devices);
      }
  adji_queue_clear(&queue);
  adj_ctx_destroy(ctx);
}

/* The sizes of the papers: 0.4, then as much as leaves 0.4 to the cores, then 0.005. */
static void fixed_sizes_are_those_of_the_papers(void **state) {
  (void)state;
  adji_share share;
  adji_share_options fixed = {.fixed = true};
  adji_share_init(&share, &fixed, 1000, 4, 1);
  assert_true(adji_share_for_device(&share, 0, 1, 1000, 1) == 400);
  assert_true(adji_share_for_lane(&share, 0, 1000, 1) == 5);
  adji_share_took(&share, 0, 0, 400);
  adji_share_did(&share, 0, 1);
  double second = adji_share_for_device(&share, 0, 1, 550, 1); /* 0.15 is not reserved */
  assert_true(fabs(second - 150) < 1e-9);
  adji_share_took(&share, 0, 1, second);
  adji_share_did(&share, 0, 2);
  assert_true(adji_share_for_device(&share, 0, 1, 390, 1) == 5);
  adji_share_took(&share, 0, 2, 5);
  adji_share_did(&share, 0, 3);
  assert_true(adji_share_for_device(&share, 0, 1, 900, 1) == 5); /* large ones do not come back */
  assert_true(adji_share_for_device(&share, 0, 1, 49, 1) == 2.5);
  assert_true(adji_share_for_lane(&share, 4, 49, 1) == 2.5);
  fixed = (adji_share_options){true, 0.2, 0.1, 0.01, 0.02};
  adji_share_init(&share, &fixed, 1000, 4, 1);
  assert_true(adji_share_for_device(&share, 0, 1, 1000, 1) == 200);
  assert_true(adji_share_for_device(&share, 0, 1, 90, 1) == 10);
  assert_true(adji_share_for_lane(&share, 0, 1000, 1) == 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_are_done_at_the_same_time),
      cmocka_unit_test(fixed_sizes_are_those_of_the_papers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
