/* SPDX-License-Identifier: MIT
 *
 * Makes a plan for a range join on cores, or on a GPU: choose, index, estimate.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "cpu/range.h"
#include "cpu/tree_range.h"
#include "gpu/worker/devices.h"
#include "plan/plan.h"

/* ---- Choices and index ------------------------------------------------------------------------------------ */

static adj_status refuse_codes(const char *why) {
  return adji_fail(ADJ_E_UNSUPPORTED, "tuning: prefilter=codes: %s", why);
}

/* With fewer queries than this, codes take longer to make than they save. If more than this share of the pairs passes,
 * comparing those one by one takes as long as comparing all. */
enum { FEW_CODED = 512 };
static const double MOST_PASSING = 0.04;

/* Whether there is room for an index with codes: the points of the index, the codes, and the right points row by row
 * (index/codes.h); and as much again for what a run needs. */
static bool codes_fit(const adj_plan *plan) {
  const adj_dataset *right = plan->join.right;
  uint64_t row = right->dim * (uint64_t)adji_type_size(right->type), codes = right->dim + UINT64_C(8);
  uint64_t left = plan->join.self_join ? 0 : plan->join.left->count;
  return adji_fits(&plan->ctx->memory, 2 * (right->count * (2 * row + codes) + left * (row + codes)));
}

/* Whether codes can be the prefilter, and are likely to drop most candidates. */
static adj_status choose_codes(adj_plan *plan, adji_code_scale *out) {
  bool wanted = plan->tuning.prefilter == ADJI_PREFILTER_CODES, *useful = &plan->question.codes;
  uint32_t dim = plan->join.left->dim;
  const char *cannot = !adji_prefilter_codes_for(plan->ctx->isa) ? "this CPU has no AVX-512 VNNI, or may not use it"
                       : plan->measure.step != ADJI_STEP_L2      ? "it is for L2 without a periodic box"
                       : dim > ADJI_CODE_MAX_DIM                 ? "the points have too many dimensions"
                                                                 : NULL;
  if (cannot && wanted) return refuse_codes(cannot);
  if (cannot || plan->choice.algorithm == ADJI_ALGORITHM_BRUTE || plan->tuning.prefilter == ADJI_PREFILTER_OFF ||
      (!wanted && dim < ADJI_CODE_MIN_DIM))
    return ADJ_OK;
  if (!wanted && (plan->join.left->count < FEW_CODED || !codes_fit(plan))) return ADJ_OK;
  adj_status status = adji_code_scale_init(plan->ctx, plan->join.right, plan->join.limit, out, useful);
  if (!status && *useful && !wanted) *useful = adji_code_share(out, plan->join.left, plan->join.right) < MOST_PASSING;
  if (!*useful) adji_code_scale_clear(out);
  if (!status && !*useful && wanted && plan->join.right->count)
    return refuse_codes("the radius is too small for 8 bits a dimension to tell anything");
  return status;
}

/* Recursion and long cells use boxes; brute force compares every pair. */
static adji_box_use choose_boxes(const adj_plan *plan) {
  if (plan->choice.algorithm == ADJI_ALGORITHM_EGO) return ADJI_BOXES_ALWAYS;
  if (!adji_measure_grows(&plan->measure)) return ADJI_BOXES_NEVER; /* no gap bounds an inner product */
  if (plan->tuning.boxes) return plan->tuning.boxes == ADJI_ON ? ADJI_BOXES_ALWAYS : ADJI_BOXES_NEVER;
  return plan->choice.algorithm == ADJI_ALGORITHM_BRUTE ? ADJI_BOXES_NEVER : ADJI_BOXES_IN_LONG_CELLS;
}

void adji_note_structure(adj_plan *plan, const char *what, bool built) {
  char *text = plan->choice.structures;
  size_t used = strlen(text), room = sizeof plan->choice.structures;
  if (plan->index->kept)
    snprintf(text + used, room - used, "%s%s %s", used ? ", " : "", what, built ? "built" : "reused");
}

/* ---- What a kept index has on devices ----------------------------------------------------------------------- */

