/* SPDX-License-Identifier: MIT
 *
 * The parts that joins are made of, each by itself: distance kernels of every instruction set, compared with the
 * reference; the sorts; and the guarantee of a grid's slabs.
 */
#include <math.h>
#include <stdlib.h>

#include "cases.h"
#include "check.h"
#include "core/angles.h"
#include "distance/kernels.h"
#include "index/build.h"
#include "index/radix_sort.h"

enum { MOST_QUERIES = 70, MOST_POINTS = 300, MOST_DIM = 70, ROOM = MOST_POINTS + ADJI_PAD };

/* Points by row for the reference, and by dimension as kernels read them. */
typedef struct layout {
  point_set rows;
  void *columns;
  uint32_t ids[ROOM];
  adji_view view;
} layout;

static void lay_out(layout *l, const point_set *rows, join_case *random) {
  size_t size = type_size(rows->type);
  l->rows = *rows;
  l->columns = calloc((size_t)rows->dim * ROOM, size);
  assert_non_null(l->columns);
  for (uint64_t i = 0; i < rows->count; i++)
    for (uint32_t j = 0; j < rows->dim; j++)
      memcpy((char *)l->columns + ((size_t)j * ROOM + i) * size, (const char *)rows->data + (i * rows->dim + j) * size,
             size);
  for (uint32_t i = 0; i < ROOM; i++)
    l->ids[i] = (uint32_t)case_random(random);
  l->view = (adji_view){l->columns, ROOM, l->ids, rows->dim, (uint32_t)rows->count};
}

/* The library's measure for a step: Lp with the exponent p, a box with the lengths in `box`. */
static adji_measure measure_of(adji_step step, double p, const void *box) {
  adji_measure m = {.step = step, .box = box, .power = {.exponent = p, .inverse = 1 / p}};
  static const adji_report reports[] = {[ADJI_STEP_L2] = ADJI_REPORT_ROOT,
                                        [ADJI_STEP_L1] = ADJI_REPORT_SUM,
                                        [ADJI_STEP_LINF] = ADJI_REPORT_SUM,
                                        [ADJI_STEP_LP] = ADJI_REPORT_POWER,
                                        [ADJI_STEP_DOT] = ADJI_REPORT_NEGATED};
  m.report = reports[adji_plain_step(step)];
  if (p <= ADJI_MOST_WHOLE && p == floor(p)) m.power.whole = (uint32_t)p;
  return m;
}

/* The spec of the same measure for the reference. */
static adj_join_spec spec_of(const adji_measure *m, double radius) {
  static const adj_metric metrics[] = {[ADJI_STEP_L2] = ADJ_L2,
                                       [ADJI_STEP_L1] = ADJ_L1,
                                       [ADJI_STEP_LINF] = ADJ_LINF,
                                       [ADJI_STEP_LP] = ADJ_LP,
                                       [ADJI_STEP_DOT] = ADJ_DOT};
  adj_join_spec spec;
  adj_join_spec_init(&spec, sizeof spec);
  spec.metric = metrics[adji_plain_step(m->step)];
  spec.p = m->power.exponent;
  spec.radius = radius;
  return spec;
}

typedef struct work {
  layout left, right;
  adj_join_spec spec;
  adji_measure measure;
  double limit;
  uint32_t queries[MOST_QUERIES];
  adji_range ranges[4];
  adji_task task;
} work;

static int by_id(const void *x, const void *y) {
  uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
  return (a > b) - (a < b);
}

/* Up to four disjoint ranges, some of them empty, and queries from any first one on, consecutive or with gaps. */
static void random_task(work *w, join_case *random, bool forward) {
  uint32_t right = w->right.view.count, at = 0;
  for (int r = 0; r < 4; r++) {
    uint32_t begin = at + (uint32_t)(case_random(random) % (right - at + 1));
    uint32_t end = begin + (uint32_t)(case_random(random) % (right - begin + 1));
    w->ranges[r] = (adji_range){begin, end};
    at = end;
  }
  uint32_t most = 1 + (uint32_t)(case_random(random) % (case_random(random) % 2 ? ADJI_LIST_MAX : MOST_QUERIES));
  uint32_t many = 0, gap = 1 + (uint32_t)(case_random(random) % 3);
  for (uint64_t p = case_random(random) % w->left.view.count; p < w->left.view.count && many < most;
       p += 1 + case_random(random) % gap)
    w->queries[many++] = (uint32_t)p;
  w->task =
      (adji_task){&w->left.view, &w->right.view, w->queries, w->ranges, many, 4, w->limit, forward, &w->measure, NULL};
}

