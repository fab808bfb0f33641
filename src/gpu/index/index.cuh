/* SPDX-License-Identifier: MIT
 *
 * The grid's index on a device: the same cells, in the same order, as in the host's index (index/build.h).
 */
#ifndef ADJI_GPU_INDEX_INDEX_CUH
#define ADJI_GPU_INDEX_INDEX_CUH

#include "gpu/device/device.cuh"

extern "C" {
#include "gpu/index/index.h"
#include "index/grid.h"
#include "index/slab.h"
#include "queue/stats.h"
}

/* Hilbert's curve through a cube, which gives the order of points where there are no cells. Coordinates become
 * integers. */
enum { ADJI_CURVE_DIMS = 6 };
typedef struct adji_gpu_curve {
  uint32_t bits; /* of each dimension */
  double low[ADJI_CURVE_DIMS], scale;
} adji_gpu_curve;

static __device__ __forceinline__ uint64_t adji_gpu_slab(const adji_axis &axis, double x) {
  return adji_slab(x, axis.low, axis.inverse, axis.slabs, axis.breaks);
}

/* The combination of slabs of a row of cells: its number among the combinations of the first axes, and among those of
 * the rest. */
typedef struct adji_gpu_parts {
  uint16_t first, rest;
} adji_gpu_parts;

/* The most axes that are tested, without the last; half of them, rounded up, are first axes. Then the combinations of
 * slabs of each part. */
enum { ADJI_NEAR_AXES = 7, ADJI_NEAR_FIRST = 81, ADJI_NEAR_REST = 27 };

/* Used to skip rows of cells that are too far from a query, by all axes but the last, and to shorten the other rows
 * along the last axis. */
typedef struct adji_gpu_near {
  uint32_t axes; /* without the last; 0: nothing is skipped */
  uint32_t dim[ADJI_MAX_AXES];
  double low[ADJI_MAX_AXES], inverse[ADJI_MAX_AXES]; /* includes the last axis */
  float width[ADJI_MAX_AXES - 1];                    /* of a cell, rounded down */
  float limit;                                       /* of a sum of squares */
  float scale;                                       /* cells of the last axis per unit of length, rounded up */
  float last_slab;                                   /* of the last axis */
  uint32_t first_axes;                               /* axes of the first part */
  const adji_gpu_parts *parts;                       /* device, one per row */
} adji_gpu_near;

/* The reach of a row of cells that is too far away. */
#define ADJI_NO_REACH UINT32_MAX

typedef struct adji_gpu_grid {
  adji_axis axes[ADJI_MAX_AXES]; /* with their breaks on the device */
  uint32_t axis_count;
  uint32_t key_bits;
  uint64_t keys;       /* cell numbers are 0 .. keys - 1 */
  uint32_t reach;      /* of the last axis */
  uint64_t row_stride; /* cell numbers of a row along the last axis */
  uint32_t row_count;  /* rows of cells around a cell: 3^(axes - 1), or more if cells are narrower */
  adji_gpu_near near;
  const int64_t *row_steps;  /* device: row_count offsets, in rows of cells, ascending */
  const uint32_t *row_reach; /* device: per row, cells to each side, or ADJI_NO_REACH; NULL: `reach` for all */
  adji_block memory;         /* memory of all tables on the device */
} adji_gpu_grid;

/* limit: of the sum of squares in L2, 0 for other metrics. */
adj_status adji_gpu_grid_make(adji_gpu *gpu, const adji_grid *grid, double limit, adji_gpu_grid *out);
void adji_gpu_grid_clear(adji_gpu *gpu, adji_gpu_grid *grid);

/* With many axes most rows of cells are empty. A hash table then holds the rows that are not. */
typedef struct adji_gpu_row {
  uint64_t number;
  uint32_t begin, count; /* positions */
} adji_gpu_row;

#define ADJI_NO_ROW UINT64_MAX

static __device__ __forceinline__ uint64_t adji_row_hash(uint64_t row) {
  row *= UINT64_C(0x9e3779b97f4a7c15);
  return row ^ row >> 32;
}

/* How kernels find the positions of a range of cells. directory[b] is the first position of a cell whose number,
 * shifted right by `shift`, is at least b, for b = 0 .. (keys >> shift) + 1. If shift is not 0, the cell numbers of the
 * positions in a bucket are searched. If there are `rows`, there is no directory. */
