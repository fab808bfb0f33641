/* SPDX-License-Identifier: MIT
 *
 * Several devices without cores: entity partitioning (GPU-Join, section 6.2). Every device has all points, and the
 * queries are partitioned: devices take them in batches from one queue, as they do beside the cores. This file has the
 * host's part, a worker that computes nothing. It owns the order of the queries, and makes the queue. The lanes of the
 * host put rows into place.
 */
#ifndef ADJI_GPU_WORKER_PARTITION_H
#define ADJI_GPU_WORKER_PARTITION_H

#include "queue/engine.h"

/* Makes the worker. order[i] is the row of the i-th query. The worker takes ownership of order, which is in the
 * context's memory, also if this fails. */
adj_status adji_partition_create(const adji_join *join, uint32_t *order, uint32_t devices, adji_worker *out);

/* The worker's order of the queries. */
const uint32_t *adji_partition_order(const adji_worker *worker);

/* Makes the order of GPU-Join's query sets: each set is a uniform selection of all rows, and the sets follow each
 * other. */
void adji_partition_entities(uint64_t rows, uint64_t sets, uint32_t *order);

#endif
