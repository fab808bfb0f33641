/* SPDX-License-Identifier: MIT
 *
 * The points of a kd-tree within a radius of one query: see within.h.
 *
 * Exactness. The bound of a box is a lower bound of the canonical sums of all its points, without slack
 * (distance/knn_body.h): a node is skipped iff its bound is above the limit, and then no point of it belongs. The
 * points of the leaves that remain are compared by the canonical kernel.
 */
#include "cpu/within.h"

#include <math.h>

#include "result/kbest.h"

/* The kernel compares boxes of leaves once more, of which the search has no use: these boxes hold everything. */
static void make_bounds_infinite(adji_within *w, uint64_t entries) {
  for (uint64_t i = 0; i < entries; i++) {
    float bound = i / ADJI_LEAF_ROOM % 2 ? INFINITY : -INFINITY;
    if (w->search.tree->type == ADJ_F64)
      ((double *)w->leaves.bounds)[i] = (double)bound;
    else
      ((float *)w->leaves.bounds)[i] = bound;
  }
}

void adji_within_ask(adji_within *w, const adji_join *join) {
  w->join = join;
  w->search = adji_tree_search_of(join, w->search.tree);
}

adj_status adji_within_init(adji_within *w, const adji_join *join, const adji_tree *tree) {
  adji_memory *memory = &join->ctx->memory;
  size_t size = adji_type_size(tree->type);
  uint64_t entries = (uint64_t)2 * tree->dim * ADJI_LEAF_ROOM;
  *w = (adji_within){.join = join, .search = {.tree = tree}, .room = {.memory = memory}};
  adji_within_ask(w, join);
  w->point = adji_alloc(memory, tree->dim, size, "query");
  w->leaves.bounds = adji_alloc_zero(memory, entries, size, "query");
  if (!w->point || !w->leaves.bounds) return ADJ_E_MEMORY;
  make_bounds_infinite(w, entries);
  return ADJ_OK;
}

void adji_within_clear(adji_within *w) {
  if (!w->room.memory) return;
  adji_free(w->room.memory, w->point);
  adji_free(w->room.memory, w->leaves.bounds);
  adji_row_room_clear(&w->room);
  *w = (adji_within){0};
}

/* Room for what the collected leaves may add. */
static adj_status reserve(adji_within *w, uint64_t found) {
  uint64_t wanted = found + (uint64_t)w->leaves.count * w->search.tree->leaf + ADJI_PAD;
  if (wanted <= w->capacity) return ADJ_OK;
  adji_row_room *room = &w->room;
  size_t size = adji_type_size(w->search.tree->type);
  wanted *= 2;
  if (!adji_grow(room->memory, (void **)&room->ids[0], wanted, sizeof(uint32_t), found * 4, "row buffer") ||
      !adji_grow(room->memory, &room->sums[0], wanted, size, found * size, "row buffer"))
    return ADJ_E_MEMORY;
  w->capacity = wanted;
  return ADJ_OK;
}

/* The last leaf is padded with NaN, which never compares as near, except where powers make a number of it. */
static uint32_t drop_padding(adji_within *w, uint32_t from, uint32_t found) {
  const adji_tree *tree = w->search.tree;
  uint32_t *ids = w->room.ids[0], kept = from;
  bool last = false;
  for (uint32_t l = 0; l < w->leaves.count; l++)
    last = last || w->leaves.number[l] + (uint64_t)1 == tree->level[0].count;
  if (!last || tree->count % tree->leaf == 0) return found;
  for (uint32_t i = from; i < found; i++) {
    if (ids[i] == ADJ_NO_ID) continue;
    ids[kept] = ids[i];
    if (tree->type == ADJ_F64)
      ((double *)w->room.sums[0])[kept++] = ((double *)w->room.sums[0])[i];
    else
      ((float *)w->room.sums[0])[kept++] = ((float *)w->room.sums[0])[i];
  }
  return kept;
}

