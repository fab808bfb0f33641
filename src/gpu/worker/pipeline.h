/* SPDX-License-Identifier: MIT
 *
 * Moves rows from a device to host memory, in order and window by window. While one window is computed, the one before
 * it is copied to the host, and the lanes put the entries that have arrived into place.
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
  uint32_t slots;        /* windows in flight */
  uint64_t slot_pairs;   /* entries that a slot holds */
  uint64_t buffer_bytes; /* most bytes of a piece */
  uint64_t filled;       /* windows that adji_pipe_begin has started */
} adji_pipe_job;

/* Starts the windows that the slots have room for, and returns without waiting. job->filled receives their number. */
adj_status adji_pipe_begin(adji_run *run, adji_pipe_job *job);

/* Fills the rows of job->to, and adds the statistics to the run. */
adj_status adji_pipe_run(adji_run *run, const adji_pipe_job *job);

#endif
