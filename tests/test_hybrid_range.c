/* SPDX-License-Identifier: MIT
 *
 * Range joins that cores share with a device: the worker of gpu/hybrid/range_worker.h, with a device that is made of C
 * functions and knows the answer. Results are those of cores alone, with lists, ranges and buffers of all sizes, a
 * device that is slow, fails or takes no part, streams, limits and cancelling; counted first and then filled, or with
 * each pair found once.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "cpu/range.h"
#include "gpu/hybrid/list_place.h"
#include "gpu/hybrid/range_worker.h"
#include "plan/plan.h"
#include "running.h"

/* How a join is shared. */
typedef struct sharing {
  uint64_t batch, list_queries, list_pairs, list_ranges, buffer_bytes;
  int fails_at, refuses_at; /* lists that fail, passes that are refused, from 1 */
  int slow_ms;              /* of every list */
  adji_share_options share;
  bool once; /* each pair is found once */
  /* What was found so is not there when it is asked for; what cores found does not fit, or does not arrive. */
  bool loses_counts, loses_rows, has_no_room, loses_added;
} sharing;

/* A device with lists and buffers as a GPU has them, and an order of its own, which knows the answer: the rows of the
 * cores. */
typedef struct oracle {
  const adj_plan *plan;
  const adj_result *answer;
  const sharing *how;
  adji_rows_device device;
  adji_range_worker worker;
  adji_shared_work work;
  uint32_t *rows[ADJI_LISTS];
  uint64_t *offsets[ADJI_LISTS];
  uint64_t counts[ADJI_LISTS];
  bool under_way[ADJI_LISTS];
  char **buffers;
  adji_tally found, totals[ADJI_LISTS]; /* of all lists; up to that in a slot */
  int begins, ends, calls, settled;
  bool *mine;         /* by row: its query was the device's, in a pass in which pairs are found once */
  uint32_t *position; /* of each row in the order of the cores                                       */
  bool failed;
  uint32_t *added; /* by row: entries that cores found; NULL: they did not tell */
} oracle;

static float sum_of(const oracle *o, uint32_t row, uint32_t id) {
  const adj_dataset *left = o->plan->join.left, *right = o->plan->join.right;
  const float *a = (const float *)(const void *)(left->data + row * left->row_stride);
  const float *b = (const float *)(const void *)(right->data + id * right->row_stride);
  return adji_sum_f32(&o->plan->measure, a, 1, b, 1, left->dim);
}

static uint64_t length_of(const oracle *o, uint64_t row) {
  const uint64_t *offsets = adj_result_offsets(o->answer);
  return offsets[row + 1] - offsets[row];
}

static int by_number(const void *left, const void *right) {
  uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
  return a < b ? -1 : a > b;
}

static void sleep_ms(int ms) {
  struct timespec time = {0, ms * 1000000L};
  if (ms) nanosleep(&time, NULL);
}

/* ---- Pairs that are found once ------------------------------------------------------------------------ */

typedef void (*entry_fn)(void *user, uint32_t row, uint32_t id);

/* Entries of rows that the queries of the device found: pairs whose first point in the order is one of these. */
static void for_each_found(const oracle *o, entry_fn fn, void *user) {
  const uint64_t *offsets = adj_result_offsets(o->answer);
  const uint32_t *ids = adj_result_ids(o->answer);
  for (uint32_t row = 0; row < o->plan->left->count; row++)
    for (uint64_t at = offsets[row]; at < offsets[row + 1]; at++) {
      uint32_t first = o->position[row] < o->position[ids[at]] ? row : ids[at];
      if (ids[at] == row || !o->mine[first]) continue;
      fn(user, row, ids[at]);
    }
}

static void count_entry(void *user, uint32_t row, uint32_t id) {
  (void)id;
  ((uint32_t *)user)[row]++;
}

static bool is_in_row(const oracle *o, uint32_t row, uint32_t id) {
  const uint64_t *offsets = adj_result_offsets(o->answer);
  for (uint64_t at = offsets[row]; at < offsets[row + 1]; at++)
    if (adj_result_ids(o->answer)[at] == id) return true;
  return false;
}