static adj_status lend(void *owner, uint32_t device, const adji_gpu_right_options *options, adji_lent *out) {
  adji_plan_lender *lender = owner;
  bool built;
  adj_status status = adji_index_lend(lender->index, device, options, out, &built);
  if (!status) atomic_fetch_add(built ? &lender->built[options->form] : &lender->reused[options->form], 1);
  return status;
}

static uint64_t held(void *owner, uint32_t device) {
  return adji_index_device_bytes(((adji_plan_lender *)owner)->index, device);
}

static bool drop(void *owner, uint32_t device) {
  return adji_index_drop(((adji_plan_lender *)owner)->index, device);
}

void adji_make_lender(adj_plan *plan) {
  if (!plan->index->kept) return;
  plan->lender.index = plan->index;
  plan->lender.lender = (adji_gpu_lender){&plan->lender, lend, held, drop};
}

void adji_note_device(adj_plan *plan) {
  static const char *const names[] = {"points on the GPU", "tree on the GPU", "grid on the GPU"};
  for (int form = ADJI_RIGHT_POINTS; form <= ADJI_RIGHT_GRID; form++) {
    bool built = atomic_exchange(&plan->lender.built[form], 0), reused = atomic_exchange(&plan->lender.reused[form], 0);
    if (built || reused) adji_note_structure(plan, names[form], built);
  }
}

/* ---- Trees ------------------------------------------------------------------------------------------------ */

/* So few queries that one thread is done before another has woken up. In many dimensions a single query takes long. */
enum { SMALL_QUESTION = 128, SMALL_DIM = 8 };

bool adji_is_small(const adj_plan *plan) {
  return plan->index->kept && plan->spec.backend == ADJ_BACKEND_CPU && plan->left->count <= SMALL_QUESTION &&
         plan->left->dim <= SMALL_DIM && adji_measure_grows(&plan->index->measure);
}

/* With more points of the index per query than this, a grid does not pay: the tree is there already. A grid has cells
 * for one radius; a tree also serves queries with a radius each. */
enum { POINTS_A_QUERY = 8 };

static bool prefers_tree(const adj_plan *plan) {
  const adji_join *join = &plan->join;
  if (adji_tuning_any(&plan->tuning) || !adji_tree_is_useful(&plan->measure, join->right->dim)) return false;
  if (join->limits) return true;
  return plan->index->kept && join->left->count < join->right->count / POINTS_A_QUERY;
}

static double seconds(uint64_t from, uint64_t to) {
  return (double)(to - from) * 1e-9;
}

/* Sizes of samples. Few queries are not sampled. */
enum { TREE_SAMPLE = 256, TREE_COLLECTED = 1 << 18 };

static adj_status sample_tree(adj_plan *plan) {
  uint64_t queries = plan->tuning.sample ? plan->tuning.sample : TREE_SAMPLE;
  if (plan->left->count < 8 * queries) return ADJ_OK;
  adji_tree_range_sample sample;
  adj_status status = adji_tree_range_try(&plan->engine, queries, &sample);
  plan->sampled = queries < plan->left->count ? queries : plan->left->count;
  plan->estimated_pairs = sample.pairs;
  plan->estimated_candidates = sample.candidates;
  plan->estimated_seconds =
      (plan->choice.single ? 1 : 2) * sample.query_ns * 1e-9 * (double)plan->left->count / plan->ctx->threads;
  plan->estimated_count_seconds = sample.query_ns * 1e-9 * (double)plan->left->count / plan->ctx->threads;
  return status;
}

static adj_status prepare_tree(adj_plan *plan) {
  adji_lent tree;
  bool built;
  uint64_t begin = adji_now_ns();
  adj_status status = adji_index_tree(plan->index, 0, &tree, &built);
  if (status) return status;
  plan->index_s = seconds(begin, adji_now_ns());
  begin = adji_now_ns();
  adji_note_structure(plan, "kd-tree", built);
  adji_tree_range_options options = {
      .batch = plan->tuning.batch, .lanes = plan->choice.alone ? 1 : 0, .single = plan->left->count <= TREE_COLLECTED};
  status = adji_tree_range_create(&plan->join, &tree, &options, &plan->engine);
  plan->choice.single = options.single;
  if (!status) status = sample_tree(plan);
  plan->plan_s += seconds(begin, adji_now_ns());
  return status;
}

