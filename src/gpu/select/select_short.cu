/* SPDX-License-Identifier: MIT
 *
 * Selection from short rows: shapes and launches of select_short.cuh.
 */
#include "gpu/select/select_short.cuh"

#include "gpu/select/select.cuh"

namespace {

/* Threads per row: each has 32 values or more, and many rows are done at once. A warp has no barriers to wait at, but
 * takes long if much is selected. */
uint32_t threads_of(uint32_t columns, uint32_t k) {
  if (k <= MOST_BY_GROUPS && columns <= 2048) return 32;
  return columns <= (k <= MOST_BY_GROUPS ? 4096 : 2048) ? 128 : 256;
}

/* Capacity for half as many keys again as requested if groups give the bound, a quarter if digits do. Bins such that
 * add_up has four per thread, and, if much is selected, a digit of 11 bits. */
template <class T>
short_layout<T> layout_of(uint32_t columns, uint32_t k) {
  uint32_t capacity = k + k / (k <= MOST_BY_GROUPS ? 2 : 4) + BUCKET_MOST, threads = threads_of(columns, k);
  uint32_t log_bins = k > MOST_BY_GROUPS ? 11 : threads == 32 ? 8 : threads == 128 ? 9 : 10;
  return short_layout<T>{columns, capacity + capacity % 2, log_bins};
}

template <class T, int THREADS>
adj_status launch_short(adji_gpu *gpu, const selection<T> &s, const short_layout<T> &layout) {
  int blocks = 0, bytes = static_cast<int>(layout.bytes());
  ADJI_ALLOW_SHARED(gpu, select_short<T, THREADS>);
  ADJI_CUDA(gpu, cudaFuncSetAttribute(select_short<T, THREADS>, cudaFuncAttributePreferredSharedMemoryCarveout,
                                      cudaSharedmemCarveoutMaxShared));
  ADJI_CUDA(gpu, cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, select_short<T, THREADS>, THREADS,
                                                               static_cast<size_t>(bytes)));
  uint32_t most = static_cast<uint32_t>(gpu->multiprocessors) * static_cast<uint32_t>(blocks < 1 ? 1 : blocks);
  uint32_t grid = s.rows < most ? s.rows : most;
  select_short<T, THREADS><<<grid, THREADS, layout.bytes(), gpu->compute>>>(s, layout);
  ADJI_LAUNCHED(gpu, "select_short");
  return ADJ_OK;
}

template <class T>
adj_status select_rows(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k) {
  uint32_t columns = static_cast<uint32_t>(job->columns), threads = threads_of(columns, job->k);
  short_layout<T> layout = layout_of<T>(columns, job->k);
  const uint64_t at_once = 1 << 30;
  for (uint64_t first = 0; first < job->rows; first += at_once) {
    uint64_t here = job->rows - first < at_once ? job->rows - first : at_once;
    selection<T> s = selection_of<T>(job, out_k, first, here);
    adj_status status = threads == 32    ? launch_short<T, 32>(gpu, s, layout)
                        : threads == 128 ? launch_short<T, 128>(gpu, s, layout)
                                         : launch_short<T, 256>(gpu, s, layout);
    if (status) return status;
  }
  return ADJ_OK;
}

}  // namespace

adj_status adji_select_short(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k) {
  return job->type == ADJ_F64 ? select_rows<double>(gpu, job, out_k) : select_rows<float>(gpu, job, out_k);
}

adj_status adji_select_short_fits(adji_gpu *gpu, const adji_gpu_select *job, uint32_t blocks, bool *out) {
  *out = false;
  if (job->k > ADJI_SELECT_MOST || job->columns > 1 << LOG_MOST_COLUMNS) return ADJ_OK;
  uint32_t columns = static_cast<uint32_t>(job->columns);
  uint32_t bytes =
      job->type == ADJ_F64 ? layout_of<double>(columns, job->k).bytes() : layout_of<float>(columns, job->k).bytes();
  int of_block = gpu->block_shared_bytes, of_all = 0;
  ADJI_CUDA(gpu, cudaDeviceGetAttribute(&of_all, cudaDevAttrMaxSharedMemoryPerMultiprocessor, gpu->device));
  *out = bytes <= static_cast<uint32_t>(of_block) && blocks * (bytes + 1024) <= static_cast<uint32_t>(of_all);
  return ADJ_OK;
}
