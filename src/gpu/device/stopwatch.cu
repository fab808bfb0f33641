/* SPDX-License-Identifier: MIT
 *
 * The stopwatch: events in a ring.
 */
#include "gpu/device/stopwatch.cuh"

adj_status adji_stopwatch_start(adji_gpu *gpu, cudaStream_t stream, adji_stopwatch *watch) {
  adji_stopwatch_read(watch);
  uint64_t lap = watch->next % ADJI_LAPS;
  if (watch->next - watch->first == ADJI_LAPS) { /* many small batches are in flight, so this wait is short */
    ADJI_CUDA(gpu, cudaEventSynchronize(watch->ends[lap]));
    adji_stopwatch_read(watch);
  }
  for (cudaEvent_t *event : {&watch->begins[lap], &watch->ends[lap]})
    if (!*event) ADJI_CUDA(gpu, cudaEventCreate(event));
  ADJI_CUDA(gpu, cudaEventRecord(watch->begins[lap], stream));
  return ADJ_OK;
}

adj_status adji_stopwatch_stop(adji_gpu *gpu, cudaStream_t stream, adji_stopwatch *watch) {
  ADJI_CUDA(gpu, cudaEventRecord(watch->ends[watch->next % ADJI_LAPS], stream));
  watch->next++;
  return ADJ_OK;
}

double adji_stopwatch_read(adji_stopwatch *watch) {
  for (; watch->first < watch->next; watch->first++) {
    uint64_t lap = watch->first % ADJI_LAPS;
    float ms = 0;
    /* The query comes first: a lap that has not ended is no failure, but checking tools report it as one if its time is
     * read. */
    if (cudaEventQuery(watch->ends[lap]) != cudaSuccess ||
        cudaEventElapsedTime(&ms, watch->begins[lap], watch->ends[lap]) != cudaSuccess) {
      cudaGetLastError();
      break;
    }
    watch->seconds += static_cast<double>(ms) * 1e-3;
  }
  return watch->seconds;
}

void adji_stopwatch_clear(adji_stopwatch *watch) {
  for (int i = 0; i < ADJI_LAPS; i++) {
    if (watch->begins[i]) cudaEventDestroy(watch->begins[i]);
    if (watch->ends[i]) cudaEventDestroy(watch->ends[i]);
  }
  *watch = adji_stopwatch{};
}
