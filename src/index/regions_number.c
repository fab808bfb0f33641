/* SPDX-License-Identifier: MIT
 *
 * The region of each point: see regions_number.h.
 */
#include "index/regions_number.h"

#include <math.h>
#include <string.h>

static void set_number(const adji_numbering *n, void *to, uint64_t i, uint64_t value) {
  if (n->type == ADJ_F64)
    ((uint64_t *)to)[i] = value;
  else
    ((uint32_t *)to)[i] = (uint32_t)value;
}

/* Fills the node of a cut, on a level, and the nodes below it. Below a region every node is that region. */
static void fill_node(const adji_numbering *n, const adji_cuts *cuts, uint32_t cut_number, uint64_t node,
                      uint32_t level) {
  const adji_cut *cut = &cuts->nodes[cut_number];
  bool is_region = cut->below == cut_number;
  if (level == n->depth) {
    set_number(n, n->regions, node - (UINT64_C(1) << n->depth), cut->region);
    return;
  }
  double near = is_region ? -1 : fmax(n->reaches[cut->below], n->reaches[cut->below + 1]);
  if (n->type == ADJ_F64) {
    ((double *)n->at)[node] = cut->at;
    ((double *)n->near)[node] = near < 0 ? -1 : nextafter(near, INFINITY);
  } else {
    ((float *)n->at)[node] = (float)cut->at; /* a value of the type */
    ((float *)n->near)[node] = near < 0 ? -1 : nextafterf((float)near, INFINITY);
  }
  set_number(n, n->dims, node, cut->dim);
  fill_node(n, cuts, cut->below, 2 * node, level + 1);
  fill_node(n, cuts, cut->below + !is_region, 2 * node + 1, level + 1);
}

/* The longest reach below each node. */
static double fill_reaches(const adji_cuts *cuts, const double *reaches, uint32_t node, double *to) {
  const adji_cut *cut = &cuts->nodes[node];
  if (cut->below == node)
    to[node] = reaches ? reaches[cut->region] : -1;
  else
    to[node] = fmax(fill_reaches(cuts, reaches, cut->below, to), fill_reaches(cuts, reaches, cut->below + 1, to));
  return to[node];
}

adj_status adji_numbering_make(adj_ctx *ctx, const adji_cuts *cuts, adj_type type, const double *reaches,
                               adji_numbering *out) {
  adji_memory *memory = &ctx->memory;
  uint64_t nodes = (UINT64_C(1) << cuts->depth) + ADJI_NUMBER_SPARE, size = adji_type_size(type);
  *out = (adji_numbering){.type = type, .dim = cuts->dim, .depth = cuts->depth};
  out->at = adji_alloc_zero(memory, nodes, size, "cuts");
  out->near = adji_alloc_zero(memory, nodes, size, "cuts");
  out->reaches = adji_alloc(memory, 2 * (uint64_t)cuts->count, sizeof *out->reaches, "cuts");
  out->dims = adji_alloc_zero(memory, nodes, size, "cuts");
  out->regions = adji_alloc_zero(memory, nodes, size, "cuts");
  if (out->at && out->near && out->reaches && out->dims && out->regions) {
    fill_reaches(cuts, reaches, 0, out->reaches);
    fill_node(out, cuts, 0, 1, 0);
    return ADJ_OK;
  }
  adji_numbering_clear(ctx, out);
  return ADJ_E_MEMORY;
}

void adji_numbering_clear(adj_ctx *ctx, adji_numbering *n) {
  adji_free(&ctx->memory, n->at);
  adji_free(&ctx->memory, n->near);
  adji_free(&ctx->memory, n->reaches);
  adji_free(&ctx->memory, n->dims);
  adji_free(&ctx->memory, n->regions);
  *n = (adji_numbering){0};
}

