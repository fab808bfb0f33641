/* SPDX-License-Identifier: MIT
 *
 * kNN by brute force on a device: the choices, and the sizes of tiles. The engine reaches brute force through knn.h, as
 * it does trees. This file has no CUDA, so that tests of host code can use it.
 */
#ifndef ADJI_GPU_BRUTE_BRUTE_H
#define ADJI_GPU_BRUTE_BRUTE_H

#include <stdbool.h>
#include <stdint.h>

#include "gpu/select/select.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum adji_brute_method {
  ADJI_METHOD_AUTO,
  ADJI_METHOD_MATRIX, /* all sums in a matrix, then the k smallest of each row: any metric, type, dimension and k */
  ADJI_METHOD_TENSOR, /* prefilter: products in half precision on tensor cores */
  ADJI_METHOD_GEMM    /* prefilter: products by cuBLAS, selection from a matrix of them */
} adji_brute_method;

/* The kernel that fills the matrix. */
typedef enum adji_brute_distance {
  ADJI_DISTANCE_AUTO,
  ADJI_DISTANCE_NAIVE,    /* a thread per pair */
  ADJI_DISTANCE_TILED,    /* a thread per pair, coordinates in shared memory */
  ADJI_DISTANCE_REGISTER, /* 64 pairs per thread in registers (f64: 16): the default */
  ADJI_DISTANCE_FUSED     /* no matrix: one kernel that also selects, for few dimensions and small k */
} adji_brute_distance;

enum { ADJI_FUSED_MOST_DIM = 32, ADJI_FUSED_MOST_K = 64 };

/* Whether points are put in tree order, so that the tensor-core prefilter can skip tiles that are too far away. AUTO:
 * if enough tiles can be skipped. */
typedef enum adji_brute_skip { ADJI_SKIP_AUTO, ADJI_SKIP_ON, ADJI_SKIP_OFF } adji_brute_skip;

typedef struct adji_brute_choice {
  adji_brute_method method;
  adji_brute_distance distance;
  adji_select_algorithm select;
  uint64_t chunk; /* right points on the device at a time; 0: all, if there is memory */
  adji_brute_skip skip;
  adji_select_how how;
} adji_brute_choice;

/* ---- Sizes of tiles -------------------------------------------------------------------------- */

/* Rows of a matrix begin at multiples of ADJI_TILE_COLUMNS values. Tiles of queries are multiples of ADJI_TILE_ROWS,
 * except for the last. */
enum { ADJI_TILE_COLUMNS = 32, ADJI_TILE_ROWS = 128 };

/* A matrix of `rows` queries with `columns` right points; `stride` values from row to row. */
typedef struct adji_brute_tile {
  uint64_t rows, columns, stride;
} adji_brute_tile;

static inline uint64_t adji_rounded_up(uint64_t count, uint64_t to) {
  return (count + to - 1) / to * to;
}

/* The size of chunks that cut `count` into parts of up to `most`: as few as possible, about equal, multiples of `unit`
 * as far as that fits. */
static inline uint64_t adji_equal_chunks(uint64_t count, uint64_t most, uint64_t unit) {
  if (count <= most) return count;
  uint64_t chunks = (count + most - 1) / most, each = adji_rounded_up((count + chunks - 1) / chunks, unit);
  return each <= most ? each : most;
}

/* Chooses a tile. It has whole rows if enough of them fit into `values` to keep a block of threads busy, or if k is so
 * large a part of a row that lists of column ranges would be no smaller. Otherwise it has some queries and a range of
 * columns, with at most as many queries as there is room for lists. values: capacity, at least ADJI_TILE_COLUMNS. */
enum { ADJI_LARGE_PART = 64 };
static inline adji_brute_tile adji_brute_tile_of(uint64_t queries, uint64_t right, uint64_t k, uint64_t values) {
  uint64_t least = queries < ADJI_TILE_ROWS ? queries : ADJI_TILE_ROWS;
  adji_brute_tile tile = {queries, right, adji_rounded_up(right, ADJI_TILE_COLUMNS)};
  if (!queries || !right) return tile;
  uint64_t fit = values / tile.stride;
  if (fit >= least || (fit && k > right / ADJI_LARGE_PART)) {
    tile.rows = adji_equal_chunks(queries, fit, ADJI_TILE_ROWS);
    return tile;
  }
  uint64_t lists = values / k ? values / k : 1;
  tile.rows = values / ADJI_TILE_COLUMNS < least ? values / ADJI_TILE_COLUMNS : least;
  tile.rows = lists < tile.rows ? lists : tile.rows;
  uint64_t most = values / tile.rows / ADJI_TILE_COLUMNS * ADJI_TILE_COLUMNS;
  tile.columns = adji_equal_chunks(right, most, ADJI_TILE_COLUMNS);
  tile.stride = adji_rounded_up(tile.columns, ADJI_TILE_COLUMNS);
  return tile;
}

/* The number of values of a matrix, given the available bytes: up to 4 GiB or a quarter of these bytes, but at least
 * ADJI_LEAST_VALUES. adji_brute_fewer_values halves it after a failed allocation; false: it was already the least. */
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

/* Rows of a set that fit into `available` bytes: all of them, or as many as fit, but at least one. row: bytes per
 * row. */
static inline uint64_t adji_brute_rows_that_fit(uint64_t count, uint64_t row, uint64_t available) {
  uint64_t most = available / row;
  return count <= most ? count : most ? most : 1;
}

#ifdef __cplusplus
}
#endif
#endif
