/* SPDX-License-Identifier: MIT
 *
 * Which kernels a GPU uses for a range join: the prefilter of tensor cores, those of the papers, and what a count keeps
 * for the fill.
 */
#include <math.h>

#include "index/grid.h"
#include "plan/choose.h"

/* ---- The prefilter of tensor cores --------------------------------------------------------------------------
 *
 * Half precision has 11 bits down to 2^-14, so any scale works that keeps the farthest point below 65504. If a stray
 * point is so far away that the radius would be among the smallest numbers, the scale makes the radius 1/16, and points
 * beyond the range count as strays: they pass the prefilter.
 */

enum { LEAST_DIM = 7, LEAST_POINTS = 4096, SAMPLED_ROWS = 256, SAMPLED_QUERIES = 32, SAMPLED_POINTS = 128 };

bool adji_may_choose_tensor(const adji_range_question *q) {
  const adj_dataset *right = q->join->right;
  if (adji_access_by_point((adji_access)q->tuning->access)) return false; /* these kernels compare in their own way */
  return q->tuning->prefilter != ADJI_PREFILTER_OFF && right->type == ADJ_F32 && q->measure->step == ADJI_STEP_L2 &&
         right->dim <= ADJI_HALVES_MOST_DIM && q->join->limit > 0 && isfinite(q->join->limit);
}

adj_status adji_check_tensor(const adji_range_question *q) {
  if (q->tuning->prefilter != ADJI_PREFILTER_TENSOR || adji_may_choose_tensor(q)) return ADJ_OK;
  return adji_fail(
      ADJ_E_UNSUPPORTED,
      "tuning: prefilter=tensor is for L2 in f32, in up to %d dimensions without a periodic box, and for a "
      "radius above 0",
      (int)ADJI_HALVES_MOST_DIM);
}

/* The largest distance of the points from the centre in any dimension. */
static double farthest(const adj_dataset *set, const float *centre) {
  double most = 0;
  for (uint32_t j = 0; j < set->dim && set->count; j++)
    most = fmax(most, fmax(set->high[j] - (double)centre[j], (double)centre[j] - set->low[j]));
  return most;
}

static void find_scale(const adji_join *join, const float *centre, adji_halves_scale *out) {
  uint32_t dim = join->right->dim;
  double far = fmax(farthest(join->right, centre), farthest(join->left, centre));
  double radius = adji_halves_reach(join->limit, dim, 1);
  int by_radius = -4 - ilogb(radius), by_range = far > 0 ? 13 - ilogb(far) : by_radius;
  double scale = ldexp(1, by_range > by_radius ? by_range : by_radius);
  uint32_t width = adji_halves_width(dim);
  *out = (adji_halves_scale){.dim = dim, .width = width, .scale = scale, .gamma = adji_halves_gamma(width)};
  out->reach = adji_halves_reach(join->limit, dim, scale);
  out->stray = 0.125 * out->reach;
}

/* The squared radius of the prefilter, as a multiple of that of the join, such that it holds for nearly all of the
 * sample; INFINITY: there are too many strays. */
static double find_slack(const adji_halves_plan *tensor, const double *values, uint64_t sample) {
  const adji_halves_scale *scale = &tensor->scale;
  uint64_t step = sample / SAMPLED_ROWS + 1, rows = 0, strays = 0;
  double most = 0, norms = 0;
  for (uint64_t i = 0; i < sample; i += step, rows++) {
    double rest_sq = 0, norm_sq = 0;
    for (uint32_t j = 0; j < scale->dim; j++) {
      double z = (values[j * sample + i] - (double)tensor->centre[j]) * scale->scale, half = adji_halves_round(z);
      rest_sq += (z - half) * (z - half);
      norm_sq += half * half;
    }
    float error = adji_halves_error(rest_sq, norm_sq);
    norms += norm_sq;
    if (adji_halves_is_stray(scale, error))
      strays++;
    else
      most = fmax(most, (double)error);
  }
  double p = scale->reach + 2 * most, slack = 10 * scale->gamma * norms / (double)rows;
  return strays <= rows / 64 ? (p * p + slack) / (scale->reach * scale->reach) : INFINITY;
}

/* With a larger slack the prefilter is not used. */
static const double MOST_SLACK = 1.3;

static double sampled_sq(const double *values, uint64_t sample, uint32_t dim, uint64_t i, uint64_t k) {
  double s = 0;
  for (uint32_t j = 0; j < dim; j++) {
    double t = values[j * sample + i] - values[j * sample + k];
    s += t * t;
  }
  return s;
}

