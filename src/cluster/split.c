/* SPDX-License-Identifier: MIT
 *
 * Makes a split: the work of sampled points, and cuts of equal weight. Saves it as bytes and loads it again.
 */
#include "cluster/split.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "data/derive.h"

/* ---- The work of sampled points -------------------------------------------------------------------------- */

static adj_status count_neighbours(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *sample,
                                   uint32_t *degrees) {
  adj_join_spec mine = *spec;
  adj_plan *plan = NULL;
  mine.backend = ADJ_BACKEND_CPU;
  mine.flags = 0;
  mine.algorithm = mine.tuning = mine.system = NULL;
  adj_status status = adj_plan_create(ctx, &mine, sample, NULL, &plan);
  if (!status) status = adj_count(plan, degrees, NULL, NULL, NULL);
  adj_plan_destroy(plan);
  return status;
}

/* Estimates the number of neighbours from the density around a point, for points with fewer than DENSITY_NEIGHBOURS
 * neighbours in the sample. DENSITY_NEIGHBOURS points lie within the distance of the last of them, and the number of
 * points grows as distance^dim. */
enum { DENSITY_NEIGHBOURS = 8 };

static adj_status refine_by_density(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *sample,
                                    const uint32_t *degrees, double scale, double *neighbours) {
  adj_join_spec near = *spec;
  adj_plan *plan = NULL;
  adj_result *result = NULL;
  near.kind = ADJ_KNN;
  near.k = DENSITY_NEIGHBOURS;
  near.radius = INFINITY;
  near.flags = ADJ_WITH_DISTANCE;
  near.order = ADJ_ORDER_ID;
  near.backend = ADJ_BACKEND_CPU;
  near.algorithm = near.tuning = near.system = NULL;
  adj_status status = adj_plan_create(ctx, &near, sample, NULL, &plan);
  if (!status) status = adj_collect(plan, &result, NULL, NULL);
  const void *distances = status ? NULL : adj_result_distances(result);
  for (uint64_t i = 0; i < sample->count && !status; i++) {
    uint64_t last = i * DENSITY_NEIGHBOURS + DENSITY_NEIGHBOURS - 1;
    double reach = sample->type == ADJ_F64 ? ((const double *)distances)[last] : ((const float *)distances)[last];
    if (degrees[i] < DENSITY_NEIGHBOURS && reach > 0 && spec->radius < reach)
      neighbours[i] = scale * DENSITY_NEIGHBOURS * pow(spec->radius / reach, sample->dim);
  }
  adj_result_destroy(result);
  adj_plan_destroy(plan);
  return status;
}

static adj_status weigh(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *sample, uint64_t total,
                        double *weights) {
  double scale = (double)total / (double)(sample->count + !sample->count), pairs = 0;
  for (uint64_t i = 0; i < sample->count; i++)
    weights[i] = spec->k;
  if (spec->kind == ADJ_RANGE) {
    uint32_t *degrees = adji_alloc(&ctx->memory, sample->count, sizeof *degrees, "sampled points");
    if (!degrees) return ADJ_E_MEMORY;
    adj_status status = count_neighbours(ctx, spec, sample, degrees);
    for (uint64_t i = 0; i < sample->count && !status; i++) {
      weights[i] = degrees[i] * scale;
      pairs += degrees[i];
    }
    if (!status && scale > 1 && pairs < DENSITY_NEIGHBOURS * (double)sample->count)
      status = refine_by_density(ctx, spec, sample, degrees, scale, weights);
    adji_free(&ctx->memory, degrees);
    if (status) return status;
  }
  for (uint64_t i = 0; i < sample->count; i++)
    weights[i] = adji_query_work(weights[i]);
  return ADJ_OK;
}

static adj_status take_spec(const adj_join_spec *spec, adj_join_spec *out) {
  adj_join_spec_init(out, sizeof *out);
  adj_status status = adji_take_struct(out, sizeof *out, spec, "adj_join_spec");
  if (!status && out->metric == ADJ_DOT)
    return adji_fail(ADJ_E_UNSUPPORTED, "metric: inner products are no distance, so space cannot be split for them");
  return status;
}

