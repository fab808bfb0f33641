/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h: joins of points on a device. The plan is made from a survey of the points, and the result is a slot of
 * the device that the caller takes over.
 */
#include "plan/cuda_join.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/knn/knn.h"

ADJI_DEFINE_INIT(adj_cuda_times, 0)

typedef struct cuda_join {
  adji_gpu *gpu;
  adj_plan plan; /* only what choosing a grid needs  */
  adji_algorithm algorithm;
  adji_cuda_side sides[2];      /* a self-join has the first only */
  adji_cuda_side *left, *right; /* of these                       */
  /* A question to an index: the points of the index are the right ones, and there is only a left side. */
  adj_index *index;
  bool tree;      /* the search uses the tree of the index          */
  bool checks;    /* queries are checked while they are packed      */
  adji_lent lent; /* that tree, a grid, or points                   */
  adji_gpu_rows points;
  adji_gpu_range *range;
  adji_gpu_counted counted;
  adji_gpu_knn *nearest;
} cuda_join;

/* ---- Checks ---------------------------------------------------------------------------------------------- */

/* Refuses settings for transfers to the host. */
static adj_status check_no_host(const adji_tuning *t, adj_join_kind kind) {
  const char *name = t->buffer         ? "buffer"
                     : t->device_batch ? "device_batch"
                     : t->device_rows  ? "device_rows"
                     : t->streams      ? "test.streams"
                     : t->slices       ? "test.slices"
                     : t->share        ? "share" /* points on one device are joined there */
                                       : NULL;
  if (t->device_chunk && kind == ADJ_RANGE) name = "device_chunk";
  if (name) return adji_fail(ADJ_E_UNSUPPORTED, "tuning: %s= is for results in host memory", name);
  return ADJ_OK;
}

static const char *name_of_side(uint32_t i) {
  return i ? "right" : "left";
}

/* The number of sides that the caller passes. */
static uint32_t side_count(const cuda_join *j) {
  if (j->index) return j->plan.self_join ? 0 : 1;
  return j->plan.self_join ? 1 : 2;
}

static adj_status check(cuda_join *j, const adji_cuda_call *call) {
  adj_plan *plan = &j->plan;
  adj_join_spec_init(&plan->spec, sizeof plan->spec);
  adj_status status = adji_take_struct(&plan->spec, sizeof plan->spec, call->spec, "adj_join_spec");
  plan->spec.backend = ADJ_BACKEND_GPU;
  plan->spec.kind = call->kind;
  for (uint32_t i = 0; i < side_count(j) && !status; i++) {
    adji_cuda_side *s = &j->sides[i];
    status = adji_cuda_take_side(i ? call->right : call->left, name_of_side(i), s);
    s->set = (adj_dataset){.type = s->rows.type, .dim = s->rows.dim};
  }
  adji_tuning_scope scope = {0};
  if (!status) status = adji_check_request(&plan->spec, &j->left->set, &j->right->set, &plan->tuning, &scope);
  if (!status) status = check_no_host(&plan->tuning, call->kind);
  j->algorithm = scope.algorithm;
  plan->spec.algorithm = plan->spec.tuning = plan->spec.system = NULL;
  return status;
}

