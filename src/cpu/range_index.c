/* SPDX-License-Identifier: MIT
 *
 * The index that the cores search in a range join: see range_index.h.
 */
#include "cpu/range_index.h"

#include <math.h>

#include "index/boxes.h"
#include "index/build.h"

/* ---- The base ------------------------------------------------------------------------------------------- */

adj_status adji_range_base_build(const adji_join *join, const adji_range_index_options *options,
                                 adji_range_base *base) {
  adj_ctx *ctx = join->ctx;
  *base =
      (adji_range_base){.ctx = ctx, .grid = *options->grid, .code_scale = *options->code_scale, .ego = options->ego};
  *options->grid = (adji_grid){0};
  *options->code_scale = (adji_code_scale){0};
  base->ordered = options->boxes != ADJI_BOXES_NEVER;
  adji_order_options order = {.boxes = base->ordered, .images = adji_grid_is_periodic(&base->grid) && !base->ego};
  adj_status status = adji_index_build(ctx, &base->grid, join->right, &order, &base->right);
  base->has_boxes = options->boxes == ADJI_BOXES_ALWAYS ||
                    (options->boxes == ADJI_BOXES_IN_LONG_CELLS && base->right.largest_cell >= ADJI_LONG_CELL);
  if (!status && base->has_boxes)
    status = adji_boxes_build(ctx, &base->right, join->style.measure, join->limit, &base->boxes);
  if (!status && base->code_scale.ctx)
    status = adji_codes_build(ctx, &base->right, &base->code_scale, true, &base->codes);
  if (status) adji_range_base_clear(base);
  return status;
}

void adji_range_base_clear(adji_range_base *base) {
  adji_boxes_clear(&base->boxes);
  adji_codes_clear(&base->codes);
  adji_code_scale_clear(&base->code_scale);
  adji_index_clear(&base->right);
  if (base->ctx) adji_grid_clear(base->ctx, &base->grid);
  *base = (adji_range_base){0};
}

uint64_t adji_range_base_bytes(const adji_range_base *base) {
  const adji_view *view = &base->right.view;
  uint64_t row = view->dim * (uint64_t)adji_type_size(base->right.set->type);
  uint64_t points = view->stride * row + 4 * (uint64_t)view->count;
  return points + 12 * base->right.cell_count + (base->codes.ctx ? (uint64_t)view->count * (view->dim + 4 + row) : 0) +
         (base->has_boxes ? points / 16 : 0);
}

/* ---- The index of a join -------------------------------------------------------------------------------- */

/* If there are images of points among the candidates, queries have an index of their own, without images. */
static adj_status build_left(const adji_join *join, const adji_range_base *base, adji_range_index *index) {
  bool images = adji_grid_is_periodic(&base->grid) && !base->ego, one = join->self_join && !images;
  adji_order_options order = {.boxes = base->ordered};
  index->left = one ? &index->right : &index->own_left;
  index->symmetric = one && adji_measure_grows(join->style.measure) && !join->limits;
  return one ? ADJ_OK : adji_index_build(join->ctx, &index->grid, join->left, &order, &index->own_left);
}

static adj_status build_codes(const adji_join *join, const adji_range_base *base, adji_range_index *index) {
  const adji_code_scale *scale = &base->code_scale;
  if (!scale->ctx) return ADJ_OK;
  const adji_codes *left = join->self_join ? &index->right_codes : &index->left_codes;
  adj_status status =
      join->self_join ? ADJ_OK : adji_codes_build(join->ctx, index->left, scale, false, &index->left_codes);
  index->prefilter =
      (adji_prefilter_plan){.filter = adji_prefilter_codes_for(join->ctx->isa),
                            .left = left,
                            .right = &index->right_codes,
                            .reach_sq = adji_codes_reach_sq(scale, join->limit, left, &index->right_codes)};
  return status;
}

adj_status adji_range_index_build(const adji_join *join, const adji_range_base *base, adji_range_index *index) {
  *index = (adji_range_index){.ctx = join->ctx,
                              .grid = base->grid,
                              .right = base->right,
                              .boxes = base->boxes,
                              .has_boxes = base->has_boxes,
                              .right_codes = base->codes,
                              .ego = base->ego};
  index->boxes.measure = join->style.measure;
  if (index->has_boxes) adji_boxes_limit(&index->boxes, join->limit);
  adj_status status = build_left(join, base, index);
  return status ? status : build_codes(join, base, index);
}

void adji_range_index_clear(adji_range_index *index) {
  adji_codes_clear(&index->left_codes);
  adji_index_clear(&index->own_left);
}

/* ---- Estimate of the pairs ------------------------------------------------------------------------------
 *
 * Each sample takes one position from each of equal stretches of the index order, at an offset chosen by a hash. Every
 * pair is compared with the same probability, so the number of pairs found scales up to all. */

enum { QUERIES = 4096, CANDIDATES = 8192, CANDIDATES_SHARE = 32, TASK_QUERIES = 128 };

/* The samples shrink if they would compare more than this share of all pairs. */
static const double MOST_COMPARED = 0.01;

