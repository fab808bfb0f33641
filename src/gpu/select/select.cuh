/* SPDX-License-Identifier: MIT
 *
 * Selection: the algorithms that select.cu calls. 1 <= k <= columns; out_k: entries per row of the answer.
 */
#ifndef ADJI_GPU_SELECT_SELECT_CUH
#define ADJI_GPU_SELECT_SELECT_CUH

#include "gpu/device/device.cuh"
#include "gpu/select/select.h"

/* algorithm is ADJI_SELECT_BLOCK_BITS or _BLOCK_BITONIC. */
adj_status adji_select_block_bits(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k);

/* algorithm is ADJI_SELECT_RADIX, _SAMPLE, _SORT, _BLOCK_RADIX, _BLOCK_SAMPLE or _STREAM_SORT. */
adj_status adji_select_large(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k);

/* Rows that fit shared memory. */
adj_status adji_select_short(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k);

/* Whether rows fit, `blocks` of them at a time on each multiprocessor. */
adj_status adji_select_short_fits(adji_gpu *gpu, const adji_gpu_select *job, uint32_t blocks, bool *out);

/* ---- Long rows ------------------------------------------------------------------------------- */

enum {
  ADJI_SAMPLE_GROUPS = 256, /* see select_bound.cuh */
  ADJI_PART_READS = 4096,   /* reads of a part of a sample that a block has in flight */
  ADJI_SCAN_UNIT = 1024     /* vectors that a block of the pass reads at once */
};

struct adji_sampling {
  uint32_t log_size; /* 2^log_size values of a row: at least GROUPS, at most its length; log_size <= 31 */
  uint32_t log_run;  /* in runs of 2^log_run */
  uint32_t rank;     /* 1 .. ADJI_SAMPLE_GROUPS */
  uint32_t parts;    /* blocks that share a row: a power of two */
};

/* A sample, and the expected number of keys up to its bound. */
struct adji_sample_plan {
  adji_sampling how;
  double expected;
};

struct adji_select_plan {
  bool few;               /* several blocks share the sample of a row, and its bound is safe from the start */
  adji_sample_plan first; /* in runs of one access; few: each run in one group */
  adji_sample_plan again; /* of single values, for rows whose first bound failed */
  uint32_t capacity;      /* keys per row */
  uint32_t length;        /* vectors per segment */
  uint32_t segments;
};

/* algorithm is ADJI_SELECT_BOUND, for which there is a plan, or _BITS or _BITONIC, with a plan of zeros. One file per
 * type, so that they compile side by side. */
adj_status adji_select_long_f32(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k,
                                const adji_select_plan *plan);
adj_status adji_select_long_f64(adji_gpu *gpu, const adji_gpu_select *job, uint64_t out_k,
                                const adji_select_plan *plan);

#endif