/* Appends the points of the collected leaves that belong. */
static adj_status visit_leaves(adji_within *w, double limit, adji_tally *tally, uint32_t *found) {
  const adji_tree *tree = w->search.tree;
  adj_status status = reserve(w, *found);
  if (status) return status;
  adji_knn_task task = {.coords = tree->coords,
                        .ids = tree->ids,
                        .dim = tree->dim,
                        .leaf = tree->leaf,
                        .queries = w->point,
                        .leaves = &w->leaves,
                        .measure = w->search.measure};
  char *sums = (char *)w->room.sums[0] + *found * adji_type_size(tree->type);
  uint32_t many = w->search.kernels->list_leaves(&task, limit, w->room.ids[0] + *found, sums);
  *found = drop_padding(w, *found, *found + many);
  tally->candidates += task.candidates;
  w->leaves.count = 0;
  return ADJ_OK;
}

static uint32_t above(const adji_within *w, uint32_t row, uint32_t found) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < found; i++)
    count += w->room.ids[0][i] > row;
  return count;
}

/* Counting: what was found is counted and forgotten. */
static adj_status visit(adji_within *w, double limit, uint32_t row, adji_tally *tally, bool counting, uint32_t *found) {
  uint32_t many = counting ? 0 : *found;
  adj_status status = visit_leaves(w, limit, tally, &many);
  if (!counting)
    *found = many;
  else
    *found += w->join->style.one_way ? above(w, row, many) : many;
  return status ? status : adji_check_cancel(w->join->ctx);
}

static adj_status search(adji_within *w, double limit, uint32_t row, adji_tally *tally, bool counting,
                         uint32_t *found) {
  const adji_tree *tree = w->search.tree;
  adji_within_node top = {tree->levels, 0};
  uint32_t depth = 0;
  adj_status status = ADJ_OK;
  *found = w->leaves.count = 0;
  if (!tree->levels) return ADJ_OK;
  for (;;) {
    adji_chunk_bounds bounds;
    adji_bound_chunk(&w->search, (adji_box_reach){w->point, w->point, limit}, top.level - 1, top.number, &bounds);
    for (; bounds.near; bounds.near &= bounds.near - 1) {
      uint64_t node = top.number * ADJI_FAN + (uint32_t)__builtin_ctz(bounds.near);
      if (top.level > 1)
        w->stack[depth++] = (adji_within_node){top.level - 1, node};
      else
        w->leaves.number[w->leaves.count++] = (uint32_t)node;
    }
    if (w->leaves.count > ADJI_LEAVES - ADJI_FAN) status = visit(w, limit, row, tally, counting, found);
    if (!depth || status) break;
    top = w->stack[--depth];
  }
  return status || !w->leaves.count ? status : visit(w, limit, row, tally, counting, found);
}

adj_status adji_within_count(adji_within *w, uint32_t row, double limit, adji_tally *tally, uint32_t *count) {
  adj_status status = search(w, limit, row, tally, true, count);
  const adji_row_style *style = &w->join->style;
  if (!status && style->drop_self && !style->one_way) --*count; /* it is at distance 0 of itself */
  return status;
}

adj_status adji_within_list(adji_within *w, uint32_t row, double limit, adji_tally *tally, uint32_t *count) {
  const adji_row_style *style = &w->join->style;
  adj_status status = search(w, limit, row, tally, false, count);
  if (status || !*count) return status;
  if (adji_row_needs_sums(style) && w->entries < w->capacity) {
    size_t key = style->type == ADJ_F64 ? sizeof(adji_key_wide) : sizeof(uint64_t);
    if (!adji_grow(w->room.memory, &w->room.entries, w->capacity, key, 0, "row buffer")) return ADJ_E_MEMORY;
    w->entries = w->capacity;
  }
  *count = adji_row_order(style, &w->room, 0, row, *count);
  return ADJ_OK;
}
