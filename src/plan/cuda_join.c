/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h: joins of points on a device. The plan is made from a survey of them, as others are from the points
 * themselves, and the result is a slot of the device that changes hands.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adjoin_cuda.h"
#include "gpu/knn/knn.h"
#include "plan/cuda_points.h"
#include "plan/plan.h"

struct adj_cuda_result {
  adji_gpu_csr csr;
};

void adj_cuda_points_init(adj_cuda_points *points, size_t struct_size) {
  adj_cuda_points defaults = {0};
  adji_init_struct(points, struct_size, &defaults, sizeof defaults);
}

void adj_cuda_times_init(adj_cuda_times *times, size_t struct_size) {
  adj_cuda_times defaults = {0};
  adji_init_struct(times, struct_size, &defaults, sizeof defaults);
}

/* ---- The join -------------------------------------------------------------------------------------------- */

typedef struct cuda_join {
  adji_gpu *gpu;
  adj_plan plan; /* as far as choosing a grid goes   */
  adji_algorithm algorithm;
  adji_cuda_side left, right;
  adji_gpu_range *range;
  adji_gpu_counted counted;
  adji_gpu_knn *nearest;
} cuda_join;

/* Settings of the way to the host. */
static adj_status check_no_host(const adji_tuning *t, adj_join_kind kind) {
  const char *name = t->buffer         ? "buffer"
                     : t->device_batch ? "device_batch"
                     : t->device_rows  ? "device_rows"
                     : t->streams      ? "test.streams"
                     : t->slices       ? "test.slices"
                                       : NULL;
  if (t->device_chunk && kind == ADJ_RANGE) name = "device_chunk";
  if (name) return adji_fail(ADJ_E_UNSUPPORTED, "tuning: %s= is for results in host memory", name);
  return ADJ_OK;
}

static adj_status check(cuda_join *j, adj_join_kind kind, const adj_join_spec *spec, const adj_cuda_points *left,
                        const adj_cuda_points *right) {
  adj_plan *plan = &j->plan;
  adj_join_spec_init(&plan->spec, sizeof plan->spec);
  adj_status status = adji_take_struct(&plan->spec, sizeof plan->spec, spec, "adj_join_spec");
  plan->spec.backend = ADJ_BACKEND_GPU;
  plan->spec.kind = kind;
  if (!status) status = adji_cuda_side_take(left, "left", &j->left);
  if (!status && !plan->self_join) status = adji_cuda_side_take(right, "right", &j->right);
  if (status) return status;
  const adji_cuda_side *r = plan->self_join ? &j->left : &j->right;
  j->left.set = (adj_dataset){.type = j->left.rows.type, .dim = j->left.rows.dim};
  adj_dataset other = {.type = r->rows.type, .dim = r->rows.dim};
  status = adji_check_spec(&plan->spec, &j->left.set, plan->self_join ? &j->left.set : &other, &j->algorithm);
  if (!status) status = adji_tuning_parse(plan->spec.tuning, &plan->tuning);
  adji_tuning_scope scope = {kind, plan->spec.metric, ADJ_BACKEND_GPU, j->algorithm, 0};
  if (!status) status = adji_tuning_fit(&plan->tuning, &scope);
  if (!status) status = check_no_host(&plan->tuning, kind);
  if (!status) status = adji_check_algorithm_on(kind, ADJ_BACKEND_GPU, scope.algorithm);
  j->algorithm = scope.algorithm;
  plan->spec.algorithm = plan->spec.tuning = NULL;
  return status;
}

enum { SAMPLE = 2048, SMALL_SAMPLE = 1024 };

/* Looks at the points, or at those derived from them: a sample of them takes their place in the plan. */
static adj_status describe(cuda_join *j, uint64_t sample) {
  adj_plan *plan = &j->plan;
  adji_cuda_side *r = plan->self_join ? &j->left : &j->right;
  adj_status status = adji_cuda_side_derive(j->gpu, &plan->spec, &j->left, plan->self_join ? NULL : "left");
  if (!status && !plan->self_join) status = adji_cuda_side_derive(j->gpu, &plan->spec, &j->right, "right");
  if (!status) status = adji_cuda_side_survey(plan->ctx, j->gpu, &j->left, sample, plan->self_join ? "points" : "left");
  if (!status && !plan->self_join) status = adji_cuda_side_survey(plan->ctx, j->gpu, &j->right, sample, "right");
  if (status) return status;
  plan->left = &j->left.set;
  plan->right = &r->set;
  adj_status described = adji_describe_derived(plan);
  plan->question.population = r->rows.count;
  plan->question.device = true;
  return described;
}

