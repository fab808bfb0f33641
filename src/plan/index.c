/* SPDX-License-Identifier: MIT
 *
 * The index: see plan/index.h. Cosine and great-circle distances are L2 distances of derived points: with unit vectors
 * |a - b|^2 = 2 (1 - cos), and a chord determines its arc. So every structure and filter of L2 serves them, and is
 * exact for them too.
 */
#include "plan/index.h"

#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/angles.h"
#include "data/derive.h"

static const double EARTH_RADIUS = 6371008.8; /* metres, the mean of the ellipsoid's axes */

/* ---- The measure ------------------------------------------------------------------------------------ */

static adji_measure measure_of_lp(double p) {
  if (p == 1) return (adji_measure){.step = ADJI_STEP_L1, .report = ADJI_REPORT_SUM};
  if (p == 2) return (adji_measure){.step = ADJI_STEP_L2, .report = ADJI_REPORT_ROOT};
  if (isinf(p)) return (adji_measure){.step = ADJI_STEP_LINF, .report = ADJI_REPORT_SUM};
  adji_measure measure = {.step = ADJI_STEP_LP, .report = ADJI_REPORT_POWER};
  measure.power = (adji_power){.exponent = p, .inverse = 1 / p};
  if (p <= ADJI_MOST_WHOLE && p == (double)(uint32_t)p) measure.power.whole = (uint32_t)p;
  return measure;
}

static double unit_of(const adj_join_spec *spec) {
  if (spec->unit == ADJ_UNIT_DEGREES) return 180 / ADJI_PI;
  if (spec->unit == ADJ_UNIT_RADIANS) return 1;
  return spec->sphere_radius > 0 ? spec->sphere_radius : EARTH_RADIUS;
}

static adji_measure measure_of(const adj_join_spec *spec) {
  switch (spec->metric) {
    case ADJ_L1:
      return measure_of_lp(1);
    case ADJ_LINF:
      return measure_of_lp(INFINITY);
    case ADJ_LP:
      return measure_of_lp(spec->p);
    case ADJ_COSINE:
      return (adji_measure){.step = ADJI_STEP_L2, .report = ADJI_REPORT_HALF};
    case ADJ_DOT:
      return (adji_measure){.step = ADJI_STEP_DOT, .report = ADJI_REPORT_NEGATED};
    case ADJ_HAVERSINE:
      return (adji_measure){.step = ADJI_STEP_L2, .report = ADJI_REPORT_ARC, .unit = unit_of(spec)};
    default:
      return measure_of_lp(2);
  }
}

/* ---- The box ----------------------------------------------------------------------------------------- */

static double length_of(const adj_join_spec *spec, uint32_t j) {
  return spec->box[spec->box_count == 1 ? 0 : j];
}

/* With the digits that tell x from the end of the box. row 0: unknown. */
static adj_status refuse_outside(const adj_dataset *set, uint64_t row, uint32_t j, double x, double length) {
  char where[32] = "";
  int digits = set->type == ADJ_F64 ? 17 : 9;
  for (int fewer = digits - 1; fewer >= 6; fewer--) {
    char text[40];
    snprintf(text, sizeof text, "%.*g", fewer, x);
    bool same = set->type == ADJ_F64 ? strtod(text, NULL) == x : strtof(text, NULL) == (float)x;
    if (!same) break;
    digits = fewer;
  }
  if (row) snprintf(where, sizeof where, "row %llu, ", (unsigned long long)row);
  return adji_fail(ADJ_E_DATA, "%scolumn %u: %.*g is outside of the box, 0 to %.*g: coordinates must be within it",
                   where, j + 1, digits, x, digits, length);
}