/* What a query must find, by the definition. */
static uint32_t expected(const work *w, uint32_t query, uint32_t *ids, double *sums) {
  uint32_t many = 0;
  for (int r = 0; r < 4; r++)
    for (uint32_t i = w->ranges[r].begin; i < w->ranges[r].end; i++) {
      if (w->task.forward && i <= query) continue;
      double s = reference_value(&w->spec, w->left.rows.type, row_of(&w->left.rows, query), row_of(&w->right.rows, i),
                                 w->left.rows.dim);
      if (!(s <= w->limit)) continue;
      ids[many] = w->right.ids[i];
      sums[many++] = s;
    }
  return many;
}

static void check_task(const work *w, const adji_kernels *kernels) {
  static uint32_t lists[ADJI_LIST_MAX][ROOM + 8];
  static double sums[ADJI_LIST_MAX][ROOM + 8];
  uint32_t counts[MOST_QUERIES], found[ADJI_LIST_MAX], *ids[ADJI_LIST_MAX], right[MOST_POINTS];
  void *sum_lists[ADJI_LIST_MAX];
  double right_sums[MOST_POINTS];
  int type = w->left.rows.type == ADJ_F64, step = (int)w->measure.step;
  for (uint32_t q = 0; q < MOST_QUERIES; q++)
    counts[q] = 7;
  for (uint32_t q = 0; q < ADJI_LIST_MAX; q++) {
    found[q] = 3; /* some entries are there already */
    ids[q] = lists[q];
    sum_lists[q] = sums[q];
    lists[q][2] = 0xabcdef;
  }
  kernels->typed[type]->count[step](&w->task, counts);
  adji_task few = w->task;
  if (few.query_count > ADJI_LIST_MAX) few.query_count = ADJI_LIST_MAX;
  kernels->typed[type]->list[step](&few, ids, step == ADJI_STEP_L1 ? NULL : sum_lists, found);
  for (uint32_t q = 0; q < w->task.query_count; q++) {
    uint32_t many = expected(w, w->queries[q], right, right_sums);
    assert_int_equal(counts[q], 7 + many);
    if (q >= few.query_count) continue;
    assert_int_equal(found[q], 3 + many);
    assert_int_equal(lists[q][2], 0xabcdef);
    assert_memory_equal(lists[q] + 3, right, many * sizeof *right);
    for (uint32_t i = 0; i < many && step != ADJI_STEP_L1; i++)
      assert_true(right_sums[i] == (type ? sums[q][3 + i] : (double)((float *)(void *)sums[q])[3 + i]));
  }
}

/* Counts for both points of a pair. Queries get their usual counts, candidates the number of queries they belong to. */
static void check_mirrored(const work *w, const adji_kernels *kernels) {
  uint32_t counts[MOST_QUERIES] = {0}, alone[MOST_QUERIES] = {0}, ids[MOST_POINTS];
  uint8_t mirrored[4 * MOST_POINTS];
  double sums[MOST_POINTS];
  adji_task task = w->task;
  adji_count_fn count = kernels->typed[w->left.rows.type == ADJ_F64]->count[w->measure.step];
  if (!task.forward) return;
  memset(mirrored, 1, sizeof mirrored);
  count(&task, alone);
  task.mirrored = mirrored;
  count(&task, counts);
  assert_memory_equal(counts, alone, sizeof counts);
  uint32_t at = 0;
  for (int r = 0; r < 4; r++)
    for (uint32_t i = w->ranges[r].begin; i < w->ranges[r].end; i++, at++) {
      work one = *w;
      uint32_t many = 1;
      for (int other = 0; other < 4; other++)
        one.ranges[other] = (adji_range){i, i + (other == 0)};
      for (uint32_t q = 0; q < task.query_count; q++)
        many += expected(&one, w->queries[q], ids, sums);
      assert_int_equal(mirrored[at], many);
    }
  assert_int_equal(mirrored[at], 1);
}

static const double EXPONENTS[] = {3, 1.5, 4, 2.5, 7, 16, 1.0000001, 17, 100};

