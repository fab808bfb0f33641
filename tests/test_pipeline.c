/* SPDX-License-Identifier: MIT
 *
 * The pipeline that brings rows from a device to host memory, with a simulated device. Slots and buffers are host
 * memory, and fills and copies happen when they are asked for. The test checks what would go wrong on a real device: a
 * slot must not be filled again before all of it was copied, and must be copied only after it was filled.
 */
#include <stdlib.h>

#include "check.h"

/* The pipeline is compiled here again, with other operations. */
#define adji_gpu_use simulated_use
#define adji_gpu_range_fill simulated_fill
#define adji_gpu_range_fetch simulated_fetch
#define adji_gpu_range_release simulated_release
#define adji_staging_wait simulated_wait
#define adji_staging_at simulated_buffer
#include "gpu/worker/pipeline.c"  // NOLINT(bugprone-suspicious-include)

enum { MOST_SLOTS = 4, MOST_LANES = 8 };

/* Entry e of the result, a number that depends on e. */
static uint32_t id_at(uint64_t e) {
  return (uint32_t)(e * 2654435761u);
}
static float sum_at(uint64_t e) {
  return (float)(e % 1000) * 0.25f;
}

/* Stands for a device and for what is on it. */
typedef struct simulated {
  uint32_t slots;
  uint64_t slot_pairs, buffer_bytes;
  uint32_t *ids[MOST_SLOTS];
  float *sums[MOST_SLOTS];
  adji_gpu_window in_slot[MOST_SLOTS];
  uint64_t remaining[MOST_SLOTS]; /* entries not copied yet, of all parts; UINT64_MAX: free */
  bool with_sums;
  void *buffers[MOST_LANES];
  int64_t fail_at;  /* the call that fails; negative: none */
  adj_ctx *cancels; /* the context that the call cancel_at cancels, or NULL */
  int64_t cancel_at;
  pthread_mutex_t lock;
  uint64_t fills, calls;
  uint64_t slow_every; /* every slow_every-th call takes a while */
} simulated;

static adj_status turn(simulated *s) {
  pthread_mutex_lock(&s->lock);
  uint64_t call = s->calls++;
  pthread_mutex_unlock(&s->lock);
  if (s->slow_every && call % s->slow_every == 0) /* lets others overtake */
    for (volatile int i = 0; i < 20000; i++) {
    }
  if (s->cancels && call == (uint64_t)s->cancel_at) {
    adj_cancel(s->cancels);
    for (volatile int i = 0; i < 20000; i++) { /* lets others see it first */
    }
  }
  if (s->fail_at >= 0 && call == (uint64_t)s->fail_at)
    return adji_fail(ADJ_E_DEVICE, "call %llu", (unsigned long long)call);
  return ADJ_OK;
}

void simulated_use(adji_gpu *gpu) {
  (void)gpu;
}

adj_status simulated_fill(adji_gpu_range *range, const adji_gpu_window *window, uint32_t slot) {
  simulated *s = (simulated *)(void *)range;
  adj_status status = turn(s);
  if (status) return status;
  if (slot >= s->slots || s->remaining[slot] != UINT64_MAX)
    return adji_fail(ADJ_E_INTERNAL, "slot %u is not free", slot);
  if (window->pairs > s->slot_pairs) return adji_fail(ADJ_E_INTERNAL, "the window does not fit");
  for (uint64_t i = 0; i < window->pairs; i++) {
    s->ids[slot][i] = id_at(window->base + i);
    s->sums[slot][i] = sum_at(window->base + i);
  }
  s->in_slot[slot] = *window;
  s->remaining[slot] = window->pairs * (s->with_sums ? 2 : 1);
  s->fills++;
  return ADJ_OK;
}

adj_status simulated_fetch(adji_gpu_range *range, uint32_t slot, adji_gpu_part part, uint64_t first, uint64_t entries,
                           uint32_t buffer) {
  simulated *s = (simulated *)(void *)range;
  adj_status status = turn(s);
  if (status) return status;
  if (s->remaining[slot] == UINT64_MAX || first + entries > s->in_slot[slot].pairs)
    return adji_fail(ADJ_E_INTERNAL, "nothing to copy");
  if (entries * 4 > s->buffer_bytes) return adji_fail(ADJ_E_INTERNAL, "the piece does not fit the buffer");
  if (part == ADJI_PART_IDS)
    memcpy(s->buffers[buffer], s->ids[slot] + first, entries * 4);
  else
    memcpy(s->buffers[buffer], s->sums[slot] + first, entries * 4);
  s->remaining[slot] -= entries;
  return ADJ_OK;
}

adj_status simulated_release(adji_gpu_range *range, uint32_t slot) {
  simulated *s = (simulated *)(void *)range;
  adj_status status = turn(s);
  if (status) return status;
  if (s->remaining[slot]) return adji_fail(ADJ_E_INTERNAL, "slot %u was not copied whole", slot);
  s->remaining[slot] = UINT64_MAX;
  return ADJ_OK;
}

adj_status simulated_wait(adji_gpu *gpu, uint32_t buffer) {
  (void)buffer;
  return turn((simulated *)(void *)gpu);
}

