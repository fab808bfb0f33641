/* SPDX-License-Identifier: MIT
 *
 * Eight-bit codes of points: their scale and their layout.
 */
#include "index/codes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCALE_SAMPLE = 1024, SCALE_VALUES = 1 << 16, FEWEST_ROWS = 128, PAIRS = 512 };

/* ---- Scale ----------------------------------------------------------------------------------- */

/* Fewer rows in many dimensions: the scale is that of the widest, and the sample must not take longer than it saves. */
static uint64_t sampled_rows(const adj_dataset *set) {
  uint64_t rows = SCALE_VALUES / set->dim;
  rows = rows < FEWEST_ROWS ? FEWEST_ROWS : rows < SCALE_SAMPLE ? rows : SCALE_SAMPLE;
  return rows < set->count ? rows : set->count;
}

/* Of the sample's values in order, the first and last that count: the middle 99 %. */
enum { BEYOND = SCALE_SAMPLE / 200 };

/* Keeps the `many` smallest values so far in ascending order. */
static void keep_smallest(double *kept, uint64_t many, double value) {
  if (!(value < kept[many - 1])) return;
  uint64_t at = many - 1;
  for (; at && value < kept[at - 1]; at--)
    kept[at] = kept[at - 1];
  kept[at] = value;
}

/* The middle 99 % of a sample of one dimension. */
static void middle_range(const adj_dataset *set, uint32_t dim, double *low, double *high) {
  uint64_t count = sampled_rows(set), many = count / 200 + 1;
  double smallest[BEYOND + 1], largest[BEYOND + 1]; /* the latter negated */
  if (many > BEYOND + 1) many = BEYOND + 1;         /* it never is */
  for (uint64_t i = 0; i <= BEYOND; i++)
    smallest[i] = largest[i] = INFINITY;
  for (uint64_t i = 0; i < count; i++) {
    uint64_t begin, end;
    adji_slice(set->count, count, i, &begin, &end);
    double x = adji_dataset_at(set, begin + (i * 2654435761u) % (end - begin), dim);
    keep_smallest(smallest, many, x);
    keep_smallest(largest, many, -x);
  }
  *low = smallest[many - 1];
  *high = -largest[many - 1];
}

/* The small factors cover the roundings of this function. */
static int64_t reach_of(adj_type type, uint32_t dim, double limit, double inverse) {
  adji_sum_error e = adji_sum_error_of(type, dim);
  double widest = sqrt(limit * e.factor + e.least);
  double reach = (widest * inverse + sqrt((double)dim) * (1 + 0x1p-30)) * (1 + 0x1p-30);
  double squared = reach * reach + 1;
  return squared < 0x1p31 ? (int64_t)squared : INT64_C(1) << 31;
}

adj_status adji_code_scale_init(adj_ctx *ctx, const adj_dataset *set, double limit, adji_code_scale *out,
                                bool *useful) {
  *out = (adji_code_scale){.ctx = ctx};
  *useful = false;
  if (!set->count) return ADJ_OK;
  out->low = adji_alloc(&ctx->memory, set->dim, sizeof *out->low, "codes");
  double widest = 0;
  if (!out->low) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < set->dim; j++) {
    double high;
    middle_range(set, j, &out->low[j], &high);
    if (high - out->low[j] > widest) widest = high - out->low[j];
  }
  double step = widest / 255;
  out->inverse = 1 / step;
  if (!isfinite(widest) || !isfinite(out->inverse) || !isfinite(limit)) return ADJ_OK;
  out->reach_sq = reach_of(set->type, set->dim, limit, out->inverse);
  /* Codes help only if their slack of sqrt(dim) steps is small compared with the radius. */
  *useful = sqrt((double)set->dim) * step < 0.5 * sqrt(limit) && out->reach_sq < INT64_C(1) << 30;
  return ADJ_OK;
}

static uint8_t code_of(double x, double low, double inverse) {
  double q = (x - low) * inverse;
  return q > 0 ? (q < 255 ? (uint8_t)q : 255) : 0;
}

static bool pair_passes(const adji_code_scale *scale, const adj_dataset *left, uint64_t l, const adj_dataset *right,
                        uint64_t r) {
  int64_t sum = 0;
  for (uint32_t j = 0; j < left->dim; j++) {
    int32_t a = code_of(adji_dataset_at(left, l, j), scale->low[j], scale->inverse);
    int32_t b = code_of(adji_dataset_at(right, r, j), scale->low[j], scale->inverse);
    sum += (int64_t)(a - b) * (a - b);
  }
  return sum <= scale->reach_sq;
}