/* ---- Grids ------------------------------------------------------------------------------------------------- */

static adj_status build_index(adj_plan *plan, adji_cores_choice *chosen) {
  adji_range_index_options options = {.grid = &chosen->grid.grid,
                                      .code_scale = &chosen->code_scale,
                                      .boxes = choose_boxes(plan),
                                      .ego = plan->choice.algorithm == ADJI_ALGORITHM_EGO};
  if (plan->tuning.boxes == ADJI_ON && !adji_measure_grows(&plan->measure))
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: test.boxes=on: boxes do not bound inner products");
  adji_lent base = chosen->kept;
  bool built = !base.what;
  chosen->kept = (adji_lent){0};
  adj_status status = ADJ_OK;
  if (built)
    status =
        adji_index_add_grid(plan->index, &plan->join, &options, plan->choice.algorithm, plan->choice.reason, &base);
  if (status) return status;
  adji_note_structure(plan, plan->choice.algorithm == ADJI_ALGORITHM_GRID ? "grid" : "order of points", built);
  return adji_range_create(&plan->join, &base, plan->tuning.batch, &plan->engine);
}

/* About one query in 500, spread over the whole order. At most one in SAMPLE_SHARE, so that the sample is a small part
 * of the join; but at least as many as compare SAMPLE_VALUES coordinates, which takes negligible time. */
enum { SAMPLE_SHARE = 40, SAMPLE_VALUES = 1 << 21, FEWEST_SAMPLED = 16 };

static adj_status estimate(adj_plan *plan) {
  uint64_t count = plan->left->count, sample = count / 512;
  uint64_t quick = SAMPLE_VALUES / ((plan->right->count + 1) * plan->join.right->dim);
  if (sample < 256) sample = 256;
  if (sample > 2048) sample = 2048;
  uint64_t most = count / SAMPLE_SHARE > quick ? count / SAMPLE_SHARE : quick;
  if (sample > most) sample = most > FEWEST_SAMPLED ? most : FEWEST_SAMPLED;
  if (plan->tuning.sample) sample = plan->tuning.sample;
  plan->sampled = sample < count ? sample : count;
  adji_range_estimates found;
  bool may_ego = !plan->asked && plan->choice.algorithm == ADJI_ALGORITHM_GRID && plan->spec.backend == ADJ_BACKEND_CPU;
  adj_status status = adji_range_estimate(&plan->engine, sample, may_ego, &found);
  if (may_ego && adji_range_is_ego(&plan->engine)) plan->choice.algorithm = ADJI_ALGORITHM_EGO;
  plan->estimated_pairs = found.pairs;
  plan->estimated_candidates = found.candidates;
  plan->question.count_ns = found.count_ns;
  plan->question.filled = found.filled;
  return status;
}

void adji_cores_choice_clear(adj_ctx *ctx, adji_cores_choice *choice) {
  if (choice->kept.what) adji_give_back(&choice->kept);
  choice->kept = (adji_lent){0};
  adji_code_scale_clear(&choice->code_scale);
  adji_grid_choice_clear(ctx, &choice->grid);
}

/* Takes a grid that the index has already: it is as good as the one that would be chosen. */
static bool choose_kept(adj_plan *plan, adji_algorithm algorithm, adji_cores_choice *out) {
  if (!plan->index->kept || !adji_index_find_grid(plan->index, algorithm, plan->join.limit, &out->kept)) return false;
  const adji_kept_grid *grid = out->kept.what;
  plan->choice.algorithm = grid->algorithm;
  plan->question.codes = grid->base.code_scale.ctx;
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "%s", grid->reason);
  return true;
}

static adj_status choose_grid(adj_plan *plan, adji_algorithm algorithm, adji_cores_choice *out) {
  adji_algorithm usual = adji_measure_grows(&plan->measure) ? ADJI_ALGORITHM_GRID : ADJI_ALGORITHM_BRUTE;
  plan->choice.algorithm = algorithm ? algorithm : usual;
  adj_status status = choose_codes(plan, &out->code_scale);
  if (!status && plan->choice.algorithm != ADJI_ALGORITHM_BRUTE)
    status = adji_choose_grid(&plan->question, false, &out->grid);
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "%s", out->grid.reason);
  if (!status && !algorithm && !out->grid.grid.axis_count)
    plan->choice.algorithm = adji_choose_without_axes(&plan->question);
  if (plan->choice.algorithm == ADJI_ALGORITHM_BRUTE && plan->tuning.prefilter != ADJI_PREFILTER_CODES) {
    adji_code_scale_clear(&out->code_scale);
    plan->question.codes = false;
  }
  return status;
}

