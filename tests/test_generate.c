/* SPDX-License-Identifier: MIT
 *
 * The generators: the same bytes in every version, on every machine and with every number of threads; the distributions
 * they promise; and errors that name the argument.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"
#include "data/dataset.h"
#include "data/generate.h"

static adj_generate_options options_of(const char *name, uint64_t count, uint32_t dim) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = name;
  options.count = count;
  options.dim = dim;
  return options;
}

/* FNV-1a over the bytes of the points. */
static uint64_t checksum(const adj_dataset *set) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  uint64_t bytes = set->count * set->dim * adji_type_size(set->type);
  for (uint64_t i = 0; i < bytes; i++)
    hash = (hash ^ (unsigned char)set->data[i]) * UINT64_C(0x100000001b3);
  return hash;
}

/* ---- Determinism ---------------------------------------------------------------------------------- */

typedef struct golden {
  const char *name;
  adj_type type;
  uint64_t count, seed;
  uint32_t dim;
  uint64_t checksum;
} golden;

static const golden goldens[] = {
    {"unif", ADJ_F32, 3001, 1, 5, UINT64_C(0x473db1ab8f5c33e4)},
    {"unif", ADJ_F32, 3001, 2, 5, UINT64_C(0x58ff3c8fd921348b)},
    {"unif", ADJ_F64, 3001, 1, 5, UINT64_C(0xf30b25c5d94b65b3)},
    {"unif", ADJ_F64, 3001, 2, 5, UINT64_C(0xa0ff04ec1eb32da1)},
    {"expo", ADJ_F32, 3001, 1, 5, UINT64_C(0xc074c0fbf8ba707e)},
    {"expo", ADJ_F32, 3001, 2, 5, UINT64_C(0x51a032ca408772dc)},
    {"expo", ADJ_F64, 3001, 1, 5, UINT64_C(0x59cc18e0048d7c84)},
    {"expo", ADJ_F64, 3001, 2, 5, UINT64_C(0x8eeb938a738749b4)},
    {"clusters", ADJ_F32, 3001, 1, 5, UINT64_C(0x24fa465debbbdf4e)},
    {"clusters", ADJ_F32, 3001, 2, 5, UINT64_C(0x20d059a6a164463e)},
    {"clusters", ADJ_F64, 3001, 1, 5, UINT64_C(0xb733a803528bbf22)},
    {"clusters", ADJ_F64, 3001, 2, 5, UINT64_C(0x7baedc5d4ca84c43)},
    {"sphere", ADJ_F32, 3001, 1, 5, UINT64_C(0x72d24a23f2b27927)},
    {"sphere", ADJ_F32, 3001, 2, 5, UINT64_C(0x1cde4fef471754c3)},
    {"sphere", ADJ_F64, 3001, 1, 5, UINT64_C(0x60fc8e5bfcc2f13c)},
    {"sphere", ADJ_F64, 3001, 2, 5, UINT64_C(0x9d298916f44fcdba)},
    {"normal", ADJ_F32, 3001, 1, 5, UINT64_C(0xc9101ea16a571815)},
    {"normal", ADJ_F64, 3001, 2, 5, UINT64_C(0x02eb2264b0fbe1c1)},
    {"lattice", ADJ_F32, 3001, 1, 5, UINT64_C(0x2ea25a797b058b25)},
    {"lattice", ADJ_F32, 3001, 2, 5, UINT64_C(0x2ea25a797b058b25)},
    {"lattice", ADJ_F64, 3001, 1, 5, UINT64_C(0x01ccfe6d466eb475)},
    {"lattice", ADJ_F64, 3001, 2, 5, UINT64_C(0x01ccfe6d466eb475)},
    {"duplicates", ADJ_F32, 3001, 1, 5, UINT64_C(0x29df5925543ad14b)},
    {"duplicates", ADJ_F32, 3001, 2, 5, UINT64_C(0x3d0dfbcffabf676d)},
    {"duplicates", ADJ_F64, 3001, 1, 5, UINT64_C(0x90b0252317d2fc7d)},
    {"duplicates", ADJ_F64, 3001, 2, 5, UINT64_C(0x01bdf108e45ae4d8)},
    {"codes", ADJ_F32, 3001, 1, 5, UINT64_C(0x32706eee4ee92190)},
    {"codes", ADJ_F64, 3001, 2, 5, UINT64_C(0x343313093856fc1f)},
    {"repeats", ADJ_F32, 3001, 1, 5, UINT64_C(0x07189e442624639e)},
    {"repeats", ADJ_F64, 3001, 2, 5, UINT64_C(0xfb15ed9b08ffdd25)},
    {"scales", ADJ_F32, 3001, 1, 5, UINT64_C(0x166cd51fcfa1e583)},
    {"scales", ADJ_F64, 3001, 2, 5, UINT64_C(0xde3af8b91e002595)},
    {"flat", ADJ_F32, 3001, 1, 7, UINT64_C(0x66bb32325bee5675)},
    {"flat", ADJ_F64, 3001, 2, 7, UINT64_C(0xf91fc07e20aeef19)},
    {"Unif2D100K", ADJ_F32, 0, 1, 0, UINT64_C(0x49770ea5faa807cf)},
    {"Expo4D50K", ADJ_F32, 0, 1, 0, UINT64_C(0xea1542cb1572ac32)},
    {"Syn16D10K", ADJ_F32, 0, 1, 0, UINT64_C(0x83880fee01082792)},
    {"Clusters3D20K", ADJ_F32, 0, 1, 0, UINT64_C(0xb74b3e4a2979b3d8)},
};

