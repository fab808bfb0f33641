/* SPDX-License-Identifier: MIT
 *
 * Joins in chunks, with a simulated device. The join of two chunks is the reference's nested loops, which fail when a
 * test asks for it and have room for only as many points as a device. Whole results are compared with those of the join
 * in one piece.
 */
#include <stdlib.h>

#include "check.h"
#include "cpu/reference.h"
#include "gpu/worker/chunks.h"
#include "plan/plan.h"

/* ---- A device -------------------------------------------------------------------------------------------- */

typedef struct simulated {
  uint64_t most;   /* room in points; 0: no limit                        */
  int64_t fail_at; /* the call that fails; negative: none               */
  int64_t crowded; /* the fill that reports a lack of room; negative: none */
  int64_t calls, fills, opened, open;
} simulated;

/* A join of two chunks. */
typedef struct part {
  simulated *device;
  adj_ctx *ctx;
  adji_engine inner;
  adj_dataset sets[2]; /* points in memory of the device */
} part;

static adj_status begin_call(simulated *s) {
  return s->calls++ == s->fail_at ? adji_fail(ADJ_E_DEVICE, "call %lld", (long long)s->fail_at) : ADJ_OK;
}

static adji_worker *inner_of(void *state) {
  return &((part *)state)->inner.workers[0];
}

static adj_status sim_fill_queue(void *state, bool shared, adji_queue *queue) {
  return inner_of(state)->fill_queue(inner_of(state)->state, shared, queue);
}

static adj_status sim_begin(void *state, adji_run *run, const adji_pass *pass) {
  part *p = state;
  adj_status status = begin_call(p->device);
  if (status) return status;
  if (pass->kind == ADJI_PASS_FILL && p->device->fills++ == p->device->crowded)
    return adji_fail(ADJ_E_DEVICE_MEMORY, "no room for a batch");
  return inner_of(state)->begin(inner_of(state)->state, run, pass);
}

static adj_status sim_process(void *state, const adji_batch *batch, uint32_t lane, adji_tally *tally) {
  return inner_of(state)->process(inner_of(state)->state, batch, lane, tally);
}

static void sim_end(void *state, adji_run *run) {
  inner_of(state)->end(inner_of(state)->state, run);
}

static void sim_close(void *state) {
  part *p = state;
  adji_engine_clear(&p->inner);
  free(p->sets[0].owner);
  free(p->sets[1].owner);
  p->device->open--;
  free(p);
}

/* Copies the points of a set. */
static void fetch_points(const adj_dataset *set, adj_dataset *to) {
  *to = *set;
  to->owner = NULL;
  if (!set->copy_rows) return;
  to->owner = malloc((set->count + 1) * set->row_stride);
  set->copy_rows(set->copy_from, 0, set->count, to->owner);
  to->data = to->owner;
}

static adj_status sim_open(void *state, uint32_t device, const adji_join *join, adji_worker *out) {
  assert_int_equal(device, 0);
  simulated *s = state;
  adj_status status = begin_call(s);
  if (status) return status;
  uint64_t points = join->right->count + (join->self_join ? 0 : join->left->count);
  if (s->most && points > s->most) return adji_fail(ADJ_E_DEVICE_MEMORY, "no room for %d points", (int)points);
  part *p = calloc(1, sizeof *p);
  p->device = s;
  p->ctx = join->ctx;
  adji_join mine = *join;
  mine.left = mine.right = &p->sets[0];
  fetch_points(join->left, &p->sets[0]);
  if (!join->self_join) {
    fetch_points(join->right, &p->sets[1]);
    mine.right = &p->sets[1];
  }
  status = adji_reference_create(&mine, &p->inner);
  if (status) {
    free(p->sets[0].owner);
    free(p->sets[1].owner);
    free(p);
    return status;
  }
  s->opened++;
  s->open++;
  *out = (adji_worker){.state = p,
                       .name = "simulated",
                       .fill_queue = sim_fill_queue,
                       .begin = sim_begin,
                       .process = sim_process,
                       .end = sim_end,
                       .destroy = sim_close};
  return ADJ_OK;
}

