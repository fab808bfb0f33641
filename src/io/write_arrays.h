/* SPDX-License-Identifier: MIT
 *
 * The header of an array, and the arrays of a .npz file, which is a zip file with one .npy file per array. Their sizes
 * are known from the start, so each array has a fixed place and all can grow at the same time, on all threads. The
 * headers with the checksums are written last.
 */
#ifndef ADJI_WRITE_ARRAYS_H
#define ADJI_WRITE_ARRAYS_H

#include "adjoin_share.h"
#include "io/output.h"
#include "io/write_zip.h"

/* The header of a .npy file: descr and shape in Python's notation, "'<i8'" and "(5, 2)". Writes at most ADJI_NPY_HEADER
 * bytes, and returns their number, a multiple of 64. */
enum { ADJI_NPY_HEADER = 256 };
size_t adji_npy_header(char *to, const char *descr, const char *shape);

/* The descr of distances and coordinates. */
static inline const char *adji_npy_real(adj_type type) {
  return type == ADJ_F64 ? "'<f8'" : "'<f4'";
}

enum {
  ADJI_ARRAYS_MOST = 5,
  /* Bytes that a thread formats, adds to the checksum and writes at a time. They fit into a core's cache and on the
   * stack. */
  ADJI_ARRAYS_CHUNK = 1 << 16
};

typedef struct adji_array {
  const char *name;  /* "indices.npy"                            */
  const char *descr; /* Python's name of the type: "'<i8'"       */
  char shape[48];    /* "(5, 2)"                                 */
  uint64_t bytes;    /* of all items                             */
  uint64_t before;   /* written by earlier shares                */
  uint64_t own;      /* written by this process                  */
} adji_array;

typedef struct adji_arrays {
  adj_ctx *ctx;
  adji_output *output;
  uint32_t count;
  adji_zip_member member[ADJI_ARRAYS_MOST];
  uint64_t written[ADJI_ARRAYS_MOST]; /* bytes of each so far: where the next ones go */
  uint64_t end[ADJI_ARRAYS_MOST];     /* end of this process's bytes */
  uint64_t begin[ADJI_ARRAYS_MOST];
  adji_crc_tables crc;
} adji_arrays;

/* Sets the place of every array, and writes its header in the process with the first share. */
adj_status adji_arrays_begin(adji_arrays *arrays, adj_ctx *ctx, adji_output *output, const adji_array *each,
                             uint32_t count, bool first);

/* Items to append to an array. from: the items as they are written. If it is NULL, make writes items first .. first +
 * many - 1 to a buffer; first is then a multiple of the number of items in ADJI_ARRAYS_CHUNK bytes. */
typedef struct adji_array_part {
  uint32_t array;
  uint64_t count;
  size_t item_bytes;
  const void *from;
  void (*make)(const void *user, uint64_t first, uint64_t many, void *to);
  const void *user;
} adji_array_part;

adj_status adji_arrays_append(adji_arrays *arrays, const adji_array_part *part);

/* Returns the checksums of what this process wrote. ADJ_E_INTERNAL if items are missing. */
adj_status adji_arrays_finish(adji_arrays *arrays, adj_share_sums *sums);

/* Writes the headers of the zip file, with the checksums of all shares. */
adj_status adji_arrays_complete(adji_arrays *arrays, const adj_share_sums *sums);

#endif
