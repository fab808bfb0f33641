/* SPDX-License-Identifier: MIT
 *
 * adjoin_cuda.h: joins of points on a device. The plan is made from a survey of them, as others are from the points
 * themselves, and the result is a slot of the device that changes hands.
 */
#include "adjoin_cuda.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/range.h"
#include "plan/check.h"
#include "plan/choose_access.h"
#include "plan/choose_grid.h"
#include "plan/choose_once.h"
#include "plan/describe.h"

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

#ifdef ADJI_HAVE_CUDA

/* ---- The points ---------------------------------------------------------------------------------------- */

/* One side of a join: the points, and what is known of them in the shape of a set. */
typedef struct side {
  adji_gpu_rows rows;
  adj_dataset set; /* type, dim, count, bounds; data: a sample, in survey's rows */
  double *bounds;
  void *sample;
} side;

static adj_status take_points(const adj_cuda_points *points, const char *name, side *out) {
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

enum { SAMPLE = 2048, SMALL_SAMPLE = 1024 };

/* Bounds and a sample; the set has the sample's rows. */
static adj_status survey(adj_ctx *ctx, adji_gpu *gpu, side *s, const char *name) {
  const adji_gpu_rows *rows = &s->rows;
  size_t size = adji_type_size(rows->type);
  uint64_t sample = rows->dim <= 3 ? SMALL_SAMPLE : SAMPLE;
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

/* ---- The join -------------------------------------------------------------------------------------------- */

typedef struct cuda_join {
  adji_gpu *gpu;
  adj_plan plan; /* as far as choosing a grid goes */
  side left, right;
  adji_gpu_range *range;
  adji_gpu_counted counted;
} cuda_join;

static adj_status check(cuda_join *j, const adj_join_spec *spec, const adj_cuda_points *left,
                        const adj_cuda_points *right) {
  adj_plan *plan = &j->plan;
  const char *algorithm;
  adj_join_spec_init(&plan->spec, sizeof plan->spec);
  adj_status status = adji_take_struct(&plan->spec, sizeof plan->spec, spec, "adj_join_spec");
  plan->spec.backend = ADJ_BACKEND_GPU;
  if (!status) status = take_points(left, "left", &j->left);
  if (!status && !plan->self_join) status = take_points(right, "right", &j->right);
  if (status) return status;
  const side *r = plan->self_join ? &j->left : &j->right;
  j->left.set = (adj_dataset){.type = j->left.rows.type, .dim = j->left.rows.dim};
  adj_dataset other = {.type = r->rows.type, .dim = r->rows.dim};
  status = adji_check_spec(&plan->spec, &j->left.set, plan->self_join ? &j->left.set : &other, &algorithm);
  if (!status && (plan->spec.metric == ADJ_COSINE || plan->spec.metric == ADJ_HAVERSINE))
    status = adji_fail(ADJ_E_UNSUPPORTED,
                       "metric: of points on a device only L2, L1, Linf, Lp and inner products are joined");
  if (!status) status = adji_tuning_parse(plan->spec.tuning, &plan->tuning);
  plan->choice.backend = "gpu";
  plan->choice.algorithm = algorithm && !strcmp(algorithm, "brute") ? "brute" : "grid";
  plan->spec.algorithm = plan->spec.tuning = NULL;
  return status;
}

/* The sets become those of the sample for the choice of the grid, and of all points for the join. */
static adj_status open_range(cuda_join *j) {
  adj_plan *plan = &j->plan;
  side *r = plan->self_join ? &j->left : &j->right;
  adj_status status = survey(plan->ctx, j->gpu, &j->left, plan->self_join ? "points" : "left");
  if (!status && !plan->self_join) status = survey(plan->ctx, j->gpu, &j->right, "right");
  if (status) return status;
  plan->left = &j->left.set;
  plan->right = &r->set;
  status = adji_describe_join(plan);
  if (status) return status;
  plan->population = r->rows.count;
  if (!adji_measure_grows(&plan->measure)) plan->choice.algorithm = "brute";
  if (!strcmp(plan->choice.algorithm, "grid") || plan->tuning.product == ADJI_ON) status = adji_choose_grid(plan);
  adji_point_options points;
  if (!status) status = adji_choose_access(plan, &points);
  if (!status) status = adji_gpu_mark(j->gpu, ADJI_MARK_PLANNED);
  if (status) return status;
  j->left.set.count = j->left.rows.count;
  r->set.count = r->rows.count;
  adji_gpu_range_options options = {.join = &plan->join,
                                    .measure = &plan->measure,
                                    .grid = &plan->grid,
                                    .product = &plan->product,
                                    .left_rows = &j->left.rows,
                                    .right_rows = &r->rows,
                                    .mirrored = adji_choose_device_mirrored(plan),
                                    .once = adji_choose_device_once(plan),
                                    .once_pairs = plan->tuning.device_pairs,
                                    .points = points};
  return adji_gpu_range_open(j->gpu, &options, &j->range);
}

static void finish(cuda_join *j) {
  adj_plan *plan = &j->plan;
  adji_memory *memory = &plan->ctx->memory;
  adji_gpu_range_close(j->range);
  adji_grid_clear(plan->ctx, &plan->grid);
  adji_forget_join(plan);
  side *sides[] = {&j->left, &j->right};
  for (int i = 0; i < 2; i++) {
    adji_free(memory, sides[i]->bounds);
    adji_free(memory, sides[i]->sample);
  }
}

/* Everything up to the count. */
static adj_status begin(cuda_join *j, adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                        const adj_cuda_points *right, adj_cuda_stream stream, bool fills) {
  j->plan.ctx = ctx;
  j->plan.self_join = !right || right == left;
  adj_status status = check(j, spec, left, right);
  if (!status) status = adji_gpu_mark(j->gpu, ADJI_MARK_BEGIN);
  if (!status) status = adji_gpu_after(j->gpu, stream);
  if (!status) status = open_range(j);
  if (!status) status = adji_gpu_range_count(j->range, fills, &j->counted);
  return status;
}

/* All pairs in one slot. */
static adj_status fill(cuda_join *j, adji_gpu_csr *out) {
  adji_gpu_window all = {0, j->left.rows.count, 0, j->counted.pairs};
  adj_status status = adji_gpu_range_slots(j->range, 1, j->counted.pairs);
  if (!status) status = adji_gpu_range_fill(j->range, &all, 0);
  if (!status) status = adji_gpu_range_check(j->range);
  if (!status) status = adji_gpu_range_take(j->range, 0, out);
  return status;
}

adj_status adj_cuda_range_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                               const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out) {
  if (!ctx || !spec || !left || !out) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec, left and out: none may be NULL");
  adj_cuda_result *result = calloc(1, sizeof *result);
  cuda_join *j = calloc(1, sizeof *j);
  adj_status status = result && j ? ADJ_OK : adji_fail(ADJ_E_MEMORY, "no memory for a join");
  if (!status) status = adji_gpu_of(ctx, &j->gpu);
  if (!status) {
    adji_gpu_lock(j->gpu);
    adji_gpu_reset_peak(j->gpu);
    status = begin(j, ctx, spec, left, right, stream, true);
    if (!status) status = fill(j, &result->csr);
    if (!status) status = adji_gpu_before(j->gpu, stream);
    if (status) adji_gpu_csr_free(&result->csr, NULL);
    finish(j);
    adji_gpu_unlock(j->gpu);
  }
  free(j);
  if (status)
    free(result);
  else
    *out = result;
  return status;
}

adj_status adj_cuda_range_count(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                const adj_cuda_points *right, adj_cuda_stream stream, uint32_t *degrees,
                                uint64_t *total) {
  if (!ctx || !spec || !left) return adji_fail(ADJ_E_ARGUMENT, "ctx, spec and left: none may be NULL");
  cuda_join *j = calloc(1, sizeof *j);
  adj_status status = j ? adji_gpu_of(ctx, &j->gpu) : adji_fail(ADJ_E_MEMORY, "no memory for a join");
  if (!status) {
    adji_gpu_lock(j->gpu);
    adji_gpu_reset_peak(j->gpu);
    status = begin(j, ctx, spec, left, right, stream, false);
    if (!status && degrees) status = adji_gpu_range_copy_degrees(j->range, degrees);
    if (!status) status = adji_gpu_before(j->gpu, stream);
    if (!status && total) *total = j->counted.pairs;
    finish(j);
    adji_gpu_unlock(j->gpu);
  }
  free(j);
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

#else

static adj_status no_gpu(void) {
  return adji_fail(ADJ_E_UNSUPPORTED, "this build has no GPU code");
}

adj_status adj_cuda_range_join(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                               const adj_cuda_points *right, adj_cuda_stream stream, adj_cuda_result **out) {
  (void)ctx, (void)spec, (void)left, (void)right, (void)stream, (void)out;
  return no_gpu();
}

adj_status adj_cuda_range_count(adj_ctx *ctx, const adj_join_spec *spec, const adj_cuda_points *left,
                                const adj_cuda_points *right, adj_cuda_stream stream, uint32_t *degrees,
                                uint64_t *total) {
  (void)ctx, (void)spec, (void)left, (void)right, (void)stream, (void)degrees, (void)total;
  return no_gpu();
}

void adj_cuda_result_destroy(adj_cuda_result *result, adj_cuda_stream stream) {
  (void)stream;
  free(result);
}

adj_status adj_cuda_last_times(adj_ctx *ctx, adj_cuda_times *out) {
  (void)ctx, (void)out;
  return no_gpu();
}

#endif

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