adj_status adji_check_inside(const adj_dataset *set, const adji_measure *measure) {
  for (uint32_t j = 0; j < set->dim && set->count; j++) {
    double length = adji_box_length(measure, set->type, j);
    if (!(length > 0) || (set->low[j] >= 0 && set->high[j] <= length)) continue;
    for (uint64_t i = 0; i < set->count; i++) {
      double x = adji_dataset_at(set, i, j);
      if (x < 0 || x > length) return refuse_outside(set, i + 1, j, x, length);
    }
    /* For points on a device only a sample is available here, which need not contain the coordinate. */
    return refuse_outside(set, 0, j, set->low[j] < 0 ? set->low[j] : set->high[j], length);
  }
  return ADJ_OK;
}

/* Lengths in the type of the data, infinite where a dimension is not periodic. */
static adj_status make_box(adj_ctx *ctx, const adj_join_spec *spec, adj_type type, uint32_t dim, void **box) {
  bool periodic = false;
  for (uint32_t i = 0; i < spec->box_count; i++)
    periodic = periodic || spec->box[i] > 0;
  if (!periodic) return ADJ_OK;
  *box = adji_alloc(&ctx->memory, dim, adji_type_size(type), "box");
  if (!*box) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < dim; j++) {
    double length = length_of(spec, j) > 0 ? length_of(spec, j) : INFINITY;
    if (type == ADJ_F64)
      ((double *)*box)[j] = length;
    else
      ((float *)*box)[j] = (float)length;
  }
  return ADJ_OK;
}

adj_status adji_describe_measure(adj_ctx *ctx, const adj_join_spec *spec, adj_type type, uint32_t dim,
                                 adji_measure *measure, void **box) {
  *measure = measure_of(spec);
  adj_status status = make_box(ctx, spec, type, dim, box);
  if (status || !*box) return status;
  measure->step = (adji_step)(measure->step + ADJI_STEP_L2_BOX);
  measure->box = *box;
  return ADJ_OK;
}

/* ---- The sets ---------------------------------------------------------------------------------------- */

bool adji_metric_derives(adj_metric metric) {
  return metric == ADJ_COSINE || metric == ADJ_HAVERSINE;
}

static adj_status prepare_points(adj_index *index) {
  const adj_join_spec *spec = &index->spec;
  const adj_dataset *set = index->set;
  adj_status status = adji_describe_measure(index->ctx, spec, set->type, set->dim, &index->measure, &index->box);
  if (!status && index->box) status = adji_check_inside(set, &index->measure);
  if (!status && adji_metric_derives(spec->metric))
    status = adji_derive(index->ctx, set, spec->metric, spec->angle, &index->derived);
  index->points = index->derived ? index->derived : set;
  return status;
}

/* ---- Life --------------------------------------------------------------------------------------------- */

static adj_index *new_index(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *set, bool kept) {
  adj_index *index = calloc(1, sizeof *index);
  if (!index) {
    adji_fail(ADJ_E_MEMORY, "no memory for an index");
    return NULL;
  }
  *index = (adj_index){.ctx = ctx, .set = set, .spec = *spec, .kept = kept};
  if (kept) adji_memory_keep(&ctx->memory);
  atomic_init(&index->references, 1);
  pthread_mutex_init(&index->building, NULL);
  pthread_mutex_init(&index->lock, NULL);
  pthread_mutex_init(&index->scratch_lock, NULL);
  return index;
}

/* These strings and arrays belong to the caller, who need not keep them. */
static void forget_pointers(adj_index *index) {
  index->spec.algorithm = index->spec.tuning = index->spec.system = NULL;
  index->spec.box = NULL;
  index->spec.radii = NULL;
}

adj_status adji_index_make_on_device(adj_ctx *ctx, const adj_join_spec *spec, adji_index_origin *origin,
                                     const adji_gpu_rows *rows, adj_index **out) {
  adj_index *index = new_index(ctx, spec, &origin->set, true);
  if (!index) {
    adji_index_forget_origin(ctx, origin);
    return ADJ_E_MEMORY;
  }
  index->origin = origin;
  index->points = &origin->points;
  index->rows = *rows;
  adj_status status = adji_describe_measure(ctx, spec, origin->set.type, origin->set.dim, &index->measure, &index->box);
  if (!status && index->box) status = adji_check_inside(&origin->sample, &index->measure);
  forget_pointers(index);
  if (status)
    adji_index_release(index);
  else
    *out = index;
  return status;
}