adj_status adj_split_weights(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *sample, uint64_t total,
                             double *weights) {
  if (!ctx || !spec || !sample || !weights)
    return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, sample and weights: none may be NULL");
  adj_join_spec mine;
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = take_spec(spec, &mine);
  if (!status) status = weigh(ctx, &mine, sample, total, weights);
  adji_call_set(outer);
  return status;
}

/* ---- Boxes of nodes ------------------------------------------------------------------------------------------ */

static void box_below(const adj_split *split, uint32_t node, const adji_region_boxes *regions,
                      const adji_region_boxes *nodes) {
  const adji_cut *cut = &split->cuts.nodes[node];
  uint64_t dim = split->cuts.dim;
  double *lows = nodes->low + node * dim, *highs = nodes->high + node * dim;
  if (cut->below == node) {
    memcpy(lows, regions->low + cut->region * dim, dim * sizeof *lows);
    memcpy(highs, regions->high + cut->region * dim, dim * sizeof *highs);
    return;
  }
  box_below(split, cut->below, regions, nodes);
  box_below(split, cut->below + 1, regions, nodes);
  for (uint64_t j = 0, a = cut->below * dim; j < dim; j++) {
    lows[j] = fmin(nodes->low[a + j], nodes->low[a + dim + j]);
    highs[j] = fmax(nodes->high[a + j], nodes->high[a + dim + j]);
  }
}

void adji_split_box_nodes(const adj_split *split, const adji_region_boxes *regions, const adji_region_boxes *nodes) {
  box_below(split, 0, regions, nodes);
}

adj_status adj_split_set_bounds(adj_split *split, const double *low, const double *high) {
  if (!split || !low || !high) return adji_fail(ADJ_E_ARGUMENT, "split, low and high: none may be NULL");
  adji_region_boxes regions = {(double *)low, (double *)high};
  adji_split_box_nodes(split, &regions, &(adji_region_boxes){split->low, split->high});
  return ADJ_OK;
}

void adji_split_cells(const adj_split *split, double *low, double *high) {
  adji_cuts_cells(&split->cuts, low, high);
  for (uint64_t i = 0; split->box && i < (uint64_t)split->cuts.count * split->cuts.dim; i++) {
    double length = adji_box_length(&split->measure, split->type, (uint32_t)(i % split->cuts.dim));
    if (!(length > 0)) continue;
    low[i] = fmax(low[i], 0);
    high[i] = fmin(high[i], length);
  }
}

static adj_status box_cells(adj_split *split) {
  uint64_t dim = split->cuts.dim, nodes = 2 * (uint64_t)split->cuts.count, values = dim * nodes;
  adji_memory *memory = &split->ctx->memory;
  double *cells = adji_alloc(memory, values, sizeof *cells, "regions");
  split->low = adji_alloc(memory, values, sizeof *split->low, "regions");
  split->high = adji_alloc(memory, values, sizeof *split->high, "regions");
  if (cells && split->low && split->high) {
    adji_region_boxes regions = {cells, cells + values / 2};
    adji_split_cells(split, regions.low, regions.high);
    adji_split_box_nodes(split, &regions, &(adji_region_boxes){split->low, split->high});
  }
  adji_free(memory, cells);
  return cells && split->low && split->high ? ADJ_OK : ADJ_E_MEMORY;
}

/* ---- Life -------------------------------------------------------------------------------------------------- */

static adj_status describe(adj_ctx *ctx, const adj_join_spec *spec, adj_type type, uint32_t dim, adj_split **out) {
  adj_split *split = calloc(1, sizeof *split);
  if (!split) return adji_fail(ADJ_E_MEMORY, "no memory for a split");
  *split = (adj_split){.ctx = ctx, .type = type, .point_dim = dim};
  adj_status status = take_spec(spec, &split->spec);
  if (!status && split->spec.box_count > 1 && split->spec.box_count != dim)
    status = adji_fail(ADJ_E_ARGUMENT, "box: %u lengths for points of %u dimensions", split->spec.box_count, dim);
  if (!status) status = adji_describe_measure(ctx, &split->spec, type, dim, &split->measure, &split->box);
  split->spec.box = split->spec.radii = NULL;
  split->spec.algorithm = split->spec.tuning = split->spec.system = NULL;
  *out = split;
  return status;
}

