/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h: joins of points on a device. The plan is made from a survey of the points, and the result is a slot of
 * the device that the caller takes over.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "adjoin_cuda.h"
#include "gpu/device/derive.h"
#include "gpu/device/survey.h"
#include "gpu/knn/knn.h"
#include "plan/plan.h"

struct adj_cuda_result {
  adji_gpu_csr csr;
};

ADJI_DEFINE_INIT(adj_cuda_points, 0)

ADJI_DEFINE_INIT(adj_cuda_times, 0)

/* ---- The points ------------------------------------------------------------------------------------------ */

/* One side of a join: the points, and what is known of them in the shape of a set. */
typedef struct cuda_side {
  adji_gpu_rows rows;
  adj_dataset set; /* type, dim, count, bounds; data: a sample, in survey's rows */
  double *bounds;
  void *sample;
  adji_gpu_points derived; /* where the rows are not the caller's */
} cuda_side;

/* Checks what a caller says of points; name is the argument. */
static adj_status take_side(const adj_cuda_points *points, const char *name, cuda_side *out) {
  adj_cuda_points mine;
  adj_cuda_points_init(&mine, sizeof mine);
  adj_status status = adji_take_struct(&mine, sizeof mine, points, "adj_cuda_points");
  if (status) return status;
  if (mine.type != ADJ_F32 && mine.type != ADJ_F64)
    return adji_fail(ADJ_E_ARGUMENT, "%s: type %d is neither f32 nor f64", name, (int)mine.type);
  if (!mine.dim) return adji_fail(ADJ_E_ARGUMENT, "%s: dim must be at least 1", name);
  if (mine.count > ADJ_MAX_COUNT)
    return adji_fail(ADJ_E_ARGUMENT, "%s: %llu points are more than %llu", name, (unsigned long long)mine.count,
                     (unsigned long long)ADJ_MAX_COUNT);
  if (mine.count && !mine.data) return adji_fail(ADJ_E_ARGUMENT, "%s: data is NULL", name);
  size_t size = adji_type_size(mine.type);
  if (!mine.column_stride) mine.column_stride = size;
  if (!mine.row_stride) mine.row_stride = mine.dim * size;
  if (mine.row_stride % size || mine.column_stride % size)
    return adji_fail(ADJ_E_ARGUMENT, "%s: strides must be multiples of the type's size", name);
  out->rows =
      (adji_gpu_rows){mine.data, mine.type, mine.dim, mine.count, mine.row_stride / size, mine.column_stride / size};
  return ADJ_OK;
}

/* Cosine and great-circle distances are those of derived points, which replace the caller's. name NULL: a failure names
 * no argument. */
static adj_status derive_side(adji_gpu *gpu, const adj_join_spec *spec, cuda_side *s, const char *name) {
  adj_status status;
  if (spec->metric == ADJ_COSINE)
    status = adji_gpu_derive_units(gpu, &s->rows, &s->derived);
  else if (spec->metric == ADJ_HAVERSINE)
    status = adji_gpu_derive_sphere(gpu, &s->rows, spec->angle, &s->derived);
  else
    return ADJ_OK;
  if (status) return name ? adji_fail_in(status, name) : status;
  s->rows = s->derived.rows;
  return ADJ_OK;
}

/* Finds the bounds, and a sample of at most so many rows: the set then has these. */
static adj_status survey_side(adj_ctx *ctx, adji_gpu *gpu, cuda_side *s, uint64_t sample, const char *name) {
  const adji_gpu_rows *rows = &s->rows;
  size_t size = adji_type_size(rows->type);
  uint64_t room = adji_gpu_survey_rows(rows->dim, rows->type);
  if (sample > room) sample = room;
  if (sample > rows->count) sample = rows->count;
  s->bounds = adji_alloc(&ctx->memory, 2 * (uint64_t)rows->dim, sizeof *s->bounds, "bounds");
  s->sample = adji_alloc(&ctx->memory, sample * rows->dim, size, "sample");
  if (!s->bounds || !s->sample) return ADJ_E_MEMORY;
  s->set = (adj_dataset){.ctx = ctx, .type = rows->type, .dim = rows->dim, .count = sample, .data = s->sample};
  s->set.row_stride = rows->dim * size;
  s->set.column_stride = size;
  s->set.low = s->bounds;
  s->set.high = s->bounds + rows->dim;
  adj_status status = adji_gpu_survey(gpu, rows, s->set.low, s->set.high, sample, s->sample);
  return status ? adji_fail_in(status, name) : ADJ_OK;
}

