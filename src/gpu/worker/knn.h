/* SPDX-License-Identifier: MIT
 *
 * A device as a worker of a kNN join: alone, in the order of the result, or beside the cores, by lists.
 */
#ifndef ADJI_GPU_WORKER_KNN_H
#define ADJI_GPU_WORKER_KNN_H

#include "core/names.h"
#include "gpu/knn/knn.h"
#include "queue/engine.h"

/* What is wanted, and how. */
typedef struct adji_knn_request {
  adji_gpu_knn_options options;
  adji_brute_choice choice; /* how brute force is done, if it is */
} adji_knn_request;

/* Chooses trees, a grid or brute force: sets options.brute, which may point to request->choice, options.grid.use and
 * *reason. algorithm: what was asked for. Refuses what cannot be done. */
adj_status adji_gpu_knn_choose(adji_knn_request *request, adji_algorithm algorithm, const char **reason);

/* Whether a device can take part in the join beside the cores: otherwise the message says why not. */
adj_status adji_gpu_knn_can_share(const adji_join *join, const adji_measure *measure);

/* Whether several devices can share the join without cores: the same. */
adj_status adji_gpu_knn_can_divide(const adji_gpu_knn_options *options);

/* Opens the number-th device of the context, copies the points there and builds the trees, if there are any. Any
 * thread. */
adj_status adji_gpu_knn_worker_create(const adji_gpu_knn_options *options, uint32_t number, adji_worker *out);

/* The worker of the context's first device, which is alone: as above or, where the points do not fit or `chunk` is
 * given, with so many points of a set at a time (knn_chunks.h). */
adj_status adji_gpu_knn_create(const adji_gpu_knn_options *options, uint64_t chunk, adji_worker *out);
/* Whether that would have all points on the device. False as well where there is no device. */
bool adji_gpu_knn_fits(const adji_gpu_knn_options *options);

/* Points of a set that the device has at a time; 0: all of them. */
uint64_t adji_gpu_knn_worker_chunk(const adji_worker *worker);

/* Before the first pass beside others: rows[i] is the row of their i-th query. NULL: they have this device's order. */
adj_status adji_gpu_knn_worker_follow(adji_worker *worker, const uint32_t *rows);
/* The order of the device, to host memory. */
adj_status adji_gpu_knn_worker_order(adji_worker *worker, uint32_t *rows);

/* The first epsilon of a grid; negative: there is none. */
double adji_gpu_knn_worker_epsilon(const adji_worker *worker);

/* How long the device would take for all queries, about, with copies of the result: from its size, if a search takes
 * `searches` times as long as building a tree; or from so many queries. The first queries of all include loading
 * kernels, so they seem slower than they are. */
double adji_gpu_knn_worker_guess(const adji_worker *worker, double searches);
adj_status adji_gpu_knn_worker_try(adji_worker *worker, uint64_t queries, double *seconds);

#endif
