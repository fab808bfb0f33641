/* SPDX-License-Identifier: MIT
 *
 * The imitations of the papers' real sets: names and sizes; the same bytes in every version, with every number of
 * threads, and for every count; ranges; histograms that add up to 1; and points as uneven as they should be.
 */
#include <math.h>
#include <stdlib.h>

#include "check.h"
#include "data/dataset.h"
#include "data/generate.h"

/* The checksums are of 3,001 points, with seed 1 in f32 and with seed 2 in f64. */
typedef struct paper_set {
  const char *name, *generator;
  uint64_t count;
  uint32_t dim;
  double low, high; /* of all coordinates */
  uint64_t f32, f64;
} paper_set;

static const paper_set sets[] = {
    {"GAIA", "gaia", 25000000, 2, -180, 180, UINT64_C(0x680f1cca192ffac8), UINT64_C(0x1a1bd9a25cfb9d47)},
    {"OSM", "osm", 25000000, 2, -180, 180, UINT64_C(0x65c24d50f8112c95), UINT64_C(0x110b44a5648e4f68)},
    {"SW2DA", "sw", 1860000, 2, -180, 180, UINT64_C(0x18999afe57b768de), UINT64_C(0x5b1256d33c1ab784)},
    {"SW2DB", "sw", 5160000, 2, -180, 180, UINT64_C(0x18999afe57b768de), UINT64_C(0x5b1256d33c1ab784)},
    {"SW3DA", "sw", 1860000, 3, -180, 180, UINT64_C(0x7c4a88428c96483f), UINT64_C(0xac480e5147e8e3cd)},
    {"SW3DB", "sw", 5160000, 3, -180, 180, UINT64_C(0x7c4a88428c96483f), UINT64_C(0xac480e5147e8e3cd)},
    {"SDSS", "sdss", 15230000, 2, -0.2001, 6.2801, UINT64_C(0x0d6d6c084d9314f4), UINT64_C(0x21396a20d7b3ff23)},
    {"CoocTexture", "cooctexture", 68040, 16, 0, 1, UINT64_C(0xb9ca000a9cfd7e96), UINT64_C(0xbe6eabef9a80944a)},
    {"ColorHist", "colorhist", 68040, 32, 0, 1, UINT64_C(0xe6199d9c4e6e8173), UINT64_C(0xfbe2c24199b15e63)},
    {"LayoutHist", "layouthist", 66616, 32, 0, 1, UINT64_C(0xf86e05a811953643), UINT64_C(0x91e0e5710e095798)},
    {"SuSy", "susy", 5000000, 18, 0, 1, UINT64_C(0x98bae3ed51826b4d), UINT64_C(0xdf4b7bfb0e9a54f4)},
    {"Songs", "songs", 515345, 90, 0, 1, UINT64_C(0x9bc2fbc8e0274bbf), UINT64_C(0xbb8859e3b7d6abb9)},
};
enum { SETS = sizeof sets / sizeof *sets };

static adj_dataset *make(adj_ctx *ctx, const char *name, adj_type type, uint64_t count, uint64_t seed) {
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  options.name = name;
  options.type = type;
  options.count = count;
  options.seed = seed;
  adj_dataset *set;
  must(adj_dataset_generate(ctx, &options, &set));
  return set;
}

/* FNV-1a over the bytes of the points. */
static uint64_t checksum(const adj_dataset *set) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  uint64_t bytes = set->count * set->dim * adji_type_size(set->type);
  for (uint64_t i = 0; i < bytes; i++)
    hash = (hash ^ (unsigned char)set->data[i]) * UINT64_C(0x100000001b3);
  return hash;
}

static void names_give_sizes(void **state) {
  (void)state;
  for (int i = 0; i < SETS; i++) {
    adji_published_set set;
    assert_true(adji_published_find(sets[i].name, &set));
    assert_string_equal(set.generator, sets[i].generator);
    assert_int_equal(set.count, sets[i].count);
    assert_int_equal(set.dim, sets[i].dim);
    assert_non_null(adji_generator_find(set.generator));
  }
  adji_published_set set;
  assert_true(adji_published_find("gaia2d50m", &set) && set.count == 50000000 && set.dim == 2);
  assert_true(adji_published_find("sw3DA", &set) && set.dim == 3);
  assert_true(adji_published_find("SW3D20K", &set) && set.count == 20000 && set.dim == 3);
  assert_false(adji_published_find("sw", &set) || adji_published_find("SW2DC", &set) ||
               adji_published_find("GAIA2", &set));
}