static void bytes_never_change(void **state) {
  (void)state;
  int wrong = 0;
  for (uint32_t threads = 1; threads <= 3; threads++) {
    adj_ctx *ctx = context_of(threads, NULL);
    for (size_t i = 0; i < sizeof goldens / sizeof *goldens; i++) {
      const golden *g = &goldens[i];
      adj_generate_options options = options_of(g->name, g->count, g->dim);
      options.type = g->type;
      options.seed = g->seed;
      adj_dataset *set;
      must(adj_dataset_generate(ctx, &options, &set));
      if (checksum(set) != g->checksum) {
        print_message("{\"%s\", %s, %llu, %llu, %u, UINT64_C(0x%016llx)},\n", g->name,
                      g->type == ADJ_F32 ? "ADJ_F32" : "ADJ_F64", (unsigned long long)g->count,
                      (unsigned long long)g->seed, g->dim, (unsigned long long)checksum(set));
        wrong++;
      }
      adj_dataset_destroy(set);
    }
    adj_ctx_destroy(ctx);
  }
  assert_int_equal(wrong, 0);
}

/* A longer set begins with the shorter one, as row i does not depend on the count. */
static void rows_do_not_depend_on_count(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  static const char *const names[] = {"unif", "expo", "clusters", "normal", "sphere", "duplicates", "codes", "repeats"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    adj_generate_options options = options_of(names[k], 100, 3);
    options.clusters = 7;
    adj_dataset *small, *large;
    must(adj_dataset_generate(ctx, &options, &small));
    options.count = 100000;
    must(adj_dataset_generate(ctx, &options, &large));
    assert_memory_equal(small->data, large->data, sizeof(float) * 100 * 3);
    adj_dataset_destroy(small);
    adj_dataset_destroy(large);
  }
  adj_ctx_destroy(ctx);
}

/* ---- Distributions -------------------------------------------------------------------------------- */

typedef struct moments {
  double low, high, mean, variance;
} moments;

static moments moments_of(const adj_dataset *set) {
  moments m = {INFINITY, -INFINITY, 0, 0};
  double n = (double)set->count * set->dim;
  for (uint64_t i = 0; i < set->count; i++)
    for (uint32_t j = 0; j < set->dim; j++) {
      double x = adji_dataset_at(set, i, j);
      m.low = fmin(m.low, x);
      m.high = fmax(m.high, x);
      m.mean += x / n;
      m.variance += x * x / n;
    }
  m.variance -= m.mean * m.mean;
  return m;
}

static adj_dataset *make(adj_ctx *ctx, const char *name, adj_type type, uint64_t count, uint32_t dim) {
  adj_generate_options options = options_of(name, count, dim);
  options.type = type;
  adj_dataset *set;
  must(adj_dataset_generate(ctx, &options, &set));
  return set;
}

