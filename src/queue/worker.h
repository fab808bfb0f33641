/* SPDX-License-Identifier: MIT
 *
 * Workers: whoever computes. The cores together are one worker, every device is one. A run goes over the queue of
 * queries in one or two passes; in each, the workers drain the queue until it is empty (queue/scheduler.h).
 */
#ifndef ADJI_WORKER_H
#define ADJI_WORKER_H

#include "queue/queue.h"
#include "queue/run.h"
#include "result/result.h"
#include "result/rows.h"

typedef enum adji_pass_kind {
  ADJI_PASS_COUNT, /* the number of neighbours of each query                                             */
  ADJI_PASS_FILL,  /* the rows of a window                                                               */
  /* Single evaluation: each pair is found from one of its points, for both; in a self-join that is the one that comes
   * first in the order of the queries. Workers count, and keep what they find if there is a result to fill. */
  ADJI_PASS_SINGLE
} adji_pass_kind;

/* One pass over the queue. */
typedef struct adji_pass {
  adji_pass_kind kind;
  const char *name; /* for the trace and progress: "count", "join" */
  uint64_t queries;
  adji_queue *queue;
  const uint32_t *order; /* the i-th query is row order[i]; NULL: row i */
  uint32_t group;        /* kNN: returned queries go back in groups of so many, which begin at multiples of it */
  bool alone;            /* one worker does all queries */
  adj_status refused;    /* why a device takes no part, the last one that does not; ADJ_OK: all do */
  bool fills;            /* counting: the rows will be filled afterwards */
  uint32_t *degrees;     /* counting: by row; NULL: only the total is wanted */
  bool halves;           /* counting without degrees, alone: each unordered pair of a self-join may be evaluated once */
  adj_result *result;    /* single evaluation: to be filled; NULL: degrees are wanted */
  const adji_window *window; /* filling */
  /* Filling beside others: entries of the window in each batch, and the length of its longest row. */
  const uint64_t *batch_pairs;
  uint64_t longest;
} adji_pass;

/* What a draining device takes batches from and reports to: queue/scheduler.h. */
typedef struct adji_feed adji_feed;

/* Pairs that cores found by single evaluation: lists of records, one behind the other. A record is row, length, ids,
 * and the sums where they are wanted, of so many words each. Every pair is there once, under either of its rows. */
typedef struct adji_found_list {
  const uint32_t *words;
  uint64_t used, pairs;
} adji_found_list;
typedef struct adji_found {
  const adji_found_list *lists;
  uint64_t count, pairs;
  uint32_t sum_words;
} adji_found;

struct adji_active;

typedef struct adji_worker {
  void *state;
  const char *name; /* in warnings and statistics */
  bool is_device;
  bool large_windows; /* a fill costs much whatever the window */
  bool collects;      /* the cores: can do, and gather, a single evaluation */
  bool idle;          /* the cores: compute nothing and leave their lanes to loops of the devices */
  /* The cores: makes the queue of the join's batches. shared: devices will take from it. NULL: begin makes it. */
  adj_status (*fill_queue)(void *state, bool shared, adji_queue *queue);
  /* A pass begins. A device that fails here takes no part in the pass. The pass stays valid until end. */
  adj_status (*begin)(void *state, adji_run *run, const adji_pass *pass);
  /* The cores: does a batch. lane < threads of the context: for buffers a lane. Adds to tally, which is the lane's.
   * NULL: these cores compute nothing, and their lanes only help devices. */
  adj_status (*process)(void *state, const adji_batch *batch, uint32_t lane, adji_tally *tally);
  /* A device: takes batches and does them until there are none. When it fails, others do those that are not done. */
  adj_status (*drain)(void *state, adji_feed *feed);
  /* A device without others: does all queries, in its own order and without a queue. */
  adj_status (*alone)(void *state, adji_tally *tally);
  /* A pass that was begun is over; adds to the run's statistics. NULL: nothing to do. */
  void (*end)(void *state, adji_run *run);
  void (*destroy)(void *state);
  /* The cores, after the drain and before the end: put together what was found in parts. In a single evaluation these
   * are the parts of all workers, in brute force those of several segments. NULL: nothing to do. */
  adj_status (*gather)(void *state, adji_run *run, const struct adji_active *active);
  /* A device, in a single evaluation, before its end. How many entries of each row it found; these rows, each in the
   * wanted order, with sums in the place of distances. They fail if the drain did. NULL: it cannot evaluate once. */
  adj_status (*counts)(void *state, adji_run *run, uint32_t *counts);
  adj_status (*rows)(void *state, adji_run *run, const adji_window *to);
  /* Before these, if pairs were kept: the device takes over what the cores found. Counts and rows are then those of the
   * whole result, with distances. ADJ_E_DEVICE_MEMORY: it has no room for that, and goes on without. */
  adj_status (*add)(void *state, adji_run *run, const adji_found *found);
  /* A device that counted alone: where each row begins (left count + 1 entries). NULL: degrees are added up instead. */
  adj_status (*offsets)(void *state, adji_run *run, uint64_t *offsets);
  /* A device alone may begin to fill the next window before the last one was delivered. May be NULL; failures wait for
   * the pass that fills it. */
  void (*prefetch)(void *state, adji_run *run, const adji_window *window);
} adji_worker;

/* The workers that take part in a pass: the cores first, if they do. */
typedef struct adji_active {
  const adji_worker *workers[1 + ADJI_MOST_DEVICES];
  uint32_t count;
  uint8_t *done_by; /* by number of a batch: 1 + the number of the device that did it, if one did. NULL: not noted */
} adji_active;

/* The number of the first device among them. */
static inline uint32_t adji_active_devices_from(const adji_active *active) {
  return active->count && !active->workers[0]->is_device;
}
/* Whether cores compute, and not only devices. */
static inline bool adji_active_computes(const adji_active *active) {
  return active->count && active->workers[0]->process;
}
static inline uint32_t adji_active_devices(const adji_active *active) {
  return active->count - adji_active_devices_from(active);
}

#endif
