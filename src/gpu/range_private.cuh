/* SPDX-License-Identifier: MIT
 *
 * A range join on a device: what range_list.cu needs of range.cu.
 */
#ifndef ADJI_RANGE_PRIVATE_CUH
#define ADJI_RANGE_PRIVATE_CUH

#include "gpu/tiles.cuh"

extern "C" {
#include "gpu/range.h"
}

typedef struct adji_range_parts {
  adji_gpu *gpu;
  const adji_join *join;
  const adji_gpu_index *left;
  uint64_t rows;     /* of the result             */
  uint32_t *degrees; /* device: rows + 1 of them  */
  uint64_t *offsets; /* the same                  */
  bool sums;         /* rows are found with them  */
  adji_device_work *work;
} adji_range_parts;
adji_range_parts adji_gpu_range_parts(adji_gpu_range *range);

/* A job for all queries, with nothing said of what it counts or fills; and the kernels that do it. */
adji_tiles_job adji_gpu_range_job(const adji_gpu_range *range);
adj_status adji_gpu_range_compare(adji_gpu_range *range, const adji_tiles_job *job);

#endif
