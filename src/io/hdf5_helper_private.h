/* SPDX-License-Identifier: MIT
 *
 * The messages between the two sides of a helper, over a socket that preserves message boundaries.
 *
 *   helper                          the process that wants the points
 *   SHAPE, or FAILED and exits
 *                                   SLOTS, with the shared memory; which rows
 *   BLOCK n, in slot n % SLOTS
 *                                   TAKEN n: the slot may be used again
 *   ... until a block FAILED, or all are taken and the helper is killed
 */
#ifndef ADJI_HDF5_HELPER_PRIVATE_H
#define ADJI_HDF5_HELPER_PRIVATE_H

#include "io/hdf5_helper.h"

/* The helper's descriptors: the socket; and the bytes of input that is not a plain file. */
enum { ADJI_HELPER_CHANNEL = 0, ADJI_HELPER_INPUT = 3 };
enum { ADJI_HELPER_SLOTS = 3 };

/* Arguments of the helper program, after ADJ_HELPER: flags; bytes of memory; path; and the dataset, if one is named. */
enum { ADJI_HELPER_EXTERNAL = 1, ADJI_HELPER_DESCRIPTOR = 2 /* read ADJI_HELPER_INPUT, not the path */ };
enum { ADJI_HELPER_ARGUMENTS = 5 };

/* The start of every message: other versions of the library have other messages. */
static inline uint64_t adji_helper_magic(void) {
  return UINT64_C(0x48354c5000000000) + adj_version_number();
}

typedef enum adji_helper_kind {
  ADJI_HELPER_SAYS_SHAPE = 1,
  ADJI_HELPER_SAYS_FAILED,
  ADJI_HELPER_SAYS_BLOCK,
  ADJI_HELPER_GETS_SLOTS,
  ADJI_HELPER_GETS_TAKEN
} adji_helper_kind;

typedef struct adji_helper_message {
  uint64_t magic;
  uint32_t kind;
  int32_t status;        /* FAILED */
  adji_hdf5_shape shape; /* SHAPE */
  uint64_t number;       /* BLOCK, TAKEN: which; SLOTS: bytes of each */
  adji_row_range rows;   /* SLOTS: which rows to read */
  char text[1024];       /* FAILED */
} adji_helper_message;

#endif
