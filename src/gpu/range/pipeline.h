/* SPDX-License-Identifier: MIT
 *
 * Moves rows from a device to host memory, window by window. While the device computes one window, the window before
 * it is copied to the host, and the lanes put what has arrived into place. Host code that knows a device only through
 * a table of functions, so that tests can replace it.
 */
#ifndef ADJI_GPU_RANGE_PIPELINE_H
#define ADJI_GPU_RANGE_PIPELINE_H

#include "gpu/range/range.h"

/* The operations of a device that the pipeline needs: see gpu/range/range.h and gpu/device/staging.h. */
typedef struct adji_pipe_device {
  void *state;
  adj_status (*fill)(void *state, const adji_gpu_window *window, uint32_t slot);
  adj_status (*fetch)(void *state, uint32_t slot, adji_gpu_part part, uint64_t first, uint64_t entries,
                      uint32_t buffer);
  adj_status (*release)(void *state, uint32_t slot);
  adj_status (*wait)(void *state, uint32_t buffer);
  const void *(*buffer)(void *state, uint32_t buffer); /* one per lane */
} adji_pipe_device;

typedef struct adji_pipe_job {
  const adji_pipe_device *device;
  const adji_row_style *style;
  const adji_window *to;
  uint32_t slots;        /* windows in flight */
  uint64_t slot_pairs;   /* entries of a slot */
  uint64_t buffer_bytes; /* the most of a piece */
} adji_pipe_job;

/* Fills the rows of job->to, and adds its statistics to the run. */
adj_status adji_pipe_run(adji_run *run, const adji_pipe_job *job);

#endif