/* Every pair belongs to the answer, is of a query that the device did not have, and has the right sum. */
static void take_record(oracle *o, const uint32_t *record, uint32_t sum_words) {
  bool one_way = o->plan->join.style.one_way;
  const uint32_t *ids = record + 2, *sums = ids + record[1];
  for (uint32_t i = 0; i < record[1]; i++) {
    uint32_t row = one_way && ids[i] < record[0] ? ids[i] : record[0], id = record[0] ^ ids[i] ^ row;
    float sum = sum_of(o, row, id);
    assert_true(is_in_row(o, row, id) && !o->mine[o->position[row] < o->position[id] ? row : id]);
    assert_true(sum_words <= 1 && (!sum_words || !memcmp(sums + i, &sum, sizeof sum)));
    o->added[row]++;
    if (!one_way) o->added[id]++;
  }
}

static adj_status oracle_add(void *state, adji_run *run, const adji_found *found) {
  (void)run;
  oracle *o = state;
  uint64_t pairs = 0;
  assert_true(o->work.once && o->work.keep && !o->added);
  if (o->failed || o->how->loses_added) return adji_fail(ADJ_E_DEVICE, "device 0: has lost what it found");
  if (o->how->has_no_room) return adji_fail(ADJ_E_DEVICE_MEMORY, "device 0: no room");
  o->added = calloc(o->plan->left->count + 1, sizeof *o->added);
  for (uint64_t i = 0; i < found->count; pairs += found->lists[i++].pairs)
    for (uint64_t at = 0; at < found->lists[i].used;) {
      const uint32_t *record = found->lists[i].words + at;
      take_record(o, record, found->sum_words);
      at += 2 + (uint64_t)record[1] * (1 + found->sum_words);
    }
  assert_int_equal(pairs, found->pairs);
  return ADJ_OK;
}

static adj_status oracle_counts(void *state, adji_run *run, uint32_t *counts) {
  (void)run;
  oracle *o = state;
  assert_true(o->work.once);
  if (o->failed || o->how->loses_counts) return adji_fail(ADJ_E_DEVICE, "device 0: has lost what it found");
  memset(counts, 0, o->plan->left->count * sizeof *counts);
  for_each_found(o, count_entry, counts);
  for (uint32_t row = 0; row < o->plan->left->count && o->added; row++)
    assert_int_equal(counts[row] += o->added[row], length_of(o, row));
  return ADJ_OK;
}

typedef struct placing {
  const oracle *oracle;
  const adji_window *to;
  uint64_t *next; /* of each row */
} placing;

static void place_entry(void *user, uint32_t row, uint32_t id) {
  placing *p = user;
  uint64_t at = p->to->offsets[row] + p->next[row]++;
  assert_true(at < p->to->offsets[row + (uint64_t)1]);
  p->to->ids[at] = id;
  if (p->to->distances) ((float *)p->to->distances)[at] = sum_of(p->oracle, row, id);
}

static adj_status oracle_rows(void *state, adji_run *run, const adji_window *to) {
  (void)run;
  oracle *o = state;
  assert_true(o->work.once && o->work.keep && !o->failed);
  if (o->how->loses_rows) return adji_fail(ADJ_E_DEVICE, "device 0: has lost what it found");
  uint64_t pairs = adj_result_pairs(o->answer);
  if (o->added) { /* then it has all of the result */
    assert_memory_equal(to->offsets, adj_result_offsets(o->answer), (o->plan->left->count + 1) * sizeof *to->offsets);
    if (pairs) memcpy(to->ids, adj_result_ids(o->answer), pairs * sizeof *to->ids);
    if (pairs && to->distances) memcpy(to->distances, adj_result_distances(o->answer), pairs * sizeof(float));
    return ADJ_OK;
  }
  placing p = {o, to, calloc(o->plan->left->count + 1, sizeof *p.next)};
  for_each_found(o, place_entry, &p);
  free(p.next);
  return ADJ_OK;
}

/* ---- Lists --------------------------------------------------------------------------------------------- */

