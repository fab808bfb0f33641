/* SPDX-License-Identifier: MIT
 *
 * The kinds of generated sets: one function per kind writes one row. Column j of row i depends on the seed, i and j
 * only. A draw that is out of range is repeated with the counter of the next attempt.
 */
#include <float.h>
#include <math.h>
#include <string.h>
#include <strings.h>

#include "data/generate.h"

/* ---- Random numbers ------------------------------------------------------------------------------------ */

#if FLT_EVAL_METHOD != 0
#error "generated sets would differ: this target evaluates doubles in another precision"
#endif

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

/* One seed has several keys, by purpose. */
enum { FOR_ROWS, FOR_CENTRES, FOR_WEIGHTS, FOR_WIDTHS, FOR_AXES };

static uint64_t key_of(const adji_generator *g, unsigned purpose, uint64_t index) {
  return adji_random(adji_random(g->key, purpose), index);
}

/* The counter of an attempt at a column; a dimension is below 2^25. */
static uint64_t draw(uint64_t key, uint64_t column, uint64_t attempt) {
  return adji_random(key, column + (attempt << 25));
}

/* Uniform in [0, 1), all 53 bits. */
static double unit(uint64_t bits) {
  return (double)(bits >> 11) * 0x1p-53;
}

static void put(const adji_generator *g, uint64_t row, uint32_t j, double value) {
  uint64_t at = row * g->dim + j;
  if (g->type == ADJ_F64)
    ((double *)g->data)[at] = value;
  else
    ((float *)g->data)[at] = (float)value;
}

/* A uniform coordinate. In f32 it has the 24 bits that a float holds: rounding 53 bits could give 1. */
static void put_uniform(const adji_generator *g, uint64_t row, uint32_t j, uint64_t bits) {
  put(g, row, j, g->type == ADJ_F64 ? unit(bits) : (double)(bits >> 40) * 0x1p-24);
}

/* Standard normal, by Marsaglia's polar method, which needs no sine. The first coordinate of the
 * pair is an odd multiple of 2^-52, so the result is never 0. */
static double normal(uint64_t key, uint64_t column, uint64_t *attempt) {
  for (;; ++*attempt) {
    uint64_t bits = draw(key, column, 2 * *attempt);
    double v = ((double)(bits >> 12) + 0.5) * 0x1p-51 - 1;
    double w = 2 * unit(draw(key, column, 2 * *attempt + 1)) - 1;
    double s = v * v + w * w;
    if (s < 1 && s >= 0x1p-1000) return v * sqrt(-2 * adji_ln(s) / s);
  }
}

/* ---- The kinds -------------------------------------------------------------------------------------- */

static void uniform_row(const adji_generator *g, uint64_t row) {
  uint64_t key = key_of(g, FOR_ROWS, row);
  for (uint32_t j = 0; j < g->dim; j++)
    put_uniform(g, row, j, draw(key, j, 0));
}

/* Exponential, by inversion, and drawn again when it leaves [0, 1]. */
static void exponential_row(const adji_generator *g, uint64_t row) {
  uint64_t key = key_of(g, FOR_ROWS, row);
  for (uint32_t j = 0; j < g->dim; j++) {
    double x;
    uint64_t attempt = 0;
    do {
      x = -adji_ln(1 - unit(draw(key, j, attempt++))) / g->lambda;
    } while (x > 1);
    put(g, row, j, x);
  }
}

/* 2^-x for x in [0, 10): the whole power times a straight line, within 6 % and without exp. */
static double falling_power(double x) {
  int whole = (int)x;
  return (1 - 0.5 * (x - whole)) / (double)(1 << whole);
}

/* Widths from 0.05 to 0.05 / 1024 and weights over three decades, drawn apart from each other: a
 * heavy narrow cluster is 10^6 times as dense per dimension as a light wide one. */
static double cluster_width(const adji_generator *g, uint64_t centre) {
  return 0.05 * falling_power(10 * unit(key_of(g, FOR_WIDTHS, centre)));
}

static double cluster_weight(const adji_generator *g, uint64_t centre) {
  return falling_power(10 * unit(key_of(g, FOR_WEIGHTS, centre)));
}

/* The first centre whose cumulative weight passes the share u of the total. */
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

/* Gaussian clusters cut off at the unit box, and one point in fifty of uniform noise. */
static void cluster_row(const adji_generator *g, uint64_t row) {
  uint64_t key = key_of(g, FOR_ROWS, row);
  if (unit(draw(key, g->dim, 0)) < 0.02) {
    for (uint32_t j = 0; j < g->dim; j++)
      put_uniform(g, row, j, draw(key, j, 0));
    return;
  }
  uint32_t cluster = choose_cluster(g, unit(draw(key, g->dim, 1)));
  uint64_t centre = key_of(g, FOR_CENTRES, cluster);
  double width = cluster_width(g, cluster);
  for (uint32_t j = 0; j < g->dim; j++) {
    double middle = unit(draw(centre, j, 0)), x;
    uint64_t attempt = 0;
    do {
      x = middle + width * normal(key, j, &attempt);
      attempt++;
    } while (!(x >= 0 && x <= 1));
    put(g, row, j, x);
  }
}

