/* SPDX-License-Identifier: MIT
 *
 * Algorithms and settings of the cores that tests vary. None may change a result.
 */
#ifndef ADJOIN_TEST_TUNINGS_H
#define ADJOIN_TEST_TUNINGS_H

#include "cases.h"

enum { MOST_TUNINGS = 48 };

/* The algorithms that fit a case. NULL, the planner's choice, comes first. */
static inline int algorithms_for(const join_case *c, const char *const **names) {
  static const char *const range[] = {NULL, "grid", "ego", "kdtree", "brute"}, *const nearest[] = {NULL, "kdtree",
                                                                                                   "brute"};
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
    "indexed=10",
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
    "staged=on",
    "staged=on,batch=3,buffer=512",
    "staged=on,test.boxes=on",
    "test.boxes=on",
    "test.boxes=off",
    "sample=1",
    "prefilter=codes",
    "prefilter=off",
    "single=on,batch=3,buffer=512",
    "indexed=2,cell=1,fine=3,batch=5",
    "single=off,indexed=1,fine=4,test.boxes=on",
    "prefilter=codes,batch=9",
    "paper.dual=on",
    "paper.dual=on,paper.threads=producer,paper.sort=qsort,paper.leaf=5",
    "paper.dual=on,paper.leaf=1,batch=7,buffer=4096",
    "paper.dual=on,paper.reorder=off,cell=1.7,paper.threads=producer,buffer=512",
};

/* The same for kNN joins: leaves, batches and buffers of any size, every prefilter of brute force. */
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
    "paper.queue=points",
    "paper.queue=cells",
    "paper.queue=cells,batch=5",
    "prefilter=off",
    "prefilter=gemm",
    "prefilter=vnni",
    "prefilter=amx",
    "prefilter=gemm,batch=3,buffer=10000",
};

enum {
  RANGE_TUNING_COUNT = sizeof RANGE_TUNINGS / sizeof *RANGE_TUNINGS,
  NEAREST_TUNING_COUNT = sizeof NEAREST_TUNINGS / sizeof *NEAREST_TUNINGS
};
_Static_assert((int)RANGE_TUNING_COUNT <= (int)MOST_TUNINGS && (int)NEAREST_TUNING_COUNT <= (int)MOST_TUNINGS,
               "room for the use of every tuning");

/* The settings that fit a case. NULL, the defaults, comes first. */
static inline int tunings_for(const join_case *c, const char *const **tunings) {
  *tunings = c->k ? NEAREST_TUNINGS : RANGE_TUNINGS;
  return c->k ? NEAREST_TUNING_COUNT : RANGE_TUNING_COUNT;
}

#endif
