/* SPDX-License-Identifier: MIT
 *
 * The context: what every other part of the library is handed.
 */
#ifndef ADJI_CONTEXT_H
#define ADJI_CONTEXT_H

#include <pthread.h>

#include "core/costs.h"
#include "core/memory.h"
#include "core/threads.h"

enum { ADJI_MOST_GPUS = 8 };

struct adj_ctx {
  adji_memory memory;
  adji_team *team;
  uint32_t threads;
  const char *isa; /* one of the names of core/cpu.h */
  ADJI_ATOMIC(int) cancelled;
  adji_costs costs;             /* that plans go by                      */
  char costs_file[512];         /* they are of; empty: the built-in ones */
  uint64_t device_memory_limit; /* 0: what is free */
  int32_t device_count;         /* 0: no GPU; -1: any */
  int32_t *devices;             /* device_count numbers, when that is positive */
  /* The GPUs, opened by who first needs one (gpu/device/device.h), and how they are closed. */
  pthread_mutex_t device_lock;
  void *gpus[ADJI_MOST_GPUS];
  void (*close_gpu)(void *gpu);
  void (*log)(void *user, adj_log_level level, const char *line);
  void *log_user;
  void (*trace)(void *user, const adj_trace_event *event);
  void *trace_user;
};

/* A parallel loop that adj_cancel stops. */
static inline adj_status adji_loop(adj_ctx *ctx, uint64_t count, adji_task_fn fn, void *user) {
  return adji_parallel(ctx->team, count, fn, user, &ctx->cancelled);
}

/* ADJ_CANCELLED with its message once adj_cancel was called: for long serial stretches. */
adj_status adji_check_cancel(adj_ctx *ctx);

void adji_log(adj_ctx *ctx, adj_log_level level, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Reports work that began at begin_ns and ends now. */
void adji_trace(adj_ctx *ctx, const char *name, uint32_t lane, uint64_t begin_ns, uint64_t items);

#endif