double adji_code_share(const adji_code_scale *scale, const adj_dataset *left, const adj_dataset *right) {
  uint64_t passed = 0, pairs = 0, hash = 1;
  for (int i = 0; i < PAIRS && left->count && right->count; i++) {
    hash = (hash + (uint64_t)i) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t l = (hash >> 33) % left->count,
             r = ((hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 33) % right->count;
    if (left == right && l == r) continue;
    passed += pair_passes(scale, left, l, right, r);
    pairs++;
  }
  return pairs ? (double)passed / (double)pairs : 0;
}

void adji_code_scale_clear(adji_code_scale *scale) {
  if (scale->ctx) adji_free(&scale->ctx->memory, scale->low);
  *scale = (adji_code_scale){0};
}

/* ---- Build ----------------------------------------------------------------------------------- */

typedef struct build {
  const adji_index *index;
  const adji_code_scale *scale;
  adji_codes *codes;
  uint64_t blocks, slices;
} build;

static void code_block(const build *b, uint64_t block) {
  const adji_view *view = &b->index->view;
  adji_codes *codes = b->codes;
  bool f64 = b->index->set->type == ADJ_F64;
  int64_t sums[ADJI_CODE_BLOCK] = {0};
  uint64_t first = block * ADJI_CODE_BLOCK;
  uint64_t many = view->count - first < ADJI_CODE_BLOCK ? view->count - first : ADJI_CODE_BLOCK;
  uint8_t *bytes = codes->bytes + block * codes->groups * 64;
  memset(bytes, 0, (uint64_t)codes->groups * 64);
  for (uint32_t j = 0; j < view->dim; j++) {
    uint64_t at = j * view->stride + first;
    for (uint64_t i = 0; i < many; i++) {
      double x = f64 ? ((const double *)view->coords)[at + i] : (double)((const float *)view->coords)[at + i];
      uint8_t code = code_of(x, b->scale->low[j], b->scale->inverse);
      bytes[(uint64_t)(j / 4) * 64 + i * 4 + j % 4] = code;
      sums[i] += (int64_t)code * code - 256 * (int64_t)code;
    }
  }
  for (uint64_t i = 0; i < ADJI_CODE_BLOCK; i++)
    codes->offset[first + i] = (int32_t)sums[i];
}

static adj_status code_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  uint64_t begin, end;
  adji_slice(b->blocks, b->slices, slice, &begin, &end);
  for (uint64_t block = begin; block < end; block++)
    code_block(b, block);
  return ADJ_OK;
}

adj_status adji_codes_build(adj_ctx *ctx, const adji_index *index, const adji_code_scale *scale, adji_codes *out) {
  uint64_t begin = adji_now_ns();
  *out = (adji_codes){.ctx = ctx, .dim = index->view.dim, .groups = (index->view.dim + 3) / 4};
  build b = {.index = index, .scale = scale, .codes = out};
  b.blocks = ((uint64_t)index->view.count + ADJI_CODE_BLOCK - 1) / ADJI_CODE_BLOCK;
  b.slices = b.blocks / 64 + 1 < 4 * (uint64_t)ctx->threads ? b.blocks / 64 + 1 : 4 * (uint64_t)ctx->threads;
  out->bytes = adji_alloc(&ctx->memory, b.blocks, (size_t)out->groups * 64, "codes");
  out->offset = adji_alloc(&ctx->memory, b.blocks * ADJI_CODE_BLOCK, sizeof *out->offset, "codes");
  adj_status status = out->bytes && out->offset ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_loop(ctx, b.slices, code_slice, &b);
  if (status) adji_codes_clear(out);
  adji_trace(ctx, "codes", 0, begin, index->view.count);
  return status;
}

void adji_codes_clear(adji_codes *codes) {
  if (!codes->ctx) return;
  adji_free(&codes->ctx->memory, codes->bytes);
  adji_free(&codes->ctx->memory, codes->offset);
  *codes = (adji_codes){0};
}

int64_t adji_codes_query(const adji_codes *codes, uint32_t position, uint32_t *words) {
  uint64_t block = position / ADJI_CODE_BLOCK, lane = position % ADJI_CODE_BLOCK;
  int64_t norm = 0;
  for (uint32_t g = 0; g < codes->groups; g++) {
    const uint8_t *four = codes->bytes + (block * codes->groups + g) * 64 + lane * 4;
    for (int i = 0; i < 4; i++)
      norm += (int64_t)four[i] * four[i];
    memcpy(&words[g], four, 4);
    words[g] ^= 0x80808080u; /* c - 128, as a signed byte */
  }
  return norm;
}