#define near(a, b, tolerance) assert_true(fabs((a) - (b)) <= (tolerance))

static void distributions_hold(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (int t = 0; t < 2; t++) {
    adj_type type = t ? ADJ_F64 : ADJ_F32;
    adj_dataset *set = make(ctx, "unif", type, 100000, 4);
    moments m = moments_of(set);
    assert_true(m.low >= 0 && m.high < 1);
    near(m.mean, 0.5, 0.003); /* six standard errors: 0.2887 / sqrt(4e5) each */
    near(m.variance, 1 / 12.0, 0.001);
    adj_dataset_destroy(set);

    set = make(ctx, "expo", type, 100000, 4);
    m = moments_of(set);
    assert_true(m.low >= 0 && m.high <= 1);
    near(m.mean, 1 / 40.0, 0.0003);
    near(m.variance, 1 / 1600.0, 0.00002);
    adj_dataset_destroy(set);

    set = make(ctx, "normal", type, 100000, 4);
    m = moments_of(set);
    near(m.mean, 0, 0.01); /* six standard errors: 1 / sqrt(4e5) each */
    near(m.variance, 1, 0.014);
    adj_dataset_destroy(set);

    set = make(ctx, "clusters", type, 20000, 3);
    m = moments_of(set);
    assert_true(m.low >= 0 && m.high <= 1);
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

static void expo_stays_in_the_box(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_generate_options options = options_of("expo", 20000, 2);
  options.lambda = 0.5; /* about three draws in five fall outside the box */
  adj_dataset *set;
  must(adj_dataset_generate(ctx, &options, &set));
  moments m = moments_of(set);
  assert_true(m.low >= 0 && m.high <= 1);
  near(m.mean, 2 - 1 / (exp(0.5) - 1), 0.01); /* mean of the exponential law cut off at 1 */
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

static void sphere_has_radius_one(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (uint32_t dim = 1; dim <= 64; dim = dim * 2 + 1) {
    adj_dataset *set = make(ctx, "sphere", ADJ_F64, 2000, dim);
    for (uint64_t i = 0; i < set->count; i++) {
      double square = 0;
      for (uint32_t j = 0; j < dim; j++)
        square += adji_dataset_at(set, i, j) * adji_dataset_at(set, i, j);
      near(square, 1, 1e-14 * dim);
    }
    near(moments_of(set).mean, 0, 6 / sqrt(2000.0 * dim));
    adj_dataset_destroy(set);
  }
  adj_ctx_destroy(ctx);
}

static void lattice_is_a_lattice(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = make(ctx, "lattice", ADJ_F32, 26, 3); /* side 3: 27 >= 26 */
  for (uint64_t i = 0; i < 26; i++) {
    float row[3], wanted[3] = {(float)(i / 9 % 3), (float)(i / 3 % 3), (float)(i % 3)};
    must(adj_dataset_row(set, i, row));
    assert_memory_equal(row, wanted, sizeof row);
  }
  adj_dataset_destroy(set);
  set = make(ctx, "lattice", ADJ_F32, 28, 3); /* side 4 */
  assert_true(adji_dataset_at(set, 3, 2) == 3);
  adj_dataset_destroy(set);
  set = make(ctx, "lattice", ADJ_F64, 1000, 100); /* side 2, most dimensions 0 */
  assert_true(adji_dataset_at(set, 999, 99) == 1 && adji_dataset_at(set, 999, 0) == 0);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

/* The number of different points among 5,000 in two dimensions. */
static int different_points(const char *name, uint32_t clusters) {
  adj_ctx *ctx = context_of(2, NULL);
  adj_generate_options options = options_of(name, 5000, 2);
  options.clusters = clusters;
  adj_dataset *set;
  must(adj_dataset_generate(ctx, &options, &set));
  int different = 0;
  const float(*points)[2] = (const float(*)[2])set->data;
  for (int i = 0; i < 5000; i++) {
    int seen = 0;
    for (int k = 0; k < i && !seen; k++)
      seen = !memcmp(points[i], points[k], sizeof points[i]);
    different += !seen;
  }
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
  return different;
}

static void duplicates_repeat_their_centres(void **state) {
  (void)state;
  assert_int_equal(different_points("duplicates", 5), 5);
}

static void one_point_in_ten_repeats_another(void **state) {
  (void)state;
  int different = different_points("repeats", 0);
  assert_in_range(different, 4500, 4600);
}

static void codes_are_whole_and_repeat(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = make(ctx, "codes", ADJ_F64, 1000, 3);
  for (uint64_t i = 0; i < 1000; i++)
    for (uint32_t j = 0; j < 3; j++) {
      double x = adji_dataset_at(set, i, j);
      assert_true(x >= 0 && x <= 4095 && x == floor(x));
    }
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
  assert_in_range(different_points("codes", 3), 100, 4900);
}

/* Clusters must be far denser than noise, and have different densities: half of the points have their nearest neighbour
 * within a tenth of the distance in a uniform set. */
static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void clusters_vary_in_density(void **state) {
  (void)state;
  enum { N = 3000 };
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = make(ctx, "clusters", ADJ_F64, N, 2);
  static double nearest[N];
  for (int i = 0; i < N; i++) {
    nearest[i] = INFINITY;
    for (int k = 0; k < N; k++) {
      double dx = adji_dataset_at(set, i, 0) - adji_dataset_at(set, k, 0);
      double dy = adji_dataset_at(set, i, 1) - adji_dataset_at(set, k, 1);
      if (k != i) nearest[i] = fmin(nearest[i], sqrt(dx * dx + dy * dy));
    }
  }
  qsort(nearest, N, sizeof *nearest, by_value);
  assert_true(nearest[N / 10] * 20 < nearest[N * 9 / 10]);
  assert_true(nearest[N / 2] * 5 < 0.5 / sqrt(N));
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

static void logarithm_is_accurate(void **state) {
  (void)state;
  for (uint64_t i = 1; i < 200000; i++) {
    double x = (double)(adji_random(5, i) >> 11) * 0x1p-53;
    if (i % 2) x = 1 - ldexp(x, -(int)(i % 40));
    if (x <= 0) continue;
    double expected = log(x), ours = adji_ln(x);
    near(ours, expected, 4 * 0x1p-53 * fabs(expected));
  }
  assert_true(adji_ln(1) == 0);
}

/* ---- Names and errors ------------------------------------------------------------------------------- */

static void published_names(void **state) {
  (void)state;
  static const struct {
    const char *name, *generator;
    uint64_t count;
    uint32_t dim;
  } known[] = {{"Unif2D2M", "unif", 2000000, 2},       {"Unif4D10M", "unif", 10000000, 4},
               {"Expo8D10M", "expo", 10000000, 8},     {"Syn64D2M", "expo", 2000000, 64},
               {"clusters3d5k", "clusters", 5000, 3},  {"SPHERE12D1K", "sphere", 1000, 12},
               {"Lattice2D3m", "lattice", 3000000, 2}, {"Normal128D100K", "normal", 100000, 128}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    adji_published_set set;
    assert_true(adji_published_find(known[i].name, &set));
    assert_string_equal(set.generator, known[i].generator);
    assert_int_equal(set.count, known[i].count);
    assert_int_equal(set.dim, known[i].dim);
  }
  static const char *const wrong[] = {
      "Unif",     "Unif2D",   "Unif2D2",   "UnifD2M",         "Unif0D2M",           "Unif2D0M", "Unif2D2MB",
      "Unif2D2G", "Unif2X2M", "Unif-2D2M", "Unif99999999D1M", "Unif2D99999999999M", ""};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    adji_published_set set;
    if (adji_published_find(wrong[i], &set)) fail_msg("\"%s\" was taken for a published set", wrong[i]);
  }
}

static void given_sizes_go_first(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_generate_options options = options_of("Expo6D10M", 50, 0);
  adj_dataset *set;
  must(adj_dataset_generate(ctx, &options, &set));
  assert_int_equal(adj_dataset_count(set), 50);
  assert_int_equal(adj_dataset_dim(set), 6);
  assert_int_equal(adj_dataset_type(set), ADJ_F32);
  adj_dataset_destroy(set);
  options = options_of("unif5d1k", 0, 2);
  must(adj_dataset_generate(ctx, &options, &set));
  assert_int_equal(adj_dataset_count(set), 1000);
  assert_int_equal(adj_dataset_dim(set), 2);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

static void errors_name_the_argument(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(1, NULL);
  adj_dataset *untouched = (adj_dataset *)ctx, *set = untouched;
  adj_generate_options options = options_of("unif", 10, 2);
  must_fail(ADJ_E_ARGUMENT, "ctx", adj_dataset_generate(NULL, &options, &set));
  must_fail(ADJ_E_ARGUMENT, "options", adj_dataset_generate(ctx, NULL, &set));
  must_fail(ADJ_E_ARGUMENT, "out", adj_dataset_generate(ctx, &options, NULL));
  options.name = NULL;
  must_fail(ADJ_E_ARGUMENT, "name", adj_dataset_generate(ctx, &options, &set));
  options.name = "Uni";
  must_fail(ADJ_E_ARGUMENT, "\"Uni\"", adj_dataset_generate(ctx, &options, &set));
  options = options_of("unif", 0, 2);
  must_fail(ADJ_E_ARGUMENT, "count", adj_dataset_generate(ctx, &options, &set));
  options = options_of("unif", 10, 0);
  must_fail(ADJ_E_ARGUMENT, "dim", adj_dataset_generate(ctx, &options, &set));
  options = options_of("unif", 10, (1u << 24) + 1);
  must_fail(ADJ_E_ARGUMENT, "16777217", adj_dataset_generate(ctx, &options, &set));
  options = options_of("unif", ADJ_MAX_COUNT + 1, 2);
  must_fail(ADJ_E_ARGUMENT, "4294967295", adj_dataset_generate(ctx, &options, &set));
  options = options_of("unif", 10, 2);
  options.type = (adj_type)7;
  must_fail(ADJ_E_ARGUMENT, "type: 7", adj_dataset_generate(ctx, &options, &set));
  options = options_of("expo", 10, 2);
  options.lambda = -3;
  must_fail(ADJ_E_ARGUMENT, "lambda: -3", adj_dataset_generate(ctx, &options, &set));
  options.lambda = NAN;
  must_fail(ADJ_E_ARGUMENT, "lambda", adj_dataset_generate(ctx, &options, &set));
  options = options_of("lattice", 20000000, 1);
  must_fail(ADJ_E_ARGUMENT, "f64", adj_dataset_generate(ctx, &options, &set));
  options = options_of("unif", 10, 2);
  options.struct_size = 3;
  must_fail(ADJ_E_STRUCT, "adj_generate_options", adj_dataset_generate(ctx, &options, &set));
  options = options_of("unif", ADJ_MAX_COUNT, 1u << 24);
  must_fail(ADJ_E_MEMORY, "points", adj_dataset_generate(ctx, &options, &set));
  assert_ptr_equal(set, untouched);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

static void cancel_stops_generation(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_generate_options options = options_of("unif", 1000000, 2);
  adj_dataset *set;
  adji_call outer = adji_call_begin(&ctx->cancels); /* generating is a part of this call */
  adj_cancel(ctx);
  must_fail(ADJ_CANCELLED, "stopped", adj_dataset_generate(ctx, &options, &set));
  adji_call_set(outer);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  must(adj_dataset_generate(ctx, &options, &set));
  adj_dataset_destroy(set);
  assert_int_equal(adj_ctx_memory_used(ctx), 0);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_never_change),
      cmocka_unit_test(rows_do_not_depend_on_count),
      cmocka_unit_test(distributions_hold),
      cmocka_unit_test(expo_stays_in_the_box),
      cmocka_unit_test(sphere_has_radius_one),
      cmocka_unit_test(lattice_is_a_lattice),
      cmocka_unit_test(duplicates_repeat_their_centres),
      cmocka_unit_test(one_point_in_ten_repeats_another),
      cmocka_unit_test(codes_are_whole_and_repeat),
      cmocka_unit_test(clusters_vary_in_density),
      cmocka_unit_test(logarithm_is_accurate),
      cmocka_unit_test(published_names),
      cmocka_unit_test(given_sizes_go_first),
      cmocka_unit_test(errors_name_the_argument),
      cmocka_unit_test(cancel_stops_generation),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
