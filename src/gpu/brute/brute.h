/* SPDX-License-Identifier: MIT
 *
 * kNN by brute force on a device: what can be chosen, and how large its pieces are. The engine reaches it through
 * knn.h, as it does trees. No CUDA here, so that tests of host code can have it.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_H
#define ADJI_GPU_BRUTE_BRUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/select/select.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum adji_brute_way {
  ADJI_WAY_AUTO,
  ADJI_WAY_MATRIX, /* sums to a matrix in memory, the k smallest of its rows: any metric, type, dimension and k */
  ADJI_WAY_TENSOR, /* products in half precision as a filter                                                    */
  ADJI_WAY_GEMM    /* products by cuBLAS as a filter, selection from a matrix of them                           */
} adji_brute_way;

/* The kernel that fills the matrix. */
typedef enum adji_brute_distance {
  ADJI_DISTANCE_AUTO,
  ADJI_DISTANCE_NAIVE,   /* a thread a pair                                           */
  ADJI_DISTANCE_TILED,   /* the same, coordinates in shared memory                    */
  ADJI_DISTANCE_REGISTER /* a thread has 64 pairs in registers (f64: 16): the default */
} adji_brute_distance;

typedef struct adji_brute_choice {
  adji_brute_way way;
  adji_brute_distance distance;
  adji_select_algorithm select;
  uint64_t chunk; /* points of the right set on the device at a time; 0: all, where there is room for them */
} adji_brute_choice;

/* ---- Pieces ------------------------------------------------------------------------------------------ */

/* Values of a matrix begin a row at multiples of this, and tiles of queries are multiples of that, but for the last. */
enum { ADJI_TILE_COLUMNS = 32, ADJI_TILE_ROWS = 128 };

/* A matrix of `rows` queries with `columns` right points, `stride` values from row to row. */
typedef struct adji_brute_tile {
  uint64_t rows, columns, stride;
} adji_brute_tile;

static inline uint64_t adji_rounded_up(uint64_t count, uint64_t to) {
  return (count + to - 1) / to * to;
}

/* `count` in pieces of up to `most`, multiples of `unit` as far as that fits: as few as can be, and about equal. */
static inline uint64_t adji_equal_pieces(uint64_t count, uint64_t most, uint64_t unit) {
  if (count <= most) return count;
  uint64_t pieces = (count + most - 1) / most, each = adji_rounded_up((count + pieces - 1) / pieces, unit);
  return each <= most ? each : most;
}

/* Whole rows where so many fit `values` that a block of threads is busy, or where k is so large a part of them that
 * lists of stretches would be no smaller; otherwise some queries with a stretch of the right set, and no more of them
 * than have room for their lists too. values: room, at least ADJI_TILE_COLUMNS. */
enum { ADJI_LARGE_PART = 64 };
static inline adji_brute_tile adji_brute_tile_of(uint64_t queries, uint64_t right, uint64_t k, uint64_t values) {
  uint64_t least = queries < ADJI_TILE_ROWS ? queries : ADJI_TILE_ROWS;
  adji_brute_tile tile = {queries, right, adji_rounded_up(right, ADJI_TILE_COLUMNS)};
  if (!queries || !right) return tile;
  uint64_t fit = values / tile.stride;
  if (fit >= least || (fit && k > right / ADJI_LARGE_PART)) {
    tile.rows = adji_equal_pieces(queries, fit, ADJI_TILE_ROWS);
    return tile;
  }
  uint64_t lists = values / k ? values / k : 1;
  tile.rows = values / ADJI_TILE_COLUMNS < least ? values / ADJI_TILE_COLUMNS : least;
  tile.rows = lists < tile.rows ? lists : tile.rows;
  uint64_t most = values / tile.rows / ADJI_TILE_COLUMNS * ADJI_TILE_COLUMNS;
  tile.columns = adji_equal_pieces(right, most, ADJI_TILE_COLUMNS);
  tile.stride = adji_rounded_up(tile.columns, ADJI_TILE_COLUMNS);
  return tile;
}

/* Values of a matrix, for which there are so many bytes: up to 4 GiB or a quarter of them, but so many at least. And,
 * where there was no memory for it, half as many; false: it was the least. */
enum { ADJI_LEAST_VALUES = 1 << 12 };
static inline uint64_t adji_brute_values(uint64_t bytes, uint64_t size) {
  uint64_t most = UINT64_C(4) << 30, values = (bytes / 4 < most ? bytes / 4 : most) / size;
  return values > ADJI_LEAST_VALUES ? values : ADJI_LEAST_VALUES;
}
static inline bool adji_brute_fewer_values(uint64_t *values) {
  if (*values <= ADJI_LEAST_VALUES) return false;
  *values = *values / 2 > ADJI_LEAST_VALUES ? *values / 2 : ADJI_LEAST_VALUES;
  return true;
}

/* Rows of a set that fit `room` bytes: all of them, or as many as there is room for, but one at least. row: bytes. */
static inline uint64_t adji_brute_rows_that_fit(uint64_t count, uint64_t row, uint64_t room) {
  uint64_t most = room / row;
  return count <= most ? count : most ? most : 1;
}

#ifdef __cplusplus
}
#endif
#endif
