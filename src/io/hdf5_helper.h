/* SPDX-License-Identifier: MIT
 *
 * HDF5 files read by a process of its own, so that a file on which the HDF5 library crashes, hangs or grows costs that
 * process and not the one that wants the points. Used if adj_open_options names a helper program.
 *
 * The helper finds the dataset and reports its shape. Then it reads block after block of rows into slots of shared
 * memory, each of which this process takes out while the helper fills the next. Nothing that the helper says is
 * trusted: sizes are checked, and the bytes in a slot are only values, each copied or converted, whatever it is.
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

/* Waits for a block, the blocks in order; and says that its bytes are no longer needed. */
adj_status adji_helper_block(adji_helper *helper, uint64_t block, const void **bytes);
adj_status adji_helper_done(adji_helper *helper, uint64_t block);

/* Ends the process. Also after a failure of the two above. */
void adji_helper_stop(adji_helper *helper);

#endif