/* Independent and standard normal in every dimension. Returns the square of the vector's length. */
static double put_normal(const adji_generator *g, uint64_t row) {
  uint64_t key = key_of(g, FOR_ROWS, row);
  double square = 0;
  for (uint32_t j = 0; j < g->dim; j++) {
    uint64_t attempt = 0;
    double x = normal(key, j, &attempt);
    square += x * x;
    put(g, row, j, x);
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
    uint64_t at = row * g->dim + j;
    put(g, row, j, (g->type == ADJ_F64 ? ((double *)g->data)[at] : (double)((float *)g->data)[at]) / length);
  }
}

/* Row number i in base side: its digits are the coordinates, the last one running fastest. */
static void lattice_row(const adji_generator *g, uint64_t row) {
  uint64_t rest = row;
  for (uint32_t j = g->dim; j-- > 0;) {
    put(g, row, j, (double)(rest % g->side));
    rest /= g->side;
  }
}

static void duplicate_row(const adji_generator *g, uint64_t row) {
  uint64_t share = key_of(g, FOR_ROWS, row) >> 32;
  uint64_t centre = key_of(g, FOR_CENTRES, share * g->clusters >> 32);
  for (uint32_t j = 0; j < g->dim; j++)
    put_uniform(g, row, j, draw(centre, j, 0));
}

/* Clusters as 12-bit codes: whole numbers up to 4,095. Most distances tie, and many points are equal. */
static void code_row(const adji_generator *g, uint64_t row) {
  cluster_row(g, row);
  for (uint32_t j = 0; j < g->dim; j++) {
    uint64_t at = row * g->dim + j;
    double x = g->type == ADJ_F64 ? ((double *)g->data)[at] : (double)((float *)g->data)[at];
    put(g, row, j, floor(x * 4095 + 0.5));
  }
}

/* Uniform; about one point in ten is equal to an earlier one. */
static void repeat_row(const adji_generator *g, uint64_t row) {
  uint64_t key = key_of(g, FOR_ROWS, row);
  if (row && unit(draw(key, g->dim, 0)) < 0.1) key = key_of(g, FOR_ROWS, draw(key, g->dim, 1) % row);
  for (uint32_t j = 0; j < g->dim; j++)
    put_uniform(g, row, j, draw(key, j, 0));
}

/* Eight clusters, uniform in boxes of side 1 to 10^-7; the last point is far from all others. */
static void scale_row(const adji_generator *g, uint64_t row) {
  static const double sides[8] = {1, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7};
  uint64_t key = key_of(g, FOR_ROWS, row), cluster = draw(key, g->dim, 0) >> 61;
  uint64_t centre = key_of(g, FOR_CENTRES, cluster);
  for (uint32_t j = 0; j < g->dim; j++) {
    double x = 10 * unit(draw(centre, j, 0)) + sides[cluster] * unit(draw(key, j, 0));
    put(g, row, j, row + 1 < g->count ? x : 1e6);
  }
}

/* Correlated normal coordinates: a sum of FLAT_DIMS normal vectors along fixed directions, and normal noise of a
 * hundredth of their length in every dimension. */
enum { FLAT_DIMS = 5 };

static void flat_row(const adji_generator *g, uint64_t row) {
  uint64_t key = key_of(g, FOR_ROWS, row);
  double z[FLAT_DIMS];
  for (uint32_t a = 0; a < FLAT_DIMS; a++) {
    uint64_t attempt = 0;
    z[a] = normal(key, g->dim + a, &attempt);
  }
  for (uint32_t j = 0; j < g->dim; j++) {
    uint64_t attempt = 0;
    double x = 0.01 * normal(key, j, &attempt);
    for (uint32_t a = 0; a < FLAT_DIMS; a++)
      x += g->axes[j * FLAT_DIMS + a] * z[a];
    put(g, row, j, x);
  }
}

static const adji_generator_kind kinds[] = {
    {"unif", uniform_row},   {"expo", exponential_row}, {"clusters", cluster_row}, {"codes", code_row},
    {"normal", normal_row},  {"sphere", sphere_row},    {"lattice", lattice_row},  {"duplicates", duplicate_row},
    {"repeats", repeat_row}, {"scales", scale_row},     {"flat", flat_row},
};

const adji_generator_kind *adji_generator_find(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcasecmp(name, kinds[i].name)) return &kinds[i];
  return NULL;
}

/* ---- What they need beforehand ---------------------------------------------------------------------- */

/* side^dim, or UINT64_MAX when that is more than 64 bits hold. */
static uint64_t power(uint64_t side, uint32_t dim) {
  uint64_t product = 1;
  for (uint32_t j = 0; j < dim && side > 1 && product != UINT64_MAX; j++)
    product = adji_mul(product, side);
  return product;
}

/* The smallest side with side^dim >= count. */
static adj_status prepare_lattice(adji_generator *g) {
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
      g->axes[j * FLAT_DIMS + a] = normal(key_of(g, FOR_AXES, j), a, &attempt);
    }
  return ADJ_OK;
}

adj_status adji_generator_prepare(adj_ctx *ctx, adji_generator *g) {
  if (g->kind->row == flat_row) return prepare_flat(ctx, g);
  if (g->kind->row == lattice_row) return prepare_lattice(g);
  if (g->kind->row == cluster_row || g->kind->row == code_row) return prepare_clusters(ctx, g);
  return ADJ_OK;
}
