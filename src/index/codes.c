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

/* Many dimensions take fewer rows: the widest dimension gives the scale, and the sample must not cost more than it
 * saves. */
static uint64_t sampled_rows(const adj_dataset *set) {
  uint64_t rows = SCALE_VALUES / set->dim;
  rows = rows < FEWEST_ROWS ? FEWEST_ROWS : rows < SCALE_SAMPLE ? rows : SCALE_SAMPLE;
  return rows < set->count ? rows : set->count;
}

/* Sorted values of the sample that are left out at each end: the middle 99 % count. */
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
  double smallest[BEYOND + 1], largest[BEYOND + 1]; /* largest: negated */
  if (many > BEYOND + 1) many = BEYOND + 1;         /* never happens */
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

/* The small factors cover the roundings of this function; the 1 covers that the square is rounded down. */
static int64_t reach_of(const adji_code_scale *scale, double limit, double errors) {
  adji_sum_error e = adji_sum_error_of(scale->type, scale->dim);
  double widest = sqrt(limit * e.factor + e.least);
  double reach = (widest * scale->inverse + errors) * (1 + 0x1p-30);
  double squared = reach * reach + 1;
  return squared < 0x1p31 ? (int64_t)squared : INT64_C(1) << 31;
}

adj_status adji_code_scale_init(adj_ctx *ctx, const adj_dataset *set, double limit, adji_code_scale *out,
                                bool *useful) {
  *out = (adji_code_scale){.ctx = ctx, .type = set->type, .dim = set->dim};
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
  out->reach_sq = reach_of(out, limit, sqrt((double)set->dim));
  /* Codes help only if their slack of sqrt(dim) steps is small compared with the radius. */
  *useful = sqrt((double)set->dim) * step < 0.5 * sqrt(limit) && out->reach_sq < INT64_C(1) << 30;
  return ADJ_OK;
}

/* A coordinate in steps. */
static inline double in_steps(double x, double low, double inverse) {
  double q = (x - low) * inverse;
  q = q > 0 ? q : 0;
  return q < 255 ? q : 255;
}

static inline uint8_t code_of(double q) {
  return (uint8_t)(int32_t)(q + 0.5);
}

static bool pair_passes(const adji_code_scale *scale, const adj_dataset *left, uint64_t l, const adj_dataset *right,
                        uint64_t r) {
  int64_t sum = 0;
  for (uint32_t j = 0; j < left->dim; j++) {
    int32_t a = code_of(in_steps(adji_dataset_at(left, l, j), scale->low[j], scale->inverse));
    int32_t b = code_of(in_steps(adji_dataset_at(right, r, j), scale->low[j], scale->inverse));
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
  double *error_sq; /* per slice, the largest */
  uint64_t blocks, slices;
} build;

/* Writes the codes, and the rows, of one block. Returns the largest |c - q|^2, up to the roundings that error_of()
 * covers. */
#define CODE_BLOCK(T)                                                                                   \
  static double code_block_##T(const build *b, uint64_t block) {                                        \
    const adji_view *view = &b->index->view;                                                            \
    adji_codes *codes = b->codes;                                                                       \
    int32_t sums[ADJI_CODE_BLOCK] = {0};                                                                \
    double errors[ADJI_CODE_BLOCK] = {0}, largest = 0;                                                  \
    uint64_t first = block * ADJI_CODE_BLOCK;                                                           \
    uint64_t many = view->count - first < ADJI_CODE_BLOCK ? view->count - first : ADJI_CODE_BLOCK;      \
    uint8_t *bytes = codes->bytes + block * codes->groups * 64;                                         \
    T *rows = codes->rows;                                                                              \
    memset(bytes, 0, (uint64_t)codes->groups * 64);                                                     \
    for (uint32_t j = 0; j < view->dim; j++) {                                                          \
      const T *x = (const T *)view->coords + j * view->stride + first;                                  \
      const double low = b->scale->low[j], inverse = b->scale->inverse;                                 \
      for (uint64_t i = 0; i < many; i++) {                                                             \
        double q = in_steps(x[i], low, inverse);                                                        \
        int32_t code = code_of(q);                                                                      \
        bytes[(uint64_t)(j / 4) * 64 + i * 4 + j % 4] = (uint8_t)code;                                  \
        sums[i] += code * code - 256 * code;                                                            \
        errors[i] += (q - code) * (q - code);                                                           \
      }                                                                                                 \
      for (uint64_t i = 0; i < many && rows; i++)                                                       \
        rows[(first + i) * view->dim + j] = x[i];                                                       \
    }                                                                                                   \
    for (uint64_t i = 0; i < ADJI_CODE_BLOCK; i++) {                                                    \
      codes->start[first + i] = (1 - sums[i]) / 2; /* sums are not above 0: this rounds -sums / 2 up */ \
      largest = errors[i] > largest ? errors[i] : largest;                                              \
    }                                                                                                   \
    return largest;                                                                                     \
  }
