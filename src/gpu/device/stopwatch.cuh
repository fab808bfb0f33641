/* SPDX-License-Identifier: MIT
 *
 * Measures how long a device spends on sections of a stream, without waiting for it. An event marks each end of a
 * section; both are read once they have passed.
 */
#ifndef ADJI_GPU_DEVICE_STOPWATCH_CUH
#define ADJI_GPU_DEVICE_STOPWATCH_CUH

#include "gpu/device/device.cuh"

/* More than the usual number of sections in progress, which is that of batches in flight. */
enum { ADJI_LAPS = 32 };

/* Zero it before the first use. */
typedef struct adji_stopwatch {
  cudaEvent_t begins[ADJI_LAPS], ends[ADJI_LAPS];
  uint64_t first, next; /* laps first .. next - 1 are not added up yet; lap i has events i % ADJI_LAPS */
  double seconds;
} adji_stopwatch;

adj_status adji_stopwatch_start(adji_gpu *gpu, cudaStream_t stream, adji_stopwatch *watch);
adj_status adji_stopwatch_stop(adji_gpu *gpu, cudaStream_t stream, adji_stopwatch *watch);
/* Seconds of the sections that have ended. */
double adji_stopwatch_read(adji_stopwatch *watch);
void adji_stopwatch_clear(adji_stopwatch *watch);

#endif