/* The kind of points for a round of the test. They are wrapped into the box if the step has one. */
static case_entry kernel_entry(int round, adji_step step, double p, join_case *random) {
  case_entry entry = {.name = "kernel", .radius = 0.3, .p = p};
  entry.dim = round < 300 ? 1 + (uint32_t)round % 20 : 1 + (uint32_t)(case_random(random) % MOST_DIM);
  entry.metric = spec_of(&(adji_measure){.step = step}, 0).metric;
  entry.build = round % 4 == 0   ? build_uniform
                : round % 4 == 1 ? build_ulps
                : round % 4 == 2 ? build_lattice
                                 : build_huge;
  entry.left = 1 + (uint32_t)(case_random(random) % MOST_POINTS);
  entry.right = round % 3 == 0 ? SELF : 1 + (uint32_t)(case_random(random) % MOST_POINTS);
  entry.scale = entry.build == build_huge ? 0.5 : 0;
  if (step == ADJI_STEP_DOT) entry.offset = -0.5;
  if (step >= ADJI_STEP_L2_BOX) {
    entry.box = round % 8 < 4 ? 1 : 0.7;
    entry.uneven_box = round % 2;
    if (entry.build == build_ulps) entry.build = build_faces;
  }
  if (entry.build == build_uniform || step == ADJI_STEP_DOT) entry.radius = -0.3;
  return entry;
}

/* The lengths of the case's box as kernels read them. */
static void spread_box(const join_case *c, double *wide, float *narrow) {
  for (uint32_t j = 0; j < c->left.dim; j++) {
    double length = c->box_count ? c->box[c->box_count == 1 ? 0 : j] : 0;
    wide[j] = length > 0 ? length : INFINITY;
    narrow[j] = (float)wide[j];
  }
}

static void kernels_are_canonical(void **state) {
  (void)state;
  join_case random = {.random = 4};
  for (int round = 0; round < 1200; round++) {
    adji_step step = (adji_step)(round % ADJI_STEPS);
    double p = EXPONENTS[(round / ADJI_STEPS) % 9], wide[MOST_DIM];
    float narrow[MOST_DIM];
    case_entry entry = kernel_entry(round, step, p, &random);
    join_case c;
    assert_true(case_build_entry(&entry, round / 3 % 2 ? ADJ_F64 : ADJ_F32, (uint64_t)round, &c));
    spread_box(&c, wide, narrow);
    const void *box = step < ADJI_STEP_L2_BOX ? NULL : c.left.type == ADJ_F64 ? (void *)wide : (void *)narrow;
    work w = {.spec = case_spec(&c), .measure = measure_of(step, p, box)};
    w.limit = adji_limit(&w.measure, c.left.type, c.radius);
    assert_true(w.limit == reference_threshold(&w.spec, c.left.type));
    lay_out(&w.left, &c.left, &random);
    lay_out(&w.right, c.self_join ? &c.left : &c.right, &random);
    for (uint32_t i = 0; adj_isa_name(i); i++)
      for (int again = 0; again < 4; again++) {
        random_task(&w, &random, c.self_join && again % 2);
        check_task(&w, adji_kernels_for(adj_isa_name(i)));
        if (again == 1) check_mirrored(&w, adji_kernels_for(adj_isa_name(i)));
      }
    free(w.left.columns);
    free(w.right.columns);
    case_free(&c);
  }
}

static void single_pairs_are_canonical(void **state) {
  (void)state;
  join_case random = {.random = 5};
  for (int round = 0; round < 4000; round++) {
    uint32_t dim = 1 + (uint32_t)(case_random(&random) % 40);
    adji_measure m = measure_of((adji_step)(round % ADJI_STEP_L2_BOX), EXPONENTS[round % 9], NULL);
    adj_join_spec spec = spec_of(&m, 0);
    double a[40], b[40];
    float fa[40], fb[40], spread[80];
    for (uint32_t j = 0; j < dim; j++) {
      fa[j] = (float)(a[j] = case_random_unit(&random) - 0.5);
      fb[j] = (float)(b[j] = case_random_unit(&random) - 0.5);
      spread[2 * (size_t)j] = fb[j];
    }
    double value = reference_value(&spec, ADJ_F64, a, b, dim), reported;
    assert_true(adji_sum_f64(&m, a, 1, b, 1, dim) == value);
    adji_report_distances(&m, ADJ_F64, &value, 1, &reported);
    assert_true(reported == reference_distance(&spec, ADJ_F64, value));
    float right = (float)reference_value(&spec, ADJ_F32, fa, fb, dim), narrow;
    assert_true(adji_sum_f32(&m, fa, 1, fb, 1, dim) == right);
    assert_true(adji_sum_f32(&m, fa, 1, spread, 2, dim) == right);
    adji_report_distances(&m, ADJ_F32, &right, 1, &narrow);
    assert_true((double)narrow == reference_distance(&spec, ADJ_F32, (double)right));
  }
}

