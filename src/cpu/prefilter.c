/* SPDX-License-Identifier: MIT
 *
 * Neighbours through the prefilter of codes.
 */
#include "cpu/prefilter.h"

enum { TILE = ADJI_CODE_TILE, TILE_PAIRS = TILE * ADJI_LIST_MAX };

/* Pairs that are collected before they are compared: enough for full vectors, few enough for the first-level cache. */
enum { ENOUGH_PAIRS = 512, MOST_PAIRS = ENOUGH_PAIRS + TILE_PAIRS };

/* Comparing a candidate that passed takes about ALONE times as long as comparing it in order with all others. So if
 * more than one in ALONE passes, all are compared in order. The filter then pauses: for one tile at first, and each
 * time that this happens again for twice as long, up to LONGEST_PAUSE candidates. */
enum { ALONE = 6, LONGEST_PAUSE = 32 * TILE };

/* Candidates in a panel: their codes take up to half of a second-level cache of 1 MiB. */
static uint32_t panel_size(const adji_codes *codes) {
  uint32_t most = (1 << 18) / (4 * codes->groups + 4) / TILE * TILE;
  return most > TILE ? most : TILE;
}

adj_status adji_prefilter_init(adji_prefilter *prefilter, const adji_prefilter_plan *plan, adj_type type,
                               adji_memory *memory) {
  *prefilter = (adji_prefilter){.plan = plan, .memory = memory, .most = panel_size(plan->right)};
  size_t size = adji_type_size(type);
  uint64_t words = (uint64_t)plan->right->groups * ADJI_CODED_QUERIES;
  prefilter->words = adji_alloc(memory, words, sizeof(uint32_t), "codes of queries");
  prefilter->coords = adji_alloc(memory, (uint64_t)plan->right->dim * ADJI_CODED_QUERIES, size, "queries");
  prefilter->pairs = adji_alloc(memory, MOST_PAIRS + ADJI_PAD, sizeof *prefilter->pairs, "candidates");
  prefilter->sums = adji_alloc(memory, MOST_PAIRS + ADJI_PAD, size, "candidates");
  for (int k = 0; k < ADJI_CODED_QUERIES; k++)
    prefilter->position[k] = UINT64_MAX;
  if (prefilter->words && prefilter->coords && prefilter->pairs && prefilter->sums) return ADJ_OK;
  adji_prefilter_clear(prefilter);
  return ADJ_E_MEMORY;
}

void adji_prefilter_clear(adji_prefilter *prefilter) {
  if (!prefilter->memory) return;
  adji_free(prefilter->memory, prefilter->words);
  adji_free(prefilter->memory, prefilter->coords);
  adji_free(prefilter->memory, prefilter->pairs);
  adji_free(prefilter->memory, prefilter->sums);
  *prefilter = (adji_prefilter){0};
}

/* The destination of each query's neighbours. */
typedef struct listing {
  const adji_row_style *style;
  uint32_t *const *ids; /* NULL: count only; sums may be NULL too */
  void *const *sums;
  uint32_t *found;
} listing;

/* The state of a call: its coded queries, and the tile of candidates. */
typedef struct filtering {
  const adji_task *task;
  const listing *to;
  adji_prefilter_codes_task tile;
  adji_refine_task refine;
} filtering;

/* Appends pairs that belong to the lists of their queries. If `forward`, candidates up to the query's own position are
 * skipped. */
static void append(const filtering *f, const adji_code_pair *pairs, const void *sums, uint32_t count) {
  const listing *to = f->to;
  const bool f64 = to->style->type == ADJ_F64;
  const uint32_t first = f->tile.first_block * ADJI_CODE_BLOCK;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t k = adji_pair_query(pairs[i]), position = first + adji_pair_place(pairs[i]);
    if (f->task->forward && position <= f->task->queries[k]) continue;
    uint32_t at = to->found[k]++;
    if (to->ids) to->ids[k][at] = f->task->right->ids[position];
    if (to->sums && f64) ((double *)to->sums[k])[at] = ((const double *)sums)[i];
    if (to->sums && !f64) ((float *)to->sums[k])[at] = ((const float *)sums)[i];
  }
}

/* Applies the canonical test to the collected pairs. */
static void refine_pending(adji_prefilter *prefilter, filtering *f) {
  if (!prefilter->pending) return;
  bool f64 = f->to->style->type == ADJ_F64;
  f->refine.rows = f->tile.rows;
  uint32_t count = prefilter->plan->filter->refine[f64](&f->refine, prefilter->pairs, prefilter->pending,
                                                        f->to->sums ? prefilter->sums : NULL);
  append(f, prefilter->pairs, prefilter->sums, count);
  prefilter->pending = 0;
}

/* Applies the canonical test to all candidates of a range. The neighbours keep their order. */
static void compare_all(const adji_task *task, adji_range range, const listing *to) {
  const adji_row_style *style = to->style;
  bool f64 = style->type == ADJ_F64;
  adji_task all = *task;
  all.ranges = &range;
  all.range_count = 1;
  if (to->ids)
    style->kernels->typed[f64]->list[style->measure->step](&all, to->ids, to->sums, to->found);
  else
    style->kernels->typed[f64]->count[style->measure->step](&all, to->found);
}

