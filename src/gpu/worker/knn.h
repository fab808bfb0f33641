/* SPDX-License-Identifier: MIT
 *
 * A device as a worker of a kNN join: alone, in the order of the result, or beside the cores, by lists.
 */
#ifndef ADJI_GPU_WORKER_KNN_H
#define ADJI_GPU_WORKER_KNN_H

#include "core/names.h"
#include "gpu/knn/knn.h"
#include "queue/engine.h"

/* A kNN join, and how it is done. */
typedef struct adji_knn_request {
  adji_gpu_knn_options options;
  adji_brute_choice choice; /* how brute force is done, if it is used */
} adji_knn_request;

/* Chooses trees, a grid or brute force: sets options.brute, which may point to request->choice, options.grid.use and
 * *reason. algorithm: the one that was asked for. Fails if it cannot be used. */
adj_status adji_gpu_knn_choose(adji_knn_request *request, adji_algorithm algorithm, const char **reason);

/* Whether a device can take part in the join beside the cores. Otherwise the message says why not. */
adj_status adji_gpu_knn_can_share(const adji_join *join, const adji_measure *measure);

/* Whether several devices can share the join without cores. Otherwise the message says why not. */
adj_status adji_gpu_knn_can_divide(const adji_gpu_knn_options *options);

/* Opens the number-th device of the context, copies the points there and builds the trees, if there are any. May be
 * called by any thread. */
adj_status adji_gpu_knn_worker_create(const adji_gpu_knn_options *options, uint32_t number, adji_worker *out);

/* Makes the worker of a device that does the join alone, the context's first one: as above or, if the points do not fit
 * or `chunk` is given, with at most that many points of a set at a time (knn_chunks.h). */
adj_status adji_gpu_knn_create(const adji_gpu_knn_options *options, uint64_t chunk, adji_worker *out);
/* Whether that worker would have all points on the device. Also false if there is no device. */
bool adji_gpu_knn_fits(const adji_gpu_knn_options *options);

/* The number of points of a set that the device has at a time; 0: all of them. */
uint64_t adji_gpu_knn_worker_chunk(const adji_worker *worker);

/* Called before the first pass beside other workers: rows[i] is the row of their i-th query. NULL: they use this
 * device's order. */
adj_status adji_gpu_knn_worker_follow(adji_worker *worker, const uint32_t *rows);
/* Copies the order of the device to host memory. */
adj_status adji_gpu_knn_worker_order(adji_worker *worker, uint32_t *rows);

/* The first epsilon of a grid; negative: there is none. */
double adji_gpu_knn_worker_epsilon(const adji_worker *worker);

/* About how long the device would take for all queries, with the copies of the result. guess: from the number of
 * points, if a search takes `searches` times as long as building a tree. try: measured with `queries` queries; the
 * first trial of a process includes loading kernels, so the device then seems slower than it is. */
double adji_gpu_knn_worker_guess(const adji_worker *worker, double searches);
adj_status adji_gpu_knn_worker_try(adji_worker *worker, uint64_t queries, double *seconds);

#endif
