/* SPDX-License-Identifier: MIT
 *
 * The regions of a split that are within reach of points: halos. split.h has the argument why no neighbour is missed.
 */
#include <math.h>
#include <string.h>

#include "cluster/split_private.h"
#include "index/grid.h"

/* ---- Halos ---------------------------------------------------------------------------------------------------- */

/* One point, and where its visits go, with room for one of each region. */
typedef struct visiting {
  const adji_haloing *h;
  const double *x, *widths; /* widths NULL: it reaches everything */
  uint32_t home, row;
  adji_visit_list *list;
} visiting;

double adji_split_width(const adj_split *split, double radius, uint32_t j) {
  double limit = adji_limit(&split->measure, split->type, radius);
  double length = adji_box_length(&split->measure, split->type, j);
  return adji_grid_width(split->type, &split->measure, limit, j) + SPLIT_SLACK * length;
}

static void width_of(const adj_split *split, double radius, double *widths) {
  for (uint32_t j = 0; j < split->cuts.dim; j++) /* without a box: the same in every dimension */
    widths[j] = j && !split->box ? widths[0] : adji_split_width(split, radius, j);
}

static bool is_beyond(const visiting *v, uint64_t node) {
  const adj_split *split = v->h->p.split;
  uint64_t dim = split->cuts.dim;
  const double *low = v->h->low + node * dim, *high = v->h->high + node * dim;
  if (low[0] > high[0]) return true; /* no point has its home there */
  for (uint32_t j = 0; j < dim && v->widths; j++) {
    double x = v->x[j], width = v->widths[j];
    if (!(low[j] - x > width || x - high[j] > width)) continue;
    double length = adji_box_length(&split->measure, split->type, j);
    /* The images, in an order that does not overflow: x is above or below the box by less than the length. */
    if (!(length > 0) || ((x - high[j]) + length > width && (low[j] - x) + length > width)) return true;
  }
  return false;
}

static void visit(visiting *v, uint32_t node) {
  const adji_cut *cut = &v->h->p.split->cuts.nodes[node];
  if (is_beyond(v, node)) return;
  if (cut->below != node) {
    visit(v, cut->below);
    visit(v, cut->below + 1);
  } else if (cut->region != v->home) {
    v->list->items[v->list->count++] = (adji_visit){v->row, cut->region};
  }
}

/* Most points are so far inside the cell of their home that everything within their reach has its home there too:
 * x - low > width, which holds in exact arithmetic if it holds rounded, because width is a double. */
static bool stays_home(const adji_haloing *h, uint64_t i, uint32_t home, const double *widths) {
  uint64_t dim = h->p.split->cuts.dim, cells = dim * h->p.split->cuts.count;
  const double *low = h->cells + home * dim, *high = low + cells;
  bool in = true;
  for (uint32_t j = 0; j < dim; j++) {
    double x = adji_dataset_at(h->p.points, i, j);
    in = in & (x - low[j] > widths[j]) & (high[j] - x > widths[j]);
  }
  return in;
}

/* The same for one margin per region and dimension: a point stays if it lies strictly between two values of T in each
 * dimension. These are low + margin, rounded up, and high - margin, rounded down, so x > low + margin holds in exact
 * arithmetic. */
#define INNER(T, NEXT)                                                                                      \
  static void set_inner_##T(const adji_haloing *h, uint64_t cells) {                                        \
    T *inner = h->inner;                                                                                    \
    for (uint64_t i = 0; i < cells; i++) {                                                                  \
      double low = nextafter(h->cells[i] + h->margins[i], INFINITY);                                        \
      double high = nextafter(h->cells[cells + i] - h->margins[i], -INFINITY);                              \
      inner[2 * i] = (double)(T)low < low ? NEXT((T)low, (T)INFINITY) : (T)low;                             \
      inner[2 * i + 1] = (double)(T)high > high ? NEXT((T)high, -(T)INFINITY) : (T)high;                    \
    }                                                                                                       \
  }                                                                                                         \
  static inline uint64_t find_in_##T(const adji_haloing *h, uint64_t first, uint64_t many, uint32_t region, \
                                     uint32_t dim) {                                                        \
    const adj_dataset *set = h->p.points;                                                                   \
    uint64_t row_stride = set->row_stride, column_stride = set->column_stride, leavers = 0;                 \
    const T *boxes = h->inner;                                                                              \
    for (uint64_t i = 0; i < many; i++) {                                                                   \
      const char *row = set->data + (first + i) * row_stride;                                               \
      const T *inner = boxes + (uint64_t)2 * dim * (h->home ? h->home[first + i] : region);                 \
      bool in = true;                                                                                       \
      for (uint32_t j = 0; j < dim; j++, inner += 2) {                                                      \
        T x = *(const T *)(const void *)(row + j * column_stride);                                          \
        in = in & (x > inner[0]) & (x < inner[1]);                                                          \
      }                                                                                                     \
      leavers |= (uint64_t)!in << i;                                                                        \
    }                                                                                                       \
    return leavers;                                                                                         \
  }                                                                                                         \
  static uint64_t find_leavers_##T(const adji_haloing *h, uint64_t first, uint64_t many, uint32_t region) { \
    uint32_t dim = h->p.split->cuts.dim;                                                                    \
    if (dim == 2) return find_in_##T(h, first, many, region, 2);                                            \
    if (dim == 3) return find_in_##T(h, first, many, region, 3);                                            \
    return find_in_##T(h, first, many, region, dim);                                                        \
  }