adj_status adji_index_make(adj_ctx *ctx, const adj_join_spec *spec, const adj_dataset *set, bool kept, const char *name,
                           adj_index **out) {
  adj_index *index = new_index(ctx, spec, set, kept);
  if (!index) return ADJ_E_MEMORY;
  adj_status status = prepare_points(index);
  forget_pointers(index);
  if (status) {
    adji_index_release(index);
    return name ? adji_fail_in(status, name) : status;
  }
  *out = index;
  return ADJ_OK;
}

adj_index *adji_index_share(adj_index *index) {
  atomic_fetch_add(&index->references, 1);
  return index;
}

static void free_grid(adji_kept_grid *grid) {
  adji_range_base_clear(&grid->base);
  free(grid);
}

static void free_tree(adj_index *index) {
  adji_tree *tree = atomic_exchange(&index->tree, NULL);
  if (tree) adji_tree_clear(tree);
  free(tree);
}

static void free_brute(adj_index *index) {
  if (index->brute) adji_brute_base_clear(index->brute);
  free(index->brute);
  index->brute = NULL;
}

void adji_index_release(adj_index *index) {
  if (!index || atomic_fetch_sub(&index->references, 1) > 1) return;
  adji_index_clear_scratch(index);
  adji_index_clear_devices(index);
  adji_index_forget_origin(index->ctx, index->origin);
  while (index->grids) {
    adji_kept_grid *grid = index->grids;
    index->grids = grid->next;
    free_grid(grid);
  }
  free_tree(index);
  free_brute(index);
  adj_dataset_destroy(index->derived);
  adji_free(&index->ctx->memory, index->box);
  if (index->kept) adji_memory_drop(&index->ctx->memory);
  pthread_mutex_destroy(&index->scratch_lock);
  pthread_mutex_destroy(&index->lock);
  pthread_mutex_destroy(&index->building);
  free(index);
}

/* ---- Building ----------------------------------------------------------------------------------------- */

/* A callback inside a parallel loop must not wait for the thread that builds, which may itself wait for the loop to
 * end. The callback builds its own structure, and the first one that is finished stays. */
bool adji_index_begin_building(adj_index *index) {
  bool waits = !adji_inside_task();
  if (waits) pthread_mutex_lock(&index->building);
  return waits;
}

void adji_index_end_building(adj_index *index, bool waited) {
  if (waited) pthread_mutex_unlock(&index->building);
}

/* ---- The tree ----------------------------------------------------------------------------------------- */

static void return_tree(void *owner, const void *what) {
  (void)what;
  adj_index *index = owner;
  pthread_mutex_lock(&index->lock);
  if (!--index->tree_users && !index->kept) free_tree(index);
  pthread_mutex_unlock(&index->lock);
}

static bool lend_tree(adj_index *index, adji_lent *out) {
  pthread_mutex_lock(&index->lock);
  adji_tree *tree = atomic_load(&index->tree);
  if (tree) {
    index->tree_users++;
    *out = (adji_lent){tree, index, return_tree};
  }
  pthread_mutex_unlock(&index->lock);
  return tree;
}

static adj_status build_tree(adj_index *index, uint32_t leaf) {
  adji_tree_room room = {0};
  adji_tree *tree = calloc(1, sizeof *tree);
  if (!tree) return adji_fail(ADJ_E_MEMORY, "no memory for a tree");
  bool alone = adji_work_alone(false); /* building is not small work, even for a small question */
  adj_status status = adji_tree_build(index->ctx, index->points, leaf ? leaf : ADJI_LEAF, &room, tree);
  adji_tree_room_clear(index->ctx, &room);
  adji_work_alone(alone);
  adji_tree *none = NULL;
  if (!status && atomic_compare_exchange_strong(&index->tree, &none, tree)) return ADJ_OK;
  if (!status) adji_tree_clear(tree);
  free(tree);
  return status;
}

