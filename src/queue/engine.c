/* SPDX-License-Identifier: MIT
 *
 * The engine: see engine.h. Each question is one pass over the queue.
 */
#include "queue/engine.h"

#include <stdatomic.h>

#include "result/offsets.h"

void adji_engine_init(adji_engine *e, const adji_join *join, const adji_worker *first) {
  *e = (adji_engine){.join = *join, .workers = {*first}, .worker_count = 1};
}

/* The cores are destroyed last, since devices may use their index. */
void adji_engine_clear(adji_engine *e) {
  while (e->worker_count > 0) {
    e->worker_count--;
    e->workers[e->worker_count].destroy(e->workers[e->worker_count].state);
  }
  adji_queue_clear(&e->queue);
}

adji_worker adji_engine_take(adji_engine *e) {
  adji_worker worker = e->workers[0];
  e->worker_count = 0;
  adji_engine_clear(e);
  return worker;
}

void adji_engine_add(adji_engine *e, const adji_worker *worker) {
  e->workers[e->worker_count++] = *worker;
  adji_queue_clear(&e->queue);
}

bool adji_engine_wants_large_windows(const adji_engine *e) {
  return e->worker_count > 1 || e->workers[0].large_windows;
}

static bool is_shared(const adji_engine *e) {
  return e->worker_count > 1;
}

adj_status adji_engine_prepare(adji_engine *e) {
  const adji_worker *first = &e->workers[0];
  if (e->queue.ctx || !first->fill_queue) return ADJ_OK;
  adj_status status = first->fill_queue(first->state, is_shared(e), &e->queue);
  if (status) adji_queue_clear(&e->queue);
  return status;
}

static adj_status open_pass(adji_engine *e, adji_pass_kind kind, adji_pass *pass) {
  *pass = (adji_pass){.kind = kind,
                      .name = kind == ADJI_PASS_COUNT ? "count" : "join",
                      .queries = e->join.left->count,
                      .queue = &e->queue,
                      .order = e->order,
                      .group = e->group};
  return adji_engine_prepare(e);
}

/* Begins, runs, gathers and ends a pass. */
static adj_status run_pass(adji_engine *e, adji_run *run, adji_pass *pass, adji_tally *tally) {
  adji_active active;
  adji_memory *memory = &e->join.ctx->memory;
  adj_status status = adji_pass_begin(run, e->workers, e->worker_count, pass, &active);
  if (status) return status;
  if (pass->kind == ADJI_PASS_SINGLE && !pass->alone) {
    active.done_by = adji_alloc_zero(memory, e->queue.count, 1, "work queue");
    if (!active.done_by) status = ADJ_E_MEMORY;
  }
  const adji_worker *first = active.workers[0];
  if (!status) status = adji_pass_run(run, pass, &active, &e->share, tally);
  if (!status && first->gather) status = first->gather(first->state, run, &active);
  adji_pass_end(run, &active);
  adji_free(memory, active.done_by);
  return status;
}

/* ---- Counting --------------------------------------------------------------------------------------- */

typedef struct summing {
  const uint32_t *degrees;
  _Atomic uint64_t total;
} summing;

static void sum_range(void *user, uint64_t begin, uint64_t end) {
  summing *s = user;
  uint64_t sum = 0;
  for (uint64_t i = begin; i < end; i++)
    sum += s->degrees[i];
  atomic_fetch_add(&s->total, sum);
}

/* Evaluates each pair once, for both of its points. The total is the sum of the degrees. */
static adj_status count_single(adji_engine *e, adji_run *run, uint32_t *degrees, uint64_t *total) {
  adji_memory *memory = &e->join.ctx->memory;
  uint64_t rows = e->join.left->count;
  adji_pass pass;
  adj_status status = open_pass(e, ADJI_PASS_SINGLE, &pass);
  if (status) return status;
  pass.name = "count";
  pass.degrees = degrees ? degrees : adji_alloc(memory, rows, sizeof *degrees, "neighbour counts");
  status = pass.degrees ? run_pass(e, run, &pass, NULL) : ADJ_E_MEMORY;
  summing s = {pass.degrees, 0};
  if (!status) status = adji_each_row(e->join.ctx, rows, sum_range, &s);
  if (!degrees) adji_free(memory, pass.degrees);
  *total = atomic_load(&s.total);
  return status ? status : adji_run_check_pairs(run, *total);
}

