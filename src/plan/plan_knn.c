/* SPDX-License-Identifier: MIT
 *
 * Makes a plan for a kNN join: a tree or brute force.
 *
 * If choose_knn.c does not decide, the tree is built, which is a small part of either join, and the queries of some
 * leaves are timed. Some queries of brute force are timed as well. The faster method is kept.
 */
#include <math.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cpu/brute.h"
#include "cpu/knn.h"
#include "gpu/brute/prefilter_gemm.h"
#include "gpu/brute/prefilter_tensor.h"
#include "gpu/papers/knn_order.h"
#include "gpu/worker/devices.h"
#include "plan/plan.h"

enum { TRIAL_LEAVES = 16, FEW_SAMPLED = 1 << 14, FEW_TRIED = 1 << 12 };

/* Trials of a tree are a little too fast: their leaves share cached data. */
static const double CLEARLY = 0.92;

static void __attribute__((format(printf, 2, 3))) because(adj_plan *plan, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(plan->choice.reason, sizeof plan->choice.reason, format, arguments);
  va_end(arguments);
}

/* How a grid is searched, if the algorithm is a grid. */
static adji_knn_grid_options grid_of(const adji_tuning *t) {
  return (adji_knn_grid_options){.threads = t->point_threads ? 1u << (t->point_threads - 1) : 0,
                                 .sample = t->grid_sample,
                                 .bins = t->bins,
                                 .mean_part = t->mean_part,
                                 .epsilon = t->epsilon,
                                 .widen = t->widen,
                                 .failures = t->failures,
                                 .tail = t->tail,
                                 .no_tail = ADJI_TUNING_IS_ZERO(t, tail),
                                 .stall = t->stall};
}

adj_status adji_check_knn_queue(const adj_plan *plan) {
  if (plan->tuning.queue == ADJI_KNN_QUEUE_CELLS && !adji_gpu_has_tree(&plan->measure, plan->left->dim))
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "tuning: paper.queue=cells is for up to six dimensions, and for L2, L1 and Linf (and what is "
                     "computed from these)");
  return ADJ_OK;
}

/* Orders the queries by the population of their cells. The width of the cells is a device's epsilon, or chosen here if
 * that is negative. */
static adj_status order_by_cells(adj_plan *plan, double epsilon, uint32_t **rows) {
  adji_knn_grid_options grid = grid_of(&plan->tuning);
  uint64_t begin = adji_now_ns();
  adj_status status = ADJ_OK;
  if (epsilon < 0) {
    status = adji_knn_order_epsilon(&plan->join, &plan->measure, &grid, &epsilon);
    plan->queue_order.epsilon = epsilon;
    plan->queue_order.epsilon_s = (double)(adji_now_ns() - begin) * 1e-9;
    begin = adji_now_ns();
  }
  if (!status) status = adji_knn_order_rows(&plan->join, &plan->measure, epsilon, rows);
  plan->queue_order.order_s = (double)(adji_now_ns() - begin) * 1e-9;
  return status;
}

adj_status adji_make_trees(adj_plan *plan, double epsilon, adji_engine *out) {
  adji_knn_options options = {.batch = plan->tuning.batch,
                              .queue = (adji_knn_queue)plan->tuning.queue,
                              .shared = plan->choice.backend == ADJ_BACKEND_HYBRID,
                              .lanes = plan->choice.alone ? 1 : 0};
  adji_lent tree;
  bool built;
  adji_memory_keep(&plan->ctx->memory); /* the left tree reuses the memory that the right one was built in */
  adj_status status = adji_index_tree(plan->index, plan->tuning.leaf ? 8u << plan->tuning.leaf : 0, &tree, &built);
  if (!status) adji_note_structure(plan, "kd-tree", built);
  if (!status && options.queue == ADJI_KNN_QUEUE_CELLS) {
    status = order_by_cells(plan, epsilon, &options.rows);
    if (status) adji_give_back(&tree);
  }
  if (!status) status = adji_knn_create(&plan->join, &tree, &options, out);
  adji_memory_drop(&plan->ctx->memory);
  return status;
}

