/* SPDX-License-Identifier: MIT
 *
 * Chooses epsilon for a kNN join through a grid by sampling and binning distances: HybridKNN-Join, section 4.4.
 *
 * Distances are canonical here, too, although they need not be: epsilon decides how long a search takes, not what it
 * finds.
 */
#include <cmath>

#include "gpu/knn/knn_search.cuh"
#include "gpu/papers/knn_grid.cuh"

enum { THREADS = 256, WARPS = THREADS / ADJI_WARP, MEAN_BLOCKS = 1024, BLOCKS_EACH = 4, QUERIES = 16 };

/* The i-th of `sample` positions spread over `count`. */
static __device__ __forceinline__ uint64_t spread_position(uint64_t i, uint64_t sample, uint64_t count) {
  return (2 * i + 1) * count / (2 * sample);
}

template <class W, class T>
static __device__ __forceinline__ T distance_of(T s) {
  return W::STEP == ADJI_STEP_L2 ? adji_root(s) : s;
}

/* ---- The mean -------------------------------------------------------------------------------- */

/* Adds up the distances between samples of both sets: sums[block] += distance(left i, right j), in f64.
 *
 * Input: trees in device memory. Output: one partial sum per block, in device memory. A block owns every gridDim.x-th
 * left point; its threads take the right points in turn. The order of all additions is fixed, so the result is
 * reproducible. */
template <class W>
static __global__ void add_distances(const knn_job<typename W::T> job, uint64_t left_count, uint64_t left_sample,
                                     uint64_t right_sample, double *sums) {
  typedef typename W::T T;
  __shared__ double parts[WARPS];
  double sum = 0;
  for (uint64_t i = blockIdx.x; i < left_sample; i += gridDim.x) {
    T x[W::ROOM], c[W::ROOM];
    uint32_t row = load_record<W>(job, job.left_coords, job.left_ids, spread_position(i, left_sample, left_count), x);
    for (uint64_t j = threadIdx.x; j < right_sample; j += THREADS) {
      uint64_t position = spread_position(j, right_sample, job.right_count);
      uint32_t id = load_record<W>(job, job.right_coords, job.right_ids, position, c);
      if (!(job.same_sets && id == row)) sum += distance_of<W>(sum_of<W>(job, x, c));
    }
  }
#pragma unroll
  for (uint32_t step = ADJI_WARP / 2; step; step /= 2)
    sum += __shfl_xor_sync(KNN_LANES, sum, step);
  if (threadIdx.x % ADJI_WARP == 0) parts[threadIdx.x / ADJI_WARP] = sum;
  __syncthreads();
  if (threadIdx.x) return;
  for (int w = 1; w < WARPS; w++)
    sum += parts[w];
  sums[blockIdx.x] = sum;
}

/* ---- Bins ------------------------------------------------------------------------------------ */

/* Counts the distances d < end between `sample` left points and all right points in bins: bin floor(d * inverse).
 *
 * Input: trees in device memory. Output: bins in device memory, added atomically. A block owns a part of the right
 * points and has its own bins in shared memory, which it adds to the global ones at the end.
 * 1. Load sixteen queries into shared memory.
 * 2. Each thread compares its points with all of them and counts in the block's bins.
 * 3. After the last query, add the block's bins to the global ones.
 *
 * __syncthreads separates the steps. Limits: comparisons, and shared-memory atomics for near points. */
template <class W>
static __global__ void __launch_bounds__(THREADS)
    bin_distances(const knn_job<typename W::T> job, uint64_t left_count, uint64_t sample, typename W::T end,
                  typename W::T inverse, uint32_t bin_count, unsigned long long *bins) {
  typedef typename W::T T;
  extern __shared__ uint32_t block_bins[];
  __shared__ T xs[QUERIES][W::ROOM];
  __shared__ uint32_t rows[QUERIES];
  for (uint32_t b = threadIdx.x; b < bin_count; b += THREADS)
    block_bins[b] = 0;
  for (uint64_t first = 0; first < sample; first += QUERIES) {
    uint32_t queries = sample - first < QUERIES ? static_cast<uint32_t>(sample - first) : QUERIES;
    __syncthreads();
    if (threadIdx.x < queries) {
      T x[W::ROOM];
      uint64_t position = spread_position(first + threadIdx.x, sample, left_count);
      rows[threadIdx.x] = load_record<W>(job, job.left_coords, job.left_ids, position, x);
      for (int j = 0; j < W::ROOM; j++)
        xs[threadIdx.x][j] = x[j];
    }
    __syncthreads();
    for (uint64_t p = static_cast<uint64_t>(blockIdx.x) * THREADS + threadIdx.x; p < job.right_count;
         p += static_cast<uint64_t>(gridDim.x) * THREADS) {
      T c[W::ROOM];
      uint32_t id = load_record<W>(job, job.right_coords, job.right_ids, p, c);
      for (uint32_t q = 0; q < queries; q++) {
        T d = distance_of<W>(sum_of<W>(job, xs[q], c));
        if (!(d < end) || (job.drop_self && id == rows[q])) continue;
        uint32_t bin = static_cast<uint32_t>(d * inverse);
        atomicAdd(block_bins + (bin < bin_count ? bin : bin_count - 1), 1u);
      }
    }
  }
  __syncthreads();
  for (uint32_t b = threadIdx.x; b < bin_count; b += THREADS)
    if (block_bins[b]) atomicAdd(bins + b, static_cast<unsigned long long>(block_bins[b]));
}

