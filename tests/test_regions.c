/* SPDX-License-Identifier: MIT
 *
 * Sets that do not fit a device, joined by regions. The lists of regions are compared with their definition, and kNN
 * joins in chunks on the software device with the reference. Metrics, one set and two, ties and duplicates, outliers,
 * points on a line, pools that are too small, rows in windows.
 */
#include <math.h>
#include <stdlib.h>

#include "index/marked.h"
#include "index/regions.h"
#include "plan/plan.h"
#include "reference.h"
#include "software/scene.h"

/* ---- Points ------------------------------------------------------------------------------------------ */

typedef enum layout { EVEN, LATTICE, SAME, LINE, OUTLIER, SCALES, LAYOUTS } layout;

static uint32_t next(uint32_t *seed) {
  *seed = *seed * 1664525u + 1013904223u;
  return *seed >> 8;
}

static double coordinate(layout kind, uint64_t i, uint32_t j, uint32_t *seed) {
  double u = next(seed) * 0x1p-24;
  switch (kind) {
    case EVEN:
      return u;
    case LATTICE:
      return floor(u * 5) * 0.1 + 0.3;
    case SAME:
      return i % 5 ? 0.7 : u;
    case LINE:
      return j ? 0.25 : u;
    case OUTLIER:
      return i == 17 ? -1e30 : u;
    default:
      return u * pow(10, -(double)(i % 7));
  }
}

static point_set make_points(layout kind, adj_type type, uint32_t dim, uint64_t count, uint32_t seed) {
  point_set set = {type, dim, count, malloc((count * dim + 1) * 8)};
  for (uint64_t i = 0; i < count * dim; i++) {
    double x = coordinate(kind, i / dim, (uint32_t)(i % dim), &seed);
    if (type == ADJ_F64)
      ((double *)set.data)[i] = x;
    else
      ((float *)set.data)[i] = (float)x;
  }
  return set;
}

/* ---- Regions ----------------------------------------------------------------------------------------- */

static uint32_t region_of(const adji_cuts *cuts, const adj_dataset *set, uint64_t row) {
  const adji_cut *cut = cuts->nodes;
  while (!isnan(cut->at))
    cut = &cuts->nodes[cut->below + (adji_dataset_at(set, row, cut->dim) >= cut->at)];
  return cut->region;
}

/* Copies the points of a pick, and of parts of it that begin anywhere. */
static void check_copies(const adji_pick *pick, const uint32_t *ids) {
  adj_dataset set = adji_pick_set(pick);
  const adj_dataset *all = pick->regions->set;
  uint64_t count = pick->end - pick->first, point = all->dim * adji_type_size(all->type);
  char *to = malloc((count + 1) * point);
  uint32_t *some = malloc((count + 1) * sizeof *some);
  for (uint64_t first = 0; first < count; first += 1 + count / 3) {
    set.copy_rows(set.copy_from, first, count - first, to);
    for (uint64_t i = first; i < count; i++)
      assert_memory_equal(to + (i - first) * point, all->data + ids[i] * all->row_stride, point);
    adji_pick part;
    must(adji_pick_open(pick->regions, pick->region, first, count - (count - first) / 3, &part));
    must(adji_pick_list(&part, some, NULL));
    assert_memory_equal(some, ids + first, (part.end - part.first) * sizeof *some);
    adji_pick_clear(&part);
  }
  free(some);
  free(to);
}

static void copy_bytes(void *to, const void *from, uint64_t bytes) {
  memcpy(to, from, bytes);
}