static adj_status cut(adj_split *split, const adj_dataset *points, const double *weights, uint32_t regions) {
  uint64_t dim = points->dim;
  double *x = adji_alloc(&split->ctx->memory, adji_mul(points->count + 1, dim), sizeof *x, "sampled points");
  if (!x) return ADJ_E_MEMORY;
  for (uint64_t i = 0; i < points->count; i++)
    for (uint32_t j = 0; j < dim; j++)
      x[i * dim + j] = adji_dataset_at(points, i, j);
  adji_cut_sample sample = {x, weights, (uint32_t)points->count, (uint32_t)dim};
  adj_status status = adji_cuts_of(split->ctx, &sample, regions, &split->cuts);
  adji_free(&split->ctx->memory, x);
  return status ? status : box_cells(split);
}

static adj_status create(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *sample, const double *weights,
                         uint32_t regions, adj_split **out) {
  adj_split *split = NULL;
  adj_dataset *derived = NULL;
  for (uint64_t i = 0; weights && i < sample->count; i++)
    if (!(weights[i] >= 0 && weights[i] < INFINITY))
      return adji_fail(ADJ_E_ARGUMENT, "weights[%llu]: %g is no weight", (unsigned long long)i, weights[i]);
  adj_status status = describe(ctx, spec, sample->type, sample->dim, &split);
  if (!status && adji_metric_derives(split->spec.metric))
    status = adji_derive(ctx, sample, split->spec.metric, split->spec.angle, &derived);
  if (!status) status = cut(split, derived ? derived : sample, weights, regions);
  adj_dataset_destroy(derived);
  if (status)
    adj_split_destroy(split);
  else
    *out = split;
  return status;
}

