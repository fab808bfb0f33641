/* SPDX-License-Identifier: MIT
 *
 * Creates and destroys the context.
 */
#include "core/context.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

ADJI_DEFINE_INIT(adj_ctx_options, .device_count = -1)

/* ---- Instruction sets --------------------------------------------------------------------------------- */

/* Whether this build has the instruction set and the CPU supports it. */
static bool isa_usable(const char *name) {
  if (!strcmp(name, "scalar")) return true;
#if defined(__x86_64__)
  if (!strcmp(name, "avx2")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  if (!strcmp(name, "avx512"))
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
#elif defined(__aarch64__)
  if (!strcmp(name, "neon")) return true;
#endif
  return false;
}

/* Instruction sets, the best first. */
static const char *const known_isas[] = {"avx512", "avx2", "neon", "scalar"};
enum { KNOWN_ISAS = sizeof known_isas / sizeof *known_isas };

const char *adj_isa_name(uint32_t i) {
  for (uint32_t j = 0; j < KNOWN_ISAS; j++)
    if (isa_usable(known_isas[j]) && i-- == 0) return known_isas[j];
  return NULL;
}

static adj_status choose_isa(const char *wanted, const char **isa) {
  for (uint32_t i = 0; (*isa = adj_isa_name(i)); i++)
    if (!wanted || !strcmp(*isa, wanted)) return ADJ_OK;
  bool known = false;
  for (uint32_t j = 0; j < KNOWN_ISAS; j++)
    known = known || !strcmp(known_isas[j], wanted);
  if (!known) return adji_fail(ADJ_E_ARGUMENT, "isa: \"%s\" is none of avx512, avx2, neon, scalar", wanted);
  return adji_fail(ADJ_E_UNSUPPORTED, "isa: this CPU cannot run \"%s\" (best here: %s)", wanted, adj_isa_name(0));
}

/* ---- Creating ----------------------------------------------------------------------------------------- */

/* Stores which devices the context may use. They are opened when a join first needs one. */
static adj_status take_devices(adj_ctx *ctx, const adj_ctx_options *options) {
  int32_t count = options->device_count;
  if (count < -1 || count > 64) return adji_fail(ADJ_E_ARGUMENT, "device_count: %d is not between -1 and 64", count);
  if (count > 0 && !options->devices)
    return adji_fail(ADJ_E_ARGUMENT, "devices: is NULL, but device_count is %d", count);
  ctx->device_memory_limit = options->device_memory_limit;
  ctx->device_count = count;
  if (count <= 0) return ADJ_OK;
  ctx->devices = calloc((size_t)count, sizeof *ctx->devices);
  if (!ctx->devices) return adji_fail(ADJ_E_MEMORY, "no memory for a context");
  memcpy(ctx->devices, options->devices, (size_t)count * sizeof *ctx->devices);
  return ADJ_OK;
}

/* Sets threads and memory as requested, or else to what this process may use. */
static void take_limits(adj_ctx *ctx, const adj_ctx_options *options) {
  adji_limits limits;
  char most[32], available[32];
  uint32_t cores = adji_usable_cores();
  adji_limits_read("", &limits);
  ctx->cores = adji_limits_threads(&limits, cores);
  ctx->threads = options->threads ? options->threads : ctx->cores;
  if (options->threads)
    snprintf(ctx->threads_from, sizeof ctx->threads_from, "as asked for");
  else if (ctx->cores < cores)
    snprintf(ctx->threads_from, sizeof ctx->threads_from, "of %u usable cores %g, by %s", cores, limits.quota,
             limits.quota_file);
  else
    snprintf(ctx->threads_from, sizeof ctx->threads_from, "one per usable core");
  uint64_t limit = options->memory_limit ? options->memory_limit : limits.available / 10 * 9;
  adji_memory_init(&ctx->memory, limit);
  adji_bytes_text((double)limits.available, available);
  adji_bytes_text((double)limits.group_memory, most);
  if (options->memory_limit)
    snprintf(ctx->memory_from, sizeof ctx->memory_from, "as asked for");
  else if (limits.group_memory)
    snprintf(ctx->memory_from, sizeof ctx->memory_from, "90 %% of the %s that are free of %s, by %s", available, most,
             limits.memory_file);
  else
    snprintf(ctx->memory_from, sizeof ctx->memory_from, "90 %% of the %s that are available", available);
}

/* Reads the costs that adj_calibrate measured, if it was called on this machine. */
static void take_costs(adj_ctx *ctx) {
  char path[sizeof ctx->costs_file], why[256];
  bool asked;
  ctx->costs = adji_built_in_costs;
  if (!adji_costs_path(path, sizeof path, &asked)) return;
  adji_costs_read read = adji_costs_load(path, ctx->isa, &ctx->costs, why, sizeof why);
  if (read == ADJI_COSTS_READ) memcpy(ctx->costs_file, path, sizeof path);
  if (read == ADJI_COSTS_MISSING && asked) adji_log(ctx, ADJ_LOG_WARN, "ADJOIN_COSTS: %s: %s", path, why);
  if (read == ADJI_COSTS_REFUSED) adji_log(ctx, ADJ_LOG_WARN, "%s: is not used: %s", path, why);
  if (read == ADJI_COSTS_DAMAGED) adji_log(ctx, ADJ_LOG_WARN, "%s: is damaged, and not used: %s", path, why);
  if (read == ADJI_COSTS_OTHER)
    adji_log(ctx, ADJ_LOG_INFO, "%s: is of another machine or version, and not used: %s", path, why);
}

const char *adj_ctx_costs(const adj_ctx *ctx) {
  return ctx->costs_file[0] ? ctx->costs_file : NULL;
}

adj_status adj_ctx_create(const adj_ctx_options *options, adj_ctx **out) {
  adj_ctx_options copy;
  adj_ctx_options_init(&copy, sizeof copy);
  if (!out) return adji_fail(ADJ_E_ARGUMENT, "out: must not be NULL");
  if (options) {
    adj_status status = adji_take_struct(&copy, sizeof copy, options, "adj_ctx_options");
    if (status) return status;
  }
  const char *isa = NULL;
  adj_status status = choose_isa(copy.isa, &isa);
  if (status) return status;
  if (copy.threads > 4096) return adji_fail(ADJ_E_ARGUMENT, "threads: %u is more than 4096", copy.threads);

  adj_ctx *ctx = calloc(1, sizeof *ctx);
  if (!ctx) return adji_fail(ADJ_E_MEMORY, "no memory for a context");
  status = take_devices(ctx, &copy);
  if (status) {
    free(ctx);
    return status;
  }
  take_limits(ctx, &copy);
  ctx->isa = isa;
  ctx->log = copy.log;
  ctx->log_user = copy.log_user;
  ctx->trace = copy.trace;
  ctx->trace_user = copy.trace_user;
  adji_call outer = adji_call_begin(&ctx->cancels); /* reads numbers: needs the default state */
  take_costs(ctx);
  ctx->team = adji_team_create(ctx->threads);
  adji_call_set(outer);
  if (!ctx->team) {
    free(ctx->devices);
    free(ctx);
    return ADJ_E_MEMORY;
  }
  pthread_mutex_init(&ctx->device_lock, NULL);
  *out = ctx;
  return ADJ_OK;
}

void adj_ctx_destroy(adj_ctx *ctx) {
  if (!ctx) return;
  for (int i = 0; i < ADJI_MOST_GPUS; i++)
    if (ctx->gpus[i]) ctx->close_gpu(ctx->gpus[i]);
  pthread_mutex_destroy(&ctx->device_lock);
  adji_team_destroy(ctx->team);
  free(ctx->devices);
  free(ctx);
}

uint32_t adj_ctx_threads(const adj_ctx *ctx) {
  return ctx->threads;
}
const char *adj_ctx_threads_from(const adj_ctx *ctx) {
  return ctx->threads_from;
}
const char *adj_ctx_memory_from(const adj_ctx *ctx) {
  return ctx->memory_from;
}
uint64_t adj_ctx_memory_limit(const adj_ctx *ctx) {
  return ctx->memory.limit;
}
uint64_t adj_ctx_memory_used(const adj_ctx *ctx) {
  return atomic_load(&ctx->memory.used);
}
uint64_t adj_ctx_memory_peak(const adj_ctx *ctx) {
  return atomic_load(&ctx->memory.peak);
}
const char *adj_ctx_isa(const adj_ctx *ctx) {
  return ctx->isa;
}

void adj_cancel(adj_ctx *ctx) {
  atomic_fetch_add(&ctx->cancels, 1);
}

typedef struct slices {
  adji_slice_fn fn;
  void *user;
  uint64_t items, count;
} slices;

static adj_status run_slice(void *user, uint64_t task, uint32_t lane) {
  (void)lane;
  const slices *s = user;
  uint64_t begin, end;
  adji_slice(s->items, s->count, task, &begin, &end);
  s->fn(s->user, begin, end);
  return ADJ_OK;
}

adj_status adji_loop_slices(adj_ctx *ctx, uint64_t items, uint64_t count, adji_slice_fn fn, void *user) {
  slices s = {fn, user, items, count};
  return adji_loop(ctx, count, run_slice, &s);
}

bool adji_cancelled(const adj_ctx *ctx) {
  return adji_call_cancelled_in(&ctx->cancels);
}

adj_status adji_check_cancel(const adj_ctx *ctx) {
  return adji_cancelled(ctx) ? adji_fail(ADJ_CANCELLED, "stopped by the caller") : ADJ_OK;
}

const char *adj_build_features(void) {
  static const char names[] =
      ""
#ifdef ADJI_HAVE_ZLIB
      " zlib"
#endif
#ifndef ADJI_NO_CUDA
      " cuda"
#endif
      ;
  return names + (names[0] != 0);
}

void adji_log(adj_ctx *ctx, adj_log_level level, const char *format, ...) {
  if (!ctx->log) return;
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(line, sizeof line, format, arguments);
  va_end(arguments);
  ADJI_CALL_BACK(ctx->log(ctx->log_user, level, line));
}

static _Thread_local uint32_t own_lane;

void adji_trace_as(uint32_t lane) {
  own_lane = lane;
}

void adji_trace(adj_ctx *ctx, const char *name, uint32_t lane, uint64_t begin_ns, uint64_t items) {
  if (!ctx->trace) return;
  if (!lane) lane = own_lane;
  adj_trace_event event = {.name = name, .lane = lane, .begin_ns = begin_ns, .end_ns = adji_now_ns(), .items = items};
  ADJI_CALL_BACK(ctx->trace(ctx->trace_user, &event));
}
