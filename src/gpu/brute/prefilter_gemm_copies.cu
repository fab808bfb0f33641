/* SPDX-License-Identifier: MIT
 *
 * Copies of points for matrix products: centred, scaled, with their norms.
 */
#include "gpu/brute/prefilter_gemm.cuh"

namespace {

constexpr uint32_t ALL_LANES = 0xffffffffu;
enum { THREADS = 256 };

template <class T>
struct copying {
  const T *rows; /* packed */
  uint64_t count;
  uint32_t dim, width, lanes; /* lanes: per row, a power of two */
  const T *centre;
  const adji_tensor_frame *frame;
  T *values;
  /* For candidates: halves. For queries: about, and the row of the first. One of the two is NULL. */
  T *halves;
  adji_tensor_query *about;
  uint64_t first_row;
};

/* Writes what the norm of row i says: h for a candidate, the whole description for a query. */
template <class T>
__device__ __forceinline__ void describe_row(const copying<T> &c, uint64_t i, double norm_sq) {
  bool stray = adji_gemm_is_stray(norm_sq);
  if (c.halves)
    c.halves[i] = stray ? T(-INFINITY) : static_cast<T>(norm_sq / 2);
  else
    c.about[i] = adji_tensor_query{stray ? static_cast<double>(INFINITY) : norm_sq,
                                   adji_gemm_error(norm_sq, sizeof(T) == 8), static_cast<uint32_t>(c.first_row + i)};
}

/* x^ = (x - c) * scale, and the sum of its squares in f64. Input and output in device memory. A row is copied by
 * `lanes` neighbouring lanes, which read and write neighbouring coordinates; those past the last dimension become 0.
 * Shuffles add up the norm. Limited by memory. */
template <class T>
__global__ void copy_rows(const __grid_constant__ copying<T> c) {
  uint64_t thread = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x, i = thread / c.lanes;
  uint32_t lane = static_cast<uint32_t>(thread % c.lanes);
  adji_tensor_scaling<T> scale = adji_tensor_scale_for(c.frame->scale, T());
  double norm_sq = 0;
  for (uint32_t j = lane; j < c.width && i < c.count; j += c.lanes) {
    T z = j < c.dim ? (c.rows[i * c.dim + j] - c.centre[j]) * scale.first * scale.second : T(0);
    c.values[i * c.width + j] = z;
    norm_sq += static_cast<double>(z) * static_cast<double>(z);
  }
  for (uint32_t step = c.lanes / 2; step; step /= 2)
    norm_sq += __shfl_xor_sync(ALL_LANES, norm_sq, step);
  if (lane == 0 && i < c.count) describe_row(c, i, norm_sq);
}

template <class T>
adj_status launch(adji_gpu *gpu, copying<T> c, const adji_brute_job *job, const adji_tensor_points *points) {
  c.dim = job->dim;
  c.width = points->rules.width;
  c.lanes = 1;
  while (c.lanes < ADJI_WARP && c.lanes < c.width)
    c.lanes *= 2;
  c.centre = adji_at<T>(points->centre);
  c.frame = adji_at<adji_tensor_frame>(points->frame);
  copy_rows<T><<<adji_blocks_for(c.count * c.lanes, THREADS), THREADS, 0, gpu->compute>>>(c);
  ADJI_LAUNCHED(gpu, "copy_rows");
  return ADJ_OK;
}

template <class T>
adj_status copy_points(adji_gpu *gpu, const adji_brute_job *job, const adji_tensor_points *to) {
  copying<T> c = {};
  c.rows = static_cast<const T *>(job->right);
  c.count = to->count;
  c.values = adji_at<T>(to->values);
  c.halves = adji_at<T>(to->starts);
  return launch(gpu, c, job, to);
}

template <class T>
adj_status copy_queries(adji_gpu *gpu, const adji_brute_job *job, const adji_tensor_points *points,
                        const adji_tensor_batch *to) {
  copying<T> c = {};
  c.rows = static_cast<const T *>(job->left) + (job->first_row - job->left_first) * job->dim;
  c.count = job->queries;
  c.values = adji_at<T>(to->values);
  c.about = adji_at<adji_tensor_query>(to->about);
  c.first_row = job->first_row;
  return launch(gpu, c, job, points);
}

adj_status make_points(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to) {
  const char *what = "points for products";
  uint64_t size = job->type == ADJ_F64 ? 8 : 4;
  adj_status status = adji_block_get(gpu, gpu->compute, job->dim * sizeof(double), what, &to->centre);
  if (!status) status = adji_block_get(gpu, gpu->compute, sizeof(adji_tensor_frame), what, &to->frame);
  if (!status) status = adji_block_get(gpu, gpu->compute, adji_mul(to->count, to->row_bytes), what, &to->values);
  if (!status) status = adji_block_get(gpu, gpu->compute, to->count * size, what, &to->starts);
  if (!status) status = adji_tensor_find_frame(gpu, job, to);
  if (status) return status;
  return job->type == ADJ_F64 ? copy_points<double>(gpu, job, to) : copy_points<float>(gpu, job, to);
}

}  // namespace

adj_status adji_gemm_copy_points(adji_gpu *gpu, const adji_brute_job *job, adji_tensor_points *to) {
  *to = adji_tensor_points{};
  to->rules = adji_gemm_rules_of(job->dim, job->type == ADJ_F64);
  to->row_bytes = to->rules.width * (job->type == ADJ_F64 ? 8 : 4);
  to->count = to->capacity = job->right_count;
  to->stride = 1;
  adj_status status = make_points(gpu, job, to);
  if (status) adji_tensor_points_clear(gpu, to);
  return status;
}

adj_status adji_gemm_copy_queries(adji_gpu *gpu, const adji_tensor_points *points, const adji_brute_job *job,
                                  const adji_tensor_batch *to) {
  return job->type == ADJ_F64 ? copy_queries<double>(gpu, job, points, to) : copy_queries<float>(gpu, job, points, to);
}
