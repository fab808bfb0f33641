/* SPDX-License-Identifier: MIT
 *
 * Rows from a device into host memory, in order and window by window: while one window is computed, the one before it
 * crosses to the host and the lanes put what has arrived into place.
 */
#ifndef ADJI_GPU_WORKER_PIPELINE_H
#define ADJI_GPU_WORKER_PIPELINE_H

#include "gpu/range/range.h"
#include "queue/run.h"

typedef struct adji_pipe_job {
  adji_gpu *gpu;
  adji_gpu_range *range; /* which has counted, and has its slots */
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
