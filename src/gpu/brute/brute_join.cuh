/* SPDX-License-Identifier: MIT
 *
 * kNN joins by brute force on a device: points, and rows of the result.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_JOIN_CUH
#define ADJI_GPU_BRUTE_BRUTE_JOIN_CUH

#include "gpu/device/device.cuh"

extern "C" {
#include "gpu/brute/brute.h"
#include "queue/join.h"
#include "queue/stats.h"
}

typedef struct adji_gpu_brute adji_gpu_brute;

/* Rows in device memory are used in place if they are packed. join and measure must outlive the object. Copies are
 * added to work. */
typedef struct adji_gpu_brute_options {
  const adji_join *join;
  const adji_measure *measure;
  const adji_gpu_rows *left_rows, *right_rows; /* NULL: the points of the join's sets are copied to the device */
  adji_brute_choice choice;
  adji_device_stats *work;
} adji_gpu_brute_options;

adj_status adji_gpu_brute_open(adji_gpu *gpu, const adji_gpu_brute_options *options, adji_gpu_brute **out);
void adji_gpu_brute_close(adji_gpu_brute *brute);

/* Right points on the device at a time; 0: all of them. */
uint64_t adji_gpu_brute_chunk(const adji_gpu_brute *brute);

/* The most rows of the result to request at a time. */
uint64_t adji_gpu_brute_most_rows(const adji_gpu_brute *brute);

/* Finds rows first_row .. first_row + rows - 1, k entries each, as distances. Returns before the rows are complete,
 * unless the right set goes through the device in chunks. */
adj_status adji_gpu_brute_search(adji_gpu_brute *brute, uint64_t first_row, uint64_t rows, uint32_t *ids,
                                 void *distances);

#endif
