/* SPDX-License-Identifier: MIT
 *
 * Single evaluation: the pairs that cores found, to a device that makes the rows of the result.
 */
#ifndef ADJI_GPU_WORKER_RANGE_ADD_H
#define ADJI_GPU_WORKER_RANGE_ADD_H

#include "gpu/range/range.h"
#include "queue/worker.h"

/* ADJ_E_DEVICE_MEMORY: there is no room for them, and nothing was sent. */
adj_status adji_gpu_range_send_found(adji_gpu *gpu, adji_gpu_range *range, const adji_join *join, adji_run *run,
                                     const adji_found *found);

#endif