void *simulated_buffer(adji_gpu *gpu, uint32_t buffer) {
  return ((simulated *)(void *)gpu)->buffers[buffer];
}

static simulated *simulate(uint32_t slots, uint64_t slot_pairs, uint64_t buffer_bytes) {
  simulated *s = calloc(1, sizeof *s);
  *s = (simulated){.slots = slots, .slot_pairs = slot_pairs, .buffer_bytes = buffer_bytes, .fail_at = -1};
  pthread_mutex_init(&s->lock, NULL);
  for (uint32_t i = 0; i < slots; i++) {
    s->ids[i] = malloc(slot_pairs * sizeof *s->ids[i]);
    s->sums[i] = malloc(slot_pairs * sizeof *s->sums[i]);
    s->remaining[i] = UINT64_MAX;
  }
  for (int i = 0; i < MOST_LANES; i++)
    s->buffers[i] = malloc(buffer_bytes);
  return s;
}

static void end_simulation(simulated *s) {
  for (int i = 0; i < MOST_SLOTS; i++) {
    free(s->ids[i]);
    free(s->sums[i]);
  }
  for (int i = 0; i < MOST_LANES; i++)
    free(s->buffers[i]);
  pthread_mutex_destroy(&s->lock);
  free(s);
}

/* ---- A join of rows of known lengths ------------------------------------------------------------------ */

typedef struct rows {
  uint64_t count, *offsets, longest;
} rows;

/* Lengths from 0 to `most`, many of them 0. */
static rows make_rows(uint64_t count, uint32_t most, uint32_t seed) {
  rows r = {count, calloc(count + 1, sizeof *r.offsets), 1};
  for (uint64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    uint32_t length = seed >> 31 ? 0 : seed >> 8;
    r.offsets[i + 1] = r.offsets[i] + length % (most + 1);
    if (r.offsets[i + 1] - r.offsets[i] > r.longest) r.longest = r.offsets[i + 1] - r.offsets[i];
  }
  return r;
}

typedef struct setting {
  uint32_t threads, slots;
  uint64_t slot_pairs, buffer_bytes, first_row, end_row;
  bool distances;
} setting;

static adj_status run_pipe(simulated *s, adj_ctx *ctx, const rows *r, const setting *as, uint32_t *ids,
                           float *distances) {
  adji_measure measure = {.step = ADJI_STEP_L1, .report = ADJI_REPORT_SUM};
  adji_row_style style = {.type = ADJ_F32, .measure = &measure, .distances = as->distances};
  adji_window to = {.first_row = as->first_row,
                    .end_row = as->end_row,
                    .offsets = r->offsets,
                    .ids = ids,
                    .distances = as->distances ? distances : NULL};
  adji_pipe_job job = {
      (adji_gpu *)(void *)s, (adji_gpu_range *)(void *)s, &style, &to, as->slots, as->slot_pairs, as->buffer_bytes, 0};
  adji_run run;
  adj_status status = adji_run_init(&run, ctx, NULL);
  s->with_sums = as->distances;
  if (!status) status = adji_pipe_run(&run, &job);
  uint64_t pairs = r->offsets[as->end_row] - r->offsets[as->first_row];
  if (!status) assert_int_equal(run.device.bytes_down, pairs * (as->distances ? 8 : 4));
  adji_run_clear(&run);
  return status;
}

static void check_placed(const rows *r, const setting *as, const uint32_t *ids, const float *distances) {
  uint64_t base = r->offsets[as->first_row], pairs = r->offsets[as->end_row] - base;
  for (uint64_t i = 0; i < pairs; i++) {
    assert_int_equal(ids[i], id_at(base + i));
    if (as->distances) assert_true(distances[i] == sum_at(base + i));
  }
}

static void run_setting(const rows *r, setting as) {
  if (as.slot_pairs < r->longest) as.slot_pairs = r->longest;
  adj_ctx *ctx = context_of(as.threads, NULL);
  simulated *s = simulate(as.slots, as.slot_pairs, as.buffer_bytes);
  uint64_t pairs = r->offsets[as.end_row] - r->offsets[as.first_row];
  uint32_t *ids = calloc(pairs + 1, sizeof *ids);
  float *distances = calloc(pairs + 1, sizeof *distances);
  s->slow_every =
      7 + pairs * sizeof *ids / as.buffer_bytes / 100; /* about a hundred slow calls, whatever the number of calls */
  must(run_pipe(s, ctx, r, &as, ids, distances));
  check_placed(r, &as, ids, distances);
  if (pairs > 4 * as.slot_pairs) assert_true(s->fills >= 4);
  free(ids);
  free(distances);
  end_simulation(s);
  adj_ctx_destroy(ctx);
}

/* ---- The tests ------------------------------------------------------------------------------------------- */

static void test_sizes(void **state) {
  (void)state;
  rows r = make_rows(3000, 40, 1);
  static const uint64_t slot_pairs[] = {1, 100, 1000, 1000000}, buffers[] = {8, 64, 4096, 1 << 20};
  for (int p = 0; p < 4; p++)
    for (int b = 0; b < 4; b++)
      for (uint32_t threads = 1; threads <= 8; threads *= 2)
        run_setting(&r, (setting){threads, 1 + (uint32_t)(p + b) % 4, slot_pairs[p], buffers[b], 0, r.count, b % 2});
  free(r.offsets);
}

