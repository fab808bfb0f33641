/* SPDX-License-Identifier: MIT
 *
 * Pieces that cross between host and device in order, through pinned buffers: one lane asks for all copies and looks
 * what has arrived, the others do what there is to do at this end: lanes that ask for their own copies meet in CUDA,
 * and leave the bus less to do. Host code that knows a device only through functions, so that tests can put another in
 * its place.
 */
#ifndef ADJI_GPU_DEVICE_CONVEYOR_H
#define ADJI_GPU_DEVICE_CONVEYOR_H

#include "core/context.h"

typedef struct adji_conveyor {
  adj_ctx *ctx;
  void *user;
  uint64_t pieces;
  uint32_t buffers; /* a lane that works alone has the one of its number */
  bool up;          /* to the device: pieces are packed, then copied; else copied, then placed */
  /* Begins to copy a piece; whether the last copy of a buffer has ended. Calls of a single lane. */
  adj_status (*copy)(void *user, uint64_t piece, uint32_t buffer);
  adj_status (*here)(void *user, uint32_t buffer, bool *here);
  /* Does what can be done for a piece that may not have arrived; NULL: nothing. */
  void (*prepare)(void *user, uint64_t piece);
  /* Packs or places a piece. */
  void (*handle)(void *user, uint64_t piece, uint32_t buffer);
} adji_conveyor;

/* Nanoseconds of all lanes: waiting for copies, and at the pieces. */
typedef struct adji_conveyor_times {
  uint64_t wait_ns, work_ns;
} adji_conveyor_times;

/* After a failure copies may still be under way. */
adj_status adji_convey(const adji_conveyor *conveyor, adji_conveyor_times *times);

#endif
