/* SPDX-License-Identifier: MIT
 *
 * Lists of a kNN join: rows of k neighbours into a window.
 */
#ifndef ADJI_GPU_WORKER_PLACE_KNN_H
#define ADJI_GPU_WORKER_PLACE_KNN_H

#include "gpu/worker/lists.h"

extern const adji_placer adji_knn_placer;

/* Whether a row fits a lane's buffer. */
bool adji_knn_row_fits(const adji_join *join);

#endif
