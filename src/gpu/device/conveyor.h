/* SPDX-License-Identifier: MIT
 *
 * Moves data between host and device in pieces, in order, through pinned buffers. One lane starts all copies and checks
 * which have arrived; the other lanes pack or place pieces. If all lanes started copies, they would contend inside CUDA
 * and keep the bus less busy. This host code knows a device only through functions, so that tests can replace it.
 */
#ifndef ADJI_GPU_DEVICE_CONVEYOR_H
#define ADJI_GPU_DEVICE_CONVEYOR_H

#include "core/context.h"

typedef struct adji_conveyor {
  adj_ctx *ctx;
  void *user;
  uint64_t pieces;
  uint32_t buffers; /* a lane that works by itself uses the buffer with its own number */
  bool up;          /* to the device: a piece is packed, then copied; otherwise copied, then placed */
  /* copy starts the copy of a piece; here tells whether the last copy of a buffer has ended. One lane calls both. */
  adj_status (*copy)(void *user, uint64_t piece, uint32_t buffer);
  adj_status (*here)(void *user, uint32_t buffer, bool *here);
  /* Work on a piece that may not have arrived yet; NULL: none. */
  void (*prepare)(void *user, uint64_t piece);
  /* Packs or places a piece. */
  void (*handle)(void *user, uint64_t piece, uint32_t buffer);
} adji_conveyor;

/* Nanoseconds, summed over all lanes: waiting for copies, and working on pieces. */
typedef struct adji_conveyor_times {
  uint64_t wait_ns, work_ns;
} adji_conveyor_times;

/* Moves all pieces. After a failure, copies may still be in progress. */
adj_status adji_convey(const adji_conveyor *conveyor, adji_conveyor_times *times);

#endif
