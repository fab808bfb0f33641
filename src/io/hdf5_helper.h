/* SPDX-License-Identifier: MIT
 *
 * Reads HDF5 files in a separate process, so that a file on which the HDF5 library crashes, hangs or takes too much
 * memory ends that process and not the one that wants the points. Used if adj_open_options names a helper program.
 *
 * The helper finds the dataset and reports its shape. Then it reads block after block of rows into slots of shared
 * memory. This process copies a block out of its slot while the helper fills the next one. Messages of the helper are
 * not trusted: sizes are checked, and the bytes of a slot are used only as values to copy or convert.
 */
#ifndef ADJI_HDF5_HELPER_H
#define ADJI_HDF5_HELPER_H

#include <sys/types.h>

#include "io/hdf5_table.h"

typedef struct adji_helper {
  adj_ctx *ctx;
  pid_t process; /* 0: none */
  int channel;   /* a socket; -1: none */
  char *slots;   /* shared memory */
  uint64_t slot_bytes, charged;
} adji_helper;

/* Starts the program and waits for the shape of the dataset. A failure leaves nothing behind. */
adj_status adji_helper_start(adji_source *source, const adj_open_options *options, adji_helper *helper,
                             adji_hdf5_shape *shape);

/* Makes the slots for blocks of rows and lets the helper begin with these rows. */
adj_status adji_helper_begin(adji_helper *helper, const adji_hdf5_shape *shape, adji_row_range rows);

/* adji_helper_block waits for a block; blocks come in order. adji_helper_done releases its slot. */
adj_status adji_helper_block(adji_helper *helper, uint64_t block, const void **bytes);
adj_status adji_helper_done(adji_helper *helper, uint64_t block);

/* Ends the process; also called after a failure of the functions above. */
void adji_helper_stop(adji_helper *helper);

#endif
