/* SPDX-License-Identifier: MIT
 *
 * Counting first evaluates every candidate twice and moves a pair once; evaluating once (a quarter of
 * the evaluations in a self-join) moves a pair three times, at random places. So few dimensions and
 * many neighbours ask for the former, many dimensions or few neighbours for the latter.
 */
#include "plan/choose_once.h"

/* Nanoseconds on one AVX-512 core at 2.8 GHz; only their ratio matters. */
static const double CANDIDATE_NS = 0.09, CANDIDATE_DIM_NS = 0.03;
static const double PAIR_NS = 0.8, MOVED_PAIR_NS = 8.0, QUERY_NS = 40.0;

void adji_choose_once(adj_plan *plan) {
  double dims = plan->left->dim < 12 ? plan->left->dim : 12;
  double evaluation = plan->estimated_candidates * (CANDIDATE_NS + CANDIDATE_DIM_NS * dims);
  double direct = 2 * evaluation + plan->estimated_pairs * PAIR_NS;
  double once = evaluation * (plan->self_join ? 0.5 : 1.0) + plan->estimated_pairs * MOVED_PAIR_NS;
  plan->choice.once = plan->tuning.once == ADJI_AUTO ? once < direct : plan->tuning.once == ADJI_ON;
  double nanoseconds = (plan->choice.once ? once : direct) + (double)plan->left->count * QUERY_NS;
  plan->estimated_seconds = nanoseconds * 1e-9 / plan->ctx->threads;
}