CODE_BLOCK(float)
CODE_BLOCK(double)

static adj_status code_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const build *b = user;
  uint64_t begin, end;
  double largest = 0;
  adji_slice(b->blocks, b->slices, slice, &begin, &end);
  for (uint64_t block = begin; block < end; block++) {
    double error_sq = b->index->set->type == ADJ_F64 ? code_block_double(b, block) : code_block_float(b, block);
    largest = error_sq > largest ? error_sq : largest;
  }
  b->error_sq[slice] = largest;
  return ADJ_OK;
}

/* q is computed with two roundings before it is clamped, so it is off by at most 255 * 2^-51 in each dimension. The
 * difference, squares, their sum and its root are off by a factor of at most 1 + 2^-38 in up to ADJI_CODE_MAX_DIM
 * dimensions. */
static double error_of(const build *b) {
  double largest = 0;
  for (uint64_t slice = 0; slice < b->slices; slice++)
    largest = b->error_sq[slice] > largest ? b->error_sq[slice] : largest;
  return sqrt(largest) * (1 + 0x1p-30) + sqrt((double)b->codes->dim) * 0x1p-42;
}

adj_status adji_codes_build(adj_ctx *ctx, const adji_index *index, const adji_code_scale *scale, bool rows,
                            adji_codes *out) {
  uint64_t begin = adji_now_ns();
  const adji_view *view = &index->view;
  *out = (adji_codes){.ctx = ctx, .dim = view->dim, .groups = (view->dim + 3) / 4};
  build b = {.index = index, .scale = scale, .codes = out};
  b.blocks = ((uint64_t)view->count + ADJI_CODE_BLOCK - 1) / ADJI_CODE_BLOCK;
  b.slices = b.blocks / 64 + 1 < 4 * (uint64_t)ctx->threads ? b.blocks / 64 + 1 : 4 * (uint64_t)ctx->threads;
  b.error_sq = adji_alloc(&ctx->memory, b.slices, sizeof *b.error_sq, "codes");
  out->bytes = adji_alloc(&ctx->memory, b.blocks, (size_t)out->groups * 64, "codes");
  out->start = adji_alloc(&ctx->memory, b.blocks * ADJI_CODE_BLOCK, sizeof *out->start, "codes");
  if (rows)
    out->rows = adji_alloc(&ctx->memory, b.blocks * ADJI_CODE_BLOCK, view->dim * adji_type_size(scale->type), "rows");
  adj_status status = b.error_sq && out->bytes && out->start && (out->rows || !rows) ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_loop(ctx, b.slices, code_slice, &b);
  if (!status) out->error = error_of(&b);
  adji_free(&ctx->memory, b.error_sq);
  if (status) adji_codes_clear(out);
  adji_trace(ctx, "codes", 0, begin, view->count);
  return status;
}

void adji_codes_clear(adji_codes *codes) {
  if (!codes->ctx) return;
  adji_free(&codes->ctx->memory, codes->bytes);
  adji_free(&codes->ctx->memory, codes->start);
  adji_free(&codes->ctx->memory, codes->rows);
  *codes = (adji_codes){0};
}

int64_t adji_codes_reach_sq(const adji_code_scale *scale, double limit, const adji_codes *left,
                            const adji_codes *right) {
  return reach_of(scale, limit, left->error + right->error);
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