/* The power is within its stated slack of the C library's in long double, and monotone up to it. */
static void powers_are_close(void **state) {
  (void)state;
  join_case random = {.random = 11};
  long double worst = 0;
  for (int round = 0; round < 200000; round++) {
    double p = round % 4 ? 1 + 49 * case_random_unit(&random) : EXPONENTS[round % 9];
    double x = round % 2 ? ldexp(1 + case_random_unit(&random), (int)(case_random(&random) % 60) - 30)
                         : 1 + ldexp(case_random_unit(&random) - 0.5, -(int)(case_random(&random) % 50));
    long double expected = powl((long double)x, (long double)p);
    if (expected < 1e-300L || expected > 1e300L) continue;
    adji_power power = measure_of(ADJI_STEP_LP, p, NULL).power;
    long double error = fabsl((long double)adji_power_f64(&power, x) / expected - 1);
    if (error > worst) worst = error;
    assert_true(error < (long double)ADJI_POWER_SLACK(0x1p-53) / 2);
    float narrow = (float)x, of_narrow = adji_power_f32(&power, narrow);
    expected = powl((long double)narrow, (long double)p);
    if (expected < 1e-36L || expected > 1e37L) continue;
    assert_true(fabsl((long double)of_narrow / expected - 1) < (long double)ADJI_POWER_SLACK(0x1p-24));
  }
  print_message("powers are within %.2Lg\n", worst);
  static const double same[][3] = {
      {0, 2.5, 0}, {1, 2.5, 1}, {4, 2.5, 32}, {INFINITY, 1.5, INFINITY}, {1e300, 50, INFINITY}};
  for (size_t i = 0; i < sizeof same / sizeof *same; i++)
    assert_true(adji_exp_log(same[i][0], same[i][1]) == same[i][2]);
  assert_true(fabs(adji_exp_log(0x1p-1074, 0.5) / 0x1p-537 - 1) < 0x1p-50);
}

/* Sines, cosines and arcs, against the C library's in long double. */
static void angles_are_close(void **state) {
  (void)state;
  join_case random = {.random = 12};
  const long double pi = 3.14159265358979323846264338327950288L;
  for (int round = 0; round < 100000; round++) {
    double x = (case_random_unit(&random) - 0.5) * pow(10, (double)(case_random(&random) % 6));
    adji_direction d = adji_circle_radians(x), g = adji_circle_degrees(x);
    assert_true(fabsl((long double)d.sin - sinl((long double)x)) < 0x1p-52L);
    assert_true(fabsl((long double)d.cos - cosl((long double)x)) < 0x1p-52L);
    assert_true(fabsl((long double)g.sin - sinl((long double)x * pi / 180)) < 0x1p-52L);
    assert_true(fabsl((long double)g.cos - cosl((long double)x * pi / 180)) < 0x1p-52L);
    double h =
        round % 2 ? case_random_unit(&random) : ldexp(case_random_unit(&random), -(int)(case_random(&random) % 60));
    long double arc = asinl((long double)h);
    assert_true(fabsl((long double)adji_arc(h) - arc) <= 0x1.4p-51L * arc);
  }
  for (int quarter = -8; quarter <= 8; quarter++) {
    adji_direction d = adji_circle_degrees(90.0 * quarter);
    assert_true(d.sin == (quarter % 2 ? ((quarter % 4 + 4) % 4 == 1 ? 1 : -1) : 0));
    assert_true(d.cos == (quarter % 2 ? 0 : quarter % 4 ? -1 : 1));
  }
  assert_true(adji_arc(1) == 0x1.921fb54442d18p+0 && adji_arc(0) == 0);
}

/* ---- Sorts ---------------------------------------------------------------------------------------------- */

/* Different ids in random order, `gap` apart on average. In some rounds they are in ascending or descending order. */
static void random_ids(uint32_t *ids, uint32_t count, uint64_t gap, int round, join_case *random) {
  uint64_t at = 0;
  for (uint32_t n = 0; n < count; n++)
    ids[round % 7 == 2 ? count - 1 - n : n] = (uint32_t)(at += 1 + case_random(random) % gap);
  for (uint32_t n = count; n > 1 && round % 7 != 1 && round % 7 != 2; n--) {
    uint32_t other = (uint32_t)(case_random(random) % n), id = ids[other];
    ids[other] = ids[n - 1];
    ids[n - 1] = id;
  }
}

static void ids_are_sorted(void **state) {
  (void)state;
  enum { MOST = 6000 };
  static uint32_t ids[MOST + ADJI_PAD + 1], right[MOST];
  join_case random = {.random = 6};
  static const uint32_t sizes[] = {0,   1,   2,   3,   7,   8,    9,    15,   16,   17,  31,  32,
                                   33,  47,  48,  49,  63,  64,   65,   100,  127,  128, 129, 255,
                                   256, 257, 288, 289, 500, 1023, 1024, 1025, 3000, 6000};
  static const uint64_t gaps[] = {1, 2, 50, 700000}; /* 6000 * 700000 is almost 2^32: no signed numbers */
  for (uint32_t i = 0; adj_isa_name(i); i++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int round = 0; round < 40; round++) {
        random_ids(ids, sizes[s], gaps[round % 4], round, &random);
        memcpy(right, ids, sizes[s] * sizeof *ids);
        qsort(right, sizes[s], sizeof *right, by_id);
        ids[sizes[s] + ADJI_PAD] = 0x1234;
        adji_kernels_for(adj_isa_name(i))->sort_ids(ids, sizes[s]);
        assert_memory_equal(ids, right, sizes[s] * sizeof *ids);
        assert_int_equal(ids[sizes[s] + ADJI_PAD], 0x1234);
      }
}

