/* SPDX-License-Identifier: MIT
 *
 * Lists of the best neighbours so far, in device memory: k entries per row, nearest first; ADJ_NO_ID and infinity after
 * the last.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_LISTS_CUH
#define ADJI_GPU_BRUTE_BRUTE_LISTS_CUH

#include "gpu/brute/brute.cuh"

typedef struct adji_brute_lists {
  uint32_t *ids;
  void *sums;
} adji_brute_lists;

/* The memory of the lists of some rows. */
typedef struct adji_brute_list_memory {
  adji_block ids, sums;
} adji_brute_list_memory;
adj_status adji_brute_lists_get(adji_gpu *gpu, adj_type type, uint64_t entries, adji_brute_list_memory *out);
void adji_brute_lists_free(adji_gpu *gpu, adji_brute_list_memory *memory);
static inline adji_brute_lists adji_brute_lists_in(const adji_brute_list_memory &memory) {
  return adji_brute_lists{adji_at<uint32_t>(memory.ids), memory.sums.at};
}

/* Turns what a selection found in rows of a matrix into lists: columns become ids, starting at first; NaN, which no
 * neighbour has, becomes padding. In place if to equals from and numbers is NULL. */
typedef struct adji_brute_finish {
  adj_type type;
  uint64_t rows;
  uint32_t k, first;
  bool root;               /* report distances instead of squares */
  const uint32_t *numbers; /* row i goes to row numbers[i] - first_row of to; NULL: to row i */
  uint64_t first_row;
  adji_brute_lists from, to; /* device */
} adji_brute_finish;
adj_status adji_brute_finish_lists(adji_gpu *gpu, const adji_brute_finish *job);

/* Merges two lists of the same rows, without common ids, into the k nearest of both, in other memory. */
typedef struct adji_brute_merge {
  adj_type type;
  uint64_t rows;
  uint32_t k;
  adji_brute_lists a, b, to; /* device */
} adji_brute_merge;
adj_status adji_brute_merge_lists(adji_gpu *gpu, const adji_brute_merge &job);

/* The running best of one column range of the right set after the other. */
typedef struct adji_brute_running {
  adj_type type;
  uint64_t rows;
  uint32_t k;
  bool started;                     /* there is a best */
  adji_brute_list_memory memory[3]; /* the best so far, those of a column range, both merged */
  adji_brute_lists best, more, both;
} adji_brute_running;
/* several: there is more than one column range. On failure some buffers may be missing; free takes either. */
adj_status adji_brute_running_get(adji_gpu *gpu, adj_type type, uint64_t rows, uint32_t k, bool several,
                                  adji_brute_running *out);
void adji_brute_running_free(adji_gpu *gpu, adji_brute_running *s);
/* Where the selection from the next column range goes, as columns. */
static inline adji_brute_lists adji_brute_running_next(const adji_brute_running *s) {
  return s->started ? s->more : s->best;
}
/* Adds the column range just selected; its columns begin with id `first`. */
adj_status adji_brute_running_add(adji_gpu *gpu, adji_brute_running *s, uint64_t first);

#endif