adj_status adji_choose_for_cores(adj_plan *plan, adji_algorithm algorithm, adji_cores_choice *out) {
  uint64_t begin = adji_now_ns();
  *out = (adji_cores_choice){0};
  plan->choice.backend = ADJ_BACKEND_CPU;
  adj_status status = ADJ_OK;
  if (adji_plan_is_dual(plan)) {
    status = adji_choose_dual(plan);
  } else if (algorithm == ADJI_ALGORITHM_KDTREE || (!algorithm && prefers_tree(plan))) {
    plan->choice.algorithm = ADJI_ALGORITHM_KDTREE;
    snprintf(plan->choice.reason, sizeof plan->choice.reason, "%s",
             algorithm           ? "asked for"
             : plan->join.limits ? "a tree serves queries with a radius each"
                                 : "for so few queries a grid is not worth building");
  } else if (!choose_kept(plan, algorithm, out)) {
    status = choose_grid(plan, algorithm, out);
  }
  if (status) adji_cores_choice_clear(plan->ctx, out);
  plan->plan_s = seconds(begin, adji_now_ns());
  return status;
}

adj_status adji_prepare_cores(adj_plan *plan, adji_cores_choice *chosen) {
  if (adji_plan_is_dual(plan)) return adji_prepare_dual(plan);
  if (plan->choice.algorithm == ADJI_ALGORITHM_KDTREE) return prepare_tree(plan);
  uint64_t begin = adji_now_ns(), chose = (uint64_t)(plan->plan_s * 1e9);
  adj_status status = build_index(plan, chosen);
  adji_cores_choice_clear(plan->ctx, chosen);
  uint64_t indexed = adji_now_ns();
  if (!status) status = estimate(plan);
  if (status) return status;
  const adji_range_index *index = adji_range_index_of(&plan->engine);
  plan->cells = index->right.cell_count;
  adji_single_choice single = {0};
  status =
      adji_choose_single(&plan->question, index->symmetric, plan->estimated_pairs, plan->estimated_candidates, &single);
  plan->choice.single = single.single;
  plan->choice.staged = single.staged;
  plan->estimated_seconds = single.seconds;
  plan->estimated_count_seconds = single.count_seconds;
  if (!status) adji_range_set_single(&plan->engine, single.single, single.single_count);
  if (!status) adji_range_set_staged(&plan->engine, single.staged, plan->estimated_pairs);
  plan->index_s = seconds(begin, indexed);
  plan->plan_s += seconds(indexed, adji_now_ns());
  adji_trace(plan->ctx, "plan", 0, begin - chose, 0);
  return status;
}

adj_status adji_plan_range_on_cores(adj_plan *plan, adji_algorithm algorithm) {
  adji_cores_choice chosen;
  adj_status status = adji_choose_for_cores(plan, algorithm, &chosen);
  return status ? status : adji_prepare_cores(plan, &chosen);
}

/* Few points in many dimensions: choosing axes takes the host longer than comparing all pairs takes a device, and
 * setting up a grid or a prefilter takes the device 2 ms. On an H200, 10,000 x 10 points, L2 with 10 neighbours, took
 * 4.3 ms through tensor cores and 0.4 ms without; 10,000 x 384, L1, took 12 ms, of which the choice took 8 ms. */
static bool are_few_and_long(const adji_range_question *q) {
  static const double CHOICE_S = 0.002, CHOICE_DIM_S = 10e-6;
  static const adji_tuning none = {0};
  uint32_t dim = q->join->left->dim;
  if (ADJI_GPU_WIDTH(dim) || memcmp(q->tuning, &none, sizeof none)) return false; /* settings may be for grids */
  double queries = (double)(q->join->self_join ? adji_question_points(q) : q->join->left->count);
  return adji_all_pairs_seconds(q, queries) < CHOICE_S + CHOICE_DIM_S * dim;
}