/* Places rows of any length, with and without an id to drop. Only the row may be written. */
static void rows_are_placed(void **state) {
  (void)state;
  enum { MOST = 700 };
  static uint32_t ids[MOST + ADJI_PAD], wanted[MOST], to[MOST + 1];
  join_case random = {.random = 16};
  for (uint32_t i = 0; adj_isa_name(i); i++)
    for (uint32_t count = 0; count < MOST; count += count < 300 ? 1 : 37)
      for (int round = 0; round < 12; round++) {
        uint32_t kept = 0, drop = ADJ_NO_ID;
        random_ids(ids, count, round % 2 ? 3 : 6000000, round, &random);
        if (count && round % 3) drop = ids[case_random(&random) % count];
        for (uint32_t k = 0; k < count; k++)
          if (ids[k] != drop) wanted[kept++] = ids[k];
        qsort(wanted, kept, sizeof *wanted, by_id);
        to[kept] = 0x1234;
        bool sort = round % 4 != 3;
        assert_int_equal(adji_kernels_for(adj_isa_name(i))->place_ids(ids, count, drop, sort, to), kept);
        if (!sort) qsort(to, kept, sizeof *to, by_id);
        assert_memory_equal(to, wanted, kept * sizeof *to);
        assert_int_equal(to[kept], 0x1234);
      }
}