static adj_status oracle_list(void *state, const adji_list_ranges *list, uint32_t slot, uint64_t *rows) {
  oracle *o = state;
  const adji_window *window = o->work.window;
  uint64_t listed = 0, all = 0, pairs = 0;
  assert_true(slot < ADJI_LISTS && !o->under_way[slot]);
  assert_true(list->count >= 1 && list->count <= o->worker.list_ranges);
  o->failed = o->failed || o->calls + 1 == o->how->fails_at;
  if (++o->calls == o->how->fails_at) return adji_fail(ADJ_E_DEVICE, "device 0: fails");
  sleep_ms(o->how->slow_ms);
  for (uint64_t i = 0; i < list->count; i++) {
    assert_true(list->ranges[i].end - list->ranges[i].begin <= ADJI_LONGEST_RANGE);
    for (uint32_t q = list->ranges[i].begin; q < list->ranges[i].end; q++, all++) {
      uint32_t row = o->work.order[q];
      assert_true(!o->mine[row]);
      o->mine[row] = o->work.once;
      if (!window || (row >= window->first_row && row < window->end_row)) o->rows[slot][listed++] = row;
    }
  }
  assert_true(all >= 1 && all <= o->how->list_queries);
  qsort(o->rows[slot], listed, sizeof(uint32_t), by_number);
  for (uint64_t i = 0; i < listed; i++) {
    o->offsets[slot][i] = pairs;
    pairs += length_of(o, o->rows[slot][i]);
  }
  o->offsets[slot][listed] = pairs;
  if (window) assert_true(pairs == list->pairs && pairs <= o->worker.list_pairs);
  if (!window && !o->work.once) o->found.pairs += pairs;
  o->found.candidates += all;
  o->totals[slot] = o->found;
  o->under_way[slot] = true;
  o->counts[slot] = *rows = listed;
  return ADJ_OK;
}

static adj_status oracle_listed(void *state, uint32_t slot, adji_tally *found) {
  oracle *o = state;
  *found = o->totals[slot];
  assert_true(o->under_way[slot]);
  o->under_way[slot] = false;
  return ADJ_OK;
}

/* Entry number `at` of a slot: an id, or the sum that belongs to it. */
static void copy_entries(const oracle *o, uint32_t slot, const adji_list_stretch *part, char *to) {
  const uint32_t *ids = adj_result_ids(o->answer);
  uint64_t r = 0;
  for (uint64_t at = part->first; at < part->first + part->entries; at++) {
    while (o->offsets[slot][r + 1] <= at)
      r++;
    assert_true(r < o->counts[slot]);
    uint32_t row = o->rows[slot][r], id = ids[adj_result_offsets(o->answer)[row] + (at - o->offsets[slot][r])];
    float sum = sum_of(o, row, id);
    memcpy(to + (at - part->first) * 4, part->part == ADJI_LIST_IDS ? (const void *)&id : (const void *)&sum, 4);
  }
}

/* Each device has a buffer for every thread, and one for the lane that is its own. */
static char *buffer_of(const oracle *o, uint32_t lane) {
  assert_true(lane < o->plan->ctx->threads + ADJI_MOST_DEVICES);
  return o->buffers[lane < o->plan->ctx->threads ? lane : o->plan->ctx->threads];
}

static adj_status oracle_fetch(void *state, uint32_t slot, const adji_list_stretch *part, uint32_t buffer) {
  oracle *o = state;
  uint64_t size = part->part == ADJI_LIST_OFFSETS ? 8 : 4;
  assert_true(part->to % size == 0 && part->to + part->entries * size <= o->worker.buffer_bytes);
  char *to = buffer_of(o, buffer) + part->to;
  if (part->part == ADJI_LIST_IDS || part->part == ADJI_LIST_SUMS) {
    copy_entries(o, slot, part, to);
    return ADJ_OK;
  }
  assert_true(part->first + part->entries <= o->counts[slot] + (part->part == ADJI_LIST_OFFSETS));
  for (uint64_t i = 0; i < part->entries; i++) {
    uint64_t at = part->first + i;
    uint32_t number = o->rows[slot][at < o->counts[slot] ? at : 0], count = (uint32_t)length_of(o, number);
    if (part->part == ADJI_LIST_OFFSETS)
      memcpy(to + i * 8, &o->offsets[slot][at], 8);
    else
      memcpy(to + i * 4, part->part == ADJI_LIST_ROWS ? &number : &count, 4);
  }
  return ADJ_OK;
}

static adj_status oracle_wait(void *state, uint32_t buffer) {
  (void)state;
  (void)buffer;
  return ADJ_OK;
}