/* The metric is that of the index; everything else is from the question. */
static adj_status check_question(cuda_join *j, const adji_cuda_call *call) {
  adj_plan *plan = &j->plan;
  const adj_dataset *set = j->index->set;
  adji_tuning_scope scope = {0};
  adj_status status = adji_take_question(j->index, call->question, &plan->spec);
  plan->spec.backend = ADJ_BACKEND_GPU;
  plan->spec.kind = call->kind;
  if (!status && call->left) status = adji_cuda_take_side(call->left, "queries", j->left);
  if (status) return status;
  j->left->set = call->left ? (adj_dataset){.type = j->left->rows.type, .dim = j->left->rows.dim} : *set;
  if (call->left) j->left->set.count = j->left->rows.count;
  if (j->left->set.dim != set->dim)
    return adji_fail(ADJ_E_ARGUMENT, "queries: %u dimensions, but the index has %u", j->left->set.dim, set->dim);
  if (j->left->set.type != set->type)
    return adji_fail(ADJ_E_ARGUMENT, "queries: %s, but the index is %s", j->left->set.type == ADJ_F64 ? "f64" : "f32",
                     set->type == ADJ_F64 ? "f64" : "f32");
  plan->spec.box_count = 0; /* checked when the index was made */
  status = adji_check_request(&plan->spec, &j->left->set, call->left ? set : &j->left->set, &plan->tuning, &scope);
  plan->spec.box_count = j->index->spec.box_count;
  j->algorithm = scope.algorithm;
  return status;
}

enum { SAMPLE = ADJI_CUDA_SAMPLE, SMALL_SAMPLE = 1024 };

/* ---- Plans ----------------------------------------------------------------------------------------------- */

/* Surveys the points, or those derived from them: the plan has a sample in their place. */
static adj_status describe(cuda_join *j, uint64_t sample) {
  adj_plan *plan = &j->plan;
  bool self_join = plan->self_join;
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < side_count(j) && !status; i++)
    status = adji_cuda_derive_side(j->gpu, &plan->spec, &j->sides[i], self_join ? NULL : name_of_side(i));
  for (uint32_t i = 0; i < side_count(j) && !status; i++)
    status = adji_cuda_survey_side(plan->ctx, j->gpu, &j->sides[i], sample, self_join ? "points" : name_of_side(i));
  if (status) return status;
  plan->left = &j->left->set;
  plan->right = &j->right->set;
  status = adji_describe_derived(plan);
  plan->question.population = j->right->rows.count;
  plan->question.device = true;
  return status;
}

/* Describes queries to an index. They are surveyed only where that is needed: a tree packs few queries, and checks them
 * while it does. Radii belong to all queries, not to a sample. */
static adj_status describe_queries(cuda_join *j, uint64_t sample) {
  adj_plan *plan = &j->plan;
  adj_index *index = j->index;
  adji_cuda_side *left = j->left;
  adj_status status = ADJ_OK;
  if (!plan->self_join) {
    status = adji_cuda_derive_side(j->gpu, &plan->spec, left, "queries");
    bool dense = plan->spec.kind == ADJ_KNN && adji_gpu_knn_is_dense(left->rows.count, index->points->count);
    j->checks = j->tree && !dense && left->rows.count <= ADJI_PACKED_QUERIES;
    if (!status && !j->checks) status = adji_cuda_survey_side(plan->ctx, j->gpu, left, sample, "queries");
    if (j->checks) left->set = (adj_dataset){.type = left->rows.type, .dim = left->rows.dim};
  }
  if (status) return status;
  bool sampled = index->origin && !j->tree;
  plan->right = sampled ? &index->origin->sample : index->points;
  plan->left = plan->self_join ? plan->right : &left->set;
  status = adji_describe_asked(plan, plan->self_join ? index->points->count : left->rows.count);
  if (sampled) plan->question.population = index->points->count;
  plan->question.device = true;
  return status ? adji_fail_in(status, "queries") : ADJ_OK;
}

/* The sets become those of all points. */
static void describe_all(cuda_join *j) {
  adj_plan *plan = &j->plan;
  for (uint32_t i = 0; i < side_count(j); i++)
    j->sides[i].set.count = j->sides[i].rows.count;
  if (!j->index) return;
  plan->join.right = plan->right = j->index->points;
  if (plan->self_join) plan->join.left = plan->left = plan->right;
}

/* Borrows from the index in the middle of a call. The device is unlocked meanwhile: no thread may wait for an index
 * while it holds a device. */