static void forget_side(adj_ctx *ctx, cuda_side *s) {
  adji_free(&ctx->memory, s->bounds);
  adji_free(&ctx->memory, s->sample);
  adji_gpu_points_free(&s->derived);
}

/* ---- The join -------------------------------------------------------------------------------------------- */

/* A call: what is joined, the stream it is in the order of, and where the answer goes. */
typedef struct call_spec {
  adj_ctx *ctx;
  adj_join_kind kind;
  const adj_join_spec *spec;
  const adj_cuda_points *left, *right;
  adj_cuda_stream stream;
  adji_gpu_csr *csr; /* NULL: only counts are asked for */
  uint32_t *degrees; /* on the device; may be NULL      */
  uint64_t *total;   /* may be NULL                     */
} call_spec;

typedef struct cuda_join {
  adji_gpu *gpu;
  adj_plan plan; /* as far as choosing a grid goes   */
  adji_algorithm algorithm;
  cuda_side sides[2];      /* a self-join has the first only */
  cuda_side *left, *right; /* of these                       */
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

static const char *name_of_side(uint32_t i) {
  return i ? "right" : "left";
}

static uint32_t side_count(const cuda_join *j) {
  return j->plan.self_join ? 1 : 2;
}

static adj_status check(cuda_join *j, const call_spec *call) {
  adj_plan *plan = &j->plan;
  adj_join_spec_init(&plan->spec, sizeof plan->spec);
  adj_status status = adji_take_struct(&plan->spec, sizeof plan->spec, call->spec, "adj_join_spec");
  plan->spec.backend = ADJ_BACKEND_GPU;
  plan->spec.kind = call->kind;
  for (uint32_t i = 0; i < side_count(j) && !status; i++) {
    cuda_side *s = &j->sides[i];
    status = take_side(i ? call->right : call->left, name_of_side(i), s);
    s->set = (adj_dataset){.type = s->rows.type, .dim = s->rows.dim};
  }
  adji_tuning_scope scope = {0};
  if (!status) status = adji_check_request(&plan->spec, &j->left->set, &j->right->set, &plan->tuning, &scope);
  if (!status) status = check_no_host(&plan->tuning, call->kind);
  j->algorithm = scope.algorithm;
  plan->spec.algorithm = plan->spec.tuning = NULL;
  return status;
}

enum { SAMPLE = 2048, SMALL_SAMPLE = 1024 };

/* Surveys the points, or those derived from them: the plan has a sample in their place. */
static adj_status describe(cuda_join *j, uint64_t sample) {
  adj_plan *plan = &j->plan;
  bool self_join = plan->self_join;
  adj_status status = ADJ_OK;
  for (uint32_t i = 0; i < side_count(j) && !status; i++)
    status = derive_side(j->gpu, &plan->spec, &j->sides[i], self_join ? NULL : name_of_side(i));
  for (uint32_t i = 0; i < side_count(j) && !status; i++)
    status = survey_side(plan->ctx, j->gpu, &j->sides[i], sample, self_join ? "points" : name_of_side(i));
  if (status) return status;
  plan->left = &j->left->set;
  plan->right = &j->right->set;
  status = adji_describe_derived(plan);
  plan->question.population = j->right->rows.count;
  plan->question.device = true;
  return status;
}

/* The sets become those of all points. */
static void describe_all(cuda_join *j) {
  for (uint32_t i = 0; i < side_count(j); i++)
    j->sides[i].set.count = j->sides[i].rows.count;
}

static adj_status open_range(cuda_join *j) {
  adj_plan *plan = &j->plan;
  uint64_t sample = j->left->rows.dim <= 3 ? SMALL_SAMPLE : SAMPLE;
  adj_status status = describe(j, sample);
  if (!status) status = adji_choose_for_device(&plan->question, j->algorithm, &plan->device);
  if (!status) status = adji_gpu_mark(j->gpu, ADJI_MARK_PLANNED);
  if (status) return status;
  describe_all(j);
  const adji_grid_choice *grid = &plan->device.grid;
  adji_gpu_range_options options = plan->device.options.range;
  options.timed = false;
  options.left_rows = &j->left->rows;
  options.right_rows = &j->right->rows;
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
  forget_side(plan->ctx, &j->sides[0]);
  forget_side(plan->ctx, &j->sides[1]);
}

static adj_status begin(cuda_join *j, const call_spec *call) {
  j->plan.ctx = call->ctx;
  j->plan.self_join = !call->right || call->right == call->left;
  j->left = &j->sides[0];
  j->right = &j->sides[side_count(j) - 1];
  adj_status status = check(j, call);
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
  adji_gpu_window all = {0, j->left->rows.count, 0, j->counted.pairs};
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

static adj_status find_pairs(cuda_join *j, const call_spec *call) {
  adj_status status = count(j, call, call->csr);
  if (!status && call->csr) status = fill(j, call->csr);
  return !status && call->degrees ? adji_gpu_range_copy_degrees(j->range, call->degrees) : status;
}

static adj_status find_nearest(cuda_join *j, const call_spec *call) {
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
  request.options.left_rows = &j->left->rows;
  request.options.right_rows = &j->right->rows;
  request.options.rows_at_once = 0; /* the table has all rows */
  status = adji_gpu_knn_open(j->gpu, &request.options, &j->nearest);
  return status ? status : adji_gpu_knn_take(j->nearest, call->csr);
}

/* The whole call, with the device to itself. */
static adj_status run(const call_spec *call) {
  cuda_join *j = calloc(1, sizeof *j);
  adji_call outer = adji_call_begin(&call->ctx->cancels);
  adj_status status = j ? adji_gpu_of(call->ctx, &j->gpu) : adji_fail(ADJ_E_MEMORY, "no memory for a join");
  if (!status) {
    adji_gpu_lock(j->gpu);
    adji_gpu_reset_peak(j->gpu);
    status = call->kind == ADJ_KNN ? find_nearest(j, call) : find_pairs(j, call);
    if (!status) status = adji_gpu_before(j->gpu, call->stream);
    if (!status) status = adji_gpu_wait(j->gpu); /* the result is complete when the call returns */
    if (status && call->csr) adji_gpu_csr_free(call->csr, NULL);
    if (!status && call->total) *call->total = j->counted.pairs;
    finish(j);
    adji_gpu_unlock(j->gpu);
  }
  free(j);
  adji_call_set(outer);
  return status;
}

static adj_status make_result(call_spec call, adj_cuda_result **out) {
  if (!call.ctx || !call.spec || !call.left || !out)
    return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, left and out: none may be NULL");
  adj_cuda_result *result = calloc(1, sizeof *result);
  if (!result) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  call.csr = &result->csr;
  adj_status status = run(&call);
  if (status)
    free(result);
  else
    *out = result;
  return status;
}

adj_status adj_cuda_range_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                               const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out) {
  return make_result((call_spec){ctx, ADJ_RANGE, spec, left, right, stream, NULL, NULL, NULL}, out);
}

adj_status adj_cuda_knn_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                             const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out) {
  return make_result((call_spec){ctx, ADJ_KNN, spec, left, right, stream, NULL, NULL, NULL}, out);
}

adj_status adj_cuda_range_count(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                const adj_cuda_points *right, adj_cuda_stream stream, uint32_t *degrees,
                                uint64_t *total) {
  if (!ctx || !spec || !left) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec and left: none may be NULL");
  return run(&(call_spec){ctx, ADJ_RANGE, spec, left, right, stream, NULL, degrees, total});
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
