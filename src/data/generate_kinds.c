/* SPDX-License-Identifier: MIT
 *
 * The kinds of generated sets: one function per kind writes one row. Column j of row i depends on the seed, i and j
 * only. A draw that is out of range is repeated with the counter of the next attempt.
 */
#include <math.h>
#include <string.h>
#include <strings.h>

#include "data/generate_draw.h"

/* ---- Random numbers ------------------------------------------------------------------------------------ */

/* The logarithm of the C library differs in its last bit from machine to machine; this one uses only additions,
 * multiplications and one division, which IEEE 754 fixes. x = 2^e m with m in [sqrt(1/2), sqrt(2)); with s = (m - 1) /
 * (m + 1), |s| <= 0.1716, ln m = 2 atanh s = 2 s (1 + s^2/3 + s^4/5 + ...). The terms after s^22/23 are below 0.0295^12
 * / 25 < 2e-20 of the sum. e ln 2 is added in two parts: the first has 21 trailing zeros, so its product with e is
 * exact. */
double adji_ln(double x) {
  static const double LN2_HIGH = 0x1.62e42fee00000p-1, LN2_LOW = 0x1.a39ef35793c76p-33;
  static const double terms[11] = {1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13,
                                   1.0 / 11, 1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3};
  uint64_t bits;
  memcpy(&bits, &x, sizeof bits);
  int64_t exponent = (int64_t)(bits >> 52) - 1023;
  bits = (bits & UINT64_C(0x000fffffffffffff)) | UINT64_C(0x3ff0000000000000);
  double m;
  memcpy(&m, &bits, sizeof m);
  if (m > 0x1.6a09e667f3bcdp+0) { /* sqrt(2) */
    m *= 0.5;
    exponent++;
  }
  double s = (m - 1) / (m + 1), square = s * s;
  double series = 0;
  for (int i = 0; i < 11; i++)
    series = series * square + terms[i];
  double e = (double)exponent;
  return e * LN2_HIGH + (2 * s + (2 * s * (series * square) + e * LN2_LOW));
}

/* Writes a uniform coordinate. In f32 it has the 24 bits that a float holds: rounding 53 bits could give 1. */
static void put_uniform(const adji_generator *g, uint64_t row, uint32_t j, uint64_t bits) {
  adji_put(g, row, j, g->type == ADJ_F64 ? adji_unit(bits) : (double)(bits >> 40) * 0x1p-24);
}

/* ---- The kinds -------------------------------------------------------------------------------------- */

static void uniform_row(const adji_generator *g, uint64_t row) {
  uint64_t key = adji_key_of(g, ADJI_FOR_ROWS, row);
  for (uint32_t j = 0; j < g->dim; j++)
    put_uniform(g, row, j, adji_draw(key, j, 0));
}

/* Exponential coordinates by inversion, drawn again if outside [0, 1]. */
static void exponential_row(const adji_generator *g, uint64_t row) {
  uint64_t key = adji_key_of(g, ADJI_FOR_ROWS, row);
  for (uint32_t j = 0; j < g->dim; j++) {
    double x;
    uint64_t attempt = 0;
    do {
      x = -adji_ln(1 - adji_unit(adji_draw(key, j, attempt++))) / g->lambda;
    } while (x > 1);
    adji_put(g, row, j, x);
  }
}

/* 2^-x for x in [0, 10), within 6 % and without exp: a whole power times a linear function. */
static double falling_power(double x) {
  int whole = (int)x;
  return (1 - 0.5 * (x - whole)) / (double)(1 << whole);
}

/* Widths from 0.05 to 0.05 / 1024 and weights over three decades, drawn independently: a heavy narrow cluster is 10^6
 * times as dense per dimension as a light wide one. */
static double cluster_width(const adji_generator *g, uint64_t centre) {
  return 0.05 * falling_power(10 * adji_unit(adji_key_of(g, ADJI_FOR_WIDTHS, centre)));
}

static double cluster_weight(const adji_generator *g, uint64_t centre) {
  return falling_power(10 * adji_unit(adji_key_of(g, ADJI_FOR_WEIGHTS, centre)));
}