static void filter_tile(adji_prefilter *prefilter, filtering *f) {
  const adji_task *task = f->task;
  adji_range range = f->tile.range;
  uint32_t block = range.begin / ADJI_CODE_BLOCK;
  if (prefilter->pending >= ENOUGH_PAIRS || block < f->tile.first_block || block - f->tile.first_block >= 1u << 25)
    refine_pending(prefilter, f);
  if (!prefilter->pending) {
    f->tile.first_block = block;
    f->tile.rows = (const char *)prefilter->plan->right->rows + (uint64_t)block * ADJI_CODE_BLOCK * f->tile.row_bytes;
  }
  uint64_t passed = prefilter->plan->filter->keep(&f->tile, prefilter->pairs + prefilter->pending);
  if (passed * ALONE <= (uint64_t)(range.end - range.begin) * task->query_count) {
    prefilter->pending += (uint32_t)passed;
    prefilter->pause = 0;
    return;
  }
  refine_pending(prefilter, f);
  compare_all(task, range, f->to);
  prefilter->pause = 2 * prefilter->pause < LONGEST_PAUSE ? 2 * prefilter->pause : LONGEST_PAUSE;
  if (!prefilter->pause) prefilter->pause = TILE;
  prefilter->unfiltered = prefilter->pause * task->query_count;
}

/* Writes the codes and coordinates of a query to its slot. */
static void code_query(adji_prefilter *prefilter, const adji_view *left, bool f64, uint32_t position, uint32_t slot) {
  const adji_codes *codes = prefilter->plan->left;
  uint64_t row = (uint64_t)slot * left->dim;
  prefilter->norm[slot] = adji_codes_query(codes, position, prefilter->words + (uint64_t)slot * codes->groups);
  for (uint32_t j = 0; j < left->dim; j++)
    if (f64)
      ((double *)prefilter->coords)[row + j] = ((const double *)left->coords)[j * left->stride + position];
    else
      ((float *)prefilter->coords)[row + j] = ((const float *)left->coords)[j * left->stride + position];
  prefilter->position[slot] = position;
}

/* Codes the queries, once for all panels of candidates. Each place in the call has its own slots, so no two queries of
 * a call share a slot, and consecutive calls use all slots. */
static void code_queries(adji_prefilter *prefilter, filtering *f) {
  const adji_prefilter_plan *plan = prefilter->plan;
  const adji_task *task = f->task;
  bool f64 = f->to->style->type == ADJ_F64;
  for (uint32_t k = 0; k < ADJI_LIST_MAX; k++) {
    if (k >= task->query_count) { /* nothing passes for it */
      f->tile.words[k] = f->tile.words[0];
      f->tile.least[k] = ADJI_CODE_NO_QUERY;
      continue;
    }
    uint32_t position = task->queries[k],
             slot = (position - k) % ADJI_CODED_QUERIES / ADJI_LIST_MAX * ADJI_LIST_MAX + k;
    if (prefilter->position[slot] != position) code_query(prefilter, task->left, f64, position, slot);
    f->tile.words[k] = prefilter->words + (uint64_t)slot * plan->left->groups;
    f->tile.least[k] = (int32_t)((prefilter->norm[slot] - plan->reach_sq + 1) >> 1); /* rounded up */
    f->refine.queries[k] = (const char *)prefilter->coords + (uint64_t)slot * task->left->dim * (f64 ? 8 : 4);
  }
}

void adji_prefilter_list(adji_prefilter *prefilter, const adji_row_style *style, const adji_task *task,
                         uint32_t *const *ids, void *const *sums, uint32_t *found) {
  const adji_codes *right = prefilter->plan->right;
  const listing to = {style, ids, sums, found};
  filtering f = {.task = task,
                 .to = &to,
                 .tile = {.bytes = right->bytes,
                          .start = right->start,
                          .groups = right->groups,
                          .row_bytes = right->dim * (uint64_t)adji_type_size(style->type)},
                 .refine = {.dim = right->dim, .limit = task->limit}};
  code_queries(prefilter, &f);
  for (uint32_t r = 0; r < task->range_count; r++) {
    uint64_t begin = task->ranges[r].begin, end = task->ranges[r].end;
    if (task->forward && begin <= task->queries[0]) begin = (uint64_t)task->queries[0] + 1;
    for (; begin < end; begin = f.tile.range.end) {
      f.tile.range = (adji_range){(uint32_t)begin, (uint32_t)(end - begin > TILE ? begin + TILE : end)};
      uint64_t compared = (f.tile.range.end - begin) * task->query_count;
      if (prefilter->unfiltered)
        compare_all(task, f.tile.range, &to);
      else
        filter_tile(prefilter, &f);
      prefilter->unfiltered -= prefilter->unfiltered < compared ? prefilter->unfiltered : compared;
    }
  }
  refine_pending(prefilter, &f);
}