/* Finds which of the sampled points pass with query i; returns their number. */
static uint32_t passing_with(const adji_range_question *q, const double *values, uint64_t sample, double limit,
                             uint64_t i, uint32_t *passed) {
  uint64_t half = sample / 2, points = half < SAMPLED_POINTS ? half : SAMPLED_POINTS;
  uint32_t many = 0;
  for (uint64_t k = 0; k < points; k++) {
    uint64_t other = half + (i + k) % half;
    passed[many] = (uint32_t)other;
    many += sampled_sq(values, sample, q->join->right->dim, i, other) <= limit;
  }
  return many;
}

/* Compares queries from the first half with points of the second. If c of the points pass, c (c - 1) is on average the
 * square of the query's expected number. */
adji_tensor_passing adji_tensor_passing_of(const adji_range_question *q, const adji_halves_plan *tensor,
                                           const double *values, uint64_t sample) {
  double limit = q->join->limit * fmin(find_slack(tensor, values, sample), 2), near = 0, twice = 0, neighbouring = 0,
         closed = 0;
  uint64_t half = sample / 2, queries = half < SAMPLED_QUERIES ? half : SAMPLED_QUERIES;
  uint64_t points = half < SAMPLED_POINTS ? half : SAMPLED_POINTS;
  uint32_t passed[SAMPLED_POINTS + 1];
  if (half < 2) return (adji_tensor_passing){.uneven = 1};
  for (uint64_t i = 0; i < queries; i++) {
    uint32_t many = passing_with(q, values, sample, limit, i * (half / queries), passed);
    near += many;
    twice += (double)many * (many - (many > 0));
    neighbouring += many > 1 ? many - 1 : 0;
    for (uint32_t k = 1; k < many; k++)
      closed += sampled_sq(values, sample, q->join->right->dim, passed[k - 1], passed[k]) <= limit;
  }
  double uneven = near > 0 ? twice * (double)queries / (near * near) : 1;
  return (adji_tensor_passing){near / (double)(queries * points), fmax(uneven, 1),
                               neighbouring > 0 ? closed / neighbouring : 0};
}

adj_status adji_choose_tensor(const adji_range_question *q, const double *values, uint64_t sample,
                              adji_halves_plan *out) {
  uint32_t dim = q->join->right->dim;
  bool wanted = q->tuning->prefilter == ADJI_PREFILTER_TENSOR;
  if (q->tuning->mirrored == ADJI_ON) return ADJ_OK; /* mirrored kernels compare without a prefilter */
  if (!adji_may_choose_tensor(q) || (!wanted && (dim < LEAST_DIM || adji_question_points(q) < LEAST_POINTS)))
    return ADJ_OK;
  out->centre = adji_alloc(&q->join->ctx->memory, dim, sizeof *out->centre, "centre of the points");
  if (!out->centre) return ADJ_E_MEMORY;
  for (uint32_t j = 0; j < dim; j++) {
    double sum = 0;
    for (uint64_t i = 0; i < sample; i++)
      sum += values[j * sample + i] / (double)sample;
    out->centre[j] = (float)sum;
  }
  find_scale(q->join, out->centre, &out->scale);
  out->asked = wanted;
  out->use = wanted || find_slack(out, values, sample) <= MOST_SLACK;
  return ADJ_OK;
}

double adji_tensor_cost(const adji_costs *costs, const adji_halves_plan *tensor) {
  return costs->warp_tensor + costs->warp_tensor_step * tensor->scale.width / ADJI_HALVES_STEP;
}

/* Pairs that pass are compared one by one. */
double adji_tensor_passed_cost(const adji_costs *costs, uint32_t dim) {
  return costs->warp_passed + costs->warp_passed_dim * dim;
}

/* ---- All pairs in tiles -------------------------------------------------------------------------------- */

double adji_warp_instructions(const adji_costs *costs, double seconds) {
  return seconds * costs->warp_rate;
}

/* In a self-join every two points are compared once. */
double adji_all_pairs_seconds(const adji_range_question *q, double queries) {
  const adji_costs *costs = &q->join->ctx->costs;
  const adj_dataset *left = q->join->left;
  double pairs = queries * (double)adji_question_points(q);
  if (q->join->self_join && q->tuning->mirrored != ADJI_OFF) pairs *= 0.5;
  double ns =
      costs->device_all_pairs_ns + costs->device_matrix_dim_ns * left->dim * adji_device_step_factor(costs, q->measure);
  return costs->device_all_pairs_s + pairs * ns * 1e-9 * (double)adji_type_size(left->type) / 4;
}