adj_status adji_choose_for_device(const adji_range_question *question, adji_algorithm algorithm,
                                  adji_device_choice *out) {
  adji_range_question q = *question;
  const adji_tuning *tuning = q.tuning;
  const adji_grid_choice *grid = &out->grid;
  bool brute =
      algorithm == ADJI_ALGORITHM_BRUTE || !adji_measure_grows(q.measure) || (!algorithm && are_few_and_long(question));
  q.device = true;
  q.codes = false;
  *out = (adji_device_choice){.algorithm = brute ? ADJI_ALGORITHM_BRUTE : ADJI_ALGORITHM_GRID};
  adj_status status = ADJ_OK;
  if (!brute || tuning->prefilter == ADJI_PREFILTER_TENSOR) status = adji_choose_grid(&q, brute, &out->grid);
  adji_point_options points;
  if (!status) status = adji_choose_access(&q, grid, &points);
  if (!status) status = adji_check_device_kernels(&q, grid);
  if (status) {
    adji_grid_choice_clear(q.join->ctx, &out->grid);
    return status;
  }
  out->options =
      (adji_gpu_worker_options){.range = {.join = q.join,
                                          .measure = q.measure,
                                          .grid = &grid->grid,
                                          .lender = q.lender,
                                          .timed = true,
                                          .tensor = &grid->tensor,
                                          .all_pairs = adji_choose_device_all_pairs(&q, grid),
                                          .mirrored = adji_choose_device_mirrored(&q, grid),
                                          .single = adji_choose_device_single(&q, grid),
                                          .single_pairs = tuning->device_pairs,
                                          .tile_hit_candidates = adji_choose_device_tile_hits(&q, grid, false, 0),
                                          .query_hits = adji_choose_device_query_hits(&q, grid, false),
                                          .blocks = (uint32_t)tuning->device_blocks,
                                          .points = points},
                                .batch_bytes = tuning->device_batch,
                                .slots = tuning->streams,
                                .slices = tuning->slices,
                                .chunk = tuning->device_chunk,
                                .batches = {(uint32_t)tuning->paper_streams, tuning->batch_size, tuning->sample_part}};
  return ADJ_OK;
}

uint64_t adji_device_sample(const adj_plan *plan) {
  uint64_t sample = plan->tuning.sample ? plan->tuning.sample : 4096;
  if (plan->device.options.range.all_pairs && !plan->tuning.sample)
    sample = adji_all_pairs_sample(plan->left->count, sample);
  return sample < plan->left->count ? sample : plan->left->count;
}

static adj_status estimate_on_device(adj_plan *plan) {
  plan->sampled = adji_device_sample(plan);
  adj_status status =
      adji_gpu_range_estimate(&plan->engine, plan->sampled, &plan->estimated_pairs, &plan->estimated_candidates);
  plan->cells = adji_gpu_range_engine_cells(&plan->engine); /* known now */
  plan->device_chunk = adji_gpu_range_engine_chunk(&plan->engine);
  return status;
}

/* ---- Trees on a GPU ---------------------------------------------------------------------------------------------- */

/* Whether to search a tree, for few queries or queries with a radius each: one that the index has, or one made now. */
static adj_status wants_tree(const adj_plan *plan, adji_algorithm algorithm, bool *tree) {
  const adji_join *join = &plan->join;
  bool can = adji_gpu_has_tree(&plan->measure, join->right->dim), asked = algorithm == ADJI_ALGORITHM_KDTREE;
  if ((asked || join->limits) && !can)
    return adji_fail(ADJ_E_UNSUPPORTED,
                     "%s for trees on a GPU: up to six dimensions, and L2, L1 and Linf (and what is computed from "
                     "these)",
                     asked ? "algorithm: \"kdtree\" is" : "radii: a radius for each query is");
  if (join->limits && algorithm && !asked)
    return adji_fail(ADJ_E_UNSUPPORTED, "radii: on a GPU a radius for each query is for the algorithm kdtree, not %s",
                     adji_algorithm_name(algorithm));
  if ((asked || join->limits) && plan->tuning.device_chunk)
    return adji_fail(ADJ_E_UNSUPPORTED, "tuning: device_chunk= is for range joins through a grid");
  bool few = plan->index->kept && join->left->count < join->right->count / POINTS_A_QUERY;
  *tree = asked || join->limits || (!algorithm && can && few && !adji_tuning_any(&plan->tuning));
  return ADJ_OK;
}