/* Gathers the points of all regions: one region at a time, several, or all at once; or none. */
static void check_gather(const adji_regions *r) {
  uint64_t point = r->set->dim * adji_type_size(r->set->type), largest = 1;
  for (uint32_t i = 0; i < r->cuts->count; i++)
    if (r->all[i] > largest) largest = r->all[i];
  for (uint64_t room = largest * point - 1; room < 8 * largest * point + 2; room = 2 * room + 2) {
    adji_gather gather;
    adji_gather_open(r, room, copy_bytes, &gather);
    for (uint32_t i = 0; i < r->cuts->count; i++) {
      const char *points;
      must(adji_gather_region(&gather, i, &points));
      assert_true(!points == (!gather.room));
      if (!points) continue;
      adji_pick pick;
      must(adji_pick_open(r, i, 0, r->all[i], &pick));
      char *to = malloc((r->all[i] + 1) * point), *again = malloc((r->all[i] + 1) * point);
      if (r->all[i]) adji_pick_copy(&pick, 0, r->all[i], to);
      assert_memory_equal(points, to, r->all[i] * point);
      pick.points = points;
      if (r->all[i]) adji_pick_copy(&pick, 0, r->all[i], again);
      assert_memory_equal(again, to, r->all[i] * point);
      adji_pick_clear(&pick);
      free(to);
      free(again);
    }
    adji_gather_clear(&gather);
  }
}

/* Writes values of all members back to their rows, region by region. The values are the ids of the rows. */
static void check_spread(const adji_regions *r) {
  uint64_t all = 0, count = r->set->count;
  for (uint32_t i = 0; i < r->cuts->count; i++)
    all += r->all[i];
  uint32_t *values = malloc((all + 1) * sizeof *values), *to = malloc((count + 1) * sizeof *to);
  all = 0;
  for (uint32_t i = 0; i < r->cuts->count; all += r->all[i++]) {
    adji_pick pick;
    must(adji_pick_open(r, i, 0, r->all[i], &pick));
    must(adji_pick_list(&pick, values + all, NULL));
    adji_pick_clear(&pick);
  }
  uint64_t total = 0;
  must(adji_regions_spread(r, values, to, &total));
  assert_int_equal(total, count * (count - (count > 0)) / 2);
  for (uint64_t i = 0; i < count; i++)
    assert_int_equal(to[i], i);
  free(values);
  free(to);
}

/* Every point is an own point of exactly one region. A region has all points within the radius of its own points, and
 * its box contains its own points. Ids ascend. */
static void check_regions(adj_ctx *ctx, const adj_dataset *set, uint64_t wanted, double limit) {
  adji_measure measure = {.step = ADJI_STEP_L2};
  adji_cuts cuts;
  adji_regions r;
  must(adji_cuts_make(ctx, set, wanted, &cuts));
  double *reaches = malloc(cuts.count * sizeof *reaches);
  for (uint32_t i = 0; i < cuts.count; i++) /* some regions need not have points around them */
    reaches[i] = limit < 0 || i % 3 == 2 ? -1 : adji_reach(&measure, set->type, limit);
  must(adji_regions_make(ctx, set, &cuts, reaches, &r));
  assert_true(cuts.count >= 1 && cuts.count <= (wanted ? wanted : 1));
  uint8_t *member = calloc(set->count + 1, cuts.count), *own = malloc(set->count + 1);
  uint32_t *ids = malloc((set->count + 1) * sizeof *ids);
  uint64_t all = 0;
  for (uint32_t region = 0; region < cuts.count; region++) {
    adji_pick pick;
    must(adji_pick_open(&r, region, 0, r.all[region], &pick));
    must(adji_pick_list(&pick, ids, own));
    check_copies(&pick, ids);
    adji_pick_clear(&pick);
    uint64_t mine = 0;
    for (uint64_t i = 0; i < r.all[region]; i++) {
      assert_true(!i || ids[i] > ids[i - 1]);
      assert_int_equal(own[i], region_of(&cuts, set, ids[i]) == region);
      member[(uint64_t)ids[i] * cuts.count + region] = 1;
      for (uint32_t j = 0; j < set->dim && own[i]; j++) {
        double x = adji_dataset_at(set, ids[i], j);
        assert_true(x >= r.low[region * set->dim + j] && x <= r.high[region * set->dim + j]);
      }
      mine += own[i];
    }
    assert_int_equal(mine, r.own[region]);
    all += mine;
  }
  assert_int_equal(all, set->count);
  check_spread(&r);
  check_gather(&r);
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  for (uint64_t a = r.all[0] % 3; a < set->count && limit >= 0;
       a += 3) /* a third of the points, as checking all takes too long */
    for (uint64_t b = 0; b < set->count; b++) {
      const char *x = set->data + a * set->row_stride, *y = set->data + b * set->row_stride;
      if (reference_value(&spec, set->type, x, y, set->dim) <= limit && reaches[region_of(&cuts, set, a)] >= 0)
        assert_true(member[b * cuts.count + region_of(&cuts, set, a)]);
    }
  for (uint32_t region = 2; region < cuts.count; region += 3)
    assert_int_equal(r.own[region], r.all[region]);
  free(member);
  free(own);
  free(ids);
  free(reaches);
  adji_regions_clear(&r);
  adji_cuts_clear(ctx, &cuts);
}

