/* SPDX-License-Identifier: MIT
 *
 * One dataset of an HDF5 file as rows of numbers: finding it, its shape, the memory that reading takes, and its rows.
 * Used by the process that wants the points, or by a helper process for it (hdf5_helper.h).
 */
#ifndef ADJI_HDF5_TABLE_H
#define ADJI_HDF5_TABLE_H

#include "io/hdf5_library.h"
#include "io/read_table.h"

typedef struct adji_hdf5_input {
  const char *path; /* NULL: the bytes below, which the library copies twice */
  const void *bytes;
  uint64_t size;
  const char *dataset; /* NULL: the only one in two dimensions */
  bool allow_external; /* also read data in other files */
  uint64_t memory;     /* available memory; blocks become smaller if it is scarce */
} adji_hdf5_input;

#define ADJI_HDF5_NO_OFFSET UINT64_MAX

/* The type and shape of a dataset, and how to read it. */
typedef struct adji_hdf5_shape {
  adji_stored stored; /* the type of the rows, once read */
  uint32_t dim;
  uint64_t count;
  uint64_t block_rows; /* rows to read at once: whole chunks, if the file has chunks; 0 if there are no rows */
  uint64_t work_bytes; /* memory that the HDF5 library needs to unpack chunks, by what the file states */
  uint64_t offset;     /* of the rows, if the file stores them packed, as in memory; or NO_OFFSET */
} adji_hdf5_shape;

typedef struct adji_hdf5_table {
  adji_hdf5_shape shape;
  const adji_hdf5 *h5;
  adji_hid file, dataset, space;
  adji_hid memory_type; /* the HDF5 type of shape.stored */
  int rank;
  bool filtered; /* chunks are compressed, or filtered in another way */
} adji_hdf5_table;

/* Holds the library's turn until adji_hdf5_close. A failure closes everything. */
adj_status adji_hdf5_open(const adji_hdf5_input *input, adji_hdf5_table *table);

/* The number of rows to read at once from row `first` on: up to the next multiple of block_rows. */
static inline uint64_t adji_hdf5_block(const adji_hdf5_shape *shape, adji_row_range rows, uint64_t first) {
  uint64_t block = shape->block_rows - first % shape->block_rows, rest = rows.first + rows.count - first;
  return rest < block ? rest : block;
}

/* Reads rows into packed memory. */
adj_status adji_hdf5_rows(const adji_hdf5_table *table, uint64_t first, uint64_t rows, void *to);

void adji_hdf5_close(adji_hdf5_table *table);

#endif