/* The walk takes no branch. */
#define NUMBER(T, INDEX, ABS)                                                      \
  static uint64_t number_##T(const adji_number_job *job) {                         \
    const adji_numbering *n = job->numbering;                                      \
    const T *at = n->at, *reach = n->near;                                         \
    const INDEX *dims = n->dims, *regions = n->regions;                            \
    const char *point = job->points;                                               \
    uint64_t found = 0;                                                            \
    for (uint64_t i = 0; i < job->count; i++, point += job->row_stride) {          \
      uint64_t node = 1;                                                           \
      bool near = false;                                                           \
      for (uint32_t level = 0; level < n->depth; level++) {                        \
        T x = *(const T *)(const void *)(point + dims[node] * job->column_stride); \
        near |= ABS(x - at[node]) <= reach[node]; /* false for NaN */              \
        node = 2 * node + (x >= at[node]);                                         \
      }                                                                            \
      job->numbers[i] = (uint16_t)regions[node - (UINT64_C(1) << n->depth)];       \
      job->near[found] = (uint16_t)i;                                              \
      found += near;                                                               \
    }                                                                              \
    return found;                                                                  \
  }
NUMBER(float, uint32_t, fabsf)
NUMBER(double, uint64_t, fabs)
#undef NUMBER

adji_number_fn adji_number_for(const char *isa, const adj_dataset *set) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512") && set->dim <= ADJI_NUMBER_DIMS && set->row_stride <= ADJI_NUMBER_STRIDE)
    return set->type == ADJ_F64 ? adji_number_avx512_f64 : adji_number_avx512_f32;
#else
  (void)isa;
#endif
  return set->type == ADJ_F64 ? number_double : number_float;
}

/* ---- Within reach ------------------------------------------------------------------------------------- */

adj_status adji_reach_boxes_make(adj_ctx *ctx, const adji_cuts *cuts, const double *reaches, adji_reach_boxes *out) {
  uint64_t values = (uint64_t)cuts->dim * ADJI_REACHED_REGIONS;
  *out = (adji_reach_boxes){.dim = cuts->dim, .count = cuts->count};
  double *cells = adji_alloc(&ctx->memory, 2 * (uint64_t)cuts->dim * cuts->count, sizeof *cells, "cuts");
  out->low = adji_alloc(&ctx->memory, 2 * values, sizeof *out->low, "cuts");
  if (!cells || !out->low) {
    adji_free(&ctx->memory, cells);
    adji_reach_boxes_clear(ctx, out);
    return ADJ_E_MEMORY;
  }
  out->high = out->low + values;
  adji_cuts_cells(cuts, cells, cells + (uint64_t)cuts->dim * cuts->count);
  for (uint32_t i = 0; i < ADJI_REACHED_REGIONS; i++) {
    bool is_region = i < cuts->count;
    out->reaches[i] = is_region && reaches ? reaches[i] : -1;
    for (uint32_t j = 0; j < cuts->dim; j++) {
      out->low[j * ADJI_REACHED_REGIONS + i] = is_region ? cells[i * cuts->dim + j] : (double)INFINITY;
      out->high[j * ADJI_REACHED_REGIONS + i] = is_region ? cells[(cuts->count + i) * cuts->dim + j] : (double)INFINITY;
    }
  }
  adji_free(&ctx->memory, cells);
  return ADJ_OK;
}

void adji_reach_boxes_clear(adj_ctx *ctx, adji_reach_boxes *boxes) {
  adji_free(&ctx->memory, boxes->low);
  boxes->low = boxes->high = NULL;
}

static uint64_t reached_plain(const adji_reach_boxes *b, const double *point) {
  uint64_t found = 0;
  for (uint32_t i = 0; i < b->count; i++) {
    bool in = true;
    for (uint32_t j = 0; j < b->dim; j++) {
      double x = point[j], reach = b->reaches[i];
      in &= x - b->high[j * ADJI_REACHED_REGIONS + i] <= reach;
      in &= b->low[j * ADJI_REACHED_REGIONS + i] - x <= reach;
    }
    found |= (uint64_t)in << i;
  }
  return found;
}

adji_reached_fn adji_reached_for(const char *isa) {
#if defined(__x86_64__)
  if (!strcmp(isa, "avx512")) return adji_reached_avx512;
#else
  (void)isa;
#endif
  return reached_plain;
}