static void regions_of_points(void **state) {
  (void)state;
  static const uint64_t wanted[] = {1, 2, 3, 7, 40, 1000};
  static const double limits[] = {-1, 0, 1e-50, 1e-3, 0.04, INFINITY};
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    adj_ctx *ctx = context_of(threads, threads == 1 ? "scalar" : NULL);
    for (int kind = 0; kind < LAYOUTS; kind++)
      for (int type = ADJ_F32; type <= ADJ_F64; type++)
        for (uint32_t dim = 1; dim <= 3; dim++) {
          point_set points = make_points((layout)kind, (adj_type)type, dim, 301, dim);
          adj_dataset *set = dataset_with(ctx, &points);
          for (int w = 0; w < 6; w++)
            check_regions(ctx, set, wanted[w], limits[(w + kind + (int)dim) % 6]);
          adj_dataset_destroy(set);
          free(points.data);
        }
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

static double distance_between(const adj_dataset *set, uint64_t a, uint64_t b) {
  double sum = 0;
  for (uint32_t j = 0; j < set->dim; j++) {
    double t = adji_dataset_at(set, a, j) - adji_dataset_at(set, b, j);
    sum += t * t;
  }
  return sqrt(sum);
}

/* The estimated spacing of evenly spread points: most points have k others within it, and it is not much larger than
 * necessary. Cells contain the points of their regions. */
static void spacing_of_regions(void **state) {
  (void)state;
  enum { COUNT = 200000, K = 8 };
  adj_ctx *ctx = context_of(2, NULL);
  adji_measure measure = {.step = ADJI_STEP_L2};
  point_set points = make_points(EVEN, ADJ_F32, 3, COUNT, 7);
  adj_dataset *set = dataset_with(ctx, &points);
  adji_cuts cuts;
  must(adji_cuts_make(ctx, set, 2, &cuts));
  double spacing[2], low[6], high[6];
  must(adji_cuts_spacing(ctx, set, &cuts, &measure, K, spacing));
  adji_cuts_cells(&cuts, low, high);
  uint64_t within = 0, far = 0, tried = 0;
  for (uint64_t a = 0; a < COUNT; a += 2003, tried++) {
    uint32_t region = region_of(&cuts, set, a), near = 0, half = 0;
    for (uint32_t j = 0; j < 3; j++) {
      double x = adji_dataset_at(set, a, j);
      assert_true(x >= low[region * 3 + j] && x <= high[region * 3 + j]);
    }
    for (uint64_t b = 0; b < COUNT; b++) {
      near += b != a && distance_between(set, a, b) <= spacing[region];
      half += b != a && distance_between(set, a, b) <= spacing[region] / 6;
    }
    within += near >= K;
    far += half >= K;
  }
  assert_true(within > tried * 9 / 10 && far < tried / 10);
  adji_cuts_clear(ctx, &cuts);
  adj_dataset_destroy(set);
  free(points.data);
  adj_ctx_destroy(ctx);
}

/* A region without points, and a set without points. */
static void empty_regions(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  point_set none = make_points(EVEN, ADJ_F32, 2, 0, 1), some = make_points(EVEN, ADJ_F32, 2, 90, 1);
  adj_dataset *empty = dataset_with(ctx, &none), *set = dataset_with(ctx, &some);
  check_regions(ctx, empty, 5, 0.1);
  adji_cuts cuts;
  adji_regions r;
  must(adji_cuts_make(ctx, set, 4, &cuts));
  must(adji_regions_make(ctx, empty, &cuts, NULL, &r));
  for (uint32_t i = 0; i < cuts.count; i++)
    assert_true(!r.all[i] && !r.own[i]);
  adji_regions_clear(&r);
  adji_cuts_clear(ctx, &cuts);
  adj_dataset_destroy(empty);
  adj_dataset_destroy(set);
  free(none.data);
  free(some.data);
  adj_ctx_destroy(ctx);
}

/* ---- kNN joins in chunks ----------------------------------------------------------------------------- */

typedef struct question {
  layout left, right; /* right LAYOUTS: a self-join */
  adj_type type;
  uint32_t dim, k, flags;
  adj_metric metric;
  double radius; /* 0: none */
  uint64_t count;
} question;

static adj_join_spec knn_spec(const question *q) {
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.kind = ADJ_KNN;
  spec.k = q->k;
  spec.metric = q->metric;
  spec.flags = q->flags | ADJ_WITH_DISTANCE;
  if (q->radius > 0) spec.radius = q->radius;
  spec.backend = ADJ_BACKEND_GPU;
  return spec;
}

typedef struct knn_scene {
  adj_ctx *ctx;
  point_set points[2];
  adj_dataset *left, *right;
  reference_rows expected;
} knn_scene;

static knn_scene open_knn(adj_ctx *ctx, const question *q) {
  knn_scene s = {.ctx = ctx};
  bool two = q->right != LAYOUTS;
  adj_join_spec spec = knn_spec(q);
  s.points[0] = make_points(q->left, q->type, q->dim, q->count, 1);
  s.left = dataset_with(ctx, &s.points[0]);
  if (two) {
    s.points[1] = make_points(q->right, q->type, q->dim, q->count * 2 / 3 + 1, 2);
    s.right = dataset_with(ctx, &s.points[1]);
  }
  assert_true(reference_join(&s.points[0], two ? &s.points[1] : NULL, &spec, &s.expected, NULL));
  return s;
}

static void close_knn(knn_scene *s) {
  adj_dataset_destroy(s->left);
  adj_dataset_destroy(s->right);
  free(s->points[0].data);
  free(s->points[1].data);
  reference_free(&s->expected);
  assert_int_equal(adj_ctx_memory_used(s->ctx), 0);
}

static void must_be_expected(const knn_scene *s, const question *q, const adj_result *result) {
  uint64_t entries = s->points[0].count * q->k;
  assert_int_equal(adj_result_rows(result), s->points[0].count);
  assert_memory_equal(adj_result_ids(result), s->expected.ids, entries * sizeof(uint32_t));
  assert_memory_equal(adj_result_distances(result), s->expected.distances, entries * type_size(q->type));
}

static void check_knn(adj_ctx *ctx, const question *q, const char *tuning) {
  knn_scene s = open_knn(ctx, q);
  adj_join_spec spec = knn_spec(q);
  spec.tuning = tuning;
  spec.algorithm = "kdtree";
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  must(adj_plan_create(ctx, &spec, s.left, s.right, &plan));
  assert_true(plan->device_chunk > 0);
  must(adj_collect(plan, &result, NULL, NULL));
  must_be_expected(&s, q, result);
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  close_knn(&s);
}

static void knn_in_chunks(void **state) {
  (void)state;
  static const char *const tunings[] = {"device_chunk=30", "device_chunk=97", "device_chunk=180,device_rows=50",
                                        "device_chunk=7"};
  static const uint32_t ks[] = {1, 8, 40, 260};
  static const adj_metric metrics[] = {ADJ_L2, ADJ_L1, ADJ_LINF};
  uint32_t number = 0;
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    adj_ctx *ctx = software_context(threads, 1, 0);
    for (int left = 0; left < LAYOUTS; left++)
      for (int two = 0; two < 3; two++)
        for (int type = ADJ_F32; type <= ADJ_F64; type++, number++) {
          question q = {.left = (layout)left, .right = LAYOUTS, .type = (adj_type)type, .count = 200};
          if (two) q.right = (layout)((left + two - 1) % LAYOUTS);
          q.dim = 1 + number % 6;
          q.k = ks[number / 2 % 4];
          q.metric = metrics[number % 3];
          q.flags = number % 5 == 0 && !two ? ADJ_WITH_SELF : 0;
          q.radius = number % 4 == 1 ? 0.2 : 0;
          char tuning[80];
          for (int pick = 0; pick < 2; pick++) {
            snprintf(tuning, sizeof tuning, "%s,test.pick=%s", tunings[number / 3 % 4], pick ? "on" : "off");
            check_knn(ctx, &q, tuning);
          }
        }
    adj_ctx_destroy(ctx);
  }
}