/* ---- Launching ------------------------------------------------------------------------------- */

/* The parameters of the two kernels. */
typedef struct sampling {
  uint64_t left_sample, right_sample;
  double *sums;
  uint32_t blocks;
  double end;
  uint32_t bin_count;
  unsigned long long *bins; /* NULL: the kernel for the mean runs */
} sampling;

template <class T, int STEP>
static adj_status launch(adji_gpu *gpu, const adji_knn_job *job, const sampling *request) {
  typedef knn_instance<T, STEP, 0> W;
  knn_job<T> typed = with_types<T>(job);
  uint64_t left = job->left->points.count;
  if (!request->bins) {
    add_distances<W><<<request->blocks, THREADS, 0, gpu->compute>>>(typed, left, request->left_sample,
                                                                    request->right_sample, request->sums);
    ADJI_LAUNCHED(gpu, "add_distances");
    return ADJ_OK;
  }
  bin_distances<W><<<request->blocks, THREADS, request->bin_count * sizeof(uint32_t), gpu->compute>>>(
      typed, left, request->left_sample, static_cast<T>(request->end),
      static_cast<T>(request->bin_count / request->end), request->bin_count, request->bins);
  ADJI_LAUNCHED(gpu, "bin_distances");
  return ADJ_OK;
}

template <class T>
static adj_status launch_step(adji_gpu *gpu, const adji_knn_job *job, const sampling *request) {
  switch (job->measure->step) {
    case ADJI_STEP_L1:
      return launch<T, ADJI_STEP_L1>(gpu, job, request);
    case ADJI_STEP_LINF:
      return launch<T, ADJI_STEP_LINF>(gpu, job, request);
    default:
      return launch<T, ADJI_STEP_L2>(gpu, job, request);
  }
}

/* Launches the kernel and copies its output to the host. `found` is zeroed first. */
static adj_status run_sampling(adji_gpu *gpu, const adji_knn_job *job, sampling *request, const adji_block *found,
                               void *host) {
  request->sums = adji_at<double>(*found);
  if (request->bin_count) request->bins = adji_at<unsigned long long>(*found);
  ADJI_CUDA(gpu, cudaMemsetAsync(found->at, 0, found->bytes, gpu->compute));
  adj_status status =
      job->type == ADJ_F64 ? launch_step<double>(gpu, job, request) : launch_step<float>(gpu, job, request);
  if (status) return status;
  ADJI_CUDA(gpu, cudaMemcpyAsync(host, found->at, found->bytes, cudaMemcpyDeviceToHost, gpu->compute));
  ADJI_CUDA(gpu, cudaStreamSynchronize(gpu->compute));
  return ADJ_OK;
}

static adj_status sample_distances(adji_gpu *gpu, const adji_knn_job *job, sampling *request, uint64_t bytes,
                                   void *host) {
  adji_block found = {};
  adj_status status = adji_block_get(gpu, gpu->compute, bytes, "sample", &found);
  if (!status) status = run_sampling(gpu, job, request, &found, host);
  adji_block_free(gpu, gpu->compute, &found);
  return status;
}

adj_status adji_knn_grid_mean(adji_gpu *gpu, const adji_knn_job *job, uint64_t left_sample, uint64_t right_sample,
                              double *mean) {
  double sums[MEAN_BLOCKS], sum = 0;
  sampling request = {};
  request.left_sample = left_sample;
  request.right_sample = right_sample;
  request.blocks = left_sample < MEAN_BLOCKS ? static_cast<uint32_t>(left_sample) : MEAN_BLOCKS;
  adj_status status = sample_distances(gpu, job, &request, request.blocks * sizeof *sums, sums);
  if (status) return status;
  for (uint32_t i = 0; i < request.blocks; i++)
    sum += sums[i];
  bool same = job->left == job->right; /* then the samples are the same too */
  double pairs = static_cast<double>(left_sample) * static_cast<double>(same ? right_sample - 1 : right_sample);
  *mean = pairs > 0 ? sum / pairs : 0;
  return ADJ_OK;
}

static uint64_t bin_blocks(const adji_gpu *gpu, uint64_t right) {
  uint64_t most = static_cast<uint64_t>(gpu->multiprocessors) * BLOCKS_EACH, all = (right + THREADS - 1) / THREADS;
  return all < most ? all : most;
}

/* Limits the sample so that the counts of a block fit 32 bits. */
uint64_t adji_knn_grid_most_sample(const adji_gpu *gpu, uint64_t right) {
  uint64_t each = right / bin_blocks(gpu, right) + THREADS;
  return UINT32_MAX / each ? UINT32_MAX / each : 1;
}

adj_status adji_knn_grid_bin(adji_gpu *gpu, const adji_knn_job *job, uint64_t sample, double end, uint64_t bin_count,
                             uint64_t *bins) {
  sampling request = {};
  request.left_sample = sample;
  request.blocks = static_cast<uint32_t>(bin_blocks(gpu, job->right->points.count));
  request.end = end;
  request.bin_count = static_cast<uint32_t>(bin_count);
  return sample_distances(gpu, job, &request, bin_count * sizeof *bins, bins);
}