INNER(float, nextafterf)
INNER(double, nextafter)

uint64_t adji_halo_leavers(const adji_haloing *h, uint64_t first, uint64_t many, uint32_t region) {
  if (!h->inner || (!h->home && region == ADJI_NO_REGION)) return many ? UINT64_MAX >> (ADJI_HALO_BLOCK - many) : 0;
  return h->p.points->type == ADJ_F64 ? find_leavers_double(h, first, many, region)
                                      : find_leavers_float(h, first, many, region);
}

/* Widths of rounded radii, of a slice: few differ. */
enum { WIDTHS = 256 };
typedef struct width_table {
  uint64_t keys[WIDTHS];
  double widths[WIDTHS];
} width_table;

/* Whether a point stays at home by the width of a somewhat larger radius, which is found in a table. Pairs within a
 * radius are within a larger one. Not in a box, where widths differ by dimension. */
static bool surely_stays(const adji_haloing *h, uint64_t i, width_table *table, double *widths) {
  double radius = h->radii[i];
  if (h->p.split->box || !(radius >= 0) || isinf(radius)) return false;
  uint64_t bits;
  memcpy(&bits, &radius, 8);
  bits = (bits >> 48) + 1; /* four bits of the fraction */
  uint64_t place = bits % WIDTHS, rounded = bits << 48;
  if (table->keys[place] != bits) {
    double larger;
    memcpy(&larger, &rounded, 8);
    if (isinf(larger)) return false;
    width_of(h->p.split, larger, widths);
    table->keys[place] = bits;
    table->widths[place] = widths[0];
  }
  for (uint32_t j = 0; j < h->p.split->cuts.dim; j++)
    widths[j] = table->widths[place];
  return stays_home(h, i, h->home[i], widths);
}

/* What a slice needs: coordinates and widths of one point, and a table. */
typedef struct slice_room {
  double *x, *widths;
  width_table table;
} slice_room;

static bool make_room(const adj_split *split, adji_visit_list *list) {
  enum { FIRST = 1024 };
  uint64_t wanted = list->count + split->cuts.count;
  if (wanted <= list->room) return true;
  list->room = 2 * wanted + FIRST;
  return adji_grow(&split->ctx->memory, (void **)&list->items, list->room, sizeof *list->items,
                   list->count * sizeof *list->items, "points of halos");
}

/* A point that may reach other regions. */
static adj_status halo_point(const adji_haloing *h, uint64_t i, slice_room *room, adji_visit_list *list) {
  const adj_split *split = h->p.split;
  const double *widths = h->widths;
  if (h->radii) {
    if (h->home && surely_stays(h, i, &room->table, room->widths)) return ADJ_OK;
    widths = isinf(h->radii[i]) ? NULL : room->widths;
    if (widths) width_of(split, h->radii[i], room->widths);
    if (h->home && widths && stays_home(h, i, h->home[i], widths)) return ADJ_OK;
  }
  if (!make_room(split, list)) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < split->cuts.dim; j++)
    room->x[j] = adji_dataset_at(h->p.points, i, j);
  visiting v = {h, room->x, widths, h->home ? h->home[i] : ADJI_NO_REGION, (uint32_t)i, list};
  visit(&v, 0);
  return ADJ_OK;
}

