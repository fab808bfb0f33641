/* SPDX-License-Identifier: MIT
 *
 * Cuts: see cuts.h.
 */
#include "index/cuts.h"

#include <math.h>
#include <string.h>

/* PER_REGION: sampled points per region, so that the sizes of regions differ by about 1 / 16. SPREAD_OF: points from
 * which the spread of a dimension is computed. */
enum { PER_REGION = 256, LEAST_SAMPLE = 4096, MOST_SAMPLE = 1 << 16, SPREAD_OF = 64 };

typedef struct cutter {
  adji_cuts *cuts;
  const double *x;       /* the sample, point by point */
  const double *weights; /* weights of the sampled points; NULL: all weigh the same */
  uint32_t *order;
  uint32_t nodes;
} cutter;

/* ---- The sample -------------------------------------------------------------------------------------- */

typedef struct sampling {
  const adj_dataset *set;
  double *x;
  uint64_t count;
} sampling;

/* Takes one point of each of `count` equal stretches, at a hashed offset that follows no regular pattern of the
 * rows. */
static void sample_some(void *user, uint64_t begin, uint64_t end) {
  const sampling *s = user;
  for (uint64_t i = begin; i < end; i++) {
    uint64_t first, last, hash = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);
    adji_slice(s->set->count, s->count, i, &first, &last);
    uint64_t row = first + (hash ^ hash >> 29) % (last - first);
    for (uint32_t j = 0; j < s->set->dim; j++)
      s->x[i * s->set->dim + j] = adji_dataset_at(s->set, row, j);
  }
}

/* ---- Cutting ----------------------------------------------------------------------------------------- */

static double value_at(const cutter *c, uint32_t i, uint32_t dim) {
  return c->x[(uint64_t)c->order[i] * c->cuts->dim + dim];
}

/* The extent of a dimension without the outermost values, which may be outliers. */
static double spread_of(const cutter *c, uint32_t first, uint32_t end, uint32_t dim) {
  double some[SPREAD_OF];
  uint32_t count = end - first < SPREAD_OF ? end - first : SPREAD_OF;
  if (!count) return 0;
  for (uint32_t i = 0; i < count; i++) {
    double x = value_at(c, first + (uint32_t)((uint64_t)i * (end - first) / count), dim);
    uint32_t at = i;
    for (; at && some[at - 1] > x; at--)
      some[at] = some[at - 1];
    some[at] = x;
  }
  return some[count - 1 - count / 16] - some[count / 16];
}

static uint32_t widest_of(const cutter *c, uint32_t first, uint32_t end, double *spread) {
  uint32_t widest = 0;
  *spread = -1;
  for (uint32_t j = 0; j < c->cuts->dim; j++) {
    double dim_spread = spread_of(c, first, end, j);
    if (dim_spread > *spread) {
      *spread = dim_spread;
      widest = j;
    }
  }
  return widest;
}

/* Reorders [first, end) so that the point of rank `rank` along the dimension is in place (quickselect). */
static void select_rank(cutter *c, uint32_t first, uint32_t end, uint32_t rank, uint32_t dim) {
  while (end - first > 1) {
    double pivot = value_at(c, first + (end - first - 1) / 2, dim); /* not the last, so that both parts shrink */
    int64_t i = (int64_t)first - 1, j = end;
    for (;;) {
      do
        i++;
      while (value_at(c, (uint32_t)i, dim) < pivot);
      do
        j--;
      while (value_at(c, (uint32_t)j, dim) > pivot);
      if (i >= j) break;
      uint32_t swapped = c->order[i];
      c->order[i] = c->order[j];
      c->order[j] = swapped;
    }
    if (rank <= j)
      end = (uint32_t)j + 1;
    else
      first = (uint32_t)j + 1;
  }
}

/* Moves the points below `at` to the front. Returns the beginning of the others. */
static uint32_t divide(cutter *c, uint32_t first, uint32_t end, uint32_t dim, double at) {
  uint32_t middle = first;
  for (uint32_t i = first; i < end; i++)
    if (value_at(c, i, dim) < at) {
      uint32_t swapped = c->order[i];
      c->order[i] = c->order[middle];
      c->order[middle++] = swapped;
    }
  return middle;
}

/* Cuts across a dimension so that about `part` points of [first, end) are below; if many values are equal, the cut is
 * beside them. Returns the first point that is not below; `first` or `end`: there is no cut. */