/* The first centre whose cumulative weight exceeds the share u of the total. */
static uint32_t choose_cluster(const adji_generator *g, double u) {
  double wanted = u * g->cumulative[g->clusters - 1];
  uint32_t low = 0, high = g->clusters - 1;
  while (low < high) {
    uint32_t middle = low + (high - low) / 2;
    if (g->cumulative[middle] > wanted)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}

/* Gaussian clusters, cut off at the unit box. One point in fifty is uniform noise. */
static void cluster_row(const adji_generator *g, uint64_t row) {
  uint64_t key = adji_key_of(g, ADJI_FOR_ROWS, row);
  if (adji_unit(adji_draw(key, g->dim, 0)) < 0.02) {
    for (uint32_t j = 0; j < g->dim; j++)
      put_uniform(g, row, j, adji_draw(key, j, 0));
    return;
  }
  uint32_t cluster = choose_cluster(g, adji_unit(adji_draw(key, g->dim, 1)));
  uint64_t centre = adji_key_of(g, ADJI_FOR_CENTRES, cluster);
  double width = cluster_width(g, cluster);
  for (uint32_t j = 0; j < g->dim; j++) {
    double middle = adji_unit(adji_draw(centre, j, 0)), x;
    uint64_t attempt = 0;
    do {
      x = middle + width * adji_normal(key, j, &attempt);
      attempt++;
    } while (!(x >= 0 && x <= 1));
    adji_put(g, row, j, x);
  }
}

/* Writes a row with independent standard normal coordinates. Returns the squared length of the vector. */
static double put_normal(const adji_generator *g, uint64_t row) {
  uint64_t key = adji_key_of(g, ADJI_FOR_ROWS, row);
  double square = 0;
  for (uint32_t j = 0; j < g->dim; j++) {
    uint64_t attempt = 0;
    double x = adji_normal(key, j, &attempt);
    square += x * x;
    adji_put(g, row, j, x);
  }
  return square;
}

static void normal_row(const adji_generator *g, uint64_t row) {
  put_normal(g, row);
}

/* A normal vector has no preferred direction; scaled to length 1 it is uniform on the sphere. */
static void sphere_row(const adji_generator *g, uint64_t row) {
  double length = sqrt(put_normal(g, row));
  for (uint32_t j = 0; j < g->dim; j++) {
    adji_put(g, row, j, adji_written(g, row, j) / length);
  }
}

/* The digits of the row number in base `side` are the coordinates; the last one changes fastest. */
static void lattice_row(const adji_generator *g, uint64_t row) {
  uint64_t rest = row;
  for (uint32_t j = g->dim; j-- > 0;) {
    adji_put(g, row, j, (double)(rest % g->side));
    rest /= g->side;
  }
}

static void duplicate_row(const adji_generator *g, uint64_t row) {
  uint64_t share = adji_key_of(g, ADJI_FOR_ROWS, row) >> 32;
  uint64_t centre = adji_key_of(g, ADJI_FOR_CENTRES, share * g->clusters >> 32);
  for (uint32_t j = 0; j < g->dim; j++)
    put_uniform(g, row, j, adji_draw(centre, j, 0));
}

/* Clusters as 12-bit codes: whole numbers up to 4,095. Most distances tie, and many points are equal. */
static void code_row(const adji_generator *g, uint64_t row) {
  cluster_row(g, row);
  for (uint32_t j = 0; j < g->dim; j++) {
    adji_put(g, row, j, floor(adji_written(g, row, j) * 4095 + 0.5));
  }
}

/* Uniform; about one point in ten is equal to an earlier one. */
static void repeat_row(const adji_generator *g, uint64_t row) {
  uint64_t key = adji_key_of(g, ADJI_FOR_ROWS, row);
  if (row && adji_unit(adji_draw(key, g->dim, 0)) < 0.1)
    key = adji_key_of(g, ADJI_FOR_ROWS, adji_draw(key, g->dim, 1) % row);
  for (uint32_t j = 0; j < g->dim; j++)
    put_uniform(g, row, j, adji_draw(key, j, 0));
}

/* Eight clusters, uniform in boxes of side 1 to 10^-7; the last point is far from all others. */
static void scale_row(const adji_generator *g, uint64_t row) {
  static const double sides[8] = {1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7};
  uint64_t key = adji_key_of(g, ADJI_FOR_ROWS, row), cluster = adji_draw(key, g->dim, 0) >> 61;
  uint64_t centre = adji_key_of(g, ADJI_FOR_CENTRES, cluster);
  for (uint32_t j = 0; j < g->dim; j++) {
    double x = 10 * adji_unit(adji_draw(centre, j, 0)) + sides[cluster] * adji_unit(adji_draw(key, j, 0));
    adji_put(g, row, j, row + 1 < g->count ? x : 1e6);
  }
}

/* Correlated normal coordinates: a sum of FLAT_DIMS normal vectors along fixed directions, and normal noise of a
 * hundredth of their length in every dimension. */
enum { FLAT_DIMS = 5 };

static void flat_row(const adji_generator *g, uint64_t row) {
  uint64_t key = adji_key_of(g, ADJI_FOR_ROWS, row);
  double z[FLAT_DIMS];
  for (uint32_t a = 0; a < FLAT_DIMS; a++) {
    uint64_t attempt = 0;
    z[a] = adji_normal(key, g->dim + a, &attempt);
  }
  for (uint32_t j = 0; j < g->dim; j++) {
    uint64_t attempt = 0;
    double x = 0.01 * adji_normal(key, j, &attempt);
    for (uint32_t a = 0; a < FLAT_DIMS; a++)
      x += g->axes[j * FLAT_DIMS + a] * z[a];
    adji_put(g, row, j, x);
  }
}

/* ---- Preparations ----------------------------------------------------------------------------------- */

/* side^dim, or UINT64_MAX if that exceeds 64 bits. */
static uint64_t power(uint64_t side, uint32_t dim) {
  uint64_t product = 1;
  for (uint32_t j = 0; j < dim && side > 1 && product != UINT64_MAX; j++)
    product = adji_mul(product, side);
  return product;
}

/* The smallest side with side^dim >= count. */
static adj_status prepare_lattice(adj_ctx *ctx, adji_generator *g) {
  (void)ctx;
  uint64_t low = 1, high = g->count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (power(middle, g->dim) >= g->count)
      high = middle;
    else
      low = middle + 1;
  }
  g->side = low;
  if (g->type == ADJ_F32 && g->side > (uint64_t)1 << 24)
    return adji_fail(ADJ_E_ARGUMENT, "type: a lattice of side %llu has coordinates that f32 cannot hold; use f64",
                     (unsigned long long)g->side);
  return ADJ_OK;
}

