/* SPDX-License-Identifier: MIT
 *
 * --trace: a timeline of the run for Perfetto (ui.perfetto.dev) and chrome://tracing.
 */
#ifndef CLI_TRACE_H
#define CLI_TRACE_H

#include <adjoin.h>

#include "json.h"

typedef struct trace_log trace_log;

trace_log *trace_create(void); /* NULL when there is no memory */
void trace_destroy(trace_log *trace);

/* For adj_ctx_options; user is the trace. May be called from any thread. */
void trace_add(void *user, const adj_trace_event *event);

/* Adds a phase of the program itself, from began (seconds_now) until now, to the first lane. */
void trace_phase(trace_log *trace, const char *name, double began); /* trace may be NULL */

/* The collected events; valid until more are added. */
const adj_trace_event *trace_events(const trace_log *trace, size_t *count);

/* Sorts the events of one process by lane and time, and appends them; times count from start_ns. Lanes from `threads`
 * on are devices. */
void trace_put_lanes(json_writer *json, uint32_t process, uint32_t threads, adj_trace_event *events, size_t count,
                     uint64_t start_ns);

/* Writes the whole file for a single process. Lanes from `threads` on are devices. */
void trace_write(trace_log *trace, uint32_t threads, json_writer *json);

#endif
