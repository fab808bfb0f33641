/* SPDX-License-Identifier: MIT
 *
 * Counting first evaluates every candidate twice and moves a pair once. Single evaluation, in a self-join a quarter of
 * the evaluations, moves a pair three times, at random places. So the former suits few dimensions with many neighbours,
 * the latter many dimensions or few neighbours.
 */
#include <math.h>

#include "plan/choose.h"

static double candidate_ns(const adji_range_question *q) {
  const adji_costs *costs = &q->join->ctx->costs;
  double dims = q->join->left->dim;
  if (q->codes) return costs->candidate_ns + costs->candidate_code_dim_ns * dims;
  return costs->candidate_ns + costs->candidate_dim_ns * (dims < 12 ? dims : 12); /* sums are abandoned early */
}

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

/* The part that a ball fills of the cube of 3^d cells around it. */
static double ball_in_cells(uint32_t dim) {
  return pow(M_PI, dim / 2.0) / tgamma(dim / 2.0 + 1) / pow(3, dim);
}

double adji_sampled_seconds(const adji_range_question *q, const adji_grid_choice *grid) {
  double candidates = grid->candidates * (double)q->join->left->count;
  double pairs = candidates * ball_in_cells(q->join->left->dim);
  return fmin(adji_counted_seconds(q, pairs, candidates), adji_single_seconds(q, pairs, candidates));
}
