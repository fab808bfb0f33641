/* SPDX-License-Identifier: MIT
 *
 * Orders the points within long cells: cuts them in halves along their widest dimension, down to blocks. Cuts fall on
 * multiples of ADJI_BLOCK, counted over the whole index, so that the leaves are the blocks of index/boxes.h.
 */
#include "index/block_order.h"

#include <stdlib.h>

#include "index/boxes.h"

typedef struct keyed {
  double x;
  uint32_t id;
} keyed;

typedef struct piece {
  uint32_t begin, end; /* positions */
} piece;

typedef struct ordering {
  adj_ctx *ctx;
  const adj_dataset *set;
  uint32_t *ids;
  piece *pieces;
  uint64_t count, room;
} ordering;

enum { SPREAD_SAMPLE = 128, LARGE_PIECE = 1 << 16 };

/* Finds the dimension with the widest spread among a sample of the piece's points. Returns false when all are equal. */
static bool widest(const ordering *o, piece p, uint32_t sample, uint32_t *dim) {
  double most = 0;
  uint32_t count = p.end - p.begin, step = count / sample + 1;
  for (uint32_t j = 0; j < o->set->dim; j++) {
    double low = adji_dataset_at(o->set, o->ids[p.begin], j), high = low;
    for (uint64_t i = p.begin; i < p.end; i += step) {
      double x = adji_dataset_at(o->set, o->ids[i], j);
      low = x < low ? x : low;
      high = x > high ? x : high;
    }
    if (high - low > most) {
      most = high - low;
      *dim = j;
    }
  }
  return most > 0;
}

static inline bool before(keyed a, keyed b) {
  return a.x < b.x || (a.x == b.x && a.id < b.id);
}

/* Moves the `middle` smallest to the front (quickselect). Ids break ties, so the result does not depend on the input
 * order, and equal coordinates cannot make it slow. */
static void select_smallest(keyed *v, uint64_t count, uint64_t middle) {
  uint64_t low = 0, high = count - 1;
  while (low < high) {
    keyed a = v[low], b = v[low + (high - low) / 2], c = v[high];
    keyed pivot = before(a, b) ? (before(b, c) ? b : before(a, c) ? c : a) : (before(a, c) ? a : before(b, c) ? c : b);
    uint64_t i = low, j = high;
    for (;; i++, j--) {
      while (before(v[i], pivot))
        i++;
      while (before(pivot, v[j]))
        j--;
      if (i >= j) break;
      keyed exchange = v[i];
      v[i] = v[j];
      v[j] = exchange;
    }
    if (middle <= j)
      high = j;
    else
      low = j + 1;
  }
}

/* Cuts a piece in two at a multiple of ADJI_BLOCK. Returns the cut, or 0 when there is nothing to cut. */
static uint32_t cut(const ordering *o, piece p, keyed *v) {
  uint32_t count = p.end - p.begin, dim = 0;
  uint32_t at = (p.begin + count / 2 + ADJI_BLOCK / 2) / ADJI_BLOCK * ADJI_BLOCK;
  if (at <= p.begin || at >= p.end) return 0;
  if (!widest(o, p, SPREAD_SAMPLE, &dim) && !widest(o, p, count, &dim)) return 0;
  for (uint32_t i = 0; i < count; i++)
    v[i] = (keyed){adji_dataset_at(o->set, o->ids[p.begin + i], dim), o->ids[p.begin + i]};
  select_smallest(v, count, at - p.begin);
  for (uint32_t i = 0; i < count; i++)
    o->ids[p.begin + i] = v[i].id;
  return at;
}

static void cut_down(const ordering *o, piece p, keyed *v) {
  while (p.end - p.begin > ADJI_BLOCK) {
    uint32_t at = cut(o, p, v);
    if (!at) return;
    cut_down(o, (piece){at, p.end}, v);
    p.end = at;
  }
}

static adj_status order_piece(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const ordering *o = user;
  piece p = o->pieces[task];
  keyed *v = adji_alloc(&o->ctx->memory, p.end - p.begin, sizeof *v, "order within a cell");
  if (!v) return ADJ_E_MEMORY;
  cut_down(o, p, v);
  adji_free(&o->ctx->memory, v);
  return ADJ_OK;
}

static adj_status add_piece(ordering *o, piece p) {
  if (o->count == o->room) {
    uint64_t room = o->room * 2 + 64;
    if (!adji_grow(&o->ctx->memory, (void **)&o->pieces, room, sizeof p, o->count * sizeof p, "long cells"))
      return ADJ_E_MEMORY;
    o->room = room;
  }
  o->pieces[o->count++] = p;
  return ADJ_OK;
}

/* Cuts pieces that are too large for one lane, before the lanes start. */
static adj_status add_cell(ordering *o, piece p) {
  adj_status status = ADJ_OK;
  if (p.end - p.begin > LARGE_PIECE) {
    keyed *v = adji_alloc(&o->ctx->memory, p.end - p.begin, sizeof *v, "order within a cell");
    if (!v) return ADJ_E_MEMORY;
    uint32_t at = cut(o, p, v);
    adji_free(&o->ctx->memory, v);
    if (!at) return ADJ_OK;
    status = add_cell(o, (piece){p.begin, at});
    if (!status) status = add_cell(o, (piece){at, p.end});
    return status;
  }
  return add_piece(o, p);
}

adj_status adji_block_order(adj_ctx *ctx, const adj_dataset *set, adji_index *index) {
  if (index->largest_cell < ADJI_LONG_CELL) return ADJ_OK;
  uint64_t begin = adji_now_ns();
  ordering o = {.ctx = ctx, .set = set, .ids = (uint32_t *)index->view.ids};
  adj_status status = ADJ_OK;
  for (uint64_t c = 0; c < index->cell_count && !status; c++) {
    piece p = {index->cell_starts[c], index->cell_starts[c + 1]};
    if (p.end - p.begin >= ADJI_LONG_CELL) status = add_cell(&o, p);
    if (!status) status = adji_check_cancel(ctx);
  }
  if (!status) status = adji_loop(ctx, o.count, order_piece, &o);
  adji_free(&ctx->memory, o.pieces);
  adji_trace(ctx, "order", 0, begin, set->count);
  return status;
}
