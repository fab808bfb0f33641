/* SPDX-License-Identifier: MIT
 *
 * kNN joins in few dimensions on a device: points, trees, and the launch of the kernel that a join needs.
 */
#include <cstdlib>

#include "gpu/nearest_kernel.cuh"
#include "gpu/report.cuh"

extern "C" {
#include "gpu/nearest.h"
#include "gpu/staging.h"
}

/* The most neighbours that a lane keeps in registers. */
enum { MOST_K = 32, MOST_DIM = 6, MOST_DIM_WIDE = 3, MOST_DIM_OTHER = 3 };

struct adji_gpu_nearest {
  adji_gpu *gpu;
  adji_join join;
  adji_measure measure;
  adji_gpu_tree right, left_tree;
  const adji_gpu_tree *left;
  adji_block ids, sums;
};

bool adji_gpu_nearest_can(const adji_join *join, const adji_measure *measure) {
  uint32_t dim = join->left->dim, most = join->left->type == ADJ_F64 ? MOST_DIM_WIDE : MOST_DIM;
  if (measure->step == ADJI_STEP_L1 || measure->step == ADJI_STEP_LINF) most = MOST_DIM_OTHER;
  bool known = measure->step == ADJI_STEP_L2 || measure->step == ADJI_STEP_L1 || measure->step == ADJI_STEP_LINF;
  return known && dim <= most && join->k <= MOST_K;
}

/* ---- Opening ---------------------------------------------------------------------------------------- */

static adj_status build_tree(adji_gpu_nearest *n, const adj_dataset *set, bool boxes, adji_gpu_tree *out,
                             adji_device_work *work) {
  adji_gpu *gpu = n->gpu;
  adji_block points = {};
  uint64_t bytes = adji_mul(set->count * set->dim, adji_type_size(set->type));
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "points", &points);
  if (status) return status;
  /* The pool orders by stream; the copies are on another. */
  cudaError_t error = cudaStreamSynchronize(gpu->compute);
  if (error != cudaSuccess) status = adji_cuda_fail(gpu, error, "cudaStreamSynchronize");
  if (!status) status = adji_upload(gpu, set, points.at, work); /* has arrived when it returns */
  if (status) adji_gpu_settle(gpu);                             /* or is given up */
  adji_gpu_rows rows = {points.at, set->type, set->dim, set->count, set->dim, 1};
  if (!status) status = adji_gpu_tree_build(gpu, &rows, set->low, set->high, boxes, out);
  adji_block_free(gpu, gpu->compute, &points);
  return status;
}

adj_status adji_gpu_nearest_open(adji_gpu *gpu, const adji_join *join, const adji_measure *measure,
                                 adji_gpu_nearest **out, adji_device_work *work) {
  adji_gpu_nearest *n = static_cast<adji_gpu_nearest *>(calloc(1, sizeof *n));
  if (!n) return adji_fail(ADJ_E_MEMORY, "no memory for a join");
  n->gpu = gpu;
  n->join = *join;
  n->measure = *measure;
  n->left = &n->right;
  adj_status status = build_tree(n, join->right, true, &n->right, work);
  if (!status && !join->self_join) {
    n->left = &n->left_tree;
    status = build_tree(n, join->left, false, &n->left_tree, work);
  }
  if (status)
    adji_gpu_nearest_close(n);
  else
    *out = n;
  return status;
}

void adji_gpu_nearest_close(adji_gpu_nearest *n) {
  if (!n) return;
  cudaSetDevice(n->gpu->device);
  adji_block_free(n->gpu, n->gpu->compute, &n->ids);
  adji_block_free(n->gpu, n->gpu->compute, &n->sums);
  adji_gpu_tree_clear(n->gpu, &n->right);
  adji_gpu_tree_clear(n->gpu, &n->left_tree);
  free(n);
}

/* ---- Launching -------------------------------------------------------------------------------------- */

