/* SPDX-License-Identifier: MIT */
#include "gpu/device/tensor_probe.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  ROWS = ADJI_TENSOR_ROWS_A,
  COLUMNS = ADJI_TENSOR_COLUMNS_B,
  DEPTH = ADJI_TENSOR_DEPTH,
  LONGEST = 256, /* instructions for the largest number of dimensions */
  FIRST_CUT = 22 /* columns of the case that measures the cut: 2^-22 and below */
};

typedef enum probe_kind {
  PROBE_CUT,        /* the case that measures: 1 - 1 + a tail, for each place of the tail and eight sizes */
  PROBE_TAILS,      /* one large addend, and tails just under a cut */
  PROBE_CANCEL,     /* products that cancel each other and the start, up to tails */
  PROBE_SUBNORMALS, /* halves below 2^-14 */
  PROBE_LARGEST,    /* the largest halves, and the starts that prefilters use for points that always or never pass */
  PROBE_RANDOM,
  PROBE_LONG, /* tails, through many consecutive instructions */
  PROBE_KINDS
} probe_kind;

static const uint32_t cases_of[PROBE_KINDS] = {1, 24, 6, 4, 4, 12, 4};

/* ---- Halves ----------------------------------------------------------------------------------- */

uint16_t adji_half_bits(double x) {
  uint16_t sign = signbit(x) ? 0x8000 : 0;
  double size = fabs(x);
  if (size < 0x1p-14) return (uint16_t)(sign | (uint16_t)(size * 0x1p24));
  int exponent = ilogb(size);
  return (uint16_t)(sign | (exponent + 15) << 10 | ((int)ldexp(size, 10 - exponent) & 0x3ff));
}

double adji_half_value(uint16_t bits) {
  int exponent = bits >> 10 & 0x1f, fraction = bits & 0x3ff;
  double size = exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24);
  return bits & 0x8000 ? -size : size;
}

/* ---- Cases ------------------------------------------------------------------------------------ */

typedef struct numbers {
  uint64_t state;
} numbers;

/* splitmix64: the cases are the same in every run. */
static uint64_t next(numbers *n) {
  uint64_t x = n->state += UINT64_C(0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
  return x ^ (x >> 31);
}

/* A half of any sign with an exponent of low .. low + exponents - 1. */
static uint16_t any_half(numbers *n, int low, uint32_t exponents) {
  uint64_t x = next(n);
  return (uint16_t)((x & 0x83ff) | (uint64_t)(low + 15 + (int)((x >> 32) % exponents)) << 10);
}

/* Row r has its tail in place r, and 1 * -1 in place 0; the sum starts at 1. The tail of column c is 2^-(22 + c). */
static void fill_cut(adji_tensor_case *t) {
  for (int r = 0; r < ROWS; r++) {
    t->a[r][r] = adji_half_bits(0x1p-14);
    t->a[r][0] = adji_half_bits(1);
  }
  for (int c = 0; c < COLUMNS; c++) {
    for (int k = 1; k < DEPTH; k++)
      t->b[c][k] = adji_half_bits(ldexp(1, 14 - FIRST_CUT - c));
    t->b[c][0] = adji_half_bits(-1);
  }
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++)
      t->c[r][c] = 1;
}

/* One large addend, and tails just under 2^-q of it, where q is 20 or more. The large addend is either a product in
 * place r of row r, with the sign of the tails or the opposite one, or the start of the sum. */
static void fill_tails(adji_tensor_case *t, uint32_t number) {
  double large = 0x1p14, tail = ldexp(2 - 0x1p-10, 13 - 20 - (int)number / 3);
  bool start = number % 3 == 2;
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < DEPTH; k++)
      t->a[r][k] = adji_half_bits(start || k != r ? tail : number % 3 ? -large : large);
  for (int c = 0; c < COLUMNS; c++)
    for (int k = 0; k < DEPTH; k++)
      t->b[c][k] = adji_half_bits(ldexp(c % 2 ? -1 : 1, -c));
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++)
      t->c[r][c] = start ? (float)(large * adji_half_value(t->b[c][0])) : 0;
}

static void fill_cancel(adji_tensor_case *t, uint32_t number, numbers *n) {
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < DEPTH; k++)
      t->a[r][k] = any_half(n, k % 4 < 2 ? 0 : -12, 1);
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k + 1 < DEPTH; k += 4)
      t->a[r][k + 1] = t->a[r][k];
  for (int c = 0; c < COLUMNS; c++) {
    for (int k = 0; k < DEPTH; k++)
      t->b[c][k] = any_half(n, k % 4 < 2 ? 0 : -10 + (int)number, 1);
    for (int k = 0; k + 1 < DEPTH; k += 4)
      t->b[c][k + 1] = t->b[c][k] ^ 0x8000;
  }
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++)
      t->c[r][c] = (float)(number % 2 ? -adji_half_value(t->a[r][0]) * adji_half_value(t->b[c][0]) : 0);
}

static void fill_subnormals(adji_tensor_case *t, uint32_t number, numbers *n) {
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < DEPTH; k++)
      t->a[r][k] = (uint16_t)(next(n) & (number % 2 ? 0x8001 : 0x83ff));
  for (int c = 0; c < COLUMNS; c++)
    for (int k = 0; k < DEPTH; k++)
      t->b[c][k] = any_half(n, number < 2 ? 10 : -2, 5);
}