static adj_status sim_estimate(adji_worker *worker, uint64_t sample, double *pairs, double *candidates) {
  part *p = worker->state;
  adji_run run;
  uint64_t total = 0;
  adj_status status = begin_call(p->device);
  if (status) return status;
  assert_int_equal(sample, 10);
  must(adji_run_init(&run, p->ctx, NULL));
  status = adji_engine_count(&p->inner, &run, NULL, &total);
  *pairs = (double)total;
  *candidates = (double)run.tally.candidates;
  adji_run_clear(&run);
  return status;
}

static uint64_t sim_cells(const adji_worker *worker) {
  (void)worker;
  return 5;
}

static void sim_destroy(void *state) {
  assert_int_equal(((simulated *)state)->open, 0);
}

/* ---- Joins ------------------------------------------------------------------------------------------------ */

typedef struct problem {
  adj_ctx *ctx;
  adj_dataset *left, *right; /* right NULL: left with itself */
  adj_plan *plan;            /* for the reference backend; provides the join */
} problem;

/* Points of a lattice whose steps are no binary fractions: many distances are equal or nearly equal. */
static adj_dataset *lattice(adj_ctx *ctx, uint64_t count, adj_type type, uint32_t seed) {
  double *wide = malloc(2 * (count + 1) * sizeof *wide);
  float *narrow = malloc(2 * (count + 1) * sizeof *narrow);
  for (uint64_t i = 0; i < 2 * count; i++) {
    seed = seed * 1664525u + 1013904223u;
    wide[i] = (seed >> 16) % 13 * 0.1 + 0.3;
    narrow[i] = (float)wide[i];
  }
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = type;
  points.dim = 2;
  points.count = count;
  points.data = type == ADJ_F64 ? (const void *)wide : narrow;
  points.ownership = ADJ_COPY;
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &points, &set));
  free(wide);
  free(narrow);
  return set;
}

typedef struct request {
  uint64_t left, right; /* right 0: a self-join */
  adj_type type;
  uint32_t flags;
  adj_order order;
  double radius;
} request;

static problem pose(adj_ctx *ctx, const request *w) {
  problem p = {.ctx = ctx, .left = lattice(ctx, w->left, w->type, 1)};
  if (w->right) p.right = lattice(ctx, w->right, w->type, 2);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.radius = w->radius;
  spec.backend = ADJ_BACKEND_REFERENCE;
  spec.flags = w->flags;
  spec.order = w->order;
  must(adj_plan_create(ctx, &spec, p.left, p.right, &p.plan));
  return p;
}

static void free_problem(problem *p) {
  adj_plan_destroy(p->plan);
  adj_dataset_destroy(p->right);
  adj_dataset_destroy(p->left);
}

typedef struct answer {
  uint64_t rows, pairs;
  uint32_t *degrees;
  uint64_t *offsets;
  uint32_t *ids;
  char *distances;
  size_t size;
} answer;

static void free_answer(answer *a) {
  free(a->degrees);
  free(a->offsets);
  free(a->ids);
  free(a->distances);
}