static adj_status halo_slice(void *user, uint64_t slice, uint32_t lane) {
  (void)lane;
  const adji_haloing *h = user;
  const adj_split *split = h->p.split;
  uint64_t begin, end, dim = split->cuts.dim;
  slice_room *room = adji_alloc_zero(&split->ctx->memory, 1, sizeof *room + 2 * dim * sizeof(double), "regions");
  if (!room) return ADJ_E_MEMORY;
  room->x = (double *)(void *)(room + 1);
  room->widths = room->x + dim;
  adj_status status = ADJ_OK;
  adji_slice(h->p.points->count, h->p.slices, slice, &begin, &end);
  for (uint64_t i = begin; i < end; i += ADJI_HALO_BLOCK)
    for (uint64_t l = adji_halo_leavers(h, i, end - i < ADJI_HALO_BLOCK ? end - i : ADJI_HALO_BLOCK, ADJI_NO_REGION);
         l && !status; l &= l - 1)
      status = halo_point(h, i + (uint64_t)__builtin_ctzll(l), room, &h->lists[slice]);
  adji_free(&split->ctx->memory, room);
  return status;
}

/* ---- Visits --------------------------------------------------------------------------------------------------- */

/* Cells that are wider by the width of a reach, rounded outwards; empty ones where there is no halo. `wide` has room
 * for all cells. */
static void widen_cells(const adji_haloing *h, const adji_region_boxes *wide) {
  const adj_split *split = h->p.split;
  uint64_t dim = split->cuts.dim, cells = split->cuts.count * dim;
  for (uint64_t i = 0; i < cells; i++) {
    double reach = h->reaches[i / dim], width = adji_split_width(split, reach, (uint32_t)(i % dim));
    wide->low[i] = reach > 0 ? nextafter(h->cells[i] - width, -INFINITY) : INFINITY;
    wide->high[i] = reach > 0 ? nextafter(h->cells[cells + i] + width, INFINITY) : -INFINITY;
  }
}

static bool meets(const adji_haloing *h, const adji_region_boxes *wide, uint64_t region, uint64_t other) {
  uint64_t dim = h->p.split->cuts.dim, cells = h->p.split->cuts.count * dim;
  for (uint64_t j = 0; j < dim; j++)
    if (wide->low[region * dim + j] > h->cells[cells + other * dim + j] ||
        wide->high[region * dim + j] < h->cells[other * dim + j])
      return false;
  return true;
}

/* The margins of a region are the widths of the regions whose wide cells meet its cell. With many regions, or in a
 * box, where images meet too, they are those of all regions. */
static void set_margins(const adji_haloing *h, const adji_region_boxes *wide) {
  enum { MANY = 1024 };
  const adj_split *split = h->p.split;
  uint64_t dim = split->cuts.dim, regions = split->cuts.count;
  bool all = split->box || regions > MANY;
  for (uint64_t r = 0; r < regions; r++)
    for (uint64_t other = 0; other < (all ? 1 : regions) && h->reaches[r] > 0; other++)
      for (uint64_t j = 0; j < dim && (all || (other != r && meets(h, wide, r, other))); j++)
        h->margins[other * dim + j] =
            fmax(h->margins[other * dim + j], adji_split_width(split, h->reaches[r], (uint32_t)j));
  for (uint64_t i = dim; i < regions * dim && all; i++)
    h->margins[i] = h->margins[i - dim];
}

/* Halos of given reaches are found by the boxes of nodes with wide cells, and without a width of the points. */
static adj_status open_reaches(adji_haloing *h) {
  const adj_split *split = h->p.split;
  uint64_t cells = (uint64_t)split->cuts.count * split->cuts.dim;
  double *boxes = adji_alloc(&split->ctx->memory, 6 * cells, sizeof *boxes, "regions");
  if (!boxes) return ADJ_E_MEMORY;
  h->boxes = boxes;
  adji_region_boxes wide = {boxes, boxes + cells}, nodes = {boxes + 2 * cells, boxes + 4 * cells};
  widen_cells(h, &wide);
  adji_split_box_nodes(split, &wide, &nodes);
  h->low = nodes.low;
  h->high = nodes.high;
  memset(h->widths, 0, split->cuts.dim * sizeof *h->widths);
  set_margins(h, &wide);
  return ADJ_OK;
}

static adj_status open_widths(adji_haloing *h) {
  const adj_split *split = h->p.split;
  uint64_t dim = split->cuts.dim, cells = split->cuts.count * dim;
  if (h->reaches) return open_reaches(h);
  if (h->radii || !h->widths) return ADJ_OK;
  width_of(split, split->spec.radius, h->widths);
  for (uint64_t i = 0; i < cells; i++)
    h->margins[i] = h->widths[i % dim];
  return ADJ_OK;
}

