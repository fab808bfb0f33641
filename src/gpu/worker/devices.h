/* SPDX-License-Identifier: MIT
 *
 * The devices of a context, as workers have them.
 */
#ifndef ADJI_GPU_WORKER_DEVICES_H
#define ADJI_GPU_WORKER_DEVICES_H

#include "core/context.h"

/* How many devices the context may use; 1 where there is none, and creating a worker says why. */
uint32_t adji_gpu_worker_count(adj_ctx *ctx);

/* Whether there is a device that the context may use. */
bool adji_gpu_worker_is_there(adj_ctx *ctx);

/* "gpu 0" and so on. Statistics keep the pointer, which outlives a plan. */
const char *adji_gpu_worker_name(uint32_t number);

#endif
