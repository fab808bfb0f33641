/* SPDX-License-Identifier: MIT
 *
 * Chooses the prefilter of brute force: by the costs of its steps, and by a trial join of a few queries. Makes the
 * sketches of the right points, which several joins may share.
 */
#include <string.h>

#include "cpu/brute_private.h"

/* A tile stays in the second-level cache together with the sketches of the queries. A query has room for a few times
 * more keys than it needs, so that selections are rare. */
void adji_brute_choose_sizes(brute *b) {
  uint64_t row =
      b->prefiltered ? (uint64_t)b->sketch.groups * 4 : (uint64_t)b->right.dim * adji_type_size(b->right.type);
  uint64_t tile = ((uint64_t)256 << 10) / row / ADJI_TILE_MULTIPLE * ADJI_TILE_MULTIPLE;
  b->tile = tile < ADJI_TILE_MULTIPLE ? ADJI_TILE_MULTIPLE : tile > 512 ? 512 : tile;
  uint64_t keys = 8 * ((uint64_t)b->k + 1) + 2048;
  b->keys_capacity = (keys < b->right.count ? keys : b->right.count) + b->tile + ADJI_SKETCH_PAD;
}

/* Nanoseconds per pair in a prefilter, or without one (NULL). */
static double pair_cost(const brute *b, const adji_prefilter_sketch *prefilter) {
  const adji_costs *costs = &b->join.ctx->costs;
  double dim = b->right.dim;
  if (!prefilter) return costs->plain_pair_ns + costs->plain_dim_ns * dim;
  const char *name = prefilter->name;
  return !strcmp(name, "amx")    ? costs->amx_pair_ns + costs->amx_dim_ns * dim
         : !strcmp(name, "vnni") ? costs->vnni_pair_ns + costs->vnni_dim_ns * dim
                                 : costs->gemm_pair_ns + costs->gemm_dim_ns * dim;
}

static double candidate_cost(const brute *b) {
  const adji_costs *costs = &b->join.ctx->costs;
  return costs->passed_ns + costs->passed_dim_ns * b->right.dim;
}

/* ---- Sketches of the base -------------------------------------------------------------------- */

adj_status adji_brute_base_init(adj_ctx *ctx, const adj_dataset *set, bool kept, adji_brute_base *out) {
  *out = (adji_brute_base){.ctx = ctx, .kept = kept};
  adj_status status = adji_packed_init(ctx, set, &out->right);
  if (!status) pthread_mutex_init(&out->lock, NULL);
  return status;
}

void adji_brute_base_clear(adji_brute_base *base) {
  for (int f = 0; f <= ADJI_PREFILTER_AMX; f++)
    adji_sketch_clear(&base->sketches[f].sketch);
  adji_packed_clear(&base->right);
  pthread_mutex_destroy(&base->lock);
}

/* Sets b->sketch and b->prefiltered. The base makes a sketch when it is first asked for. */
static adj_status take_sketch(brute *b, adji_prefilter_kind kind, const adji_prefilter_sketch *prefilter) {
  adji_brute_base *base = (adji_brute_base *)b->base.what;
  adj_status status = ADJ_OK;
  pthread_mutex_lock(&base->lock);
  if (!base->sketches[kind].tried)
    status = adji_sketch_init(base->ctx, &base->right, prefilter, &base->sketches[kind].sketch,
                              &base->sketches[kind].useful);
  base->sketches[kind].tried = !status;
  if (!status) {
    b->prefiltered = base->sketches[kind].useful;
    b->sketch = base->sketches[kind].sketch;
  }
  pthread_mutex_unlock(&base->lock);
  return status;
}

/* Drops the sketch: it is not worth its cost in this join. */
static void drop_sketch(brute *b, adji_prefilter_kind kind) {
  adji_brute_base *base = (adji_brute_base *)b->base.what;
  b->sketch = (adji_sketch){0};
  b->prefiltered = false;
  if (base->kept) return;
  pthread_mutex_lock(&base->lock);
  adji_sketch_clear(&base->sketches[kind].sketch);
  base->sketches[kind].tried = false;
  pthread_mutex_unlock(&base->lock);
}

/* ---- Trials ---------------------------------------------------------------------------------- */

enum { TRIALS = 8, TRIAL_QUERIES = 4 };