static void bytes_never_change(void **state) {
  (void)state;
  int wrong = 0;
  for (uint32_t threads = 1; threads <= 3; threads++) {
    adj_ctx *ctx = context_of(threads, NULL);
    for (int i = 0; i < SETS; i++) {
      adj_dataset *narrow = make(ctx, sets[i].name, ADJ_F32, 3001, 1),
                  *wide = make(ctx, sets[i].name, ADJ_F64, 3001, 2);
      assert_int_equal(adj_dataset_dim(narrow), sets[i].dim);
      if (checksum(narrow) != sets[i].f32 || checksum(wide) != sets[i].f64) {
        print_message("%s: UINT64_C(0x%016llx), UINT64_C(0x%016llx)\n", sets[i].name,
                      (unsigned long long)checksum(narrow), (unsigned long long)checksum(wide));
        wrong++;
      }
      adj_dataset_destroy(narrow);
      adj_dataset_destroy(wide);
    }
    adj_ctx_destroy(ctx);
  }
  assert_int_equal(wrong, 0);
}

static void rows_do_not_depend_on_count(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (int i = 0; i < SETS; i++) {
    adj_dataset *small = make(ctx, sets[i].name, ADJ_F32, 100, 1), *large = make(ctx, sets[i].name, ADJ_F32, 20000, 1);
    assert_memory_equal(small->data, large->data, sizeof(float) * 100 * sets[i].dim);
    adj_dataset_destroy(small);
    adj_dataset_destroy(large);
  }
  adj_ctx_destroy(ctx);
}

/* Making a set is enough, as a set with a value that is not finite is refused. */
static void coordinates_are_in_range(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (int i = 0; i < SETS; i++)
    for (int t = 0; t < 2; t++) {
      adj_dataset *set = make(ctx, sets[i].name, t ? ADJ_F64 : ADJ_F32, 20000, 3);
      double low = INFINITY, high = -INFINITY;
      for (uint64_t row = 0; row < set->count; row++)
        for (uint32_t j = 0; j < set->dim; j++) {
          double x = adji_dataset_at(set, row, j);
          assert_true(isfinite(x));
          low = fmin(low, x);
          high = fmax(high, x);
        }
      if (low < sets[i].low || high > sets[i].high) fail_msg("%s: from %g to %g", sets[i].name, low, high);
      adj_dataset_destroy(set);
    }
  adj_ctx_destroy(ctx);
}

/* Feature sets may have any number of dimensions. Sets of places have a fixed one. */
static void dimensions_are_checked(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_generate_options options;
  adj_generate_options_init(&options, sizeof options);
  adj_dataset *set = NULL;
  options.count = 50;
  static const char *const any[] = {"CoocTexture", "ColorHist", "LayoutHist", "SuSy", "Songs"};
  for (int i = 0; i < 5; i++)
    for (options.dim = 1; options.dim < 200; options.dim = options.dim * 2 + 1) {
      options.name = any[i];
      must(adj_dataset_generate(ctx, &options, &set));
      assert_int_equal(adj_dataset_dim(set), options.dim);
      adj_dataset_destroy(set);
    }
  options.name = "GAIA";
  options.dim = 3;
  must_fail(ADJ_E_ARGUMENT, "dim: \"GAIA\" has 2 dimensions, not 3", adj_dataset_generate(ctx, &options, &set));
  options.name = "sw";
  options.dim = 4;
  must_fail(ADJ_E_ARGUMENT, "dim: \"sw\" has 2 to 3 dimensions, not 4", adj_dataset_generate(ctx, &options, &set));
  options.dim = 0;
  must_fail(ADJ_E_ARGUMENT, "dim: \"sw\" does not say", adj_dataset_generate(ctx, &options, &set));
  adj_ctx_destroy(ctx);
}

/* ---- Distributions ---------------------------------------------------------------------------------------- */

static int falling(const void *a, const void *b) {
  uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
  return (x < y) - (x > y);
}

/* The share of the points in the densest hundredth of 100 x 100 cells, in the plane of the first two dimensions.
 * Uniform points give 0.014. */
