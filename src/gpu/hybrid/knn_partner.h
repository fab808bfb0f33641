/* SPDX-License-Identifier: MIT
 *
 * GPUs that take part in a kNN join of the cores.
 */
#ifndef ADJI_GPU_HYBRID_KNN_PARTNER_H
#define ADJI_GPU_HYBRID_KNN_PARTNER_H

#include "gpu/knn/knn_engine.h"

/* Whether a GPU can have a part in the join, if there is one: otherwise the message says why not. */
adj_status adji_gpu_partner_can(const adji_knn_request *request);

/* How many devices the context may use; 1 where there is none, and making a partner tells why. */
uint32_t adji_gpu_partner_count(adj_ctx *ctx);

/* Whether there is a GPU at all that the context may use. */
bool adji_gpu_partner_there(adj_ctx *ctx);

const char *adji_gpu_partner_name(uint32_t number);

/* Opens the number-th device of the context, copies the points there and builds the trees. Any thread. */
adj_status adji_gpu_partner_create(const adji_knn_request *request, uint32_t number, adji_partner *out);

/* rows[i] is the row of the cores' i-th query: before the first pass. */
adj_status adji_gpu_partner_follow(adji_partner *made, const uint32_t *rows);

/* About how long the device would take for all queries, copies of the result included: by its size, where searching
 * takes `searches` times as long as building a tree; or from so many of the queries. The first of all have kernels
 * loaded: that lets it seem slower than it is. */
double adji_gpu_partner_guess(const adji_partner *made, double searches);
adj_status adji_gpu_partner_try(adji_partner *made, uint64_t queries, double *seconds);

/* Makes the engine that has the device alone do the join. The partner is gone then. */
adj_status adji_gpu_partner_alone(adji_partner *made, adji_engine *out);

#endif
