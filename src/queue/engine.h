/* SPDX-License-Identifier: MIT
 *
 * An engine answers a join: it has a queue of queries and the workers that drain it. The planner creates it; runs ask
 * it to count and to fill windows of rows.
 */
#ifndef ADJI_ENGINE_H
#define ADJI_ENGINE_H

#include "queue/join.h"
#include "queue/scheduler.h"

typedef struct adji_engine {
  adji_join join;
  adji_queue queue;
  adji_worker workers[1 + ADJI_MOST_DEVICES]; /* the cores first, if they take part; owned by the engine */
  uint32_t worker_count;
  adji_share_options share;
  /* The order of the cores' index: the i-th query of the queue is row order[i]. NULL: row i. */
  const uint32_t *order;
  uint32_t group;    /* the number of queries that the cores search together */
  bool single;       /* results are collected by single evaluation */
  bool single_count; /* degrees are counted by single evaluation */
} adji_engine;

/* Creates an engine with its first worker. The engine owns its workers; the cores come before devices. */
void adji_engine_init(adji_engine *engine, const adji_join *join, const adji_worker *first);
/* Adds a worker. Empties the queue. */
void adji_engine_add(adji_engine *engine, const adji_worker *worker);
void adji_engine_clear(adji_engine *engine);
/* Takes the only worker out of the engine and clears the engine. */
adji_worker adji_engine_take(adji_engine *engine);

/* Lets the cores fill the queue, if it is empty. Without this call the first pass does it. */
adj_status adji_engine_prepare(adji_engine *engine);

/* Whether a fill is expensive however small its window is: a stream should use few windows. */
bool adji_engine_wants_large_windows(const adji_engine *engine);

/* degrees (one entry per row, may be NULL) receives the number of neighbours of each left point. */
adj_status adji_engine_count(adji_engine *engine, adji_run *run, uint32_t *degrees, uint64_t *total);

/* After a count: where each row of the whole result begins (left count + 1 entries), if the worker knows it. */
bool adji_engine_has_offsets(const adji_engine *engine);
adj_status adji_engine_offsets(adji_engine *engine, adji_run *run, uint64_t *offsets);

/* Fills the rows of the window. */
adj_status adji_engine_fill(adji_engine *engine, adji_run *run, const adji_window *window);
/* Announces the window that will be filled next: a device may begin with it. */
void adji_engine_prefetch(adji_engine *engine, adji_run *run, const adji_window *window);

/* Fills the result's offsets, ids, distances and pairs without counting first, each pair evaluated once. */
bool adji_engine_can_collect(const adji_engine *engine);
adj_status adji_engine_collect(adji_engine *engine, adji_run *run, adj_result *result);

#endif