/* Every point of a box is in a marked cell, and every instruction set finds the same points. */
static void marked_cells(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(1, 0, 0);
  for (uint32_t number = 0; number < 72; number++) {
    uint32_t dim = 1 + number % 6, seed = number;
    point_set points = make_points((layout)(number % LAYOUTS), number % 2 ? ADJ_F64 : ADJ_F32, dim, 300, number);
    adj_dataset *set = dataset_with(ctx, &points);
    double values[40], low[6], high[6];
    adji_marked marked;
    must(adji_marked_open(ctx, dim, 40, &marked));
    for (uint32_t j = 0; j < dim; j++) {
      for (int i = 0; i < 40; i++)
        values[i] = adji_dataset_at(set, (uint64_t)next(&seed) % 300, j);
      adji_marked_cut(&marked, j, values, 1 + number % 40);
    }
    bool *in = calloc(300, sizeof *in);
    for (int box = 0; box < 4; box++) {
      uint64_t middle = (uint64_t)next(&seed) % 300;
      double reach = box ? pow(10, -(double)(next(&seed) % 6)) : number % 5 ? 0 : (double)INFINITY;
      for (uint32_t j = 0; j < dim; j++) {
        low[j] = adji_dataset_at(set, middle, j) - reach;
        high[j] = adji_dataset_at(set, middle, j) + reach;
      }
      adji_cell_box cells = adji_marked_box(&marked, low, high);
      adji_marked_mark(&marked, &cells);
      for (uint64_t i = 0; i < 300; i++) {
        bool inside = true;
        for (uint32_t j = 0; j < dim; j++)
          inside &= adji_dataset_at(set, i, j) >= low[j] && adji_dataset_at(set, i, j) <= high[j];
        in[i] |= inside;
      }
    }
    adji_marked_fn plain = adji_marked_find_for("scalar", set), fast = adji_marked_find_for(ctx->isa, set);
    for (uint64_t first = 0; first < 300; first += 1 + number % 64) {
      uint64_t count = 300 - first < 64 ? 300 - first : 64, bits = plain(&marked, set, first, count);
      assert_int_equal(bits, fast(&marked, set, first, count));
      for (uint64_t i = 0; i < count; i++)
        if (in[first + i]) assert_true(bits >> i & 1);
    }
    free(in);
    adji_marked_clear(ctx, &marked);
    adj_dataset_destroy(set);
    free(points.data);
  }
  adj_ctx_destroy(ctx);
}