/* Runs the whole join by an engine, with `each` rows in a window. After a failure there is nothing to free. */
static adj_status solve(const problem *p, adji_engine *engine, const adj_run_control *control, uint64_t each,
                        answer *out) {
  const adji_join *join = &p->plan->join;
  answer a = {.rows = join->left->count, .size = join->style.distances ? adji_type_size(join->style.type) : 0};
  adji_run run;
  a.degrees = calloc(a.rows + 1, sizeof *a.degrees);
  a.offsets = calloc(a.rows + 1, sizeof *a.offsets);
  memset(a.degrees, 0xee, a.rows * sizeof *a.degrees);
  adj_status status = adji_run_init(&run, p->ctx, control);
  if (!status) status = adji_engine_count(engine, &run, a.degrees, &a.pairs);
  for (uint64_t i = 0; i < a.rows; i++)
    a.offsets[i + 1] = a.offsets[i] + (status ? 0 : a.degrees[i]);
  if (!status) assert_int_equal(a.offsets[a.rows], a.pairs);
  if (!status) assert_int_equal(run.tally.pairs, a.pairs);
  a.ids = malloc((a.pairs + 1) * sizeof *a.ids);
  a.distances = a.size ? malloc((a.pairs + 1) * a.size) : NULL;
  for (uint64_t first = 0; first < a.rows && !status; first += each) {
    uint64_t end = a.rows - first < each ? a.rows : first + each;
    adji_window window = {.first_row = first, .end_row = end, .offsets = a.offsets, .ids = a.ids + a.offsets[first]};
    if (a.size) window.distances = a.distances + a.offsets[first] * a.size;
    status = adji_engine_fill(engine, &run, &window);
  }
  adji_run_clear(&run);
  if (status)
    free_answer(&a);
  else
    *out = a;
  return status;
}

static answer expected_answer(const problem *p) {
  adji_engine engine;
  answer a;
  must(adji_reference_create(&p->plan->join, &engine));
  must(solve(p, &engine, NULL, UINT64_MAX / 2, &a));
  adji_engine_clear(&engine);
  return a;
}

/* An engine that joins in chunks. regions: it may use regions if they fit the join. */
static adji_engine in_regions(const problem *p, simulated *device, uint64_t size, bool regions) {
  adji_chunk_source source = {device, sim_open, sim_estimate, sim_cells, sim_destroy, 1};
  adji_worker worker;
  must(adji_chunks_create(&p->plan->join, &source, size, &worker));
  assert_true(adji_is_chunks(&worker));
  if (regions) must(adji_chunks_use_regions(&worker));
  adji_engine engine;
  adji_engine_init(&engine, &p->plan->join, &worker);
  return engine;
}

static adji_engine in_chunks(const problem *p, simulated *device, uint64_t size) {
  return in_regions(p, device, size, false);
}

static void must_be_same(const answer *a, const answer *b) {
  assert_int_equal(a->pairs, b->pairs);
  assert_memory_equal(a->degrees, b->degrees, a->rows * sizeof *a->degrees);
  assert_memory_equal(a->ids, b->ids, a->pairs * sizeof *a->ids);
  if (a->size) assert_memory_equal(a->distances, b->distances, a->pairs * a->size);
}

/* Counts neighbours at equal distances with descending ids: their sums differ where their distances do not. */
static uint64_t hidden_orders(const answer *a) {
  uint64_t many = 0;
  for (uint64_t row = 0; row < a->rows; row++)
    for (uint64_t i = a->offsets[row] + 1; a->size && i < a->offsets[row + 1]; i++)
      many +=
          a->ids[i] < a->ids[i - 1] && !memcmp(a->distances + i * a->size, a->distances + (i - 1) * a->size, a->size);
  return many;
}

static uint64_t by_region; /* how often regions were used */

static void check_sizes(adj_ctx *ctx, const request *w, uint64_t *hidden) {
  problem p = pose(ctx, w);
  answer right = expected_answer(&p);
  if (w->order == ADJ_ORDER_DISTANCE) *hidden += hidden_orders(&right);
  uint64_t sizes[] = {1, 2, 7, w->left, 1000}, total = 0;
  for (int s = 0; s < 10; s++) {
    simulated device = {.fail_at = -1, .crowded = -1};
    adji_engine engine = in_regions(&p, &device, sizes[s % 5], s >= 5);
    by_region += adji_chunks_has_regions(&engine.workers[0]);
    for (uint64_t each = 5; each < 1000; each *= 100) {
      answer mine;
      must(solve(&p, &engine, NULL, each, &mine));
      must_be_same(&mine, &right);
      free_answer(&mine);
    }
    adji_run run;
    must(adji_run_init(&run, ctx, NULL));
    must(adji_engine_count(&engine, &run, NULL, &total));
    assert_int_equal(total, right.pairs);
    adji_run_clear(&run);
    adji_engine_clear(&engine);
  }
  free_answer(&right);
  free_problem(&p);
}