static void *oracle_buffer(void *state, uint32_t buffer) {
  return buffer_of(state, buffer);
}

static void oracle_settle(void *state) {
  oracle *o = state;
  o->settled++;
  for (int i = 0; i < ADJI_LISTS; i++)
    o->under_way[i] = false;
}

static adj_status oracle_begin(void *state, const adji_shared_work *work) {
  oracle *o = state;
  if (++o->begins == o->how->refuses_at) return adji_fail(ADJ_E_DEVICE_MEMORY, "device 0: no room");
  o->work = *work;
  o->found = (adji_tally){0};
  o->failed = false;
  free(o->added);
  o->added = NULL;
  memset(o->mine, 0, o->plan->left->count * sizeof *o->mine);
  for (uint32_t i = 0; i < o->plan->left->count; i++)
    o->position[work->order[i]] = i;
  o->worker.work = &o->work;
  o->worker.list_pairs = work->longest > o->how->list_pairs ? work->longest : o->how->list_pairs;
  adj_status status = adji_range_worker_begin(&o->worker);
  o->ends += status != ADJ_OK; /* none will come */
  return status;
}

static adj_status oracle_drain(void *state, adji_help *help) {
  return adji_range_worker_drain(&((oracle *)state)->worker, help);
}

static void oracle_end(void *state, adji_device_stats *did) {
  ((oracle *)state)->ends++;
  adji_range_worker_end(&((oracle *)state)->worker, did);
}

static void oracle_destroy(void *state) {
  oracle *o = state;
  for (int i = 0; i < ADJI_LISTS; i++) {
    free(o->rows[i]);
    free(o->offsets[i]);
  }
  for (uint32_t i = 0; i <= o->plan->ctx->threads; i++)
    free(o->buffers[i]);
  free(o->buffers);
  free(o->mine);
  free(o->position);
  free(o->added);
}

static adji_partner partner_of(oracle *o, const adj_plan *plan, const adj_result *answer, const sharing *how) {
  *o = (oracle){.plan = plan, .answer = answer, .how = how};
  o->device =
      (adji_rows_device){o, oracle_list, oracle_listed, oracle_fetch, oracle_wait, oracle_buffer, oracle_settle};
  o->worker.device = &o->device;
  o->worker.join = &plan->join;
  o->worker.list_queries = how->list_queries;
  o->worker.list_ranges = how->list_ranges;
  o->worker.buffer_bytes = how->buffer_bytes;
  o->mine = calloc(plan->left->count + 1, sizeof *o->mine);
  o->position = calloc(plan->left->count + 1, sizeof *o->position);
  o->buffers = calloc(plan->ctx->threads + 1, sizeof *o->buffers);
  for (uint32_t i = 0; i <= plan->ctx->threads; i++)
    o->buffers[i] = malloc(how->buffer_bytes);
  for (int i = 0; i < ADJI_LISTS; i++) {
    o->rows[i] = malloc(how->list_queries * sizeof(uint32_t));
    o->offsets[i] = malloc((how->list_queries + 1) * sizeof(uint64_t));
  }
  return (adji_partner){o,           "gpu",     oracle_begin, oracle_drain, oracle_end, oracle_destroy, oracle_counts,
                        oracle_rows, oracle_add};
}

/* A plan of the cores whose engine gets partners. */
static void share_plan(adj_plan *plan, oracle *each, uint32_t count, const adj_result *answer, const sharing *how) {
  adji_partner partners[ADJI_MOST_DEVICES];
  for (uint32_t i = 0; i < count; i++)
    partners[i] = partner_of(&each[i], plan, answer, how);
  plan->choice.once = how->once;
  adji_range_set_single(&plan->engine, how->once);
  must(adji_range_share(&plan->engine, partners, count, &how->share));
}

typedef struct question {
  double radius;
  uint32_t flags;
  adj_order order;
  const char *tuning;
} question;