static adj_status borrow(cuda_join *j, const adji_gpu_right_options *wanted, adji_gpu_right **out) {
  bool built;
  adji_gpu_unlock(j->gpu);
  adj_status status = adji_index_lend(j->index, 0, wanted, &j->lent, &built);
  adji_gpu_lock(j->gpu);
  *out = (adji_gpu_right *)(uintptr_t)j->lent.what;
  return status;
}

/* Borrows the points of the index for a search that has its own structures. */
static adj_status borrow_points(cuda_join *j, const adji_gpu_rows **out) {
  adji_gpu_right *points = NULL;
  if (!j->index) {
    *out = &j->right->rows;
    return ADJ_OK;
  }
  adj_status status = borrow(j, &(adji_gpu_right_options){.form = ADJI_RIGHT_POINTS}, &points);
  if (!status) j->points = *adji_gpu_right_rows(points);
  *out = &j->points;
  return status;
}

/* Whether the index is searched through its tree; refuses what only trees have. A range question goes through a grid if
 * it has enough queries to pay for it. */
static adj_status choose_tree(cuda_join *j) {
  enum { POINTS_A_QUERY = 8 };
  const adj_index *index = j->index;
  const adj_join_spec *spec = &j->plan.spec;
  uint64_t queries = j->plan.self_join ? index->points->count : j->left->rows.count;
  bool can = adji_gpu_has_tree(&index->measure, index->points->dim), asked = j->algorithm == ADJI_ALGORITHM_KDTREE;
  if (!can && (asked || spec->radii))
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "%s for trees on a GPU: up to six dimensions, and L2, L1 and Linf (and what is computed from "
                     "these)",
                     asked ? "algorithm: \"kdtree\" is" : "radii: a radius for each query is");
  if (spec->radii && j->algorithm && !asked)
    return adji_fail(ADJ_E_UNSUPPORTED, "radii: on a GPU a radius for each query is for the algorithm kdtree, not %s",
                     adji_algorithm_name(j->algorithm));
  bool few = spec->kind == ADJ_KNN || queries < index->points->count / POINTS_A_QUERY;
  j->tree = can && (asked || spec->radii || (!j->algorithm && few));
  return ADJ_OK;
}

/* ---- Range joins ----------------------------------------------------------------------------------------- */

/* Opens a grid for the join, with points of its own, or one that the index keeps. */
static adj_status open_grid(cuda_join *j, uint64_t sample) {
  adj_plan *plan = &j->plan;
  const adji_grid_choice *grid = &plan->device.grid;
  adj_status status = adji_choose_for_device(&plan->question, j->algorithm, &plan->device);
  if (!status) status = adji_gpu_mark(j->gpu, ADJI_MARK_PLANNED);
  if (status) return status;
  adji_gpu_range_options options = plan->device.options.range;
  options.timed = false;
  options.tile_hit_candidates = adji_choose_device_tile_hits(&plan->question, grid, true, sample);
  options.query_hits = adji_choose_device_query_hits(&plan->question, grid, true);
  describe_all(j);
  adji_gpu_right_options wanted = {.form = ADJI_RIGHT_GRID,
                                   .grid = &grid->grid,
                                   .limit = plan->join.limit,
                                   .squares = plan->measure.step == ADJI_STEP_L2};
  if (j->index && !grid->tensor.use)
    status = borrow(j, &wanted, &options.right);
  else
    status = borrow_points(j, &options.right_rows);
  options.left_rows = plan->self_join && j->index ? options.right_rows : &j->left->rows;
  if (plan->self_join && j->index && options.right) options.left_rows = j->index->origin ? &j->index->rows : NULL;
  return status ? status : adji_gpu_range_open(j->gpu, &options, &j->range);
}

