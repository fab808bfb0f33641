/* SPDX-License-Identifier: MIT
 *
 * What the binary formats share: values of one stored type at known offsets. Aligned f32 and f64 values in this byte
 * order are used in place; all others are converted.
 */
#ifndef ADJI_READ_TABLE_H
#define ADJI_READ_TABLE_H

#include "io/source.h"

typedef enum adji_stored {
  ADJI_F16,
  ADJI_F32,
  ADJI_F64,
  ADJI_I8,
  ADJI_U8,
  ADJI_I16,
  ADJI_U16,
  ADJI_I32,
  ADJI_U32,
  ADJI_I64,
  ADJI_U64,
  ADJI_STORED_TYPES
} adji_stored;

const char *adji_stored_name(adji_stored stored); /* "u16" */
size_t adji_stored_size(adji_stored stored);

/* The type of the dataset: the requested one, or else f32 if it holds every value of the stored type, or else f64. Logs
 * a note if the values are converted. */
adj_type adji_table_type(const adji_source *source, adji_stored stored, adj_type asked);

typedef struct adji_table {
  adji_stored stored;
  bool swapped;   /* the byte order is not this machine's                   */
  bool by_column; /* column after column (Fortran) rather than row after row */
  uint64_t count;
  uint32_t dim;
  uint64_t offset;     /* of the first value in the source                       */
  uint64_t row_stride; /* bytes from row to row; 0: packed. Not with by_column   */
  /* The reader chose a part of the rows itself: number of the first one, and how many the file has; or 0. */
  uint64_t first_row, all_rows;
} adji_table;

/* Some of the rows of a file. */
typedef struct adji_row_range {
  uint64_t first, count;
} adji_row_range;

/* The part of `count` rows that the options select: all, or one of several parts. */
adji_row_range adji_rows_of_part(const adj_open_options *options, uint64_t count);

/* The caller has checked that the whole table lies within the source, which need not be loaded. Reads the part of its
 * rows that the options ask for. */
adj_status adji_read_table(adji_source *source, const adj_open_options *options, const adji_table *table,
                           adji_dataset_parts *parts);

/* Converts the values of a table to packed f32 or f64. A value that overflows the type is ADJ_E_DATA, and so is, if
 * exact is set, an integer that would be rounded. The message names row and column. */
typedef struct adji_conversion {
  const adji_table *table; /* without its offset */
  const void *from;        /* the first value */
  void *to;
  adj_type type;
  bool exact;
  uint64_t first_row; /* number of the first row, for messages */
} adji_conversion;

adj_status adji_convert(adj_ctx *ctx, const adji_conversion *conversion);

/* Fails unless exactly count rows of row_bytes follow offset. The message says how many bytes are missing or extra. */
adj_status adji_check_length(const adji_source *source, uint64_t offset, uint64_t count, uint64_t row_bytes);

#endif