adj_status adji_engine_count(adji_engine *e, adji_run *run, uint32_t *degrees, uint64_t *total) {
  if (is_shared(e) ? e->single : e->single_count && degrees) return count_single(e, run, degrees, total);
  adji_pass pass;
  adji_tally tally = {0};
  adj_status status = open_pass(e, ADJI_PASS_COUNT, &pass);
  if (status) return status;
  pass.degrees = degrees;
  pass.halves = !degrees && !run->control.max_pairs; /* a limit is checked against all pairs found so far */
  pass.fills = run->fills;
  status = run_pass(e, run, &pass, &tally);
  *total = tally.pairs;
  return status;
}

bool adji_engine_has_offsets(const adji_engine *e) {
  return !is_shared(e) && e->workers[0].offsets;
}

adj_status adji_engine_offsets(adji_engine *e, adji_run *run, uint64_t *offsets) {
  return e->workers[0].offsets(e->workers[0].state, run, offsets);
}

/* ---- Filling ---------------------------------------------------------------------------------------- */

/* What devices beside cores must know about a window before it is filled: the number of entries of each batch, and the
 * length of the longest row. */
typedef struct measuring {
  const adji_pass *pass;
  uint64_t *pairs;
  _Atomic uint64_t longest;
} measuring;

enum { MEASURED_BATCHES = 64, ROWS_AHEAD = 16 };

static void measure_batch(measuring *m, uint64_t number, uint64_t *longest) {
  const adji_batch *batch = &m->pass->queue->batches[number];
  const adji_window *window = m->pass->window;
  const uint32_t *order = m->pass->order;
  uint64_t sum = 0;
  for (uint32_t i = batch->begin; i < batch->end; i++) {
    if (i + ROWS_AHEAD < batch->end) __builtin_prefetch(&window->offsets[order[i + ROWS_AHEAD]]);
    uint64_t length = adji_window_length(window, order[i]);
    sum += length;
    if (length > *longest) *longest = length;
  }
  m->pairs[number] = sum;
}

static adj_status measure_batches(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  measuring *m = user;
  uint64_t end = (task + 1) * MEASURED_BATCHES, longest = 0;
  if (end > m->pass->queue->count) end = m->pass->queue->count;
  for (uint64_t i = task * MEASURED_BATCHES; i < end; i++)
    measure_batch(m, i, &longest);
  uint64_t before = atomic_load(&m->longest);
  while (longest > before && !atomic_compare_exchange_weak(&m->longest, &before, longest))
    ;
  return ADJ_OK;
}

static adj_status measure_window(adji_engine *e, adji_pass *pass, uint64_t **pairs) {
  measuring m = {.pass = pass};
  *pairs = m.pairs = adji_alloc(&e->join.ctx->memory, e->queue.count, sizeof *m.pairs, "work queue");
  if (!m.pairs) return ADJ_E_MEMORY;
  uint64_t tasks = (e->queue.count + MEASURED_BATCHES - 1) / MEASURED_BATCHES;
  adj_status status = adji_loop(e->join.ctx, tasks, measure_batches, &m);
  pass->batch_pairs = m.pairs;
  pass->longest = atomic_load(&m.longest);
  return status;
}

adj_status adji_engine_fill(adji_engine *e, adji_run *run, const adji_window *window) {
  adji_pass pass;
  uint64_t *pairs = NULL;
  adj_status status = open_pass(e, ADJI_PASS_FILL, &pass);
  if (status) return status;
  pass.window = window;
  if (is_shared(e) && window->offsets) status = measure_window(e, &pass, &pairs);
  if (!status) status = run_pass(e, run, &pass, NULL);
  adji_free(&e->join.ctx->memory, pairs);
  return status;
}

void adji_engine_prefetch(adji_engine *e, adji_run *run, const adji_window *window) {
  const adji_worker *first = &e->workers[0];
  if (!is_shared(e) && first->prefetch) first->prefetch(first->state, run, window);
}

/* ---- Collecting ------------------------------------------------------------------------------------- */

bool adji_engine_can_collect(const adji_engine *e) {
  return e->worker_count && e->workers[0].collects;
}

adj_status adji_engine_collect(adji_engine *e, adji_run *run, adj_result *result) {
  adji_pass pass;
  adj_status status = open_pass(e, ADJI_PASS_SINGLE, &pass);
  if (status) return status;
  pass.result = result;
  return run_pass(e, run, &pass, NULL);
}