adj_status adji_halo_open(adji_haloing *h, const adj_dataset *points) {
  const adj_split *split = h->p.split;
  adji_memory *memory = &split->ctx->memory;
  adj_status status = adji_split_open_part(split, points, &h->p);
  if (!status) status = adji_split_check_home(split, points, h->home);
  if (status) return status;
  bool everywhere = !h->radii && !h->reaches && isinf(split->spec.radius);
  uint64_t cells = (uint64_t)split->cuts.count * split->cuts.dim;
  h->low = split->low;
  h->high = split->high;
  if (!everywhere) h->widths = adji_alloc(memory, split->cuts.dim, sizeof *h->widths, "regions");
  h->cells = adji_alloc(memory, 2 * cells, sizeof *h->cells, "regions");
  h->margins = adji_alloc_zero(memory, cells, sizeof *h->margins, "regions");
  if ((!everywhere && !h->widths) || !h->cells || !h->margins) return ADJ_E_MEMORY;
  adji_split_cells(split, h->cells, h->cells + cells);
  status = open_widths(h);
  if (status || !h->widths || h->radii) return status;
  h->inner = adji_alloc(memory, 2 * cells, adji_type_size(h->p.points->type), "regions");
  if (!h->inner) return ADJ_E_MEMORY;
  if (h->p.points->type == ADJ_F64)
    set_inner_double(h, cells);
  else
    set_inner_float(h, cells);
  return ADJ_OK;
}

void adji_halo_close(adji_haloing *h) {
  adji_memory *memory = &h->p.split->ctx->memory;
  adji_free(memory, h->widths);
  adji_free(memory, h->cells);
  adji_free(memory, h->margins);
  adji_free(memory, h->boxes);
  adji_free(memory, h->inner);
  for (uint64_t i = 0; h->lists && i < h->p.slices; i++)
    adji_free(memory, h->lists[i].items);
  adji_free(memory, h->lists);
  adj_dataset_destroy(h->p.derived);
}

/* Puts the visits of all slices into one array. */
static adj_status join_lists(const adji_haloing *h, adji_visit **visits, uint64_t *count) {
  *count = 0;
  for (uint64_t i = 0; i < h->p.slices; i++)
    *count += h->lists[i].count;
  *visits = adji_alloc(&h->p.split->ctx->memory, *count + 1, sizeof **visits, "points of halos");
  if (!*visits) return ADJ_E_MEMORY;
  adji_visit *to = *visits;
  for (uint64_t i = 0; i < h->p.slices; to += h->lists[i].count, i++)
    if (h->lists[i].count) memcpy(to, h->lists[i].items, h->lists[i].count * sizeof *to);
  return ADJ_OK;
}

static adj_status find_visits(adji_haloing *h, const adj_dataset *points, adji_visit **visits, uint64_t *count) {
  const adj_split *split = h->p.split;
  adji_call outer = adji_call_begin(&split->ctx->cancels);
  *visits = NULL;
  adj_status status = adji_halo_open(h, points);
  if (!status) h->lists = adji_alloc_zero(&split->ctx->memory, h->p.slices, sizeof *h->lists, "regions");
  if (!status && !h->lists) status = ADJ_E_MEMORY;
  if (!status) status = adji_loop(split->ctx, h->p.slices, halo_slice, h);
  if (!status) status = join_lists(h, visits, count);
  adji_halo_close(h);
  adji_call_set(outer);
  return status;
}

adj_status adji_split_visits(const adj_split *split, const adj_dataset *points, const uint32_t *home,
                             const double *radii, adji_visit **visits, uint64_t *count) {
  adji_haloing h = {.p.split = split, .home = home, .radii = radii};
  return find_visits(&h, points, visits, count);
}

adj_status adji_split_halos(const adj_split *split, const adj_dataset *points, const uint32_t *home,
                            const double *reaches, adji_visit **visits, uint64_t *count) {
  adji_haloing h = {.p.split = split, .home = home, .reaches = reaches};
  return find_visits(&h, points, visits, count);
}

adj_status adj_split_halo(const adj_split *split, const adj_dataset *points, const uint32_t *home, const double *radii,
                          uint64_t *counts, uint32_t *rows) {
  if (!split || !points || !counts) return adji_fail(ADJ_E_ARGUMENT, "split, points and counts: none may be NULL");
  uint64_t regions = split->cuts.count, many = 0;
  adji_visit *visits = NULL;
  uint64_t *next = adji_alloc_zero(&split->ctx->memory, regions, sizeof *next, "regions");
  adj_status status = next ? adji_split_visits(split, points, home, radii, &visits, &many) : ADJ_E_MEMORY;
  if (!status && rows) memcpy(next, counts, regions * sizeof *next);
  for (uint64_t i = 0; i < many && !status; i++) {
    uint64_t at = next[visits[i].region]++;
    if (rows) rows[at] = visits[i].row;
  }
  if (!status && !rows) memcpy(counts, next, regions * sizeof *next);
  adji_free(&split->ctx->memory, visits);
  adji_free(&split->ctx->memory, next);
  return status;
}
