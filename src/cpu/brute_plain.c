/* SPDX-License-Identifier: MIT
 *
 * Brute force without a prefilter. A tile of right points is laid out by dimension, and all queries of the piece are
 * compared with it, four at a time, by the canonical kernels. This works for every metric. The four queries share the
 * largest of their limits, which costs a few more candidates and saves three of four loads.
 */
#include "cpu/brute_private.h"

void adji_brute_plain_layout(const brute *b, brute_plain *plain, brute_arena *arena) {
  size_t size = adji_type_size(b->join.style.type);
  uint64_t dim = b->right.dim, groups = (b->group + BRUTE_GROUP - 1) / BRUTE_GROUP;
  plain->tile = brute_alloc(arena, dim * b->tile + ADJI_PAD, size);
  plain->tile_ids = brute_alloc(arena, b->tile + ADJI_PAD, sizeof *plain->tile_ids);
  plain->queries = brute_alloc(arena, groups * BRUTE_GROUP * dim, size);
  for (int k = 0; k < BRUTE_GROUP; k++) {
    plain->ids[k] = brute_alloc(arena, b->tile + ADJI_PAD, sizeof *plain->ids[k]);
    plain->sums[k] = brute_alloc(arena, b->tile + ADJI_PAD, size);
  }
}

/* Lays out rows first .. first + count - 1 by dimension: coordinate j of row i goes to entry j * stride + i. */
static void lay_out(const adji_packed *points, uint64_t first, uint64_t count, uint64_t stride, void *to) {
  for (uint64_t i = 0; i < count; i++) {
    const void *row = adji_packed_row(points, first + i);
    if (points->type == ADJ_F64) {
      for (uint32_t j = 0; j < points->dim; j++)
        ((double *)to)[j * stride + i] = ((const double *)row)[j];
    } else {
      for (uint32_t j = 0; j < points->dim; j++)
        ((float *)to)[j * stride + i] = ((const float *)row)[j];
    }
  }
}

/* Compares up to four queries with the tile, beginning with query number `at` of the piece. */
static void scan_group(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t at, const adji_view *tile) {
  static const uint32_t positions[BRUTE_GROUP] = {0, 1, 2, 3};
  const adji_row_style *style = &b->join.style;
  const brute_plain *plain = &lane->plain;
  uint64_t remaining = piece->end - piece->begin - at;
  uint32_t many = remaining < BRUTE_GROUP ? (uint32_t)remaining : BRUTE_GROUP, found[BRUTE_GROUP] = {0};
  size_t size = adji_type_size(style->type);
  adji_view queries = {(const char *)plain->queries + at * b->right.dim * size, BRUTE_GROUP, positions, b->right.dim,
                       many};
  double limit = lane->best[at].limit;
  for (uint32_t k = 1; k < many; k++)
    limit = lane->best[at + k].limit > limit ? lane->best[at + k].limit : limit;
  adji_range all = {0, tile->count};
  adji_task task = {.left = &queries, .right = tile, .queries = positions, .ranges = &all};
  task.query_count = many;
  task.range_count = 1;
  task.limit = limit;
  task.measure = style->measure;
  style->kernels->typed[style->type == ADJ_F64]->list[style->measure->step](&task, plain->ids, plain->sums, found);
  for (uint32_t k = 0; k < many; k++) {
    uint32_t own = (uint32_t)(piece->begin + at + k);
    if (style->drop_self && own >= tile->ids[0] && own - tile->ids[0] < tile->count)
      found[k] = adji_drop_id(style->type, plain->ids[k], plain->sums[k], found[k], own);
    adji_kbest_add(&lane->best[at + k], plain->ids[k], plain->sums[k], found[k]);
  }
}

static void scan_tile(const brute *b, brute_lane *lane, const brute_piece *piece, uint64_t first, uint32_t count) {
  brute_plain *plain = &lane->plain;
  lay_out(&b->right, first, count, b->tile, plain->tile);
  for (uint32_t i = 0; i < count; i++)
    plain->tile_ids[i] = (uint32_t)(first + i);
  adji_view tile = {plain->tile, b->tile, plain->tile_ids, b->right.dim, count};
  for (uint64_t at = 0; at < piece->end - piece->begin; at += BRUTE_GROUP)
    scan_group(b, lane, piece, at, &tile);
}

adj_status adji_brute_plain(const brute *b, brute_lane *lane, const brute_piece *piece) {
  size_t size = adji_type_size(b->join.style.type);
  uint64_t count = piece->end - piece->begin;
  for (uint64_t at = 0; at < count; at += BRUTE_GROUP) {
    uint64_t many = count - at < BRUTE_GROUP ? count - at : BRUTE_GROUP;
    lay_out(b->queries, piece->begin + at, many, BRUTE_GROUP, (char *)lane->plain.queries + at * b->right.dim * size);
  }
  adj_status status = ADJ_OK;
  for (uint64_t first = piece->first; first < piece->last && !status; first += b->tile) {
    uint64_t remaining = piece->last - first;
    status = adji_check_cancel(b->join.ctx);
    if (!status) scan_tile(b, lane, piece, first, (uint32_t)(remaining < b->tile ? remaining : b->tile));
  }
  return status;
}