static adj_status open_tree(cuda_join *j, bool fills) {
  adj_plan *plan = &j->plan;
  describe_all(j);
  adji_gpu_range_options options = {.join = &plan->join,
                                    .measure = &plan->measure,
                                    .grid = &plan->device.grid.grid,
                                    .right = (adji_gpu_right *)(uintptr_t)j->lent.what,
                                    .left_rows = plan->self_join ? NULL : &j->left->rows,
                                    .right_rows = j->index ? NULL : &j->right->rows,
                                    .tree = true,
                                    .checks_left = j->checks,
                                    .single = fills};
  return adji_gpu_range_open(j->gpu, &options, &j->range);
}

/* Whether settings ask for a join through a tree; refuses it where there is none. */
static adj_status check_tree(cuda_join *j) {
  j->tree = j->algorithm == ADJI_ALGORITHM_KDTREE;
  if (!j->tree || adji_gpu_has_tree(&j->plan.measure, j->plan.join.right->dim)) return ADJ_OK;
  return adji_fail(
      ADJ_E_UNSUPPORTED,
      "algorithm: \"kdtree\" is for trees on a GPU: up to six dimensions, and L2, L1 and Linf (and what is "
      "computed from these)");
}

static adj_status open_range(cuda_join *j, bool fills) {
  uint32_t dim = j->index ? j->index->points->dim : j->left->rows.dim;
  uint64_t sample = dim <= 3 ? SMALL_SAMPLE : SAMPLE;
  adj_status status = j->index ? describe_queries(j, sample) : describe(j, sample);
  if (!status && !j->index) status = check_tree(j);
  if (status) return status;
  return j->tree ? open_tree(j, fills) : open_grid(j, sample);
}

static void finish(cuda_join *j) {
  adj_plan *plan = &j->plan;
  adji_gpu_range_close(j->range);
  adji_gpu_knn_close(j->nearest);
  adji_cuda_forget_side(plan->ctx, &j->sides[0]);
  adji_cuda_forget_side(plan->ctx, &j->sides[1]);
}

/* Frees what needs no device. */
static void forget(cuda_join *j) {
  if (!j->plan.ctx) return;
  adji_give_back(&j->lent);
  adji_forget_device(&j->plan);
  adji_forget_join(&j->plan);
}

/* Before the device is locked: checks the call, and borrows from the index. */
static adj_status prepare(cuda_join *j, const adji_cuda_call *call) {
  bool built;
  j->plan.ctx = call->ctx;
  j->plan.self_join = call->index ? !call->left : !call->right || call->right == call->left;
  j->left = &j->sides[0];
  j->right = &j->sides[j->plan.self_join ? 0 : 1];
  j->index = call->index;
  if (!call->index) return check(j, call);
  j->plan.index = adji_index_share(call->index);
  adj_status status = check_question(j, call);
  if (!status) status = choose_tree(j);
  if (status || !j->tree) return status;
  return adji_index_lend(j->index, 0, &(adji_gpu_right_options){.form = ADJI_RIGHT_TREE}, &j->lent, &built);
}

static adj_status begin(cuda_join *j, const adji_cuda_call *call) {
  adj_status status = adji_check_cancel(call->ctx);
  if (!status) status = adji_gpu_after(j->gpu, call->stream);
  if (!status) status = adji_gpu_mark(j->gpu, ADJI_MARK_BEGIN); /* marked when earlier work of the stream is over */
  return status;
}

/* Runs a range join up to and including the count. */
static adj_status count(cuda_join *j, const adji_cuda_call *call, bool fills) {
  adj_status status = begin(j, call);
  if (!status) status = open_range(j, fills);
  if (!status) status = adji_check_cancel(call->ctx);
  if (!status) status = adji_gpu_range_count(j->range, fills, 0, UINT64_MAX);
  if (!status) status = adji_gpu_range_counted(j->range, &j->counted);
  return status ? status : adji_check_cancel(call->ctx);
}