typedef struct phases_seen {
  uint32_t rests, visits;
} phases_seen;

static void note_phase(void *user, const adj_trace_event *event) {
  phases_seen *seen = user;
  if (!strcmp(event->name, "rest")) seen->rests++;
  if (!strcmp(event->name, "visit")) seen->visits++;
}

/* Rows not complete in their own region need another search of the points around it, or visits if these are too many.
 * */
static void open_rows(void **state) {
  (void)state;
  static const layout layouts[] = {EVEN, OUTLIER, SCALES, LATTICE};
  static const char *const tunings[] = {"device_chunk=270,test.pick=off", "device_chunk=530,test.pick=off",
                                        "device_chunk=270,test.pick=on", "device_chunk=530,test.pick=on"};
  uint32_t searched[2] = {0}, visited[2] = {0};
  for (uint32_t i = 0; i < 32; i++) {
    uint32_t number = i / 2, pick = i % 2;
    phases_seen seen = {0};
    adj_ctx *ctx = software_context(1 + number % 3, 1, 0);
    ctx->trace = note_phase;
    ctx->trace_user = &seen;
    question q = {.left = layouts[number % 4], .right = LAYOUTS, .type = number % 8 < 4 ? ADJ_F32 : ADJ_F64};
    q.count = 800;
    q.metric = number % 5 ? ADJ_L2 : ADJ_L1;
    q.k = 1 + number % 3;
    q.dim = 1 + number % 5;
    if (number % 3 == 1) q.right = layouts[number / 3 % 4];
    if (number % 7 == 3) q.radius = 0.1;
    check_knn(ctx, &q, tunings[2 * pick + (number % 4 > 0)]);
    searched[pick] += seen.rests && !seen.visits;
    visited[pick] += seen.visits > 0;
    adj_ctx_destroy(ctx);
  }
  for (int pick = 0; pick < 2; pick++)
    assert_true(searched[pick] >= 3 && visited[pick] >= 3);
}