static uint32_t cut_across(cutter *c, uint32_t first, uint32_t end, uint32_t part, uint32_t dim, double *at) {
  select_rank(c, first, end, first + part, dim);
  *at = value_at(c, first + part, dim);
  uint32_t middle = divide(c, first, end, dim, *at);
  if (middle > first) return middle;
  double next = INFINITY;
  for (uint32_t i = first; i < end; i++)
    if (value_at(c, i, dim) > *at && value_at(c, i, dim) < next) next = value_at(c, i, dim);
  *at = next;
  return divide(c, first, end, dim, next);
}

/* The number of points of [first, end), from the lowest on, that have low / regions of the total weight. The search
 * halves the remaining points each time, so it takes as long as a few passes. */
static uint32_t weigh_part(cutter *c, uint32_t first, uint32_t end, uint64_t low, uint64_t regions, uint32_t dim) {
  if (!c->weights) return (uint32_t)((uint64_t)(end - first) * low / regions);
  double all = 0, below = 0;
  for (uint32_t i = first; i < end; i++)
    all += c->weights[c->order[i]];
  double wanted = all * (double)low / (double)regions;
  uint32_t from = first, to = end;
  while (to - from > 1) {
    uint32_t middle = from + (to - from) / 2;
    double some = 0;
    select_rank(c, from, to, middle, dim);
    for (uint32_t i = from; i < middle; i++)
      some += c->weights[c->order[i]];
    if (below + some > wanted) {
      to = middle;
    } else {
      below += some;
      from = middle;
    }
  }
  return from - first;
}

/* Cuts [first, end) in two, with `low` of the `regions` regions below, across the dimension with the widest spread, or
 * another one if that has no cut. Returns the beginning of the others; `first` or `end`: there is no cut. */
static uint32_t choose_cut(cutter *c, uint32_t first, uint32_t end, uint64_t low, uint64_t regions, adji_cut *node) {
  double spread;
  node->dim = widest_of(c, first, end, &spread);
  uint32_t part = weigh_part(c, first, end, low, regions, node->dim);
  uint32_t middle = cut_across(c, first, end, part, node->dim, &node->at);
  for (uint32_t j = 0; j < c->cuts->dim && (middle == first || middle == end); j++) {
    node->dim = j;
    part = weigh_part(c, first, end, low, regions, j);
    middle = cut_across(c, first, end, part, j, &node->at);
  }
  return middle;
}

/* Makes the node of [first, end), for `regions` regions, and the nodes below it. */
static void make_node(cutter *c, uint32_t number, uint32_t first, uint32_t end, uint64_t regions, uint32_t depth) {
  uint64_t low = regions / 2;
  adji_cut node = {0};
  if (depth > c->cuts->depth) c->cuts->depth = depth;
  uint32_t middle = regions > 1 && end - first > 1 ? choose_cut(c, first, end, low, regions, &node) : first;
  if (middle == first || middle == end) {
    c->cuts->nodes[number] = (adji_cut){(double)NAN, 0, number, c->cuts->count++};
    return;
  }
  node.below = c->nodes;
  c->nodes += 2;
  c->cuts->nodes[number] = node;
  make_node(c, node.below, first, middle, low, depth + 1);
  make_node(c, node.below + 1, middle, end, regions - low, depth + 1);
}

static uint64_t sample_size(uint64_t regions, uint64_t points) {
  uint64_t count = regions * PER_REGION;
  if (count < LEAST_SAMPLE) count = LEAST_SAMPLE;
  if (count > MOST_SAMPLE) count = regions > MOST_SAMPLE / 4 ? 4 * regions : MOST_SAMPLE;
  return count < points ? count : points;
}

adj_status adji_cuts_of(adj_ctx *ctx, const adji_cut_sample *sample, uint64_t wanted, adji_cuts *out) {
  uint64_t regions = wanted < ADJI_MOST_REGIONS ? wanted : ADJI_MOST_REGIONS;
  *out = (adji_cuts){.dim = sample->dim};
  uint32_t *order = adji_alloc(&ctx->memory, (uint64_t)sample->count + 1, sizeof *order, "sampled points");
  out->nodes = adji_alloc(&ctx->memory, 2 * regions + 1, sizeof *out->nodes, "cuts");
  adj_status status = order && out->nodes ? ADJ_OK : ADJ_E_MEMORY;
  if (!status) {
    for (uint32_t i = 0; i < sample->count; i++)
      order[i] = i;
    cutter c = {.cuts = out, .x = sample->x, .weights = sample->weights, .order = order, .nodes = 1};
    make_node(&c, 0, 0, sample->count, regions ? regions : 1, 0);
  }
  adji_free(&ctx->memory, order);
  if (status) adji_cuts_clear(ctx, out);
  return status;
}