template <class T>
static nearest_job<T> with_types(const adji_gpu_nearest *n) {
  nearest_job<T> job = {};
  job.left_coords = static_cast<const T *>(n->left->points.coords);
  job.right_coords = static_cast<const T *>(n->right.points.coords);
  job.left_ids = n->left->points.ids;
  job.right_ids = n->right.points.ids;
  job.right_count = n->right.points.count;
  for (uint32_t l = 0; l < n->right.level_count; l++)
    job.levels[l] = n->right.levels[l];
  job.level_count = n->right.level_count;
  job.same_sets = n->left == &n->right;
  job.query_count = n->left->points.count;
  job.drop_self = n->join.style.drop_self;
  job.limit = static_cast<T>(n->join.limit);
  job.k = n->join.k;
  job.measure.power = n->measure.power;
  job.ids = adji_at<uint32_t>(n->ids);
  job.sums = adji_at<T>(n->sums);
  return job;
}

template <class T, int STEP, int DIM, int K>
static adj_status launch(adji_gpu_nearest *n) {
  nearest_job<T> job = with_types<T>(n);
  uint32_t blocks = adji_blocks_for(job.query_count, NEAREST_WARPS * ADJI_WARP);
  find_nearest<nearest_what<T, STEP, DIM, K>><<<blocks, NEAREST_WARPS * ADJI_WARP, 0, n->gpu->compute>>>(job);
  ADJI_LAUNCHED(n->gpu, "find_nearest");
  return ADJ_OK;
}

template <class T, int STEP, int DIM>
static adj_status launch_k(adji_gpu_nearest *n) {
  if (n->join.k <= 8) return launch<T, STEP, DIM, 8>(n);
  return n->join.k <= 16 ? launch<T, STEP, DIM, 16>(n) : launch<T, STEP, DIM, 32>(n);
}

/* Dimensions 1 .. MOST. */
template <class T, int STEP, int MOST>
static adj_status launch_dim(adji_gpu_nearest *n) {
  if constexpr (MOST > 0) {
    if (n->join.left->dim == MOST) return launch_k<T, STEP, MOST>(n);
    return launch_dim<T, STEP, MOST - 1>(n);
  }
  return adji_fail(ADJ_E_INTERNAL, "a kernel for %u dimensions is missing", n->join.left->dim);
}

template <class T, int MOST>
static adj_status launch_step(adji_gpu_nearest *n) {
  if (n->measure.step == ADJI_STEP_L1) return launch_dim<T, ADJI_STEP_L1, MOST_DIM_OTHER>(n);
  if (n->measure.step == ADJI_STEP_LINF) return launch_dim<T, ADJI_STEP_LINF, MOST_DIM_OTHER>(n);
  return launch_dim<T, ADJI_STEP_L2, MOST>(n);
}

/* Rows without candidates. */
static adj_status clear_rows(adji_gpu_nearest *n, uint64_t entries) {
  ADJI_CUDA(n->gpu, cudaMemsetAsync(n->ids.at, 0xff, entries * 4, n->gpu->compute));
  return ADJ_OK;
}

adj_status adji_gpu_nearest_run(adji_gpu_nearest *n) {
  if (n->ids.at) return ADJ_OK;
  adj_type type = n->join.left->type;
  uint64_t entries = adji_mul(n->join.left->count, n->join.k);
  adj_status status = adji_block_get(n->gpu, n->gpu->compute, entries * 4, "table of neighbours", &n->ids);
  if (!status)
    status = adji_block_get(n->gpu, n->gpu->compute, entries * adji_type_size(type), "table of neighbours", &n->sums);
  if (!status) status = clear_rows(n, entries);
  if (!status && n->right.points.count && n->left->points.count)
    status = type == ADJ_F64 ? launch_step<double, MOST_DIM_WIDE>(n) : launch_step<float, MOST_DIM>(n);
  if (!status) status = adji_gpu_report(n->gpu, n->gpu->compute, &n->measure, type, entries, n->sums.at);
  if (!status) return ADJ_OK;
  adji_block_free(n->gpu, n->gpu->compute, &n->ids);
  adji_block_free(n->gpu, n->gpu->compute, &n->sums);
  return status;
}

const uint32_t *adji_gpu_nearest_ids(const adji_gpu_nearest *n) {
  return adji_at<uint32_t>(n->ids);
}
const void *adji_gpu_nearest_distances(const adji_gpu_nearest *n) {
  return n->sums.at;
}
