/* SPDX-License-Identifier: MIT
 *
 * Workers compute a join. The cores together are one worker, and every device is one. A run makes one or two passes
 * over the queue of queries. In each pass the workers drain the queue until it is empty (queue/scheduler.h).
 */
#ifndef ADJI_WORKER_H
#define ADJI_WORKER_H

#include "queue/queue.h"
#include "queue/run.h"
#include "result/result.h"
#include "result/rows.h"

typedef enum adji_pass_kind {
  ADJI_PASS_COUNT, /* the number of neighbours of each query */
  ADJI_PASS_FILL,  /* the rows of a window                   */
  /* Single evaluation: each pair is found once, from one of its two points, and counts for both. In a self-join this is
   * the point that comes first in the order of the queries. Workers count the pairs, and keep them if there is a result
   * to fill. */
  ADJI_PASS_SINGLE
} adji_pass_kind;

/* One pass over the queue. */
typedef struct adji_pass {
  adji_pass_kind kind;
  const char *name; /* for the trace and progress: "count", "join" */
  uint64_t queries;
  adji_queue *queue;
  const uint32_t *order; /* the i-th query is row order[i]; NULL: row i */
  uint32_t group;        /* kNN: queries are returned in groups of this size, which begin at its multiples */
  bool alone;            /* one worker answers all queries */
  adj_status refused;    /* why a device (the last of several) takes no part; ADJ_OK: all take part */
  bool fills;            /* counting: the rows will be filled afterwards */
  uint32_t *degrees;     /* counting: neighbours of each row; NULL: only the total is wanted */
  bool halves;           /* counting without degrees, alone: each unordered pair of a self-join may be evaluated once */
  adj_result *result;    /* single evaluation: the result to fill; NULL: degrees are wanted */
  const adji_window *window; /* filling */
  /* Filling beside other workers: the number of entries of the window in each batch, and the length of its longest
   * row. */
  const uint64_t *batch_pairs;
  uint64_t longest;
} adji_pass;

/* While a device drains the queue, it takes batches from its feed and reports to it: queue/scheduler.h. */
typedef struct adji_feed adji_feed;

/* Pairs that the cores found by single evaluation: lists of contiguous records. A record is a row, the number of its
 * ids, the ids and, where sums are wanted, as many sums of sum_words words each. Every pair occurs once, under one of
 * its two rows. */
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
  bool large_windows; /* a fill is expensive however small its window is */
  bool collects;      /* the cores: support single evaluation and gather its result */
  bool idle;          /* the cores: compute nothing; their lanes are free for loops of the devices */
  /* The cores: fills the queue with the join's batches. shared: devices will take from it. NULL: begin fills it. */
  adj_status (*fill_queue)(void *state, bool shared, adji_queue *queue);
  /* A pass begins. A device that fails here takes no part in the pass. The pass stays valid until end. */
  adj_status (*begin)(void *state, adji_run *run, const adji_pass *pass);
  /* The cores: processes a batch. lane < threads of the context; it selects the lane's buffers. Adds to tally, which
   * belongs to the lane. NULL: the cores compute nothing, and their lanes only help devices. */
  adj_status (*process)(void *state, const adji_batch *batch, uint32_t lane, adji_tally *tally);
  /* A device: takes batches and processes them until there are none. When it fails, other workers process the batches
   * that it has not finished. */
  adj_status (*drain)(void *state, adji_feed *feed);
  /* A device that is the only worker: answers all queries, in its own order and without a queue. */
  adj_status (*alone)(void *state, adji_tally *tally);
  /* Ends a pass that was begun; adds to the run's statistics. NULL: nothing to do. */
  void (*end)(void *state, adji_run *run);
  void (*destroy)(void *state);
  /* The cores, after the drain and before the end: combines partial results. In a single evaluation these come from all
   * workers, in brute force from several segments. NULL: nothing to do. */
  adj_status (*gather)(void *state, adji_run *run, const struct adji_active *active);
  /* A device, in a single evaluation, before its end. counts: how many entries of each row it found. rows: these
   * entries, each row in the wanted order, with sums in place of distances. Both fail if the drain did. NULL: it does
   * not support single evaluation. */
  adj_status (*counts)(void *state, adji_run *run, uint32_t *counts);
  adj_status (*rows)(void *state, adji_run *run, const adji_window *to);
  /* Called before counts and rows, if pairs were kept: the device takes over the pairs that the cores found. Its counts
   * and rows are then those of the whole result, with distances. ADJ_E_DEVICE_MEMORY: it has no room for these pairs
   * and continues without them. */
  adj_status (*add)(void *state, adji_run *run, const adji_found *found);
  /* A device that counted alone: writes where each row begins (left count + 1 entries). NULL: degrees are added up
   * instead. */
  adj_status (*offsets)(void *state, adji_run *run, uint64_t *offsets);
  /* Lets a device that is alone begin to fill the next window before the last one was delivered. May be NULL. A failure
   * is reported by the pass that fills the window. */
  void (*prefetch)(void *state, adji_run *run, const adji_window *window);
} adji_worker;

/* The workers that take part in a pass: the cores first, if they take part. */
typedef struct adji_active {
  const adji_worker *workers[1 + ADJI_MOST_DEVICES];
  uint32_t count;
  uint8_t *done_by; /* per batch: 1 + the number of the device that did it, 0 for the cores. NULL: not recorded */
} adji_active;

/* The index of the first device among them. */
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