/* Estimates the cost of a query with this prefilter, from a trial join of a few queries. */
static adj_status try_prefilter(brute *b, double *cost) {
  adji_memory *memory = &b->join.ctx->memory;
  adji_brute_choose_sizes(b);
  b->group = TRIAL_QUERIES;
  brute_lane lane = {0};
  brute_arena arena = {adji_alloc(memory, adji_brute_lane_bytes(b), 1, "brute force"), 0};
  if (!arena.base) return ADJ_E_MEMORY;
  adji_brute_layout(b, &lane, &arena);
  adj_status status = ADJ_OK;
  for (uint64_t t = 0; t < TRIALS && !status; t++) {
    brute_piece piece = {.begin = t * (b->queries->count - TRIAL_QUERIES) / TRIALS, .last = b->right.count};
    piece.end = piece.begin + TRIAL_QUERIES;
    for (uint64_t q = 0; q < TRIAL_QUERIES; q++)
      adji_kbest_reset(&lane.best[q], adji_join_limit(&b->join, piece.begin + q));
    status = adji_brute_prefilter(b, &lane, &piece);
  }
  b->passed = (double)lane.evaluated / ((double)TRIALS * TRIAL_QUERIES);
  *cost = pair_cost(b, b->sketch.prefilter) * (double)b->right.count + candidate_cost(b) * b->passed;
  adji_free(memory, arena.base);
  return status;
}

double adji_brute_least_cost(const brute *b, const adji_prefilter_sketch *prefilter) {
  return pair_cost(b, prefilter) * (double)b->right.count + (prefilter ? 1.5 * b->k * candidate_cost(b) : 0);
}

static const char *const prefilter_names[] = {
    [ADJI_PREFILTER_GEMM] = "gemm", [ADJI_PREFILTER_VNNI] = "vnni", [ADJI_PREFILTER_AMX] = "amx"};

/* Drops a prefilter that lets so many pairs pass that a more exact one, or none, is cheaper. With few queries the trial
 * is not worth its time. */
static adj_status drop_if_costly(brute *b, adji_prefilter_kind kind) {
  enum { FEW = 64 * TRIALS * TRIAL_QUERIES };
  if (!b->prefiltered || b->queries->count < FEW) return ADJ_OK;
  const adji_prefilter_sketch *gemm = adji_prefilter_sketch_for(b->join.ctx->isa, "gemm");
  double cost = 0, best = adji_brute_least_cost(b, NULL);
  if (kind > ADJI_PREFILTER_GEMM && adji_brute_least_cost(b, gemm) < best) best = adji_brute_least_cost(b, gemm);
  adj_status status = try_prefilter(b, &cost);
  b->cost = cost;
  if (status || cost <= best) return status;
  drop_sketch(b, kind);
  b->cost = 0;
  return ADJ_OK;
}

/* ---- The choice ------------------------------------------------------------------------------ */

/* Uses the requested prefilter, or fails with the reason why it cannot be used. */
static adj_status use_prefilter(brute *b, adji_prefilter_kind wanted) {
  const char *name = prefilter_names[wanted];
  const adji_prefilter_sketch *prefilter = adji_prefilter_sketch_for(b->join.ctx->isa, name);
  if (b->join.style.measure->step != ADJI_STEP_L2)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: prefilter=%s is for L2 without a periodic box", name);
  if (!prefilter)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: prefilter=%s: this CPU does not have it, or may not use it", name);
  if (!b->right.count) return ADJ_OK; /* nothing to drop */
  adj_status status = take_sketch(b, wanted, prefilter);
  if (!status && !b->prefiltered)
    return adji_fail(
        ADJ_E_UNSUPPORTED,
        "tuning: prefilter=%s: too many dimensions, or some points are so far away that sketches of the others "
        "prove nothing",
        name);
  return status;
}

adj_status adji_brute_choose_prefilter(brute *b, adji_prefilter_kind wanted) {
  if (!b->k || wanted == ADJI_PREFILTER_OFF) return ADJ_OK;
  if (wanted != ADJI_PREFILTER_AUTO) return use_prefilter(b, wanted);
  if (b->join.style.measure->step != ADJI_STEP_L2) return ADJ_OK;
  adj_status status = ADJ_OK;
  for (int f = ADJI_PREFILTER_AMX; f >= ADJI_PREFILTER_GEMM && !b->prefiltered && !status; f--) {
    const adji_prefilter_sketch *prefilter = adji_prefilter_sketch_for(b->join.ctx->isa, prefilter_names[f]);
    if (!prefilter) continue;
    status = take_sketch(b, (adji_prefilter_kind)f, prefilter);
    if (!status) status = drop_if_costly(b, (adji_prefilter_kind)f);
    if (!b->prefiltered && f == ADJI_PREFILTER_AMX) f--; /* VNNI uses the same codes */
  }
  return status;
}