static adj_plan *plan_for(adj_ctx *ctx, const adj_dataset *left, const adj_dataset *right, const question *q,
                          uint64_t batch) {
  adj_join_spec spec;
  char tuning[128];
  snprintf(tuning, sizeof tuning, "%s%s", q->tuning ? q->tuning : "", q->tuning && batch ? "," : "");
  if (batch) snprintf(tuning + strlen(tuning), sizeof tuning - strlen(tuning), "batch=%d", (int)batch);
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = q->radius;
  spec.tuning = tuning;
  spec.flags = q->flags;
  spec.order = q->order;
  spec.backend = ADJ_BACKEND_CPU;
  adj_plan *plan = NULL;
  must(adj_plan_create(ctx, &spec, left, right, &plan));
  return plan;
}

static void check_same(const adj_result *a, const adj_result *b, uint64_t rows) {
  uint64_t pairs = adj_result_pairs(a);
  assert_int_equal(pairs, adj_result_pairs(b));
  assert_memory_equal(adj_result_offsets(a), adj_result_offsets(b), (rows + 1) * sizeof(uint64_t));
  if (pairs) assert_memory_equal(adj_result_ids(a), adj_result_ids(b), pairs * sizeof(uint32_t));
  if (pairs && adj_result_distances(a))
    assert_memory_equal(adj_result_distances(a), adj_result_distances(b), pairs * sizeof(float));
}

/* Rows of a stream, compared with a result. */
typedef struct streamed {
  const adj_result *answer;
  uint64_t next;
} streamed;

static adj_status compare_rows(void *user, const adj_rows *rows) {
  streamed *s = user;
  const uint64_t *offsets = adj_result_offsets(s->answer) + rows->first_row;
  assert_int_equal(rows->first_row, s->next);
  for (uint64_t i = 0; i <= rows->row_count; i++)
    assert_int_equal(rows->offsets[i], offsets[i] - offsets[0]);
  uint64_t pairs = rows->offsets[rows->row_count];
  if (pairs) assert_memory_equal(rows->ids, adj_result_ids(s->answer) + offsets[0], pairs * 4);
  if (pairs && rows->distances)
    assert_memory_equal(rows->distances, (const float *)adj_result_distances(s->answer) + offsets[0], pairs * 4);
  s->next += rows->row_count;
  return ADJ_OK;
}

static void check_stream(adj_plan *plan, const adj_result *answer, uint64_t rows) {
  streamed s = {answer, 0};
  adj_sink sink;
  adj_sink_init(&sink, sizeof sink);
  sink.user = &s;
  sink.write = compare_rows;
  must(adj_stream(plan, &sink, NULL, NULL));
  assert_int_equal(s.next, rows);
}

static void check_counts(adj_plan *plan, const adj_result *answer, uint64_t rows) {
  uint64_t total = 0;
  uint32_t *degrees = malloc((rows + 1) * sizeof *degrees);
  must(adj_count(plan, NULL, &total, NULL, NULL));
  assert_int_equal(total, adj_result_pairs(answer));
  must(adj_count(plan, degrees, &total, NULL, NULL));
  for (uint64_t i = 0; i < rows; i++)
    assert_int_equal(degrees[i], adj_result_offsets(answer)[i + 1] - adj_result_offsets(answer)[i]);
  free(degrees);
}

/* Collected, counted and streamed as the cores do it alone. */
static void check_shared(adj_ctx *ctx, const adj_dataset *left, const adj_dataset *right, const question *q,
                         const sharing *how, uint32_t devices) {
  uint64_t rows = adj_dataset_count(left), queries = 0;
  adj_plan *plan = plan_for(ctx, left, right, q, 0);
  adj_result *answer = NULL, *result = NULL;
  adj_stats stats;
  adj_stats_init(&stats, sizeof stats);
  must(adj_collect(plan, &answer, NULL, NULL));
  adj_plan_destroy(plan);

  plan = plan_for(ctx, left, right, q, how->batch);
  oracle each[ADJI_MOST_DEVICES];
  share_plan(plan, each, devices, answer, how);
  must(adj_collect(plan, &result, NULL, &stats));
  check_same(result, answer, rows);
  assert_int_equal(stats.pairs, adj_result_pairs(answer));
  for (uint64_t w = 0; w < stats.worker_count; w++)
    queries += stats.workers[w].queries;
  if (!how->refuses_at) assert_int_equal(stats.worker_count, 1 + devices);
  if (!how->refuses_at) assert_int_equal(queries % (rows ? rows : 1), 0);
  check_counts(plan, answer, rows);
  check_stream(plan, answer, rows);
  for (uint32_t i = 0; i < devices; i++) {
    assert_int_equal(each[i].begins - (each[i].begins >= how->refuses_at && how->refuses_at), each[i].ends);
    assert_true(!how->fails_at || each[i].settled == (each[i].calls >= how->fails_at));
  }
  char text[4096];
  must(adj_plan_explain(plan, text, sizeof text, NULL));
  adj_plan_destroy(plan);
  adj_result_destroy(result);
  adj_result_destroy(answer);
}