typedef struct adji_gpu_cells {
  const uint32_t *directory;
  uint64_t keys;
  uint32_t shift;
  const adji_gpu_row *rows;
  uint64_t row_mask;            /* size of the table - 1 */
  const void *position_numbers; /* as in adji_gpu_index */
} adji_gpu_cells;

__host__ __device__ constexpr uint32_t adji_gpu_width(uint32_t dim) {
  return ADJI_GPU_WIDTH(dim);
}
__host__ __device__ constexpr bool adji_gpu_width_has_id(uint32_t dim) {
  return adji_gpu_width(dim) > dim;
}

/* Loads WIDTH values, 4 or 8 bytes or whole units of 16, in as few loads as possible. */
template <int WIDTH, class T>
static __device__ __forceinline__ void adji_gpu_load(const T *from, T *to) {
  constexpr int BYTES = WIDTH * sizeof(T);
  if (BYTES == 4) to[0] = __ldg(from);
  if (BYTES == 8) {
    uint2 two = __ldg(reinterpret_cast<const uint2 *>(from));
    memcpy(to, &two, sizeof two);
  }
#pragma unroll
  for (int i = 0; i < BYTES / 16; i++) {
    uint4 four = __ldg(reinterpret_cast<const uint4 *>(from) + i);
    memcpy(reinterpret_cast<char *>(to) + 16 * i, &four, sizeof four);
  }
}

/* An id that is stored as a coordinate. */
static __device__ __forceinline__ float adji_gpu_id_as(uint32_t id, float) {
  return __uint_as_float(id);
}
static __device__ __forceinline__ double adji_gpu_id_as(uint32_t id, double) {
  return __longlong_as_double(static_cast<long long>(id));
}
static __device__ __forceinline__ uint32_t adji_gpu_id(float x) {
  return __float_as_uint(x);
}
static __device__ __forceinline__ uint32_t adji_gpu_id(double x) {
  return static_cast<uint32_t>(__double_as_longlong(x));
}

/* Positions after the last one that may be read; they have no points. */
enum { ADJI_GPU_BEHIND = 8 };

typedef struct adji_gpu_index {
  uint64_t count; /* positions: points and their images */
  void *coords;   /* coordinate j of position p is at p * point_step + j * dim_step, in elements */
  uint64_t point_step, dim_step;
  uint32_t *ids;
  void *numbers; /* the cell number of each position: uint32_t up to 32 key bits, otherwise uint64_t */
  bool wide_numbers;
  bool images;
  uint64_t cell_count;
  adji_gpu_cells cells;
  adji_block coords_block, ids_block, numbers_block, directory_block, rows_block;
} adji_gpu_index;

typedef struct adji_gpu_index_options {
  const adji_gpu_curve *curve; /* sorts points along it; NULL: by cells */
  bool cut;                    /* cuts long runs of the curve in two: see index_cut.cu */
  bool images;                 /* points near the faces of a periodic box have images */
  bool cells;                  /* candidates are looked up in this index */
  bool sorted;                 /* the points of a cell ascend along dimension sort_dim, not by row; not with images */
  uint32_t sort_dim;
  const uint32_t *order; /* device: the order of rows within a cell; NULL: ascending. Not with images */
} adji_gpu_index_options;

/* Copies the points of a set to a block of device memory, packed by rows. */
adj_status adji_gpu_fetch_bytes(adji_gpu *gpu, const adj_dataset *set, adji_block *points, adji_gpu_rows *rows,
                                adji_device_stats *work);
/* Copies a host array to a new block of device memory; does nothing if `from` is NULL or the array is empty. what:
 * named in the message.
 */
adj_status adji_gpu_send_bytes(adji_gpu *gpu, const void *from, uint64_t bytes, const char *what, adji_block *to,
                               adji_device_stats *work);

/* Sorts rows into the order of the grid. Memory: see the header of index.cu. */
adj_status adji_gpu_index_build(adji_gpu *gpu, const adji_gpu_grid *grid, const adji_gpu_rows *rows,
                                const adji_gpu_index_options *options, adji_gpu_index *out);
void adji_gpu_index_clear(adji_gpu *gpu, adji_gpu_index *index);

#endif