adj_status adji_index_tree(adj_index *index, uint32_t leaf, adji_lent *out, bool *built) {
  *built = false;
  if (lend_tree(index, out)) return ADJ_OK;
  adj_status status = ADJ_OK;
  bool waited = adji_index_begin_building(index);
  *built = !lend_tree(index, out);
  if (*built) status = build_tree(index, leaf);
  if (*built && !status) lend_tree(index, out);
  adji_index_end_building(index, waited);
  return status;
}

const adji_tree *adji_index_kept_tree(adj_index *index) {
  return atomic_load(&index->tree);
}

/* ---- Brute force -------------------------------------------------------------------------------------- */

static void return_brute(void *owner, const void *what) {
  (void)what;
  adj_index *index = owner;
  pthread_mutex_lock(&index->lock);
  if (!--index->brute_users && !index->kept) free_brute(index);
  pthread_mutex_unlock(&index->lock);
}

static bool lend_brute(adj_index *index, adji_lent *out) {
  pthread_mutex_lock(&index->lock);
  adji_brute_base *base = index->brute;
  if (base) {
    index->brute_users++;
    *out = (adji_lent){base, index, return_brute};
  }
  pthread_mutex_unlock(&index->lock);
  return base;
}

static adj_status build_brute(adj_index *index) {
  adji_brute_base *base = calloc(1, sizeof *base);
  if (!base) return adji_fail(ADJ_E_MEMORY, "no memory for brute force");
  bool alone = adji_work_alone(false);
  adj_status status = adji_brute_base_init(index->ctx, index->points, index->kept, base);
  adji_work_alone(alone);
  if (status) {
    free(base);
    return status;
  }
  pthread_mutex_lock(&index->lock);
  bool first = !index->brute;
  if (first) index->brute = base;
  pthread_mutex_unlock(&index->lock);
  if (first) return ADJ_OK;
  adji_brute_base_clear(base);
  free(base);
  return ADJ_OK;
}

adj_status adji_index_brute(adj_index *index, adji_lent *out, bool *built) {
  adj_status status = ADJ_OK;
  *built = false;
  if (lend_brute(index, out)) return ADJ_OK;
  bool waited = adji_index_begin_building(index);
  *built = !lend_brute(index, out);
  if (*built) status = build_brute(index);
  if (*built && !status) lend_brute(index, out);
  adji_index_end_building(index, waited);
  return status;
}

/* ---- Grids -------------------------------------------------------------------------------------------- */

/* A grid of wider cells finds more candidates: at most this many times as many. */
static const double MOST_CANDIDATES = 2;
enum { MOST_GRIDS = 16 };

static void unlink_grid(adj_index *index, adji_kept_grid *grid) {
  adji_kept_grid **at = &index->grids;
  while (*at != grid)
    at = &(*at)->next;
  *at = grid->next;
  free_grid(grid);
}

static void return_grid(void *owner, const void *what) {
  adj_index *index = owner;
  adji_kept_grid *grid = (adji_kept_grid *)(void *)(uintptr_t)what;
  pthread_mutex_lock(&index->lock);
  if (!--grid->users && !index->kept) unlink_grid(index, grid);
  pthread_mutex_unlock(&index->lock);
}

static void lend_grid(adj_index *index, adji_kept_grid *grid, adji_lent *out) {
  grid->users++;
  grid->used_at = ++index->clock;
  *out = (adji_lent){grid, index, return_grid};
}

bool adji_grid_serves(const adj_index *index, const adji_grid *grid, double largest, double limit) {
  if (largest < limit) return false;
  double wide = adji_grid_width(index->points->type, &index->measure, largest, 0);
  double needed = adji_grid_width(index->points->type, &index->measure, limit, 0);
  return !grid->axis_count || pow(wide / needed, grid->axis_count) <= MOST_CANDIDATES;
}

