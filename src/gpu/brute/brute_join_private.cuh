/* SPDX-License-Identifier: MIT
 *
 * kNN joins by brute force on a device: what brute_join.cu and brute_join_method.cu share.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_JOIN_PRIVATE_CUH
#define ADJI_GPU_BRUTE_BRUTE_JOIN_PRIVATE_CUH

#include "gpu/brute/brute_join.cuh"
#include "gpu/brute/prefilter_tensor.cuh"

enum { ADJI_BRUTE_BUFFERS = 2 };

/* A set, and the part of it on the device. */
typedef struct adji_brute_side {
  const adj_dataset *set; /* on the host; on the device if rows are given */
  bool given;
  adji_gpu_rows rows;
  uint64_t count, row_bytes;
  uint64_t at_once;                      /* rows on the device at a time */
  adji_block points[ADJI_BRUTE_BUFFERS]; /* the first one holds all points if they fit */
} adji_brute_side;

struct adji_gpu_brute {
  adji_gpu *gpu;
  adji_join join;
  adji_measure measure;
  adji_brute_choice choice;
  adji_device_stats *work;
  adji_block box;
  adji_brute_side left, right;
  cudaEvent_t used[ADJI_BRUTE_BUFFERS]; /* recorded when the comparisons with a buffer of the right set are done */
  bool copied;                          /* `points` are copies of the right set, which is on the device as a whole */
  bool skip_fails;                      /* too few tiles can be skipped */
  /* Rows of queries that the prefilter failed, with points in tree order: searched when all others are done. */
  adji_block postponed;
  uint64_t postponed_count;
  adji_tensor_points points;
  adji_tensor_batch batch;
};

static inline bool adji_brute_is_whole(const adji_brute_side *s) {
  return s->at_once == s->count;
}

/* ---- brute_join_method.cu ---- */
/* Finds the rows of a job whose points are on the device. */
adj_status adji_brute_run(adji_gpu_brute *b, const adji_brute_job *job);
/* Whether points in tree order are worth a try for this many queries. */
bool adji_brute_may_skip(const adji_gpu_brute *b, uint64_t queries);

#endif