adj_status adji_cuts_make(adj_ctx *ctx, const adj_dataset *set, uint64_t wanted, adji_cuts *out) {
  uint64_t regions = wanted < ADJI_MOST_REGIONS ? wanted : ADJI_MOST_REGIONS;
  uint64_t count = sample_size(regions, set->count);
  double *x = adji_alloc(&ctx->memory, adji_mul(count + 1, set->dim), sizeof *x, "sampled points");
  if (!x) return ADJ_E_MEMORY;
  sampling s = {set, x, count};
  adj_status status = count ? adji_loop_slices(ctx, count, ctx->threads, sample_some, &s) : ADJ_OK;
  adji_cut_sample sample = {.x = x, .count = (uint32_t)count, .dim = set->dim};
  if (!status) status = adji_cuts_of(ctx, &sample, regions, out);
  adji_free(&ctx->memory, x);
  return status;
}

void adji_cuts_clear(adj_ctx *ctx, adji_cuts *cuts) {
  adji_free(&ctx->memory, cuts->nodes);
  *cuts = (adji_cuts){0};
}

/* Cuts the cells of the regions below a node, which are numbered from `first` on. Returns the end of their numbers. */
static uint32_t cut_cells(const adji_cuts *cuts, uint32_t node, uint32_t first, double *low, double *high) {
  const adji_cut *cut = &cuts->nodes[node];
  if (cut->below == node) return first + 1;
  uint32_t middle = cut_cells(cuts, cut->below, first, low, high);
  uint32_t end = cut_cells(cuts, cut->below + 1, middle, low, high);
  for (uint64_t i = first; i < end; i++) {
    double *side = (i < middle ? high : low) + i * cuts->dim + cut->dim;
    *side = i < middle ? fmin(*side, cut->at) : fmax(*side, cut->at);
  }
  return end;
}

void adji_cuts_cells(const adji_cuts *cuts, double *low, double *high) {
  for (uint64_t i = 0; i < (uint64_t)cuts->count * cuts->dim; i++) {
    low[i] = -INFINITY;
    high[i] = INFINITY;
  }
  cut_cells(cuts, 0, 0, low, high);
}

/* ---- Spacing ----------------------------------------------------------------------------------------- */

/* SPACED: points per region whose neighbours are searched in the sample. MOST_RANK: the highest rank of a neighbour. */
enum { SPACED = 48, MOST_RANK = 16 };

typedef struct spacing {
  const adji_cuts *cuts;
  const adji_measure *measure;
  const double *x;          /* the sample, region by region */
  const uint64_t *starts;   /* beginning of each region */
  const double *low, *high; /* cells */
  double scale;             /* factor from distances in the sample to distances in the set */
  uint32_t rank;
  double *to;
} spacing;

static double distance_of(const spacing *s, const double *a, const double *b) {
  double sum = 0;
  for (uint32_t j = 0; j < s->cuts->dim; j++) {
    double t = fabs(a[j] - b[j]);
    sum = s->measure->step == ADJI_STEP_L2 ? sum + t * t : s->measure->step == ADJI_STEP_L1 ? sum + t : fmax(sum, t);
  }
  return s->measure->step == ADJI_STEP_L2 ? sqrt(sum) : sum;
}

/* Inserts a value into an ascending list of up to `most` values. Returns its length. */
static uint32_t insert(double *list, uint32_t length, uint32_t most, double value) {
  if (!most || (length == most && !(value < list[most - 1]))) return length;
  uint32_t at = length < most ? length : most - 1;
  for (; at && list[at - 1] > value; at--)
    list[at] = list[at - 1];
  list[at] = value;
  return length < most ? length + 1 : length;
}

