/* SPDX-License-Identifier: MIT
 *
 * A set of points in the type and layout in which they came: checked, with bounds.
 */
#ifndef ADJI_DATASET_H
#define ADJI_DATASET_H

#include "core/context.h"

/* What a column is by its name. */
typedef enum adji_geo { ADJI_GEO_NONE, ADJI_GEO_LONGITUDE, ADJI_GEO_LATITUDE } adji_geo;

struct adj_dataset {
  adj_ctx *ctx;
  adj_type type;
  uint32_t dim;
  uint64_t count;
  const char *data;
  uint64_t row_stride, column_stride; /* bytes; in Fortran order row_stride is the small one */
  double *low, *high;                 /* dim entries each; exact for both types              */
  double *scale; /* of normalised points: the values that became 0 and 1, dim entries each; NULL: not normalised */
  /* Labels of the rows (may be NULL): label i is text[ends[i - 1]] .. text[ends[i] - 1]. */
  char *label_text;
  uint64_t *label_ends;
  /* Columns of a text file (may be NULL): dim names, each ended by 0. */
  char *columns;
  uint64_t columns_bytes;
  adji_geo geo[2];    /* of the first two columns */
  uint32_t precision; /* bits of the values before they were widened; 0: those of the type */
  /* Frees the data; NULL if the caller owns it. */
  void (*release)(adj_dataset *dataset);
  void *owner; /* for release: the block, or the start of the mapping */
  uint64_t owner_bytes;
  /* Reads these bytes of the data into place, from any thread; NULL: all are there. Called for each part of the data
   * just before it is checked, so that it is in the cache then; afterwards it is not used again. */
  adj_status (*fetch)(void *from, uint64_t offset, uint64_t bytes);
  void *fetch_from;
  /* For a set that is only sent to a device and has its points elsewhere: copies rows, packed. NULL: they are at
   * data. */
  void (*copy_rows)(const void *from, uint64_t first, uint64_t count, void *to);
  const void *copy_from;
  /* For a part of a file: the file's row number of the first row, and the number of rows of the file; 0: as many as the
   * set. */
  uint64_t first_row, all_rows;
};

static inline size_t adji_type_size(adj_type type) {
  return type == ADJ_F64 ? 8 : 4;
}

/* The members that a dataset is made from: all of the above but ctx and bounds. Strides of 0: packed, row-major. Labels
 * and columns are from adji_alloc. */
typedef struct adj_dataset adji_dataset_parts;

/* Refuses shapes that no dataset can have. */
adj_status adji_check_shape(adj_type type, uint32_t dim, uint64_t count);

/* Makes a dataset. On success it owns the data (by release) and the labels; on failure the caller still does. Finds the
 * bounds and checks every coordinate: a NaN or an infinity is ADJ_E_DATA, and the message names row and column, both
 * counted from 1. */
ADJI_SHARED adj_status adji_dataset_adopt(adj_ctx *ctx, const adji_dataset_parts *parts, adj_dataset **out);

/* Fails with ADJ_E_DATA: the caller's points have changed. Points are checked once, when a set is made, and read again
 * later. Code that copies them checks the copy (adji_is_finite), and code that reads them twice checks that the second
 * reading fits the structures made by the first. So a caller that writes to its points during a call gets an error or a
 * wrong result, but memory is never written out of bounds. */
adj_status adji_points_changed(void);

/* Functions for `release`: for a block of adji_alloc, and for a mapping of owner_bytes. */
ADJI_SHARED void adji_release_block(adj_dataset *dataset);
void adji_release_mapping(adj_dataset *dataset);

#define adji_is_finite(x) ((x) - (x) == 0)

static inline double adji_dataset_at(const adj_dataset *dataset, uint64_t row, uint32_t j) {
  const char *at = dataset->data + row * dataset->row_stride + j * dataset->column_stride;
  return dataset->type == ADJ_F64 ? *(const double *)at : (double)*(const float *)at;
}

#endif