static adj_status make_brute(adj_plan *plan, adji_engine *out) {
  adji_brute_options options = {(adji_prefilter_kind)plan->tuning.prefilter, plan->tuning.batch};
  adji_lent base;
  bool built;
  adj_status status = adji_index_brute(plan->index, &base, &built);
  if (status) return status;
  adji_note_structure(plan, "points of brute force", built);
  return adji_brute_create(&plan->join, &base, &options, out);
}

/* Sets the estimates from the time and the candidates of a query. */
static void expect(adj_plan *plan, double query_ns, double candidates) {
  plan->estimated_candidates = (double)plan->left->count * candidates;
  plan->estimated_seconds = query_ns * 1e-9 * (double)plan->left->count / plan->ctx->threads;
  plan->estimated_count_seconds = isinf(plan->spec.radius) ? 0 : plan->estimated_seconds;
}

/* The choice of an earlier question for about as many neighbours. */
static _Atomic uint32_t *kept_choice(const adj_plan *plan) {
  uint32_t bits = plan->join.k ? 32 - (uint32_t)__builtin_clz(plan->join.k) : 0;
  return &plan->index->knn_choices[bits];
}

/* Tries both methods and keeps the faster one. */
static adj_status choose_by_trial(adj_plan *plan) {
  adji_engine tree = {0}, brute = {0};
  double tree_ns, brute_ns, candidates;
  adj_status status = adji_make_trees(plan, -1, &tree);
  uint64_t begin = adji_now_ns();
  if (!status) status = adji_knn_try(&tree, TRIAL_LEAVES, &tree_ns, &candidates);
  plan->plan_s += (double)(adji_now_ns() - begin) * 1e-9;
  if (!status) status = make_brute(plan, &brute);
  if (status) {
    adji_engine_clear(&tree);
    return status;
  }
  begin = adji_now_ns();
  status = adji_brute_try(&brute, &brute_ns);
  plan->plan_s += (double)(adji_now_ns() - begin) * 1e-9;
  if (status) {
    adji_engine_clear(&tree);
    adji_engine_clear(&brute);
    return status;
  }
  bool keep_tree = tree_ns < CLEARLY * brute_ns;
  plan->choice.algorithm = keep_tree ? ADJI_ALGORITHM_KDTREE : ADJI_ALGORITHM_BRUTE;
  atomic_store(kept_choice(plan), (uint32_t)plan->choice.algorithm);
  plan->engine = keep_tree ? tree : brute;
  adji_engine_clear(keep_tree ? &brute : &tree);
  because(plan, "a query takes a tree %.3g us (%.0f candidates), brute force %.3g us", tree_ns / 1000, candidates,
          brute_ns / 1000);
  expect(plan, keep_tree ? tree_ns : brute_ns, keep_tree ? candidates : (double)plan->right->count);
  return ADJ_OK;
}

adj_status adji_estimate_tree(adj_plan *plan) {
  double query_ns, candidates;
  if (plan->index->kept && plan->left->count < FEW_SAMPLED) return ADJ_OK; /* a sample takes as long as all of it */
  uint64_t begin = adji_now_ns();
  adj_status status = adji_knn_try(&plan->engine, TRIAL_LEAVES, &query_ns, &candidates);
  plan->sampled = (uint64_t)TRIAL_LEAVES * plan->engine.group;
  expect(plan, query_ns, candidates);
  plan->plan_s += (double)(adji_now_ns() - begin) * 1e-9;
  return status;
}

static adj_status make_chosen(adj_plan *plan) {
  if (plan->choice.algorithm == ADJI_ALGORITHM_KDTREE) {
    adj_status status = adji_make_trees(plan, -1, &plan->engine);
    return status ? status : adji_estimate_tree(plan);
  }
  double query_ns = 0;
  adj_status status = make_brute(plan, &plan->engine);
  uint64_t begin = adji_now_ns();
  if (!status && plan->index->kept) /* a trial would only refine the estimate, for every question anew */
    query_ns = adji_brute_query_ns(&plan->engine);
  else if (!status)
    status = adji_brute_try(&plan->engine, &query_ns);
  plan->plan_s += (double)(adji_now_ns() - begin) * 1e-9;
  if (!status) expect(plan, query_ns, (double)plan->right->count);
  return status;
}

