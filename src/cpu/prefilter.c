/* SPDX-License-Identifier: MIT
 *
 * Neighbours through the prefilter of codes.
 */
#include "cpu/prefilter.h"

/* Candidates per tile: their codes stay in the first-level cache for all queries. */
enum { TILE = 1024 };

/* A candidate that passed is compared by itself, which takes about as long as this many that are compared in order. If
 * more than one in so many passes, all are compared in order. The pause before the filter is tried again doubles, as
 * long as that happens: from one tile to so many candidates. */
enum { ALONE = 16, LONGEST_PAUSE = 32 * TILE };

adj_status adji_prefilter_init(adji_prefilter *prefilter, const adji_prefilter_plan *plan, adji_memory *memory) {
  *prefilter = (adji_prefilter){.plan = plan, .memory = memory};
  uint64_t words = (uint64_t)plan->right->groups * ADJI_CODED_QUERIES;
  prefilter->words = adji_alloc(memory, words, sizeof(uint32_t), "codes of queries");
  bool complete = prefilter->words;
  for (int k = 0; k < ADJI_LIST_MAX && complete; k++)
    complete = (prefilter->kept[k] = adji_alloc(memory, TILE + ADJI_PAD, sizeof(uint32_t), "candidates")) != NULL;
  for (int k = 0; k < ADJI_CODED_QUERIES; k++)
    prefilter->position[k] = UINT64_MAX;
  if (complete) return ADJ_OK;
  adji_prefilter_clear(prefilter);
  return ADJ_E_MEMORY;
}

void adji_prefilter_clear(adji_prefilter *prefilter) {
  if (prefilter->memory) adji_free(prefilter->memory, prefilter->words);
  for (int k = 0; k < ADJI_LIST_MAX && prefilter->memory; k++)
    adji_free(prefilter->memory, prefilter->kept[k]);
  *prefilter = (adji_prefilter){0};
}

/* Where the neighbours of each query go. */
typedef struct listing {
  const adji_row_style *style;
  uint32_t *const *ids; /* NULL: count only; so may be sums */
  void *const *sums;
  uint32_t *found;
} listing;

/* The canonical test of what passed for query k. If `forward`, candidates up to the query's own position are skipped;
 * positions ascend, so these are the first ones of the list. */
static void refine(const adji_prefilter *prefilter, const adji_task *task, uint32_t k,
                   const adji_prefilter_codes_task *tile, uint32_t passed, const listing *to) {
  uint32_t position = task->queries[k], skip = 0;
  while (task->forward && skip < passed && (uint64_t)tile->range.begin + prefilter->kept[k][skip] <= position)
    skip++;
  bool f64 = to->style->type == ADJ_F64;
  size_t size = f64 ? 8 : 4;
  adji_refine_task work = {.right = task->right,
                           .query = (const char *)task->left->coords + position * size,
                           .query_stride = task->left->stride,
                           .limit = task->limit,
                           .base = tile->range.begin,
                           .kept = prefilter->kept[k] + skip,
                           .count = passed - skip};
  uint32_t *ids = to->ids ? to->ids[k] + to->found[k] : NULL;
  void *sums = to->sums ? (char *)to->sums[k] + to->found[k] * size : NULL;
  to->found[k] += prefilter->plan->filter->refine[f64](&work, ids, sums);
}

/* The canonical test of all candidates of a range, in the same order. */
static void compare_all(const adji_prefilter *prefilter, const adji_task *task, adji_range range, const listing *to) {
  const adji_row_style *style = to->style;
  bool f64 = style->type == ADJ_F64;
  adji_task all = *task;
  all.ranges = &range;
  all.range_count = 1;
  adji_range copied;
  if (prefilter->panel) adji_panel_use(prefilter->panel, &all, &copied);
  if (to->ids)
    style->kernels->typed[f64]->list[style->measure->step](&all, to->ids, to->sums, to->found);
  else
    style->kernels->typed[f64]->count[style->measure->step](&all, to->found);
}

static void filter_tile(adji_prefilter *prefilter, const adji_task *task, adji_prefilter_codes_task *tile,
                        const listing *to) {
  uint32_t passed[ADJI_LIST_MAX];
  uint64_t all = 0, compared = (uint64_t)(tile->range.end - tile->range.begin) * task->query_count;
  prefilter->plan->filter->keep(tile, prefilter->kept, passed);
  for (uint32_t k = 0; k < task->query_count; k++)
    all += passed[k];
  if (all * ALONE <= compared) {
    for (uint32_t k = 0; k < task->query_count; k++)
      if (passed[k]) refine(prefilter, task, k, tile, passed[k], to);
    prefilter->pause = 0;
    return;
  }
  compare_all(prefilter, task, tile->range, to);
  prefilter->pause = 2 * prefilter->pause < LONGEST_PAUSE ? 2 * prefilter->pause : LONGEST_PAUSE;
  if (!prefilter->pause) prefilter->pause = TILE;
  prefilter->unfiltered = prefilter->pause * task->query_count;
}

/* The codes of the queries, computed once for all panels of candidates. A query has a slot among those of its place in
 * the call, so no two of a call share one; consecutive calls use all of them. */
static void code_queries(adji_prefilter *prefilter, const adji_task *task, adji_prefilter_codes_task *tile) {
  const adji_prefilter_plan *plan = prefilter->plan;
  for (uint32_t k = 0; k < task->query_count; k++) {
    uint32_t position = task->queries[k],
             slot = (position - k) % ADJI_CODED_QUERIES / ADJI_LIST_MAX * ADJI_LIST_MAX + k;
    uint32_t *words = prefilter->words + (uint64_t)slot * plan->left->groups;
    if (prefilter->position[slot] != position) prefilter->norm[slot] = adji_codes_query(plan->left, position, words);
    prefilter->position[slot] = position;
    tile->words[k] = words;
    tile->least[k] = (int32_t)(prefilter->norm[slot] - plan->reach_sq);
  }
}

void adji_prefilter_list(adji_prefilter *prefilter, const adji_row_style *style, const adji_task *task,
                         uint32_t *const *ids, void *const *sums, uint32_t *found) {
  const adji_prefilter_plan *plan = prefilter->plan;
  const listing to = {style, ids, sums, found};
  adji_prefilter_codes_task tile = {.bytes = plan->right->bytes,
                                    .offset = plan->right->offset,
                                    .groups = plan->right->groups,
                                    .query_count = task->query_count};
  code_queries(prefilter, task, &tile);
  for (uint32_t r = 0; r < task->range_count; r++) {
    uint64_t begin = task->ranges[r].begin, end = task->ranges[r].end;
    if (task->forward && begin <= task->queries[0]) begin = (uint64_t)task->queries[0] + 1;
    for (; begin < end; begin = tile.range.end) {
      tile.range = (adji_range){(uint32_t)begin, (uint32_t)(end - begin > TILE ? begin + TILE : end)};
      uint64_t compared = (tile.range.end - begin) * task->query_count;
      if (prefilter->unfiltered)
        compare_all(prefilter, task, tile.range, &to);
      else
        filter_tile(prefilter, task, &tile, &to);
      prefilter->unfiltered -= prefilter->unfiltered < compared ? prefilter->unfiltered : compared;
    }
  }
}