static adj_status prepare_clusters(adj_ctx *ctx, adji_generator *g) {
  g->cumulative = adji_alloc(&ctx->memory, g->clusters, sizeof(double), "weights of the clusters");
  if (!g->cumulative) return ADJ_E_MEMORY;
  double sum = 0;
  for (uint32_t c = 0; c < g->clusters; c++)
    g->cumulative[c] = sum += cluster_weight(g, c);
  return ADJ_OK;
}

static adj_status prepare_flat(adj_ctx *ctx, adji_generator *g) {
  g->axes = adji_alloc(&ctx->memory, adji_mul(g->dim, FLAT_DIMS), sizeof(double), "directions of the points");
  if (!g->axes) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < g->dim; j++)
    for (uint32_t a = 0; a < FLAT_DIMS; a++) {
      uint64_t attempt = 0;
      g->axes[j * FLAT_DIMS + a] = adji_normal(adji_key_of(g, ADJI_FOR_AXES, j), a, &attempt);
    }
  return ADJ_OK;
}

/* ---- Their names ------------------------------------------------------------------------------------ */

static const adji_generator_kind kinds[] = {
    {.name = "unif", .row = uniform_row},
    {.name = "expo", .row = exponential_row},
    {.name = "clusters", .row = cluster_row, .prepare = prepare_clusters},
    {.name = "codes", .row = code_row, .prepare = prepare_clusters},
    {.name = "normal", .row = normal_row},
    {.name = "sphere", .row = sphere_row},
    {.name = "lattice", .row = lattice_row, .prepare = prepare_lattice},
    {.name = "duplicates", .row = duplicate_row},
    {.name = "repeats", .row = repeat_row},
    {.name = "scales", .row = scale_row},
    {.name = "flat", .row = flat_row, .prepare = prepare_flat},
};

const adji_generator_kind *adji_generator_find(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcasecmp(name, kinds[i].name)) return &kinds[i];
  return adji_paper_kind(name);
}
