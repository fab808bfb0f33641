/* SPDX-License-Identifier: MIT
 *
 * Lists of a range join: counts to degrees, or entries into the rows of a window.
 */
#ifndef ADJI_GPU_WORKER_PLACE_ROWS_H
#define ADJI_GPU_WORKER_PLACE_ROWS_H

#include "gpu/worker/lists.h"

extern const adji_placer adji_row_placer;

#endif