static double densest_share(const adj_dataset *set) {
  static uint32_t cells[10000];
  memset(cells, 0, sizeof cells);
  double low[2] = {INFINITY, INFINITY}, high[2] = {-INFINITY, -INFINITY};
  for (uint64_t i = 0; i < set->count; i++)
    for (uint32_t j = 0; j < 2; j++) {
      low[j] = fmin(low[j], adji_dataset_at(set, i, j));
      high[j] = fmax(high[j], adji_dataset_at(set, i, j));
    }
  for (uint64_t i = 0; i < set->count; i++) {
    int at[2];
    for (uint32_t j = 0; j < 2; j++)
      at[j] = (int)(99.999 * (adji_dataset_at(set, i, j) - low[j]) / (high[j] - low[j]));
    cells[at[0] * 100 + at[1]]++;
  }
  qsort(cells, 10000, sizeof *cells, falling);
  uint64_t held = 0;
  for (int i = 0; i < 100; i++)
    held += cells[i];
  return (double)held / (double)set->count;
}

static void places_are_clustered(void **state) {
  (void)state;
  static const struct {
    const char *name;
    double least, most;
  } wanted[] = {{"Unif2D500K", 0.01, 0.016}, {"GAIA", 0.10, 0.4},  {"OSM", 0.3, 1},
                {"SW2DA", 0.10, 0.4},        {"SW3DA", 0.10, 0.4}, {"SDSS", 0.02, 0.1}};
  adj_ctx *ctx = context_of(2, NULL);
  for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++)
    for (uint64_t seed = 1; seed <= 2; seed++) {
      adj_dataset *set = make(ctx, wanted[i].name, ADJ_F32, 500000, seed);
      double share = densest_share(set);
      if (share < wanted[i].least || share > wanted[i].most) fail_msg("%s: a share of %g", wanted[i].name, share);
      adj_dataset_destroy(set);
    }
  adj_ctx_destroy(ctx);
}

/* Each row has `parts` histograms. The share of zeros must be between least and most. */
static void check_histograms(adj_ctx *ctx, const char *name, adj_type type, uint32_t parts, double least, double most) {
  adj_dataset *set = make(ctx, name, type, 20000, 1);
  uint64_t zeros = 0;
  for (uint64_t i = 0; i < set->count; i++)
    for (uint32_t part = 0; part < parts; part++) {
      double sum = 0;
      for (uint32_t j = part * set->dim / parts; j < (part + 1) * set->dim / parts; j++) {
        double x = adji_dataset_at(set, i, j);
        assert_true(x >= 0 && x <= 1);
        zeros += x == 0;
        sum += x;
      }
      assert_true(fabs(sum - 1) < (type == ADJ_F32 ? 4e-6 : 1e-14));
    }
  double share = (double)zeros / ((double)set->count * set->dim);
  if (share < least || share > most) fail_msg("%s: a share of %g of the bins is 0", name, share);
  adj_dataset_destroy(set);
}

static void histograms_add_up_to_one(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  for (int t = 0; t < 2; t++) {
    adj_type type = t ? ADJ_F64 : ADJ_F32;
    check_histograms(ctx, "ColorHist", type, 1, 0.4, 0.6);
    check_histograms(ctx, "LayoutHist", type, 4, 0.2, 0.35);
  }
  adj_ctx_destroy(ctx);
}

static double variance(const adj_dataset *set, uint32_t j) {
  double sum = 0, square = 0, n = (double)set->count;
  for (uint64_t i = 0; i < set->count; i++) {
    double x = adji_dataset_at(set, i, j);
    sum += x;
    square += x * x;
  }
  return square / n - (sum / n) * (sum / n);
}

/* The first 12 dimensions of the songs have low variance (GPU-Join, 5.5); a few of the others have most of it. */
static void songs_vary_in_a_few_dimensions(void **state) {
  (void)state;
  adj_ctx *ctx = context_of(2, NULL);
  adj_dataset *set = make(ctx, "Songs", ADJ_F64, 5000, 1);
  double first = 0, large = 0, rest = 0;
  for (uint32_t j = 0; j < 90; j++)
    *(j < 12 ? &first : j < 24 ? &large : &rest) += variance(set, j);
  assert_true(first * 100 < large && rest * 2 < large);
  adj_dataset_destroy(set);
  adj_ctx_destroy(ctx);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_give_sizes),
      cmocka_unit_test(bytes_never_change),
      cmocka_unit_test(rows_do_not_depend_on_count),
      cmocka_unit_test(coordinates_are_in_range),
      cmocka_unit_test(dimensions_are_checked),
      cmocka_unit_test(places_are_clustered),
      cmocka_unit_test(histograms_add_up_to_one),
      cmocka_unit_test(songs_vary_in_a_few_dimensions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