/* ---- The tests --------------------------------------------------------------------------------------------- */

static void same_results(void **state) {
  (void)state;
  adj_ctx *contexts[] = {context_of(1, NULL), context_of(2, NULL)};
  static const uint32_t selves[] = {0, ADJ_WITH_SELF, ADJ_ONE_WAY};
  uint64_t hidden = 0;
  for (int type = ADJ_F32; type <= ADJ_F64; type++)
    for (int order = 0; order < 3; order++)
      for (uint32_t distances = 0; distances < 2; distances++) {
        request w = {31, 0, (adj_type)type, 0, (adj_order)order, 0.45};
        /* Threads take far longer to wake than the join of a few points takes. */
        adj_ctx *ctx = contexts[distances && order == ADJ_ORDER_DISTANCE];
        for (int s = 0; s < 3; s++) {
          w.flags = selves[s] | (distances ? ADJ_WITH_DISTANCE : 0);
          check_sizes(ctx, &w, &hidden);
        }
        w.flags = distances ? ADJ_WITH_DISTANCE : 0;
        w.right = 17;
        check_sizes(ctx, &w, &hidden);
        w.left = 1;
        check_sizes(ctx, &w, &hidden);
      }
  assert_true(hidden > 0);
  assert_true(by_region > 0);
  adj_ctx_destroy(contexts[0]);
  adj_ctx_destroy(contexts[1]);
}

static void empty_sets(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  uint64_t hidden = 0;
  check_sizes(ctx, &(request){20, 0, ADJ_F32, 0, ADJ_ORDER_ID, 0}, &hidden); /* rows without a neighbour */
  problem p = pose(ctx, &(request){0, 20, ADJ_F32, 0, ADJ_ORDER_ID, 1});
  answer right = expected_answer(&p), mine;
  simulated device = {.fail_at = -1, .crowded = -1};
  adji_engine engine = in_chunks(&p, &device, 7);
  must(solve(&p, &engine, NULL, 5, &mine));
  must_be_same(&mine, &right);
  double pairs = 1, candidates = 1;
  must(adji_chunks_estimate(&engine.workers[0], 10, &pairs, &candidates));
  assert_true(pairs == 0 && candidates == 0);
  adji_engine_clear(&engine);
  free_answer(&mine);
  free_answer(&right);
  free_problem(&p);
  adj_ctx_destroy(ctx);
}

/* More entries than fit the buffers, which are small because the memory limit is small. */
static void small_buffers(void **state) {
  (void)state;
  for (uint32_t flags = 0; flags <= ADJ_WITH_DISTANCE; flags += ADJ_WITH_DISTANCE)
    for (int order = 0; order < 6; order++) {
      adj_ctx *ctx = context_of(2, NULL);
      bool regions = order >= 3;
      problem p = pose(ctx, &(request){300, 0, ADJ_F64, flags, (adj_order)(order % 3), regions ? 0.5 : 5});
      answer right = expected_answer(&p), mine;
      simulated device = {.fail_at = -1, .crowded = -1};
      adji_engine engine = in_regions(&p, &device, regions ? 250 : 170, regions);
      assert_int_equal(adji_chunks_has_regions(&engine.workers[0]), regions);
      ctx->memory.limit = atomic_load(&ctx->memory.used) + (regions ? 1 << 17 : 1 << 18);
      must(solve(&p, &engine, NULL, 1000, &mine));
      assert_true(device.fills > (regions ? 2 : 4));
      must_be_same(&mine, &right);
      adji_engine_clear(&engine);
      free_answer(&mine);
      free_answer(&right);
      free_problem(&p);
      adj_ctx_destroy(ctx);
    }
}

