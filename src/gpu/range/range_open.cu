/* SPDX-License-Identifier: MIT
 *
 * Opens a range join on a device: its points, and the structure that is searched, which is a grid or a tree, made for
 * the join or lent.
 */
#include <cstdlib>

#include "gpu/range/range_private.cuh"

extern "C" {
#include "gpu/device/staging.h"
#include "index/grid.h"
}

/* ---- Opening -------------------------------------------------------------------------------------------------- */

static adj_status build_on_device(adji_gpu_range *r, const adji_gpu_rows *rows, const adji_gpu_index_options *options,
                                  adji_gpu_index *out) {
  adj_status status = adji_range_start_watch(r);
  if (!status) status = adji_gpu_index_build(r->gpu, r->grid, rows, options, out);
  return status ? status : adji_range_stop_watch(r);
}

/* Where the index and the points of one set are stored. */
typedef struct side {
  adji_gpu_index *index;
  adji_gpu_rows *rows;
  adji_block *points;
  adji_gpu_points *keep; /* as in the options */
} side;

static adj_status build_from_host(adji_gpu_range *r, const adj_dataset *set, const adji_gpu_index_options *options,
                                  side *out) {
  adji_block points = {};
  adj_status status = adji_gpu_fetch_bytes(r->gpu, set, &points, out->rows, &r->work);
  if (!status) status = build_on_device(r, out->rows, options, out->index);
  if (!status && r->tensor)
    *out->points = points;
  else if (!status && out->keep)
    *out->keep = adji_gpu_points{r->gpu, *out->rows, points.bytes};
  else
    adji_block_free(r->gpu, r->gpu->compute, &points);
  return status;
}

static adj_status build_index(adji_gpu_range *r, const adj_dataset *set, const adji_gpu_rows *rows,
                              const adji_gpu_index_options *options, side out) {
  if (!rows) return build_from_host(r, set, options, &out);
  *out.rows = *rows;
  return build_on_device(r, rows, options, out.index);
}

static adj_status copy_box(adji_gpu_range *r) {
  if (!r->measure.box) return ADJ_OK;
  uint64_t bytes = r->join.left->dim * adji_type_size(r->join.left->type);
  adj_status status = adji_block_get(r->gpu, r->gpu->compute, bytes, "box", &r->box);
  if (status) return status;
  ADJI_CUDA(r->gpu, cudaMemcpyAsync(r->box.at, r->measure.box, bytes, cudaMemcpyHostToDevice, r->gpu->compute));
  return ADJ_OK;
}

/* Counts positions whose id differs from that of the given order. One thread per position. */
static __global__ void count_moved(const uint32_t *ids, const uint32_t *order, uint64_t count,
                                   unsigned long long *moved) {
  uint64_t i = static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count && ids[i] != order[i]) atomicAdd(moved, 1ull);
}

/* A worker that exchanges pairs by position with another index must have the same order as that index. */
static adj_status check_order(adji_gpu_range *r, const uint32_t *order) {
  if (!r->rows) return ADJ_OK;
  adj_status status = adji_answer_clear(r->gpu, r->gpu->compute, ADJI_ANSWER_ITEMS, 1);
  if (status) return status;
  count_moved<<<adji_blocks_for(r->rows, 256), 256, 0, r->gpu->compute>>>(r->right->ids, order, r->rows,
                                                                          adji_answer_at(r->gpu, ADJI_ANSWER_ITEMS));
  ADJI_LAUNCHED(r->gpu, "count_moved");
  status = adji_answers_fetch(r->gpu, r->gpu->compute);
  if (status || !r->gpu->answers[ADJI_ANSWER_ITEMS]) return status;
  return adji_fail(ADJ_E_DEVICE, "device %d: %llu points are not where the cores have them", r->gpu->device,
                   (unsigned long long)r->gpu->answers[ADJI_ANSWER_ITEMS]);
}

/* Builds the index of a self-join, in a given order. */
static adj_status build_in_order(adji_gpu_range *r, const adji_gpu_range_options *options,
                                 adji_gpu_index_options candidates, side right) {
  adji_block order = {};
  adj_status status = adji_block_get(r->gpu, r->gpu->compute, r->rows * 4, "queries", &order);
  if (!status) status = adji_gpu_wait(r->gpu); /* the block may have another owner until then */
  if (!status) status = adji_upload_bytes(r->gpu, options->order, r->rows * 4, order.at, &r->work);
  candidates.order = adji_at<uint32_t>(order);
  if (!status) status = build_index(r, r->join.right, options->right_rows, &candidates, right);
  if (!status) status = check_order(r, candidates.order);
  adji_block_free(r->gpu, r->gpu->compute, &order);
  return status;
}