static const sharing SHARINGS[] = {
    {.batch = 16, .list_queries = 1, .list_pairs = 1, .list_ranges = 1, .buffer_bytes = 272},
    {.batch = 16, .list_queries = 77, .list_pairs = 300, .list_ranges = 3, .buffer_bytes = 300},
    {.batch = 0, .list_queries = 100000, .list_pairs = 1 << 20, .list_ranges = 1000, .buffer_bytes = 1 << 20},
    {.batch = 5000, .list_queries = 100000, .list_pairs = 700, .list_ranges = 1000, .buffer_bytes = 4000},
    {.batch = 64,
     .list_queries = 1000,
     .list_pairs = 5000,
     .list_ranges = 2,
     .buffer_bytes = 999,
     .share = {.fixed = true}},
    {.batch = 16,
     .list_queries = 50,
     .list_pairs = 5000,
     .list_ranges = 64,
     .buffer_bytes = 333,
     .share = {true, 1, 1e-6, 0.005, 0.005}},
    {.batch = 16, .list_queries = 50, .list_pairs = 500, .list_ranges = 8, .buffer_bytes = 333, .fails_at = 1},
    {.batch = 16,
     .list_queries = 20,
     .list_pairs = 500,
     .list_ranges = 8,
     .buffer_bytes = 333,
     .fails_at = 3,
     .share = {.fixed = true}},
    {.batch = 16, .list_queries = 500, .list_pairs = 9999, .list_ranges = 80, .buffer_bytes = 1333, .slow_ms = 3},
    {.batch = 16, .list_queries = 50, .list_pairs = 500, .list_ranges = 8, .buffer_bytes = 333, .refuses_at = 1},
    {.batch = 16, .list_queries = 50, .list_pairs = 500, .list_ranges = 8, .buffer_bytes = 333, .refuses_at = 2},
};
enum { SHARING_COUNT = sizeof SHARINGS / sizeof *SHARINGS };

static void shared_joins_are_those_of_cores(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    adj_ctx *ctx = context_of(threads, NULL);
    adj_dataset *points = uniform(ctx, 1500, 3), *others = uniform(ctx, 333, 3), *one = uniform(ctx, 1, 3);
    adj_points empty;
    adj_points_init(&empty, sizeof empty);
    empty.dim = 3;
    adj_dataset *none = NULL;
    must(adj_dataset_create(ctx, &empty, &none));
    for (int i = 0; i < SHARING_COUNT; i++) {
      const sharing *how = &SHARINGS[i];
      uint32_t devices = 1 + (uint32_t)i % 2;
      check_shared(ctx, points, points, &(question){0.1, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, "buffer=9999"}, how, devices);
      check_shared(ctx, points, points, &(question){0.2, ADJ_WITH_SELF, ADJ_ORDER_DISTANCE, NULL}, how, devices);
      check_shared(ctx, points, points, &(question){0.1, ADJ_ONE_WAY, ADJ_ORDER_ID, NULL}, how, devices);
      check_shared(ctx, others, points, &(question){0.3, ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, "buffer=20000"}, how,
                   devices);
      check_shared(ctx, one, points, &(question){0.5, 0, ADJ_ORDER_ID, NULL}, how, devices);
      check_shared(ctx, points, one, &(question){0.2, 0, ADJ_ORDER_ID, NULL}, how, devices);
      check_shared(ctx, points, points, &(question){1e-9, 0, ADJ_ORDER_ID, NULL}, how, devices);
      check_shared(ctx, none, points, &(question){0.5, 0, ADJ_ORDER_ID, NULL}, how, devices);
    }
    adj_dataset_destroy(points);
    adj_dataset_destroy(others);
    adj_dataset_destroy(one);
    adj_dataset_destroy(none);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

/* Points of which most are in one place, and duplicates: rows that do not fit a buffer. */
static void long_rows_come_in_parts(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  enum { COUNT = 600 };
  static float data[COUNT][2];
  for (int i = 0; i < COUNT; i++) {
    double where = i * 0.618034 - floor(i * 0.618034), width = i % 4 ? 0.01 : 100;
    data[i][0] = (float)(i % 3 ? width * where : 7);
    data[i][1] = (float)(i % 3 ? width * (where * 37 - floor(where * 37)) : 7);
  }
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.dim = 2;
  points.count = COUNT;
  points.data = data;
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &points, &set));
  question q = {0.01, ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, "buffer=9999"};
  for (int i = 1; i < SHARING_COUNT; i++)
    check_shared(ctx, set, set, &q, &SHARINGS[i], 1);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* Self-joins in which each pair is found once, with all these ways of sharing; and with devices of which nothing is
 * left in the end. */