static void choose_tree_on_device(adj_plan *plan, adji_algorithm algorithm) {
  const adji_tuning *t = &plan->tuning;
  adji_device_choice *device = &plan->device;
  *device = (adji_device_choice){.algorithm = ADJI_ALGORITHM_KDTREE};
  device->options = (adji_gpu_worker_options){.range = {.join = &plan->join,
                                                        .measure = &plan->measure,
                                                        .grid = &device->grid.grid,
                                                        .lender = adji_plan_lender_of(plan),
                                                        .tree = true,
                                                        .timed = true,
                                                        .single = t->single != ADJI_OFF,
                                                        .single_pairs = t->device_pairs,
                                                        .blocks = (uint32_t)t->device_blocks},
                                              .batch_bytes = t->device_batch,
                                              .slots = t->streams,
                                              .slices = t->slices,
                                              .chunk = t->device_chunk};
  snprintf(device->grid.reason, sizeof device->grid.reason, "%s",
           algorithm           ? "asked for"
           : plan->join.limits ? "a tree serves queries with a radius each"
                               : "for so few queries a grid is not worth building");
}

/* Counting this few queries of a kept index is faster than sampling. */
enum { FEW_ON_DEVICE = 1 << 14 };

/* ---- Several GPUs ------------------------------------------------------------------------------------------------ */

static adj_status open_worker(const void *options, uint32_t number, adji_worker *out) {
  return adji_gpu_range_worker_create(options, number, out);
}

/* Whether several devices may share the join; if not, *status is a failure if the settings ask for it. */
static bool may_share(const adj_plan *plan, bool tree, adj_status *status) {
  const adji_gpu_worker_options *options = &plan->device.options;
  adj_status can =
      tree ? adji_fail(ADJ_E_UNSUPPORTED, "a tree on a GPU is not shared") : adji_gpu_range_can_share(options);
  return adji_may_share_devices(plan, can, status);
}

/* One of the devices counts some queries. If it fails at that, its failure is handled when it gets queries of the
 * join. */
static adj_status estimate_on_devices(adj_plan *plan) {
  adji_engine *engine = &plan->engine;
  adj_status status = ADJ_OK;
  plan->sampled = adji_device_sample(plan);
  for (uint32_t i = engine->worker_count > 1; i < engine->worker_count; i++) {
    adji_worker *device = &engine->workers[i];
    status = adji_gpu_range_worker_estimate(device, plan->sampled, &plan->estimated_pairs, &plan->estimated_candidates);
    plan->cells = adji_gpu_range_worker_cells(device);
    if (!status || i + 1 == engine->worker_count) break;
    adji_log(plan->ctx, ADJ_LOG_WARN, "%s makes no estimate: %s", device->name, adj_last_error());
  }
  return status;
}

static adj_status share_devices(adj_plan *plan, const adji_worker *first) {
  adji_several how = {open_worker, adji_gpu_range_worker_follow, adji_gpu_range_worker_order, &plan->device.options,
                      false};
  adj_status status = adji_share_devices(plan, &how, first);
  return status ? status : estimate_on_devices(plan);
}

/* Called when the first device has failed: whether there are others to try, with a warning. Otherwise the message
 * stays. */
static bool try_others(const adj_plan *plan, bool tree) {
  char why[512];
  adj_status status;
  snprintf(why, sizeof why, "%s", adj_last_error());
  bool others = may_share(plan, tree, &status);
  if (others) adji_log(plan->ctx, ADJ_LOG_WARN, ADJI_FIRST_FAILED, why);
  adji_fail(ADJ_E_DEVICE, "%s", why);
  return others;
}

