/* SPDX-License-Identifier: MIT
 *
 * Brute force on cores, for kNN joins in many dimensions: every left point with every right point. For L2 a prefilter
 * of sketches (index/sketch.h) drops nearly all pairs at a fraction of the cost of a distance, and the canonical
 * distance decides about the rest. Other metrics, and data where sketches prove nothing, go through the canonical
 * kernels alone.
 */
#ifndef ADJI_BRUTE_H
#define ADJI_BRUTE_H

#include "core/names.h"
#include "queue/engine.h"

typedef struct adji_brute_options {
  adji_prefilter_kind
      prefilter;  /* GEMM, VNNI or AMX: refused if not available; OFF; AUTO: the fastest that is useful */
  uint64_t batch; /* queries per batch; 0: automatic */
} adji_brute_options;

/* Time of a run: O(n m dim). Memory: a sketch of dim + 4 bytes (codes) or 4 dim + 4 bytes (f32) per right point, and a
 * packed copy of points that are not stored row by row. A run needs a few megabytes per thread, and about 80 bytes for
 * each of k for each query of a batch. */
adj_status adji_brute_create(const adji_join *join, const adji_brute_options *options, adji_engine *out);

/* About how many nanoseconds a query takes one core. */
double adji_brute_query_ns(const adji_engine *engine);

/* The prefilter in use: "amx", "vnni", "gemm" or "none". */
const char *adji_brute_prefilter_name(const adji_engine *engine);

#endif
