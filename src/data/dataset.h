/* SPDX-License-Identifier: MIT
 *
 * A set of points: held once, in the type and layout they came in, checked, with bounds.
 */
#ifndef ADJI_DATASET_H
#define ADJI_DATASET_H

#include "core/context.h"

struct adj_dataset {
  adj_ctx *ctx;
  adj_type type;
  uint32_t dim;
  uint64_t count;
  const char *data;
  uint64_t row_stride, column_stride; /* bytes; a Fortran-order file has the small one by row */
  double *low, *high;                 /* dim entries each: exact, for both types              */
  /* Labels of the rows (may be NULL): label i is text[ends[i - 1]] .. text[ends[i] - 1]. */
  char *label_text;
  uint64_t *label_ends;
  /* Frees what data points to; NULL when borrowed. */
  void (*release)(adj_dataset *dataset);
  void *owner; /* for release: the block, or the start of the mapping */
  uint64_t owner_bytes;
};

static inline size_t adji_type_size(adj_type type) {
  return type == ADJ_F64 ? 8 : 4;
}

/* What a reader or a generator hands over. On success the dataset owns data (through release) and
 * the labels; on failure the caller still does. Checks every coordinate (a NaN or an infinity is
 * ADJ_E_DATA and names row and column, both counted from 1) and finds the bounds. */
typedef struct adji_dataset_parts {
  adj_type type;
  uint32_t dim;
  uint64_t count;
  const void *data;
  uint64_t row_stride, column_stride; /* 0: packed, row-major */
  char *label_text;                   /* from adji_alloc, as label_ends */
  uint64_t *label_ends;
  void (*release)(adj_dataset *dataset);
  void *owner;
  uint64_t owner_bytes;
} adji_dataset_parts;

adj_status adji_dataset_adopt(adj_ctx *ctx, const adji_dataset_parts *parts, adj_dataset **out);

/* A release for data from adji_alloc (owner is the block), and one for a mapping (munmap of owner,
 * owner_bytes). */
void adji_release_block(adj_dataset *dataset);
void adji_release_mapping(adj_dataset *dataset);

static inline double adji_dataset_at(const adj_dataset *dataset, uint64_t row, uint32_t j) {
  const char *at = dataset->data + row * dataset->row_stride + j * dataset->column_stride;
  return dataset->type == ADJ_F64 ? *(const double *)at : (double)*(const float *)at;
}

#endif
