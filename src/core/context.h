/* SPDX-License-Identifier: MIT
 *
 * The context: threads, memory limit, devices, log, trace and cancels. Every other part of the library receives one.
 */
#ifndef ADJI_CONTEXT_H
#define ADJI_CONTEXT_H

#include "core/costs.h"
#include "core/limits.h"
#include "core/memory.h"
#include "core/threads.h"

enum { ADJI_MOST_GPUS = 8 };

struct adj_ctx {
  adji_memory memory;
  adji_team *team;
  uint32_t threads, cores; /* cores: how many this process may keep busy */
  char threads_from[ADJI_LIMIT_FILE + 128], memory_from[ADJI_LIMIT_FILE + 128]; /* in words */
  const char *isa;                                                              /* one of adj_isa_name() */
  ADJI_ATOMIC(uint32_t) cancels; /* how often adj_cancel was called: see core/threads.h */
  adji_costs costs;              /* used by plans */
  char costs_file[512];          /* their file; empty: built in */
  uint64_t device_memory_limit;  /* 0: all that is free */
  int32_t device_count;          /* 0: no GPU; -1: any */
  int32_t *devices;              /* device_count numbers, when that is positive */
  /* The GPUs, each opened at its first use (gpu/device/device.h), and the function that closes them. */
  pthread_mutex_t device_lock;
  void *gpus[ADJI_MOST_GPUS];
  void (*close_gpu)(void *gpu);
  void (*log)(void *user, adj_log_level level, const char *line);
  void *log_user;
  void (*trace)(void *user, const adj_trace_event *event);
  void *trace_user;
};

/* A parallel loop that adj_cancel ends. */
static inline adj_status adji_loop(adj_ctx *ctx, uint64_t count, adji_task_fn fn, void *user) {
  return adji_parallel(ctx->team, count, fn, user, true);
}

/* The same over 0 .. items - 1, in `count` equal slices with one call each. */
typedef void (*adji_slice_fn)(void *user, uint64_t begin, uint64_t end);
adj_status adji_loop_slices(adj_ctx *ctx, uint64_t items, uint64_t count, adji_slice_fn fn, void *user);

/* Whether the thread's call in ctx is cancelled; cheap enough for inner loops. adji_check_cancel then also sets the
 * message and returns ADJ_CANCELLED. */
bool adji_cancelled(const adj_ctx *ctx);
adj_status adji_check_cancel(const adj_ctx *ctx);

ADJI_SHARED void adji_log(adj_ctx *ctx, adj_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Reports a piece of work that began at begin_ns and ends now. */
ADJI_SHARED void adji_trace(adj_ctx *ctx, const char *name, uint32_t lane, uint64_t begin_ns, uint64_t items);
/* From now on lane 0 in reports of the calling thread is replaced by this lane: for threads other than the caller's. */
void adji_trace_as(uint32_t lane);

#endif
