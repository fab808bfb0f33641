/* SPDX-License-Identifier: MIT
 *
 * Collects the events that the library reports and writes them as a trace, with one lane per thread and per device.
 */
#include "trace.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "json.h"
#include "message.h"
#include "text.h"

struct trace_log {
  pthread_mutex_t lock;
  adj_trace_event *events;
  size_t count, room;
  size_t dropped; /* because memory ran out */
};

trace_log *trace_create(void) {
  trace_log *trace = calloc(1, sizeof *trace);
  if (trace) pthread_mutex_init(&trace->lock, NULL);
  return trace;
}

void trace_destroy(trace_log *trace) {
  if (!trace) return;
  pthread_mutex_destroy(&trace->lock);
  free(trace->events);
  free(trace);
}

static bool has_room(trace_log *trace) {
  if (trace->count < trace->room) return true;
  size_t room = 2 * trace->room + 1024;
  adj_trace_event *events = realloc(trace->events, room * sizeof *events);
  if (!events) return false;
  trace->events = events;
  trace->room = room;
  return true;
}

void trace_add(void *user, const adj_trace_event *event) {
  trace_log *trace = user;
  pthread_mutex_lock(&trace->lock);
  if (has_room(trace))
    trace->events[trace->count++] = *event;
  else
    trace->dropped++;
  pthread_mutex_unlock(&trace->lock);
}

void trace_phase(trace_log *trace, const char *name, double began) {
  if (!trace) return;
  adj_trace_event event = {
      .name = name, .begin_ns = (uint64_t)(began * 1e9), .end_ns = (uint64_t)(seconds_now() * 1e9)};
  trace_add(trace, &event);
}

static int by_lane_and_time(const void *a, const void *b) {
  const adj_trace_event *x = a, *y = b;
  if (x->lane != y->lane) return x->lane < y->lane ? -1 : 1;
  if (x->begin_ns != y->begin_ns) return x->begin_ns < y->begin_ns ? -1 : 1;
  return x->end_ns > y->end_ns ? -1 : x->end_ns < y->end_ns; /* an enclosing event first */
}

/* Lanes of devices follow those of threads. */
static void put_lane_name(json_writer *json, uint32_t process, uint32_t lane, uint32_t threads) {
  json_raw(json, "{\"name\":\"thread_name\",\"ph\":\"M\",\"pid\":%u,\"tid\":%u,\"args\":{\"name\":\"%s %u\"}},\n",
           process, lane,
           !lane            ? "main and worker"
           : lane < threads ? "worker"
                            : "device",
           lane < threads ? lane : lane - threads);
}

/* Times are in microseconds from start_ns. */
static void put_event(json_writer *json, uint32_t process, const adj_trace_event *event, uint64_t start_ns) {
  json_raw(json, "{\"name\":");
  json_text(json, event->name);
  json_raw(json, ",\"ph\":\"X\",\"pid\":%u,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f,\"args\":{\"items\":%llu}},\n", process,
           event->lane, (double)(event->begin_ns - start_ns) * 1e-3, (double)(event->end_ns - event->begin_ns) * 1e-3,
           (unsigned long long)event->items);
}

void trace_put_lanes(json_writer *json, uint32_t process, uint32_t threads, adj_trace_event *events, size_t count,
                     uint64_t start_ns) {
  if (count) qsort(events, count, sizeof *events, by_lane_and_time);
  for (size_t i = 0; i < count; i++) {
    if (!i || events[i].lane != events[i - 1].lane) put_lane_name(json, process, events[i].lane, threads);
    put_event(json, process, &events[i], start_ns);
  }
}

const adj_trace_event *trace_events(const trace_log *trace, size_t *count) {
  *count = trace->count;
  return trace->events;
}

void trace_write(trace_log *trace, uint32_t threads, json_writer *json) {
  uint64_t start_ns = UINT64_MAX;
  for (size_t i = 0; i < trace->count; i++)
    if (trace->events[i].begin_ns < start_ns) start_ns = trace->events[i].begin_ns;
  json_raw(json, "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
  trace_put_lanes(json, 1, threads, trace->events, trace->count, start_ns);
  json_raw(json, "{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":1,\"tid\":0,\"args\":{\"name\":\"adjoin\"}}\n]}\n");
  if (trace->dropped) message_print("--trace: %zu events were dropped because memory ran out\n", trace->dropped);
}
