/* SPDX-License-Identifier: MIT
 *
 * What a count keeps of what it finds, so that a fill only moves it: pieces of rows, pairs of neighbours, or
 * stages or marks, which say what belongs (adji_tiles_job in tiles.cuh).
 */
#ifndef ADJI_KEPT_CUH
#define ADJI_KEPT_CUH

#include "gpu/tiles.cuh"

typedef enum adji_kept_form {
  ADJI_KEPT_NONE,
  ADJI_KEPT_PIECES,
  ADJI_KEPT_PAIRS,
  ADJI_KEPT_STAGES,
  ADJI_KEPT_MARKS
} adji_kept_form;

typedef struct adji_gpu_kept {
  adji_kept_form form;
  adj_type type;        /* of the sums                                                              */
  adji_block items;     /* adji_gpu_piece, adji_gpu_pair, the adji_gpu_stages of every position, or adji_gpu_marks */
  adji_block ids, sums; /* of pieces 32 entries each; sums may be none, pairs have ids in themselves; or the stages; or
                           queries without marks */
  uint64_t room, count; /* items there are, and asked for; marks: queries that have none              */
  adji_block cursors;   /* pairs: how many entries of each row are in place                          */
} adji_gpu_kept;

/* What is to be kept. */
typedef struct adji_kept_wish {
  adji_kept_form form;
  double room;   /* items                          */
  uint64_t rows; /* of the result                  */
  adj_type type; /* of sums, if they are kept too */
  bool sums;
} adji_kept_wish;

/* Makes room; none where that would take more than half of the memory that is left. */
adj_status adji_kept_make(adji_gpu *gpu, const adji_kept_wish *wish, adji_gpu_kept *out);
void adji_kept_free(adji_gpu *gpu, adji_gpu_kept *kept);

/* Where the rows of a window go: entries of row r to ids + offsets[r] - window.base, and their sums unless NULL. */
typedef struct adji_kept_place {
  const uint64_t *offsets;
  adji_gpu_window window;
  uint32_t *ids;
  void *sums;
  bool one_way; /* pairs are only of the row that comes first in them */
} adji_kept_place;

/* Pieces and pairs. Stages and marks are for the kernels that filled them. */
adj_status adji_kept_put(adji_gpu *gpu, const adji_gpu_kept *kept, const adji_kept_place *place);

#endif