/* Finds all pairs in one slot. */
static adj_status fill_slot(cuda_join *j) {
  adji_gpu_window all = {0, j->plan.join.left->count, 0, j->counted.pairs};
  adj_status status = adji_gpu_range_slots(j->range, 1, j->counted.pairs);
  if (!status) status = adji_gpu_range_fill(j->range, &all, 0);
  return status ? status : adji_gpu_range_check(j->range);
}

/* If there is no room beside the count cache, the cache is dropped and the pairs are found again. */
static adj_status fill(cuda_join *j, adji_gpu_csr *out) {
  adji_gpu_range_forget_degrees(j->range);
  adj_status status = fill_slot(j);
  if (status == ADJ_E_DEVICE_MEMORY && adji_gpu_range_forget(j->range)) status = fill_slot(j);
  if (!status) status = adji_gpu_range_take(j->range, 0, out);
  return status;
}

static adj_status find_pairs(cuda_join *j, const adji_cuda_call *call) {
  adj_status status = count(j, call, call->csr);
  if (!status && call->csr) status = fill(j, call->csr);
  return !status && call->degrees ? adji_gpu_range_copy_degrees(j->range, call->degrees) : status;
}

static adj_status find_nearest(cuda_join *j, const adji_cuda_call *call) {
  adj_plan *plan = &j->plan;
  adji_knn_request request;
  const char *reason;
  adj_status status = begin(j, call);
  if (!status) status = j->index ? describe_queries(j, 1) : describe(j, 1);
  if (status) return status;
  describe_all(j);
  request = adji_knn_request_of(plan);
  status = adji_check_knn_kernels(plan);
  if (!status) status = adji_gpu_knn_choose(&request, j->tree ? ADJI_ALGORITHM_KDTREE : j->algorithm, &reason);
  if (!status && !j->tree) status = adji_gpu_mark(j->gpu, ADJI_MARK_PLANNED);
  if (!status && !j->tree) status = borrow_points(j, &request.options.right_rows);
  if (status) return status;
  request.options.timed = false;
  request.options.checks_left = j->checks;
  if (j->tree) request.options.right = (adji_gpu_right *)(uintptr_t)j->lent.what;
  request.options.left_rows = plan->self_join ? request.options.right_rows : &j->left->rows;
  request.options.rows_at_once = 0; /* the table has all rows */
  status = adji_gpu_knn_open(j->gpu, &request.options, &j->nearest);
  return status ? status : adji_gpu_knn_take(j->nearest, call->csr);
}

static adj_status run_once(const adji_cuda_call *call) {
  cuda_join *j = calloc(1, sizeof *j);
  adj_status status = j ? adji_gpu_of(call->ctx, &j->gpu) : adji_fail(ADJ_E_MEMORY, "no memory for a join");
  if (!status) status = prepare(j, call);
  if (!status) {
    adji_gpu_lock(j->gpu);
    adji_gpu_reset_peak(j->gpu);
    status = call->kind == ADJ_KNN ? find_nearest(j, call) : find_pairs(j, call);
    if (status == ADJ_E_DATA && j->checks) status = adji_fail_in(status, "queries"); /* found while packing */
    if (!status) status = adji_gpu_before(j->gpu, call->stream);
    if (!status && !j->index) status = adji_gpu_wait(j->gpu); /* the result is complete when the call returns */
    if (status && call->csr) adji_gpu_csr_free(call->csr, NULL);
    if (status && call->csr) *call->csr = (adji_gpu_csr){0};
    if (!status && call->total) *call->total = j->counted.pairs;
    finish(j);
    adji_gpu_unlock(j->gpu);
  }
  if (j) forget(j);
  free(j);
  return status;
}

/* Drops grids that the index keeps if there is no room for the result. */
adj_status adji_cuda_run(const adji_cuda_call *call) {
  adji_call outer = adji_call_begin(&call->ctx->cancels);
  adj_status status = run_once(call);
  while (status == ADJ_E_DEVICE_MEMORY && call->index && adji_index_drop(call->index, 0))
    status = run_once(call);
  adji_call_set(outer);
  return status;
}

