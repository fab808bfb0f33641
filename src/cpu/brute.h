/* SPDX-License-Identifier: MIT
 *
 * Brute force on cores, for kNN joins in many dimensions: every left point with every right point. For L2 a prefilter
 * of sketches (index/sketch.h) drops nearly all pairs at a fraction of the cost of a distance, and the canonical
 * distance decides about the rest. Other metrics, and data where sketches prove nothing, go through the canonical
 * kernels alone.
 */
#ifndef ADJI_BRUTE_H
#define ADJI_BRUTE_H

#include <pthread.h>

#include "core/names.h"
#include "index/sketch.h"
#include "queue/engine.h"

/* The right points as brute force reads them, and their sketches, each made at its first use. Several joins may share a
 * base. kept: a sketch that is useless for one join stays, for other joins. Memory: a sketch of dim + 16 bytes (codes)
 * or 4 dim + 4 bytes (f32) per point, and a packed copy of points that are not stored row by row. */
typedef struct adji_brute_base {
  adj_ctx *ctx;
  bool kept;
  adji_packed right;
  pthread_mutex_t lock; /* guards the sketches */
  struct {
    bool tried, useful;
    adji_sketch sketch;
  } sketches[ADJI_PREFILTER_AMX + 1];
} adji_brute_base;

adj_status adji_brute_base_init(adj_ctx *ctx, const adj_dataset *set, bool kept, adji_brute_base *out);
void adji_brute_base_clear(adji_brute_base *base);

typedef struct adji_brute_options {
  adji_prefilter_kind prefilter; /* GEMM, VNNI or AMX: an error if not available; OFF; AUTO: the fastest useful one */
  uint64_t batch;                /* queries per batch; 0: automatic */
} adji_brute_options;

/* base: an adji_brute_base. Time of a run: O(n m dim). Memory of a run: a few megabytes per thread, and about 80 * k
 * bytes for each query of a batch. */
adj_status adji_brute_create(const adji_join *join, const adji_lent *base, const adji_brute_options *options,
                             adji_engine *out);

/* The nanoseconds that one core takes for a query, about. adji_brute_query_ns() computes them from the costs of steps.
 * adji_brute_try() measures them in a trial of some queries, if these are a small part of the join. */
double adji_brute_query_ns(const adji_engine *engine);
adj_status adji_brute_try(adji_engine *engine, double *query_ns);

/* Whether the join of two sets can be a mutual one (result/rows.h), as far as is known before it begins. Of a
 * self-join: whether the joins of these points with others can. Memory of such a run: about 16 k + 300 bytes per right
 * point and dim + 16 bytes per left point more than others. */
bool adji_brute_can_be_mutual(const adji_engine *engine);

/* The prefilter in use: "amx", "vnni", "gemm" or "none". */
const char *adji_brute_prefilter_name(const adji_engine *engine);

#endif