/* Metrics with derived points. */
static void derived_points_in_chunks(void **state) {
  (void)state;
  adj_ctx *ctx = software_context(2, 1, 0);
  check_knn(ctx, &(question){EVEN, LAYOUTS, ADJ_F32, 3, 6, 0, ADJ_COSINE, 0, 200}, "device_chunk=50");
  check_knn(ctx, &(question){EVEN, LATTICE, ADJ_F64, 3, 6, 0, ADJ_COSINE, 0, 150}, "device_chunk=50");
  check_knn(ctx, &(question){EVEN, LAYOUTS, ADJ_F64, 2, 5, 0, ADJ_HAVERSINE, 0, 200}, "device_chunk=60");
  adj_ctx_destroy(ctx);
}

/* The memory limit of the host leaves a small pool, and rows come in windows. */
static void small_pools(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    bool two = i % 2;
    adj_ctx *ctx = software_context(2, 1, 0);
    question q = {EVEN, two ? LATTICE : LAYOUTS, ADJ_F32, 3, 30, 0, ADJ_L2, 0, 2500};
    knn_scene s = open_knn(ctx, &q);
    adj_join_spec spec = knn_spec(&q);
    spec.tuning = i < 2 ? "device_chunk=300,test.pick=off" : "device_chunk=300,test.pick=on";
    spec.algorithm = "kdtree";
    adj_plan *plan = NULL;
    must(adj_plan_create(ctx, &spec, s.left, s.right, &plan));
    uint64_t rows = q.count, each = 900;
    uint32_t *ids = malloc(rows * q.k * sizeof *ids);
    float *distances = malloc(rows * q.k * sizeof *distances);
    ctx->memory.limit = atomic_load(&ctx->memory.used) + (600 << 10);
    for (uint64_t first = 0; first < rows; first += each) {
      adji_run run;
      must(adji_run_init(&run, ctx, NULL));
      uint64_t end = rows - first < each ? rows : first + each;
      adji_window window = {
          .first_row = first, .end_row = end, .ids = ids + first * q.k, .distances = distances + first * q.k, .k = q.k};
      must(adji_engine_fill(&plan->engine, &run, &window));
      assert_int_equal(run.tally.pairs, (end - first) * q.k);
      adji_run_clear(&run);
    }
    assert_memory_equal(ids, s.expected.ids, rows * q.k * sizeof *ids);
    assert_memory_equal(distances, s.expected.distances, rows * q.k * sizeof *distances);
    free(ids);
    free(distances);
    adj_plan_destroy(plan);
    close_knn(&s);
    adj_ctx_destroy(ctx);
  }
}