static adji_brute_method brute_method(const adji_tuning *t) {
  if (t->prefilter == ADJI_PREFILTER_OFF) return ADJI_METHOD_MATRIX;
  if (t->prefilter == ADJI_PREFILTER_TENSOR) return ADJI_METHOD_TENSOR;
  return t->prefilter == ADJI_PREFILTER_GEMM ? ADJI_METHOD_GEMM : ADJI_METHOD_AUTO;
}

static adji_select_how select_how(const adji_tuning *t) {
  return (adji_select_how){.parts = (uint32_t)t->partitions,
                           .reads = (uint32_t)t->reads,
                           .streams = (uint32_t)t->sort_streams,
                           .no_prefetch = t->prefetch == ADJI_OFF};
}

/* Whether brute force on a device may go through tensor cores. */
static bool takes_tensor(const adj_plan *plan) {
  const adji_join *join = &plan->join;
  return plan->measure.step == ADJI_STEP_L2 && join->left->dim <= ADJI_TENSOR_MOST_DIM &&
         plan->tuning.prefilter != ADJI_PREFILTER_OFF &&
         adji_tensor_pays(join->left->count, join->right->count, join->k);
}

/* Whether it should not, by a sample of the points. If it may skip tiles, the first queries decide instead. */
static bool avoids_tensor(const adj_plan *plan) {
  bool may_skip = plan->left->count >= ADJI_TENSOR_FEWEST_SKIP && plan->left->dim <= ADJI_TENSOR_MOST_SKIP_DIM;
  return !plan->tuning.prefilter && plan->tuning.skip != ADJI_ON && !may_skip && adji_too_near_for_halves(&plan->join);
}

adji_knn_request adji_knn_request_of(const adj_plan *plan) {
  return (adji_knn_request){.options = {.join = &plan->join,
                                        .measure = &plan->measure,
                                        .lender = adji_plan_lender_of(plan),
                                        .timed = true,
                                        .rows_at_once = plan->tuning.device_rows,
                                        .budget = (uint32_t)plan->tuning.budget,
                                        .blocks = (uint32_t)plan->tuning.device_blocks,
                                        .per_query = plan->tuning.per_query == ADJI_ON,
                                        .dense = plan->tuning.per_query == ADJI_OFF,
                                        .cut = adji_choose_cut(&plan->join, &plan->tuning),
                                        .picks = plan->tuning.pick == ADJI_ON,
                                        .no_picks = plan->tuning.pick == ADJI_OFF,
                                        .grid = grid_of(&plan->tuning)},
                            .choice = {brute_method(&plan->tuning), (adji_brute_distance)plan->tuning.distance,
                                       (adji_select_algorithm)plan->tuning.select, plan->tuning.device_chunk,
                                       (adji_brute_skip)plan->tuning.skip, select_how(&plan->tuning)}};
}