static void test_windows(void **state) {
  (void)state;
  rows r = make_rows(2000, 30, 2);
  for (uint64_t first = 0; first <= r.count; first += 333)
    run_setting(&r, (setting){4, 3, 200, 128, first, first + (r.count - first) / 2, true});
  run_setting(&r, (setting){2, 2, 50, 64, 5, 5, false}); /* no rows */
  free(r.offsets);
  rows none = {100, calloc(101, sizeof *none.offsets), 1};
  run_setting(&none, (setting){2, 2, 50, 64, 0, 100, true}); /* only empty rows */
  free(none.offsets);
}

/* Whatever call fails, the run fails with its status, and no lane waits for ever. */
static void test_failures(void **state) {
  (void)state;
  rows r = make_rows(400, 20, 3);
  setting as = {4, 2, 100, 128, 0, r.count, true};
  adj_ctx *ctx = context_of(as.threads, NULL);
  uint32_t *ids = malloc(r.offsets[r.count] * 4);
  float *distances = malloc(r.offsets[r.count] * 4);
  simulated *first = simulate(as.slots, as.slot_pairs, as.buffer_bytes);
  must(run_pipe(first, ctx, &r, &as, ids, distances));
  int64_t calls = (int64_t)first->calls;
  end_simulation(first);
  assert_true(calls > 50);
  for (int64_t n = 0; n < calls; n++) {
    simulated *s = simulate(as.slots, as.slot_pairs, as.buffer_bytes);
    s->fail_at = n;
    must_fail(ADJ_E_DEVICE, "call", run_pipe(s, ctx, &r, &as, ids, distances));
    end_simulation(s);
  }
  adj_ctx_destroy(ctx);
  free(ids);
  free(distances);
  free(r.offsets);
}

static void test_cancel(void **state) {
  (void)state;
  rows r = make_rows(500, 20, 4);
  setting as = {2, 2, 100, 64, 0, r.count, false};
  adj_ctx *ctx = context_of(as.threads, NULL);
  uint32_t *ids = malloc(r.offsets[r.count] * 4);
  simulated *s = simulate(as.slots, as.slot_pairs, as.buffer_bytes);
  adji_call outer = adji_call_begin(&ctx->cancels); /* the run is a part of this call */
  adj_cancel(ctx);
  assert_int_equal(run_pipe(s, ctx, &r, &as, ids, NULL), ADJ_CANCELLED);
  adji_call_set(outer);
  end_simulation(s);
  s = simulate(as.slots, as.slot_pairs, as.buffer_bytes);
  must(run_pipe(s, ctx, &r, &as, ids, NULL));
  check_placed(&r, &as, ids, NULL);
  end_simulation(s);
  adj_ctx_destroy(ctx);
  free(ids);
  free(r.offsets);
}

/* Cancels at any call. A lane that waits for another lane's request must not wait for ever. With one slot every window
 * waits for the one before. */
static void test_cancel_at_every_call(void **state) {
  (void)state;
  rows r = make_rows(100, 20, 6);
  setting as = {8, 1, r.longest, 32, 0, r.count, true};
  adj_ctx *ctx = context_of(as.threads, NULL);
  uint32_t *ids = malloc(r.offsets[r.count] * 4);
  float *distances = malloc(r.offsets[r.count] * 4);
  for (int64_t n = 0, calls = 1; n < calls; n++) {
    simulated *s = simulate(as.slots, as.slot_pairs, as.buffer_bytes);
    s->cancels = ctx;
    s->cancel_at = n;
    adj_status status = run_pipe(s, ctx, &r, &as, ids, distances);
    assert_true(status == ADJ_OK || status == ADJ_CANCELLED);
    if (!status) check_placed(&r, &as, ids, distances);
    if (calls < (int64_t)s->calls) calls = (int64_t)s->calls;
    end_simulation(s);
  }
  adj_ctx_destroy(ctx);
  free(ids);
  free(distances);
  free(r.offsets);
}

/* A row that fits no slot is an error of the caller, and is reported. */
static void test_too_long(void **state) {
  (void)state;
  rows r = make_rows(100, 20, 5);
  setting as = {2, 2, r.longest - 1, 64, 0, r.count, false};
  adj_ctx *ctx = context_of(as.threads, NULL);
  uint32_t *ids = malloc(r.offsets[r.count] * 4);
  simulated *s = simulate(as.slots, as.slot_pairs, as.buffer_bytes);
  must_fail(ADJ_E_INTERNAL, "does not fit", run_pipe(s, ctx, &r, &as, ids, NULL));
  end_simulation(s);
  adj_ctx_destroy(ctx);
  free(ids);
  free(r.offsets);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_sizes),
                                     cmocka_unit_test(test_windows),
                                     cmocka_unit_test(test_failures),
                                     cmocka_unit_test(test_cancel),
                                     cmocka_unit_test(test_cancel_at_every_call),
                                     cmocka_unit_test(test_too_long)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