/* Points that do not fit are joined in chunks by every backend with a device, without a warning. */
static void chosen_by_memory(void **state) {
  (void)state;
  static const adj_backend backends[] = {ADJ_BACKEND_GPU, ADJ_BACKEND_HYBRID, ADJ_BACKEND_AUTO};
  for (int i = 0; i < 3; i++)
    for (int two = 0; two < 2; two++) {
      adj_ctx *ctx = software_context(2, 1, 120 << 10);
      question q = {EVEN, two ? EVEN : LAYOUTS, ADJ_F32, 3, 5, 0, ADJ_L2, 0, 4000};
      knn_scene s = open_knn(ctx, &q);
      adj_join_spec spec = knn_spec(&q);
      spec.backend = backends[i];
      adj_plan *plan = NULL;
      adj_result *result = NULL;
      adji_gpu *gpu;
      must(adji_gpu_of(ctx, &gpu));
      atomic_store(&warnings, 0);
      must(adj_plan_create(ctx, &spec, s.left, s.right, &plan));
      assert_true(plan->device_chunk > 0 && plan->device_chunk < 4000);
      must(adj_collect(plan, &result, NULL, NULL));
      must_be_expected(&s, &q, result);
      assert_int_equal(atomic_load(&warnings), 0);
      assert_true(adji_gpu_peak(gpu) <= 120 << 10);
      assert_int_equal(adji_gpu_used(gpu), 0);
      adj_result_destroy(result);
      adj_plan_destroy(plan);
      close_knn(&s);
      adj_ctx_destroy(ctx);
    }
}

/* The same for range joins, which are counted and filled by regions. */
static void ranges_by_memory(void **state) {
  (void)state;
  static const adj_backend backends[] = {ADJ_BACKEND_GPU, ADJ_BACKEND_HYBRID, ADJ_BACKEND_AUTO};
  static const problem problems[] = {
      {.name = "unif",
       .count = 4000,
       .dim = 3,
       .radius = 0.05,
       .flags = ADJ_WITH_DISTANCE,
       .order = ADJ_ORDER_DISTANCE},
      {.name = "expo", .count = 3000, .dim = 2, .radius = 0.002, .order = ADJ_ORDER_ID, .two_sets = true}};
  for (int i = 0; i < 6; i++) {
    adj_ctx *ctx = software_context(2, 1, 100 << 10);
    scene s = open_scene(ctx, &problems[i / 3]);
    adj_join_spec spec = spec_of(s.problem, backends[i % 3]);
    adj_plan *plan = NULL;
    adj_result *result = NULL;
    adji_gpu *gpu;
    must(adji_gpu_of(ctx, &gpu));
    atomic_store(&warnings, 0);
    must(adj_plan_create(ctx, &spec, s.left, s.right, &plan));
    if (i % 3 < 2) assert_true(plan->device_chunk > 0);
    must(adj_collect(plan, &result, NULL, NULL));
    must_be_same(&s, result);
    assert_int_equal(atomic_load(&warnings), 0);
    assert_true(adji_gpu_peak(gpu) <= 100 << 10);
    adj_result_destroy(result);
    adj_plan_destroy(plan);
    close_scene(&s);
    adj_ctx_destroy(ctx);
  }
}

/* The setting for who picks regions is refused without regions or room. */
static void picks_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *tuning, *message;
    uint64_t memory;
  } cases[] = {{"test.pick=off", "test.pick is for sets in chunks", 0},
               {"test.pick=on,device_chunk=1000", "test.pick is for sets in chunks", 0},
               {"test.pick=on,device_chunk=100", "test.pick=on: the device has no room", 4 << 10}};
  for (int i = 0; i < 3; i++) {
    adj_ctx *ctx = software_context(2, 1, cases[i].memory);
    question q = {EVEN, LAYOUTS, ADJ_F32, 3, 5, 0, ADJ_L2, 0, 400};
    knn_scene s = open_knn(ctx, &q);
    adj_join_spec spec = knn_spec(&q);
    spec.tuning = cases[i].tuning;
    spec.algorithm = "kdtree";
    adj_plan *plan = NULL;
    must_fail(ADJ_E_UNSUPPORTED, cases[i].message, adj_plan_create(ctx, &spec, s.left, s.right, &plan));
    close_knn(&s);
    adj_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(regions_of_points), cmocka_unit_test(spacing_of_regions),
                                     cmocka_unit_test(empty_regions),     cmocka_unit_test(marked_cells),
                                     cmocka_unit_test(open_rows),         cmocka_unit_test(knn_in_chunks),
                                     cmocka_unit_test(picks_are_refused), cmocka_unit_test(derived_points_in_chunks),
                                     cmocka_unit_test(small_pools),       cmocka_unit_test(chosen_by_memory),
                                     cmocka_unit_test(ranges_by_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