/* ---- The papers' kernels, which only settings ask for --------------------------------------------------------- */

/* A pair of cells that is visited once must belong to one index, in which both points have their rows. */
static adj_status check_mirrors(const adji_range_question *q, const adji_grid *grid) {
  const char *name = q->tuning->access == ADJI_ACCESS_UNICOMP ? "unicomp" : "lid-unicomp";
  if (!q->join->self_join)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: paper.access=%s is for points with themselves, not for two sets",
                     name);
  if (adji_grid_is_periodic(grid))
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: paper.access=%s: in a periodic box points are in the index twice",
                     name);
  return ADJ_OK;
}

/* See narrow() in gpu/papers/per_point_join.cu. */
static adj_status check_sortidu(const adji_measure *measure) {
  adji_step step = measure->step;
  if (step == ADJI_STEP_L2 || step == ADJI_STEP_L1 || step == ADJI_STEP_LINF) return ADJ_OK;
  return adji_fail(ADJ_E_UNSUPPORTED, "tuning: paper.sortidu=on is for L2, L1 and Linf without a periodic box");
}

adj_status adji_choose_access(const adji_range_question *q, const adji_grid_choice *grid, adji_point_options *out) {
  const adji_tuning *tuning = q->tuning;
  *out = (adji_point_options){.access = ADJI_ACCESS_TILES};
  if (!adji_access_by_point((adji_access)tuning->access)) return ADJ_OK;
  *out = (adji_point_options){.access = (adji_access)tuning->access,
                              .order = tuning->order ? (adji_work)tuning->order : ADJI_WORK_INDEX_ORDER,
                              .threads = tuning->point_threads ? 1u << (tuning->point_threads - 1) : 1,
                              .shortc = tuning->shortc == ADJI_ON,
                              .sortidu = tuning->sortidu == ADJI_ON,
                              .sort_dim = grid->next_dim,
                              .dims = grid->dims};
  adj_status status = adji_access_mirrors(out->access) ? check_mirrors(q, &grid->grid) : ADJ_OK;
  if (!status && out->sortidu) status = check_sortidu(q->measure);
  return status;
}

/* ---- What a count keeps ------------------------------------------------------------------------------------ */

/* From LEAST_POPULATION points in a cell on, rows are long enough. LEAST_STAGES: the number of candidates a query has
 * room for at least if settings ask for it. */
static const double LEAST_POPULATION = 20, LEAST_STAGES = 1024, MOST_QUERY_HIT_POPULATION = 6;

/* A GPU that keeps the pairs it finds moves each pair once more. From four dimensions on this always takes less than
 * comparing the candidates again. In three it does if most rows fit the 32 entries of a chunk, that is with up to six
 * points in a cell (1.58 ms instead of 1.78 for 2 M points with 10 neighbours on an H200; in two 1.04 instead of 0.97).
 */
bool adji_choose_device_single(const adji_range_question *q, const adji_grid_choice *grid) {
  if (q->tuning->single != ADJI_AUTO) return q->tuning->single == ADJI_ON;
  if (q->tuning->tile_hits == ADJI_ON) return false; /* tile hits are kept instead */
  return q->join->left->dim > 3 || (q->join->left->dim == 3 && grid->grid.axis_count && grid->cell_population < 5);
}

/* Points of up to six dimensions are stored row by row in the index, and have kernels of their own. */
bool adji_choose_device_all_pairs(const adji_range_question *q, const adji_grid_choice *grid) {
  return q->tuning->all_pairs != ADJI_OFF && !ADJI_GPU_WIDTH(q->join->left->dim) && !grid->grid.axis_count &&
         !grid->tensor.use && !adji_access_by_point((adji_access)q->tuning->access);
}

/* Comparing every two points once halves the comparisons, but does not compare many queries with one candidate at a
 * time, and writes pairs to both rows one by one. In dense cells that is slower. */
bool adji_choose_device_mirrored(const adji_range_question *q, const adji_grid_choice *grid) {
  if (!q->join->self_join || q->tuning->mirrored == ADJI_OFF) return false;
  if (adji_choose_device_all_pairs(q, grid)) return true; /* in tiles it has no drawback */
  if (!adji_gpu_can_mirror(q->measure, q->join->left->dim)) return false;
  return q->tuning->mirrored == ADJI_ON || (grid->grid.axis_count && grid->cell_population < 64);
}

