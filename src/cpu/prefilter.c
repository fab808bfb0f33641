/* SPDX-License-Identifier: MIT
 *
 * Neighbours through the prefilter of codes.
 */
#include "cpu/prefilter.h"

/* Candidates per tile: their codes stay in the first-level cache for all queries. */
enum { TILE = 1024 };

adj_status adji_prefilter_init(adji_prefilter *prefilter, const adji_prefilter_plan *plan, adji_memory *memory) {
  *prefilter = (adji_prefilter){.plan = plan, .memory = memory};
  for (int k = 0; k < ADJI_LIST_MAX; k++) {
    prefilter->words[k] = adji_alloc(memory, plan->right->groups, sizeof(uint32_t), "codes of queries");
    prefilter->kept[k] = adji_alloc(memory, TILE + ADJI_PAD, sizeof(uint32_t), "candidates");
    if (prefilter->words[k] && prefilter->kept[k]) continue;
    adji_prefilter_clear(prefilter);
    return ADJ_E_MEMORY;
  }
  return ADJ_OK;
}

void adji_prefilter_clear(adji_prefilter *prefilter) {
  for (int k = 0; k < ADJI_LIST_MAX && prefilter->memory; k++) {
    adji_free(prefilter->memory, prefilter->words[k]);
    adji_free(prefilter->memory, prefilter->kept[k]);
  }
  *prefilter = (adji_prefilter){0};
}

/* Where the neighbours of each query go. */
typedef struct listing {
  adj_type type;
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
  size_t size = to->type == ADJ_F64 ? 8 : 4;
  adji_refine_task work = {.right = task->right,
                           .query = (const char *)task->left->coords + position * size,
                           .query_stride = task->left->stride,
                           .limit = task->limit,
                           .base = tile->range.begin,
                           .kept = prefilter->kept[k] + skip,
                           .count = passed - skip};
  uint32_t *ids = to->ids ? to->ids[k] + to->found[k] : NULL;
  void *sums = to->sums ? (char *)to->sums[k] + to->found[k] * size : NULL;
  to->found[k] += prefilter->plan->filter->refine[to->type == ADJ_F64](&work, ids, sums);
}

void adji_prefilter_list(const adji_prefilter *prefilter, adj_type type, const adji_task *task, uint32_t *const *ids,
                         void *const *sums, uint32_t *found) {
  const adji_prefilter_plan *plan = prefilter->plan;
  const listing to = {type, ids, sums, found};
  adji_prefilter_codes_task tile = {.bytes = plan->right->bytes,
                                    .offset = plan->right->offset,
                                    .groups = plan->right->groups,
                                    .query_count = task->query_count};
  for (uint32_t k = 0; k < task->query_count; k++) {
    int64_t norm = adji_codes_query(plan->left, task->queries[k], prefilter->words[k]);
    tile.words[k] = prefilter->words[k];
    tile.least[k] = (int32_t)(norm - plan->reach_sq);
  }
  for (uint32_t r = 0; r < task->range_count; r++) {
    uint64_t begin = task->ranges[r].begin, end = task->ranges[r].end;
    if (task->forward && begin <= task->queries[0]) begin = (uint64_t)task->queries[0] + 1;
    for (; begin < end; begin = tile.range.end) {
      uint32_t passed[ADJI_LIST_MAX];
      tile.range = (adji_range){(uint32_t)begin, (uint32_t)(end - begin > TILE ? begin + TILE : end)};
      plan->filter->keep(&tile, prefilter->kept, passed);
      for (uint32_t k = 0; k < task->query_count; k++)
        if (passed[k]) refine(prefilter, task, k, &tile, passed[k], &to);
    }
  }
}
