/* SPDX-License-Identifier: MIT
 *
 * Three ways to collect. Counting first evaluates every candidate twice and moves a pair once. Staging evaluates once
 * and moves rows twice, all entries of a row together. Single evaluation takes a quarter of the evaluations of counting
 * first in a self-join, but moves a pair three times, to random places. So the first suits few dimensions with many
 * neighbours, the second few dimensions with few neighbours, the last many dimensions.
 */
#include <math.h>

#include "plan/choose.h"

/* Time to compare all candidates, from both points of each pair. */
static double evaluation_ns(const adji_range_question *q, double candidates) {
  const adji_costs *costs = &q->join->ctx->costs;
  double dims = q->join->left->dim;
  if (q->count_ns > 0) return q->count_ns;
  if (q->codes) return candidates * (costs->candidate_ns + costs->candidate_code_dim_ns * dims);
  if (dims > 12) dims = 12; /* sums are abandoned early */
  return candidates * (costs->candidate_ns + costs->candidate_dim_ns * dims);
}

static double seconds_of(const adji_range_question *q, double ns) {
  return ns * 1e-9 / q->join->ctx->threads;
}

/* A measured count includes the search for candidates and the fixed cost of a query. */
static double count_seconds(const adji_range_question *q, double candidates) {
  const adji_costs *costs = &q->join->ctx->costs;
  double row_ns = q->count_ns > 0 ? costs->degree_ns : costs->counted_row_ns;
  return seconds_of(q, evaluation_ns(q, candidates) + (double)q->join->left->count * row_ns);
}

static double list_factor(const adji_range_question *q) {
  const adji_costs *costs = &q->join->ctx->costs;
  return q->join->left->dim <= ADJI_FEW_DIMS ? costs->list_evaluation_few : costs->list_evaluation;
}

/* The share of rows that are not empty, from a sample, or else as if the pairs were spread evenly. */
static double filled_share(const adji_range_question *q, double pairs) {
  double rows = (double)q->join->left->count;
  return q->filled > 0 ? q->filled : rows > 0 ? 1 - exp(-pairs / rows) : 0;
}

/* Empty rows are skipped. In many dimensions four queries at a time pass over all candidates, which then come from
 * farther away in the cache hierarchy than in a count. */
static double fill_seconds(const adji_range_question *q, double pairs, double candidates) {
  enum { MANY_DIMS = 16 };
  const adji_costs *costs = &q->join->ctx->costs;
  double rows = (double)q->join->left->count, filled = filled_share(q, pairs);
  double factor = q->join->left->dim < MANY_DIMS ? list_factor(q) : costs->fill_evaluation;
  double evaluation = evaluation_ns(q, candidates) * factor;
  return seconds_of(q, filled * (evaluation + rows * costs->filled_row_ns) + pairs * costs->pair_ns);
}

double adji_counted_seconds(const adji_range_question *q, double pairs, double candidates) {
  return count_seconds(q, candidates) + fill_seconds(q, pairs, candidates);
}

/* No row is known to be empty before it is searched. Rows are written one after the other, not each to a distant
 * place. */
double adji_staged_seconds(const adji_range_question *q, double pairs, double candidates) {
  const adji_costs *costs = &q->join->ctx->costs;
  double rows = (double)q->join->left->count, filled = filled_share(q, pairs);
  double empty_ns = (1 - filled) * evaluation_ns(q, candidates) * list_factor(q) - filled * rows * costs->placed_row_ns;
  double words = !q->join->style.distances ? 1 : q->join->style.type == ADJ_F64 ? 3 : 2;
  return fill_seconds(q, pairs, candidates) + seconds_of(q, empty_ns + pairs * words * costs->staged_pair_ns);
}

double adji_pair_spread(double rows) {
  double factor = 0.43 + 0.28 * log10((rows + 1) / 1000);
  return factor < 0.43 ? 0.43 : factor > 1.5 ? 1.5 : factor;
}

static double single_seconds(const adji_range_question *q, double pairs, double candidates, double pair_ns) {
  const adji_costs *costs = &q->join->ctx->costs;
  double evaluation = evaluation_ns(q, candidates) * (q->join->self_join ? 0.5 : 1.0) * list_factor(q);
  return seconds_of(q, evaluation + (double)q->join->left->count * costs->row_ns + pairs * pair_ns);
}

double adji_single_seconds(const adji_range_question *q, double pairs, double candidates) {
  return single_seconds(q, pairs, candidates,
                        q->join->ctx->costs.moved_pair_ns * adji_pair_spread((double)q->join->left->count));
}

double adji_sent_seconds(const adji_range_question *q, double pairs, double candidates) {
  return single_seconds(q, pairs, candidates, q->join->ctx->costs.sent_pair_ns);
}

static double count_single_seconds(const adji_range_question *q, double pairs, double candidates) {
  const adji_costs *costs = &q->join->ctx->costs;
  bool in_lanes = q->join->left->dim <= ADJI_FEW_DIMS && !q->codes && !q->join->style.one_way; /* cpu/single.c */
  double evaluation = 0.5 * evaluation_ns(q, candidates) * (in_lanes ? costs->mirrored_evaluation : list_factor(q));
  double pair_ns = in_lanes ? costs->mirrored_pair_ns : costs->counted_pair_ns;
  return seconds_of(q, evaluation + (double)q->join->left->count * costs->degree_ns + pairs * pair_ns);
}

static adj_status refuse_single(const adji_measure *measure) {
  return adji_fail(ADJ_E_UNSUPPORTED, "tuning: single=on: %s",
                   adji_measure_grows(measure) ? "with a grid in a periodic box points are in the index twice"
                                               : "inner products of points with themselves are found from both points");
}

adj_status adji_choose_single(const adji_range_question *q, bool symmetric, double pairs, double candidates,
                              adji_single_choice *out) {
  double counted = adji_counted_seconds(q, pairs, candidates), single = adji_single_seconds(q, pairs, candidates);
  double twice = count_seconds(q, candidates), once = count_single_seconds(q, pairs, candidates);
  uint64_t wanted = q->tuning->single;
  bool can = !q->join->self_join || symmetric, can_count = q->join->self_join && symmetric;
  if (wanted == ADJI_ON && !can) return refuse_single(q->measure);
  out->single_count = can_count && (wanted == ADJI_AUTO ? once < twice : wanted == ADJI_ON);
  out->count_seconds = out->single_count ? once : twice;
  if (out->single_count) counted += once - twice; /* rows are counted before they are filled */
  out->single = can && (wanted == ADJI_AUTO ? single < counted : wanted == ADJI_ON);
  out->seconds = out->single ? single : counted;
  double staged = adji_staged_seconds(q, pairs, candidates);
  bool decided = q->tuning->staged != ADJI_AUTO || wanted != ADJI_AUTO;
  out->staged = decided ? q->tuning->staged == ADJI_ON : staged < out->seconds;
  if (out->staged) out->seconds = staged;
  return ADJ_OK;
}

/* The part of the 3^d cells around a ball that the ball fills. */
static double ball_in_cells(uint32_t dim) {
  return pow(M_PI, dim / 2.0) / tgamma(dim / 2.0 + 1) / pow(3, dim);
}

double adji_sampled_seconds(const adji_range_question *q, const adji_grid_choice *grid) {
  double candidates = grid->candidates * (double)q->join->left->count;
  double pairs = candidates * ball_in_cells(q->join->left->dim);
  double least = fmin(adji_counted_seconds(q, pairs, candidates), adji_single_seconds(q, pairs, candidates));
  return fmin(least, adji_staged_seconds(q, pairs, candidates));
}