static void fill_largest(adji_tensor_case *t, uint32_t number, numbers *n) {
  static const float starts[] = {1e30f, -1e30f, -1e38f, -2e38f};
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < DEPTH; k++)
      t->a[r][k] = (uint16_t)(0x7bff | (next(n) & 0x8000));
  for (int c = 0; c < COLUMNS; c++)
    for (int k = 0; k < DEPTH; k++)
      t->b[c][k] = (uint16_t)(0x7bff | (next(n) & 0x8000));
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c += 2)
      t->c[r][c] = starts[number];
}

static void fill_random(adji_tensor_case *t, uint32_t number, numbers *n) {
  uint32_t exponents = 1 + number * 2;
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < DEPTH; k++)
      t->a[r][k] = any_half(n, -14, exponents);
  for (int c = 0; c < COLUMNS; c++)
    for (int k = 0; k < DEPTH; k++)
      t->b[c][k] = any_half(n, -14, exponents);
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++)
      t->c[r][c] = (float)(adji_half_value(any_half(n, -14, exponents)) * adji_half_value(any_half(n, -14, exponents)));
}

static void fill_case(adji_tensor_case *t, probe_kind kind, uint32_t number, numbers *n) {
  t->steps = 1;
  if (kind == PROBE_CUT) fill_cut(t);
  if (kind == PROBE_TAILS) fill_tails(t, number);
  if (kind == PROBE_CANCEL) fill_cancel(t, number, n);
  if (kind == PROBE_SUBNORMALS) fill_subnormals(t, number, n);
  if (kind == PROBE_LARGEST) fill_largest(t, number, n);
  if (kind == PROBE_RANDOM) fill_random(t, number, n);
  if (kind != PROBE_LONG) return;
  fill_tails(t, 3 * (2 + number) + 2);
  t->steps = LONGEST;
}

/* ---- Checks ----------------------------------------------------------------------------------- */

/* The largest error of a case, in units of 2^-23 of the sum of all magnitudes per instruction. */
static double worst_error(const adji_tensor_case *t, const adji_tensor_answer *answer) {
  double a[ROWS][DEPTH], b[COLUMNS][DEPTH], worst = 0;
  for (int r = 0; r < ROWS; r++)
    for (int k = 0; k < DEPTH; k++)
      a[r][k] = adji_half_value(t->a[r][k]);
  for (int c = 0; c < COLUMNS; c++)
    for (int k = 0; k < DEPTH; k++)
      b[c][k] = adji_half_value(t->b[c][k]);
  for (int r = 0; r < ROWS; r++)
    for (int c = 0; c < COLUMNS; c++) {
      double sum = 0, all = 0;
      for (int k = 0; k < DEPTH; k++) {
        sum += a[r][k] * b[c][k];
        all += fabs(a[r][k] * b[c][k]);
      }
      sum = (double)t->c[r][c] + sum * t->steps;
      all = fabs((double)t->c[r][c]) + all * t->steps;
      double error = fabs((double)answer->d[r][c] - sum);
      if (error > 0) worst = fmax(worst, error / (all * 0x1p-23 * t->steps));
      if (isnan(answer->d[r][c])) worst = INFINITY;
    }
  return worst;
}

/* If a tail is lost in some place, products in that place are added together with the large one in place 0. The cut is
 * taken from the place that loses most. */
static void measure(const adji_tensor_answer *answer, adji_tensor_facts *out) {
  out->bits = FIRST_CUT + COLUMNS - 1;
  out->together = 1;
  for (int r = 1; r < ROWS; r++) {
    uint32_t kept = 0;
    while (kept < COLUMNS && (double)answer->d[r][kept] == ldexp(1, -FIRST_CUT - (int)kept))
      kept++;
    if (kept == COLUMNS) continue;
    out->together++;
    if (FIRST_CUT + kept - 1 < out->bits) out->bits = FIRST_CUT + kept - 1;
  }
}

static adj_status check_nans(int device, const uint32_t *nans) {
  for (int i = 0; i < ADJI_COMPUTED_NANS; i++)
    if (nans[i] != 0x7fffffff)
      return adji_fail(ADJ_E_UNSUPPORTED,
                       "device %d: a computed NaN is 0x%08x, not 0x7fffffff: the kernels cannot be used", device,
                       nans[i]);
  return ADJ_OK;
}

adj_status adji_tensor_probe(int device, adji_tensor_facts *out) {
  uint32_t count = 0, at = 0, nans[ADJI_COMPUTED_NANS] = {0};
  for (int kind = 0; kind < PROBE_KINDS; kind++)
    count += cases_of[kind];
  adji_tensor_case *cases = calloc(count, sizeof *cases);
  adji_tensor_answer *answers = calloc(count, sizeof *answers);
  adj_status status = cases && answers ? ADJ_OK : adji_fail(ADJ_E_MEMORY, "no memory to check a device");
  numbers n = {1};
  for (int kind = 0; kind < PROBE_KINDS && !status; kind++)
    for (uint32_t i = 0; i < cases_of[kind]; i++)
      fill_case(&cases[at++], (probe_kind)kind, i, &n);
  if (!status) status = adji_tensor_run(cases, count, answers, nans);
  if (!status) status = check_nans(device, nans);
  *out = (adji_tensor_facts){0};
  if (!status) measure(&answers[0], out);
  for (uint32_t i = 0; i < count && !status; i++)
    out->worst = fmax(out->worst, worst_error(&cases[i], &answers[i]));
  out->holds = !status && out->worst <= ADJI_TENSOR_ERROR;
  free(cases);
  free(answers);
  return status;
}