static void pairs_are_found_once(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    adj_ctx *ctx = context_of(threads, NULL);
    adj_dataset *points = uniform(ctx, 700, 4), *one = uniform(ctx, 1, 4);
    for (int i = 0; i < 5 * SHARING_COUNT; i++) {
      if (i >= SHARING_COUNT && i % 3) continue; /* for the time it takes */
      sharing how = SHARINGS[i % SHARING_COUNT];
      how.once = true;
      how.loses_counts = i / SHARING_COUNT == 1;
      how.loses_rows = i / SHARING_COUNT == 2;
      how.has_no_room = i / SHARING_COUNT == 3;
      how.loses_added = i / SHARING_COUNT == 4;
      uint32_t devices = 1 + (uint32_t)i % 2;
      question by_id = {0.2, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, "buffer=9999"};
      check_shared(ctx, points, points, &by_id, &how, devices);
      check_shared(ctx, points, points, &(question){0.3, ADJ_WITH_SELF, ADJ_ORDER_DISTANCE, NULL}, &how, devices);
      check_shared(ctx, points, points, &(question){0.2, ADJ_ONE_WAY, ADJ_ORDER_ID, NULL}, &how, devices);
      check_shared(ctx, points, points, &(question){0.2, 0, ADJ_ORDER_ID, "test.boxes=on"}, &how, devices);
      check_shared(ctx, points, points, &(question){1e-9, 0, ADJ_ORDER_ID, NULL}, &how, devices);
      check_shared(ctx, one, one, &(question){0.2, ADJ_WITH_SELF, ADJ_ORDER_ID, NULL}, &how, devices);
    }
    adj_dataset_destroy(points);
    adj_dataset_destroy(one);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

/* The at-th report of progress cancels; limits on pairs; and the plan goes on after that. */
static void check_stopped(bool once) {
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *points = uniform(ctx, 1500, 3);
  question q = {0.1, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, "buffer=9999"};
  adj_plan *plan = plan_for(ctx, points, points, &q, SHARINGS[1].batch);
  adj_result *answer = NULL, *result = NULL;
  must(adj_collect(plan, &answer, NULL, NULL));
  oracle o;
  sharing how = SHARINGS[1];
  how.once = once;
  share_plan(plan, &o, 1, answer, &how);
  watch_runs(plan);
  for (int at = 1; at <= 3; at++)
    cancel_by_progress(ctx, plan, at);
  cancel_by_sink(ctx, plan, 1500);
  limit_pairs(ctx, plan, adj_result_pairs(answer));
  must(adj_collect(plan, &result, NULL, NULL));
  check_same(result, answer, 1500);
  adj_result_destroy(result);
  adj_result_destroy(answer);
  adj_plan_destroy(plan);
  adj_dataset_destroy(points);
  adj_ctx_destroy(ctx);
}

static void shared_joins_can_be_stopped(void **state) {
  (void)state;
  check_stopped(false);
  check_stopped(true);
}

/* The n-th allocation of a run fails, for all n: the run fails, or the cores do without the device. */
static void check_memory(bool once, bool loses_rows) {
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *points = uniform(ctx, 700, 3);
  question q = {0.1, ADJ_WITH_DISTANCE, ADJ_ORDER_ID, NULL};
  adj_plan *plan = plan_for(ctx, points, points, &q, SHARINGS[1].batch);
  adj_result *answer = NULL;
  must(adj_collect(plan, &answer, NULL, NULL));
  oracle o;
  sharing how = SHARINGS[1];
  how.once = once;
  how.loses_rows = loses_rows;
  share_plan(plan, &o, 1, answer, &how);
  uint64_t used = adj_ctx_memory_used(ctx);
  bool hit = true;
  for (int64_t n = 0; hit; n++) {
    adj_result *result = NULL;
    atomic_store(&ctx->memory.fail_at, n);
    adj_status status = adj_collect(plan, &result, NULL, NULL);
    hit = atomic_load(&ctx->memory.fail_at) < 0;
    atomic_store(&ctx->memory.fail_at, -1);
    if (status)
      assert_int_equal(status, ADJ_E_MEMORY);
    else
      check_same(result, answer, 700);
    adj_result_destroy(result);
    assert_int_equal(o.begins, o.ends);
    assert_int_equal(adj_ctx_memory_used(ctx), used);
    assert_true(n < 1000);
  }
  adj_result_destroy(answer);
  adj_plan_destroy(plan);
  adj_dataset_destroy(points);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void memory_can_run_out(void **state) {
  (void)state;
  check_memory(false, false);
  check_memory(true, false);
  check_memory(true, true);
}

/* A trial has no more queries than there is room for, all of them different. */
static void a_sample_is_no_larger_than_was_asked_for(void **state) {
  (void)state;
  static const uint64_t counts[] = {1, 2, 1000, 1024, 1025, 5000, 1000000}, wants[] = {1, 7, 1023, 1024, 1025, 312500};
  adji_batch *ranges = calloc(ADJI_MOST_RANGES, sizeof *ranges);
  for (int c = 0; c < 7; c++)
    for (int w = 0; w < 6; w++) {
      uint64_t queries, sum = 0, many = adji_list_sample(counts[c], wants[w], ranges, &queries);
      assert_true(queries >= 1 && queries <= wants[w] && queries <= counts[c]);
      for (uint64_t i = 0; i < many; i++) {
        assert_true(ranges[i].begin <= ranges[i].end && ranges[i].end <= counts[c]);
        if (i) assert_true(ranges[i].begin >= ranges[i - 1].end);
        sum += ranges[i].end - ranges[i].begin;
      }
      assert_int_equal(sum, queries);
    }
  free(ranges);
}

/* ---- Rows into place ------------------------------------------------------------------------------------- */

/* Of every length up to some cache lines, wherever it begins in one and in its buffer: nothing else changes. */
static void check_rows(const adji_kernels *kernels) {
  enum { LINES = 4, ROOM = (LINES + 2) * ADJI_LINE };
  _Alignas(ADJI_LINE) unsigned char to[ROOM], from[ROOM], expected[ROOM];
  for (int i = 0; i < ROOM; i++)
    from[i] = (unsigned char)(i % 251 + 1);
  for (uint64_t bytes = 0; bytes <= (uint64_t)LINES * ADJI_LINE; bytes += 4)
    for (uint64_t at = 0; at < ADJI_LINE; at += 4) {
      uint64_t source = (at * 5 + bytes) % ADJI_LINE / 4 * 4;
      memset(to, 0, ROOM);
      memset(expected, 0, ROOM);
      memcpy(expected + at, from + source, bytes);
      adji_ask_for_row(to + at, bytes);
      kernels->stream_row(to + at, from + source, bytes);
      adji_rows_placed();
      assert_memory_equal(to, expected, ROOM);
    }
}

static void rows_go_where_they_belong(void **state) {
  (void)state;
  for (uint32_t i = 0; adj_isa_name(i); i++)
    check_rows(adji_kernels_for(adj_isa_name(i)));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_sample_is_no_larger_than_was_asked_for),
      cmocka_unit_test(shared_joins_are_those_of_cores),
      cmocka_unit_test(pairs_are_found_once),
      cmocka_unit_test(long_rows_come_in_parts),
      cmocka_unit_test(shared_joins_can_be_stopped),
      cmocka_unit_test(rows_go_where_they_belong),
      cmocka_unit_test(memory_can_run_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