/* The sets become those of all points. */
static void describe_all(cuda_join *j) {
  j->left.set.count = j->left.rows.count;
  if (!j->plan.self_join) j->right.set.count = j->right.rows.count;
}

static adj_status open_range(cuda_join *j) {
  adj_plan *plan = &j->plan;
  adji_cuda_side *r = plan->self_join ? &j->left : &j->right;
  uint64_t sample = j->left.rows.dim <= 3 ? SMALL_SAMPLE : SAMPLE;
  adj_status status = describe(j, sample);
  if (!status) status = adji_choose_for_device(&plan->question, j->algorithm, &plan->device);
  if (!status) status = adji_gpu_mark(j->gpu, ADJI_MARK_PLANNED);
  if (status) return status;
  describe_all(j);
  const adji_grid_choice *grid = &plan->device.grid;
  adji_gpu_range_options options = plan->device.options.range;
  options.timed = false;
  options.left_rows = &j->left.rows;
  options.right_rows = &r->rows;
  options.tile_hit_candidates = adji_choose_device_tile_hits(&plan->question, grid, true, sample);
  options.query_hits = adji_choose_device_query_hits(&plan->question, grid, true);
  return adji_gpu_range_open(j->gpu, &options, &j->range);
}

static void finish(cuda_join *j) {
  adj_plan *plan = &j->plan;
  adji_gpu_range_close(j->range);
  adji_gpu_knn_close(j->nearest);
  adji_forget_device(plan);
  adji_forget_join(plan);
  adji_cuda_side_forget(plan->ctx, &j->left);
  adji_cuda_side_forget(plan->ctx, &j->right);
}

/* A call: what is joined, and the stream it is in the order of. */
typedef struct call_spec {
  adj_ctx *ctx;
  adj_join_kind kind;
  const adj_join_spec *spec;
  const adj_cuda_points *left, *right;
  adj_cuda_stream stream;
} call_spec;

static adj_status begin(cuda_join *j, const call_spec *call) {
  j->plan.ctx = call->ctx;
  j->plan.self_join = !call->right || call->right == call->left;
  adj_status status = check(j, call->kind, call->spec, call->left, call->right);
  if (!status) status = adji_check_cancel(call->ctx);
  if (!status) status = adji_gpu_after(j->gpu, call->stream);
  if (!status) status = adji_gpu_mark(j->gpu, ADJI_MARK_BEGIN); /* once what comes before is over */
  return status;
}

/* Everything up to the count. */
static adj_status count(cuda_join *j, const call_spec *call, bool fills) {
  adj_status status = begin(j, call);
  if (!status) status = open_range(j);
  if (!status) status = adji_check_cancel(call->ctx);
  if (!status) status = adji_gpu_range_count(j->range, fills, 0, UINT64_MAX);
  if (!status) status = adji_gpu_range_counted(j->range, &j->counted);
  return status ? status : adji_check_cancel(call->ctx);
}

/* All pairs in one slot. */
static adj_status fill_slot(cuda_join *j) {
  adji_gpu_window all = {0, j->left.rows.count, 0, j->counted.pairs};
  adj_status status = adji_gpu_range_slots(j->range, 1, j->counted.pairs);
  if (!status) status = adji_gpu_range_fill(j->range, &all, 0);
  return status ? status : adji_gpu_range_check(j->range);
}

/* Where there is no room beside what the count kept, pairs are found again. */
static adj_status fill(cuda_join *j, adji_gpu_csr *out) {
  adji_gpu_range_forget_degrees(j->range);
  adj_status status = fill_slot(j);
  if (status == ADJ_E_DEVICE_MEMORY && adji_gpu_range_forget(j->range)) status = fill_slot(j);
  if (!status) status = adji_gpu_range_take(j->range, 0, out);
  return status;
}

static adj_status find_pairs(cuda_join *j, const call_spec *call, adji_gpu_csr *out) {
  adj_status status = count(j, call, true);
  return status ? status : fill(j, out);
}

static adj_status find_nearest(cuda_join *j, const call_spec *call, adji_gpu_csr *out) {
  adj_plan *plan = &j->plan;
  adji_knn_request request;
  const char *reason;
  adj_status status = begin(j, call);
  if (!status) status = describe(j, 1);
  if (status) return status;
  describe_all(j);
  request = adji_knn_request_of(plan);
  status = adji_check_knn_kernels(plan);
  if (!status) status = adji_gpu_knn_choose(&request, j->algorithm, &reason);
  if (!status) status = adji_gpu_mark(j->gpu, ADJI_MARK_PLANNED);
  if (status) return status;
  request.options.left_rows = &j->left.rows;
  request.options.right_rows = plan->self_join ? &j->left.rows : &j->right.rows;
  request.options.rows_at_once = 0; /* the table has all rows */
  status = adji_gpu_knn_open(j->gpu, &request.options, &j->nearest);
  return status ? status : adji_gpu_knn_take(j->nearest, out);
}

