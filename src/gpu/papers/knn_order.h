/* SPDX-License-Identifier: MIT
 *
 * The order of HybridKNN-Join's work queue (section 4.5): queries by the population of their cell, in a grid whose
 * cells are epsilon wide. The cores make it, from the epsilon of a device or from one of their own.
 */
#ifndef ADJI_GPU_PAPERS_KNN_ORDER_H
#define ADJI_GPU_PAPERS_KNN_ORDER_H

#include "gpu/papers/knn_grid.h"
#include "queue/join.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Rows of the left set, those in the fullest cells first; equally full cells by their numbers, and the rows of a cell
 * in ascending order. The population is the number of right points. Without a positive epsilon there is one cell. The
 * rows are allocated from the context's memory. Memory: an index of each set and 24 bytes per cell, while this runs. */
adj_status adji_knn_order_rows(const adji_join *join, const adji_measure *measure, double epsilon, uint32_t **rows);

/* Epsilon, chosen as by a device, but from smaller samples. Negative: there is none. */
adj_status adji_knn_order_epsilon(const adji_join *join, const adji_measure *measure,
                                  const adji_knn_grid_options *options, double *epsilon);

#ifdef __cplusplus
}
#endif
#endif
