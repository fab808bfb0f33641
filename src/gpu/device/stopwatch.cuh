/* SPDX-License-Identifier: MIT
 *
 * The seconds that a device spends on stretches of a stream, read without waiting for it: an event at either end of a
 * stretch, looked at when both have passed.
 */
#ifndef ADJI_GPU_DEVICE_STOPWATCH_CUH
#define ADJI_GPU_DEVICE_STOPWATCH_CUH

#include "gpu/device/device.cuh"

/* More than there are stretches under way: those of batches in flight. */
enum { ADJI_LAPS = 32 };

/* Zeroed before it is first used. */
typedef struct adji_stopwatch {
  cudaEvent_t begins[ADJI_LAPS], ends[ADJI_LAPS];
  uint64_t first, next; /* laps first .. next - 1 were not added up yet; lap i has events i % ADJI_LAPS */
  double seconds;
} adji_stopwatch;

adj_status adji_stopwatch_start(adji_gpu *gpu, cudaStream_t stream, adji_stopwatch *watch);
adj_status adji_stopwatch_stop(adji_gpu *gpu, cudaStream_t stream, adji_stopwatch *watch);
/* Of the stretches that are over. */
double adji_stopwatch_read(adji_stopwatch *watch);
void adji_stopwatch_clear(adji_stopwatch *watch);

#endif