/* A device without room gets smaller chunks, and an error if it never has room. */
static void no_room(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  problem p = pose(ctx, &(request){1100, 0, ADJ_F32, ADJ_WITH_DISTANCE, ADJ_ORDER_DISTANCE, 0.15});
  answer right = expected_answer(&p), mine;
  simulated device = {.most = 600, .fail_at = -1, .crowded = -1};
  adji_engine engine = in_chunks(&p, &device, 1100);
  must(solve(&p, &engine, NULL, 400, &mine));
  assert_int_equal(adji_chunks_size(&engine.workers[0]), 275);
  must_be_same(&mine, &right);
  free_answer(&mine);
  adji_engine_clear(&engine);
  for (int64_t crowded = 0; crowded < 3; crowded++) { /* a fill reports the lack of room */
    device = (simulated){.fail_at = -1, .crowded = crowded};
    engine = in_chunks(&p, &device, 800);
    must(solve(&p, &engine, NULL, 500, &mine));
    assert_int_equal(adji_chunks_size(&engine.workers[0]), 400);
    must_be_same(&mine, &right);
    free_answer(&mine);
    adji_engine_clear(&engine);
  }
  for (int64_t most = 400; most <= 700; most += 300) { /* with regions */
    device = (simulated){.most = most == 700 ? 0 : (uint64_t)most, .fail_at = -1, .crowded = most == 700 ? 1 : -1};
    engine = in_regions(&p, &device, 800, true);
    assert_true(adji_chunks_has_regions(&engine.workers[0]));
    must(solve(&p, &engine, NULL, 500, &mine));
    assert_true(adji_chunks_size(&engine.workers[0]) < 800);
    must_be_same(&mine, &right);
    free_answer(&mine);
    adji_engine_clear(&engine);
  }
  device = (simulated){.most = 100, .fail_at = -1, .crowded = -1};
  engine = in_chunks(&p, &device, 1100);
  must_fail(ADJ_E_DEVICE_MEMORY, "no room", solve(&p, &engine, NULL, 400, &mine));
  adji_engine_clear(&engine);
  free_answer(&right);
  free_problem(&p);
  adj_ctx_destroy(ctx);
}

static void estimates(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  static const uint64_t sizes[] = {900, 450, 100, 20};
  for (uint32_t flags = 0; flags <= ADJ_ONE_WAY; flags += ADJ_ONE_WAY) {
    problem p = pose(ctx, &(request){900, 0, ADJ_F32, flags, ADJ_ORDER_ID, 0.25});
    answer right = expected_answer(&p);
    for (int s = 0; s < 8; s++) {
      simulated device = {.fail_at = -1, .crowded = -1};
      adji_engine engine = in_regions(&p, &device, sizes[s % 4], s >= 4);
      double pairs = 0, candidates = 0;
      must(adji_chunks_estimate(&engine.workers[0], 10, &pairs, &candidates));
      assert_true(pairs > 0.5 * (double)right.pairs && pairs < 2 * (double)right.pairs);
      assert_true(candidates >= pairs);
      assert_true(device.opened <= 18);
      assert_int_equal(adji_chunks_cells(&engine.workers[0]), 5);
      adji_engine_clear(&engine);
    }
    free_answer(&right);
    free_problem(&p);
  }
  adj_ctx_destroy(ctx);
}