/* Whether there are kernels for the prefilter of brute force, and for 32 queries per warp. */
adj_status adji_check_knn_kernels(const adj_plan *plan) {
  const adji_join *join = &plan->join;
  bool l2 = plan->measure.step == ADJI_STEP_L2, tensor = plan->tuning.prefilter == ADJI_PREFILTER_TENSOR;
  uint32_t dim = join->left->dim, most_k = tensor ? ADJI_TENSOR_MOST_K : ADJI_GEMM_MOST_K;
  if ((tensor || plan->tuning.prefilter == ADJI_PREFILTER_GEMM) &&
      (!l2 || dim > ADJI_TENSOR_MOST_DIM || join->k > most_k))
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: prefilter=%s is for L2 in up to %d dimensions and k up to %u",
                     tensor ? "tensor" : "gemm", (int)ADJI_TENSOR_MOST_DIM, most_k);
  if (plan->tuning.skip == ADJI_ON && (!l2 || dim > ADJI_TENSOR_MOST_SKIP_DIM || join->k > ADJI_TENSOR_MOST_K))
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: test.skip=on is for L2 in up to %d dimensions and k up to %d",
                     (int)ADJI_TENSOR_MOST_SKIP_DIM, (int)ADJI_TENSOR_MOST_K);
  bool known = l2 || plan->measure.step == ADJI_STEP_L1 || plan->measure.step == ADJI_STEP_LINF;
  if (plan->tuning.distance == ADJI_DISTANCE_FUSED &&
      (!known || dim > ADJI_FUSED_MOST_DIM || join->k > ADJI_FUSED_MOST_K))
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "tuning: paper.distance=fused is for L2, L1 and Linf in up to %d dimensions and k up to %d",
                     (int)ADJI_FUSED_MOST_DIM, (int)ADJI_FUSED_MOST_K);
  if (plan->tuning.partitions && join->k > ADJI_SELECT_MOST)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: paper.partitions= is for k up to %d", (int)ADJI_SELECT_MOST);
  bool plane_or_space = dim == 2 || dim == 3, f32 = join->left->type == ADJ_F32;
  bool dense = l2 && join->k <= (f32 && plane_or_space ? 160u : 32u) && (f32 ? dim <= 6 : plane_or_space);
  if (plan->tuning.per_query == ADJI_OFF && !dense) /* adji_knn_has_dense */
    return adji_fail(
        ADJ_E_UNSUPPORTED,
        "tuning: test.per_query=off is for L2 and k up to 32, in two and three dimensions, where f32 has k up to "
        "160, and in f32 up to six");
  return ADJ_OK;
}

/* ---- Several GPUs --------------------------------------------------------------------------------------- */

static adj_status open_worker(const void *options, uint32_t number, adji_worker *out) {
  return adji_gpu_knn_worker_create(options, number, out);
}

static bool may_share(const adj_plan *plan, const adji_gpu_knn_options *options, adj_status *status) {
  adj_status can = plan->tuning.device_chunk
                       ? adji_fail(ADJ_E_UNSUPPORTED, "device_chunk= is for one that does a join alone")
                       : adji_gpu_knn_can_divide(options);
  return adji_may_share_devices(plan, can, status);
}

static adj_status share_devices(adj_plan *plan, const adji_gpu_knn_options *options, const adji_worker *first) {
  adji_several how = {open_worker, adji_gpu_knn_worker_follow, adji_gpu_knn_worker_order, options, options->brute};
  return adji_share_devices(plan, &how, first);
}

/* The first device has the join. Several share it if that is faster. */
static adj_status share_if_quicker(adj_plan *plan, const adji_gpu_knn_options *options) {
  adj_status status = ADJ_OK;
  if (plan->device_chunk || !may_share(plan, options, &status)) return status;
  double one_s = options->brute ? plan->estimated_seconds
                                : plan->ctx->costs.device_search_usual *
                                      adji_gpu_knn_worker_guess(&plan->engine.workers[0], adji_most_searches(plan));
  adji_share_times t = adji_knn_times(plan, one_s);
  double open_s = adji_others_open_seconds(plan);
  uint32_t devices = adji_gpu_worker_count(plan->ctx);
  plan->estimated_seconds = one_s;
  if (!adji_several_pay(&t, devices, open_s)) return ADJ_OK;
  adji_worker first = adji_engine_take(&plan->engine);
  plan->estimated_seconds = adji_several_seconds(&t, devices, open_s);
  return share_devices(plan, options, &first);
}