/* Makes a grid for this join, and indexes the right points in its order. */
static adj_status build_right(adji_gpu_range *r, const adji_gpu_range_options *options) {
  adji_gpu_index_options candidates = {};
  candidates.images = adji_grid_is_periodic(options->grid);
  candidates.cells = true;
  candidates.sorted = options->points.sortidu;
  candidates.sort_dim = options->points.sort_dim;
  r->grid = &r->own_grid;
  r->right = &r->own_right;
  adj_status status =
      adji_gpu_grid_make(r->gpu, options->grid, r->measure.step == ADJI_STEP_L2 ? r->join.limit : 0, &r->own_grid);
  side right = {&r->own_right, &r->given.right, &r->right_points, options->keep};
  if (status) return status;
  return options->order ? build_in_order(r, options, candidates, right)
                        : build_index(r, r->join.right, options->right_rows, &candidates, right);
}

static adj_status build_indices(adji_gpu_range *r, const adji_gpu_range_options *options) {
  adj_status status = copy_box(r);
  r->grid = r->lent ? &r->lent->grid : NULL;
  r->right = r->lent ? &r->lent->index : NULL;
  if (!status && !r->lent) status = build_right(r, options);
  r->left = r->right;
  r->given.left = r->given.right;
  if (status || (r->join.self_join && !r->right->images)) return status;
  r->left = &r->left_index;
  adji_gpu_index_options queries = {};
  side left = {&r->left_index, &r->given.left, &r->left_points, nullptr};
  return build_index(r, r->join.left, options->left_rows, &queries, left);
}

/* ---- Through a tree --------------------------------------------------------------------------------------------- */

static adj_status find_tree(adji_gpu_range *r, const adji_gpu_range_options *options) {
  adj_status status = ADJ_OK;
  if (!r->lent) {
    adji_gpu_right_options right_options = {};
    right_options.form = ADJI_RIGHT_TREE;
    right_options.set = r->join.right;
    right_options.rows = options->right_rows;
    status = adji_gpu_right_open(r->gpu, &right_options, &r->own_tree);
    if (status) return status;
    r->reports_right = adji_gpu_right_is_new(r->own_tree);
  }
  r->tree = r->lent ? &r->lent->tree : &r->own_tree->tree;
  r->left = r->right = &r->tree->points;
  return status;
}

/* Few queries are searched in their own order, more of them along the curve. */
static adj_status order_queries(adji_gpu_range *r, const adji_gpu_rows *rows) {
  if (rows->count <= ADJI_PACKED_QUERIES) return adji_gpu_index_pack(r->gpu, rows, &r->left_index);
  adji_gpu_tree_options options = {r->join.left->low, r->join.left->high, false, false};
  adji_gpu_tree along = {};
  adj_status status = adji_gpu_tree_build(r->gpu, rows, &options, &along);
  r->left_index = along.points; /* a tree without boxes has nothing else */
  return status;
}

static adj_status open_tree(adji_gpu_range *r, const adji_gpu_range_options *options) {
  adji_block points = {};
  adji_gpu_rows fetched;
  const adji_gpu_rows *rows = options->left_rows;
  adj_status status = find_tree(r, options);
  if (!status) status = adji_gpu_send_limits(r->gpu, &r->join, &r->work, &r->limits);
  if (status || r->join.self_join) return status;
  r->left = &r->left_index;
  if (!rows) {
    status = adji_gpu_fetch_bytes(r->gpu, r->join.left, &points, &fetched, &r->work);
    rows = &fetched;
  }
  if (!status) status = adji_range_start_watch(r);
  if (!status) status = order_queries(r, rows);
  if (!status) status = adji_range_stop_watch(r);
  adji_block_free(r->gpu, r->gpu->compute, &points);
  return status;
}

/* Makes the half-precision copies for the prefilter. If there is no room for them, the join does without the
 * prefilter. */