typedef struct samples {
  const adji_join *join;
  const adji_view *left;
  adji_view right;   /* the sampled candidates, gathered */
  uint32_t *queries; /* positions in left */
  uint32_t *chosen;  /* positions of the candidates */
  uint32_t *counts;  /* per query */
  void *coords;
  uint64_t query_count;
} samples;

static void choose_positions(uint64_t count, uint64_t sample, uint64_t seed, uint32_t *out) {
  for (uint64_t i = 0; i < sample; i++) {
    uint64_t begin, end, hash = (i + seed) * UINT64_C(0x9e3779b97f4a7c15);
    adji_slice(count, sample, i, &begin, &end);
    hash ^= hash >> 29;
    out[i] = (uint32_t)(begin + hash % (end - begin));
  }
}

static adj_status gather_candidates(samples *s, const adji_view *from, uint64_t count) {
  adj_ctx *ctx = s->join->ctx;
  size_t size = adji_type_size(s->join->left->type);
  uint64_t stride = count + ADJI_PAD;
  s->chosen = adji_alloc(&ctx->memory, count, sizeof *s->chosen, "sample");
  s->coords = adji_alloc_zero(&ctx->memory, adji_mul(stride, from->dim), size, "sample");
  if (!s->chosen || !s->coords) return ADJ_E_MEMORY;
  choose_positions(from->count, count, 1, s->chosen);
  for (uint32_t j = 0; j < from->dim; j++)
    for (uint64_t i = 0; i < count; i++) {
      uint64_t at = j * from->stride + s->chosen[i], to = j * stride + i;
      if (size == 8)
        ((double *)s->coords)[to] = ((const double *)from->coords)[at];
      else
        ((float *)s->coords)[to] = ((const float *)from->coords)[at];
    }
  s->right = (adji_view){.coords = s->coords, .stride = stride, .dim = from->dim, .count = (uint32_t)count};
  return ADJ_OK;
}

static adj_status compare_slice(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  samples *s = user;
  const adji_row_style *style = &s->join->style;
  uint64_t first = task * TASK_QUERIES, many = s->query_count - first;
  adji_range all = {0, s->right.count};
  adji_task work = {.left = s->left,
                    .right = &s->right,
                    .queries = s->queries + first,
                    .ranges = &all,
                    .query_count = (uint32_t)(many < TASK_QUERIES ? many : TASK_QUERIES),
                    .range_count = 1,
                    .limit = s->join->limit,
                    .measure = style->measure};
  style->kernels->typed[style->type == ADJ_F64]->count[style->measure->step](&work, s->counts + first);
  return ADJ_OK;
}

/* The pairs found, without pairs of a point with itself. */
static double add_up(const samples *s) {
  double found = 0;
  uint64_t c = 0;
  for (uint64_t q = 0; q < s->query_count; q++) {
    found += s->counts[q];
    while (c < s->right.count && s->chosen[c] < s->queries[q])
      c++;
    found -= s->join->self_join && c < s->right.count && s->chosen[c] == s->queries[q];
  }
  return found;
}

static adj_status compare_samples(samples *s, const adji_view *right, double *pairs) {
  adj_ctx *ctx = s->join->ctx;
  uint64_t candidates = right->count / CANDIDATES_SHARE > CANDIDATES ? right->count / CANDIDATES_SHARE : CANDIDATES;
  if (candidates > right->count) candidates = right->count;
  s->query_count = s->left->count < QUERIES ? s->left->count : QUERIES;
  double compared = (double)s->query_count * (double)candidates;
  double shrink = sqrt(MOST_COMPARED * (double)s->left->count * (double)right->count / compared);
  if (shrink < 1) {
    s->query_count = (uint64_t)((double)s->query_count * shrink) + 1;
    candidates = (uint64_t)((double)candidates * shrink) + 1;
  }
  s->queries = adji_alloc(&ctx->memory, s->query_count, sizeof *s->queries, "sample");
  s->counts = adji_alloc_zero(&ctx->memory, s->query_count, sizeof *s->counts, "sample");
  if (!s->queries || !s->counts) return ADJ_E_MEMORY;
  choose_positions(s->left->count, s->query_count, 7919, s->queries);
  adj_status status = gather_candidates(s, right, candidates);
  if (!status) status = adji_loop(ctx, (s->query_count + TASK_QUERIES - 1) / TASK_QUERIES, compare_slice, s);
  double scale = (double)s->left->count / (double)s->query_count * (double)right->count / (double)candidates;
  if (!status) *pairs = add_up(s) * scale;
  return status;
}

adj_status adji_estimate_pairs(const adji_join *join, const adji_range_index *index, double *pairs) {
  samples s = {.join = join, .left = &index->left->view};
  *pairs = 0;
  if (!index->left->view.count || !index->right.view.count) return ADJ_OK;
  adj_status status = compare_samples(&s, &index->right.view, pairs);
  if (join->style.one_way) *pairs /= 2;
  if (join->self_join && !join->style.one_way && !join->style.drop_self) *pairs += (double)join->left->count;
  adji_free(&join->ctx->memory, s.queries);
  adji_free(&join->ctx->memory, s.counts);
  adji_free(&join->ctx->memory, s.chosen);
  adji_free(&join->ctx->memory, s.coords);
  return status;
}
