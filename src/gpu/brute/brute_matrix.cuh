/* SPDX-License-Identifier: MIT
 *
 * A matrix of values of queries with right points, tile by tile, and lists of the best neighbours so far, in device
 * memory: k entries per row, nearest first; ADJ_NO_ID and infinity after the last. Also the matrix method, whose values
 * are the canonical sums.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_MATRIX_CUH
#define ADJI_GPU_BRUTE_BRUTE_MATRIX_CUH

#include "gpu/brute/brute.cuh"

typedef struct adji_brute_lists {
  uint32_t *ids;
  void *sums;
} adji_brute_lists;

/* The shape of lists: k entries for each row. */
typedef struct adji_brute_shape {
  adj_type type;
  uint64_t rows;
  uint32_t k;
} adji_brute_shape;

/* Turns the selected columns of each row of a matrix into lists. Columns become ids, starting at `first`; NaN, which no
 * neighbour has, becomes padding. Works in place if `to` equals `from` and numbers is NULL. */
typedef struct adji_brute_finish : adji_brute_shape {
  uint32_t first;
  bool root;               /* report distances instead of squares */
  const uint32_t *numbers; /* row i goes to row numbers[i] - first_row of to; NULL: to row i */
  uint64_t first_row;
  adji_brute_lists from, to; /* device */
} adji_brute_finish;
adj_status adji_brute_finish_lists(adji_gpu *gpu, const adji_brute_finish *job);

/* The best neighbours so far, while the column ranges of the right set are searched one after the other. */
typedef struct adji_brute_running : adji_brute_shape {
  bool started;               /* `best` has entries */
  adji_block ids[3], sums[3]; /* the best so far, the lists of a column range, both merged */
  adji_brute_lists best, more, both;
} adji_brute_running;
/* best: memory for the best so far; NULL: it is allocated. several: there is more than one column range. On failure
 * some buffers may be missing; free takes either. */
adj_status adji_brute_running_get(adji_gpu *gpu, adji_brute_running *s, const adji_brute_lists *best, bool several);
void adji_brute_running_free(adji_gpu *gpu, adji_brute_running *s);
/* Where the lists of the next column range go. */
static inline adji_brute_lists adji_brute_running_next(const adji_brute_running *s) {
  return s->started ? s->more : s->best;
}
/* Adds the lists of that range; add_columns does the same for a selection, whose column 0 has id `first`. */
adj_status adji_brute_running_add(adji_gpu *gpu, adji_brute_running *s);
adj_status adji_brute_running_add_columns(adji_gpu *gpu, adji_brute_running *s, uint64_t first);

/* A tile: a matrix with the values of some queries with right points. The k smallest of each row are listed. */
typedef struct adji_brute_work {
  adji_gpu *gpu;
  const adji_brute_job *job;
  const adji_brute_choice *choice;
  uint32_t k;
  adji_brute_tile tile;
  uint64_t first; /* the tile has the job's queries from number `first` on */
  adji_block matrix;
  adji_brute_running lists;
} adji_brute_work;
/* Lists the k smallest of each row of the matrix, which has this many columns. */
adj_status adji_brute_select(const adji_brute_work *w, uint64_t columns, const adji_brute_lists &to);

/* Searches all queries of a job, tile by tile. all: the fields that are the same for all tiles. The matrix is made
 * smaller if there is no memory for it, or for the needs of search(). */
enum { ADJI_MOST_TILE_ROWS = 1 << 20 }; /* grids and cuBLAS use int */
template <class W>
static adj_status adji_brute_search_tiles(const W &all, adj_status (*search)(W *)) {
  const adji_brute_job *job = all.job;
  uint64_t size = adji_type_size(job->type), values = adji_brute_values(adji_gpu_available(all.gpu), size);
  for (uint64_t first = 0; first < job->queries;) {
    W w = all;
    uint64_t remaining = job->queries - first, most = ADJI_MOST_TILE_ROWS;
    w.first = first;
    w.tile = adji_brute_tile_of(remaining < most ? remaining : most, job->right_count, w.k, values);
    static_cast<adji_brute_shape &>(w.lists) = adji_brute_shape{job->type, w.tile.rows, w.k};
    adj_status status =
        adji_block_get(w.gpu, w.gpu->compute, w.tile.stride * w.tile.rows * size, "matrix of distances", &w.matrix);
    if (!status) status = search(&w);
    adji_block_free(w.gpu, w.gpu->compute, &w.matrix);
    adji_brute_running_free(w.gpu, &w.lists);
    if (status == ADJ_E_DEVICE_MEMORY && adji_brute_fewer_values(&values)) continue;
    if (status) return status;
    first += w.tile.rows;
  }
  return ADJ_OK;
}

/* The matrix method. Runs in the order of the compute stream. */
adj_status adji_brute_matrix(adji_gpu *gpu, const adji_brute_job *job, const adji_brute_choice *choice);

#endif