/* For long rows that are all filled at once, since queries that were compared together must be filled together. In two
 * dimensions comparing again is hidden by writing the rows (on an H200 with 2 M points and 1,000 neighbours 5.1 ms
 * either way; in three 7.0 instead of 8.5, and with 100 1.9 instead of 2.3). The estimate covers all cells that are
 * visited. It is the larger the fewer collisions the sample has, that is, the less certain it is. */
double adji_choose_device_tile_hits(const adji_range_question *q, const adji_grid_choice *grid, bool whole,
                                    uint64_t sample) {
  bool on = q->tuning->tile_hits == ADJI_ON;
  if (q->tuning->tile_hits == ADJI_OFF || !grid->grid.axis_count) return 0;
  if (!on && (!whole || q->join->left->dim != 3 || grid->cell_population < LEAST_POPULATION)) return 0;
  double m = (double)sample, candidates = 3 * grid->cell_population;
  for (uint32_t a = 0; a + 1 < grid->grid.axis_count; a++)
    candidates *= 2 + 1.0 / grid->grid.axes[a].reach;
  if (sample) candidates *= 1 + 2 / sqrt(1 + grid->cell_population * m * m / 2 / (double)q->population);
  return on && candidates < LEAST_STAGES ? LEAST_STAGES : candidates;
}

/* For short rows, whose queries have few candidates: rows filled from query hits are written one after the other, not
 * each far from the last. 2 M points with 10 neighbours on an H200 took 0.56 instead of 0.70 ms in two dimensions, 0.78
 * instead of 1.04 in three. */
bool adji_choose_device_query_hits(const adji_range_question *q, const adji_grid_choice *grid, bool whole) {
  if (q->tuning->query_hits != ADJI_AUTO || !grid->grid.axis_count) return q->tuning->query_hits == ADJI_ON;
  return whole && q->tuning->tile_hits != ADJI_ON && q->tuning->single != ADJI_ON && q->join->left->dim <= 3 &&
         grid->cell_population < MOST_QUERY_HIT_POPULATION;
}

/* ---- Kernels that settings ask for ------------------------------------------------------------------------- */

static adj_status refuse_kernel(const char *setting, const char *wanted) {
  return adji_fail(ADJ_E_UNSUPPORTED, "tuning: test.%s=on is for %s", setting, wanted);
}

/* Rows of cells along the last axis that a query is compared with. */
static uint32_t cell_rows(const adji_grid *grid) {
  uint32_t rows = 1;
  for (uint32_t a = 0; a + 1 < grid->axis_count; a++)
    rows *= 2 * grid->axes[a].reach + 1;
  return grid->axis_count ? rows : 0;
}

adj_status adji_check_device_kernels(const adji_range_question *q, const adji_grid_choice *grid) {
  const adji_tuning *t = q->tuning;
  const adji_row_style *style = &q->join->style;
  uint32_t dim = q->join->left->dim;
  bool tiles = q->measure->step == ADJI_STEP_L2 && (dim == 2 || dim == 3) && !style->distances &&
               style->order != ADJ_ORDER_DISTANCE;
  bool all_pairs = adji_choose_device_all_pairs(q, grid), mirrors = all_pairs || adji_gpu_can_mirror(q->measure, dim);
  if (t->all_pairs == ADJI_ON && !all_pairs)
    return refuse_kernel("all_pairs", "seven dimensions and more, without a grid and a prefilter");
  if (t->mirrored == ADJI_ON && (!q->join->self_join || grid->tensor.use || !mirrors))
    return refuse_kernel("mirrored", "points with themselves, L2 in 4 to 64 dimensions and no prefilter");
  uint32_t rows = cell_rows(&grid->grid);
  if (t->tile_hits == ADJI_ON && (!tiles || q->join->left->type != ADJ_F32 || !rows || rows > 32))
    return refuse_kernel("tile_hits", "L2 in two and three dimensions, f32, without distances, and narrow up to 2");
  if (t->query_hits == ADJI_ON && (!tiles || style->one_way || (rows != 3 && rows != 9)))
    return refuse_kernel("query_hits", "L2 in two and three dimensions, without distances, all indexed, and narrow 1");
  return ADJ_OK;
}