/* Sorts by some of the bits, and stably: the other bits of each item have its old place. */
static void items_are_sorted(void **state) {
  (void)state;
  join_case random = {.random = 8};
  static const uint64_t sizes[] = {0, 1, 2, 100, 16384, 50000, 200001};
  for (uint32_t threads = 1; threads <= 3; threads++) {
    adj_ctx *ctx = context_of(threads, NULL);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (uint32_t bits = 0; bits <= 45; bits += 3) {
        uint64_t n = sizes[s];
        adji_sorted sorted = {malloc((n + 1) * 8), malloc((n + 1) * 8), NULL, NULL};
        if (bits % 2) {
          sorted.ids = malloc((n + 1) * 4);
          sorted.spare_ids = malloc((n + 1) * 4);
        }
        for (uint64_t i = 0; i < n; i++) {
          sorted.items[i] = (case_random(&random) & ((UINT64_C(1) << bits) - 1)) << 18 | i;
          if (sorted.ids) sorted.ids[i] = (uint32_t)i;
        }
        must(adji_radix_sort(ctx, &sorted, n, 18, bits));
        for (uint64_t i = 1; i < n; i++)
          assert_true(sorted.items[i - 1] < sorted.items[i]); /* by key, then by old place: the sort is stable */
        for (uint64_t i = 0; i < n && sorted.ids; i++)
          assert_int_equal(sorted.ids[i], sorted.items[i] & 0x3ffff);
        void *blocks[] = {sorted.items, sorted.spare, sorted.ids, sorted.spare_ids};
        for (int b = 0; b < 4; b++)
          free(blocks[b]);
      }
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

static int by_value(const void *left, const void *right) {
  double a = *(const double *)left, b = *(const double *)right;
  return a < b ? -1 : a > b;
}

/* Numbers of any sign and size, as floats and as doubles. */
static void values_are_sorted(void **state) {
  (void)state;
  join_case random = {.random = 9};
  static const uint64_t sizes[] = {0, 1, 2, 1000, 131072};
  adj_ctx *ctx = context_of(3, NULL);
  for (int single = 0; single < 2; single++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      uint64_t n = sizes[s];
      double *values = malloc((n + 1) * sizeof *values), *wanted = malloc((n + 1) * sizeof *values);
      for (uint64_t i = 0; i < n; i++) {
        double value = (case_random_unit(&random) - 0.5) * pow(10, (double)(case_random(&random) % 90) - 50);
        if (i % 7 == 0) value = (double)(i % 3) - 1;
        values[i] = wanted[i] = single ? (double)(float)value : value;
      }
      qsort(wanted, n, sizeof *wanted, by_value);
      must(adji_radix_sort_values(ctx, values, n, single));
      for (uint64_t i = 0; i < n; i++)
        assert_true(values[i] == wanted[i]);
      free(values);
      free(wanted);
    }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* ---- The grid ------------------------------------------------------------------------------------------- */

/* Two coordinates within the radius must be in slabs within reach of each other. The pairs are the worst cases: at the
 * edges of slabs, and with the last value inside of the radius. */
static void slabs_keep_their_promise(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  join_case random = {.random = 9};
  for (int round = 0; round < 3000; round++) {
    static const double radii[] = {0, 1e-320, 1e-160, 1e-12, 1e-3, 0.1, 0.3, 1, 7, 1e5, 1e150, 1e300};
    adj_type type = round % 2 ? ADJ_F64 : ADJ_F32;
    double radius = radii[case_random(&random) % 12] * (1 + case_random_unit(&random));
    double offset = round % 3 ? 0 : (case_random_unit(&random) - 0.5) * 1e6 * radius;
    case_entry entry = {.name = "slabs", .dim = 1, .left = 200, .right = SELF, .radius = radius, .offset = offset};
    entry.metric = (adj_metric)(1 + case_random(&random) % 4);
    entry.p = EXPONENTS[case_random(&random) % 9];
    entry.build = round % 5 ? build_ulps : build_cell_edges;
    entry.scale = entry.build == build_ulps ? radius * pow(10, (double)(case_random(&random) % 9)) : 0;
    if (type == ADJ_F32 && radius > 1e25) continue; /* points would not be finite */
    if (radius > 1e200) continue;
    join_case c;
    assert_true(case_build_entry(&entry, type, (uint64_t)round, &c));
    adj_join_spec spec = case_spec(&c);
    adji_measure measure = measure_of((adji_step)(c.metric - ADJ_L2), c.p, NULL);
    double limit = reference_threshold(&spec, type), low = INFINITY, high = -INFINITY, x[200];
    for (int i = 0; i < 200; i++) {
      x[i] = type == ADJ_F64 ? ((double *)c.left.data)[i] : (double)((float *)c.left.data)[i];
      low = fmin(low, x[i]);
      high = fmax(high, x[i]);
    }
    double sample[50];
    for (int i = 0; i < 50; i++)
      sample[i] = low + (high - low) * i / 50;
    adji_axis axis, wanted = {.dim = 0, .reach = 1 + (uint32_t)(case_random(&random) % 4), .low = low};
    uint64_t most = (uint64_t)1 << case_random(&random) % 31;
    adji_axis_extent extent = {high, adji_grid_width(type, &measure, limit, 0), most, sample, 50};
    must(adji_axis_init(ctx, &axis, &wanted, &extent));
    assert_true(axis.slabs >= 1 && axis.slabs <= most);
    for (int i = 0; i < 200; i++)
      for (int k = 0; k < 200; k++) {
        if (!(reference_value(&spec, type, row_of(&c.left, i), row_of(&c.left, k), 1) <= limit)) continue;
        uint64_t a = adji_axis_slab(&axis, x[i]), b = adji_axis_slab(&axis, x[k]);
        if ((a > b ? a - b : b - a) > axis.reach)
          fail_msg("round %d: %a and %a belong under %a, but are in slabs %llu and %llu", round, x[i], x[k], c.radius,
                   (unsigned long long)a, (unsigned long long)b);
      }
    adji_grid grid = {.axis_count = 1};
    grid.axes[0] = axis;
    adji_grid_clear(ctx, &grid);
    case_free(&c);
  }
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

/* The last coordinate of the type that belongs to a, above it. */
static double furthest(adj_type type, const adj_join_spec *spec, double a, double limit) {
  double within = a, without = a + 2 * spec->radius;
  for (;;) {
    double middle = within + (without - within) / 2;
    if (type == ADJ_F32) middle = (double)(float)middle;
    if (middle == within || middle == without) return within;
    float fa = (float)a, fm = (float)middle;
    const void *x = type == ADJ_F64 ? (void *)&a : (void *)&fa, *y = type == ADJ_F64 ? (void *)&middle : (void *)&fm;
    if (reference_value(spec, type, x, y, 1) <= limit)
      within = middle;
    else
      without = middle;
  }
}

/* From the last coordinate of a slab to the furthest one that belongs to it. If the slab were too thin by the smallest
 * fraction, the two would be too far apart. */
static void slabs_are_wide_enough(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  join_case random = {.random = 10};
  for (int round = 0; round < 2000; round++) {
    adj_type type = round % 2 ? ADJ_F64 : ADJ_F32;
    adji_measure measure = measure_of((adji_step)(case_random(&random) % ADJI_STEP_DOT), EXPONENTS[round % 9], NULL);
    adj_join_spec spec = spec_of(&measure, 0.01 + case_random_unit(&random));
    double limit = reference_threshold(&spec, type);
    adji_axis axis, wanted = {.dim = 0, .reach = 1 + (uint32_t)(case_random(&random) % 4)};
    if (type == ADJ_F64 && round % 5 == 0) wanted.low = -1000 * case_random_unit(&random);
    adji_axis_extent extent = {wanted.low + 100, adji_grid_width(type, &measure, limit, 0), 1 << 20, NULL, 0};
    must(adji_axis_init(ctx, &axis, &wanted, &extent));
    assert_null(axis.breaks);
    uint64_t slab = case_random(&random) % (axis.slabs - 1);
    double a = axis.low + (double)(slab + 1) / axis.inverse;
    if (type == ADJ_F32) a = (double)(float)a;
    while (adji_axis_slab(&axis, a) > slab)
      a = type == ADJ_F64 ? nextafter(a, -INFINITY) : (double)nextafterf((float)a, -INFINITY);
    double b = furthest(type, &spec, a, limit);
    uint64_t from = adji_axis_slab(&axis, a), to = adji_axis_slab(&axis, b);
    if (to - from > axis.reach)
      fail_msg("%a in slab %llu, %a in slab %llu", a, (unsigned long long)from, b, (unsigned long long)to);
  }
  adj_ctx_destroy(ctx);
}

/* ---- Order --------------------------------------------------------------------------------------------------- */

typedef struct placed {
  uint64_t slabs[3];
  uint32_t row;
} placed;

static int by_cell(const void *left, const void *right) {
  const placed *a = left, *b = right;
  for (int j = 0; j < 3; j++)
    if (a->slabs[j] != b->slabs[j]) return a->slabs[j] < b->slabs[j] ? -1 : 1;
  return a->row < b->row ? -1 : a->row > b->row;
}

/* A grid of 2^20 x 2^20 x 2^last slabs over the unit cube, in which an axis of the type is 1 / 2^20 wide. */
static adji_grid fine_grid(adj_ctx *ctx, uint32_t last) {
  adji_grid grid = {.axis_count = 3};
  for (uint32_t a = 0; a < 3; a++) {
    adji_axis wanted = {.dim = a, .reach = 1};
    double width = ldexp(1, -(int)(a < 2 ? 20 : last)) * 1.02;
    must(adji_axis_init(ctx, &grid.axes[a], &wanted, &(adji_axis_extent){1, width, 1 << 21, NULL, 0}));
  }
  adji_grid_finish(&grid);
  return grid;
}

static void check_order(adj_ctx *ctx, const adji_grid *grid, const adj_dataset *set) {
  uint64_t n = adj_dataset_count(set), cells = 0;
  placed *expected = calloc(n, sizeof *expected);
  for (uint64_t i = 0; i < n; i++) {
    expected[i].row = (uint32_t)i;
    for (uint32_t a = 0; a < grid->axis_count; a++)
      expected[i].slabs[a] = adji_axis_slab(&grid->axes[a], adji_dataset_at(set, i, grid->axes[a].dim));
  }
  qsort(expected, n, sizeof *expected, by_cell);
  adji_index index;
  must(adji_index_build(ctx, grid, set, &(adji_order_options){0}, &index));
  for (uint64_t i = 0; i < n; i++) {
    bool is_new = !i || memcmp(expected[i].slabs, expected[i - 1].slabs, sizeof expected[i].slabs) != 0;
    cells += is_new;
    if (index.view.ids[i] != expected[i].row) fail_msg("position %llu has another row", (unsigned long long)i);
    if (is_new) assert_int_equal(index.cell_starts[cells - 1], i);
    uint64_t key = 0;
    for (uint32_t a = 0; a < grid->axis_count; a++)
      key += grid->axes[a].stride * expected[i].slabs[a];
    for (uint32_t j = 0; j < adj_dataset_dim(set); j++) {
      uint64_t at = j * index.view.stride + i;
      double x = adj_dataset_type(set) == ADJ_F64 ? ((const double *)index.view.coords)[at]
                                                  : (double)((const float *)index.view.coords)[at];
      assert_true(x == adji_dataset_at(set, expected[i].row, j));
    }
    assert_int_equal(index.cell_keys[cells - 1], key);
  }
  assert_int_equal(index.cell_count, cells);
  adji_index_clear(&index);
  free(expected);
}

/* Numbers of cells and rows that together fit 64 bits, need a few more bits, or need many more. */
static void long_cell_numbers(void **state) {
  (void)state;
  join_case random = {.random = 5};
  static const uint64_t counts[] = {1, 2, 300, 2000, 40000};
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    adj_ctx *ctx = context_of(threads, NULL);
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
      for (uint32_t last = 8; last <= 19; last += c == 2 ? 1 : 3) {
        uint64_t n = counts[c];
        double *x = malloc(n * 3 * sizeof *x);
        for (uint64_t i = 0; i < n; i++)
          for (int j = 0; j < 3; j++) /* a third of the points are in few cells */
            x[3 * i + (uint64_t)j] = (double)(case_random(&random) % (i % 3 ? 1000003 : 2)) / 1000003;
        adj_points points;
        adj_points_init(&points, sizeof points);
        points.type = ADJ_F64;
        points.dim = 3;
        points.count = n;
        points.data = x;
        adj_dataset *set = NULL;
        must(adj_dataset_create(ctx, &points, &set));
        adji_grid grid = fine_grid(ctx, last);
        check_order(ctx, &grid, set);
        adji_grid_clear(ctx, &grid);
        adj_dataset_destroy(set);
        free(x);
      }
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

/* ---- Order through buckets -------------------------------------------------------------------------------------- */

/* Points with a share of them in a corner, so that buckets are uneven. */
static adj_dataset *corner_points(adj_ctx *ctx, adj_type type, uint32_t dim, uint64_t n, uint64_t share) {
  join_case random = {.random = n + dim};
  double *x = malloc(n * dim * sizeof *x);
  assert_non_null(x);
  for (uint64_t i = 0; i < n; i++)
    for (uint32_t j = 0; j < dim; j++) {
      double value = (double)(case_random(&random) % 1000003) / 1000003 * (i % 8 < share ? 0.001 : 1);
      if (type == ADJ_F64)
        x[i * dim + j] = value;
      else
        ((float *)x)[i * dim + j] = (float)value;
    }
  adj_points points;
  adj_points_init(&points, sizeof points);
  points.type = type;
  points.dim = dim;
  points.count = n;
  points.data = x;
  adj_dataset *set = NULL;
  must(adj_dataset_create(ctx, &points, &set));
  free(x);
  return set;
}

static void check_buckets(adj_ctx *ctx, adj_type type, uint32_t dim, uint64_t n, uint64_t share) {
  adj_dataset *set = corner_points(ctx, type, dim, n, share);
  for (uint32_t axes = 1; axes <= 3 && axes <= dim; axes++)
    for (int i = 0; i < 4; i++) {
      static const int slab_bits[] = {
          1, 6, 11, 14}; /* from one pass to several; the last one makes buckets of equal population */
      adji_grid grid = {.axis_count = axes};
      for (uint32_t a = 0; a < axes; a++) {
        adji_axis wanted = {.dim = dim - 1 - a, .reach = 1};
        double width = ldexp(1, -slab_bits[i]) * 1.02;
        must(adji_axis_init(ctx, &grid.axes[a], &wanted, &(adji_axis_extent){1, width, 1 << 21, NULL, 0}));
      }
      adji_grid_finish(&grid);
      check_order(ctx, &grid, set);
      adji_grid_clear(ctx, &grid);
    }
  adj_dataset_destroy(set);
}

/* All types and dimensions; buckets of a few points and of thousands; one bucket with nearly all points, which are then
 * sorted as a whole. */
static void points_move_in_buckets(void **state) {
  (void)state;
  for (uint32_t threads = 1; threads <= 3; threads += 2) {
    adj_ctx *ctx = context_of(threads, NULL);
    for (uint32_t dim = 1; dim <= 7; dim++) {
      check_buckets(ctx, ADJ_F32, dim, 3000, 2);
      check_buckets(ctx, ADJ_F64, dim, 3000, 2);
    }
    check_buckets(ctx, ADJ_F32, 2, 100000, 0);
    check_buckets(ctx, ADJ_F32, 3, 100000, 2);
    check_buckets(ctx, ADJ_F32, 2, 100000, 7);
    assert_int_equal(adj_ctx_memory_used(ctx), 0);
    adj_ctx_destroy(ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kernels_are_canonical),    cmocka_unit_test(single_pairs_are_canonical),
      cmocka_unit_test(powers_are_close),         cmocka_unit_test(angles_are_close),
      cmocka_unit_test(ids_are_sorted),           cmocka_unit_test(rows_are_placed),
      cmocka_unit_test(items_are_sorted),         cmocka_unit_test(values_are_sorted),
      cmocka_unit_test(slabs_keep_their_promise), cmocka_unit_test(slabs_are_wide_enough),
      cmocka_unit_test(long_cell_numbers),        cmocka_unit_test(points_move_in_buckets),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
