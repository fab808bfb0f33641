/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h: indexes of points on a device, and questions with queries there. A question runs as a join does
 * (cuda_join.c), with the structures that the index keeps on the device.
 */
#include <stdlib.h>

#include "plan/cuda_join.h"

/* ---- Making one ------------------------------------------------------------------------------------------ */

/* Moves what a survey found into a new origin. */
static adj_status make_origin(adji_cuda_side *side, const adj_dataset *given, adji_index_origin **out) {
  adji_index_origin *origin = calloc(1, sizeof *origin);
  if (!origin) return adji_fail(ADJ_E_MEMORY, "no memory for an index");
  origin->sample = side->set;
  origin->points = side->set;
  origin->points.count = side->rows.count;
  origin->points.data = NULL;
  origin->set = *given;
  origin->bounds = side->bounds;
  origin->rows = side->sample;
  origin->derived = side->derived;
  if (!origin->derived.gpu) { /* the points are the given ones */
    origin->set.low = origin->points.low;
    origin->set.high = origin->points.high;
  }
  side->bounds = NULL;
  side->sample = NULL;
  side->derived = (adji_gpu_points){0};
  *out = origin;
  return ADJ_OK;
}

/* Called with the device locked. */
static adj_status survey(adji_gpu *gpu, const adj_join_spec *spec, adji_cuda_side *side, adj_cuda_stream stream) {
  adj_status status = adji_gpu_after(gpu, stream);
  if (!status) status = adji_cuda_derive_side(gpu, spec, side, "points");
  return status ? status : adji_cuda_survey_side(adji_gpu_ctx(gpu), gpu, side, ADJI_CUDA_SAMPLE, "points");
}

/* Builds the tree if the metric and dimension have one; otherwise the first question decides what is built. */
static adj_status build_first(adj_index *index) {
  adji_lent tree = {0};
  bool built;
  if (!adji_gpu_has_tree(&index->measure, index->points->dim)) return ADJ_OK;
  adj_status status = adji_index_lend(index, 0, &(adji_gpu_right_options){.form = ADJI_RIGHT_TREE}, &tree, &built);
  if (!status) adji_give_back(&tree);
  return status;
}

static adj_status create(adj_ctx *ctx, const adj_join_spec *spec, adji_cuda_side *side, adj_cuda_stream stream,
                         adj_index **out) {
  adji_gpu *gpu;
  adji_index_origin *origin = NULL;
  adj_index *index = NULL;
  adj_dataset given = {.ctx = ctx, .type = side->rows.type, .dim = side->rows.dim, .count = side->rows.count};
  adj_status status = adji_gpu_of(ctx, &gpu);
  if (status) return status;
  adji_gpu_lock(gpu);
  status = survey(gpu, spec, side, stream);
  if (!status) status = make_origin(side, &given, &origin);
  adji_cuda_forget_side(ctx, side);
  adji_gpu_unlock(gpu);
  if (!status) status = adji_index_make_on_device(ctx, spec, origin, &side->rows, &index);
  if (!status) status = build_first(index);
  if (status)
    adji_index_release(index);
  else
    *out = index;
  return status ? adji_fail_in(status, "points") : ADJ_OK;
}

adj_status adj_cuda_index_create(adj_ctx *ctx, const adj_index_options *options, const adj_cuda_points *points,
                                 adj_cuda_stream stream, adj_index **out) {
  if (!ctx || !points || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, points and out: none may be NULL");
  adj_join_spec spec;
  adji_tuning tuning = {0};
  adji_tuning_scope scope = {0};
  adji_cuda_side side = {0};
  adj_status status = adji_take_index_options(options, &spec);
  if (!status) status = adji_cuda_take_side(points, "points", &side);
  if (status) return status;
  spec.backend = ADJ_BACKEND_GPU;
  side.set = (adj_dataset){.type = side.rows.type, .dim = side.rows.dim};
  adji_call outer = adji_call_begin(&ctx->cancels);
  status = adji_check_request(&spec, &side.set, &side.set, &tuning, &scope);
  if (!status) status = create(ctx, &spec, &side, stream, out);
  adji_call_set(outer);
  return status;
}

/* ---- Questions ------------------------------------------------------------------------------------------- */

static adj_status check(const adj_index *index, const adj_question *question) {
  if (!index || !question) return adji_fail(ADJ_E_ARGUMENT, "index and question: neither may be NULL");
  return ADJ_OK;
}

static adj_status ask(adj_index *index, adj_join_kind kind, const adj_question *question,
                      const adj_cuda_points *queries, adj_cuda_stream stream, adj_cuda_result **out) {
  adj_status status = check(index, question);
  if (!status && !out) status = adji_fail(ADJ_E_ARGUMENT, "out: must not be NULL");
  if (status) return status;
  adji_cuda_call call = {.ctx = index->ctx, .kind = kind, .left = queries, .stream = stream};
  call.index = index;
  call.question = question;
  return adji_cuda_make_result(call, out);
}

adj_status adj_cuda_index_knn(adj_index *index, const adj_question *question, const adj_cuda_points *queries,
                              adj_cuda_stream stream, adj_cuda_result **out) {
  return ask(index, ADJ_KNN, question, queries, stream, out);
}

adj_status adj_cuda_index_range(adj_index *index, const adj_question *question, const adj_cuda_points *queries,
                                adj_cuda_stream stream, adj_cuda_result **out) {
  return ask(index, ADJ_RANGE, question, queries, stream, out);
}

adj_status adj_cuda_index_count(adj_index *index, const adj_question *question, const adj_cuda_points *queries,
                                adj_cuda_stream stream, uint32_t *degrees, uint64_t *total) {
  adj_status status = check(index, question);
  if (status) return status;
  adji_cuda_call call = {.ctx = index->ctx, .kind = ADJ_RANGE, .left = queries, .stream = stream};
  call.degrees = degrees;
  call.total = total;
  call.index = index;
  call.question = question;
  return adji_cuda_run(&call);
}