static adj_status make_halves(adji_gpu_range *r, const adji_halves_plan *plan) {
  if (!r->tensor) return ADJ_OK;
  adj_status status = adji_gpu_halves_make(r->gpu, plan, r->grid, r->left, r->right, &r->halves);
  if (status != ADJ_E_DEVICE_MEMORY) return status;
  r->tensor = false;
  adji_blocks_free(r->gpu, {&r->left_points, &r->right_points});
  return ADJ_OK;
}

static adj_status make_counts(adji_gpu_range *r) {
  adj_status status = adji_block_get(r->gpu, r->gpu->compute, (r->rows + 1) * 4, "neighbour counts", &r->degrees);
  if (!status) status = adji_block_get(r->gpu, r->gpu->compute, (r->rows + 1) * 8, "row offsets", &r->offsets);
  return status;
}

static adj_status open_grid(adji_gpu_range *r, const adji_gpu_range_options *options) {
  bool by_point = adji_access_by_point(options->points.access);
  r->tensor = options->tensor && options->tensor->use && r->gpu->tensor.holds && !by_point && !r->lent &&
              adji_tensor_tiles_fit(r->gpu, options->tensor->scale.width);
  adj_status status = build_indices(r, options);
  if (!status) status = make_halves(r, options->tensor);
  uint32_t dim = r->join.left->dim;
  r->all_pairs = options->all_pairs && !status && !r->tensor && !by_point && !r->grid->axis_count &&
                 !r->right->images && adji_all_pairs_can(dim);
  r->mirrored = options->mirrored && r->left == r->right && !r->tensor && !by_point &&
                (r->all_pairs || adji_gpu_can_mirror(&r->measure, dim));
  return status;
}

static void take_options(adji_gpu_range *r, const adji_gpu_range_options *options) {
  r->join = *options->join;
  r->measure = *options->measure;
  r->rows = r->join.left->count;
  r->blocks = options->blocks;
  r->timed = options->timed;
  r->single = options->single && !adji_access_by_point(options->points.access);
  r->single_pairs = options->single_pairs;
  r->tile_hit_candidates = options->tree ? 0 : options->tile_hit_candidates;
  r->query_hits = options->query_hits && !options->tree;
  r->lent = options->right;
  r->reports_right = r->lent && adji_gpu_right_is_new(r->lent);
  r->checks_left = r->cleared = options->checks_left;
}

adj_status adji_gpu_range_open(adji_gpu *gpu, const adji_gpu_range_options *options, adji_gpu_range **out) {
  bool tensor = options->tensor && options->tensor->use && !options->tree;
  if (tensor && !gpu->tensor.holds && options->tensor->asked) return adji_gpu_refuse_tensor(gpu);
  adji_gpu_range *r = static_cast<adji_gpu_range *>(calloc(1, sizeof *r));
  if (!r) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  r->gpu = gpu;
  take_options(r, options);
  adj_status status = r->cleared ? adji_answer_clear(gpu, gpu->compute, 0, ADJI_ANSWERS) : ADJ_OK;
  if (!status) status = adji_per_point_open(gpu, &options->points, r->join.left->dim, &r->points);
  if (!status) status = options->tree ? open_tree(r, options) : open_grid(r, options);
  if (!status) status = make_counts(r);
  if (!status && !r->checks_left) status = adji_gpu_mark(gpu, ADJI_MARK_INDEXED);
  if (status)
    adji_gpu_range_close(r);
  else
    *out = r;
  return status;
}

void adji_gpu_range_close(adji_gpu_range *r) {
  if (!r) return;
  cudaSetDevice(r->gpu->device);
  if (r->timed) cudaStreamSynchronize(r->gpu->copy); /* a failed run may have copies in progress */
  adji_range_free_slots(r);
  adji_count_cache_free(r->gpu, &r->cache);
  adji_per_point_clear(r->gpu, &r->points);
  adji_blocks_free(r->gpu, {&r->box, &r->degrees, &r->offsets, &r->queries, &r->temporary, &r->left_points,
                            &r->right_points, &r->limits, &r->queue_rows, &r->queue_counts});
  adji_gpu_halves_clear(r->gpu, &r->halves);
  adji_gpu_index_clear(r->gpu, &r->own_right);
  adji_gpu_index_clear(r->gpu, &r->left_index);
  adji_gpu_grid_clear(r->gpu, &r->own_grid);
  adji_gpu_right_close(r->own_tree);
  if (r->timed) cudaStreamSynchronize(r->gpu->compute);
  adji_stopwatch_clear(&r->watch);
  cudaGetLastError();
  free(r);
}