/* The first device has the join. Several share it if that is faster, judged by a sample of the queries. */
static adj_status share_if_quicker(adj_plan *plan, bool tree) {
  adji_range_trial trial;
  adj_status status = ADJ_OK;
  if (plan->device_chunk || plan->spec.backend != ADJ_BACKEND_GPU || !may_share(plan, tree, &status)) return status;
  status = adji_gpu_range_worker_guess(&plan->engine.workers[0], plan->sampled, &trial);
  if (status) return status;
  adji_share_times t = adji_range_times(plan, &trial);
  double open_s = adji_others_open_seconds(plan);
  uint32_t devices = adji_gpu_worker_count(plan->ctx);
  plan->estimated_seconds = t.alone;
  if (!adji_several_pay(&t, devices, open_s)) return ADJ_OK;
  adji_worker first = adji_engine_take(&plan->engine);
  plan->estimated_seconds = adji_several_seconds(&t, devices, open_s);
  return share_devices(plan, &first);
}

/* Opens devices, which build the index. begin: when planning began. */
static adj_status open_on_gpu(adj_plan *plan, adji_algorithm algorithm, bool tree, uint64_t begin) {
  plan->choice.backend = ADJ_BACKEND_GPU;
  uint64_t planned = adji_now_ns();
  adj_status status = ADJ_OK;
  bool shared = plan->tuning.share && may_share(plan, tree, &status);
  if (status) return status;
  if (!shared) status = adji_gpu_range_create(&plan->device.options, &plan->engine);
  if (status == ADJ_E_DEVICE_MEMORY && tree && !plan->join.limits && !algorithm) { /* a grid can be joined in chunks */
    tree = false;
    status = adji_choose_for_device(&plan->question, algorithm, &plan->device);
    if (!status) status = adji_gpu_range_create(&plan->device.options, &plan->engine);
  }
  if (status == ADJ_E_DEVICE) shared = try_others(plan, tree);
  if (shared) status = share_devices(plan, NULL);
  if (shared && status == ADJ_E_DEVICE_MEMORY) { /* devices also share sets that do not fit */
    shared = false;
    status = adji_gpu_range_create(&plan->device.options, &plan->engine);
  }
  plan->choice.algorithm = plan->device.algorithm;
  snprintf(plan->choice.reason, sizeof plan->choice.reason, "%s", plan->device.grid.reason);
  uint64_t indexed = adji_now_ns();
  if (status) return status;
  adji_note_device(plan);
  if (!shared && (!tree || plan->left->count >= FEW_ON_DEVICE)) status = estimate_on_device(plan);
  if (!shared) plan->device_chunk = adji_gpu_range_engine_chunk(&plan->engine);
  if (plan->device_chunk) adji_describe_chunks(plan, adji_gpu_range_engine_has_regions(&plan->engine));
  if (!shared && !status) status = share_if_quicker(plan, tree);
  if (!shared && status == ADJ_E_DEVICE && try_others(plan, tree)) {
    adji_engine_clear(&plan->engine);
    status = share_devices(plan, NULL);
  }
  plan->index_s = seconds(planned, indexed);
  plan->plan_s = seconds(begin, planned) + seconds(indexed, adji_now_ns());
  adji_trace(plan->ctx, "plan", 0, begin, 0);
  return status;
}

/* The grid is chosen here. */
adj_status adji_plan_range_on_gpu(adj_plan *plan, adji_algorithm algorithm) {
  uint64_t begin = adji_now_ns();
  bool tree = false;
  adj_status status = wants_tree(plan, algorithm, &tree);
  if (status) return status;
  if (tree)
    choose_tree_on_device(plan, algorithm);
  else
    status = adji_choose_for_device(&plan->question, algorithm, &plan->device);
  return status ? status : open_on_gpu(plan, algorithm, tree, begin);
}

adj_status adji_plan_range_as_chosen(adj_plan *plan, adji_algorithm algorithm) {
  bool tree = false;
  adj_status status = wants_tree(plan, algorithm, &tree);
  return status ? status : open_on_gpu(plan, algorithm, false, adji_now_ns());
}

void adji_forget_cores(adj_plan *plan) {
  adji_engine_clear(&plan->engine);
  plan->question.codes = false;
  plan->question.count_ns = plan->question.filled = 0;
}

void adji_forget_device(adj_plan *plan) {
  adji_grid_choice_clear(plan->ctx, &plan->device.grid);
}