/* Opens one device alone, or in chunks; or several, if settings ask for it, it is faster, or the first one fails. */
static adj_status open_on_gpu(adj_plan *plan, const adji_gpu_knn_options *options) {
  adji_worker worker;
  char why[512];
  adj_status status = ADJ_OK, can;
  bool shared = plan->tuning.share && may_share(plan, options, &status);
  if (status) return status;
  if (shared) status = share_devices(plan, options, NULL);
  if (shared && status != ADJ_E_DEVICE_MEMORY) return status; /* devices also share sets that do not fit */
  status = adji_gpu_knn_create(options, plan->tuning.device_chunk, &worker);
  if (status == ADJ_E_DEVICE) {
    snprintf(why, sizeof why, "%s", adj_last_error());
    if (!may_share(plan, options, &can)) return adji_fail(status, "%s", why);
    adji_log(plan->ctx, ADJ_LOG_WARN, ADJI_FIRST_FAILED, why);
    return share_devices(plan, options, NULL);
  }
  if (status) return status;
  adji_engine_init(&plan->engine, &plan->join, &worker);
  plan->device_chunk = adji_gpu_knn_worker_chunk(&worker);
  if (plan->device_chunk && !options->brute) adji_describe_chunks(plan, true);
  return share_if_quicker(plan, options);
}

adj_status adji_plan_knn_on_gpu(adj_plan *plan, adji_algorithm algorithm) {
  uint64_t begin = adji_now_ns();
  const char *reason;
  adji_knn_request request = adji_knn_request_of(plan);
  adj_status status = adji_check_knn_kernels(plan);
  if (!status) status = adji_gpu_knn_choose(&request, algorithm, &reason);
  if (status) return status;
  plan->choice.backend = ADJ_BACKEND_GPU;
  const adji_gpu_knn_options *options = &request.options;
  plan->choice.algorithm = options->brute      ? ADJI_ALGORITHM_BRUTE
                           : options->grid.use ? ADJI_ALGORITHM_GRID
                                               : ADJI_ALGORITHM_KDTREE;
  plan->estimated_pairs = (double)plan->left->count * adji_join_reach(&plan->join);
  if (options->brute) {
    plan->estimated_candidates = (double)plan->left->count * (double)plan->right->count;
    bool tensor = takes_tensor(plan), avoided = tensor && avoids_tensor(plan);
    if (avoided) request.choice.method = ADJI_METHOD_MATRIX;
    plan->estimated_seconds = adji_device_brute_seconds(&plan->join, tensor && !avoided);
  }
  because(plan, "%s", reason);
  status = open_on_gpu(plan, options);
  adji_note_device(plan);
  plan->index_s = (double)(adji_now_ns() - begin) * 1e-9;
  return status;
}

/* A kept index may have a structure that would not be worth building for this question. Few queries are not worth a
 * trial. */
static adji_knn_choice choose_kept(const adj_plan *plan, adji_knn_choice early) {
  uint32_t before = atomic_load(kept_choice(plan));
  if (!adji_tree_is_useful(&plan->measure, plan->join.right->dim)) return early;
  if (early.algorithm == ADJI_ALGORITHM_AUTO && !before && plan->left->count >= FEW_TRIED) return early;
  adji_knn_choice choice = {.algorithm = before ? (adji_algorithm)before : ADJI_ALGORITHM_KDTREE};
  snprintf(choice.reason, sizeof choice.reason, "%s",
           before ? "the quicker one for an earlier question" : "the index has a tree");
  return choice;
}

adj_status adji_plan_knn(adj_plan *plan, adji_algorithm algorithm) {
  uint64_t begin = adji_now_ns();
  plan->choice.backend = ADJ_BACKEND_CPU;
  plan->estimated_pairs = (double)plan->left->count * adji_join_reach(&plan->join);
  adj_status queue = adji_check_knn_queue(plan);
  if (queue) return queue;
  adji_knn_choice early = adji_choose_knn(&plan->join);
  if (plan->index->kept) early = choose_kept(plan, early);
  plan->choice.algorithm = algorithm ? algorithm : early.algorithm;
  because(plan, "%s", algorithm ? "asked for" : early.reason);
  adj_status status = plan->choice.algorithm ? make_chosen(plan) : choose_by_trial(plan);
  if (!status && plan->choice.algorithm == ADJI_ALGORITHM_BRUTE) {
    size_t used = strlen(plan->choice.reason);
    snprintf(plan->choice.reason + used, sizeof plan->choice.reason - used, "; filter: %s",
             adji_brute_prefilter_name(&plan->engine));
  }
  plan->index_s = (double)(adji_now_ns() - begin) * 1e-9 - plan->plan_s;
  return status;
}