adj_status adji_cuda_make_result(adji_cuda_call call, adj_cuda_result **out) {
  adj_cuda_result *result = calloc(1, sizeof *result);
  if (!result) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  call.csr = &result->csr;
  adj_status status = adji_cuda_run(&call);
  if (status)
    free(result);
  else
    *out = result;
  return status;
}

static adj_status refuse_null(void) {
  return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, left and out: none may be NULL");
}

adj_status adj_cuda_range_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                               const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out) {
  if (!ctx || !spec || !left || !out) return refuse_null();
  return adji_cuda_make_result((adji_cuda_call){ctx, ADJ_RANGE, spec, left, right, stream, .csr = NULL}, out);
}

adj_status adj_cuda_knn_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                             const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out) {
  if (!ctx || !spec || !left || !out) return refuse_null();
  return adji_cuda_make_result((adji_cuda_call){ctx, ADJ_KNN, spec, left, right, stream, .csr = NULL}, out);
}

adj_status adj_cuda_range_count(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                const adj_cuda_points *right, adj_cuda_stream stream, uint32_t *degrees,
                                uint64_t *total) {
  if (!ctx || !spec || !left) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec and left: none may be NULL");
  return adji_cuda_run(
      &(adji_cuda_call){ctx, ADJ_RANGE, spec, left, right, stream, .degrees = degrees, .total = total});
}

void adj_cuda_result_destroy(adj_cuda_result *result, adj_cuda_stream stream) {
  if (!result) return;
  adji_gpu_lock(result->csr.gpu);
  adji_gpu_csr_free(&result->csr, stream);
  adji_gpu_unlock(result->csr.gpu);
  free(result);
}

static adj_status last_times(adj_ctx *ctx, adj_cuda_times *out) {
  adji_gpu *gpu;
  adj_status status = adji_gpu_of(ctx, &gpu);
  if (status) return status;
  adji_gpu_lock(gpu);
  adj_cuda_times times = {.plan_s = adji_gpu_between(gpu, ADJI_MARK_BEGIN, ADJI_MARK_PLANNED),
                          .index_s = adji_gpu_between(gpu, ADJI_MARK_PLANNED, ADJI_MARK_INDEXED),
                          .count_s = adji_gpu_between(gpu, ADJI_MARK_INDEXED, ADJI_MARK_COUNTED),
                          .fill_s = adji_gpu_between(gpu, ADJI_MARK_COUNTED, ADJI_MARK_FILLED),
                          .sort_s = adji_gpu_between(gpu, ADJI_MARK_FILLED, ADJI_MARK_SORTED),
                          .candidates = adji_gpu_last_candidates(gpu),
                          .peak_bytes = adji_gpu_peak(gpu)};
  if (!(times.count_s > 0)) /* a question to an index, which is not timed step by step */
    times.count_s = adji_gpu_between(gpu, ADJI_MARK_BEGIN, ADJI_MARK_COUNTED);
  adji_gpu_unlock(gpu);
  return adji_give_struct(out, &times, sizeof times, "adj_cuda_times");
}

adj_status adj_cuda_last_times(adj_ctx *ctx, adj_cuda_times *out) {
  if (!ctx || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx and out: neither may be NULL");
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = last_times(ctx, out);
  adji_call_set(outer);
  return status;
}

uint64_t adj_cuda_result_rows(const adj_cuda_result *result) {
  return result->csr.rows;
}
uint64_t adj_cuda_result_pairs(const adj_cuda_result *result) {
  return result->csr.pairs;
}
const uint64_t *adj_cuda_result_offsets(const adj_cuda_result *result) {
  return result->csr.offsets;
}
const uint32_t *adj_cuda_result_ids(const adj_cuda_result *result) {
  return result->csr.ids;
}
const void *adj_cuda_result_distances(const adj_cuda_result *result) {
  return result->csr.distances;
}
