/* SPDX-License-Identifier: MIT
 *
 * Lists of the nearest so far, in device memory: k entries a row, nearest first, ADJ_NO_ID and infinity behind the
 * last.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_LISTS_CUH
#define ADJI_GPU_BRUTE_BRUTE_LISTS_CUH

#include "gpu/brute/brute.cuh"

typedef struct adji_brute_lists {
  uint32_t *ids;
  void *sums;
} adji_brute_lists;

/* Room for the lists of some rows. */
typedef struct adji_brute_list_room {
  adji_block ids, sums;
} adji_brute_list_room;
adj_status adji_brute_lists_get(adji_gpu *gpu, adj_type type, uint64_t entries, adji_brute_list_room *out);
void adji_brute_lists_free(adji_gpu *gpu, adji_brute_list_room *room);
static inline adji_brute_lists adji_brute_lists_in(const adji_brute_list_room &room) {
  return adji_brute_lists{adji_at<uint32_t>(room.ids), room.sums.at};
}

/* What a selection found in rows of a matrix becomes lists: columns become ids, which begin at first; a NaN, which no
 * neighbour has, becomes the end of its row. In place where to is from and there are no numbers. */
typedef struct adji_brute_finish {
  adj_type type;
  uint64_t rows;
  uint32_t k, first;
  bool root;               /* distances are wanted instead of squares */
  const uint32_t *numbers; /* row i goes to row numbers[i] - first_row of to; NULL: to row i */
  uint64_t first_row;
  adji_brute_lists from, to; /* device */
} adji_brute_finish;
adj_status adji_brute_finish_lists(adji_gpu *gpu, const adji_brute_finish *job);

/* The k nearest of two lists each of the same rows, which have no id in common, to other memory. */
adj_status adji_brute_merge_lists(adji_gpu *gpu, adj_type type, uint64_t rows, uint32_t k, const adji_brute_lists &a,
                                  const adji_brute_lists &b, const adji_brute_lists &to);

/* The lists of one stretch of the right set after the other become the best of all of them. */
typedef struct adji_brute_stretches {
  adj_type type;
  uint64_t rows;
  uint32_t k;
  bool begun;                    /* there is a best                                     */
  adji_brute_list_room rooms[3]; /* the best so far, those of a stretch, both together  */
  adji_brute_lists best, more, both;
} adji_brute_stretches;
/* several: there is more than one stretch. Its rooms are there or not: free takes either. */
adj_status adji_brute_stretches_get(adji_gpu *gpu, adj_type type, uint64_t rows, uint32_t k, bool several,
                                    adji_brute_stretches *out);
void adji_brute_stretches_free(adji_gpu *gpu, adji_brute_stretches *s);
/* Where the selection from the next stretch goes, as columns. */
static inline adji_brute_lists adji_brute_stretches_next(const adji_brute_stretches *s) {
  return s->begun ? s->more : s->best;
}
/* It is there: its columns begin with the id `first`. */
adj_status adji_brute_stretches_add(adji_gpu *gpu, adji_brute_stretches *s, uint64_t first);

#endif