/* Fails every call and every allocation in turn. The run must fail with that status and free everything. */
static void check_failures(bool regions) {
  adj_ctx *ctx = context_of(1, NULL);
  problem p = pose(ctx, &(request){12, 0, ADJ_F32, 0, ADJ_ORDER_DISTANCE, 0.5});
  answer right = expected_answer(&p), mine;
  uint64_t held = adj_ctx_memory_used(ctx);
  adj_status status = ADJ_E_DEVICE;
  for (int64_t n = 0; status; n++) {
    simulated device = {.fail_at = n, .crowded = -1};
    adji_engine engine = in_regions(&p, &device, regions ? 9 : 5, regions);
    status = solve(&p, &engine, NULL, 7, &mine);
    adji_engine_clear(&engine);
    assert_int_equal(adj_ctx_memory_used(ctx), held);
    if (status) assert_int_equal(status, ADJ_E_DEVICE);
    if (!status) assert_true(n > (regions ? 5 : 30));
  }
  must_be_same(&mine, &right);
  free_answer(&mine);
  status = ADJ_E_MEMORY;
  for (int64_t n = 0; status; n++) {
    simulated device = {.fail_at = -1, .crowded = -1};
    adji_engine engine = in_regions(&p, &device, regions ? 9 : 5, regions);
    atomic_store(&ctx->memory.fail_at, n);
    status = solve(&p, &engine, NULL, 7, &mine);
    atomic_store(&ctx->memory.fail_at, -1);
    adji_engine_clear(&engine);
    assert_int_equal(adj_ctx_memory_used(ctx), held);
    if (status) assert_int_equal(status, ADJ_E_MEMORY);
  }
  must_be_same(&mine, &right);
  free_answer(&mine);
  free_answer(&right);
  free_problem(&p);
  adj_ctx_destroy(ctx);
}

static void failures(void **state) {
  (void)state;
  check_failures(false);
  check_failures(true);
}

typedef struct watch {
  double last;
  int calls, stop_at;
} watch;

static int look(void *user, const adj_progress *where) {
  watch *w = user;
  assert_true(where->fraction >= w->last && where->fraction <= 1);
  w->last = where->fraction;
  return ++w->calls == w->stop_at;
}

static void progress_and_limits(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  problem p = pose(ctx, &(request){60, 0, ADJ_F32, 0, ADJ_ORDER_ID, 0.5});
  answer mine;
  watch w = {0};
  simulated device = {.fail_at = -1, .crowded = -1};
  adji_engine engine = in_chunks(&p, &device, 20);
  adj_run_control control;
  adj_run_control_init(&control, sizeof control);
  control.interval_ms = 0;
  control.progress = look;
  control.user = &w;
  adji_run run;
  uint64_t total = 0;
  must(adji_run_init(&run, ctx, &control));
  must(adji_engine_count(&engine, &run, NULL, &total));
  adji_run_clear(&run);
  assert_true(w.last == 1 && w.calls >= 9);
  for (int stop = 1; stop < 9; stop++) {
    w = (watch){.stop_at = stop};
    assert_int_equal(solve(&p, &engine, &control, 1000, &mine), ADJ_CANCELLED);
  }
  control.progress = NULL;
  control.max_pairs = total - 1;
  must_fail(ADJ_E_LIMIT, "max_pairs", solve(&p, &engine, &control, 1000, &mine));
  control.max_pairs = total;
  must(solve(&p, &engine, &control, 1000, &mine));
  free_answer(&mine);
  must(adji_run_init(&run, ctx, NULL));
  adj_cancel(ctx);
  assert_int_equal(adji_engine_count(&engine, &run, NULL, &total), ADJ_CANCELLED);
  adji_run_clear(&run);
  must(adji_run_init(&run, ctx, NULL)); /* the cancel was for the run before */
  must(adji_engine_count(&engine, &run, NULL, &total));
  adji_run_clear(&run);
  adji_engine_clear(&engine);
  free_problem(&p);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(same_results),       cmocka_unit_test(empty_sets),
                                     cmocka_unit_test(small_buffers),      cmocka_unit_test(no_room),
                                     cmocka_unit_test(estimates),          cmocka_unit_test(failures),
                                     cmocka_unit_test(progress_and_limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
