/* SPDX-License-Identifier: MIT
 *
 * What a count keeps of what it finds, so that a fill only moves it: pieces of rows (adji_tiles_job in tiles.cuh).
 */
#ifndef ADJI_KEPT_CUH
#define ADJI_KEPT_CUH

#include "gpu/tiles.cuh"

typedef struct adji_gpu_kept {
  bool there;
  adj_type type;                /* of the sums                          */
  adji_block pieces, ids, sums; /* 32 entries a piece; sums may be none */
  uint64_t room, count;         /* pieces there are, and asked for      */
} adji_gpu_kept;

/* Room for so many pieces; none where that would take more than half of the memory that is left. */
adj_status adji_kept_make(adji_gpu *gpu, double room, adj_type type, bool sums, adji_gpu_kept *out);
void adji_kept_free(adji_gpu *gpu, adji_gpu_kept *kept);

/* Where the rows of a window go: entries of row r to ids + offsets[r] - window.base, and their sums unless NULL. */
typedef struct adji_kept_place {
  const uint64_t *offsets;
  adji_gpu_window window;
  uint32_t *ids;
  void *sums;
} adji_kept_place;

adj_status adji_kept_put(adji_gpu *gpu, const adji_gpu_kept *kept, const adji_kept_place *place);

#endif
