/* SPDX-License-Identifier: MIT
 *
 * The points of a kd-tree within a radius of one query: see within.h.
 *
 * Exactness. The bound of a box is a lower bound of the canonical sums of all its points, without slack
 * (distance/knn_body.h): a node is skipped iff its bound is above the limit, and then no point of it belongs. The
 * points of the leaves that remain are compared by the canonical kernel.
 */
#include "cpu/within.h"

#include "result/kbest.h"

void adji_within_set_join(adji_within *w, const adji_join *join) {
  w->join = join;
  w->search = adji_tree_search_of(join, w->search.tree);
}

adj_status adji_within_init(adji_within *w, const adji_join *join, const adji_tree *tree) {
  adji_memory *memory = &join->ctx->memory;
  size_t size = adji_type_size(tree->type);
  *w = (adji_within){.join = join, .search = {.tree = tree}, .room = {.memory = memory}};
  adji_within_set_join(w, join);
  w->point = adji_alloc(memory, tree->dim, size, "query");
  return w->point ? ADJ_OK : ADJ_E_MEMORY;
}

void adji_within_clear(adji_within *w) {
  if (!w->room.memory) return;
  adji_free(w->room.memory, w->point);
  adji_row_room_clear(&w->room);
  *w = (adji_within){0};
}

/* Makes room for what the kernel may add before it checks the remaining room. */
static adj_status reserve(adji_within *w, uint64_t found) {
  uint64_t wanted = found + (uint64_t)ADJI_TREE_STEP * w->search.tree->leaf;
  if (wanted <= w->capacity) return ADJ_OK;
  adji_row_room *room = &w->room;
  size_t size = adji_type_size(w->search.tree->type);
  wanted *= 2;
  if (!adji_grow(room->memory, (void **)&room->ids[0], wanted + ADJI_PAD, sizeof(uint32_t), found * 4, "row buffer") ||
      !adji_grow(room->memory, &room->sums[0], wanted + ADJI_PAD, size, found * size, "row buffer"))
    return ADJ_E_MEMORY;
  w->capacity = wanted;
  return ADJ_OK;
}

static uint32_t count_above(const uint32_t *ids, uint32_t row, uint32_t found) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < found; i++)
    count += ids[i] > row;
  return count;
}

/* Continues the search until everything is found or the room is full. counting: neighbours are counted and
 * forgotten. */
static adj_status search_on(adji_within *w, double limit, uint32_t row, adji_tally *tally, bool counting,
                            uint32_t *found) {
  const adji_tree *tree = w->search.tree;
  uint64_t before = w->kept + (counting ? 0 : *found);
  adj_status status = reserve(w, before);
  if (status) return status;
  adji_knn_task task = {.coords = tree->coords,
                        .ids = tree->ids,
                        .dim = tree->dim,
                        .leaf = tree->leaf,
                        .queries = w->point,
                        .leaves = w->near,
                        .measure = w->search.measure};
  uint64_t room = w->capacity - before, size = adji_type_size(tree->type);
  adji_tree_found list = {w->room.ids[0] + before, (char *)w->room.sums[0] + before * size, 0,
                          room < UINT32_MAX ? (uint32_t)room : UINT32_MAX};
  if (w->near)
    w->search.kernels->list_near(&task, tree->level, limit, &list);
  else
    w->search.kernels->list_tree(&task, tree->level, limit, &w->stack, &list);
  tally->candidates += task.candidates;
  *found += counting && w->join->style.one_way ? count_above(list.ids, row, list.count) : list.count;
  return ADJ_OK;
}

static adj_status search(adji_within *w, double limit, uint32_t row, adji_tally *tally, bool counting,
                         uint32_t *found) {
  const adji_tree *tree = w->search.tree;
  adj_status status = ADJ_OK;
  *found = 0;
  if (!tree->levels) return ADJ_OK;
  w->stack.depth = !w->near;
  w->stack.nodes[0].level = tree->levels;
  w->stack.nodes[0].number = 0;
  do {
    status = search_on(w, limit, row, tally, counting, found);
    if (!status) status = adji_check_cancel(w->join->ctx);
  } while (w->stack.depth && !status);
  return status;
}

adj_status adji_within_count(adji_within *w, uint32_t row, double limit, adji_tally *tally, uint32_t *count) {
  adj_status status = search(w, limit, row, tally, true, count);
  const adji_row_style *style = &w->join->style;
  if (!status && style->drop_self && !style->one_way) --*count; /* the query itself, at distance 0 */
  return status;
}

adj_status adji_within_list(adji_within *w, uint32_t row, double limit, adji_tally *tally, uint32_t *count) {
  const adji_row_style *style = &w->join->style;
  adj_status status = search(w, limit, row, tally, false, count);
  if (status || !*count) return status;
  if (style->order == ADJ_ORDER_ANY && !style->one_way && !style->drop_self) return ADJ_OK;
  if (adji_row_needs_sums(style) && w->entries < *count) {
    size_t key = style->type == ADJ_F64 ? sizeof(adji_key_wide) : sizeof(uint64_t);
    uint64_t entries = 2 * (uint64_t)*count + ADJI_PAD;
    if (!adji_grow(w->room.memory, &w->room.entries, entries, key, 0, "row buffer")) return ADJ_E_MEMORY;
    w->entries = entries - ADJI_PAD;
  }
  adji_row_room last = {.ids = {w->room.ids[0] + w->kept}, .entries = w->room.entries};
  last.sums[0] = (char *)w->room.sums[0] + w->kept * adji_type_size(style->type);
  *count = adji_row_order(style, &last, 0, row, *count);
  return ADJ_OK;
}