/* Counts the sampled points that are within reach of a region's cell in every dimension. */
static uint64_t count_around(const spacing *s, uint64_t region, double reach) {
  uint32_t dim = s->cuts->dim;
  const double *low = s->low + region * dim, *high = s->high + region * dim;
  uint64_t many = 0;
  for (uint64_t i = 0; i < s->starts[s->cuts->count]; i++) {
    bool in = true;
    for (uint32_t j = 0; j < dim; j++)
      in &= s->x[i * dim + j] >= low[j] - reach && s->x[i * dim + j] <= high[j] + reach;
    many += in;
  }
  return many;
}

/* Twice the distance within which nine in ten of the points have enough neighbours; less if many other points are
 * within it. Negative if the sample tells nothing. */
static adj_status space_region(void *user, uint64_t region, uint32_t lane) {
  (void)lane;
  const spacing *s = user;
  uint32_t dim = s->cuts->dim, some = 0;
  uint64_t first = s->starts[region], end = s->starts[region + 1], step = (end - first) / SPACED + 1;
  double found[SPACED] = {0}, nearest[MOST_RANK] = {0};
  for (uint64_t i = first; i < end && some < SPACED; i += step) {
    uint32_t length = 0;
    for (uint64_t j = first; j < end; j++)
      if (j != i) length = insert(nearest, length, s->rank, distance_of(s, s->x + i * dim, s->x + j * dim));
    if (length && length == s->rank) some = insert(found, some, SPACED, nearest[length - 1]);
  }
  double reach = some ? 2 * s->scale * found[some * 9 / 10] : -1;
  for (int tries = 0; tries < 8 && reach >= 0 && count_around(s, region, reach) > (end - first) * 6 / 5 + 1; tries++)
    reach /= 2;
  s->to[region] = reach;
  return ADJ_OK;
}

/* Sorts the sample by region, in two rounds: counts, then places. starts: count + 2 entries, zeroed. */
static void sort_sample(const adji_cuts *cuts, const double *x, uint64_t count, double *to, uint64_t *starts) {
  for (int placing = 0; placing < 2; placing++) {
    for (uint64_t i = 0; i < count; i++) {
      uint32_t node = 0;
      while (cuts->nodes[node].below != node)
        node = cuts->nodes[node].below + (x[i * cuts->dim + cuts->nodes[node].dim] >= cuts->nodes[node].at);
      uint64_t *at = &starts[cuts->nodes[node].region + 1];
      if (placing) memcpy(to + (*at)++ * cuts->dim, x + i * cuts->dim, cuts->dim * sizeof *x);
      if (!placing) at[1]++;
    }
    for (uint32_t i = 0; i < cuts->count && !placing; i++)
      starts[i + 2] += starts[i + 1];
  }
}

adj_status adji_cuts_spacing(adj_ctx *ctx, const adj_dataset *set, const adji_cuts *cuts, const adji_measure *measure,
                             uint32_t k, double *out) {
  adji_memory *memory = &ctx->memory;
  uint64_t count = sample_size(cuts->count, set->count), values = adji_mul(count + 1, set->dim);
  uint64_t cells = (uint64_t)cuts->count * cuts->dim;
  double *x = adji_alloc(memory, values, sizeof *x, "sampled points");
  double *sorted = adji_alloc(memory, values, sizeof *x, "sampled points");
  double *low = adji_alloc(memory, 2 * cells, sizeof *low, "cuts");
  uint64_t *starts = adji_alloc_zero(memory, (uint64_t)cuts->count + 2, sizeof *starts, "sampled points");
  adj_status status = x && sorted && low && starts ? ADJ_OK : ADJ_E_MEMORY;
  sampling sampled = {set, x, count};
  if (!status && count) status = adji_loop_slices(ctx, count, ctx->threads, sample_some, &sampled);
  if (!status) {
    sort_sample(cuts, x, count, sorted, starts);
    adji_cuts_cells(cuts, low, low + cells);
    spacing s = {cuts, measure, sorted, starts, low, low + cells, .rank = k < MOST_RANK ? k : MOST_RANK, .to = out};
    s.scale = pow((double)count / (double)(set->count + !set->count) * k / (s.rank + !s.rank), 1.0 / set->dim);
    status = adji_loop(ctx, cuts->count, space_region, &s);
  }
  void *blocks[] = {x, sorted, low, starts};
  for (int i = 0; i < 4; i++)
    adji_free(memory, blocks[i]);
  return status;
}
