/* SPDX-License-Identifier: MIT
 *
 * The points of a region that may have neighbours beyond its halo. split.h has the argument why none is missed.
 */
#include <math.h>
#include <string.h>

#include "cluster/split_private.h"
#include "index/grid.h"

/* Sums whose bits begin alike are in one bucket. */
enum { BUCKETS = 1 << 12 };

/* Sets the width of the largest sum of each bucket; in a box the largest width of any dimension. The buckets of
 * infinite and negative sums, and of NaN, have no largest sum. */
static adj_status set_widths(const adj_split *split, double *table) {
  enum { FINITE_F64 = 0x7fe, FINITE_F32 = 0x7f7 }; /* the largest sum of these buckets is finite */
  uint64_t wide[FINITE_F64];
  uint32_t narrow[FINITE_F32], count = split->type == ADJ_F64 ? FINITE_F64 : FINITE_F32;
  for (uint32_t i = 0; i < FINITE_F64; i++)
    wide[i] = (uint64_t)(i + 1) << 52;
  for (uint32_t i = 0; i < FINITE_F32; i++)
    narrow[i] = (i + 1) << 20;
  const void *sums = split->type == ADJ_F64 ? (const void *)wide : (const void *)narrow;
  adj_status status = adj_sums_radii(&split->spec, split->type, count, sums, table);
  for (uint32_t i = 0; i < BUCKETS && !status; i++) {
    double radius = i < count ? table[i] : INFINITY;
    table[i] = isinf(radius) ? INFINITY : 0;
    for (uint32_t j = 0; j < (split->box ? split->cuts.dim : 1) && !isinf(radius); j++)
      table[i] = fmax(table[i], adji_split_width(split, radius, j));
  }
  return status;
}

static uint32_t bucket_of_double(const char *sum) {
  uint64_t bits;
  memcpy(&bits, sum, sizeof bits);
  return (uint32_t)(bits >> 52);
}

static uint32_t bucket_of_float(const char *sum) {
  uint32_t bits;
  memcpy(&bits, sum, sizeof bits);
  return bits >> 20;
}

/* What a loop over the points of a region works on. Each slice writes the points it finds from its first point on. */
typedef struct bordering {
  adji_haloing h;
  const adji_border *border;
  uint64_t slices;
  double *table; /* widths of buckets */
  uint32_t *found;
  uint64_t *counts; /* by slice */
} bordering;

static uint64_t row_of(const bordering *b, uint64_t i) {
  return b->border->rows ? b->border->rows[i] : i;
}

/* Which of up to 64 points do not stay at home within their last sums, as bits. */
#define WITHIN(T)                                                                                           \
  static inline uint64_t leave_in_##T(const bordering *b, uint64_t first, uint64_t many, uint32_t dim) {    \
    const adj_dataset *set = b->h.p.points;                                                                 \
    const double *low = b->h.cells + (uint64_t)b->border->region * dim,                                     \
                 *high = low + (uint64_t)dim * b->h.p.split->cuts.count;                                    \
    uint64_t leavers = 0;                                                                                   \
    for (uint64_t i = 0; i < many; i++) {                                                                   \
      const char *row = set->data + row_of(b, first + i) * set->row_stride;                                 \
      double width = b->table[bucket_of_##T(b->border->sums.first + (first + i) * b->border->sums.stride)]; \
      bool in = true;                                                                                       \
      for (uint32_t j = 0; j < dim; j++) {                                                                  \
        double x = (double)*(const T *)(const void *)(row + j * set->column_stride);                        \
        in = in & (x - low[j] > width) & (high[j] - x > width);                                             \
      }                                                                                                     \
      leavers |= (uint64_t)!in << i;                                                                        \
    }                                                                                                       \
    return leavers;                                                                                         \
  }                                                                                                         \
  static uint64_t leave_##T(const bordering *b, uint64_t first, uint64_t many) {                            \
    uint32_t dim = b->h.p.split->cuts.dim;                                                                  \
    if (dim == 2) return leave_in_##T(b, first, many, 2);                                                   \
    if (dim == 3) return leave_in_##T(b, first, many, 3);                                                   \
    return leave_in_##T(b, first, many, dim);                                                               \
  }
WITHIN(float)
WITHIN(double)

static adj_status border_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const bordering *b = user;
  uint64_t begin, end, found = 0;
  adji_slice(b->border->count, b->slices, slice, &begin, &end);
  for (uint64_t i = begin; i < end; i += ADJI_HALO_BLOCK) {
    uint64_t many = end - i < ADJI_HALO_BLOCK ? end - i : ADJI_HALO_BLOCK;
    uint64_t leavers = b->h.p.points->type == ADJ_F64 ? leave_double(b, i, many) : leave_float(b, i, many);
    for (; leavers; leavers &= leavers - 1) {
      uint64_t at = i + (uint64_t)__builtin_ctzll(leavers);
      /* The spec's radius bounds the reach of kNN queries as well. */
      if (adji_halo_leavers(&b->h, row_of(b, at), 1, b->border->region)) b->found[begin + found++] = (uint32_t)at;
    }
  }
  b->counts[slice] = found;
  return ADJ_OK;
}

/* Moves what the slices found together. */
static uint64_t join_slices(const bordering *b) {
  uint64_t begin, end, all = 0;
  for (uint64_t slice = 0; slice < b->slices; slice++) {
    adji_slice(b->border->count, b->slices, slice, &begin, &end);
    if (all < begin && b->counts[slice]) memmove(b->found + all, b->found + begin, b->counts[slice] * sizeof *b->found);
    all += b->counts[slice];
  }
  return all;
}

/* The points of the halo are here too: the cell is wider by the width of the reach, rounded inwards. */
static void widen_region(const bordering *b) {
  const adj_split *split = b->h.p.split;
  uint64_t dim = split->cuts.dim, first = b->border->region * dim, cells = split->cuts.count * dim;
  double limit = adji_limit(&split->measure, split->type, b->border->reach);
  for (uint64_t j = 0; j < dim && b->border->reach > 0; j++) {
    double width = adji_grid_width(split->type, &split->measure, limit, (uint32_t)j);
    b->h.cells[first + j] = nextafter(b->h.cells[first + j] - width, INFINITY);
    b->h.cells[cells + first + j] = nextafter(b->h.cells[cells + first + j] + width, -INFINITY);
  }
}

static adj_status open_border(bordering *b, const adj_dataset *points) {
  adji_memory *memory = &b->h.p.split->ctx->memory;
  adj_status status = adji_halo_open(&b->h, points);
  if (status) return status;
  widen_region(b);
  b->slices = b->border->count / ADJI_SLICE_POINTS + 1;
  b->counts = adji_alloc(memory, b->slices, sizeof *b->counts, "regions");
  b->table = adji_alloc(memory, BUCKETS, sizeof *b->table, "regions");
  return b->counts && b->table ? set_widths(b->h.p.split, b->table) : ADJ_E_MEMORY;
}

adj_status adji_split_border(const adj_split *split, const adj_dataset *points, const adji_border *border,
                             uint32_t *found, uint64_t *count) {
  bordering b = {.h.p.split = split, .border = border, .found = found};
  adji_call outer = adji_call_begin(&split->ctx->cancels);
  adj_status status = open_border(&b, points);
  if (!status) status = adji_loop(split->ctx, b.slices, border_slice, &b);
  *count = status ? 0 : join_slices(&b);
  adji_free(&split->ctx->memory, b.counts);
  adji_free(&split->ctx->memory, b.table);
  adji_halo_close(&b.h);
  adji_call_set(outer);
  return status;
}
