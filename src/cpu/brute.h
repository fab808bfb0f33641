/* SPDX-License-Identifier: MIT
 *
 * Brute force on cores, for kNN joins in many dimensions: every left point with every right point. For L2
 * a filter of sketches (index/sketch.h) drops nearly all of them at a fraction of the cost of a
 * distance; the canonical distance decides on the rest. Other metrics, and data that sketches tell
 * nothing about, go through the canonical kernels alone.
 */
#ifndef ADJI_BRUTE_H
#define ADJI_BRUTE_H

#include "queue/join.h"

typedef enum adji_brute_filter {
  ADJI_FILTER_AUTO = 0, /* the quickest that this machine has and that tells something */
  ADJI_FILTER_NONE,
  ADJI_FILTER_GEMM, /* products of f32                  */
  ADJI_FILTER_VNNI, /* products of 8-bit codes          */
  ADJI_FILTER_AMX   /* the same, in tiles               */
} adji_brute_filter;

typedef struct adji_brute_options {
  adji_brute_filter filter; /* one that cannot be had is refused                        */
  uint64_t batch;           /* queries a batch; 0: decides by itself                    */
} adji_brute_options;

/* Time of a run: O(n m dim). Memory: a sketch of dim + 4 bytes (codes) or 4 dim + 4 bytes (f32) a right
 * point, a packed copy of points that do not lie row by row; while it runs, a few megabytes a thread, and
 * about 80 bytes for each of k for each query of a batch. */
adj_status adji_brute_create(const adji_join *join, const adji_brute_options *options, adji_engine *out);

/* How long a query takes a core, about. */
double adji_brute_query_ns(const adji_engine *engine);

/* The filter at work: "amx", "vnni", "gemm" or "none". */
const char *adji_brute_filter_name(const adji_engine *engine);

#endif
