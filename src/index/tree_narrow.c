/* SPDX-License-Identifier: MIT
 *
 * Copies of trees in f32: see tree_narrow.h.
 */
#include "index/tree_narrow.h"

#include <math.h>

/* The range of a dimension, from the nodes of the last level. */
static void range_of(const adji_tree *tree, uint32_t dim, double *low, double *high) {
  const adji_tree_level *top = &tree->level[tree->levels - 1];
  const double *lows = (const double *)top->bounds + (size_t)2 * dim * ADJI_FAN, *highs = lows + ADJI_FAN;
  for (uint64_t i = 0; i < top->count; i++) {
    *low = fmin(*low, lows[i]);
    *high = fmax(*high, highs[i]);
  }
}

bool adji_frame_of(const adji_tree *a, const adji_tree *b, adji_frame *out) {
  static const double LEAST = 0x1p-400, MOST = 0x1p400;
  double reach = 0; /* from the origin to the farthest point of any dimension */
  for (uint32_t j = 0; j < a->dim; j++) {
    double low = INFINITY, high = -INFINITY;
    range_of(a, j, &low, &high);
    range_of(b, j, &low, &high);
    out->origin[j] = low / 2 + high / 2;
    reach = fmax(reach, fmax(high - out->origin[j], out->origin[j] - low));
  }
  if (!(reach >= LEAST && reach <= MOST)) return false;
  int exponent;
  frexp(reach, &exponent);
  out->scale = ldexp(1, -exponent);
  return true;
}

uint64_t adji_tree_narrow_bytes(const adji_tree *wide) {
  uint64_t points = wide->level[0].count * wide->leaf, bytes = points * (wide->dim * sizeof(float) + sizeof(uint32_t));
  for (uint32_t l = 0; l < wide->levels; l++)
    bytes += (wide->level[l].count + ADJI_FAN) * (2 * sizeof(float) * wide->dim + sizeof(uint32_t));
  return bytes;
}

typedef struct narrowing {
  const adji_tree *wide;
  adji_tree *tree;
  const adji_frame *frame;
  uint32_t level;
} narrowing;

static void copy_values(const double *from, uint64_t count, double origin, double scale, float *to) {
  for (uint64_t i = 0; i < count; i++)
    to[i] = (float)((from[i] - origin) * scale);
}

static void copy_leaves(void *user, uint64_t begin, uint64_t end) {
  const narrowing *n = user;
  const adji_frame *frame = n->frame;
  uint32_t leaf = n->wide->leaf;
  for (uint64_t column = begin * n->wide->dim; column < end * n->wide->dim; column++)
    copy_values((const double *)n->wide->coords + column * leaf, leaf, frame->origin[column % n->wide->dim],
                frame->scale, (float *)n->tree->coords + column * leaf);
  for (uint64_t place = begin * leaf; place < end * leaf; place++)
    n->tree->ids[place] = place < n->wide->count ? (uint32_t)place : ADJ_NO_ID;
}

/* Copies chunks of nodes. Boxes that pad the last chunk stay infinite. */
static void copy_chunks(void *user, uint64_t begin, uint64_t end) {
  const narrowing *n = user;
  const adji_frame *frame = n->frame;
  const adji_tree_level *from = &n->wide->level[n->level], *to = &n->tree->level[n->level];
  uint64_t each = n->wide->leaf, width = (uint64_t)2 * ADJI_FAN; /* each: points of a node */
  for (uint32_t l = 0; l < n->level; l++)
    each *= ADJI_FAN;
  for (uint64_t column = begin * n->wide->dim; column < end * n->wide->dim; column++)
    copy_values((const double *)from->bounds + column * width, width, frame->origin[column % n->wide->dim],
                frame->scale, (float *)to->bounds + column * width);
  for (uint64_t node = begin * ADJI_FAN; node < end * ADJI_FAN; node++)
    to->least_ids[node] = node < from->count ? (uint32_t)(node * each) : ADJ_NO_ID;
}

static adj_status copy_level(narrowing *n, uint32_t level) {
  adji_memory *memory = &n->tree->ctx->memory;
  uint64_t count = n->wide->level[level].count, chunks = (count + ADJI_FAN - 1) / ADJI_FAN;
  adji_tree_level *to = &n->tree->level[level];
  n->tree->levels = n->level = level;
  n->tree->levels++;
  to->count = count;
  to->bounds = adji_alloc(memory, chunks * ADJI_FAN * 2 * n->wide->dim, sizeof(float), "tree");
  to->least_ids = adji_alloc(memory, chunks * ADJI_FAN, sizeof *to->least_ids, "tree");
  if (!to->bounds || !to->least_ids) return ADJ_E_MEMORY;
  return adji_loop_slices(n->tree->ctx, chunks, 4 * (uint64_t)n->tree->ctx->threads, copy_chunks, n);
}

adj_status adji_tree_narrow(const adji_tree *wide, const adji_frame *frame, adji_tree *out) {
  adj_ctx *ctx = wide->ctx;
  uint64_t begin = adji_now_ns(), leaves = wide->level[0].count, points = leaves * wide->leaf;
  adji_tree tree = {.ctx = ctx, .type = ADJ_F32, .dim = wide->dim, .leaf = wide->leaf, .count = wide->count};
  narrowing n = {wide, &tree, frame, 0};
  tree.coords = adji_alloc(&ctx->memory, adji_mul(points, wide->dim), sizeof(float), "tree");
  tree.ids = adji_alloc(&ctx->memory, points, sizeof *tree.ids, "tree");
  adj_status status = tree.coords && tree.ids ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) status = adji_loop_slices(ctx, leaves, 4 * (uint64_t)ctx->threads, copy_leaves, &n);
  for (uint32_t l = 0; l < wide->levels && !status; l++)
    status = copy_level(&n, l);
  adji_trace(ctx, "tree in f32", 0, begin, wide->count);
  if (status)
    adji_tree_clear(&tree);
  else
    *out = tree;
  return status;
}