adj_status adj_split_create(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *sample, const double *weights,
                            uint32_t regions, adj_split **out) {
  if (!ctx || !spec || !sample || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, sample and out: none may be NULL");
  if (!regions || regions > ADJI_MOST_REGIONS)
    return adji_fail(ADJ_E_ARGUMENT, "regions: %u is not 1 to %d", regions, ADJI_MOST_REGIONS);
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = create(ctx, spec, sample, weights, regions, out);
  adji_call_set(outer);
  return status;
}

void adj_split_destroy(adj_split *split) {
  if (!split) return;
  adji_memory *memory = &split->ctx->memory;
  adji_cuts_clear(split->ctx, &split->cuts);
  adji_free(memory, split->box);
  adji_free(memory, split->low);
  adji_free(memory, split->high);
  free(split);
}

uint32_t adj_split_regions(const adj_split *split) {
  return split->cuts.count;
}

uint32_t adj_split_dim(const adj_split *split) {
  return split->cuts.dim;
}

/* ---- Bytes --------------------------------------------------------------------------------------------------- */

static const char MAGIC[8] = "adjsplt1";

typedef struct header {
  char magic[8];
  uint32_t dim, count, depth;
  uint32_t space; /* what the cuts are of: see space_of() */
} header;

/* The type of the points, and the metric if it is measured on points that it derives. */
static uint32_t space_of(const adj_split *split) {
  uint32_t metric = adji_metric_derives(split->spec.metric) ? (uint32_t)split->spec.metric : 0;
  return (uint32_t)split->type | metric << 8;
}

static uint64_t node_count(uint32_t regions) {
  return 2 * (uint64_t)regions - 1;
}

static uint64_t box_bytes(uint32_t regions, uint32_t dim) {
  return adji_mul(node_count(regions) * sizeof(double), dim);
}

adj_status adj_split_save(const adj_split *split, void *buffer, uint64_t capacity, uint64_t *needed) {
  if (!split) return adji_fail(ADJ_E_ARGUMENT, "split: may not be NULL");
  const adji_cuts *cuts = &split->cuts;
  uint64_t nodes = node_count(cuts->count) * sizeof *cuts->nodes, boxes = box_bytes(cuts->count, cuts->dim);
  uint64_t all = sizeof(header) + nodes + 2 * boxes;
  if (needed) *needed = all;
  if (!buffer || capacity < all) return ADJ_OK;
  header head = {.dim = cuts->dim, .count = cuts->count, .depth = cuts->depth, .space = space_of(split)};
  memcpy(head.magic, MAGIC, sizeof MAGIC);
  char *to = buffer;
  memcpy(to, &head, sizeof head);
  memcpy(to + sizeof head, cuts->nodes, nodes);
  memcpy(to + sizeof head + nodes, split->low, boxes);
  memcpy(to + sizeof head + nodes + boxes, split->high, boxes);
  return ADJ_OK;
}

/* The nodes and regions found so far, and the largest depth. */
typedef struct tree_walk {
  uint32_t nodes, regions, depth;
} tree_walk;

enum { MOST_DEPTH = 64 };

/* Whether the nodes below a node are numbered as adji_cuts_of does it: two new nodes for each cut, and regions from the
 * left. */
static bool walk_tree(const adji_cuts *cuts, uint32_t node, uint32_t depth, tree_walk *met) {
  const adji_cut *cut = &cuts->nodes[node];
  if (depth > met->depth) met->depth = depth;
  if (cut->dim >= cuts->dim) return false;
  if (cut->below == node) return cut->region == met->regions++;
  if (depth == MOST_DEPTH || cut->below != met->nodes) return false;
  met->nodes += 2;
  if (met->nodes > node_count(cuts->count)) return false;
  return walk_tree(cuts, cut->below, depth + 1, met) && walk_tree(cuts, cut->below + 1, depth + 1, met);
}

static bool is_tree(const adji_cuts *cuts) {
  tree_walk met = {.nodes = 1};
  return walk_tree(cuts, 0, 0, &met) && met.nodes == node_count(cuts->count) && met.regions == cuts->count &&
         met.depth == cuts->depth;
}

static adj_status read_bytes(adj_split *split, const char *bytes, uint64_t size) {
  header head;
  adj_status wrong = adji_fail(ADJ_E_FORMAT, "bytes: not a split of such points");
  if (size < sizeof head) return wrong;
  memcpy(&head, bytes, sizeof head);
  uint32_t dim = split->spec.metric == ADJ_HAVERSINE ? 3 : split->point_dim;
  if (memcmp(head.magic, MAGIC, sizeof MAGIC) != 0 || head.dim != dim || head.space != space_of(split) || !head.count ||
      head.count > ADJI_MOST_REGIONS)
    return wrong;
  uint64_t nodes = node_count(head.count) * sizeof(adji_cut), boxes = box_bytes(head.count, dim);
  if (size != sizeof head + nodes + 2 * boxes) return wrong;
  adji_memory *memory = &split->ctx->memory;
  split->cuts = (adji_cuts){.dim = dim, .count = head.count, .depth = head.depth};
  split->cuts.nodes = adji_alloc(memory, nodes, 1, "cuts");
  split->low = adji_alloc(memory, boxes, 1, "regions");
  split->high = adji_alloc(memory, boxes, 1, "regions");
  if (!split->cuts.nodes || !split->low || !split->high) return ADJ_E_MEMORY;
  memcpy(split->cuts.nodes, bytes + sizeof head, nodes);
  memcpy(split->low, bytes + sizeof head + nodes, boxes);
  memcpy(split->high, bytes + sizeof head + nodes + boxes, boxes);
  return is_tree(&split->cuts) ? ADJ_OK : adji_fail(ADJ_E_FORMAT, "bytes: the cuts of the split are no tree");
}

adj_status adj_split_load(adj_ctx *ctx, const adj_join_spec *spec, adj_type type, uint32_t dim, const void *bytes,
                          uint64_t size, adj_split **out) {
  if (!ctx || !spec || !bytes || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, bytes and out: none may be NULL");
  adj_split *split = NULL;
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = adji_check_shape(type, dim, 0);
  if (!status) status = describe(ctx, spec, type, dim, &split);
  if (!status) status = read_bytes(split, bytes, size);
  adji_call_set(outer);
  if (status)
    adj_split_destroy(split);
  else
    *out = split;
  return status;
}