static bool serves(const adj_index *index, const adji_kept_grid *grid, adji_algorithm algorithm, double limit) {
  if (algorithm && grid->algorithm != algorithm) return false;
  return adji_grid_serves(index, &grid->base.grid, grid->limit, limit);
}

bool adji_index_find_grid(adj_index *index, adji_algorithm algorithm, double limit, adji_lent *out) {
  adji_kept_grid *best = NULL;
  pthread_mutex_lock(&index->lock);
  for (adji_kept_grid *grid = index->grids; grid; grid = grid->next)
    if (serves(index, grid, algorithm, limit) && (!best || grid->limit < best->limit)) best = grid;
  if (best) lend_grid(index, best, out);
  pthread_mutex_unlock(&index->lock);
  return best;
}

/* Drops the least recently used grid. False: all are in use. */
static bool drop_one(adj_index *index) {
  adji_kept_grid *oldest = NULL;
  for (adji_kept_grid *grid = index->grids; grid; grid = grid->next)
    if (!grid->users && (!oldest || grid->used_at < oldest->used_at)) oldest = grid;
  if (oldest) unlink_grid(index, oldest);
  return oldest;
}

void adji_index_make_room(adj_index *index, uint64_t bytes) {
  pthread_mutex_lock(&index->lock);
  while (!adji_fits(&index->ctx->memory, bytes) && drop_one(index))
    ;
  pthread_mutex_unlock(&index->lock);
}

/* About the bytes that a grid takes while it is built; images of points and codes take more. */
static uint64_t room_of_grid(const adj_dataset *points) {
  uint64_t dim = points->dim, row = dim * adji_type_size(points->type);
  return points->count * (2 * row + dim + 4 + 16 + 12);
}

static void add_grid(adj_index *index, adji_kept_grid *grid, adji_lent *out) {
  uint32_t many = 0;
  pthread_mutex_lock(&index->lock);
  for (const adji_kept_grid *other = index->grids; other; other = other->next)
    many++;
  if (many >= MOST_GRIDS) drop_one(index);
  grid->next = index->grids;
  index->grids = grid;
  lend_grid(index, grid, out);
  pthread_mutex_unlock(&index->lock);
}

static adj_status build_grid(adj_index *index, const adji_join *join, const adji_range_index_options *options,
                             adji_kept_grid *grid, adji_lent *out) {
  adji_index_make_room(index, room_of_grid(index->points));
  bool alone = adji_work_alone(false);
  adj_status status = adji_range_base_build(join, options, &grid->base);
  adji_work_alone(alone);
  if (!status) add_grid(index, grid, out);
  return status;
}

static adj_status forget_options(const adj_index *index, const adji_range_index_options *options, adj_status status) {
  adji_grid_clear(index->ctx, options->grid);
  adji_code_scale_clear(options->code_scale);
  *options->code_scale = (adji_code_scale){0};
  return status;
}

adj_status adji_index_add_grid(adj_index *index, const adji_join *join, const adji_range_index_options *options,
                               adji_algorithm algorithm, const char *reason, adji_lent *out) {
  bool waited = adji_index_begin_building(index);
  adj_status status = ADJ_OK;
  if (index->kept && adji_index_find_grid(index, algorithm, join->limit, out)) { /* another question built it */
    status = forget_options(index, options, ADJ_OK);
  } else {
    adji_kept_grid *grid = calloc(1, sizeof *grid);
    if (grid) {
      grid->algorithm = algorithm;
      grid->limit = join->limit;
      snprintf(grid->reason, sizeof grid->reason, "%s", reason);
      status = build_grid(index, join, options, grid, out);
      if (status) free(grid);
    } else {
      status = forget_options(index, options, adji_fail(ADJ_E_MEMORY, "no memory for a grid"));
    }
  }
  adji_index_end_building(index, waited);
  return status;
}