/* Makes a result by `find`, with the device to itself. */
static adj_status make_result(const call_spec *call,
                              adj_status (*find)(cuda_join *j, const call_spec *call, adji_gpu_csr *out),
                              adj_cuda_result **out) {
  if (!call->ctx || !call->spec || !call->left || !out)
    return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, left and out: none may be NULL");
  adj_cuda_result *result = calloc(1, sizeof *result);
  cuda_join *j = calloc(1, sizeof *j);
  adji_call outer = adji_call_begin(&call->ctx->cancels);
  adj_status status = result && j ? ADJ_OK : adji_fail(ADJ_E_MEMORY, "no memory for a join");
  if (!status) status = adji_gpu_of(call->ctx, &j->gpu);
  if (!status) {
    adji_gpu_lock(j->gpu);
    adji_gpu_reset_peak(j->gpu);
    status = find(j, call, &result->csr);
    if (!status) status = adji_gpu_before(j->gpu, call->stream);
    if (status) adji_gpu_csr_free(&result->csr, NULL);
    finish(j);
    adji_gpu_unlock(j->gpu);
  }
  free(j);
  adji_call_set(outer);
  if (status)
    free(result);
  else
    *out = result;
  return status;
}

adj_status adj_cuda_range_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                               const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out) {
  call_spec call = {ctx, ADJ_RANGE, spec, left, right, stream};
  return make_result(&call, find_pairs, out);
}

adj_status adj_cuda_knn_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                             const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out) {
  call_spec call = {ctx, ADJ_KNN, spec, left, right, stream};
  return make_result(&call, find_nearest, out);
}

adj_status adj_cuda_range_count(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                const adj_cuda_points *right, adj_cuda_stream stream, uint32_t *degrees,
                                uint64_t *total) {
  if (!ctx || !spec || !left) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec and left: none may be NULL");
  cuda_join *j = calloc(1, sizeof *j);
  adji_call outer = adji_call_begin(&ctx->cancels);
  adj_status status = j ? adji_gpu_of(ctx, &j->gpu) : adji_fail(ADJ_E_MEMORY, "no memory for a join");
  if (!status) {
    adji_gpu_lock(j->gpu);
    adji_gpu_reset_peak(j->gpu);
    call_spec call = {ctx, ADJ_RANGE, spec, left, right, stream};
    status = count(j, &call, false);
    if (!status && degrees) status = adji_gpu_range_copy_degrees(j->range, degrees);
    if (!status) status = adji_gpu_before(j->gpu, stream);
    if (!status && total) *total = j->counted.pairs;
    finish(j);
    adji_gpu_unlock(j->gpu);
  }
  free(j);
  adji_call_set(outer);
  return status;
}

void adj_cuda_result_destroy(adj_cuda_result *result, adj_cuda_stream stream) {
  if (!result) return;
  adji_gpu_lock(result->csr.gpu);
  adji_gpu_csr_free(&result->csr, stream);
  adji_gpu_unlock(result->csr.gpu);
  free(result);
}

adj_status adj_cuda_last_times(adj_ctx *ctx, adj_cuda_times *out) {
  if (!ctx || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx and out: neither may be NULL");
  adji_gpu *gpu;
  adj_status status = adji_gpu_of(ctx, &gpu);
  if (status) return status;
  adji_gpu_lock(gpu);
  adj_cuda_times mine = {.plan_s = adji_gpu_between(gpu, ADJI_MARK_BEGIN, ADJI_MARK_PLANNED),
                         .index_s = adji_gpu_between(gpu, ADJI_MARK_PLANNED, ADJI_MARK_INDEXED),
                         .count_s = adji_gpu_between(gpu, ADJI_MARK_INDEXED, ADJI_MARK_COUNTED),
                         .fill_s = adji_gpu_between(gpu, ADJI_MARK_COUNTED, ADJI_MARK_FILLED),
                         .sort_s = adji_gpu_between(gpu, ADJI_MARK_FILLED, ADJI_MARK_SORTED),
                         .candidates = adji_gpu_last_candidates(gpu),
                         .peak_bytes = adji_gpu_peak(gpu)};
  adji_gpu_unlock(gpu);
  return adji_give_struct(out, &mine, sizeof mine, "adj_cuda_times");
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
