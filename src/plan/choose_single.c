/* SPDX-License-Identifier: MIT
 *
 * Counting first evaluates every candidate twice and moves a pair once; evaluating once (a quarter of
 * the evaluations in a self-join) moves a pair three times, at random places. So few dimensions and
 * many neighbours ask for the former, many dimensions or few neighbours for the latter.
 */
#include "plan/choose_single.h"

#include <math.h>

#include "gpu/range/range.h"

static double candidate_ns(const adji_range_question *q) {
  const adji_costs *costs = &q->join->ctx->costs;
  double dims = q->join->left->dim;
  if (q->codes) return costs->candidate_ns + costs->candidate_code_dim_ns * dims;
  return costs->candidate_ns + costs->candidate_dim_ns * (dims < 12 ? dims : 12); /* sums are abandoned early */
}

/* Points of a cell from which on rows are long enough; and candidates of a query that there is room for when it was
 * asked for. */
static const double LEAST_POPULATION = 20, LEAST_STAGES = 1024, MOST_QUERY_HIT_POPULATION = 6;

double adji_counted_seconds(const adji_range_question *q, double pairs, double candidates) {
  const adji_costs *costs = &q->join->ctx->costs;
  double rows = (double)q->join->left->count;
  double ns =
      2 * candidates * candidate_ns(q) + rows * (costs->counted_row_ns + costs->row_ns) + pairs * costs->pair_ns;
  return ns * 1e-9 / q->join->ctx->threads;
}

static double single_seconds(const adji_range_question *q, double pairs, double candidates, double pair_ns) {
  double evaluation = candidates * candidate_ns(q) * (q->join->self_join ? 0.5 : 1.0);
  double ns = evaluation + (double)q->join->left->count * q->join->ctx->costs.row_ns + pairs * pair_ns;
  return ns * 1e-9 / q->join->ctx->threads;
}

double adji_single_seconds(const adji_range_question *q, double pairs, double candidates) {
  return single_seconds(q, pairs, candidates, q->join->ctx->costs.moved_pair_ns);
}

double adji_sent_seconds(const adji_range_question *q, double pairs, double candidates) {
  return single_seconds(q, pairs, candidates, q->join->ctx->costs.sent_pair_ns);
}

static adj_status refuse_single(const adji_measure *measure) {
  return adji_fail(ADJ_E_UNSUPPORTED, "tuning: single=on: %s",
                   adji_measure_grows(measure) ? "with a grid in a periodic box points are in the index twice"
                                               : "inner products of points with themselves are found from both points");
}

adj_status adji_choose_single(const adji_range_question *q, bool symmetric, double pairs, double candidates,
                              adji_single_choice *out) {
  double counted = adji_counted_seconds(q, pairs, candidates), single = adji_single_seconds(q, pairs, candidates);
  uint64_t wanted = q->tuning->single;
  bool can = !q->join->self_join || symmetric;
  if (wanted == ADJI_ON && !can) return refuse_single(q->measure);
  out->single = can && (wanted == ADJI_AUTO ? single < counted : wanted == ADJI_ON);
  out->seconds = out->single ? single : counted;
  return ADJ_OK;
}

/* In d dimensions a ball fills so much of the cube of 3^d cells around it. */
static double ball_in_cells(uint32_t dim) {
  return pow(M_PI, dim / 2.0) / tgamma(dim / 2.0 + 1) / pow(3, dim);
}

double adji_sampled_seconds(const adji_range_question *q, const adji_grid_choice *grid) {
  double candidates = grid->candidates * (double)q->join->left->count;
  double pairs = candidates * ball_in_cells(q->join->left->dim);
  return fmin(adji_counted_seconds(q, pairs, candidates), adji_single_seconds(q, pairs, candidates));
}

/* A GPU that keeps what it finds moves every pair once more. From four dimensions on so many candidates are compared
 * for each pair that this is always less than to compare them again; in three it is where most rows have no more than
 * the 32 entries of a piece, which cells of up to six points stand for (1.58 ms instead of 1.78 for 2 M points with 10
 * neighbours on an H200; in two 1.04 instead of 0.97). */
bool adji_choose_device_single(const adji_range_question *q, const adji_grid_choice *grid) {
  if (q->tuning->single != ADJI_AUTO) return q->tuning->single == ADJI_ON;
  if (q->tuning->tile_hits == ADJI_ON) return false; /* which is kept instead */
  return q->join->left->dim > 3 || (q->join->left->dim == 3 && grid->grid.axis_count && grid->cell_population < 5);
}

/* Comparing every two points once halves the comparisons, and gives up those of many queries with one candidate at a
 * time; what is found goes to both rows one by one. Dense cells are better off without. */
bool adji_choose_device_mirrored(const adji_range_question *q, const adji_grid_choice *grid) {
  if (!q->join->self_join || q->tuning->mirrored == ADJI_OFF) return false;
  return q->tuning->mirrored == ADJI_ON || (grid->grid.axis_count && grid->cell_population < 64);
}

/* Where rows are long, and are all filled at once: what was compared together must be filled together. In two
 * dimensions comparing again takes no longer than the writing of the rows that it goes along with (on an H200 with 2 M
 * points and 1,000 neighbours 5.1 ms either way; in three 7.0 instead of 8.5, and with 100 1.9 instead of 2.3). The
 * estimate is of all cells that are looked at, and is the larger the fewer collisions in the sample it comes from. */
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

/* Where rows are short, so that queries have few candidates of their own: filled from query hits, rows are written one
 * behind the other, and not each at a place far from the last. 2 M points with 10 neighbours on an H200 took 0.56
 * instead of 0.70 ms in two dimensions, 0.78 instead of 1.04 in three. */
bool adji_choose_device_query_hits(const adji_range_question *q, const adji_grid_choice *grid, bool whole) {
  if (q->tuning->query_hits != ADJI_AUTO || !grid->grid.axis_count) return q->tuning->query_hits == ADJI_ON;
  return whole && q->tuning->tile_hits != ADJI_ON && q->tuning->single != ADJI_ON && q->join->left->dim <= 3 &&
         grid->cell_population < MOST_QUERY_HIT_POPULATION;
}

/* ---- Kernels that are asked for ---------------------------------------------------------------------------- */

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
  if (t->mirrored == ADJI_ON && (!q->join->self_join || grid->tensor.use || !adji_gpu_can_mirror(q->measure, dim)))
    return refuse_kernel("mirrored", "points with themselves, L2 in 4 to 64 dimensions and no prefilter");
  uint32_t rows = cell_rows(&grid->grid);
  if (t->tile_hits == ADJI_ON && (!tiles || q->join->left->type != ADJ_F32 || !rows || rows > 32))
    return refuse_kernel("tile_hits", "L2 in two and three dimensions, f32, without distances, and narrow up to 2");
  if (t->query_hits == ADJI_ON && (!tiles || style->one_way || (rows != 3 && rows != 9)))
    return refuse_kernel("query_hits", "L2 in two and three dimensions, without distances, all indexed, and narrow 1");
  return ADJ_OK;
}
