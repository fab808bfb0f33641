/* SPDX-License-Identifier: MIT
 *
 * Rows from a device into host memory, in order and window by window: while one window is computed, the one before it
 * crosses to the host and the lanes put what has arrived into place. It knows a device only through a table of
 * functions, so that tests can use another.
 */
#ifndef ADJI_GPU_WORKER_PIPELINE_H
#define ADJI_GPU_WORKER_PIPELINE_H

#include "gpu/range/range.h"
#include "queue/run.h"

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
  uint32_t slots;        /* windows in flight         */
  uint64_t slot_pairs;   /* entries a slot holds      */
  uint64_t buffer_bytes; /* of a piece, at most       */
  uint64_t filled;       /* windows that adji_pipe_begin has begun */
} adji_pipe_job;

/* Begins the windows that the slots have room for, and returns: job->filled of them. */
adj_status adji_pipe_begin(adji_run *run, adji_pipe_job *job);

/* Fills the rows of job->to. Adds to the run what was done. */
adj_status adji_pipe_run(adji_run *run, const adji_pipe_job *job);

#endif
