/* SPDX-License-Identifier: MIT
 *
 * What test_cases and test_random vary: contexts of every instruction set and several numbers of
 * threads, algorithms, and the settings of the planner.
 */
#ifndef ADJOIN_TEST_MACHINE_H
#define ADJOIN_TEST_MACHINE_H

#include "check.h"
#include "compare.h"

enum { MOST_CONTEXTS = 16, MOST_THREADS = 3 };

typedef struct machine {
  adj_ctx *contexts[MOST_CONTEXTS]; /* one per instruction set and 1 to MOST_THREADS threads */
  int context_count;
} machine;

/* What a case can be joined with; NULL, the planner's choice, comes first. */
static inline int algorithms_for(const join_case *c, const char *const **names) {
  static const char *const range[] = {NULL, "grid", "ego", "brute"}, *const nearest[] = {NULL, "kdtree", "brute"};
  *names = c->k ? nearest : range;
  return c->k ? (int)(sizeof nearest / sizeof *nearest) : (int)(sizeof range / sizeof *range);
}

/* Settings that must not change any result: thin and wide cells, few and many slabs, batches and
 * buffers that are far too small. */
static const char *const RANGE_TUNINGS[] = {
    NULL,
    "indexed=1",
    "indexed=2",
    "indexed=3",
    "indexed=5",
    "paper.reorder=on",
    "paper.reorder=off",
    "paper.reorder=off,indexed=2",
    "paper.reorder=on,indexed=3",
    "indexed=8",
    "cell=1",
    "cell=1.7",
    "cell=3",
    "fine=1",
    "fine=2",
    "fine=5",
    "batch=1",
    "batch=7",
    "buffer=1",
    "batch=100000",
    "buffer=4096",
    "single=on",
    "single=off",
    "test.boxes=on",
    "test.boxes=off",
    "sample=1",
    "prefilter=codes",
    "prefilter=off",
    "single=on,batch=3,buffer=512",
    "indexed=2,cell=1,fine=3,batch=5",
    "single=off,indexed=1,fine=4,test.boxes=on",
    "prefilter=codes,batch=9",
};

/* The same of kNN joins: leaves, batches and buffers of any size, every filter of brute force. */
static const char *const NEAREST_TUNINGS[] = {
    NULL,
    "batch=1",
    "batch=7",
    "batch=100000",
    "buffer=5000",
    "buffer=40000",
    "test.leaf=16",
    "test.leaf=32",
    "test.leaf=64",
    "paper.queue=off",
    "test.leaf=16,paper.queue=off,batch=5",
    "prefilter=off",
    "prefilter=gemm",
    "prefilter=vnni",
    "prefilter=amx",
    "prefilter=gemm,batch=3,buffer=10000",
};

static inline void machine_start(machine *m) {
  memset(m, 0, sizeof *m);
  uint32_t i = 0;
  do /* there is one at least */
    for (uint32_t threads = 1; threads <= MOST_THREADS; threads++) {
      assert_true(m->context_count < MOST_CONTEXTS);
      m->contexts[m->context_count++] = context_of(threads, adj_isa_name(i));
    }
  while (adj_isa_name(++i));
}

/* Settings for a case, one for each turn. Those that it cannot have are refused. */
static inline int tunings_for(const join_case *c, const char *const **tunings) {
  *tunings = c->k ? NEAREST_TUNINGS : RANGE_TUNINGS;
  return (int)(c->k ? sizeof NEAREST_TUNINGS / sizeof *NEAREST_TUNINGS : sizeof RANGE_TUNINGS / sizeof *RANGE_TUNINGS);
}

/* Everything the runs took must have been given back. */
static inline void machine_stop(machine *m) {
  for (int i = 0; i < m->context_count; i++) {
    assert_int_equal(adj_ctx_memory_used(m->contexts[i]), 0);
    adj_ctx_destroy(m->contexts[i]);
  }
}

static inline const char *name_or(const char *name, const char *otherwise) {
  return name ? name : otherwise;
}

static inline void print_failure(const join_case *c, const adj_ctx *ctx, const join_setup *setup, const char *message) {
  static const char *const orders[] = {"id", "distance", "any"};
  print_message(
      "%s\n    %u-D, %llu x %llu points, k %u, radius %a, metric %d, p %g, box %g, flags %u; backend %d, %s, %s, %u "
      "threads, order "
      "%s, tuning %s%s\n    %s\n",
      c->name, c->left.dim, (unsigned long long)c->left.count, (unsigned long long)c->right.count, c->k, c->radius,
      (int)c->metric, c->p, c->box_count ? c->box[0] : 0, c->flags, (int)setup->backend,
      name_or(setup->algorithm, "auto"), adj_ctx_isa(ctx), adj_ctx_threads(ctx), orders[setup->order],
      name_or(setup->tuning, "none"), setup->distances ? ", with distances" : "", message);
}

#endif
